# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds of programs that GCC compiles with block counts, in several forms: builds, recordings of blocks, links in layouts whose text begins at
# several offsets in a page, and figures. A script sources this file first; this file sources layouts.sh. Figures and links are in $kept, with a
# separate folder for each form.
# each form has a folder of its own there.

source "$(dirname "${BASH_SOURCE[0]}")/layouts.sh"

kept=$cache/blocks
common="-O2 -g -ffunction-sections"
# Offset in a page, in bytes, where the text begins.
starts=(${STARTS:-0 816 1648 2464 3280})
every_layout=(plain-cdsort plain-auto blocks-cdsort blocks-auto blocks-trace bolt bolt-whole)
layouts=(${LAYOUTS:-${every_layout[*]}})
plugin=$kept/plugin/sediment.so

# --- Builds ---------------------------------------------------------------------------------------------------------

# Makes folders, tools and the plugin; with STEP=report only the folders.
prepare_blocks() {
    mkdir -p "$kept"/{plugin,training/{src,build,links,orders,figures,logs,runs},{compiled,plain,whole}/{build,links,orders,figures,logs,runs},figures}
    [[ ${STEP:-} != report ]] || return 0
    ln -sfn ../training/src "$kept/compiled/src"
    ln -sfn ../training/src "$kept/plain/src"
    need_lld
    need_sediment
    make_plugin
}

# Compiles the plugin from the current sources. Deletes figures that were made with another plugin.
make_plugin() { renew_plugin "$kept/plugin" "$kept"/figures/*/{compiler.*.compiled,training,training-debug}; }

# Selects a form. `training`: its blocks are numbered; `compiled`: compiled with the block counts of `training`; `plain`: compiled without the
# plugin; `whole`: GCC does not split functions.
in_form() { # form, program
    work=$kept/$1
    case $1 in
    plain) flags=$common ;;
    whole) flags="$common -fno-reorder-blocks-and-partition" ;;
    training) flags="$common -fplugin=$plugin -fplugin-arg-sediment-blocks" ;;
    compiled) flags="$common -fplugin=$plugin -fplugin-arg-sediment-profile=$kept/training/orders/$2.blocks" ;;
    esac
}

# Builds a program in the current form, and links it in its input order. Builds it again if the plugin has changed. If the new links are equal
# byte for byte, their figures are kept; if a new training build is equal, its recording is kept.
built() { # program
    local by=$work/build/$1/plugin has_plugin=no before
    before=$(binary "$1" input).before
    case $work in */training | */compiled) has_plugin=yes ;; esac
    [[ $has_plugin == no || (-s $by && $(<"$by") == "$(<"$kept/plugin/sources")") ]] || rm -rf "$work/build/$1"
    if [[ ! -e $work/build/$1/done ]]; then
        prepare "$1" >"$work/logs/$1.build" 2>&1
        [[ ! -e $(binary "$1" input) ]] || mv "$(binary "$1" input)" "$before"
        [[ $has_plugin == no ]] || cp "$kept/plugin/sources" "$by"
    fi
    link "$1" input
    [[ -e $before ]] || return 0
    cmp -s "$before" "$(binary "$1" input)" || rm -f "$work/orders/$1".{gv,trace,blocks,counted.gv,both.gv}
    rm "$before"
}

# Compiles a program in the current form.
prepare() { # program
        # Programs that print the time of their compilation get a fixed time.
    export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1700000000}
    [[ $1 == postgresql ]] || { build "$1"; return; }
        # Data and sources are in the folder of the example.
    [[ -e $cache/postgresql/data/PG_VERSION ]] || "$repository/examples/postgresql/run"
        # PostgreSQL stores its compiler flags in the program, so scripts with the names of GCC's own compilers pass the plugin instead.
    write_plugin_compilers "$kept/plugin/compilers" "$plugin"
    export COMPILER_PATH=$kept/plugin/compilers SEDIMENT_NUMBER_BLOCKS= SEDIMENT_BLOCKS=
    case $work in
    */training) SEDIMENT_NUMBER_BLOCKS=1 ;;
    */compiled) SEDIMENT_BLOCKS=$kept/training/orders/$1.blocks ;;
    esac
    [[ $work == */whole ]] || flags=$common
    compile_postgresql "$cache/postgresql/source"
    unset COMPILER_PATH SEDIMENT_NUMBER_BLOCKS SEDIMENT_BLOCKS
}

# Compiles PostgreSQL's server from a source tree, with the flags of the current form.
compile_postgresql() { # folder of the source
    mkdir -p "$work/build/postgresql"
    cd "$work/build/postgresql"
    configure_postgresql_by "$1"
    "${configuring[@]}"
    make -C src/backend generated-headers
    make -C src/common && make -C src/port && make -C src/timezone
    make -C src/backend -j"$(nproc)" postgres 2>&1 | tee m.log
    grep -- ' -o postgres$' m.log | tail -n 1 | sed 's/ -o postgres$//' >link
    ln -sfn "$work/build/postgresql/src/backend" tree
    date >done
}

# --- Profiles and layouts -------------------------------------------------------------------------------------------

# Counts the blocks in a program's recorded workload with callgrind.
record_blocks() { # program
    local counted=$work/orders/$1.counted.gv log=$work/runs/$1.callgrind
    [[ ! -e $work/orders/$1.blocks ]] || return 0
    say "counting blocks of $1"
    run "$1" record "$(binary "$1" input)" "${counting_blocks[@]}" --callgrind-out-file="$log" 2>"$work/logs/$1.callgrind"
    "$sediment" import --blocks "$log" --binary "$(binary "$1" input)" -o "$counted" 2>"$work/logs/$1.counted"
    "$sediment" export "$counted" --format blocks -o "$work/orders/$1.blocks.new" 2>>"$work/logs/$1.counted"
    mv "$work/orders/$1.blocks.new" "$work/orders/$1.blocks"
    rm "$log"
}

# Merges the profile of functions and the profile of blocks.
join_profiles() { # program
    local orders=$work/orders
    [[ -e $orders/$1.both.gv ]] || "$sediment" merge "$orders/$1.gv" "$orders/$1.counted.gv" -o "$orders/$1.both.gv" 2>>"$work/logs/$1.counted"
}

linked() { echo "$kept/figures/$1/$2-$3/$1"; } # program, layout, start: prints the path of a linked program

# Prints the layouts of a program. BOLT rejects hot functions of PostgreSQL that GCC has split, so it gets a build without splits.
layouts_of() { # program
    local wanted=" ${layouts[*]} "
    [[ $1 == postgresql ]] || wanted=${wanted/ bolt-whole / }
    echo $wanted
}

# Builds a program, records it, and links it in its layouts, at each start of the text.
lay_out() { # program
    local form layout start forms=(training compiled) layouts=($(layouts_of "$1"))
    [[ " ${layouts[*]} " != *" bolt-whole "* ]] || forms+=(whole)
    for form in "${forms[@]}"; do
        in_form "$form" "$1"
        built "$1"
        [[ $form != training ]] || { record "$1"; record_blocks "$1"; join_profiles "$1"; }
    done
    for layout in "${layouts[@]}"; do
        [[ $layout == bolt* ]] || order_by "$1" "$layout"
        for start in "${starts[@]}"; do place "$1" "$layout" "$start"; done
    done
}

# Writes the order of a layout. If the profile, the program or sediment changed, writes it again, and deletes figures of the old order.
order_by() { # program, layout
    local form=training algorithm=${2#*-} orders=$kept/training/orders order=$kept/figures/$1/$2.order profile inputs trace=()
    profile=$orders/$1.gv
    mkdir -p "$kept/figures/$1"
    [[ $2 != blocks-* ]] || { form=compiled profile=$orders/$1.both.gv; }
    [[ $algorithm != trace ]] || trace=(--trace "$orders/$1.trace")
    [[ $algorithm == cdsort ]] || algorithm=auto
    in_form "$form" "$1"
    inputs=$(cat "$sediment" "$profile" "${trace[@]:1}" "$(binary "$1" input)" | sha256sum)
    [[ ! -s $order || ! -s $order.inputs || $(<"$order.inputs") != "$inputs" ]] || return 0
    "$sediment" order "$profile" --binary "$(binary "$1" input)" --algorithm "$algorithm" "${trace[@]}" --linker lld -o "$order.new" 2>"$work/logs/$1.$2"
    if cmp -s "$order" "$order.new"; then
        rm "$order.new"
    else
        rm -rf "$kept/figures/$1/$2"-* "$kept/figures/$1"/*."$2".*
        mv "$order.new" "$order"
    fi
    echo "$inputs" >"$order.inputs"
}

# Links a program in a layout, with its text at a start. Deletes figures of a different link.
place() { # program, layout, start
    local form=training order=$kept/figures/$1/$2.order result
    result=$(linked "$1" "$2" "$3")
    mkdir -p "$(dirname "$result")"
    case $2 in
    bolt) [[ -e $result ]] || place_by_bolt "$1" "$2" "$3" training; return ;;
    bolt-whole) [[ -e $result ]] || place_by_bolt "$1" "$2" "$3" whole; return ;;
    esac
    [[ $2 != blocks-* ]] || form=compiled
    in_form "$form" "$1"
    [[ ! -e $result || $work/build/$1/done -nt $result ]] || return 0
    link_at_start "$1" "$3" "$order" "$result.linked" "$work/logs/$1.$2.$3.link"
    cmp -s "$result.linked" "$result" || rm -f "$kept/figures/$1"/*."$2.$3".* "$kept/figures/$1"/*."$2".cold
    mv "$result.linked" "$result"
}

# Links a program of the current form in an order, with its text at a start.
link_at_start() { # program, start, order, file, log
    mkdir -p "${4%/*}"
    { echo sediment_start; cat "$3"; } >"$4.order"
    link_program "$1" "$4" "$5" "$(stretch "$2")" "$by_lld,--symbol-ordering-file,$4.order"
}

# Prints the path of an object that contains a function of this size in bytes, for a place before the text.
stretch() { # start
    local object=$kept/plugin/start-$1.o
    [[ -e $object ]] || idle_function sediment_start $(($1 / 2)) | as -o "$object"
    echo "$object"
}

# Runs BOLT on a program, with exact counts of the recorded workload from BOLT's own instrumentation: functions by CDSort, blocks by Ext-TSP,
# cold blocks split off.
place_by_bolt() { # program, layout, start, form
    local bolt skip result before counts=$kept/$4/orders/$1.fdata order=$kept/$4/orders/$1.bolt-order
    result=$(linked "$1" "$2" "$3") before=$(linked "$1" "$2" "$3").relocations
    find_bolt "$1"
    in_form "$4" "$1"
    link_program "$1" "$before" "$work/logs/$1.bolt.$3.link" "$(stretch "$3") -B$cache/bin/lld -fuse-ld=lld -Wl,--call-graph-profile-sort=none,--emit-relocs"
    if [[ ! -s $counts ]]; then
        count_by_bolt "$1" "$before" "$result.counting" "$counts"
        "$bolt" "$before" -o "$result.ordering" -data="$counts" "${skip[@]}" "${by_blocks[@]}" -reorder-functions=cdsort -generate-function-order="$order" \
            >"$work/logs/$1.bolt-order" 2>&1
        sed -i '1i sediment_start' "$order"
        rm -f "$result.counting" "$result.ordering"
    fi
    "$bolt" "$before" -o "$result" -data="$counts" "${skip[@]}" "${by_blocks[@]}" -reorder-functions=user -function-order="$order" >"$work/logs/$1.bolt.$3" 2>&1
    rm "$before"
}

# --- Figures --------------------------------------------------------------------------------------------------------

# Counts misses, touched pages and instructions of a link.
count() { # program, workload, layout, start, meter
    in_form training "$1"
    count_link "$1" "$2" "$(linked "$1" "$3" "$4")" "$5" "$kept/figures/$1/$2.$3.$4.$5"
}

# Counts instructions executed in cold parts, by address, in the figure `cold`.
count_cold() { # program, workload, layout
    local binary
    in_form compiled "$1"
    binary=$(linked "$1" "$3" "${starts[0]}")
    [[ $3 != blocks-input ]] || binary=$(binary "$1" input)
    in_form training "$1"
    count_parts "$1" "$2" "$binary" "$kept/figures/$1/$2.$3.cold"
}

# Ends the proof if a program's output is not the same in all layouts.
compare_outputs() { # program, workload
    local layout expected= said
    in_form training "$1"
    for layout in "${layouts[@]}"; do
        said=$(output_of "$1" "$2" "$(linked "$1" "$layout" "${starts[0]}")")
        [[ -z $expected || $said == "$expected" ]] || stop 1 "$1 prints different output in the layout $layout"
        expected=$said
    done
}
