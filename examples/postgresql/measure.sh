# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# The measurements of `run`: one run of a workload, cachegrind as three meters, interleaved timing, the table and the claims. Uses these variables of
# `run`: work, results, rows, as_user, and the descriptions of the rows.

# Cachegrind's first-level instruction cache as a meter: SIZE,WAYS,LINE.
declare -A geometry=(
    [itlb]=262144,64,4096       # 64 entries of 4 KiB, fully associative: misses are iTLB misses
    [pages]=67108864,16,4096    # nothing is ever evicted: misses are the pages touched
    [l1i]=32768,8,64            # a common L1I
)

no_errors() { # log of the server
    if grep -E 'ERROR|FATAL|PANIC' "$1"; then return 1; fi
}

# Runs once on a fresh copy of the same data. Prints the server's errors and the tool's output, then the user time in seconds.
in_fresh_data() { # workload, command that ends in the server's binary...
    local workload=$1 run status=0
    shift
    run=$(mktemp -d "$work/run.XXXXXX")
    cp -a "$work/data" "$run/data"
    (
        cd "$run"
        TIMEFORMAT=%3U
        { time "${as_user[@]}" "$@" --single -D "$run/data" postgres <"$workload" >output 2>errors; } 2>user-time
    ) || status=$?
    no_errors "$run/errors" || status=1
    cat "$run/errors" "$run/user-time"
    rm -rf "$run"
    return "$status"
}

measure_rows() {
    local row meter
    measured_with="$(valgrind --version) $(digest "$work/workload.sql" "$work/steps/data")"
    declare -gA figure
    for row in "${rows[@]}"; do
        for meter in itlb pages l1i; do
            figure[$row.$meter]=$(cachegrind_misses "$row" "$meter")
        done
    done
}

# Rows with the same bytes are measured only once.
cachegrind_misses() { # row, meter
    local kept
    kept=$work/meters/$(digest "$(binary "$1")" - <<<"$measured_with").$2
    if [[ ! -e $kept ]]; then
        say "cachegrind $2: $1"
        in_fresh_data "$work/workload.sql" valgrind --tool=cachegrind --cache-sim=yes --I1="${geometry[$2]}" \
            --cachegrind-out-file=/dev/null "$(binary "$1")" >"$work/logs/cachegrind"
        sed -n 's/.*I1  *misses: *//p' "$work/logs/cachegrind" | tr -d ', ' >"$kept.unfinished"
        [[ $(<"$kept.unfinished") =~ ^[0-9]+$ ]] || fail "cachegrind printed no I1 misses; see $work/logs/cachegrind"
        mv "$kept.unfinished" "$kept"
    fi
    cat "$kept"
}

# Every round runs every row once, in alternating direction. A ratio compares two runs of the same round.
time_rows() {
    local row binaries=()
    for row in "${rows[@]}"; do binaries+=("$(binary "$row")"); done
    step timing "$(digest "${binaries[@]}" "$work/steps/data" "$work/workload-timed.sql") $rounds ${rows[*]}" run_timing
    for row in "${rows[@]}"; do
        read -r "figure[$row.memory]" "figure[$row.memory_ratio]" "figure[$row.time_ratio]" "figure[$row.time_spread]" \
            < <(summarise_timing "$row" "${row_baseline[$row]}" <"$results/timing.tsv")
    done
}

run_timing() {
    local round row lines
    local load
    echo "timing: $rounds rounds of ${#rows[@]} programs"
    for ((round = 0; round < rounds; round++)); do
        for row in $(printf '%s\n' "${rows[@]}" | if ((round % 2)); then tac; else cat; fi); do
            in_fresh_data "$work/workload-timed.sql" /usr/bin/time -f %M "$(binary "$row")" >"$work/timing-run"
            mapfile -t lines < <(tail -n 2 "$work/timing-run")
            printf '%s\t%s\t%s\t%s\n' "$round" "$row" "${lines[1]}" "${lines[0]}"
        done
    done | tee "$results/timing.tsv.unfinished"
    mv "$results/timing.tsv.unfinished" "$results/timing.tsv"
    read -r _ load _ </proc/loadavg
    echo "$load" >"$results/load"
}

# Prints the median peak RSS in KiB, its median ratio, and the median ratio and quartiles of user time.
summarise_timing() { # row, baseline row; timing.tsv on standard input
    awk -F '\t' -v row="$1" -v baseline="$2" '
        $2 == row { time[$1] = $3; memory[$1] = $4 }
        $2 == baseline { base_time[$1] = $3; base_memory[$1] = $4 }
        function quantile(values, n, q,    i, j, keep, at) {
            for (i = 2; i <= n; i++) {
                keep = values[i]
                for (j = i - 1; j >= 1 && values[j] > keep; j--) values[j + 1] = values[j]
                values[j + 1] = keep
            }
            at = 1 + (n - 1) * q
            i = int(at)
            return values[i] + (at - i) * ((i < n ? values[i + 1] : values[i]) - values[i])
        }
        END {
            for (r in time) {
                n++
                kib[n] = memory[r]
                memory_ratio[n] = memory[r] / base_memory[r]
                time_ratio[n] = time[r] / base_time[r]
            }
            printf "%.0f %.3f %.3f %.3f–%.3f\n", quantile(kib, n, .5), quantile(memory_ratio, n, .5),
                quantile(time_ratio, n, .5), quantile(time_ratio, n, .25), quantile(time_ratio, n, .75)
        }'
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

grouped() { sed -E ':again; s/^([0-9]+)([0-9]{3})/\1,\2/; t again' <<<"$1"; }

ratio_to_baseline() { ratio "${figure[$1.$2]}" "${figure[${row_baseline[$1]}.$2]}"; } # row, meter

write_table() {
    local row meter
    {
        echo "| program | iTLB misses | ratio | pages touched | ratio | L1I misses | ratio | peak RSS, MiB | ratio | user time, ratio (quartiles) |"
        echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        for row in "${rows[@]}"; do
            printf '| %s |' "${row_title[$row]}"
            for meter in itlb pages l1i; do
                printf ' %s | %s |' "$(grouped "${figure[$row.$meter]}")" "$(ratio_to_baseline "$row" "$meter")"
            done
            awk -v kib="${figure[$row.memory]}" 'BEGIN { printf " %.1f |", kib / 1024 }'
            printf ' %s | %s (%s) |\n' "${figure[$row.memory_ratio]}" "${figure[$row.time_ratio]}" "${figure[$row.time_spread]}"
        done
        echo
        echo "Ratios compare with the same linker's input order. Cachegrind counted the misses over $transactions transactions, the same"
        echo "that were recorded. The iTLB has 64 entries of 4 KiB, the L1I 32 KiB in 8 ways. Peak RSS and user time are medians of $rounds"
        echo "interleaved rounds over $((transactions * timed_repeats)) transactions, at a load average of $(<"$results/load"). The quartiles are those of the rounds' ratios."
        if cmp -s "$(binary lld-sediment-default)" "$(binary lld-sediment-cdsort)"; then
            echo "The last two rows are the same bytes: how far their times lie apart is the noise of this machine."
        fi
    } >"$results/table.md"
}

# Compares the figures with sediment's claims; fails if one is missed.
judge_claims() {
    local linker row title limit missed=0
    {
        echo "| program | claim | measured | |"
        echo "|---|---|--:|---|"
    } >"$results/claims.md"
    for linker in "${linkers[@]}"; do
        row=$linker-sediment-default
        title=${linker_title[$linker]}
        limit=0.33
        [[ $linker != lld ]] || limit=0.31
        claim "$title" "iTLB misses, of its input order" "$(ratio_to_baseline "$row" itlb)" "at most" "$limit"
        claim "$title" "pages touched, of its input order" "$(ratio_to_baseline "$row" pages)" "at most" 0.60
        claim "$title" "weight of the profile placed as ordered, in percent" "$(percent_placed "$row")" "at least" 99
        if [[ $linker == lld ]]; then
            claim "$title" "iTLB misses of our CDSort, of those of lld's own CDSort" \
                "$(ratio "${figure[lld-sediment-cdsort.itlb]}" "${figure[lld-cdsort.itlb]}")" "at most" 1.02
        fi
    done
    cat "$results/claims.md" >&2
    [[ $missed -eq 0 ]] || fail "$missed claims are missed"
}

percent_placed() { # row
    sed -n 's/.*"weight_placed_percent": *\([0-9.]*\).*/\1/p' "$results/verify-$1.json"
}

claim() { # program, what, figure, "at most" or "at least", limit
    local verdict=met
    # A missing figure also fails the claim.
    if ! awk -v figure="$3" -v relation="$4" -v limit="$5" \
        'BEGIN { exit !(figure != "" && (relation == "at most" ? figure + 0 <= limit + 0 : figure + 0 >= limit + 0)) }'; then
        verdict=MISSED
        missed=$((missed + 1))
    fi
    echo "| $1 | $2: $4 $5 | $3 | $verdict |" >>"$results/claims.md"
}

# Tools and inputs of the figures: name, tab, version or checksum.
write_provenance() {
    local linker
    {
        printf 'system\t%s, %s\n' "$(. /etc/os-release && echo "$PRETTY_NAME")" "$(uname -m)"
        printf 'processor\t%s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
        printf 'PostgreSQL\t%s\n' "$(<"$work/version")"
        printf 'compiler\t%s; %s\n' "$(gcc --version | head -n 1)" "$(compile_flags sections)"
        for linker in "${linkers[@]}"; do printf 'linker\t%s\n' "${linker_title[$linker]}"; done
        printf 'valgrind\t%s\n' "$(valgrind --version)"
        printf 'sediment\t%s\n' "$("$sediment" --version)"
    } >"$results/tools.tsv"
    {
        (cd "$work/source-package" && sha256sum ./*.dsc ./*.tar.*)
        (cd "$work" && sha256sum workload.sql)
        (cd "$here" && sha256sum schema.sql)
        (cd "$results" && sha256sum callgrind.out postgresql.gv orders/*)
    } | awk '{ sub(/^\.\//, "", $2); printf "%s\t%s\n", $2, $1 }' >"$results/inputs.tsv"
}
