// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the linker wrapper's reading and decisions.

#[path = "wrapper/build_log.rs"]
mod build_log;
#[path = "wrapper/command_line.rs"]
mod command_line;
#[path = "wrapper/plan.rs"]
mod plan;
#[path = "support/said.rs"]
mod said;
