# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Experiments with `sediment eval` that can be interrupted and continued. proof.sh sources this file.

# Runs a plan, or continues an interrupted run. If the plan or an input of its builds has changed, starts again. EVAL_OPTIONS are added to both
# commands, such as "--blocks 2" for a trial. If as_user and MEASURE_WITH are set, these commands run everything.
experiment() { # plan, file, inputs...
    local plan=$1 file=$2 sum
    shift 2
    sum=$(cat "$plan" "$@" | sha256sum | cut -c1-64)
    if [[ -e $file && $(cat "$file.inputs" 2>/dev/null) != "$sum" ]]; then
        say "the plan or its inputs have changed: beginning anew"
        rm -rf "$file" "$file.build"
    fi
    printf '%s\n' "$sum" >"$file.inputs"
    # shellcheck disable=SC2086 # options are words
    if [[ -e $file ]]; then
        ${MEASURE_WITH:-} ${as_user[@]+"${as_user[@]}"} "$sediment" eval resume "$file" ${EVAL_OPTIONS:-} >/dev/null
    else
        ${MEASURE_WITH:-} ${as_user[@]+"${as_user[@]}"} "$sediment" eval run "$plan" -o "$file" ${EVAL_OPTIONS:-} >/dev/null
    fi
}
