// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matches profiles to files: [`identity`] finds the DSO of a file, [`printed`] finds its functions by the names that
//! tools print, and [`renamed`] finds renamed functions.

pub mod identity;
pub mod printed;
pub mod renamed;
