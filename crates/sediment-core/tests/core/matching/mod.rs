// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of matching: which profile belongs to a file, and which functions were renamed.

mod identity;
mod renamed;
