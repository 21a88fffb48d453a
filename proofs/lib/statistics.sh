# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Medians, quartiles and times of commands. proof.sh sources this file.

# Prints the median of numbers on standard input, one on each line. If their number is even, prints the lower middle number.
middle() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# Prints the median and, in parentheses, the quartiles of numbers on standard input.
spread() { # decimal places
    sort -n | awk -v digits="$1" '{ a[NR] = $1 }
        END { q = int((NR + 3) / 4); d = "%." digits "f"; printf d " (" d "–" d ")", a[int((NR + 1) / 2)], a[q], a[NR + 1 - q] }'
}

column() { awk -v n="$2" '{ print $n }' "$1" | spread "$3"; } # file, field, decimal places: prints the spread of a field

ratio_of() { awk -v a="$1" -v b="$2" -v digits="$3" 'BEGIN { printf "%." digits "f", a / b }'; } # two numbers, decimal places

# Times two commands alternately, and discards their output. Sets `direct` and `through`, the medians in microseconds.
time_in_turn() { # rounds, two functions
    local round start times=() others=()
    for ((round = 0; round < $1; round++)); do
        start=$EPOCHREALTIME; "$2" >/dev/null 2>&1 || true; times+=($((${EPOCHREALTIME/./} - ${start/./})))
        start=$EPOCHREALTIME; "$3" >/dev/null 2>&1 || true; others+=($((${EPOCHREALTIME/./} - ${start/./})))
    done
    direct=$(printf '%s\n' "${times[@]}" | middle) through=$(printf '%s\n' "${others[@]}" | middle)
}
