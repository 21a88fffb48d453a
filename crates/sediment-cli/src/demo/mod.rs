// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `sediment demo` is made of: the generated program, the machine's compiler and linker, and the report.

pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod toolchain;
