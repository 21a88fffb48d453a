// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tokens`]: who may send. A site gives a token to each of its hosts, or groups of hosts. The key of the submitter and the class of the host come from
//! the token, never from the submission.
//!
//! The file has one line for each token: the SHA-256 of the token in hexadecimal digits, the submitter's name and the host class, separated by tabs. It
//! does not contain the tokens.

use super::health::{Health, Part};
use crate::errors::{ErrorContext as _, warning};
use crate::secret::Keys;
use crate::submission::LONGEST_WORD;
use parking_lot::{Mutex, RwLock};
use sediment_core::{Error, ErrorCode, Result};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of wrong tokens within [`PERIOD`] that get an answer with a reason. Further wrong tokens get the answer to wait.
const WRONG: u32 = 60;
const NOBODY: &str = "the file has no token, so nobody can send";
const PERIOD: Duration = Duration::from_secs(60);

/// The sender that belongs to a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) submitter: String,
    pub(crate) host_class: String,
}

/// Senders by the hash of their tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens(HashMap<String, Sender>);

impl Tokens {
    /// Reads a file of tokens.
    pub(crate) fn parse(text: &str, keys: &Keys) -> Result<Self> {
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
    pub(crate) fn line(token: &str, name: &str, host_class: &str) -> String {
        format!("{}\t{name}\t{host_class}\n", sha256(token))
    }

    /// The sender that belongs to a token. The lookup uses the hash, so its time does not reveal tokens.
    pub(crate) fn sender(&self, token: &str) -> Option<&Sender> {
        self.0.get(&sha256(token))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Hash of a token.
fn sha256(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// The file of tokens while an intake runs. Changes apply from the next request on.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    keys: Keys,
    known: RwLock<Tokens>,
    /// The text that was read last.
    read: Mutex<Option<String>>,
    wrong: Mutex<Wrong>,
}

#[derive(Debug)]
struct Wrong {
    count: u32,
    since: Instant,
}

impl TokenFile {
    /// Reads a file of tokens.
    pub(crate) fn open(path: &Path, keys: &Keys) -> Result<Self> {
        let file = Self {
            path: path.to_owned(),
            keys: keys.clone(),
            known: RwLock::default(),
            read: Mutex::default(),
            wrong: Mutex::new(Wrong { count: 0, since: Instant::now() }),
        };
        let tokens = file.load()?.unwrap_or_default();
        if tokens.is_empty() {
            return Err(Error::new(ErrorCode::EmptyInput, NOBODY)
                .with_input(path.display().to_string())
                .with_hint("sediment-fleet token FILE NAME HOST-CLASS makes one"));
        }
        *file.known.write() = tokens;
        Ok(file)
    }

    /// The tokens, if the file's text has changed.
    fn load(&self) -> Result<Option<Tokens>> {
        let text = std::fs::read_to_string(&self.path).at(&self.path)?;
        if self.read.lock().as_ref() == Some(&text) {
            return Ok(None);
        }
        let tokens = Tokens::parse(&text, &self.keys);
        *self.read.lock() = Some(text);
        tokens.map(Some).map_err(|error| error.with_input(self.path.display().to_string()))
    }

    /// Reads the file again. An unreadable file changes nothing; a file without tokens revokes all tokens.
    pub(crate) fn refresh(&self, health: &Health) {
        match self.load() {
            Ok(None) => {}
            Ok(Some(tokens)) => {
                match tokens.is_empty() {
                    true => health.fails(Part::Tokens, NOBODY),
                    false => health.works(Part::Tokens),
                }
                *self.known.write() = tokens;
            }
            Err(error) => {
                // When the file is readable again, its text counts as new.
                self.read.lock().take_if(|_| error.code() == ErrorCode::Io);
                let why = format!("the tokens that were read before are still valid: {error}");
                health.fails(Part::Tokens, &why);
            }
        }
    }

    /// The sender that belongs to a token.
    pub(crate) fn sender(&self, token: &str) -> Option<Sender> {
        self.known.read().sender(token).cloned()
    }

    /// Counts a wrong token. Returns false if there were too many recently.
    pub(crate) fn may_be_wrong(&self) -> bool {
        let mut wrong = self.wrong.lock();
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
        file.refresh(&health);
        assert!(file.sender("one").is_none() && file.sender("second").is_some());
        std::fs::write(&path, "no token").unwrap();
        file.refresh(&health);
        assert!(file.sender("second").is_some() && health.faults().contains("still valid"));
        std::fs::write(&path, "").unwrap();
        file.refresh(&health);
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
