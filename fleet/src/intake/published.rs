// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Published`]: the published pages in a folder, so that a restart does not publish a package too early.
//!
//! The difference between two publications of a package shows everything that changed between them. A package is therefore published again only when
//! enough new submitters have changed it: otherwise known submitters could cause a new publication at any time.

use sediment_core::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Data about a package's publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Name of the package.
    pub package: String,
    /// Number of submissions.
    pub submissions: u64,
    /// The versions that are shown.
    pub versions: u64,
    /// Day of the newest submission.
    pub last: i32,
    /// Number of submissions of each submitter, by the submitter's number.
    pub of_submitters: BTreeMap<i32, u64>,
}

impl Publication {
    /// Number of submitters that are not in this publication.
    #[must_use]
    pub fn new_submitters(&self, now: &BTreeMap<i32, u64>) -> usize {
        now.keys().filter(|submitter| !self.of_submitters.contains_key(submitter)).count()
    }
}

/// A folder with the newest publication of each package.
#[derive(Debug)]
pub struct Published {
    folder: PathBuf,
    all: BTreeMap<String, Publication>,
}

impl Published {
    /// Opens a folder; makes it if it does not exist.
    ///
    /// # Errors
    /// Fails if the folder is not readable.
    pub fn open(folder: &Path) -> Result<Self> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| io(&error, folder))?;
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(|error| io(&error, folder))? {
            let path = entry.map_err(|error| io(&error, folder))?.path();
            if path.extension().is_some_and(|end| end == "json") {
                let text = std::fs::read(&path).map_err(|error| io(&error, &path))?;
                // A damaged file does not count as a publication, so the package is published again.
                if let Ok(one) = serde_json::from_slice::<Publication>(&text) {
                    all.insert(one.package.clone(), one);
                }
            }
        }
        Ok(Self { folder: folder.to_owned(), all })
    }

    /// All publications, by package.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, Publication> {
        &self.all
    }

    /// Stores a publication with its page and profile.
    ///
    /// # Errors
    /// Fails if the folder is not writable; the earlier publication is then kept.
    pub fn keep(&mut self, one: Publication, page: &str, profile: &str) -> Result<()> {
        let facts = serde_json::to_vec(&one).map_err(|error| Error::new(ErrorCode::Io, error.to_string()))?;
        // Writes the facts first: after an interruption, too much counts as published rather than too little.
        for (end, bytes) in [("json", &facts[..]), ("html", page.as_bytes()), ("gv", profile.as_bytes())] {
            let path = self.path(&one.package, end);
            let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
                file.write_all(bytes)?;
                file.as_file().sync_all()?;
                file.persist(&path).map_err(|error| error.error)
            });
            written.map_err(|error| io(&error, &path))?;
        }
        self.all.insert(one.package.clone(), one);
        Ok(())
    }

    /// The file with the page (`html`) or profile (`gv`) of a package.
    #[must_use]
    pub fn path(&self, package: &str, end: &str) -> PathBuf {
        // Names from strangers must not be used as file names.
        let digest = Sha256::digest(package.as_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{end}"))
    }
}

fn io(error: &std::io::Error, path: &Path) -> Error {
    Error::new(ErrorCode::Io, error.to_string()).with_input(path.display().to_string())
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
