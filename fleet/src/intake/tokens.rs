// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tokens`]: who may send. A site gives a token to each of its hosts, or groups of hosts. The key of the submitter and the class of the host come from
//! the token, never from the submission.
//!
//! The file has one line for each token: the SHA-256 of the token in hexadecimal digits, the submitter's name and the host class, separated by tabs. It
//! does not contain the tokens.

use super::health::{Health, Part};
use crate::dataset::check::sha256;
use crate::say::warning;
use crate::secret::Keys;
use crate::submission::LONGEST_WORD;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Number of wrong tokens within [`PERIOD`] that get an answer with a reason. Further wrong tokens get the answer to wait.
const WRONG: u32 = 60;
const PERIOD: Duration = Duration::from_secs(60);

/// The sender that belongs to a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Opaque key of the submitter.
    pub submitter: String,
    /// Class of the host.
    pub host_class: String,
}

/// Senders by the hash of their tokens.
#[derive(Debug, Clone, Default)]
pub struct Tokens(HashMap<String, Sender>);

impl Tokens {
    /// Reads a file of tokens.
    ///
    /// # Errors
    /// Fails at a line without a valid token; the error contains the line number.
    pub fn parse(text: &str, keys: &Keys) -> Result<Self> {
        let mut tokens = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |message: &str| {
                Error::at_line(at as u64 + 1, message)
                    .with_hint("sediment-fleet token FILE NAME HOST-CLASS adds a line")
            };
            let fields: Vec<&str> = line.split('\t').collect();
            let [hash, name, host_class] = fields[..] else {
                return Err(fault("not three fields separated by tabs"));
            };
            if hash.len() != 64
                || !hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            {
                return Err(fault("not a SHA-256 sum in lower-case hexadecimal digits"));
            }
            let is_long = name.len() > LONGEST_WORD || host_class.len() > LONGEST_WORD;
            if name.is_empty() || host_class.is_empty() || is_long {
                return Err(fault("an empty or long name"));
            }
            let sender = Sender { submitter: keys.submitter(name), host_class: host_class.to_owned() };
            if tokens.insert(hash.to_owned(), sender).is_some() {
                return Err(fault("a token twice"));
            }
        }
        Ok(Self(tokens))
    }

    /// The line for a new token.
    #[must_use]
    pub fn line(token: &str, name: &str, host_class: &str) -> String {
        format!("{}\t{name}\t{host_class}\n", sha256(token.as_bytes()))
    }

    /// The sender that belongs to a token. The lookup uses the hash, so its time does not reveal tokens.
    #[must_use]
    pub fn sender(&self, token: &str) -> Option<&Sender> {
        self.0.get(&sha256(token.as_bytes()))
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The file of tokens while an intake runs. Changes apply from the next request on.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    keys: Keys,
    known: RwLock<Arc<Tokens>>,
    /// Modification time, size and inode of the file that was read last.
    read: Mutex<Option<Stamp>>,
    wrong: Mutex<Wrong>,
}

type Stamp = (i64, i64, u64, u64);

#[derive(Debug)]
struct Wrong {
    count: u32,
    since: Instant,
}

impl TokenFile {
    /// Reads a file of tokens.
    ///
    /// # Errors
    /// Fails if the file is not readable, not a file of tokens, or without tokens.
    pub fn open(path: &Path, keys: &Keys) -> Result<Self> {
        let file = Self {
            path: path.to_owned(),
            keys: keys.clone(),
            known: RwLock::default(),
            read: Mutex::default(),
            wrong: Mutex::new(Wrong { count: 0, since: Instant::now() }),
        };
        *file.read.lock().unwrap_or_else(PoisonError::into_inner) = file.stamp();
        let tokens = file.load()?;
        if tokens.is_empty() {
            return Err(Error::new(ErrorCode::EmptyInput, "the file has no token, so nobody can send")
                .with_input(path.display().to_string())
                .with_hint("sediment-fleet token FILE NAME HOST-CLASS makes one"));
        }
        *file.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
        Ok(file)
    }

    fn stamp(&self) -> Option<Stamp> {
        let facts = std::fs::metadata(&self.path).ok()?;
        Some((facts.mtime(), facts.mtime_nsec(), facts.len(), facts.ino()))
    }

    fn load(&self) -> Result<Tokens> {
        let name = || self.path.display().to_string();
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| Error::new(ErrorCode::Io, error.to_string()).with_input(name()))?;
        Tokens::parse(&text, &self.keys).map_err(|error| error.with_input(name()))
    }

    /// Reads the file again if it has changed, or if `always`. An unreadable file changes nothing; a file without tokens revokes all tokens.
    pub fn refresh(&self, always: bool, health: &Health) {
        let now = self.stamp();
        {
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if *read == now && !always {
                return;
            }
            *read = now;
        }
        match self.load() {
            Ok(tokens) => {
                if tokens.is_empty() {
                    health.fails(Part::Tokens, "the file has no token, so nobody can send");
                } else {
                    health.works(Part::Tokens);
                }
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
            }
            Err(error) => health
                .fails(Part::Tokens, &format!("the tokens that were read before are still valid: {error}")),
        }
    }

    /// The sender that belongs to a token.
    #[must_use]
    pub fn sender(&self, token: &str) -> Option<Sender> {
        let known = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner));
        known.sender(token).cloned()
    }

    /// Counts a wrong token. Returns false if there were too many recently.
    #[must_use]
    pub fn may_be_wrong(&self) -> bool {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.since.elapsed() >= PERIOD {
            if wrong.count > WRONG {
                warning(&format!("{} requests with wrong tokens within a minute", wrong.count));
            }
            *wrong = Wrong { count: 0, since: Instant::now() };
        }
        wrong.count = wrong.count.saturating_add(1);
        if wrong.count == WRONG + 1 {
            warning("many requests with wrong tokens: further ones must wait");
        }
        wrong.count <= WRONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::of([7; 32])
    }

    #[test]
    fn tokens_name_their_senders() {
        let file = format!("# hosts\n{}", Tokens::line("secret", "alice", "desktop"));
        let tokens = Tokens::parse(&file, &keys()).unwrap();
        let sender = tokens.sender("secret").unwrap();
        assert_eq!(
            (sender.submitter.as_str(), sender.host_class.as_str()),
            (keys().submitter("alice").as_str(), "desktop")
        );
        assert!(tokens.sender("other").is_none() && !file.contains("secret"));
    }

    #[test]
    fn a_changed_file_counts_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let health = Health::default();
        std::fs::write(&path, "").unwrap();
        assert_eq!(TokenFile::open(&path, &keys()).unwrap_err().code(), ErrorCode::EmptyInput);
        std::fs::write(&path, Tokens::line("one", "alice", "desktop")).unwrap();
        let file = TokenFile::open(&path, &keys()).unwrap();
        assert!(file.sender("one").is_some());
        std::fs::write(&path, Tokens::line("second", "bob", "desktop")).unwrap();
        file.refresh(false, &health);
        assert!(file.sender("one").is_none() && file.sender("second").is_some());
        std::fs::write(&path, "no token").unwrap();
        file.refresh(false, &health);
        assert!(file.sender("second").is_some() && health.faults().contains("still valid"));
        std::fs::write(&path, "").unwrap();
        file.refresh(true, &health);
        assert!(file.sender("second").is_none() && health.faults().contains("nobody can send"));
        assert!((0..WRONG).all(|_| file.may_be_wrong()) && !file.may_be_wrong());
    }

    #[test]
    fn what_is_no_token_is_an_error_with_its_line() {
        let twice = Tokens::line("a", "b", "c").repeat(2);
        for (text, line) in [("\nx\ty\tz", 2), ("x y z", 1), (twice.as_str(), 2)] {
            let error = Tokens::parse(text, &keys()).unwrap_err();
            assert_eq!(error.location(), Some(sediment_core::ErrorLocation::Line(line)), "{text}");
        }
    }
}
