# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Real programs, compiled from the distribution's source packages with one section for each function, and their workloads: one recorded workload,
# and workloads that were not recorded. A script sources this file first; this file sources proof.sh. Functions work in the folder $work, which
# make_folders prepares.

source "$(dirname "${BASH_SOURCE[0]}")/proof.sh"

work=$cache/engine
inputs=$proofs/inputs/engine
flags="-O2 -ffunction-sections"
declare -A package=([postgresql]=postgresql-15 [sqlite3]=sqlite3 [perl]=perl [python]=python3.11 [cppcheck]=cppcheck [sdcc]=sdcc [gawk]=gawk
    [redis]=redis [git]=git [z3]=z3 [bzip2]=bzip2 [gzip]=gzip [dash]=dash [mawk]=mawk
    [ninja]=ninja-build [lua]=lua5.4 [jq]=jq [sed]=sed [grep]=grep [m4]=m4 [byacc]=byacc [patch]=patch [xz]=xz-utils)

make_folders() { mkdir -p "$1"/{src,build,links,orders,figures,logs,runs}; } # folder of the work

# Makes folders and tools.
prepare_programs() {
    make_folders "$work"
    need_lld
    need_sediment
}

# Calls the script's function `examine` for the given programs (default: all of `every`), then its function `report`. With STEP=report, only `report`.
examine_and_report() { # programs…
    local program
    [[ $# -gt 0 ]] || set -- "${every[@]}"
    [[ ${STEP:-} == report ]] || for program in "$@"; do examine "$program"; done
    report
}

# --- Building -------------------------------------------------------------------------------------------------------

# Builds a program, unless it was built.
need_program() { # program
    [[ -e $work/build/$1/done ]] || (build "$1") >"$work/logs/$1.build" 2>&1
}

# Compiles the objects of a program in build/PROGRAM, and stores the link command. Changes to that folder.
build() { # program
    say "building $1"
    if [[ $1 == postgresql ]]; then
                # The example builds PostgreSQL; its proof uses the same tree.
        [[ -e $cache/postgresql/links/sections.command ]] || "$repository/examples/postgresql/run"
        mkdir -p "$work/build/postgresql"
        sed 's/ -o postgres$//' "$cache/postgresql/links/sections.command" >"$work/build/postgresql/link"
        ln -sfn "$cache/postgresql/build/sections/src/backend" "$work/build/postgresql/tree"
        date >"$work/build/$1/done"
        return
    fi
    fetch_package "${package[$1]}" "$work/src/${package[$1]}"
    unpack_upstream "$work/src/${package[$1]}" "$work/build/$1"
    cd "$work/build/$1"
    export CFLAGS=$flags CXXFLAGS=$flags
    case $1 in
    sqlite3)
        ./configure --disable-readline
        make sqlite3.c shell.c
        gcc $flags -DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE -I. -c sqlite3.c shell.c
        ;;
    perl)
        ./Configure -des -Dcc=gcc -Doptimize="$flags" -Uusedl -Uversiononly -Dprefix=/nonexistent
        make perl 2>&1 | tee m.log
        ;;
    python)
        ./configure
        make python 2>&1 | tee m.log
        ;;
    cppcheck) make -j"$(nproc)" cppcheck CXXFLAGS="$flags" 2>&1 | tee m.log ;;
    sdcc)
        local port without=()
        for port in mcs51 z180 r2k r2ka r3ka sm83 tlcs90 ez80_z80 z80n ds390 ds400 hc08 s08 stm8 pdk13 pdk14 pdk15 pdk16 mos6502 pic14 pic16; do
            without+=("--disable-$port-port")
        done
        ./configure "${without[@]}" --disable-device-lib --disable-packihx --disable-ucsim --disable-sdcdb --disable-non-free --disable-doc
        make sdcc-cc 2>&1 | tee m.log || make -C src 2>&1 | tee -a m.log
        ;;
    gawk)
        ./configure --disable-nls --disable-extensions --without-readline --without-mpfr
        make -C support && make gawk 2>&1 | tee m.log
        ;;
    redis) make V=1 MALLOC=libc OPTIMIZATION=-O2 OPT="$flags" REDIS_CFLAGS=-ffunction-sections 2>&1 | tee m.log ;;
    git)
        make V=1 CFLAGS="$flags" NO_GETTEXT=1 NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1 NO_CURL=1 NO_EXPAT=1 NO_OPENSSL=1 git 2>&1 | tee m.log
        ;;
    z3)
        mkdir -p out && cd out
        cmake -G Ninja .. -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$flags -DNDEBUG" -DZ3_BUILD_LIBZ3_SHARED=OFF \
            -DZ3_BUILD_EXECUTABLE=ON -DZ3_BUILD_TEST_EXECUTABLES=OFF
        ninja shell
        ninja -t commands shell | tail -n 1 >m.log
        cd ..
        ;;
    bzip2) make CFLAGS="$flags -D_FILE_OFFSET_BITS=64" bzip2 2>&1 | tee m.log ;;
    gzip | dash | mawk) ./configure && make 2>&1 V=1 | tee m.log ;;
    sed | m4) ./configure --disable-nls && make 2>&1 V=1 | tee m.log ;;
    patch | byacc) ./configure && make 2>&1 V=1 | tee m.log ;;
    xz) ./configure --disable-nls --disable-shared --disable-threads --disable-doc && make 2>&1 V=1 | tee m.log ;;
    grep) ./configure --disable-nls --disable-perl-regexp && make 2>&1 V=1 | tee m.log ;;
    ninja)
        mkdir -p out && cd out
        cmake -G Ninja .. -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$flags -DNDEBUG" -DBUILD_TESTING=OFF
        ninja ninja
        ninja -t commands ninja | tail -n 1 >m.log
        cd ..
        ;;
    lua) make -C src MYCFLAGS="$flags" SYSCFLAGS="-DLUA_USE_POSIX -DLUA_USE_DLOPEN" SYSLIBS="-Wl,-E -ldl" lua 2>&1 | tee m.log ;;
    jq)
        [[ -x configure ]] || autoreconf -i
        ./configure --without-oniguruma --disable-maintainer-mode --disable-docs --disable-shared --enable-static
        make V=1 2>&1 | tee m.log
        ;;
    esac
    date >done
}

# Sets `configuring`, the command that configures a PostgreSQL source tree. Files that the server reads at run time are in the example's folder, or in
# $server.
configure_postgresql_by() { # folder of the source
    configuring=("$1/configure" --prefix="${server:-$cache/postgresql}/install" --libdir="${server:-$cache/postgresql}/install/lib/postgresql"
        --without-readline --without-zlib --without-icu CFLAGS="$flags")
}

# Prints a program's link command without its output file. The command runs in the program's tree.
link_command() { # program
    local log=$work/build/$1/m.log
    case $1 in
    postgresql) cat "$work/build/postgresql/link" ;;
    sqlite3) echo "gcc sqlite3.o shell.o -lm -ldl" ;;
    perl) grep '^gcc -o perl ' "$log" | sed 's/ -o perl / /' ;;
    python) grep ' -o python ' "$log" | sed 's/ -o python / /' ;;
    cppcheck) grep -- ' -o cppcheck ' "$log" | sed 's/ -o cppcheck / /' ;;
    gawk) grep -- ' -o gawk ' "$log" | tail -n 1 | sed 's/ -o gawk / /' ;;
    sdcc) grep -- ' -o ../bin/sdcc ' "$log" | tail -n 1 | sed 's| -o ../bin/sdcc | |' ;;
    redis) grep -- ' -o redis-server ' "$log" | tail -n 1 | sed 's/ -o redis-server / /' ;;
    git) sed -n '/ -o git  *\\$/,/[^\\]$/p' "$log" | sed 's/ -o git / /' ;;
    z3) sed 's/^: && //; s/ -o z3 / /; s/ *&& :$//' "$work/build/z3/out/m.log" ;;
    bzip2) echo "gcc bzip2.o -L. -lbz2" ;;
    gzip | dash | mawk | lua) grep -- " -o $1 " "$log" | tail -n 1 | sed "s/ -o $1 / /; s/.*&& //" ;;
    m4) grep -- " -o m4 " "$log" | tail -n 1 | sed "s/ -o m4 / /; s/.*&& //" ;;
    byacc) grep -- " -o yacc " "$log" | tail -n 1 | sed "s/ -o yacc / /; s/.*&& //" ;;
    patch) grep -- " -o patch " "$log" | tail -n 1 | sed "s/ -o patch / /; s/.*&& //" ;;
    xz) sed -n 's/^libtool: link: \(.*\) -o xz /\1 /p' "$log" | tail -n 1 ;;
    sed) grep -- " -o sed/sed " "$log" | tail -n 1 | sed "s| -o sed/sed | |; s/.*&& //" ;;
    grep) grep -- " -o grep " "$log" | tail -n 1 | sed "s/ -o grep / /; s/.*&& //" ;;
    ninja) sed 's/^: && //; s/ -o ninja / /; s/ *&& :$//' "$work/build/ninja/out/m.log" ;;
    jq) sed -n 's/^libtool: link: \(.*\) -o jq /\1 /p' "$log" | tail -n 1 ;;
    esac
}

# Prints the folder that a program's link command runs in.
tree() { # program
    case $1 in
    postgresql) readlink -f "$work/build/postgresql/tree" ;;
    sdcc | redis | dash | lua | m4 | grep | patch) echo "$work/build/$1/src" ;;
    xz) echo "$work/build/$1/src/xz" ;;
    z3 | ninja) echo "$work/build/$1/out" ;;
    *) echo "$work/build/$1" ;;
    esac
}

# Compiler options to link with lld.
by_lld="-B$cache/bin/lld -fuse-ld=lld -Wl,--no-warn-symbol-ordering"

# Links a program with more options. The output file exists only if the link succeeded.
link_program() { # program, file, log, options and objects…
    mkdir -p "${2%/*}"
    (cd "$(tree "$1")" && bash -c "$(link_command "$1") ${*:4} -o $2.new") >"$3" 2>&1
    mv "$2.new" "$2"
}

# Prints the assembly of a function that is never called, to shift other functions.
idle_function() { # name, instructions of two bytes before its return
    cat <<SOURCE
.section .text.$1,"ax",@progbits
.globl $1
.type $1,@function
$1:
.rept $2
xor %eax,%eax
.endr
ret
.size $1,.-$1
.section .note.GNU-stack,"",@progbits
SOURCE
}

binary() { echo "$work/links/$1-$2/$1"; } # program, order: prints the path of a linked program

# Prints the bytes of code: all sections whose names begin with .text, including the original code that BOLT keeps.
text_of() { # binary
    size -A "$1" | awk '$1 ~ /^(\.bolt\.org)?\.text/ { sum += $2 } END { print sum }'
}

# --- Workloads ------------------------------------------------------------------------------------------------------

tested() { if [[ $1 == postgresql ]]; then echo "tpcb reports"; else echo test; fi; } # program: prints workloads that are not recorded

# Runs a workload of a program in a separate folder. The words are put before the program, for example those of a tool. A workload of git can be a command.
run() { # program, workload, binary, words…
    local program=$1 workload=$2 binary=$3 folder
    shift 3
    enter_new_folder
    case $program in
    postgresql)
        statements "$workload" >statements
        run_server "$binary" "$@" <statements
        ;;
    sqlite3) "$@" "$binary" :memory: <"$inputs/sqlite3.$workload.sql" >output ;;
    gawk) "$@" "$binary" -f "$inputs/gawk.$workload.awk" >output ;;
    perl) PERL_HASH_SEED=0 "$@" "$binary" -I"$(tree perl)/lib" "$inputs/perl.$workload.pl" >output ;;
    python)
        PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PYTHONHOME="$(tree python)" PYTHONPATH="$(tree python)/Lib" \
            "$@" "$binary" -S "$inputs/python.$workload.py" >output
        ;;
    cppcheck)
        local sources=(cli/stacktrace.cpp gui/printablereport.cpp test/cfg/cairo.c test/cfg/kde.cpp)
        [[ $workload != test ]] || sources=(cli/threadexecutor.cpp gui/checkstatistics.cpp gui/csvreport.cpp test/cfg/openmp.c test/cfg/lua.c)
        ln -sfn "$(tree cppcheck)/cfg" "$(dirname "$binary")/cfg"
        "$@" "$binary" -q --enable=all --inconclusive "${sources[@]/#/$(tree cppcheck)/}" >output
        ;;
    sdcc)
        local units=(strtol) unit
        [[ $workload != test ]] || units=(expf)
        for unit in "${units[@]}"; do
            "$work/build/sdcc/bin/sdcpp" -P -nostdinc -std=c11 -D__SDCC_STACK_AUTO -D__SDCC_CHAR_UNSIGNED -D__SDCC_INT_LONG_REENT \
                -D__SDCC_FLOAT_REENT -D__SDCCCALL=1 -D__SDCC=4_2_0 -D__SDCC_z80 -I"$work/build/sdcc/device/include" \
                "$work/build/sdcc/device/lib/$unit.c"
        done >input.c
        "$@" "$binary" --c1mode -mz80 --max-allocs-per-node 100 -o output <input.c
        ;;
    redis) serve_redis "$workload" "$binary" "$@" >output 2>&1 ;;
    git)
        make_history
        if [[ $workload == record || $workload == test ]]; then
            "$@" sh "$proofs/inputs/predict/git.$workload.sh" "$binary" "$work/runs/repository" >output 2>&1
        else
            # shellcheck disable=SC2086 # a command's words
            "$@" "$binary" -C "$work/runs/repository" $workload >output 2>&1
        fi
        ;;
    z3)
        awk -f "$proofs/inputs/predict/z3.$workload.awk" >questions.smt2
        "$@" "$binary" questions.smt2 >output
        ;;
    bzip2 | gzip)
        local flag=-9
        seq 12000 >text
        [[ $workload == record ]] || { flag=-6 && seq 7 11 120000 >text; }
        "$@" "$binary" -c "$flag" text >output
        "$@" "$binary" -dc output >again
        ;;
    dash) "$@" "$binary" "$proofs/inputs/predict/dash.$workload.sh" >output ;;
    mawk) "$@" "$binary" -f "$proofs/inputs/predict/mawk.$workload.awk" >output ;;
    ninja)
        local graph=(-v many=1500 -v deep=5) asked=(-n)
        [[ $workload == record ]] || { graph=(-v many=1200 -v deep=40) && asked=(-n -d explain -k 0); }
        mkdir src
        awk "${graph[@]}" -f "$proofs/inputs/resident/ninja.awk" >build.ninja
        awk '/^build obj/ { print $4 } /: gen / { print $4 }' build.ninja | sort -u | xargs touch
        "$@" "$binary" "${asked[@]}" >output 2>&1
        "$@" "$binary" -t targets all >>output
        ;;
    lua) "$@" "$binary" "$proofs/inputs/resident/lua.$workload.lua" >output ;;
    jq) "$@" "$binary" -c -n -f "$proofs/inputs/resident/jq.$workload.jq" >output ;;
    sed)
        local from=1 to=4000
        [[ $workload == record ]] || { from=400000 && to=400600; }
        seq "$from" "$to" | awk '{ printf "%d-%s a line of %d, and one line\n", $1, $1 % 3 ? "abc" : "xxyzz", $1 * 7919 }' >text
        "$@" "$binary" -f "$proofs/inputs/resident/sed.$workload.sed" text >output
        ;;
    grep)
        local pattern patterns=('^1.*9$' '[0-4]{3}7|88' 'a(b|c)*x' '\<line\>' -i.*ABC -c7)
        [[ $workload == record ]] || patterns=('(12|34)+5' '^[^5]*$' -vx.*yz -oc[[:digit:]]* -w76 -n^4)
        seq 1 3 40000 | awk '{ printf "%d-%s line %x\n", $1, $1 % 3 ? "abcx" : "xxyzz", $1 * 7919 }' >text
        for pattern in "${patterns[@]}"; do
            if [[ $pattern == -* ]]; then "$@" "$binary" -E "${pattern:0:2}" -e "${pattern:2}" text; else "$@" "$binary" -E -e "$pattern" text; fi >>output
        done
        ;;
    patch)
        local from=1 to=3000 edit='NR % 40 == 0 { next } NR % 60 == 1 { print "a new line", NR }'
        [[ $workload == record ]] || { from=50000 && to=53000 && edit='NR % 30 < 2 { $2 = "changed" } NR % 97 == 0 { print; print }'; }
        seq "$from" "$to" | awk '{ printf "%d line of %d in %s\n", $1, $1 * 7919 % 1009, $1 % 3 ? "the text" : "all" }' >one
        awk "$edit { print }" one >two
        diff -u one two >change || :
        "$@" "$binary" -p0 -o result one change >output
        "$@" "$binary" -R -p0 -o again two change >>output
        ;;
    byacc)
        awk -v record="$([[ $workload != record ]] || echo 1)" -f "$proofs/inputs/resident/byacc.awk" >grammar.y
        "$@" "$binary" -d -o output.c grammar.y 2>output
        ;;
    xz)
        local flag=-6
        seq 6000 >text
        [[ $workload == record ]] || { flag=-2 && seq 7 11 60000 >text; }
        "$@" "$binary" -c "$flag" text >output
        "$@" "$binary" -dc output >again
        ;;
    m4) "$@" "$binary" -L 4000 "$proofs/inputs/resident/m4.$workload.m4" >output ;;
    esac
    leave_folder
}

# Makes a new folder for a run, sets `folder`, and changes to it; or changes back to the folder of the work.
enter_new_folder() { # prefix of its path, by default below the work
    folder=$(mktemp -d "${1:-$work/runs/}XXXXXX")
    cd "$folder"
}
leave_folder() {
    cd "$work"
    rm -rf "$folder"
}

# Runs PostgreSQL as a single process in the current folder, on a copy of the data, with statements from standard input.
run_server() { # binary, words…
    cp -a "${server:-$cache/postgresql}/data" data
    unshare --user --map-user=1000 "${@:2}" "$1" --single -D "$PWD/data" postgres >output
}

# Prints the SHA-256 sum of a run's output, which includes cppcheck's messages.
output_of() { # program, workload, binary
    run "$1" "$2" "$3" bash -c '[[ $0 != */cppcheck ]] || exec 2>&1; { "$0" "$@"; cat output; } | sha256sum >&3' 3>&1 2>/dev/null
}

# Prints PostgreSQL's statements. record, tpcb, reports: these workloads; record with a number: another training; many: $rounds rounds of the recorded ones.
statements() { # workload
    local transactions=$repository/examples/postgresql/transactions.awk round
    case $1 in
    many) for ((round = 0; round < rounds; round++)); do statements record; done ;;
    record)
        awk -v count=200 -f "$transactions"
        awk -v count=20 -v first=4711 -f "$inputs/reports-recorded.awk"
        ;;
    record?*)
        awk -v count="$((200 + 200 * ${1#record}))" -f "$transactions" | tail -n 1400
        awk -v count=20 -v first="$((4711 + 1000 * ${1#record}))" -f "$inputs/reports-recorded.awk"
        ;;
    tpcb) awk -v count=400 -f "$transactions" | tail -n 1400 ;;
    reports) awk -v count=40 -v first=77001 -f "$inputs/reports-tested.awk" ;;
    esac
}

# Serves a load of redis-benchmark over a socket.
serve_redis() { # workload, binary, words before it…
    local workload=$1 binary=$2 server benchmark=$work/build/redis/src/redis-benchmark client=$work/build/redis/src/redis-cli
    shift 2
    "$@" "$binary" --unixsocket "$PWD/socket" --port 0 --save '' --appendonly no --dir "$PWD" &
    server=$!
    for _ in $(seq 600); do
        [[ ! -S socket ]] || ! "$client" -s socket ping >/dev/null 2>&1 || break
        sleep 0.2
    done
    if [[ $workload == record ]]; then
                # sediment's recorder estimates rates in short windows, so the server must run for some time.
        local end=$((SECONDS + 40))
        while ((SECONDS < end)); do "$benchmark" -s socket -n 3000 -c 10 -r 1000 -t set,get,incr,lpush,rpop,sadd,hset,zadd,mset; done
        "$client" -s socket eval 'for i = 1, 200 do redis.call("append", "k", tostring(i)) end return redis.call("strlen", "k")' 0
    else
        "$benchmark" -s socket -n 3000 -c 5 -r 5000 -P 4 -t set,get,lrange_100,spop,zpopmin,xadd
        "$client" -s socket eval 'for i = 1, 300 do redis.call("lpush", "l", i) end return #redis.call("sort", "l", "limit", 0, 50)' 0
    fi
    "$client" -s socket shutdown nosave || :
    wait "$server"
}

# Makes a repository with some history of git's own sources, the same every time, as an input of git.
make_history() {
    local tree=$work/runs/repository source=$work/build/git turn
    [[ ! -e $tree.done ]] || return 0
    rm -rf "$tree"
    export GIT_CONFIG_NOSYSTEM=1 HOME=$work/runs GIT_AUTHOR_DATE="@1600000000 +0000" GIT_COMMITTER_DATE="@1600000000 +0000"
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
    git init -q "$tree"
    cp "$source"/[a-m]*.[ch] "$tree"
    for turn in $(seq 40); do
        (cd "$tree" && sed -i "$((turn * 7))s/\$/ \/\/ $turn/" [a-m]*"$((turn % 5 == 0))"*.c [a-f]*.h 2>/dev/null || :)
        (cd "$tree" && sed -i "$((turn * 5))s/\$/ \/\/ $turn/" $(ls ./*.c | awk "NR % 11 == $turn % 11"))
        git -C "$tree" add -A
        git -C "$tree" commit -qm "change $turn"
    done
    touch "$tree.done"
}
