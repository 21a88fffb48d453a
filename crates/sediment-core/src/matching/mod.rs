// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matches profiles to files: [`identity`] finds the DSO of a file, [`renamed`] finds its functions under new names.

pub mod identity;
pub mod renamed;
