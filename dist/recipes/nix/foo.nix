# SPDX-License-Identifier: MIT OR Apache-2.0
# Example: the programs of the package foo are linked in the order of profiles/foo.gv. Nix's compiler wrapper has a fixed path to the linker,
# so -B names the folder of sediment's linkers. Flags that the package sets are kept.
{ pkgs, sediment }:

pkgs.foo.overrideAttrs (old: {
  nativeBuildInputs = (old.nativeBuildInputs or [ ]) ++ [ sediment ];
  env = (old.env or { }) // {
    NIX_CFLAGS_COMPILE = toString [
      (old.env.NIX_CFLAGS_COMPILE or old.NIX_CFLAGS_COMPILE or "")
      "-ffunction-sections"
      "-B${sediment}/libexec/sediment/ld"
    ];
    PROF_DIR = "${./profiles}";
  };
})
