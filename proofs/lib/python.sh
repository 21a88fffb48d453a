# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the scripts
#
# Python with modules that the distribution does not have, in the folder of the proof. proof.sh sources this file.

# Installs missing modules from PyPI. Sets `python`, the folder of the virtual environment.
need_python() { # modules…
    local module
    python=$PROOF/python
    [[ -x $python/bin/python ]] || python3 -m venv "$python"
    for module in "$@"; do
        "$python/bin/python" -c "import $module" 2>/dev/null || "$python/bin/pip" --quiet install "$module" >&2
    done
}
