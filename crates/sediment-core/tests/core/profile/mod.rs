// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the profile file and the arithmetic of merging: sample files, properties, and errors of damaged input.

mod damaged;
mod difference;
mod generated;
mod knowledge;
mod properties;
mod rows;
mod source;
mod submissions;
#[allow(unreachable_pub)] // shared by several test programs
mod values;

use sediment_core::Skipped;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::text::{parse, print};
use sediment_core::skipped::Reason;
use std::collections::BTreeSet;
use std::path::Path;
use support::{golden, golden_cases};

/// Checks each folder of tests/golden/profile: `X.input.gv` is read as `X.gv` with the skipped items `X.skipped`, or
/// gives the error `X.error`; `merges` lists merges of these files.
#[test]
fn sample_files_read_as_they_must() {
    for case in golden_cases("profile") {
        let name = case.file_name().unwrap().to_str().unwrap();
        let mut expected = BTreeSet::new();
        let mut check = |file: String, text: &str| {
            golden(&format!("profile/{name}/{file}"), text);
            expected.insert(file);
        };
        for input in files(&case).iter().filter_map(|file| file.strip_suffix(".input.gv")) {
            let bytes = std::fs::read(case.join(format!("{input}.input.gv"))).unwrap();
            match parse(&bytes) {
                Err(error) => {
                    let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
                    check(format!("{input}.error"), &format!("{error}\n{hint}"));
                }
                Ok((profile, skipped)) => {
                    let printed = print(&profile);
                    let (again, nothing) = parse(printed.as_bytes()).unwrap();
                    assert!(again == profile, "{name}/{input}: what is printed reads in as something else");
                    assert!(
                        nothing.iter().all(|(reason, _)| reason == Reason::NoWeights),
                        "{name}/{input}: {nothing:?}"
                    );
                    assert_eq!(print(&again), printed, "{name}/{input}");
                    check(format!("{input}.gv"), &printed);
                    if !skipped.is_empty() {
                        check(format!("{input}.losses"), &skip_report(&skipped));
                    }
                }
            }
        }
        for recipe in std::fs::read_to_string(case.join("merges")).unwrap_or_default().lines() {
            let (output, text) = merged(&case, recipe);
            check(output, &text);
        }
        let stale: Vec<String> = files(&case)
            .into_iter()
            .filter(|file| !file.ends_with(".input.gv") && !["README.md", "merges"].contains(&file.as_str()))
            .filter(|file| !expected.contains(file))
            .collect();
        assert!(stale.is_empty(), "{name}: {stale:?} belong to no input");
        assert!(case.join("README.md").is_file(), "{name} has no README.md that says how it was made");
    }
}

#[test]
fn merging_again_equals_merging_at_once() {
    let case = support::root().join("tests/golden/profile/merged-again");
    let read = |file: &str| std::fs::read_to_string(case.join(file)).unwrap();
    assert_eq!(read("three.gv"), read("at-once.gv"));
}

/// The example on the page of the format is written exactly as sediment writes it.
#[test]
fn the_documented_example_is_canonical() {
    let page = std::fs::read_to_string(support::root().join("docs/profile-format.md")).unwrap();
    let lines = page.lines().skip_while(|line| !line.starts_with("    digraph"));
    let example: String =
        lines.map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
    let (profile, skipped) = parse(example.as_bytes()).unwrap();
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!(print(&profile), example);
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Merges as a line of `merges` says: the output, perhaps `normalize`, then weights and inputs.
fn merged(case: &Path, recipe: &str) -> (String, String) {
    let mut words: Vec<&str> = recipe.split_whitespace().collect();
    let output = words.remove(0).to_owned();
    let normalize = words[0] == "normalize";
    let words = &words[usize::from(normalize)..];
    let read: Vec<_> = words
        .chunks(2)
        .map(|pair| {
            let bytes = std::fs::read(case.join(pair[1])).unwrap();
            (parse(&bytes).unwrap().0, Weight::parse(pair[0]).unwrap())
        })
        .collect();
    let inputs: Vec<_> = read.iter().map(|(profile, weight)| (profile, *weight)).collect();
    let text = print(&merge(&inputs, normalize).unwrap());
    (output, text)
}

fn skip_report(skipped: &Skipped) -> String {
    skipped
        .iter()
        .map(|(reason, entry)| {
            let example: String = entry.example.iter().flat_map(|example| example.chars().take(60)).collect();
            let weight =
                if entry.weight > 0 { format!(" of weight {}", entry.weight) } else { String::new() };
            format!("{} {reason}{weight}, such as {:?}\n", entry.items, example)
        })
        .collect()
}
