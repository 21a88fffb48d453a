# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds of one program by other flags or compilers, side by side. A program is configured once, without flags; each build has a copy of that
# tree, and the compiler adds the flags of the build. A script sources this file first; it brings layouts.sh. It sets $kept, the folder of the
# work, and all_builds, the names of the builds.

source "$(dirname "${BASH_SOURCE[0]}")/layouts.sh"

all_builds=()
# Words for GCC that compile by counters.
counted="-fprofile-use -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch"
# Optimisations that counters turn on, and whose copies of code are larger than what they gain: with partial training these are left out; and
# more of them where blocks are split again, by counts of their own.
fewer="-fno-unroll-loops -fno-peel-loops"
lean="-fno-tracer -fno-split-loops -fno-unswitch-loops -fno-ipa-cp-clone -fvect-cost-model=very-cheap"

# --- Compilers ------------------------------------------------------------------------------------------------------

# Makes the folders of the work, and compilers under their usual names, which add SEDIMENT_PROOF_FLAGS.
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

# Runs a command with the compilers of the builds. A proof whose compilers are in another system's tree calls in_system instead.
inside() { # folder, command…
    (cd "$1" && PATH=$kept/compilers:$PATH "${@:2}")
}

# Takes the compilers of a tree that scripts/toolchain makes, which sees the folder of the work under its own name. Sets `system`, and `loader`,
# options by which programs run on this system with the C library that they were linked with.
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

at() { work=$kept/$1; } # build: points the functions of programs.sh and layouts.sh to it

# Makes the tree of a program without objects, which each build begins with.
configured() { # program
    local folder=$kept/configured/$1 configuring
    [[ ! -e $folder/done ]] || return 0
    say "configuring $1"
    rm -rf "$folder"
    mkdir -p "$folder"
    if [[ $1 == postgresql ]]; then
        # Data and sources are the example's.
        [[ -e $cache/postgresql/data/PG_VERSION ]] || "$repository/examples/postgresql/run" >&2
        [[ -e $kept/postgresql-source/configure ]] || cp -al "$cache/postgresql/source" "$kept/postgresql-source"
    else
        fetch_package "${package[$1]}" "$kept/src/${package[$1]}"
        # Of one owner: in a namespace of its own, root may not replace files of others.
        unpack_upstream "$kept/src/${package[$1]}" "$folder" --no-same-owner
    fi
    case $1 in
    postgresql)
        configure_postgresql_by "$kept/postgresql-source"
        inside "$folder" "${configuring[@]}"
        ;;
    # The one file of the amalgamation is written by the package's own scripts, on this system.
    sqlite3) (cd "$folder" && ./configure --disable-readline && make sqlite3.c shell.c) ;;
    perl) inside "$folder" ./Configure -des -Dcc=gcc -Doptimize="$flags" -Uusedl -Uversiononly -Dprefix=/nonexistent ;;
    python) inside "$folder" ./configure CFLAGS="$flags" ;;
    gawk) inside "$folder" ./configure --disable-nls --disable-extensions --without-readline --without-mpfr CFLAGS="$flags" ;;
    esac >"$kept/logs/$1.configured" 2>&1
    # Its headers are written by scripts of the package's own, on this system.
    [[ $1 != postgresql ]] || make -C "$folder/src/backend" generated-headers >>"$kept/logs/$1.configured" 2>&1
    date >"$folder/done"
}

# Prints a sum of all that a build is made by.
inputs_of() { # flags, files…
    { cat /dev/null "${@:2}"; echo "$flags $1"; } | sha256sum
}

# Compiles a program. It is compiled again where the flags or files that they name have changed; what was made of it is then made again.
compile() { # build, program, flags, files…
    local build=$1 program=$2 folder=$kept/$1/build/$2 inputs
    inputs=$(inputs_of "${@:3}")
    [[ ! -e $folder/done || $(<"$folder/done") != "$inputs" ]] || return 0
    configured "$program"
    say "compiling $program as $build"
    # A build that was interrupted goes on.
    if [[ ! -e $folder/begun || $(<"$folder/begun") != "$inputs" ]]; then
        rm -rf "$folder" "$kept/$build/links/$program"-* "$kept/figures/$program.$build".* "$kept/$build/orders/$program".*
        cp -a "$kept/configured/$program" "$folder"
        rm "$folder/done"
        # GCC's own counters lie next to the objects.
        [[ $build != own* || ! -d $kept/counters-of/$program ]] || cp -a "$kept/counters-of/$program/." "$folder/"
        echo "$inputs" >"$folder/begun"
    fi
    # Debug information has the folder. It is compared between the first two builds alone, and code is the same without it.
    export SEDIMENT_PROOF_FLAGS="-fdebug-prefix-map=$folder=. $3"
    [[ $build == plain || $build == numbered ]] || SEDIMENT_PROOF_FLAGS+=" -g0"
    inside "$folder" bash -euo pipefail -c "flags='$flags'; $(make_commands "$program")" >"$kept/logs/$program.$build" 2>&1
    export SEDIMENT_PROOF_FLAGS=
    # What was executed while it was built is no training.
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

# Links the program of a build, and keeps it under a name for the layout.
link_build() { # build, program, layout, options…
    local result=$kept/$1/links/$2-$3/$2
    [[ ! -e $result ]] || return 0
    mkdir -p "$(dirname "$result")"
    at "$1"
    inside "$(tree "$2")" bash -c "$(link_command "$2") ${*:4} -o $result.new" >"$kept/logs/$2.$1.$3.link" 2>&1
    mv "$result.new" "$result"
}

# Links an instrumented build, for which the compiler wants the option of instrumentation again.
link_instrumented() { # build, program, options…
    export SEDIMENT_PROOF_FLAGS=-fprofile-generate
    link_build "$1" "$2" input "${@:3}"
    export SEDIMENT_PROOF_FLAGS=
}

linked() { echo "$kept/$1/links/$2-${3:-input}/$2"; } # build, program, layout (input): prints the path of a linked program

# --- Runs and figures -----------------------------------------------------------------------------------------------

# Runs a workload of a program with the files of one build. The words stand before the program: a tool's.
run_build() { # program, workload, binary, words…
    at plain
    run "$@"
}

# Counts instructions, misses and pages touched of a workload.
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

# Prints a line for each figure that there is: program, workload, build and layout, meter, counts, and bytes of code.
figures_of() { # program, workload, BUILD:LAYOUT, meters…
    local build=${3%:*} layout=${3#*:} meter figure
    for meter in "${@:4}"; do
        figure=$kept/figures/$1.$build.$2.$layout.$meter
        [[ ! -s $figure ]] || echo "$1 $2 $3 $meter $(<"$figure") $(text_of "$(linked "$build" "$1" "$layout")")"
    done
}

# Counts the blocks of a build's recorded input, unless the counts are newer than the build.
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

# Ends the proof if not all builds print the same.
compare_builds() { # program, workload, layouts as BUILD:LAYOUT…
    local expected= said one
    for one in "${@:3}"; do
        said=$kept/figures/$1.${one%:*}.$2.${one#*:}.said
        at plain
        [[ -s $said ]] || output_of "$1" "$2" "$(linked "${one%:*}" "$1" "${one#*:}")" >"$said"
        [[ -z $expected || $(<"$said") == "$expected" ]] || stop 1 "$1, built as $one, says something else"
        expected=$(<"$said")
    done
}
