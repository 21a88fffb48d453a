// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of a plan, and numbers in what programs print.

mod command_line;
mod work;
