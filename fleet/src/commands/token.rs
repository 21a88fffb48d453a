// SPDX-License-Identifier: MIT OR Apache-2.0
//! `token` makes a token for a submitter.

use crate::errors::ErrorContext as _;
use crate::intake::tokens::Tokens;
use crate::secret::random;
use crate::submission::LONGEST_WORD;
use sediment_core::{Error, ErrorCode, Result};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct TokenOptions {
    /// File of tokens, to which the hash is added; made if it does not exist
    file: PathBuf,
    /// Name of the submitter; only the site sees it
    name: String,
    /// Class of the submitter's hosts
    host_class: String,
}

pub(super) fn run(TokenOptions { file, name, host_class }: &TokenOptions) -> Result<()> {
    for word in [name, host_class] {
        if word.is_empty() || word.chars().any(char::is_control) {
            return Err(Error::new(
                ErrorCode::Usage,
                "a name must not be empty or contain control characters",
            ));
        }
        if word.len() > LONGEST_WORD {
            return Err(Error::new(ErrorCode::Usage, format!("a name is longer than {LONGEST_WORD} bytes")));
        }
    }
    let token = hex::encode(random::<32>()?);
    let tokens = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file);
    let line = Tokens::line(&token, name, host_class);
    tokens.and_then(|mut tokens| tokens.write_all(line.as_bytes())).at(file)?;
    println!("{token}");
    Ok(())
}
