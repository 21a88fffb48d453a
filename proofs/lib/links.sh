# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Programs linked with lld and with GNU ld, in input order and in sediment's default order, and the misses of all processes that they start. A script
# sources this file first; this file sources programs.sh. The folder of the work is the folder of the proof predict, which makes the profiles.

source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"

work=$cache/predict

linked() { echo "$work/links/$1-$2-$3/$1"; } # program, linker, order: prints the path of a linked program

# Links a program with a linker (lld or gnu-ld-script) in an order (input or auto).
place() { # program, linker, order
    local result order=$work/orders/$1.$2 options=()
    result=$(linked "$1" "$2" "$3")
    [[ ! -e $result ]] || return 0
    say "linking $1 by $2 in the order of $3"
    [[ $2 != lld ]] || options+=("$by_lld,--call-graph-profile-sort=none")
    if [[ $3 == auto ]]; then
        "$sediment" order "$work/orders/$1.gv" --binary "$(linked "$1" "$2" input)" --optimize-for steady --linker "$2" -o "$order" 2>"$work/logs/$1.$2.order"
        if [[ $2 == lld ]]; then options+=(-Wl,--symbol-ordering-file,"$order"); else options+=(-Wl,-T,"$order"); fi
    fi
    link_program "$1" "$result" "$work/logs/$1.$2.$3.link" "${options[@]}"
}

# Counts instruction cache misses in all processes of a binary that a workload starts.
count_misses() { # program, workload, binary, meter, file for the sum
    local log=$work/runs/$1.cachegrind counting
    rm -f "$log".*
    count_by "$4" "$log.%p"
    run "$1" "$2" "$3" "${counting[@]}" --trace-children=yes 2>/dev/null
        # Shells that start the program are not counted.
    grep -l -F "Command: $3" "$log".* | xargs cat | awk '/I1  misses:/ { gsub(",", ""); misses += $NF } END { if (misses == "") exit 1; print misses }' >"$5.new"
    mv "$5.new" "$5"
    rm -f "$log".*
}
