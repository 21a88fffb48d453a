# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Loops, arithmetic and parameters.
i=0
while [ "$i" -lt 20000 ]; do
    case $i in *7) sum=$((sum + i)) ;; *) : ;; esac
    i=$((i + 1))
done
square() { echo $(($1 * $1)); }
for word in 3 5 8; do square "$word"; done
text=abcdefgh
while [ -n "$text" ]; do text=${text#?}; done
echo "$sum"
