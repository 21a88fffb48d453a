# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Compiles the GCC plugin again when its sources have changed. proof.sh sources this file.

plugin_sum() { cat "$repository"/gcc-plugin/*.{cc,h} | sha256sum | cut -c1-64; } # prints the SHA-256 sum of the plugin's sources

# Succeeds if the file contains the checksum of the current sources.
has_plugin_sum() { [[ -s $1 && $(cut -c1-64 "$1") == "$(plugin_sum)" ]]; } # file

compile_plugin() { make -s -C "$repository/gcc-plugin" OUT="$1" >&2; } # folder: compiles the plugin by this system's compiler

# Compiles the plugin, unless the folder contains a plugin from the current sources. Deletes files that were made with another plugin.
renew_plugin() { # folder, files made by the plugin…
    ! has_plugin_sum "$1/sources" || return 0
    compile_plugin "$1"
    rm -f "${@:2}"
    plugin_sum >"$1/sources"
}

# Writes scripts with the names of GCC's own compilers. They load the plugin, for programs that store their compiler flags.
write_plugin_compilers() { # new folder, plugin
    make -s -C "$repository/gcc-plugin" compilers COMPILERS="$1" PLUGIN="$2" >&2
}
