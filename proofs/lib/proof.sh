# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Basis of every proof: paths, messages, the tested program, and the lists of tools and inputs for the document. Sources the other files of the library
# that contain only functions. A script sources this file first, or a file of the library that does. scripts/prove sets $PROOF, the folder of the
# proof.
set -euo pipefail

proofs=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
repository=${proofs%/*}
cache=${SEDIMENT_CACHE:-$repository/.cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
sediment=${SEDIMENT:-${CARGO_TARGET_DIR:-$repository/target}/release/sediment}
source "$repository/scripts/environment"
source "$proofs/lib/counting.sh"
source "$proofs/lib/experiment.sh"
source "$proofs/lib/plugin.sh"
source "$proofs/lib/python.sh"
source "$proofs/lib/sources.sh"
source "$proofs/lib/statistics.sh"
source "$proofs/lib/wrapper.sh"

# --- Messages -------------------------------------------------------------------------------------------------------

# Prints a message with the proof's name and the time to standard error.
say() { printf '%s: %s %s\n' "${0##*/}" "$(date +%H:%M:%S)" "$*" >&2; }

stop() { say "${@:2}"; exit "$1"; } # exit status, message: ends the proof

need_root() { [[ $EUID -eq 0 ]] || stop 6 "needs root, for $*"; } # reason

# --- Programs -------------------------------------------------------------------------------------------------------

# Builds the program if it is missing.
need_sediment() { [[ -x $sediment ]] || compile_sediment release; }

# Builds the program from the current sources, unless SEDIMENT names a program.
renew_sediment() { # cargo's profile (release)
    [[ -z ${SEDIMENT:-} ]] || return 0
    compile_sediment "${1:-release}"
    sediment=${CARGO_TARGET_DIR:-$repository/target}/${1:-release}/sediment
}

compile_sediment() { # cargo's profile
    need_rust
    (cd "$repository" && cargo build --quiet --profile "$1" --locked --package sediment-cli >&2)
}

# Runs a program of the crate sediment-proofs.
run_proofs_program() { # name, arguments…
    (cd "$repository" && cargo run --quiet --release --locked --package sediment-proofs --bin "$1" -- "${@:2}")
}

# Installs lld 19 into the cache.
need_lld() { [[ -x $cache/bin/lld/ld.lld ]] || "$repository/scripts/toolchain" lld >&2; }

# --- Lists ----------------------------------------------------------------------------------------------------------

# Empties both lists. A proof that runs without scripts/prove writes them to the folder.
begin_lists() { # folder
    PROOF=${PROOF:-$1}
    : >"$PROOF/tools.tsv"
    : >"$PROOF/inputs.tsv"
}

tool() { printf '%s\t%s\n' "$1" "$2" >>"${PROOF:?run by scripts/prove}/tools.tsv"; } # name, version: adds a line to the list of tools

# Adds usual tools to the list, each as NAME or NAME=FLAGS. The list shows FLAGS after the version.
tools() { # names…
    local each version
    for each in "$@"; do
        version=$(version_of_tool "${each%%=*}")
        [[ $each != *=* ]] || version+="; ${each#*=}"
        tool "${each%%=*}" "$version"
    done
}

# Prints the version of a tool, or a property of the machine.
version_of_tool() { # name
    case $1 in
    lld) "$cache/bin/lld/ld.lld" --version ;;
    "GNU ld" | linker) ld --version | head -n 1 ;;
    GCC | compiler) gcc --version | head -n 1 ;;
    BOLT) llvm-bolt-19 --version | sed -n 's/.*LLVM version/LLVM version/p' ;;
    sediment) "$sediment" --version ;;
    kernel) uname -r ;;
    system) echo "$(. /etc/os-release && echo "$PRETTY_NAME"), $(uname -m), Linux $(uname -r)" ;;
    processor) sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 ;;
    processors) nproc ;;
    *) "$1" --version | head -n 1 ;;
    esac
}

input() { printf '%s\t%s\n' "$1" "$(sum_of "$2")" >>"${PROOF:?run by scripts/prove}/inputs.tsv"; } # name, file: adds a line to the list of inputs

input_if_made() { [[ ! -s $2 ]] || input "$1" "$2"; } # name, file: adds a line to the list of inputs if the file exists

sum_of() { sha256sum <"$1" | cut -c1-64; } # file: prints its SHA-256 sum

# Adds files to the list of inputs, by name without folders.
input_files() { # files…
    local file
    for file in "$@"; do input "${file##*/}" "$file"; done
}

# --- Figures --------------------------------------------------------------------------------------------------------

print_figure() { [[ ! -s $1 ]] || echo "${*:2} $(<"$1")"; } # file, words…: prints the words and the contents of the file, if it exists
