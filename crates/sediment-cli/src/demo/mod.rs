// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of `sediment demo`: the generated program, the machine's compiler and linker, and the report.

pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod toolchain;
