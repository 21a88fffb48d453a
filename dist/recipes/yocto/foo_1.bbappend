# SPDX-License-Identifier: MIT OR Apache-2.0
# Example: the programs of the recipe foo are linked in the order of files/profiles/foo.gv.
FILESEXTRAPATHS:prepend := "${THISDIR}/files:"
DEPENDS += "sediment-native"
SRC_URI += "file://profiles/foo.gv"
CFLAGS:append = " -ffunction-sections"
CXXFLAGS:append = " -ffunction-sections"
export COMPILER_PATH = "${STAGING_LIBEXECDIR_NATIVE}/sediment/ld"
# Files of SRC_URI are in UNPACKDIR since Yocto 5.1, and in WORKDIR in older versions.
export PROF_DIR = "${@d.getVar('UNPACKDIR') or d.getVar('WORKDIR')}/profiles"
