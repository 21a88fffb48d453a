// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment import`: any profiler's files in, one profile out.

use crate::files::{self, Source, SystemFiles};
use crate::ui::Ui;
use clap::Args;
use sediment::read::{self, Recording, Settings, StackOrder};
use sediment::{Error, Result, profile, resolve};
use std::path::PathBuf;

/// Turn a profiler's files into a profile
#[derive(Debug, Args)]
#[command(long_about = "Turn a profiler's files into a profile.\n\n\
The kind of each file is found by its content. Several files are the parts of one recording (one per thread or per dump): \
their counts add up. Use `sediment merge` for several recordings.\n\n\
Sizes and exact names come from the programs' own symbols, where they are at hand: the files named by --binary, else the \
recorded paths, below --symfs where given.")]
pub(crate) struct Arguments {
    /// The profiler's files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    recordings: Vec<PathBuf>,
    /// The profile to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// An executable or library that was recorded, for its symbols; may be given again
    #[arg(long, value_name = "ELF")]
    binary: Vec<PathBuf>,
    /// Look for the recorded programs, and their debug files, below this folder
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Read the files as this format, whatever their content looks like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
    /// Which end of a call stack stands first, for text that does not say it
    #[arg(long, value_name = "FIRST", value_parser = ["caller", "callee"])]
    stacks: Option<String>,
    /// Use a program's symbols although its build-id is not the recorded one
    #[arg(long)]
    ignore_build_id: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let recording = read_all(&arguments.recordings, &arguments.settings())?;
    let files = SystemFiles::new(arguments.symfs.clone(), &arguments.binary)?;
    let text = profile_text(&recording, &files, arguments.ignore_build_id, ui)?;
    files::write(&arguments.output, text.as_bytes(), ui)
}

fn format_names() -> Vec<&'static str> {
    read::READERS.iter().map(|reader| reader.name).collect()
}

impl Arguments {
    fn settings(&self) -> Settings {
        Settings {
            format: self.format.clone(),
            program: self.binary.first().map(|path| path.to_string_lossy().into_owned()),
            stacks: self.stacks.as_deref().map(|first| match first {
                "caller" => StackOrder::CallerFirst,
                _ => StackOrder::CalleeFirst,
            }),
        }
    }
}

/// Reads the parts of one recording.
pub(crate) fn read_all(paths: &[PathBuf], settings: &Settings) -> Result<Recording> {
    let mut whole: Option<Recording> = None;
    for path in paths {
        let source = Source::open(path)?;
        let part = read::read(&source, settings).map_err(|error| error.with_input(files::display(path)))?;
        match &mut whole {
            None => whole = Some(part),
            Some(sum) => sum.append(&part).map_err(|error| error.with_input(files::display(path)))?,
        }
    }
    whole.ok_or_else(|| Error::failed("no recording was given"))
}

/// Resolves a recording and prints its profile, telling what was lost on the way.
pub(crate) fn profile_text(
    recording: &Recording,
    files: &SystemFiles,
    ignore_build_id: bool,
    ui: &Ui,
) -> Result<String> {
    ui.note(&format!("read: {} ({}); {} calls in all", recording.seen, recording.source, recording.total));
    ui.losses("reading", &recording.losses);
    let resolved = resolve::resolve_with(recording, files, resolve::Settings { ignore_build_id })?;
    let profile = resolved.profile;
    ui.losses("resolving", &resolved.losses);
    super::say_what_looks_alike(&profile, ui);
    let functions = profile.functions();
    super::say_what_is_demangled(functions.iter().map(|function| profile.key(*function).name.as_str()), ui);
    Ok(profile::text::print(&profile))
}
