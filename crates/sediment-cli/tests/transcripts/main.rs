// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program without compilers: sessions with their output, options, files; and the rules of this project.

mod advise;
mod ci_steps;
mod former_commands;
mod import;
mod knowledge;
mod order;
mod predict;
mod program;
mod report;
mod sessions;
mod submissions;
mod symbols;
mod tidy;
#[path = "../running/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod running;
#[path = "../sandbox/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod sandbox;
#[path = "../projects/mod.rs"]
#[allow(dead_code, unused_imports)] // each test program uses its part
mod projects;
