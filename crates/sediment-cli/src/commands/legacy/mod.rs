// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of upstream sediment with their arguments: `perf2gv`, `gv2link`, `gen_profiles`, `gen_profile_merge`,
//! `gen_link_order`, `make_sediment_rpmmacros`. They can be called as names of this program, or as its first word.

mod rpm_macros;

use super::{collect, merge, order};
use crate::compiler;
use crate::exit::ExitCode;
use crate::files::{self, SystemFiles};
use crate::inputs::{self, recordings, settings, weights};
use crate::packages::Package;
use crate::ui::Ui;
use crate::wrapper::{Profiles, dso_in};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sediment_core::binary::objects::InputObjects;
use sediment_core::{Error, ErrorCode, Result, escape, profile};
use sediment_order::link;
use sediment_order::link::{Linker, gnu_ld};
use sediment_order::order::Selection;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A command of upstream sediment.
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
    Legacy { name: "gen_link_order", command: gen_link_order_command, run: gen_link_order },
    Legacy {
        name: "make_sediment_rpmmacros",
        command: make_sediment_rpmmacros_command,
        run: |_, ui| rpm_macros::run(ui),
    },
];

/// Returns the upstream command given by the program's name or its first word, and its arguments beginning with the
/// name.
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
    ui.tell_all();
    match described(legacy).infer_long_args(true).try_get_matches_from(arguments) {
        Ok(matches) => (legacy.run)(&matches, ui).map(|()| ExitCode::SUCCESS),
        Err(error) => super::usage(&error, &[], ui),
    }
}

fn described(legacy: &Legacy) -> Command {
    (legacy.command)().version(env!("CARGO_PKG_VERSION"))
}

/// Definitions of the arguments of all upstream commands.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    LEGACY.iter().map(described)
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
        .about("Convert the output of `perf report` to a call graph: perf2gv < perf_output > call_graph_file")
        .arg(inputs_argument())
}

fn perf2gv(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let inputs = recordings::Inputs::open(&inputs(matches), ui)?;
    let recording = inputs.read(&sediment_read::read::ReadSettings::default(), ui)?;
    let resolved = recordings::resolve(&recording, &SystemFiles::new(None, &[])?, Default::default(), ui)?;
    ui.raw_result(profile::text::print(&resolved.profile).as_bytes())
}

fn gv2link_command() -> Command {
    Command::new("gv2link")
        .about("Convert a call graph to a GNU ld section ordering file: gv2link < call_graph_file > link_order_file")
        .arg(inputs_argument())
}

/// Dialect that gv2link writes.
pub(super) const GV2LINK: &Linker = &gnu_ld::LINKER;

fn gv2link(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let mut text = Vec::new();
    for path in inputs(matches) {
        text.extend(files::read(&path)?);
    }
    let (profile, skipped) =
        profile::text::parse(&text).map_err(|error| error.with_input(files::display(&inputs(matches)[0])))?;
    ui.skipped("reading", &skipped);
    let settings = settings::AlgorithmSettings::default();
    let plan = order::OrderPlan::by_default(GV2LINK, &settings);
    let order = order::order_text(&profile, &Selection::Everything, &plan, ui)?;
    ui.raw_result(order.as_bytes())
}

fn gen_profiles_command() -> Command {
    let path = || value_parser!(PathBuf);
    Command::new("gen_profiles")
        .about("Keep the part of recordings that belongs to an installed package")
        .override_usage("gen_profiles OUTPUT PACKAGE PERF_DATA...")
        .args([
            Arg::new("output")
                .value_name("OUTPUT")
                .required(true)
                .value_parser(path())
                .help("File to write, or a folder with one file per program and library"),
            Arg::new("package").value_name("PACKAGE").required(true).help("Installed package"),
            Arg::new("inputs")
                .value_name("PERF_DATA")
                .required(true)
                .num_args(1..)
                .value_parser(path())
                .help("Recordings of perf"),
        ])
}

fn gen_profiles(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let missing =
        || Error::new(ErrorCode::InvalidArgument, "gen_profiles needs an output, a package and recordings");
    let output: &PathBuf = matches.get_one("output").ok_or_else(missing)?;
    let package = Package::find(matches.get_one::<String>("package").ok_or_else(missing)?, None)?;
    let settings = sediment_read::read::ReadSettings::default();
    let inputs = recordings::Inputs::open(&inputs(matches), ui)?;
    let files = SystemFiles::new(None, &[])?;
    let (recording, resolved) = inputs.resolve(&settings, &files, false, None, ui)?;
    let kept =
        collect::of_packages(&recording, &resolved.profile, std::slice::from_ref(&package), &files, ui)?;
    collect::write(&kept, &package, Some(output), false, ui).map(drop)
}

fn gen_profile_merge_command() -> Command {
    let path = || value_parser!(PathBuf);
    Command::new("gen_profile_merge")
        .about("Merge call graphs, each with the last weight before it (default 1)")
        .override_usage("gen_profile_merge -o MERGED [-w WEIGHT] -f FILE [[-w WEIGHT] -f FILE]...")
        .args([
            Arg::new("weight")
                .short('w')
                .long("weight")
                .value_name("WEIGHT")
                .action(ArgAction::Append)
                .allow_negative_numbers(true)
                .help("Weight of the files that follow, until the next weight"),
            Arg::new("file")
                .short('f')
                .long("file")
                .value_name("FILE")
                .action(ArgAction::Append)
                .required(true)
                .value_parser(path())
                .help("Call graph to merge"),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .required(true)
                .overrides_with("output")
                .value_parser(path())
                .help("Merged call graph to write"),
            Arg::new("debug")
                .short('d')
                .long("debug")
                .action(ArgAction::Count)
                .help("Print each file with its weight"),
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
    let output: &PathBuf = matches
        .get_one("output")
        .ok_or_else(|| Error::new(ErrorCode::InvalidArgument, "gen_profile_merge needs an output file"))?;
    merge::merge_files(&pairs, merge::MergeSettings::default(), output, ui).map(drop)
}

fn make_sediment_rpmmacros_command() -> Command {
    Command::new("make_sediment_rpmmacros")
        .about("Print macros for ~/.rpmmacros on this machine: make_sediment_rpmmacros >> ~/.rpmmacros")
        .after_help("To link a package in the order of its call graph, if its spec names one: rpmbuild -ba --define \"pgo 1\" foo.spec")
}

fn gen_link_order_command() -> Command {
    let path = || value_parser!(PathBuf);
    Command::new("gen_link_order")
        .about("Write the ordering file of a program from its profile, and print its path")
        .override_usage("gen_link_order [-o FILE] [-l LINKER] EXECUTABLE_NAME [GEN_PROFILE_FILE]")
        .after_help(
            "Without a profile file, uses the program's profile in the folder PROF_DIR; without that, writes an ordering file that changes nothing. The default ordering language is the one that the linker of $CC (or cc) reads.",
        )
        .args([
            Arg::new("name").value_name("EXECUTABLE_NAME").required(true).help("Program or library to link"),
            Arg::new("profile").value_name("GEN_PROFILE_FILE").value_parser(path()).help("Profile of the program"),
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .value_parser(path())
                .help("File to write [default: EXECUTABLE_NAME.order]"),
            Arg::new("linker").short('l').long("linker").value_name("LINKER").help("Ordering language, as in `sediment order --linker`"),
        ])
}

fn gen_link_order(matches: &ArgMatches, ui: &Ui) -> Result<()> {
    let missing = || Error::new(ErrorCode::InvalidArgument, "gen_link_order needs the name of a program");
    let name = files::base_name(Path::new(matches.get_one::<String>("name").ok_or_else(missing)?));
    let linker = match matches.get_one::<String>("linker") {
        Some(named) => link::linker(named).ok_or_else(|| {
            let all: Vec<&str> = link::LINKERS.iter().map(|linker| linker.name).collect();
            Error::new(ErrorCode::Usage, format!("unknown linker {named}"))
                .with_hint(format!("supported: {}", all.join(", ")))
        })?,
        None => compiler::default_linker(ui)?.0,
    };
    let text = match profile_for(&name, matches.get_one("profile"), ui)? {
        Some((profile, label)) => {
            let settings = settings::AlgorithmSettings::default();
            let plan = order::OrderPlan::by_default(linker, &settings);
            let selection = label.as_deref().map_or(Selection::Everything, Selection::Dso);
            match order::order_text(&profile, &selection, &plan, ui) {
                // The build continues without an order, as with upstream sediment.
                Err(error) if error.code() == ErrorCode::Stripped => {
                    ui.warn(&format!("{error}; the ordering file changes nothing"));
                    (linker.write)(&[]).0
                }
                text => text?,
            }
        }
        None => (linker.write)(&[]).0,
    };
    let output = match matches.get_one::<PathBuf>("output") {
        Some(path) => path.clone(),
        None => PathBuf::from(escape::file_name(&name).unwrap_or_else(|| "program".to_owned()) + ".order"),
    };
    files::write(&output, text.as_bytes(), ui)?;
    // The linker may run in another folder.
    let absolute = std::path::absolute(&output).unwrap_or(output);
    ui.raw_result(format!("{}\n", absolute.display()).as_bytes())
}

/// Returns the profile of a program and its cluster, from the given file or from PROF_DIR. A bad given file is an
/// error; a bad file in the folder causes a note.
fn profile_for(
    name: &str,
    given: Option<&PathBuf>,
    ui: &Ui,
) -> Result<Option<(profile::Profile, Option<String>)>> {
    if let Some(path) = given {
        let profile = inputs::read_profile(path, ui)?;
        let label = dso_in(&profile, name).map_err(|error| error.with_input(files::display(path)))?;
        return Ok(Some((profile, label)));
    }
    let Some(folder) = std::env::var_os("PROF_DIR").filter(|folder| !folder.is_empty()) else {
        ui.note(&format!(
            "{name}: no profile: none given, and PROF_DIR is not set; the order changes nothing"
        ));
        return Ok(None);
    };
    let found = Profiles::open(Path::new(&folder), ui)
        .and_then(|profiles| profiles.choose(None, name, &mut InputObjects::default).map_err(|not| not.why));
    match found {
        Ok(Some(chosen)) => Ok(Some((chosen.profile().clone(), chosen.origin.label.clone()))),
        Ok(None) => {
            ui.note(&format!(
                "{name}: no profile in {}; the order changes nothing",
                files::display(Path::new(&folder))
            ));
            Ok(None)
        }
        Err(error) => {
            ui.note(&format!("{name}: {error}; the order changes nothing"));
            Ok(None)
        }
    }
}
