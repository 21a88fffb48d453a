// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the wrapper of a linker reads and decides, by values alone: the program asks the linker, finds files and starts processes.
//! [`command_line`] reads what it is called with, [`plan`] decides, [`settings`] are a package's own, [`build_log`] finds the links of a build
//! in its log.

pub mod build_log;
pub mod command_line;
pub mod plan;
pub mod settings;
