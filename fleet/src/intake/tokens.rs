// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tokens`]: who may send. A site gives each of its hosts, or groups of hosts, a token; the key of the submitter and the class of
//! the host come from the token, never from what was sent.
//!
//! The file has a line per token: the SHA-256 of the token in hexadecimal digits, the submitter's name and the host class, with tabs
//! between. It has no token itself.

use crate::dataset::check::sha256;
use crate::submission::{LONGEST_WORD, submitter_key};
use sediment_core::{Error, Result};
use std::collections::HashMap;

/// Who sends with a token.
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
    /// With the line of what is no token.
    pub fn parse(text: &str, salt: &str) -> Result<Self> {
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
                return Err(fault("not three fields with tabs between"));
            };
            if hash.len() != 64
                || !hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            {
                return Err(fault("not a SHA-256 sum in lower-case hexadecimal digits"));
            }
            if name.is_empty() || host_class.is_empty() || host_class.len() > LONGEST_WORD {
                return Err(fault("an empty or long name"));
            }
            let sender = Sender { submitter: submitter_key(salt, name), host_class: host_class.to_owned() };
            if tokens.insert(hash.to_owned(), sender).is_some() {
                return Err(fault("a token twice"));
            }
        }
        Ok(Self(tokens))
    }

    /// The line of a new token.
    #[must_use]
    pub fn line(token: &str, name: &str, host_class: &str) -> String {
        format!("{}\t{name}\t{host_class}\n", sha256(token.as_bytes()))
    }

    /// Who sends with a token. The hash is looked up, so that time tells nothing of tokens.
    #[must_use]
    pub fn sender(&self, token: &str) -> Option<&Sender> {
        self.0.get(&sha256(token.as_bytes()))
    }

    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_senders() {
        let file = format!("# hosts\n{}", Tokens::line("secret", "alice", "desktop"));
        let tokens = Tokens::parse(&file, "salt").unwrap();
        let sender = tokens.sender("secret").unwrap();
        assert_eq!(
            (sender.submitter.as_str(), sender.host_class.as_str()),
            (submitter_key("salt", "alice").as_str(), "desktop")
        );
        assert!(tokens.sender("other").is_none() && !file.contains("secret"));
    }

    #[test]
    fn what_is_no_token_is_an_error_with_its_line() {
        let twice = Tokens::line("a", "b", "c").repeat(2);
        for (text, line) in [("\nx\ty\tz", 2), ("x y z", 1), (twice.as_str(), 2)] {
            let error = Tokens::parse(text, "").unwrap_err();
            assert_eq!(error.location(), Some(sediment_core::Location::Line(line)), "{text}");
        }
    }
}
