// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a profile to the order in which a linker is to place its functions.

pub mod algorithms;
mod build;
mod groups;
pub mod keep;
mod score;
mod unprofiled;
pub mod versions;

pub(crate) use build::held;
pub use build::{
    BuiltGraph, FunctionTable, Selection, UNKNOWN_SIZE, build, contents, first_uses, is_estimated,
};
pub use groups::{AIMS, Aim, Evidence, HOT_SHARE, arrange};
pub use score::{FaultCurve, predicted_misses, serving};
pub use unprofiled::{Standing, Unseen, by_bonds, unseen};
