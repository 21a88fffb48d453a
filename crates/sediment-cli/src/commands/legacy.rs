// SPDX-License-Identifier: MIT OR Apache-2.0
//! The original's commands, with its arguments: `perf2gv`, `gv2link`, `gen_profiles`, `gen_profile_merge`. They are names of this program, or
//! its first word.

use super::{collect, import, merge, order, weights};
use crate::files::{self, SystemFiles};
use crate::packages::Package;
use crate::ui::Ui;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sediment::graph::Selection;
use sediment::{Error, Result, profile};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One command of the original.
pub(crate) struct Legacy {
    name: &'static str,
    command: fn() -> Command,
    run: fn(&ArgMatches, &Ui) -> Result<()>,
}

const LEGACY: &[Legacy] = &[
    Legacy { name: "perf2gv", command: perf2gv_command, run: perf2gv },
    Legacy { name: "gv2link", command: gv2link_command, run: gv2link },
    Legacy { name: "gen_profiles", command: gen_profiles_command, run: gen_profiles },
    Legacy { name: "gen_profile_merge", command: gen_profile_merge_command, run: gen_profile_merge },
];

/// The command of the original that the arguments name, by the program's own name or by its first word, and its arguments
/// with the name in front.
pub(crate) fn called_as(arguments: &[OsString]) -> Option<(&'static Legacy, &[OsString])> {
    let by_name = |word: Option<&OsString>| {
        let name = files::base_name(Path::new(word?));
        LEGACY.iter().find(|legacy| legacy.name == name)
    };
    if let Some(legacy) = by_name(arguments.first()) {
        return Some((legacy, arguments));
    }
    let word = arguments.get(1)?;
    let legacy = LEGACY.iter().find(|legacy| word == legacy.name)?;
    Some((legacy, &arguments[1..]))
}

pub(crate) fn run(legacy: &Legacy, arguments: &[OsString], ui: &Ui) -> Result<ExitCode> {
    let command = (legacy.command)().version(env!("CARGO_PKG_VERSION")).infer_long_args(true);
    match command.try_get_matches_from(arguments) {
        Ok(matches) => (legacy.run)(&matches, ui).map(|()| ExitCode::SUCCESS),
        Err(error) => super::usage(&error, ui),
    }
}

fn inputs_argument() -> Arg {
    Arg::new("inputs")
        .value_name("FILE")
        .num_args(0..)
        .value_parser(value_parser!(PathBuf))
        .help("Files to read instead of standard input")
}

fn inputs(matches: &ArgMatches) -> Vec<PathBuf> {
    let given: Vec<PathBuf> = matches.get_many("inputs").into_iter().flatten().cloned().collect();
    if given.is_empty() { vec![PathBuf::from(files::STANDARD_STREAM)] } else { given }
}

fn perf2gv_command() -> Command {
    Command::new("perf2gv")
        .about("Turn the output of `perf report` into a call graph: perf2gv < perf_output > call_graph_file")
        .arg(inputs_argument())
}

fn perf2gv(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let inputs = import::Inputs::open(&inputs(matches), ui)?;
    let recording = inputs.read(&sediment::read::Settings::default(), ui)?;
    let resolved = import::resolve(&recording, &SystemFiles::new(None, &[])?, false, ui)?;
    ui.raw_result(profile::text::print(&resolved.profile).as_bytes())
}

fn gv2link_command() -> Command {
    Command::new("gv2link")
        .about("Turn a call graph into a GNU ld section ordering file: gv2link < call_graph_file > link_order_file")
        .arg(inputs_argument())
}

fn gv2link(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let mut text = Vec::new();
    for path in inputs(matches) {
        text.extend(files::read(&path)?);
    }
    let (profile, losses) =
        profile::text::parse(&text).map_err(|error| error.with_input(files::display(&inputs(matches)[0])))?;
    ui.losses("reading", &losses);
    let settings = super::settings::Settings::default();
    let how = order::How::by_default(order::linker("gnu-ld")?, &settings);
    let order = order::order_text(&profile, &Selection::Everything, &how, ui)?;
    ui.raw_result(order.as_bytes())
}

fn gen_profiles_command() -> Command {
    let path = || value_parser!(PathBuf);
    Command::new("gen_profiles")
        .about("Keep of recordings what an installed package's own programs and libraries did")
        .override_usage("gen_profiles OUTPUT PACKAGE PERF_DATA...")
        .args([
            Arg::new("output")
                .value_name("OUTPUT")
                .required(true)
                .value_parser(path())
                .help("The file to write, or a folder for one per program and library"),
            Arg::new("package").value_name("PACKAGE").required(true).help("The installed package"),
            Arg::new("inputs")
                .value_name("PERF_DATA")
                .required(true)
                .num_args(1..)
                .value_parser(path())
                .help("What perf recorded"),
        ])
}

fn gen_profiles(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let missing = || Error::failed("gen_profiles needs an output, a package and recordings");
    let output: &PathBuf = matches.get_one("output").ok_or_else(missing)?;
    let package = Package::find(matches.get_one::<String>("package").ok_or_else(missing)?, None)?;
    let settings = sediment::read::Settings::default();
    let inputs = import::Inputs::open(&inputs(matches), ui)?;
    let files = SystemFiles::new(None, &[])?;
    let (recording, resolved) = inputs.resolve(&settings, &files, false, None, ui)?;
    let kept = collect::of_package(&recording, &resolved.profile, &package, &files, ui)?;
    collect::write(&kept, &package, Some(output), false, ui).map(drop)
}

fn gen_profile_merge_command() -> Command {
    let path = || value_parser!(PathBuf);
    Command::new("gen_profile_merge")
        .about("Merge call graphs, each with the weight given before it (1 if none)")
        .override_usage("gen_profile_merge -o MERGED [-w WEIGHT] -f FILE [[-w WEIGHT] -f FILE]...")
        .args([
            Arg::new("weight")
                .short('w')
                .long("weight")
                .value_name("WEIGHT")
                .action(ArgAction::Append)
                .allow_negative_numbers(true)
                .help("Weight of the files that follow, until the next"),
            Arg::new("file")
                .short('f')
                .long("file")
                .value_name("FILE")
                .action(ArgAction::Append)
                .required(true)
                .value_parser(path())
                .help("A call graph to merge"),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .required(true)
                .overrides_with("output")
                .value_parser(path())
                .help("The merged call graph to write"),
            Arg::new("debug")
                .short('d')
                .long("debug")
                .action(ArgAction::Count)
                .help("Say what is read, with its weight"),
        ])
}

fn gen_profile_merge(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let pairs =
        weights::pair(&weights::positioned(matches, "weight"), &weights::positioned(matches, "file"))?;
    if matches.get_count("debug") > 0 {
        for (path, weight) in &pairs {
            ui.note(&format!("file: {} weight: {weight}", path.display()));
        }
    }
    let output: &PathBuf =
        matches.get_one("output").ok_or_else(|| Error::failed("gen_profile_merge needs an output file"))?;
    merge::merge_files(&pairs, false, output, ui)
}
