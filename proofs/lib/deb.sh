# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds Debian source packages in a copy of the Debian 13 tree, where sediment's own packages are also built and installed. A script sources this
# file first; this file sources proof.sh. The work is in $work, the tree in $root.

source "$(dirname "${BASH_SOURCE[0]}")/proof.sh"

work=$cache/deb
root=$work/root
jobs=${JOBS:-2}
known="tinyxml2 postgresql-17"
packages=${PACKAGES:-$known}
# More variables for the commands in the tree.
settings=()

# Runs a command in the tree $root, or in the tree $IN.
inside() {
    chroot "${IN:-$root}" env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/build/ccache \
        DEBIAN_FRONTEND=noninteractive ${settings[@]+"${settings[@]}"} "$@"
}

# Records a claim that does not hold; the proof fails at its end.
wrong() { printf '%s\n' "$*" >>"$work/failed"; } # claim

# Makes a Debian 13 tree with the build dependencies of the packages, and their sources.
root() {
    mkdir -p "$work"
    [[ -e $root/usr ]] || { cp -a "$cache/debian13" "$root.new" && mv "$root.new" "$root"; }
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    [[ ! -e $work/root.done ]] || return 0
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    { cat "$cache/debian13/etc/apt/sources.list"; sed -n 's/^deb /deb-src /p' "$cache/debian13/etc/apt/sources.list"; } >"$root/etc/apt/sources.list"
    {
        inside apt-get update
        inside apt-get install -y --no-install-recommends build-essential debhelper dpkg-dev ccache valgrind lintian blhc fakeroot libc6-dbg \
            rustc cargo gcc-14-plugin-dev
        local package
        for package in $packages; do
            inside apt-get build-dep -y --no-install-recommends "$package"
            mkdir -p "$root/build/$package"
            fetch_source "$package"
        done
        inside apt-get clean
    } >"$work/root.log" 2>&1
    touch "$work/root.done"
}

# Downloads a source package to its folder in the tree.
fetch_source() { inside sh -c "cd /build/$1 && apt-get source --download-only $1"; } # package

# Builds sediment's own packages from the committed files, checks them with lintian, and installs them.
itself() {
    local folder=$root/build/sediment version
    [[ ! -e $work/itself.done ]] || return 0
    say "sediment itself"
    if [[ ! -e $folder/unpacked ]]; then
        rm -rf "$folder"
        mkdir -p "$folder"
        "$repository/scripts/package-sources" "$folder" >"$work/itself.log" 2>&1
        version=$(cd "$folder" && ls sediment-*-vendor.tar.gz | sed 's/sediment-\(.*\)-vendor.*/\1/')
        mv "$folder/sediment-$version.tar.gz" "$folder/sediment_$version.orig.tar.gz"
        mv "$folder/sediment-$version-vendor.tar.gz" "$folder/sediment_$version.orig-vendor.tar.gz"
        tar -xf "$folder/sediment_$version.orig.tar.gz" -C "$folder"
        tar -xf "$folder/sediment_$version.orig-vendor.tar.gz" -C "$folder/sediment-$version"
        cp -a "$folder/sediment-$version/dist/debian" "$folder/sediment-$version/debian"
        touch "$folder/unpacked"
        inside sh -c "cd /build/sediment/sediment-$version && dpkg-buildpackage -S -d -us -uc" >>"$work/itself.log" 2>&1
    fi
    inside sh -c "cd /build/sediment/sediment-*/ && DEB_BUILD_OPTIONS='noopt parallel=$jobs' dpkg-buildpackage -b -us -uc -nc" >>"$work/itself.log" 2>&1
    inside sh -c 'cd /build/sediment && lintian --allow-root --tag-display-limit 0 *_amd64.changes *_source.changes' >"$work/itself.lintian" 2>&1 || true
    inside sh -c 'apt-get install -y --no-install-recommends --reinstall /build/sediment/sediment_*.deb /build/sediment/dh-sequence-sediment_*.deb /build/sediment/sediment-gcc-plugin_*.deb' >>"$work/itself.log" 2>&1
    touch "$work/itself.done"
}

# Builds a variant of a package, always in the same folder, and continues an interrupted build. A function makes the change.
build() { # package, variant, change or true, options of dpkg-buildpackage
    local package=$1 variant=$2 change=$3 folder=$root/build/$1 options=()
    shift 3
    [[ ! -e $folder/$variant/done ]] || return 0
    say "$package: $variant"
    case $package in postgresql-*) options+=(-Ppkg.postgresql.nollvm) ;; esac
    if [[ $(cat "$folder/variant" 2>/dev/null) == "$variant" ]]; then
        options+=(-nc)
    else
        rm -rf "$folder/src" "$folder"/*.deb "$folder/variant"
        inside sh -c "cd /build/$package && dpkg-source -x ./*.dsc src" >"$folder/$variant.log" 2>&1
        "$change" "$package"
        echo "$variant" >"$folder/variant"
    fi
    inside sh -c 'cd "$1/src" && shift && exec env "$@"' - "/build/$package" "DEB_BUILD_OPTIONS=nocheck parallel=$jobs ${OPTIONS:-}" \
        dpkg-buildpackage -B -us -uc ${options[@]+"${options[@]}"} "$@" >>"$folder/$variant.log" 2>&1
    mkdir -p "$folder/$variant"
    mv "$folder"/*.deb "$folder/$variant/"
    cp -a "$folder"/*_*.changes "$folder/$variant/"
    touch "$folder/$variant/done"
}

# Records a profile from a short run of the programs of the stock build.
record() { # package
    local folder=$root/build/$1
    [[ ! -e $folder/$1.gv ]] || return 0
    say "$1: record"
    case $1 in
    tinyxml2)
                # The package's own test, which a build with nocheck does not run.
        inside sh -c 'cd /build/tinyxml2/src && g++ -O2 -I. xmltest.cpp -Lbuild -ltinyxml2 -o ../xmltest && LD_LIBRARY_PATH=build sediment record --method valgrind -o ../new.gv -- ../xmltest'
        ;;
    postgresql-17)
        inside sh -c 'rm -rf /build/installed /build/data && cp -a /build/postgresql-17/src/debian/tmp /build/installed && install -d -o nobody /build/data &&
            export LD_LIBRARY_PATH=/build/installed/usr/lib/x86_64-linux-gnu &&
            setpriv --reuid=nobody --regid=nogroup --clear-groups /build/installed/usr/lib/postgresql/17/bin/initdb -D /build/data -E UTF8 --no-sync &&
            cat >/build/work.sql && chmod 644 /build/work.sql && cd /build/data &&
            setpriv --reuid=nobody --regid=nogroup --clear-groups sh -c "valgrind --tool=callgrind --callgrind-out-file=/build/data/callgrind.out /build/installed/usr/lib/postgresql/17/bin/postgres --single -j -D /build/data postgres </build/work.sql" &&
            sediment import /build/data/callgrind.out -o /build/postgresql-17/new.gv' <<<"$(work_of_postgresql)"
        ;;
    esac >"$folder/record.log" 2>&1
    mv "$folder/new.gv" "$folder/$1.gv"
}

# Prints statements for the single-user server: each ends with an empty line.
work_of_postgresql() {
    local i
    printf 'create table accounts (id int primary key, balance int, filler text);\n\ninsert into accounts select i, 0, repeat(chr(65 + i %% 26), 40) from generate_series(1, 2000) i;\n\nanalyze accounts;\n\n'
    for ((i = 1; i <= 60; i++)); do
        printf 'begin; update accounts set balance = balance + %d where id = %d; select balance from accounts where id = %d; commit;\n\n' "$i" "$((i * 31 % 2000 + 1))" "$((i * 17 % 2000 + 1))"
    done
    printf 'select substr(filler, 1, 1) as letter, count(*), sum(balance) from accounts group by letter order by letter;\n\n'
}

# Makes the complete change to a package: adds the sequence and the profile.
add_sequence() { inside sh -c "cd /build/$1 && sediment package deb src --profile $1.gv --apply" >"$root/build/$1/change.diff" 2>"$root/build/$1/change.log"; } # package

# Adds the distribution's packages and the source packages to the lists of tools and inputs.
list_tools() {
    local package file
    tool distribution "Debian $(cat "$root/etc/debian_version")"
    for package in gcc-14 binutils debhelper dpkg-dev lintian rustc; do
        tool "$package" "$(inside dpkg-query -W -f '${Version}' "$package")"
    done
    for package in $packages; do
        for file in "$root/build/$package"/*.dsc "$root/build/$package"/*.orig.tar.*; do
            [[ $file == *tmp-extract* ]] || input_files "$file"
        done
    done
}
