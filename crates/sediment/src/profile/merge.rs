// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adding profiles up.

use super::Profile;
use crate::error::{Error, Result};

/// The weight of one input: a decimal from 0 to 10^9 with at most nine places, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u128);

impl Weight {
    /// Weight 1.
    pub const ONE: Self = Self(1_000_000_000);

    /// Reads a weight.
    ///
    /// # Errors
    /// When it is no decimal in range.
    pub fn parse(text: &str) -> Result<Self> {
        let _ = text;
        Err(Error::failed("not written"))
    }
}

/// Adds profiles up; with `normalize` the total of each share input is brought to 10^15 first.
///
/// # Errors
/// When a sum or product leaves 128 bits.
pub fn merge(inputs: &[(&Profile, Weight)], normalize: bool) -> Result<Profile> {
    let _ = (inputs, normalize);
    Err(Error::failed("not written"))
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
