// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C compiler of the environment, its linker, and the linker's dialect for orders.

use crate::ui::Ui;
use crate::values;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_order::link::Linker;
use sediment_order::wrapper::plan;
use sediment_process::Command;
use sediment_process::command::run;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// Longer than a compiler takes, except on unusably slow machines.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Returns dialect and name of the linker that builds use: the linker of the compiler in `CC`, or else of `cc`, with
/// the linker selected by `LDFLAGS`. Both variables are parsed as in a shell; a warning reports an unclosed quote and
/// the assumption.
///
/// # Errors
/// If there is no compiler, or its linker does not accept an order.
pub(crate) fn default_linker(ui: &Ui) -> Result<(&'static Linker, String)> {
    let (compiler, arguments) = compiler_of_environment(|assumed| ui.warn(assumed));
    let version = linker_version(&compiler, &arguments);
    let dialect = plan::dialect(&version, &ask(&compiler, &arguments, "-Wl,--help")).map_err(|why| {
        let why = why.split(';').next().unwrap_or_default().to_owned();
        let asked: Vec<_> = std::iter::once(&compiler).chain(&arguments).map(|word| word.to_string_lossy()).collect();
        let asked = escape::terminal(&asked.join(" "));
        let found = if version.is_empty() { format!("no compiler with a linker found: tried `{asked}`") } else { why };
        Error::new(ErrorCode::Unsupported, found)
            .with_hint("name the compiler with CC, or the ordering language with --linker; mold and wild order by the wrapper (docs/linkers.md)")
    })?;
    Ok((dialect, version))
}

/// Returns the compiler in `CC`, or else cc, with its further words and the words of `LDFLAGS` that select a linker.
/// `warn` receives a message on an unclosed quote.
pub(crate) fn compiler_of_environment(warn: impl Fn(&str)) -> (OsString, Vec<OsString>) {
    let words_of = |name: &str| {
        values::shell_words(&std::env::var(name).unwrap_or_default()).unwrap_or_else(|words| {
            let assumed = escape::terminal(&words.join(" "));
            warn(&format!("{name} has a quote without an end; assumed: {name}={assumed}"));
            words
        })
    };
    let mut words = words_of("CC").into_iter();
    let compiler = OsString::from(words.next().unwrap_or_else(|| "cc".to_owned()));
    let selects =
        |flag: &String| ["-fuse-ld=", "--ld-path=", "-B"].iter().any(|option| flag.starts_with(option));
    let arguments = words.chain(words_of("LDFLAGS").into_iter().filter(selects));
    (compiler, arguments.map(OsString::from).collect())
}

/// First line of the linker's version text; empty without a linker.
pub(crate) fn linker_version(compiler: &OsStr, link_arguments: &[OsString]) -> String {
    ask(compiler, link_arguments, "-Wl,--version").lines().next().unwrap_or_default().to_owned()
}

/// Returns one of the compiler's own folders, such as its folder of plugins, if it exists.
pub(crate) fn own_folder(name: &str) -> Option<PathBuf> {
    let (compiler, words) = compiler_of_environment(|_| ());
    let answer = ask(&compiler, &words, &format!("-print-file-name={name}"));
    // If it does not exist, the compiler repeats the name.
    Some(PathBuf::from(answer.trim_end())).filter(|folder| folder.is_absolute())
}

fn ask(compiler: &OsStr, link_arguments: &[OsString], question: &str) -> String {
    let command = Command::new(compiler, "/", TIME_LIMIT)
        .with_arguments(link_arguments.iter().cloned().chain([question.into()]));
    let output = run(&command, 1 << 20).map(|ended| ended.output).unwrap_or_default();
    String::from_utf8_lossy(&output).into_owned()
}
