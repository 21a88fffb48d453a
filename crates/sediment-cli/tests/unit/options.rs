// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the tree of commands: names and descriptions of options, and former spellings, which must still be accepted.

#[path = "../running/words.rs"]
mod words;

use super::SedimentProgram;
use crate::next_steps;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory, Parser};
use std::ffi::OsString;

/// Names of values on command lines: one for each kind of value.
const METAVARS: &[&str] = &[
    "AFTER",
    "ARGUMENT",
    "BEFORE",
    "BYTES",
    "COMMAND",
    "COUNT",
    "DIR",
    "DSO",
    "ELF|DIR|debuginfod",
    "END",
    "EVENT",
    "EXIT|OUTPUT|SECONDS",
    "FILE",
    "FILE|DIR",
    "FORMAT",
    "FUNCTION",
    "GLOB",
    "GOAL",
    "HERTZ",
    "LEVEL",
    "LINKER",
    "LIST",
    "METHOD",
    "METRIC",
    "NAME",
    "NAME=FILE",
    "NAME=VALUE",
    "NUMBER",
    "PACKAGE",
    "PERCENT",
    "PID",
    "PLAN",
    "PROFILE",
    "PROGRAM",
    "REGEX",
    "SECONDS",
    "STYLE",
    "SUBMITTER",
    "TEXT",
    "UNIT",
    "URL",
    "VALUES",
    "WEIGHT",
    "WHEN",
];

/// Collects every command with its path, except help and commands for packagers.
fn all(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        all(part, &path, found);
    }
    found.push((path, command.clone()));
}

fn commands() -> Vec<(String, Command)> {
    let mut program = SedimentProgram::command();
    program.build();
    let mut found = Vec::new();
    all(&program, "", &mut found);
    found
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|option| !["help", "version"].contains(&option.get_id().as_str()))
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

#[test]
fn one_thing_has_one_name() {
    for (path, command) in commands() {
        for option in options(&command).filter(|option| takes_value(option)) {
            let names = option.get_value_names().unwrap_or_default();
            assert!(!names.is_empty(), "{path} {}: no name of its value", option.get_id());
            for name in names {
                assert!(METAVARS.contains(&name.as_str()), "{path} {}: {name}", option.get_id());
            }
        }
    }
}

/// True if an option's value is accepted, whatever else is missing on the command line.
fn is_read(path: &str, option: &str, value: &str) -> bool {
    let words = path.split(' ').chain([option, value]);
    let refused = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
    SedimentProgram::command()
        .try_get_matches_from(words)
        .err()
        .is_none_or(|error| !refused.contains(&error.kind()))
}

/// Percentages, times and sizes have the same spelling in all commands.
#[test]
fn one_unit_has_one_spelling() {
    // By metavar: spellings with the same meaning, all of which an option accepts, or none if they are out of range;
    // and an invalid value.
    let spellings: &[(&str, &[&[&str]], &str)] = &[
        ("PERCENT", &[&["1", "1%", "1 %"], &["50", "50%", "50 %"], &["0.5", "0.5%"]], "half"),
        ("SECONDS", &[&["90", "90s", "1.5m"], &["7200", "120m", "2h"]], "90 days"),
        ("BYTES", &[&["33554432", "32768K", "32M", "32m"], &["4096", "4k", "4K"]], "many"),
    ];
    for (path, command) in commands() {
        for option in options(&command) {
            let metavar = option.get_value_names().unwrap_or_default().first().map(ToString::to_string);
            let spelling = spellings.iter().find(|(name, ..)| Some(*name) == metavar.as_deref());
            let (Some((name, same, none)), Some(long)) = (spelling, option.get_long()) else { continue };
            let long = format!("--{long}");
            let is_read = |value: &str| is_read(&path, &long, value);
            for values in *same {
                let read: Vec<bool> = values.iter().map(|value| is_read(value)).collect();
                assert!(read.iter().all(|one| *one == read[0]), "{path} {long} {name}: {values:?} {read:?}");
            }
            assert!(same.iter().flat_map(|values| *values).any(|value| is_read(value)), "{path} {long}");
            assert!(!is_read(none), "{path} {long}: {none}");
        }
    }
}

/// An option with a value has a default, states the behaviour without it, or is required.
#[test]
fn every_option_has_help_that_says_its_default() {
    for (path, command) in commands() {
        for option in options(&command) {
            let name = format!("{path} {}", option.get_id());
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{name}: no help");
            let is_option = option.get_long().is_some();
            if !is_option || !takes_value(option) || option.is_required_set() {
                continue;
            }
            let says = help.contains("[default: ")
                || help.contains("(required")
                || !option.get_default_values().is_empty();
            assert!(says, "{name}: its help does not say the default: {help}");
        }
    }
}

/// Removed options are refused with an error of their own.
#[test]
fn former_command_lines_are_still_read() {
    let lines = include_str!("../../../../tests/golden/cli/former-commands.list");
    let refused = lines.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let words: Vec<OsString> = words::of_line(line).into_iter().map(OsString::from).collect();
        let error = SedimentProgram::try_parse_from(&words).err()?;
        let names_another = next_steps::corrected(&words, &error).is_some();
        let text = error.to_string();
        (!names_another && !text.contains("it was removed")).then(|| format!("{line}\n{text}"))
    });
    assert_eq!(refused.collect::<Vec<_>>().join("\n"), "");
}
