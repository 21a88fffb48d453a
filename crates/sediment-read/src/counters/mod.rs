// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of instrumented programs, and counts by source line.
//!
//! [`gcov`] reads the counters of GCC's instrumentation, [`llvm`] the counters of LLVM's. Both become counters of a
//! profile, and can be written for the compiler. [`line_profile`] counts executions and calls by source line, for
//! compilers that read sample profiles: clang, GCC and Go.

pub mod gcov;
pub mod line_profile;
pub mod llvm;
