# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds of one program with different flags or compilers. A program is configured once, without flags. Each build gets a copy of that tree, and
# a compiler script adds the build's flags. A script sources this file first; this file sources layouts.sh. The script sets $kept, the folder of
# the work, and all_builds, the names of the builds.

source "$(dirname "${BASH_SOURCE[0]}")/layouts.sh"

all_builds=()
# GCC options to compile with counters.
counted="-fprofile-use -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch"
# Options that turn off optimisations that counters turn on, because their copies of code cost more than they gain. The second list is also used
# if blocks are split with separate block counts.
fewer="-fno-unroll-loops -fno-peel-loops"
lean="-fno-tracer -fno-split-loops -fno-unswitch-loops -fno-ipa-cp-clone -fvect-cost-model=very-cheap"

# --- Compilers ------------------------------------------------------------------------------------------------------

# Makes the folders of the work, and compilers with the usual names that add SEDIMENT_PROOF_FLAGS.
prepare_work() { # C compiler, C++ compiler
    local build
    mkdir -p "$kept"/{plugin,source,configured,compilers,figures,logs,recordings}
    mkdir -p "$work/src"
    ln -sfn "$work/src" "$kept/src"
    for build in "${all_builds[@]}"; do
        mkdir -p "$kept/$build"/{build,links,orders,logs,runs,figures}
        ln -sfn ../src "$kept/$build/src"
    done
    printf '#!/bin/sh\nexec %s "$@" $SEDIMENT_PROOF_FLAGS\n' "$1" >"$kept/compilers/gcc"
    printf '#!/bin/sh\nexec %s "$@" $SEDIMENT_PROOF_FLAGS\n' "$2" >"$kept/compilers/g++"
    chmod 755 "$kept"/compilers/*
}

# Runs a command with the compilers of the builds. If the compilers are in the tree of another system, a proof calls in_system instead.
inside() { # folder, command…
    (cd "$1" && PATH=$kept/compilers:$PATH "${@:2}")
}

# Uses the compilers in a tree that scripts/toolchain makes. The folder of the work has the same path in the tree. Sets `system`, and `loader`,
# the linker options with which programs use the tree's C library when they run on this system.
use_system() { # name of the tree, a compiler that it must have
    system=$(readlink -f "$cache/$1")
    loader="-Wl,--dynamic-linker=$system/lib64/ld-linux-x86-64.so.2,--disable-new-dtags,-rpath,$system/usr/lib/x86_64-linux-gnu"
    [[ -x $system/usr/bin/$2 ]] || stop 6 "no $2: run scripts/toolchain $1"
}

# Runs a command in the tree of $system.
in_system() { # folder, command…
    unshare --user --map-root-user --mount sh -euc '
        system=$1 kept=$2 folder=$3
        shift 3
        mkdir -p "$system$kept"
        mount --bind "$kept" "$system$kept"
        exec chroot "$system" env -C "$folder" PATH="$kept/compilers:/usr/bin:/bin" TMPDIR=/tmp "$@"' sh "$system" "$kept" "$@"
}

# --- Compiling ------------------------------------------------------------------------------------------------------

at() { work=$kept/$1; } # build: sets the folder that the functions of programs.sh and layouts.sh use

# Makes a program's configured tree without objects. Each build starts with a copy of it.
configured() { # program
    local folder=$kept/configured/$1 configuring
    [[ ! -e $folder/done ]] || return 0
    say "configuring $1"
    rm -rf "$folder"
    mkdir -p "$folder"
    if [[ $1 == postgresql ]]; then
                # Data and sources are in the folder of the example.
        [[ -e $cache/postgresql/data/PG_VERSION ]] || "$repository/examples/postgresql/run" >&2
        [[ -e $kept/postgresql-source/configure ]] || cp -al "$cache/postgresql/source" "$kept/postgresql-source"
    else
        fetch_package "${package[$1]}" "$kept/src/${package[$1]}"
                # All files get one owner: in a user namespace, root may not replace files of other users.
        unpack_upstream "$kept/src/${package[$1]}" "$folder" --no-same-owner
    fi
    case $1 in
    postgresql)
        configure_postgresql_by "$kept/postgresql-source"
        inside "$folder" "${configuring[@]}"
        ;;
        # The package's own scripts write the amalgamation's single file, on this system.
    sqlite3) (cd "$folder" && ./configure --disable-readline && make sqlite3.c shell.c) ;;
    perl) inside "$folder" ./Configure -des -Dcc=gcc -Doptimize="$flags" -Uusedl -Uversiononly -Dprefix=/nonexistent ;;
    python) inside "$folder" ./configure CFLAGS="$flags" ;;
    gawk) inside "$folder" ./configure --disable-nls --disable-extensions --without-readline --without-mpfr CFLAGS="$flags" ;;
    esac >"$kept/logs/$1.configured" 2>&1
        # The package's own scripts write its headers, on this system.
    [[ $1 != postgresql ]] || make -C "$folder/src/backend" generated-headers >>"$kept/logs/$1.configured" 2>&1
    date >"$folder/done"
}

# Prints a checksum of all inputs of a build.
inputs_of() { # flags, files…
    { cat /dev/null "${@:2}"; echo "$flags $1"; } | sha256sum
}

# Compiles a program, unless neither the flags nor the files that they name have changed. After a new compilation, deletes results of the old one.
compile() { # build, program, flags, files…
    local build=$1 program=$2 folder=$kept/$1/build/$2 inputs
    inputs=$(inputs_of "${@:3}")
    [[ ! -e $folder/done || $(<"$folder/done") != "$inputs" ]] || return 0
    configured "$program"
    say "compiling $program as $build"
        # Continues an interrupted build.
    if [[ ! -e $folder/begun || $(<"$folder/begun") != "$inputs" ]]; then
        rm -rf "$folder" "$kept/$build/links/$program"-* "$kept/figures/$program.$build".* "$kept/$build/orders/$program".*
        cp -a "$kept/configured/$program" "$folder"
        rm "$folder/done"
                # GCC writes counters next to the objects.
        [[ $build != own* || ! -d $kept/counters-of/$program ]] || cp -a "$kept/counters-of/$program/." "$folder/"
        echo "$inputs" >"$folder/begun"
    fi
        # Debug information contains the folder's path. Only the first two builds are compared with debug information; code is the same without it.
    export SEDIMENT_PROOF_FLAGS="-fdebug-prefix-map=$folder=. $3"
    [[ $build == plain || $build == numbered ]] || SEDIMENT_PROOF_FLAGS+=" -g0"
    inside "$folder" bash -euo pipefail -c "flags='$flags'; $(make_commands "$program")" >"$kept/logs/$program.$build" 2>&1
    export SEDIMENT_PROOF_FLAGS=
        # Code that ran during the build is not training.
    find "$folder" -name '*.gcda' -delete
    [[ $program != postgresql ]] || ln -sfn "$folder/src/backend" "$folder/tree"
    echo "$inputs" >"$folder/done"
}

# Prints the commands that compile a program in its tree, with $flags.
make_commands() { # program
    case $1 in
    postgresql)
        echo 'make -C src/common libpgcommon_srv.a
            make -C src/port libpgport_srv.a
            make -C src/backend -j${JOBS:-2} postgres 2>&1 | tee m.log
            grep -- " -o postgres\$" m.log | tail -n 1 | sed "s/ -o postgres\$//" >link'
        ;;
    sqlite3) echo 'gcc $flags -DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE -I. -c sqlite3.c shell.c' ;;
    perl) echo 'make perl 2>&1 | tee m.log' ;;
    python) echo 'make -j${JOBS:-2} python 2>&1 | tee m.log' ;;
    cppcheck) echo 'make -j${JOBS:-2} cppcheck CXXFLAGS="$flags" 2>&1 | tee m.log' ;;
    gawk) echo 'make -C support && make gawk 2>&1 | tee m.log' ;;
    esac
}

# Links a build's program, and keeps it under the name of the layout.
link_build() { # build, program, layout, options…
    local result=$kept/$1/links/$2-$3/$2
    [[ ! -e $result ]] || return 0
    mkdir -p "$(dirname "$result")"
    at "$1"
    inside "$(tree "$2")" bash -c "$(link_command "$2") ${*:4} -o $result.new" >"$kept/logs/$2.$1.$3.link" 2>&1
    mv "$result.new" "$result"
}

# Links an instrumented build; the link also needs the instrumentation option.
link_instrumented() { # build, program, options…
    export SEDIMENT_PROOF_FLAGS=-fprofile-generate
    link_build "$1" "$2" input "${@:3}"
    export SEDIMENT_PROOF_FLAGS=
}

linked() { echo "$kept/$1/links/$2-${3:-input}/$2"; } # build, program, layout (input): prints the path of a linked program

# --- Runs and figures -----------------------------------------------------------------------------------------------

# Runs a program's workload with the files of one build. The words are put before the program, for example those of a tool.
run_build() { # program, workload, binary, words…
    at plain
    run "$@"
}

# Counts instructions, misses and touched pages of a workload.
count_build() { # build, program, workload, meter or instructions, layout (input)
    local figure=$kept/figures/$2.$1.$3.${5:-input}.$4 log counting
    [[ ! -s $figure ]] || return 0
    say "measuring $2, $1, $3, ${5:-input}, $4"
    log=$kept/logs/$2.$1.$3.${5:-input}.$4
    if [[ $4 == instructions ]]; then
        counting=(valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$log")
    else
        count_by "$4" "$log"
    fi
    run_build "$2" "$3" "$(linked "$1" "$2" "${5:-input}")" "${counting[@]}" 2>/dev/null
    counts_in "$log" >"$figure.new"
    mv "$figure.new" "$figure"
}

# Prints a line for each existing figure: program, workload, build and layout, meter, counts, and bytes of code.
figures_of() { # program, workload, BUILD:LAYOUT, meters…
    local build=${3%:*} layout=${3#*:} meter figure
    for meter in "${@:4}"; do
        figure=$kept/figures/$1.$build.$2.$layout.$meter
        [[ ! -s $figure ]] || echo "$1 $2 $3 $meter $(<"$figure") $(text_of "$(linked "$build" "$1" "$layout")")"
    done
}

# Counts the blocks of a build's recorded workload, unless counts exist that are newer than the build.
count_blocks_of() { # build, program, name of the counts among the recordings
    local counts=$kept/recordings/$3 recorded=$kept/recordings/$3.callgrind
    [[ ! -s $counts || $counts -ot $kept/$1/build/$2/done ]] || return 0
    say "counting blocks of $2, $1"
    run_build "$2" record "$(linked "$1" "$2")" "${counting_blocks[@]}" --callgrind-out-file="$recorded" 2>"$kept/logs/$3.callgrind"
    "$sediment" import --blocks "$recorded" --binary "$(linked "$1" "$2")" -o "$counts.gv" 2>"$kept/logs/$3.import"
    "$sediment" export "$counts.gv" --format blocks -o "$counts.new" 2>>"$kept/logs/$3.import"
    mv "$counts.new" "$counts"
    rm "$recorded"
}

# Ends the proof if the outputs of the builds differ.
compare_builds() { # program, workload, layouts as BUILD:LAYOUT…
    local expected= said one
    for one in "${@:3}"; do
        said=$kept/figures/$1.${one%:*}.$2.${one#*:}.said
        at plain
        [[ -s $said ]] || output_of "$1" "$2" "$(linked "${one%:*}" "$1" "${one#*:}")" >"$said"
        [[ -z $expected || $(<"$said") == "$expected" ]] || stop 1 "$1, built as $one, prints different output"
        expected=$(<"$said")
    done
}
