# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Layouts of the programs: recordings with lackey, links with lld in its own orders and in sediment's orders, and BOLT. A script sources this file
# first; this file sources programs.sh.

source "$(dirname "${BASH_SOURCE[0]}")/programs.sh"

# Interpreters with jump tables that BOLT 19 cannot follow in a position-independent program.
declare -A skipped=([postgresql]=ExecInterpExpr/1 [python]=_PyEval_EvalFrameDefault,sre_ucs1_match/1,sre_ucs2_match/1,sre_ucs4_match/1)
# BOLT's options to order blocks and to split off cold blocks.
by_blocks=(-reorder-blocks=ext-tsp -split-functions -split-all-cold -split-eh)

# Builds a program, links it in its input order, and records it.
build_and_record() { # program
    need_program "$1"
    link "$1" input
    record "$1"
}

# Records the calls and the trace of a program that is linked in its input order.
record() { # program
    [[ ! -e $work/orders/$1.gv ]] || return 0
    say "recording $1"
    record_run "$1" record "$work/orders/$1.gv" "$work/orders/$1.trace" "$work/logs/$1"
}

# Records a workload of a program with lackey: a profile and a trace.
record_run() { # program, workload, profile, trace, beginning of the logs' names
    local log=$work/runs/$1.$2.lackey binary
    binary=$(binary "$1" input)
    run "$1" "$2" "$binary" "${lackey[@]}" --log-file="$log" 2>"$5.record"
    "$sediment" import "$log" -o "$3.new" --trace "$4.new" --binary "$binary" 2>"$5.import"
    mv "$4.new" "$4"
    mv "$3.new" "$3"
    rm "$log"
}

# Links a program in an order.
link() { # program, order
    local options=
    [[ ! -e $(binary "$1" "$2") ]] || return 0
    say "linking $1 in the order of $2"
    case $2 in
    bolt-*)
        bolt "$1" "$2"
        return
        ;;
    input) options="-Wl,--call-graph-profile-sort=none" ;;
    relocations) options="-Wl,--call-graph-profile-sort=none,--emit-relocs" ;;
    c3 | cdsort)
        local sort=$2
        [[ $2 != c3 ]] || sort=hfsort
        lld_graph "$1" >"$work/orders/$1.graph"
        options="-Wl,--call-graph-ordering-file=$work/orders/$1.graph,--call-graph-profile-sort=$sort"
        ;;
    original | engine | engine-trace)
        local trace=() goal=() algorithm=${2%-trace}
        [[ $2 == original ]] || { goal=(--optimize-for steady); algorithm=auto; }
        [[ $2 != engine-trace ]] || trace=(--trace "$work/orders/$1.trace")
        "$sediment" order "$work/orders/$1.gv" --binary "$(binary "$1" input)" --algorithm "$algorithm" "${goal[@]}" "${trace[@]}" --linker lld \
            -o "$work/orders/$1.$2" 2>"$work/logs/$1.$2"
        options="-Wl,--symbol-ordering-file,$work/orders/$1.$2"
        ;;
    esac
    link_program "$1" "$(binary "$1" "$2")" "$work/logs/$1.$2.link" "$by_lld" "$options"
}

# Sets `bolt`, the command, and `skip`, its options for functions that it cannot follow.
find_bolt() { # program
    bolt=$(readlink -f "$(command -v llvm-bolt-19)") skip=()
    [[ -z ${skipped[$1]:-} ]] || skip=(-skip-funcs="${skipped[$1]}")
}

# Counts a program's recorded workload with BOLT's own instrumentation, which is exact.
count_by_bolt() { # program, program with relocations, instrumented program, file of the counts
    local bolt skip
    find_bolt "$1"
    mkdir -p "${3%/*}"
    "$bolt" "$2" -instrument "${skip[@]}" -o "$3" --instrumentation-file="$4.new" >"$work/logs/$1.counting" 2>&1
    run "$1" record "$3" env 2>>"$work/logs/$1.counting"
    mv "$4.new" "$4"
}

# Runs BOLT on a program that keeps its relocations. Orders functions with CDSort; with bolt-blocks also orders and splits their blocks.
bolt() { # program, bolt-functions or bolt-blocks
    local bolt skip before counts=$work/orders/$1.fdata how=(-reorder-functions=cdsort)
    find_bolt "$1"
    link "$1" relocations
    before=$(binary "$1" relocations)
    [[ -s $counts ]] || count_by_bolt "$1" "$before" "$(binary "$1" counting)" "$counts"
    [[ $2 != bolt-blocks ]] || how+=("${by_blocks[@]}")
    mkdir -p "$work/links/$1-$2"
    "$bolt" "$before" -o "$(binary "$1" "$2")" -data="$counts" "${skip[@]}" "${how[@]}" >"$work/logs/$1.$2.link" 2>&1
}

# Prints the calls of a profile in lld's text format: only calls between functions of the program.
lld_graph() { # program
    nm --defined-only "$(binary "$1" input)" | awk '{ print $3 }' | sort -u >"$work/orders/$1.names"
    awk -F '"' '
        NR == FNR { has[$0]; next }
        / -> / && match($0, /count=[0-9]+/) {
            from = $2; to = $4; sub(/@.*/, "", from); sub(/@.*/, "", to)
            if (from in has && to in has) print from, to, substr($0, RSTART + 6, RLENGTH - 6)
        }' "$work/orders/$1.names" "$work/orders/$1.gv"
}

# --- Figures --------------------------------------------------------------------------------------------------------

# Counts cache misses, touched pages and instructions of a workload.
count_link() { # program, workload, binary, meter, file for the figures
    local counting
    [[ ! -s $5 ]] || return 0
    count_by "$4" "$5.log"
    run "$1" "$2" "$3" "${counting[@]}" 2>/dev/null
    counts_in "$5.log" | awk '{ print $2, $3, $1 }' >"$5.new"
    mv "$5.new" "$5"
    rm "$5.log"
}

# Counts instructions that are executed in parts of a program, by address.
count_parts() { # program, workload, binary, file for the figures, option of cold-share…
    local out=$4.callgrind
    [[ ! -s $4 ]] || return 0
    run "$1" "$2" "$3" "${counting_addresses[@]}" --callgrind-out-file="$out" 2>/dev/null
    cold_share "$3" "$out" "${@:5}" >"$4.new"
    mv "$4.new" "$4"
    rm "$out"
}
