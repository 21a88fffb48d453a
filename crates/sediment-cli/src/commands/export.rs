// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment export` converts a profile, or recordings with addresses, to a file for another program: a compiler or a
//! query engine.

use crate::files::{self, RecordingSource, SystemFiles};
use crate::inputs::recordings::Inputs;
use crate::inputs::weights::{Weighable, Weighed};
use crate::inputs::{self, rows};
use crate::llvm_profdata;
use crate::output::WrittenOutput;
use crate::ui::Ui;
use crate::values;
use clap::builder::{PossibleValue, TypedValueParser as _};
use clap::{Args, ValueEnum};
use sediment_core::binary::Binary;
use sediment_core::binary::block_map::BlockMap;
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::profile::blocks::BlockUnit;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::blocks::{self, UnexecutedFunctions};
use sediment_order::link;
use sediment_read::counters::line_profile::{self, CallSites, LineCounts, gcc, go};
use sediment_read::counters::{gcov, llvm};
use sediment_read::read::{self, ReadSettings, pprof};
use sediment_read::resolve;
use std::path::{Path, PathBuf};

/// Write a profile in a format that compilers or query engines read
#[derive(Debug, Args)]
#[command(
    long_about = "Write a profile in a format that compilers or query engines read.\n\nllvm-sample and go-pgo are made from recordings, because profiles have no source lines. They need the debug information of the recorded program, except for pprof profiles of Go. gcc-order is made from one ordering file of `sediment order`. A weight (-w) applies to the files after it, until the next -w; by default all files have the same weight, whatever their length."
)]
pub(crate) struct ExportOptions {
    /// Weight of the files that follow, not for llvm-sample, rows and gcc-order: a decimal from 0 to 10^9, at most nine decimal places [default: 1]
    #[arg(short, long, value_name = "WEIGHT", allow_negative_numbers = true)]
    weight: Vec<String>,
    /// Profiles to read (recordings for llvm-sample and go-pgo, an ordering file for gcc-order). All formats
    /// except rows merge them; - reads standard input
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// File format
    #[arg(long, value_name = "FORMAT", default_value = "blocks", value_parser = values::names(ExportFormat::names(), values::FORMER_SAMPLES).try_map(|name| ExportFormat::from_str(&name, false)))]
    format: ExportFormat,
    /// Recorded program or library, for llvm-sample, go-pgo and --cold-size; repeatable [default: all that was recorded]
    #[arg(long, value_name = "PROGRAM")]
    binary: Vec<PathBuf>,
    /// For blocks: also list the functions that no recording executed, which the plugin then optimises for size. Smallest
    /// number of recordings in the profile, from 1; fewer list nothing. Needs --binary, as recorded [default: none]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    cold_size: Option<u64>,
    /// For go-pgo: share of the weight to keep, heaviest calls first, in per cent, from 1 to 100
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = thousandths)]
    keep: u32,
    /// llvm-profdata of the compiler's LLVM, for profdata [default: from PATH or rustc, the newest]
    #[arg(long, value_name = "PROGRAM")]
    llvm_profdata: Option<PathBuf>,
    /// File to write; - writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = files::STANDARD_STREAM)]
    output: PathBuf,
    /// Print JSON; needs --output FILE
    #[arg(long)]
    json: bool,
}

impl Weighable for ExportOptions {
    const FILES: &'static [&'static str] = &["profiles"];
}

pub(crate) type Arguments = Weighed<ExportOptions>;

/// A file to read, with its weight among the others.
type WeightedFile = (PathBuf, Weight);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Block counts for sediment's GCC plugin (-fplugin-arg-sediment-profile=FILE)
    Blocks,
    /// Basic block sections for clang (-fbasic-block-sections=list=FILE)
    BbSections,
    /// Counters for sediment's GCC plugin (-fplugin-arg-sediment-counters=FILE)
    Counters,
    /// Counters for clang (-fprofile-use=FILE) and rustc (-Cprofile-use=FILE), by llvm-profdata
    Profdata,
    /// The counters of profdata as text, the input of llvm-profdata
    Proftext,
    /// Sample profile for clang (-fprofile-sample-use=FILE) and rustc, from recordings
    LlvmSample,
    /// Order of functions for GCC 16 with -flto (-fauto-profile=FILE --param auto-profile-reorder-only=1)
    GccOrder,
    /// default.pgo for Go 1.21 and later, from recordings
    GoPgo,
    /// Rows for query engines (JSON lines); their sums are the merged profile (docs/rows.md)
    Rows,
}

impl ExportFormat {
    fn names() -> impl Iterator<Item = PossibleValue> {
        Self::value_variants().iter().filter_map(Self::to_possible_value)
    }
}

/// Parses a share in per cent; returns thousandths.
fn thousandths(text: &str) -> std::result::Result<u32, String> {
    let percent: f64 = text.trim_end_matches(['%', ' ']).parse().map_err(|_| "not a number".to_owned())?;
    let is_share = (1.0..=100.0).contains(&percent);
    is_share.then_some((percent * 10.0).round() as u32).ok_or_else(|| "not from 1 to 100".to_owned())
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let inputs = arguments.files("profiles")?;
    let arguments = &arguments.options;
    let of_recordings = matches!(arguments.format, ExportFormat::LlvmSample | ExportFormat::GoPgo);
    let usage = |why: &str| Err(Error::new(ErrorCode::Usage, why));
    if !of_recordings && !arguments.binary.is_empty() && arguments.cold_size.is_none() {
        return usage(
            "--binary applies to recordings (llvm-sample, go-pgo) and to --cold-size, not to profiles",
        );
    }
    if arguments.cold_size.is_some() && arguments.format != ExportFormat::Blocks {
        return usage("--cold-size applies to blocks");
    }
    if arguments.cold_size.is_some() && arguments.binary.is_empty() {
        return usage("--cold-size needs --binary: the program that was recorded, with numbered blocks");
    }
    let has_weights =
        !matches!(arguments.format, ExportFormat::LlvmSample | ExportFormat::Rows | ExportFormat::GccOrder);
    if !has_weights && !arguments.weight.is_empty() {
        return usage("-w applies to blocks, bb-sections, counters, profdata, proftext and go-pgo");
    }
    inputs::expect_file_for_json(arguments.json, &arguments.output)?;
    match arguments.format {
        ExportFormat::LlvmSample => arguments.write_samples(ui),
        ExportFormat::GccOrder => arguments.write_order(ui),
        ExportFormat::GoPgo => arguments.write_calls(&inputs, ui),
        ExportFormat::Rows => arguments.write_rows(ui),
        ExportFormat::Profdata | ExportFormat::Proftext => arguments.write_llvm_counters(&inputs, ui),
        _ => arguments.write_counts(&inputs, ui),
    }?;
    match arguments.json {
        true => ui.json(&WrittenOutput::new([arguments.output.as_path()], ui.skipped_items())),
        false => Ok(()),
    }
}

impl ExportOptions {
    fn write_counts(&self, inputs: &[WeightedFile], ui: &Ui) -> Result<()> {
        let profile = inputs::merged(inputs, ui)?;
        let at_input = |error: Error| error.with_input(files::display(&self.profiles[0]));
        let (text, skipped) = match self.format {
            ExportFormat::BbSections => blocks::clusters(&profile).map_err(at_input)?,
            ExportFormat::Counters => gcov::counters(&profile),
            _ => blocks::counts_with(&profile, &self.unexecuted(&profile, ui)?),
        };
        let kind = if self.format == ExportFormat::Counters { "counters" } else { "blocks" };
        ui.skipped(kind, &skipped);
        if text.lines().nth(1).is_none() {
            let (what, how) = match self.format {
                ExportFormat::BbSections => ("block counts of clang", of_blocks("-fbasic-block-address-map")),
                ExportFormat::Counters => ("counters", "compile with -fprofile-generate -ftest-coverage, run the program, and import the folder with its .gcda and .gcno (docs/beyond-functions.md)".to_owned()),
                _ => ("block counts", of_blocks("-fplugin-arg-sediment-blocks")),
            };
            let why = format!("the profile has no {what}");
            return Err(at_input(Error::new(ErrorCode::NotInProfile, why)).with_hint(how));
        }
        files::write(&self.output, text.as_bytes(), ui)
    }

    /// The functions for --cold-size.
    fn unexecuted(&self, profile: &Profile, ui: &Ui) -> Result<UnexecutedFunctions> {
        let mut unexecuted = UnexecutedFunctions::default();
        let Some(least) = self.cold_size else { return Ok(unexecuted) };
        if profile.blocks_unit == BlockUnit::Samples {
            let why =
                "--cold-size: the block counts are samples, which do not show the functions that never ran";
            return Err(Error::new(ErrorCode::NotInProfile, why));
        }
        let recordings = profile.inputs.unwrap_or(1);
        if recordings < least {
            let recorded = counted(recordings, "recording");
            ui.warn(&format!("the profile has {recorded}, fewer than --cold-size {least}: no function is optimised for size"));
            return Ok(unexecuted);
        }
        for path in &self.binary {
            let named = |error: Error| error.with_input(files::display(path));
            let files = SystemFiles::new(None, std::slice::from_ref(path))?;
            let bytes = files::read(path)?;
            let binary = Binary::parse(&bytes, &files).map_err(named)?;
            let map = BlockMap::read(&bytes, &files).map_err(named)?.ok_or_else(|| {
                named(Error::new(ErrorCode::NotInProfile, "its blocks have no numbers"))
                    .with_hint(of_blocks("-fplugin-arg-sediment-blocks"))
            })?;
            unexecuted.add(profile, &binary, &map).map_err(named)?;
        }
        ui.note(&format!("optimised for size: {}", counted(unexecuted.count() as u64, "function")));
        Ok(unexecuted)
    }

    fn write_llvm_counters(&self, inputs: &[WeightedFile], ui: &Ui) -> Result<()> {
        let profile = inputs::merged(inputs, ui)?;
        let (text, skipped) = llvm::text(&profile).ok_or_else(|| {
            Error::new(ErrorCode::NotInProfile, "the profile has no counters of LLVM's instrumentation")
                .with_input(files::display(&self.profiles[0]))
                .with_hint("compile with -fprofile-generate (rustc: -Cprofile-generate), run the program, and import its .profraw (docs/beyond-functions.md)")
        })?;
        ui.skipped("counters", &skipped);
        match self.format {
            ExportFormat::Profdata => {
                let data = llvm_profdata::indexed(&text, self.llvm_profdata.as_deref())?;
                files::write(&self.output, &data, ui)
            }
            _ => files::write(&self.output, text.as_bytes(), ui),
        }
    }

    /// Writes rows of each profile with its number: profiles stay separate, so that a query can select, weight and add
    /// them.
    fn write_rows(&self, ui: &Ui) -> Result<()> {
        let mut text = String::new();
        for (number, path) in self.profiles.iter().enumerate() {
            let profile = inputs::read_profile(path, ui)?;
            if profile.counters_total > 0 {
                ui.warn(&format!(
                    "{}: counters of instrumentation cannot be written as rows",
                    files::display(path)
                ));
            }
            let shares = merge(&[(&profile, Weight::ONE)], false);
            let shares = shares.map_err(|error| error.with_input(files::display(path)))?;
            rows::print(&shares, number, &mut text);
        }
        files::write(&self.output, text.as_bytes(), ui)
    }

    fn write_samples(&self, ui: &Ui) -> Result<()> {
        let mut lines = LineCounts::default();
        for path in &self.profiles {
            let (recording, files) = self.recording(path, ui)?;
            let found =
                resolve::lines::lines(&recording, &files, resolve::ResolveSettings::default(), &|_| true);
            let (found, skipped) = found.map_err(|error| error.with_input(files::display(path)))?;
            ui.skipped("resolving", &skipped);
            lines.absorb(&found);
        }
        let (text, skipped) = line_profile::llvm::sample_profile(&lines);
        ui.skipped("writing", &skipped);
        files::write(&self.output, text.as_bytes(), ui)
    }

    /// Writes an order of functions as times of their first calls.
    fn write_order(&self, ui: &Ui) -> Result<()> {
        let [path] = &self.profiles[..] else {
            return Err(Error::new(ErrorCode::Usage, "gcc-order needs exactly one ordering file"));
        };
        let named = |error: Error| error.with_input(files::display(path));
        let text = files::read(path)?;
        let (_, names) = link::read(&String::from_utf8_lossy(&text)).map_err(named)?;
        let (bytes, skipped) = gcc::time_stamps(names.iter().map(|name| name.name.as_str()));
        ui.skipped("writing", &skipped);
        files::write(&self.output, &bytes, ui)
    }

    fn write_calls(&self, inputs: &[WeightedFile], ui: &Ui) -> Result<()> {
        let mut all = Vec::new();
        for (path, weight) in inputs {
            let named = |error: Error| error.with_input(files::display(path));
            let source = RecordingSource::open(path)?;
            let (sites, skipped) = if is_pprof(&source).map_err(named)? {
                pprof::call_sites(&source).map_err(named)?
            } else {
                let (recording, files) = self.recording(path, ui)?;
                resolve::lines::call_sites(&recording, &files, resolve::ResolveSettings::default())
                    .map_err(named)?
            };
            ui.skipped("reading", &skipped);
            if sites.is_empty() {
                let why = "the profile does not contain the first lines of functions, which go-pgo needs";
                return Err(
                    named(Error::new(ErrorCode::Unresolved, why)).with_hint("record with Go 1.20 or later")
                );
            }
            all.push((sites, *weight));
        }
        let sites = CallSites::merged(&all).trimmed(self.keep);
        files::write(&self.output, &go::default_pgo(&sites), ui)
    }

    /// Reads a recording, and finds its programs.
    fn recording(&self, path: &Path, ui: &Ui) -> Result<(read::Recording, SystemFiles)> {
        let program = self.binary.first().map(|path| path.to_string_lossy().into_owned());
        let settings = ReadSettings { executions: true, program, ..ReadSettings::default() };
        let recording = Inputs::open(std::slice::from_ref(&path.to_path_buf()), ui)?.read(&settings, ui)?;
        ui.skipped("reading", &recording.skipped);
        Ok((recording, SystemFiles::new(None, &self.binary)?.named_alone()))
    }
}

/// True for a pprof profile, which contains source lines itself.
fn is_pprof(source: &RecordingSource) -> Result<bool> {
    Ok(read::find(source, &ReadSettings::default())?.name == pprof::READER.name)
}

/// Returns a hint with the commands that count blocks.
fn of_blocks(flag: &str) -> String {
    format!(
        "compile with {flag}, record with callgrind --dump-instr=yes, import with --blocks and --binary (docs/beyond-functions.md)"
    )
}
