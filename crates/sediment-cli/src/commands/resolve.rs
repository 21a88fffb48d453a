// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment resolve` names functions that were recorded in stripped files, with the debug files of the same builds.

use crate::distribution;
use crate::files::{self, DEBUGINFOD, DebugSources};
use crate::inputs::{self, read_profile};
use crate::next_steps;
use crate::output::{Schema, SkippedItems};
use crate::ui::Ui;
use clap::Args;
use sediment_core::plural::counted;
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::resolve::nameless::{self, NamingOutcome};
use serde::Serialize;
use std::borrow::Cow;
use std::path::PathBuf;

/// Name the functions of a profile that were recorded in stripped files
#[derive(Debug, Args)]
#[command(
    long_about = "Name the functions of a profile that were recorded in stripped files.\n\nSuch functions are addresses in one build, known by its build-id. Their names are in the unstripped program, in its debug file (packages -dbgsym and -debuginfo), or on a debuginfod server. Debug files below /usr/lib/debug and in the caches of perf and debuginfod are found without --debug."
)]
pub(crate) struct Arguments {
    /// Profile to read; - reads standard input
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Unstripped program, debug file, folder of debug files, or `debuginfod` to ask the servers in DEBUGINFOD_URLS;
    /// repeatable [default: the debug files of this system]
    #[arg(long, value_name = "ELF|DIR|debuginfod")]
    debug: Vec<PathBuf>,
    /// Profile to write; - writes to standard output [default: PROFILE; the older one is kept as PROFILE.old]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON; needs a written file
    #[arg(long)]
    json: bool,
}

/// Output of `resolve --json`: the functions that got names.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ResolveOutput<'a> {
    schema: Schema<1>,
    /// The file; null if nothing was written, because every function had a name.
    output: Option<Cow<'a, str>>,
    /// Programs and libraries whose functions were addresses.
    files: Vec<ResolvedFile<'a>>,
    skipped: Vec<SkippedItems>,
}

/// A program or library whose functions were addresses.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ResolvedFile<'a> {
    dso: &'a str,
    build_id: &'a str,
    /// True if a debug file of the build was found.
    found: bool,
    /// Functions that got names.
    named: usize,
    /// Functions that are still addresses.
    left: usize,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let output = arguments.output.as_ref().unwrap_or(&arguments.profile);
    inputs::expect_file_for_json(arguments.json, output)?;
    let profile = read_profile(&arguments.profile, ui)?;
    let build_ids: Vec<&str> = profile
        .dsos()
        .values()
        .filter(|facts| facts.unresolved)
        .filter_map(|facts| facts.build_id.as_deref())
        .collect();
    let asks_server = arguments.debug.iter().any(|word| word.as_os_str() == DEBUGINFOD);
    if asks_server && std::env::var_os("DEBUGINFOD_URLS").is_none_or(|urls| urls.is_empty()) {
        return Err(Error::new(ErrorCode::Usage, "--debug debuginfod needs a server in DEBUGINFOD_URLS")
            .with_hint(format!("servers of distributions: {}", distribution::servers())));
    }
    let debug_files = DebugSources::new(&arguments.debug)?;
    if let (Some((path, own)), false) =
        (debug_files.of_other_builds(&build_ids).first(), build_ids.is_empty())
    {
        return Err(Error::new(
            ErrorCode::WrongBinary,
            format!(
                "debug file of another build: its build-id is {own}, but the profile has {}",
                build_ids.join(", ")
            ),
        )
        .with_input(files::display(path))
        .with_hint("addresses differ between builds: give the debug file of the recorded build"));
    }
    let (named, outcomes) = nameless::name(&profile, &debug_files)?;
    let some = outcomes.iter().any(|outcome| outcome.named > 0);
    if !some && !outcomes.is_empty() {
        return Err(debug_files.failure().unwrap_or_else(|| not_found(&outcomes)));
    }
    if some || arguments.output.is_some() {
        if arguments.output.is_none() {
            files::set_aside(output)?;
        }
        files::write(output, text::print(&named).as_bytes(), ui)?;
    }
    if arguments.json {
        let is_written = some || arguments.output.is_some();
        let files = outcomes.iter().map(|outcome| ResolvedFile {
            dso: &outcome.label,
            build_id: &outcome.build_id,
            found: outcome.found,
            named: outcome.named,
            left: outcome.left,
        });
        return ui.json(&ResolveOutput {
            schema: Schema,
            output: is_written.then(|| output.to_string_lossy()),
            files: files.collect(),
            skipped: ui.skipped_items(),
        });
    }
    for outcome in &outcomes {
        tell(outcome, ui);
    }
    if outcomes.is_empty() {
        ui.note("every function has a name: nothing to resolve");
    }
    if some && !files::is_standard_output(output) {
        ui.next(next_steps::after_profile(&[], &named, output, None));
    }
    Ok(())
}

fn tell(outcome: &NamingOutcome, ui: &Ui) {
    let NamingOutcome { label, build_id, found, named, left } = outcome;
    if *found {
        ui.note(&format!("named {} of {label}", counted(*named, "function")));
    }
    match (*found, *left) {
        (_, 0) => {}
        (true, left) => ui.warn(&format!(
            "{} of {label} stay without a name: the debug file has no function there",
            counted(left, "address")
        )),
        (false, left) => ui.warn(&format!(
            "{} of {label} stay without a name: no debug file with build-id {build_id} found",
            counted(left, "function")
        )),
    }
}

/// Error for a profile in which nothing could be named.
fn not_found(outcomes: &[NamingOutcome]) -> Error {
    let builds: Vec<String> =
        outcomes.iter().map(|outcome| format!("{} {}", outcome.label, outcome.build_id)).collect();
    Error::new(ErrorCode::NotFound, format!("found no debug file; build-ids: {}", builds.join(", "))).with_hint(
        "install the -dbgsym or -debuginfo package of that version, or name its file with --debug, or give --debug debuginfod",
    )
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<ResolveOutput<'_>>("resolve");
}
