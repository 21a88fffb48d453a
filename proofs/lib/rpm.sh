# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Builds RPM packages with rpm in a copy of the Debian 13 tree. A script sources this file first, or in a subshell after deb.sh, because both files
# define the same names; this file sources proof.sh. The tree is $root, the folder of the work in it is $work, and $kept stores finished steps.

source "$(dirname "${BASH_SOURCE[0]}")/proof.sh"

inputs=$proofs/inputs/rpm
root=$cache/rpm-root
work=$root/proof
kept=$cache/rpm
# Command that starts rpmbuild in the tree.
by=()
left=${STEPS:-1000}

# Runs a step, unless it was done before. The step's output goes to a log.
step() { # name, command…
    local name=$1 stamp=$kept/steps/$1
    shift
    [[ ! -e $stamp ]] || return 0
    ((left-- > 0)) || stop 75 "stopped before $name"
    mkdir -p "$kept/steps" "$kept/logs"
    say "$name"
    local status
    set +e
    (set -e; "$@") >"$kept/logs/$name" 2>&1
    status=$?
    set -e
    if ((status != 0)); then
        tail -n 20 "$kept/logs/$name" >&2
        stop 1 "$name failed: $kept/logs/$name"
    fi
    touch "$stamp"
}

# Runs a command in the tree $root, or in the tree $IN, with a separate /proc.
inside() {
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i HOME=/root PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CCACHE_DIR=/proof/ccache "$@"' \
        "${IN:-$root}" "$@"
}

# Makes the tree: Debian 13 with rpm and the build dependencies of the packages.
tree() {
    rm -rf "$root"
    cp -a "$cache/debian13" "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    sed -n 's/^deb /deb-src /p' "$cache/debian13/etc/apt/sources.list" >>"$root/etc/apt/sources.list"
    inside apt-get update -q
    inside env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends rpm rpmlint ccache make bison flex perl file patch xz-utils bzip2 zstd \
        cpio elfutils debugedit gfortran libreadline-dev zlib1g-dev libssl-dev libffi-dev libbz2-dev liblzma-dev libsqlite3-dev cmake pkgconf m4 \
        ca-certificates rustc cargo gcc-14-plugin-dev valgrind libc6-dbg
}

# Builds packages from a spec, with the macros of flags.
rpmbuild_in() { # folder below /proof, spec in it, arguments…
    local folder=$1 spec=$2
    shift 2
    rm -rf "$work/$folder/top"
    inside ${by[@]+"${by[@]}"} rpmbuild -ba --nodeps --load /proof/macros.flags --define "_topdir /proof/$folder/top" --define "_sourcedir /proof/$folder" \
        --define '_buildhost builder' "$@" "/proof/$folder/$spec"
}

# Builds the packages of one kind, and keeps them.
build() { # package, kind, spec, arguments…
    local name=$1 kind=$2
    cp "$3" "$work/$name/$name.spec"
    rpmbuild_in "$name" "$name.spec" "${@:4}"
    rm -rf "$work/$name/$kind"
    mkdir "$work/$name/$kind"
    mv "$work/$name/top"/RPMS/*/*.rpm "$work/$name/top"/SRPMS/*.rpm "$work/$name/$kind/"
    rm -rf "$work/$name/top"
}

about() { inside rpm -qp --qf "$4" "/proof/$1/$2/$3"; } # package, kind, file, format: queries a built package
