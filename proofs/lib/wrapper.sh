# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# The linker wrapper in a separate folder, and figures of its reports. proof.sh sources this file.

# Copies the program to $work, and makes links to it in $work/wrapper with the names of linkers.
make_wrapper() { # names…
    local name
    mkdir -p "$work/wrapper"
    cp --remove-destination "$sediment" "$work/sediment"
    for name in "$@"; do ln -sfn ../sediment "$work/wrapper/$name"; done
}

# Prints the share of the weight that is placed, from the output of `sediment verify --json` on standard input.
weight_placed() { sed -n 's/^ *"weight_placed_percent": *\([0-9.]*\).*/\1/p'; }

# Prints the shares of all outputs in a build's log, in ascending order.
shares_in() { # log
    sed -n 's/.*: \([0-9.]*\) % of the weight placed as ordered.*/\1/p' "$1" | sort -n
}
