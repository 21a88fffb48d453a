// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the commands of a plan, and of numbers in the output of programs.

mod command_line;
mod work;
