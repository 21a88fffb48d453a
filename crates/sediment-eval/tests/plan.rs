// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a plan, and numbers in what programs print.

#[path = "plan/command_line.rs"]
mod command_line;
#[path = "plan/work.rs"]
mod work;
