// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Published`]: the published pages in a folder, so that a restart does not publish a package too early.
//!
//! The difference between two publications of a package shows everything that changed between them. A package is therefore published again only when
//! enough new submitters have changed it: otherwise known submitters could cause a new publication at any time.

use crate::errors::{ErrorContext as _, write_file};
use sediment_core::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Data about a package's publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Publication {
    pub(crate) package: String,
    pub(crate) submissions: u64,
    /// The versions that are shown.
    pub(crate) versions: u64,
    /// Day of the newest submission.
    pub(crate) last: i32,
    /// Number of submissions of each submitter, by the submitter's number.
    pub(crate) of_submitters: BTreeMap<i32, u64>,
}

impl Publication {
    /// Number of submitters that are not in this publication.
    pub(crate) fn new_submitters(&self, now: &BTreeMap<i32, u64>) -> usize {
        now.keys().filter(|submitter| !self.of_submitters.contains_key(submitter)).count()
    }
}

/// A folder with the newest publication of each package.
#[derive(Debug)]
pub(crate) struct Published {
    folder: PathBuf,
    all: BTreeMap<String, Publication>,
}

impl Published {
    /// Opens a folder; makes it if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).at(folder)?;
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(folder).at(folder)? {
            let path = entry.at(folder)?.path();
            if path.extension().is_some_and(|end| end == "json") {
                let text = std::fs::read(&path).at(&path)?;
                // A damaged file does not count as a publication, so the package is published again.
                if let Ok(one) = serde_json::from_slice::<Publication>(&text) {
                    all.insert(one.package.clone(), one);
                }
            }
        }
        Ok(Self { folder: folder.to_owned(), all })
    }

    /// All publications, by package.
    pub(crate) fn all(&self) -> &BTreeMap<String, Publication> {
        &self.all
    }

    /// Stores a publication with its page and profile.
    pub(crate) fn keep(&mut self, one: Publication, page: &str, profile: &str) -> Result<()> {
        let facts = serde_json::to_vec(&one).io()?;
        // Writes the facts first: after an interruption, too much counts as published rather than too little.
        for (end, bytes) in [("json", &facts[..]), ("html", page.as_bytes()), ("gv", profile.as_bytes())] {
            write_file(&self.path(&one.package, end), bytes)?;
        }
        self.all.insert(one.package.clone(), one);
        Ok(())
    }

    /// The file with the page (`html`) or profile (`gv`) of a package.
    pub(crate) fn path(&self, package: &str, end: &str) -> PathBuf {
        // Names from strangers must not be used as file names.
        let name = hex::encode(&Sha256::digest(package.as_bytes())[..16]);
        self.folder.join(format!("{name}.{end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publications_last_and_tell_who_changed() {
        let folder = tempfile::tempdir().unwrap();
        let of_submitters = BTreeMap::from([(1, 1), (2, 1), (3, 5)]);
        let one = Publication {
            package: "../a".to_owned(),
            submissions: 7,
            versions: 1,
            last: 20_000,
            of_submitters,
        };
        Published::open(folder.path()).unwrap().keep(one.clone(), "page", "profile").unwrap();
        let published = Published::open(folder.path()).unwrap();
        assert_eq!(published.all().get("../a"), Some(&one));
        assert_eq!(std::fs::read(published.path("../a", "html")).unwrap(), b"page");
        // Two are new, one is gone, one has more.
        let now = BTreeMap::from([(1, 1), (3, 6), (4, 1), (5, 1)]);
        assert_eq!(one.new_submitters(&now), 2);
        assert_eq!(one.new_submitters(&one.of_submitters), 0);
    }
}
