// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Keys`]: digests that can be made only with the site's secret. The secret is a file outside the dataset.

use crate::errors::{ErrorContext as _, damaged};
use sediment_core::{Error, ErrorCode, Result};
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Size of a secret, and of a block of SHA-256, in bytes.
const LENGTH: usize = 32;
const BLOCK: usize = 64;

/// Makes keys of submitters, and identities of submissions.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys([u8; LENGTH]);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// File of a dataset's secret: the given file, else `DATASET.secret` next to the dataset's folder.
pub(crate) fn file_of(place: &str, given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None if place.starts_with("s3://") => {
            Err(Error::new(ErrorCode::Usage, "a dataset in an object store needs a file for its secret")
                .with_hint("--secret FILE, on this machine; every writer of the dataset needs the same"))
        }
        None => Ok(PathBuf::from(format!("{}.secret", place.trim_end_matches('/')))),
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).io()?;
    Ok(bytes)
}

impl Keys {
    /// Keys from a secret.
    #[cfg(test)]
    pub(crate) fn of(secret: [u8; LENGTH]) -> Self {
        Self(secret)
    }

    /// Reads a secret. If the file does not exist, makes a new secret; `is_new` means that no keys were made with another secret before.
    pub fn open(path: &Path, is_new: bool) -> Result<Self> {
        const HINT: &str = "the dataset's keys of submitters were made with this file: put it back, or name it with --secret";
        if is_new && !path.exists() {
            let secret = random()?;
            let made = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
            let written = made.and_then(|mut file| {
                file.write_all(format!("{}\n", hex::encode(secret)).as_bytes())?;
                file.sync_all()
            });
            match written {
                // Another program made the file at this moment.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                written => return written.at(path).map(|()| Self(secret)),
            }
        }
        let text = std::fs::read_to_string(path).at(path).map_err(|error| error.with_hint(HINT))?;
        let mut secret = [0; LENGTH];
        match hex::decode_to_slice(text.trim(), &mut secret) {
            Ok(()) => Ok(Self(secret)),
            Err(_) => {
                Err(damaged("not a secret: 64 hexadecimal digits").with_input(path.display().to_string()))
            }
        }
    }

    /// HMAC-SHA256 of the parts; each part is preceded by its length.
    fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let padded = |pad: u8| {
            let mut block = [pad; BLOCK];
            block.iter_mut().zip(self.0).for_each(|(byte, secret)| *byte ^= secret);
            block
        };
        let mut inner = Sha256::new().chain_update(padded(0x36));
        for part in parts {
            inner.update((part.len() as u64).to_le_bytes());
            inner.update(part);
        }
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner.finalize()).finalize().into()
    }

    /// Opaque key of a submitter, from the name that the site gave.
    pub fn submitter(&self, name: &str) -> String {
        hex::encode(&self.digest(&[b"submitter", name.as_bytes()])[..8])
    }

    /// Identity of a submission: equal bytes of the same submitter have the same identity.
    pub fn identity(&self, submitter: &str, bytes: &[u8]) -> u128 {
        let digest = self.digest(&[b"submission", submitter.as_bytes(), bytes]);
        digest.iter().take(16).fold(0, |number, byte| (number << 8) | u128::from(*byte))
    }

    /// Digest of a subject's texts, by which writers find it in a dataset. Strangers cannot find two subjects with the same digest.
    pub(crate) fn subject(&self, texts: &[Option<&str>; 8]) -> i128 {
        // No text contains the byte 255, so a missing text differs from all texts.
        let parts = texts.map(|text| text.map_or(&[255][..], str::as_bytes));
        let parts: Vec<&[u8]> = std::iter::once(&b"subject"[..]).chain(parts).collect();
        // 120 bits are fewer than 38 digits.
        self.digest(&parts).iter().take(15).fold(0, |number, byte| (number << 8) | i128::from(*byte))
    }

    /// Digest that a dataset stores, to detect a different secret.
    pub(crate) fn check(&self, dataset: &str) -> String {
        hex::encode(&self.digest(&[b"dataset", dataset.as_bytes()])[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_secret_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("dataset").display().to_string();
        let file = file_of(&format!("{place}/"), None).unwrap();
        assert_eq!(file, folder.path().join("dataset.secret"));
        assert!(Keys::open(&file, false).is_err());
        let keys = Keys::open(&file, true).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Keys::open(&file, false).unwrap(), keys);
        std::fs::write(&file, "00").unwrap();
        assert_eq!(Keys::open(&file, true).unwrap_err().code(), ErrorCode::Damaged);
        assert!(file_of("s3://bucket/x", None).is_err());
    }

    #[test]
    fn digests_depend_on_the_secret_and_on_each_part() {
        let (one, other) = (Keys::of([1; LENGTH]), Keys::of([2; LENGTH]));
        assert_eq!(one.submitter("alice").len(), 16);
        assert_ne!(one.submitter("alice"), other.submitter("alice"));
        assert_ne!(one.identity("a", b"bc"), one.identity("ab", b"c"));
        assert_ne!(one.check("x"), one.submitter("x"));
        // HMAC of RFC 4231, but the length comes before the text, so the digest differs from RFC 4231.
        assert_ne!(one.digest(&[b"Hi There"]), one.digest(&[b"Hi ", b"There"]));
    }
}
