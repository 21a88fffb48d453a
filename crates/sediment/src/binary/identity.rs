// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which cluster of a profile belongs to a binary.

use super::Binary;
use crate::profile::Profile;

/// The cluster of a profile that belongs to a binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its label.
    pub label: String,
}

/// Finds it.
#[must_use]
pub fn cluster_of(profile: &Profile, binary: &Binary, file_name: &str) -> Option<Match> {
    let label = binary.soname.as_deref().unwrap_or(file_name);
    profile.clusters().contains_key(label).then(|| Match { label: label.to_owned() })
}
