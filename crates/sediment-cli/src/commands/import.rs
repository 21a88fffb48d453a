// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment import`: any profiler's files in, one profile out.

use crate::files::{self, SystemFiles};
use crate::inputs;
use crate::inputs::recordings::{Inputs, no_order};
use crate::ui::Ui;
use crate::unit_graphs;
use clap::Args;
use sediment::read::{self, Settings, StackOrder};
use sediment::{Error, ErrorKind, Result, profile};
use std::path::{Path, PathBuf};

/// Turn a profiler's files into a profile
#[derive(Debug, Args)]
#[command(long_about = "Turn a profiler's files into a profile.\n\n\
The kind of each file is found by its content. Several files are the parts of one recording (one per thread or per dump): \
their counts add up. Use `sediment merge` for several recordings.\n\n\
The call graphs that a compiler left beside the objects of a program (sediment's plugin for GCC, -fcallgraph-info) are joined \
for the linked file that --binary names; folders are searched for them.\n\n\
Sizes and exact names come from the programs' own symbols, where they are at hand: the files named by --binary, else the \
recorded paths, below --symfs where given.")]
pub(crate) struct Arguments {
    /// The profiler's files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    recordings: Vec<PathBuf>,
    /// The profile to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Write the run itself, function by function, to this file, for predictions and layouts; not to be passed on, as it
    /// tells what was done
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// An executable or library that was recorded, for its symbols; may be given again
    #[arg(long, value_name = "ELF")]
    binary: Vec<PathBuf>,
    /// For graphs of units that a compiler left: the link map of --binary, where units of several programs lie together
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Look for the recorded programs, and their debug files, below this folder
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Read the files as this format, whatever their content looks like
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
    /// Which end of a call stack stands first, for text that does not say it
    #[arg(long, value_name = "FIRST", value_parser = ["caller-first", "callee-first"])]
    stacks: Option<String>,
    /// Count the blocks of functions, too, of a program that numbers them (docs/blocks.md)
    #[arg(long)]
    blocks: bool,
    /// Use a program's symbols although its build-id is not the recorded one
    #[arg(long)]
    ignore_build_id: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    arguments.refuse_one_file_for_two()?;
    if let Some(units) = unit_graphs::find(&arguments.recordings, ui)? {
        let profile = arguments.of_units(&units, ui)?;
        return files::write(&arguments.output, profile::text::print(&profile).as_bytes(), ui);
    }
    if arguments.map.is_some() {
        return Err(Error::new(
            ErrorKind::Usage,
            "--map is for graphs of units that a compiler left, not for recordings",
        ));
    }
    let settings = arguments.settings();
    let inputs = Inputs::open(&arguments.recordings, ui)?;
    if arguments.trace.is_some() && !inputs.any_knows_the_order(&settings)? {
        return Err(no_order());
    }
    let files = SystemFiles::new(arguments.symfs.clone(), &arguments.binary)?;
    let trace = arguments.trace.as_deref();
    let (_, resolved) = inputs.resolve(&settings, &files, arguments.ignore_build_id, trace, ui)?;
    for line in inputs::what_it_cannot_tell(&resolved.profile) {
        ui.note(&line);
    }
    files::write(&arguments.output, profile::text::print(&resolved.profile).as_bytes(), ui)
}

fn format_names() -> Vec<&'static str> {
    read::READERS.iter().map(|reader| reader.name).collect()
}

impl Arguments {
    /// What is written must not take the place of what is read, nor of the other output.
    fn refuse_one_file_for_two(&self) -> Result<()> {
        let same = |one: &Path, other: &Path| {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            real(one) == real(other)
        };
        let standard = Path::new(files::STANDARD_STREAM);
        let outputs = [Some(self.output.as_path()), self.trace.as_deref()];
        for output in outputs.into_iter().flatten().filter(|output| *output != standard) {
            if self.recordings.iter().chain(&self.binary).any(|input| same(input, output)) {
                return Err(Error::new(ErrorKind::Usage, "it is to be read and to be written over")
                    .with_input(files::display(output)));
            }
        }
        match &self.trace {
            Some(trace) if same(trace, &self.output) => {
                Err(Error::new(ErrorKind::Usage, "profile and trace are to be written to one file")
                    .with_input(files::display(trace)))
            }
            _ => Ok(()),
        }
    }

    fn of_units(&self, units: &[unit_graphs::Found], ui: &Ui) -> Result<profile::Profile> {
        let others = [
            (self.trace.is_some(), "--trace"),
            (self.symfs.is_some(), "--symfs"),
            (self.format.is_some(), "--format"),
            (self.stacks.is_some(), "--stacks"),
            (self.blocks, "--blocks"),
            (self.ignore_build_id, "--ignore-build-id"),
        ];
        if let Some((_, option)) = others.iter().find(|(given, _)| *given) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{option} is for recordings, not for graphs of units"),
            ));
        }
        match &self.binary[..] {
            [binary] => unit_graphs::import(units, binary, self.map.as_deref(), ui),
            _ => Err(Error::new(ErrorKind::Usage, "graphs of units become the profile of one linked file")
                .with_hint("name it: --binary ELF")),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            format: self.format.clone(),
            program: self.binary.first().map(|path| path.to_string_lossy().into_owned()),
            executions: self.blocks,
            stacks: self.stacks.as_deref().map(|first| match first {
                "caller-first" => StackOrder::CallerFirst,
                _ => StackOrder::CalleeFirst,
            }),
            part: false,
        }
    }
}
