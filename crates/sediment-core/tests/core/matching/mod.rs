// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which profile belongs to a file, and its functions under new names.

mod identity;
mod renamed;
