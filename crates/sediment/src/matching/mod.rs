// SPDX-License-Identifier: MIT OR Apache-2.0
//! What of a profile belongs to a file: [`identity`], which cluster is of it; [`renamed`], functions that are there under new names.

pub mod identity;
pub mod renamed;
