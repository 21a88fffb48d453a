# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# Medians, quartiles and times of commands. Sourced by proof.sh.

# Prints the median of numbers on standard input, a line each; of an even number of them the lower one.
middle() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

# Prints the median and, in parentheses, the quartiles of numbers on standard input.
spread() { # decimal places
    sort -n | awk -v digits="$1" '{ a[NR] = $1 }
        END { q = int((NR + 3) / 4); d = "%." digits "f"; printf d " (" d "–" d ")", a[int((NR + 1) / 2)], a[q], a[NR + 1 - q] }'
}

column() { awk -v n="$2" '{ print $n }' "$1" | spread "$3"; } # file, field, decimal places: prints the spread of a field

ratio_of() { awk -v a="$1" -v b="$2" -v digits="$3" 'BEGIN { printf "%." digits "f", a / b }'; } # two numbers, decimal places

# Times two commands in turn, without their output. Sets `direct` and `through`, the medians in microseconds.
time_in_turn() { # rounds, two functions
    local round start first=() second=()
    for ((round = 0; round < $1; round++)); do
        start=$EPOCHREALTIME; "$2" >/dev/null 2>&1 || true; first+=($((${EPOCHREALTIME/./} - ${start/./})))
        start=$EPOCHREALTIME; "$3" >/dev/null 2>&1 || true; second+=($((${EPOCHREALTIME/./} - ${start/./})))
    done
    direct=$(printf '%s\n' "${first[@]}" | middle) through=$(printf '%s\n' "${second[@]}" | middle)
}
