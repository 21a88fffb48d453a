# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Source packages of the distribution, fetched once and unpacked as upstream released them. Sourced by proof.sh.

# Fetches a source package, unless the folder has one.
fetch_package() { # package, folder, further arguments of scripts/fetch-source…
    [[ -n $(compgen -G "$2/*.dsc") ]] || "$repository/scripts/fetch-source" "$@" >&2
}

# Prints the path of upstream's archive in the folder of a source package. Signatures are beside it.
upstream_archive() { # folder
    local archive
    for archive in "$1"/*.orig.tar.*; do
        [[ $archive == *.asc ]] || break
    done
    echo "$archive"
}

# Unpacks upstream's archive without its first folder.
unpack_upstream() { # folder of the source package, new folder, options of tar…
    mkdir -p "$2"
    tar -xf "$(upstream_archive "$1")" -C "$2" --strip-components=1 "${@:3}"
}
