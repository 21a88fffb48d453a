# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Experiments that count cycles of the programs in programs.sh with hardware counters. Each program runs as fresh copies of its files. Without
# counters, the experiments measure CPU time, with other numbers of copies. A script sources this file after programs.sh. The script sets $here,
# the folder of the experiments, and defines the function `measured PROGRAM LAYOUT`, which prints the path of a file.

events=(cycles instructions iTLB-loads iTLB-load-misses L1-icache-load-misses)

# Selects CPU time if cycles cannot be counted. Ends the proof if its document already contains cycles.
count_cycles_or_time() { # document, blocks by CPU time
    mkdir -p "$here"
    ! counts_cycles || return 0
    if grep -q '^| .*| cycles |' "$1" 2>/dev/null; then
        stop 1 "not run: this machine has no counters; docs/proofs/${1##*/} has the figures of a machine with counters"
    fi
    events=()
    blocks=${BLOCKS:-$2}
}

# Succeeds if this machine's processor counts cycles.
counts_cycles() {
    command -v perf >/dev/null || return 1
    perf stat -x, -e cycles -o "$here/probe" true 2>/dev/null && grep -q '^[0-9][0-9.]*,' "$here/probe"
}

# Runs the experiments of a program, one for each workload.
experiments() { # program
    local workload layout links=()
    for layout in "${layouts[@]}"; do links+=("$(measured "$1" "$layout")"); done
    for workload in $(tested "$1"); do
        plan "$1" "$workload" >"$here/$1.$workload.toml"
        experiment "$here/$1.$workload.toml" "$here/$1.$workload.jsonl" "${links[@]}" "$here/$1.$workload.input"
    done
}

# Prints statements of the kinds in programs.sh, for about a second of work.
long_statements() { # record, tpcb or reports
    case $1 in
    record) rounds=5 statements many ;;
    tpcb) awk -v count=5000 -f "$repository/examples/postgresql/transactions.awk" ;;
    reports) awk -v count=400 -v first=77001 -f "$inputs/reports-tested.awk" ;;
    esac
}

# Prints the plan of one experiment, and writes its input to the same folder.
plan() { # program, workload
    local layout prepare='rm -f {scratch}/copy && cp --reflink=never {program} {scratch}/copy' command environment=
    : >"$here/$1.$2.input"
    case $1 in
    postgresql)
        long_statements "$2" >"$here/$1.$2.input"
        prepare="rm -rf {scratch}/data && cp -a $cache/postgresql/data {scratch}/data && $prepare"
        command='"{scratch}/copy", "--single", "-F", "-D", "{scratch}/data", "postgres"'
        # PostgreSQL refuses to run as root.
        [[ $EUID -ne 0 ]] || command='"unshare", "--user", "--map-user=1000", '$command
        ;;
    sqlite3)
        local round
        for round in {1..40}; do printf '.open :memory:\n' && cat "$inputs/sqlite3.$2.sql"; done >"$here/$1.$2.input"
        command='"{scratch}/copy", ":memory:"'
        ;;
    python)
        command='"env", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHOME='$(tree python)'", "PYTHONPATH='$(tree python)'/Lib", "{scratch}/copy", "-S", "-c"'
        command+=", \"for _ in range(10): exec(open('$inputs/python.$2.py').read(), {'__name__': 'work'})\""
        ;;
    cppcheck)
        local sources=(cli/threadexecutor.cpp gui/checkstatistics.cpp gui/csvreport.cpp test/cfg/openmp.c test/cfg/lua.c)
        [[ $2 != other ]] || sources=(lib/timer.cpp lib/color.cpp tools/dmake.cpp test/cfg/sqlite3.c test/cfg/bsd.c)
        prepare="ln -sfn $(tree cppcheck)/cfg {scratch}/cfg && $prepare"
        command='"{scratch}/copy", "-q", "--enable=all", "--inconclusive"'$(printf ", \"$(tree cppcheck)/%s\"" "${sources[@]}")
        ;;
    esac
    cat <<PLAN
sediment-eval = 1
name = "$1, $2"
baseline = "$baseline"
primary = "${events[0]:-cpu-time}"

[run]
blocks = $blocks
pilot = $blocks
$([[ ${#events[@]} -eq 0 ]] || echo "counters = [$(printf '"%s", ' "${events[@]}")]")

[[workload]]
name = "$2"
prepare = "$prepare"
command = [$command]
input = "$here/$1.$2.input"
PLAN
    for layout in "${layouts[@]}"; do
        printf '\n[[variant]]\nname = "%s"\nprogram = "%s"\n' "$layout" "$(measured "$1" "$layout")"
    done
}

# Adds the tools of these experiments to the list.
list_tools() {
    [[ -z ${MEASURE_WITH:-} ]] || tool "measured with" "$MEASURE_WITH"
    tools processor
    [[ ${#events[@]} -eq 0 ]] || tools perf
    tools lld compiler="$flags" sediment
}

# Writes the reports of a program's experiments, and adds their titles and files to `reports`.
write_reports() { # program
    local workload
    for workload in $(tested "$1"); do
        "$sediment" eval report "$here/$1.$workload.jsonl" --format json >"$here/$1.$workload.json"
        reports+=("$1, $workload=$here/$1.$workload.json")
    done
}

# Prints a note about the events, if they were counted.
note_events() {
    [[ ${#events[@]} -eq 0 ]] || echo "What the iTLB's events count differs between processors: [measuring](../measuring.md#hardware-counters)."
}

# Prints the introduction to figures of CPU time.
introduce_cpu_time() {
    cat <<'CPU_TIME'

## CPU time

User and system time of the same programs, on the processor named below. It needs no counters, and is no substitute for them.

CPU_TIME
}
