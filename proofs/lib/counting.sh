# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Counts with valgrind's tools: command lines to put before a program, and figures from the tools' output. proof.sh sources this file.

# First-level instruction caches for cachegrind, by the name of the meter: iTLBs by number of entries, L1I, and fetched lines.
declare -A geometry=([32]=131072,32,4096 [64]=262144,64,4096 [128]=524288,128,4096 [l1i]=32768,8,64 [lines]=67108864,16,64 [l1i-full]=32768,512,64)
# A second level that never evicts, so its misses are the touched pages.
second_level=67108864,16,4096

# Records calls and a trace; a log file follows.
lackey=(valgrind --tool=lackey --trace-superblocks=yes --vex-guest-chase=no --trace-sched=yes -v -v)
# Counts calls, and also instructions by address; an output file follows.
counting_calls=(valgrind --tool=callgrind --demangle=no)
counting_blocks=("${counting_calls[@]}" --dump-instr=yes)
# Counts instructions by address in the form that cold-share reads; an output file follows.
counting_addresses=(valgrind --tool=callgrind --dump-instr=yes --compress-pos=no)

# Sets `counting`, the command line that counts misses of a cache.
count_by() { # meter, or a cache in cachegrind's format; log
    counting=(valgrind --tool=cachegrind --cache-sim=yes "--I1=${geometry[$1]:-$1}" "--LL=$second_level" --cachegrind-out-file=/dev/null "--log-file=$2")
}

misses_in() { sed -n 's/.*I1  *misses: *//p' "$1" | tr -d ', '; } # cachegrind's log: prints the misses of the first level
pages_in() { sed -n 's/.*LLi misses: *//p' "$1" | tr -d ', '; }   # cachegrind's log: prints the misses of the second level

# Keeps the misses of a log in a file, or ends the proof.
keep_misses() { # cachegrind's log, file
    misses_in "$1" >"$2"
    [[ $(<"$2") =~ ^[0-9]+$ ]] || { rm "$2"; stop 1 "no figure in $1"; }
}

# Prints instructions, misses, and touched pages; fails if the log does not contain them.
counts_in() { # cachegrind's log
    awk '
        /I +refs:/ { gsub(",", ""); refs = $NF }
        /I1  misses:/ { gsub(",", ""); misses = $NF }
        /LLi misses:/ { gsub(",", ""); pages = $NF }
        END { if (refs == "") exit 1; printf "%.0f %.0f %.0f\n", refs, misses, pages }' "$1"
}

# Prints the number of instructions executed in a program's cold parts, and in the whole process.
cold_share() { # program, output of counting_addresses, option…
    "$proofs/inputs/blocks/cold-share" "${@:3}" "$1" "$2"
}
