// SPDX-License-Identifier: MIT OR Apache-2.0
//! `collect --send` shows the data, asks the user, and sends it with curl, which uses the machine's proxies and
//! certificates.

use crate::files;
use crate::packages::Package;
use crate::ui::Ui;
use clap::Args;
use sediment_core::profile::{Profile, text};
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::{StandardInput, run};
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(300);
/// Longest answer in bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Where a profile goes, and by which way.
#[derive(Debug, Args)]
pub(super) struct Sending {
    /// Send the profile to the intake at this http or https URL; prints all of it and asks first [default: nothing is sent]
    #[arg(long, value_name = "URL")]
    send: Option<String>,
    /// Send without asking
    #[arg(long, requires = "send")]
    yes: bool,
    /// File with the token that the intake's site gave you [default: no token]
    #[arg(long, value_name = "FILE", requires = "send")]
    token_file: Option<PathBuf>,
    /// Proxy for sending [default: $https_proxy]
    #[arg(long, value_name = "URL", requires = "send")]
    proxy: Option<String>,
    /// File with the certificates that verify the intake's certificate [default: the system's certificates]
    #[arg(long, value_name = "FILE", requires = "send")]
    ca_file: Option<PathBuf>,
}

impl Sending {
    /// Refuses invalid settings before anything is recorded.
    pub(super) fn check(&self) -> Result<()> {
        let Some(url) = &self.send else { return Ok(()) };
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(
                Error::new(ErrorCode::Usage, "--send takes an http or https URL").with_found(url.as_bytes())
            );
        }
        if !self.yes && !std::io::stdin().is_terminal() {
            return Err(Error::new(
                ErrorCode::Usage,
                "--send asks before it sends, but standard input is not a terminal",
            )
            .with_hint("to send without being asked: --yes"));
        }
        self.token().map(drop)
    }

    /// True if the profile should be sent.
    pub(super) fn is_meant(&self) -> bool {
        self.send.is_some()
    }

    fn token(&self) -> Result<Option<String>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot read: {error}")).with_input(files::display(path))
        })?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let error = Error::new(ErrorCode::Usage, "not a token: a token is one word of printable ASCII");
            return Err(error.with_input(files::display(path)));
        }
        Ok(Some(token.to_owned()))
    }

    /// Shows the profile, asks the user, and sends it. True if it was sent.
    pub(super) fn send(&self, profile: &Profile, package: &Package, ui: &Ui) -> Result<bool> {
        let Some(url) = &self.send else { return Ok(false) };
        let text = text::print(profile);
        ui.show(&text);
        if !self.yes
            && !asked(
                &format!("send these {} bytes about {} to {url}? [y/N] ", text.len(), package.version),
                ui,
            )?
        {
            ui.note("nothing was sent");
            return Ok(false);
        }
        let answer = self.post(url, &text)?;
        ui.note(&format!("sent {} bytes to {url}: {answer}", text.len()));
        Ok(true)
    }

    /// Posts the profile. curl reads the token and the URL from its standard input, because other users can see the
    /// arguments of programs.
    fn post(&self, url: &str, text: &str) -> Result<String> {
        let folder = files::TemporaryFolder::new()?;
        let body = folder.write("profile.gv", text.as_bytes())?;
        let mut settings = format!(
            "url = {}\nheader = \"Content-Type: text/vnd.graphviz\"\nheader = \"Idempotency-Key: {}\"\nheader = \"Expect:\"\n",
            quoted(url),
            key()?
        );
        if let Some(token) = self.token()? {
            settings.push_str(&format!("header = {}\n", quoted(&format!("Authorization: Bearer {token}"))));
        }
        let mut arguments: Vec<std::ffi::OsString> = [
            "--disable",
            "--silent",
            "--show-error",
            "--proto",
            "=http,https",
            "--max-time",
            "120",
            "--retry",
            "3",
            "--retry-connrefused",
        ]
        .map(Into::into)
        .to_vec();
        for (option, value) in [
            ("--proxy", self.proxy.as_ref().map(Into::into)),
            (
                "--cacert",
                self.ca_file
                    .as_ref()
                    .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string()),
            ),
        ] {
            arguments.extend(value.into_iter().flat_map(|value| [option.into(), value]));
        }
        let mut file = std::ffi::OsString::from("@");
        file.push(&body);
        arguments.extend(["--data-binary".into(), file]);
        arguments.extend(["--write-out", "\n%{http_code}", "--config", "-"].map(Into::into));
        let mut command = Command::new("curl", "/", TIMEOUT).with_arguments(arguments);
        command.input = StandardInput::Bytes(settings.into_bytes());
        let ended = run(&command, LONGEST_ANSWER)
            .map_err(|error| error.with_hint("install curl, or send the written file by other means"))?;
        let ended = ended.successful(&command).map_err(|error| error.with_input(url))?;
        let said = String::from_utf8_lossy(&ended.output).into_owned();
        let (answer, status) = said.rsplit_once('\n').unwrap_or(("", &said));
        let answer = sediment_core::escape::terminal(answer.trim());
        match status {
            "200" | "201" => Ok(answer),
            _ => Err(Error::new(
                ErrorCode::Io,
                format!("the intake refused the profile with status {status}: {answer}"),
            )
            .with_input(url)
            .with_hint("the file is kept: try --send again later")),
        }
    }
}

/// Quotes a text for a settings file of curl.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .filter(|character| !character.is_control())
        .flat_map(|character| match character {
            '"' | '\\' => vec!['\\', character],
            other => vec![other],
        })
        .collect();
    format!("\"{escaped}\"")
}

/// Makes a random key, with which the intake recognises a repeated attempt.
fn key() -> Result<String> {
    let mut random = [0u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot read random numbers: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks the user; true for "yes".
fn asked(question: &str, ui: &Ui) -> Result<bool> {
    ui.show(question);
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot read the answer: {error}")))?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_curl_stay_one_line_each() {
        assert_eq!(quoted("http://a/\"\n\\b"), "\"http://a/\\\"\\\\b\"");
    }
}
