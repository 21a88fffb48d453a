// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions of the linker wrapper, without side effects: [`command_line`] parses the linker's arguments, [`plan`]
//! decides, [`settings`] reads a package's settings, [`build_log`] finds the links of a build. The program itself calls
//! the linker, finds files and starts processes.

pub mod build_log;
pub mod command_line;
pub mod plan;
pub mod settings;
