# SPDX-License-Identifier: MIT OR Apache-2.0
# The package foo with its programs linked in the order of profiles/foo.gv. The compiler's wrapper has its own path to the linker, so -B
# names the linker of sediment. Flags that the package sets stay.
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
