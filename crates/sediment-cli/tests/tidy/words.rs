// SPDX-License-Identifier: MIT OR Apache-2.0
//! The language of the code: doc comments begin with what the item is or does, and neither they nor names use a word that has a
//! better one.

use super::pages::{REPLACED, plain};
use super::tree::{code_of, files_below, read, relative, root};
use std::collections::BTreeSet;

/// Crates whose doc comments and names are held to this.
const CRATES: &[&str] =
    &["crates/sediment", "crates/sediment-process", "crates/sediment-eval", "crates/sediment-cli", "proofs"];

/// First words of a clause, where a noun or a verb should stand.
const CLAUSES: &[&str] = &["What", "How", "Whether"];

/// Beginnings of function names that make a clause of them.
const CLAUSES_OF_NAMES: &[&str] = &["what_", "how_", "whether_", "where_"];

/// Words of doc comments that have a better one, besides those of pages.
const REPLACED_IN_CODE: &[(&str, &str)] = &[
    ("came", "was counted, arrived"),
    ("losses", "skipped items"),
    ("near in time", "temporal affinity"),
    ("places", "addresses, positions"),
    ("ran", "was executed"),
];

/// Parts of names that have a better one.
const PARTS: &[(&str, &str)] = &[
    ("alike", "similar"),
    ("bond", "edge"),
    ("bonds", "edges"),
    ("came", "counted"),
    ("drowned", "underserved"),
    ("learnt", "train"),
    ("ledger", "skipped"),
    ("losses", "skipped"),
    ("namesake", "same-named local"),
    ("namesakes", "same-named locals"),
    ("patience", "timeout"),
    ("places", "addresses, positions"),
    ("ran", "executed"),
    ("sane", "clamped"),
    ("twin", "same-named local"),
    ("twins", "same-named locals"),
    ("unseen", "unprofiled, held_out, invisible"),
];

/// Whole names that say nothing, or have a better one.
const NAMES: &[&str] = &[
    "BelowFloor",
    "Bound",
    "Hands",
    "How",
    "Loose",
    "Made",
    "Met",
    "Taken",
    "Visit",
    "Way",
    "What",
    "Where",
    "link_up",
    "near_pairs",
    "with_near",
];

/// Names that look like one of these and are terms: the attribute `taken` of the profile, an address that is taken, the mark by
/// which perf and a name are bound.
const TERMS: &[(&str, &str)] = &[
    ("crates/sediment/src/profile/dot/vocabulary.rs", "Taken"),
    ("crates/sediment/src/profile/text/version2.rs", "Taken"),
    ("crates/sediment/src/isa/mod.rs", "Taken"),
    ("crates/sediment/src/isa/x86/mod.rs", "Taken"),
    ("crates/sediment/src/binary/calls.rs", "Taken"),
    ("crates/sediment/src/read/perf_report/objects.rs", "Bound"),
];

/// A doc comment, without its code, and the line that it starts on, from 1.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        match (mark, found.last_mut()) {
            (Some(mark), Some((_, comment))) if open == Some(mark) => {
                *comment += "\n";
                *comment += &line[3..];
            }
            (Some(_), _) => found.push((number, line[3..].to_owned())),
            (None, _) => {}
        }
        open = mark;
    }
    found.into_iter().map(|(number, comment)| (number, without_code(&comment))).collect()
}

fn without_code(comment: &str) -> String {
    let prose = |text: &str| {
        text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "X" }).collect()
    };
    let outside: Vec<String> = comment.split("```").step_by(2).map(prose).collect();
    outside.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The names in a source text, each once: words of its code that are in no string.
fn names(text: &str) -> BTreeSet<String> {
    let code = code_of(text);
    let mut names = BTreeSet::new();
    for (at, part) in code.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "").split('"').enumerate()
    {
        if at % 2 == 0 {
            names.extend(
                part.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
                    .map(str::to_owned),
            );
        }
    }
    names
}

/// The parts of a name, in lower case: `NearPairs` and `near_pairs` are `near` and `pairs`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && was_lower {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().unwrap().extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    parts
}

fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in CRATES {
        for folder in folders {
            let paths = files_below(&root().join(name).join(folder), "rs");
            found.extend(paths.iter().map(|path| (relative(path), read(path))));
        }
    }
    found
}

#[test]
fn doc_comments_begin_with_the_item() {
    let mut wrong = Vec::new();
    for (name, text) in sources(&["src", "bin", "tests", "benches", "examples"]) {
        for (line, comment) in doc_comments(&text) {
            let first = comment.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if CLAUSES.contains(&first) {
                wrong.push(format!("{name}:{line}: {comment}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "begin with what the item is or does, not with a clause:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn doc_comments_use_the_words_of_the_field() {
    let mut wrong = Vec::new();
    for (name, text) in sources(&["src", "bin"]) {
        for (line, comment) in doc_comments(&text) {
            for (word, better) in REPLACED.iter().chain(REPLACED_IN_CODE) {
                if plain(&comment).contains(&format!(" {word} ")) {
                    wrong.push(format!("{name}:{line}: \"{word}\": better {better}: {comment}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} words have a better one:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn names_use_the_words_of_the_field() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "bin"]) {
        for name in names(&text) {
            let replaced = parts(&name)
                .iter()
                .find_map(|part| PARTS.iter().find(|(word, _)| word == part))
                .map(|(_, better)| format!(": better {better}"));
            let empty = NAMES.contains(&&*name) && !TERMS.contains(&(&*file, &*name));
            if let Some(better) = replaced.or(empty.then(String::new)) {
                wrong.push(format!("{file}: {name}{better}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} names have a better word:\n{}", wrong.len(), wrong.join("\n"));
}

/// The functions and cases of a text that are named by a clause, unit tests among them.
fn named_by_clauses(text: &str) -> Vec<&str> {
    let functions = text.split("fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap_or_default());
    let cases = text.split("case(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let names = functions.chain(cases.map(|rest| rest.split('"').next().unwrap_or_default()));
    names.filter(|name| CLAUSES_OF_NAMES.iter().any(|beginning| name.starts_with(beginning))).collect()
}

#[test]
fn functions_are_not_named_by_clauses() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "bin", "tests", "benches", "examples"]) {
        wrong.extend(named_by_clauses(&text).into_iter().map(|name| format!("{file}: {name}")));
    }
    assert!(wrong.is_empty(), "name what the function checks, does or returns:\n{}", wrong.join("\n"));
}

#[test]
fn wrong_words_are_found() {
    let text = "//! How it goes.\n//! On.\n\n/// The twins, not `places`.\nfn local_twins(x: NearPairs) { \"ran\"; }\n";
    assert_eq!(doc_comments(text), [(1, "How it goes. On.".to_owned()), (4, "The twins, not X.".to_owned())]);
    assert_eq!(names(text).into_iter().collect::<Vec<_>>(), ["NearPairs", "fn", "local_twins", "x"]);
    let functions = concat!(
        "fn ",
        "what_ran(x: u8) {} fn run<T>() {}\nfn ",
        "how_long<'a>() {} case(\n \"where_it_is\")"
    );
    assert_eq!(named_by_clauses(functions), ["what_ran", "how_long", "where_it_is"]);
    assert_eq!(parts("NearPairs"), parts("near_pairs"));
    assert_eq!(parts("MOST_ADDRESSES"), ["most", "addresses"]);
}
