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
#[path = "../running/mod.rs"]
mod running;
mod sessions;
mod submissions;
mod symbols;
mod tidy;
