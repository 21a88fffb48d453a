// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the linker wrapper's reading and decisions.

mod build_log;
mod command_line;
mod plan;
