// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of sediment-core: profiles and their text, ELF files, matching, escaping.

mod binary;
mod callgraph;
mod escape;
mod matching;
mod profile;
