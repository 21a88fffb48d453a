// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of instrumented programs, and counts by source line.
//!
//! [`gcov`] reads the counters of GCC's instrumentation, [`llvm`] those of LLVM's. Both become counters of a profile, and
//! are written again for the compiler. [`line_profile`] counts executions and calls by source line, for compilers that take
//! sample profiles: clang, GCC and Go.

pub mod gcov;
pub mod line_profile;
pub mod llvm;
