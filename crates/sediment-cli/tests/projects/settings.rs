// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environment of builds in tests.

use std::process::Command;

/// Environment variables that would make a build depend on the machine.
const SETTINGS: &[&str] = &[
    "MAKEFLAGS",
    "MAKELEVEL",
    "COMPILER_PATH",
    "PROF_DIR",
    "SEDIMENT_LOG",
    "SEDIMENT_BLOCKS",
    "SEDIMENT_COUNTERS",
    "SEDIMENT_LD",
    "DEB_BUILD_OPTIONS",
    "DEB_BUILD_PROFILES",
    "CC",
    "CXX",
    "CPPFLAGS",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "RUSTFLAGS",
];

/// Removes them from a command's environment, and the variables that cargo sets for a test.
pub fn without_settings(command: &mut Command) {
    for name in SETTINGS {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
        command.env_remove(name);
    }
}
