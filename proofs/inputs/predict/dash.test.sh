# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Other loops, functions and parameters.
gcd() { if [ "$2" -eq 0 ]; then value=$1; else gcd "$2" $(($1 % $2)); fi; }
for number in 12 340 4711 99999; do gcd "$number" 3628800; echo "$value"; done
name=path/to/some/file.tar.gz
i=0
until [ "$i" -ge 9000 ]; do
    base=${name##*/} stem=${base%%.*}
    i=$((i + ${#stem} - 3))
done
printf '%s %d\n' "$stem" "$i"
set -- a b c d
for argument; do printf '<%s>' "$argument"; done
