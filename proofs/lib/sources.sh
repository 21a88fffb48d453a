# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Source packages of the distribution, downloaded once and unpacked as upstream released them, and crates. proof.sh sources this file.

# Downloads a source package, unless the folder contains one.
fetch_package() { # package, folder, further arguments of scripts/fetch-source…
    [[ -n $(compgen -G "$2/*.dsc") ]] || "$repository/scripts/fetch-source" "$@" >&2
}

# Prints the path of upstream's archive in the folder of a source package, which also contains signatures.
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

# Copies the sources of a crate into a folder: cargo downloads it for a project that depends on it.
vendored_crate() { # name, version, folder of that project, folder
    if [[ ! -d $3/vendor/$1 ]]; then
        mkdir -p "$3/src"
        printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n\n[dependencies]\n%s = "=%s"\n\n[workspace]\n' "$1" "$2" >"$3/Cargo.toml"
        echo 'fn main() {}' >"$3/src/main.rs"
        (cd "$3" && cargo vendor --quiet) >&2
    fi
    cp -R "$3/vendor/$1/." "$4"
    rm "$4/.cargo-checksum.json"
        # The cache is in the folder of another workspace.
    grep -q '^\[workspace\]' "$4/Cargo.toml" || printf '\n[workspace]\n' >>"$4/Cargo.toml"
    printf '%s %s\t%s\n' "$1" "$2" "$(sed -n 's/.*"package":"\([0-9a-f]*\)".*/\1/p' "$3/vendor/$1/.cargo-checksum.json")" >>"$PROOF/inputs.tsv"
}
