// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks in tests: wording stands in golden files, and a test that ends early says why.

use super::tree::{files_below, read, relative, root};

/// Calls that look for a text in what a program or an error says.
const SEARCHES: &[&str] =
    &["contains(", "starts_with(", "ends_with(", "matches(", ".find(", "strip_prefix(", "strip_suffix("];

/// Calls behind which an expected message would stand.
const MESSAGES: &[&str] = &["to_string(),", "hint(), Some("];

/// Lower-case words in a row that make a sentence of a text.
const WORDS: usize = 3;

/// Texts of several words that tests may look for, and the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("perf branch records", "the attribute `source` of profiles, whose values are stable"),
    ("perf call stacks", "the attribute `source` of profiles"),
    ("perf samples", "the attribute `source` of profiles"),
    ("BOLT branches", "the attribute `source` of profiles"),
    ("pprof call stacks", "the attribute `source` of profiles"),
    ("internal compiler error", "GCC's words"),
    ("undefined reference to", "GNU ld's words"),
    ("undefined symbol: main", "lld's words"),
    ("number of failed transactions", "pgbench's words"),
    ("the linker is ld", "words of the test's own configure script"),
    ("no such luck", "words of the test's own linker"),
    ("no space left", "words of the test's own file"),
    ("ready to serve", "words of the test's own server"),
    ("text after the end of the graph", "the one rule by which our reader and Graphviz may differ"),
    ("a longer block", "a unit test beside the message, which alone tells this refusal from others"),
    ("sediment: not counted: ", "a line of golden files that differs between machines"),
];

/// The Rust sources of all tests, unit tests among them.
fn tests() -> Vec<(String, String)> {
    let paths = files_below(&root().join("crates"), "rs");
    let named = paths.iter().map(|path| (relative(path), read(path)));
    let tests = named.filter_map(|(name, text)| {
        if name.contains("/tests/") {
            return (!name.contains("/tests/tidy/")).then_some((name, text));
        }
        let (_, unit_tests) = text.split_once("#[cfg(test)]")?;
        Some((name, unit_tests.to_owned()))
    });
    tests.collect()
}

/// The text literal that an argument begins with, as it is written.
fn literal(argument: &str) -> Option<&str> {
    let argument = argument.trim_start().trim_start_matches('&');
    let argument = argument.strip_prefix("format!(").unwrap_or(argument).trim_start();
    let text = argument.strip_prefix('"')?;
    let mut escaped = false;
    let end = text.find(|character: char| {
        let ends = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        ends
    })?;
    Some(&text[..end])
}

/// Texts that a test looks for, and that read as prose.
fn prose_checks(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (calls, are_compared) in [(SEARCHES, false), (MESSAGES, true)] {
        for (at, call) in calls.iter().flat_map(|call| text.match_indices(call)) {
            // The first of two values; a later text is the message of the assertion.
            let before = text[..at].rsplit("assert_").next().unwrap_or_default();
            if !are_compared || !before.contains(',') {
                found.extend(literal(&text[at + call.len()..]).filter(|text| is_prose(text)));
            }
        }
    }
    found
}

fn is_prose(text: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_end_matches([',', ';', ':']);
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let words: Vec<&str> = text.split(' ').collect();
    words.windows(WORDS).any(|words| words.iter().all(|word| is_word(word)))
}

#[test]
fn wording_stands_in_golden_files() {
    let mut wrong = Vec::new();
    for (name, text) in tests() {
        let found = prose_checks(&text);
        let found =
            found.into_iter().filter(|text| !ALLOWED.iter().any(|(allowed, _)| text.contains(allowed)));
        wrong.extend(found.map(|text| format!("{name}: \"{text}\"")));
    }
    assert!(
        wrong.is_empty(),
        "{} checks of wording: compare it by says() of support/said.rs, or check a code or number:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The body of each function without parameters and result, as tests and cases are.
fn cases(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for part in text.split("\nfn ").chain(text.split("\npub fn ")).skip(1) {
        if let Some((name, body)) = part.split_once("() {\n") {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            found.extend(is_name.then(|| (name, body.split("\n}").next().unwrap_or_default())));
        }
    }
    found
}

/// Ways to end or ignore a test that say no reason, or do not fail where all is required.
fn silent_skips(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for way in ["SEDIMENT_REQUIRE_ALL", "with_ignored_flag", "eprintln!(\"not run"] {
        found.extend(text.contains(way).then(|| format!("{way}: only support/mod.rs has it")));
    }
    found.extend(text.contains("#[ignore]").then(|| "#[ignore] without a reason".to_owned()));
    for skip in ["skip(\"\")", "skip_on_this_machine(\"\")"] {
        found.extend(text.contains(skip).then(|| format!("{skip} without a reason")));
    }
    for (name, body) in cases(text) {
        let returns = body.lines().any(|line| line.trim().split(" //").next() == Some("return;"));
        found.extend(returns.then(|| format!("{name}: `return;` where support::skip would say why")));
    }
    found
}

#[test]
fn a_test_that_ends_early_says_why() {
    let mut wrong = Vec::new();
    for (name, text) in tests().iter().filter(|(name, _)| !name.ends_with("tests/support/mod.rs")) {
        wrong.extend(silent_skips(text).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn prose_and_silent_skips_are_found() {
    let checks = [
        ("said.contains(\"no such file, it says\")", 1),
        ("said.contains(\n    &format!(\"{file}: cannot be read\"))", 1),
        ("said.contains(\"\\\"a b c\")", 0),
        ("assert_eq!(error.to_string(), \"it is not there\");", 1),
        ("assert_eq!(error.hint(), Some(\"do it again\"));", 1),
        ("said.contains(\"100.00 % of the\") && said.contains(\"--binary PROGRAM\")", 0),
        ("assert!(a == b, \"it is the same\")", 0),
    ];
    for (text, expected) in checks {
        assert_eq!(prose_checks(text).len(), expected, "{text}");
    }
    let skips = [
        ("\nfn case() {\n    if x {\n        return;\n    }\n}\n", 1),
        ("\nfn helper(x: u8) {\n    return;\n}\n", 0),
        ("\nfn case() {\n    return support::skip(\"cc is missing\");\n}\n", 0),
        ("\n#[ignore]\nfn case() {}\n", 1),
        ("Trial::test(name, run).with_ignored_flag(true)", 1),
    ];
    for (text, expected) in skips {
        assert_eq!(silent_skips(text).len(), expected, "{text}");
    }
}
