# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds with the counters of GCC's instrumentation and with block counts, their training, and their links in layouts. A script sources this file
# first; this file sources builds.sh.

source "$(dirname "${BASH_SOURCE[0]}")/builds.sh"

kept=$cache/pgo
# Checksum of the sources that the plugin was compiled from.
sources=$kept/plugin/sources
all_builds=(plain train own own-partial text text-partial text-copies again blocks-training blocks both-training both both-copies-training both-copies)
in_input_order="$by_lld -Wl,--call-graph-profile-sort=none"

# Makes tools, folders and compilers.
prepare_pgo() {
    need_sediment
    need_lld
    prepare_work "$(command -v gcc)" "$(command -v g++)"
}

# Sets `words`, the compiler flags of a build, and `files`, the files that it is compiled from.
words_of() { # build, program
    local counters=$kept/recordings/$2.counters use="$counted -fplugin=$kept/plugin/sediment.so -fplugin-arg-sediment-counters=$kept/recordings/$2.counters"
    words= files=("$sources" "$counters")
    case $1 in
    plain) files=() ;;
    train) words="-fprofile-generate -ftest-coverage -fprofile-update=prefer-atomic" files=() ;;
    own) words=$counted files=("$kept/recordings/$2.gcda") ;;
    own-partial) words="$counted -fprofile-partial-training" files=("$kept/recordings/$2.gcda") ;;
    text) words=$use ;;
    text-partial | again) words="$use -fprofile-partial-training $fewer" ;;
    text-copies | both-copies*) words="$use -fprofile-partial-training" ;;
    blocks*) words="-fplugin=$kept/plugin/sediment.so" files=("$sources") ;;
    both*) words="$use -fprofile-partial-training $fewer $lean" ;;
    esac
    case $1 in
    *-training) words+=" -fplugin-arg-sediment-blocks" ;;
    blocks | both*) words+=" -fplugin-arg-sediment-profile=$kept/recordings/$2.$1" files=("$sources" "$kept/recordings/$2.$1" "${files[@]:1}") ;;
    esac
}

# Compiles a build with its flags, after the training that gives it block counts.
compile_as() { # build, program
    local words files
    case $1 in blocks | both | both-copies) count_blocks "$1" "$2" ;; esac
    words_of "$1" "$2"
    compile "$1" "$2" "$words" "${files[@]}"
}

# Counts blocks for a build with another run of callgrind, in the training build with the same flags.
count_blocks() { # build, program
    compile_as "$1-training" "$2"
    link_build "$1-training" "$2" input "$in_input_order"
    count_blocks_of "$1-training" "$2" "$2.$1"
}

# Makes GCC's own counters, and their text form.
train() { # program
    local made=$kept/recordings/$1 folder=$kept/train/build/$1
    if [[ ! -s $made.gcda || $made.gcda -ot $folder/done ]]; then
        say "training $1"
        train_once "$1" "$1" record
        rm -rf "$kept/counters-of/$1"
        mkdir -p "$kept/counters-of/$1"
        (cd "$folder" && find . -name '*.gcda' -print0 | sort -z | tar -c --null -T -) | tar -x -C "$kept/counters-of/$1"
        (cd "$kept/counters-of/$1" && find . -name '*.gcda' | sort | xargs -d '\n' sha256sum) >"$made.gcda.new"
        rm -f "$made.counters"
        mv "$made.gcda.new" "$made.gcda"
    fi
    [[ ! -s $made.counters || $(<"$made.read") != "$(sha256sum <"$sediment")" ]] || return 0
    cp -a "$kept/counters-of/$1/." "$folder/"
    "$sediment" import "$folder" -o "$made.gv" 2>"$kept/logs/$1.import"
    "$sediment" export "$made.gv" --format counters -o "$made.counters.new" 2>>"$kept/logs/$1.import"
    mv "$made.counters.new" "$made.counters"
    sha256sum <"$sediment" >"$made.read"
}

# Runs a workload; GCC writes the counters next to the objects.
train_once() { # program, name of the log, workload
    link_instrumented train "$1" "$by_lld"
    find "$kept/train/build/$1" -name '*.gcda' -delete
    run_build "$1" "$3" "$(linked train "$1")" env 2>"$kept/logs/$2.training"
}

# Links a build's program in an order from a recording of the same build, or runs BOLT on it with BOLT's own counts.
place() { # build, program, layout
    local order=$kept/$1/orders/$2.$3
    [[ ! -e $(linked "$1" "$2" "$3") ]] || return 0
    at "$1"
    [[ $3 == bolt-* ]] || record "$2"
    at "$1"
    [[ $3 == ordered ]] || { link "$2" "$3"; return; }
    "$sediment" order "$kept/$1/orders/$2.gv" --binary "$(linked "$1" "$2")" --linker lld -o "$order" 2>"$kept/logs/$2.$1.order"
    link_build "$1" "$2" ordered "$by_lld -Wl,--symbol-ordering-file,$order"
}
