// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a test that ends early states the reason.

use super::tree::{files_below, read, relative, root};

/// Returns the Rust sources of all tests, including unit tests.
fn tests() -> Vec<(String, String)> {
    let paths = files_below(&root().join("crates"), "rs");
    let named = paths.iter().map(|path| (relative(path), read(path)));
    let tests = named.filter_map(|(name, text)| {
        if name.contains("/tests/") {
            return (!name.contains("/tidy/")).then_some((name, text));
        }
        let (_, unit_tests) = text.split_once("#[cfg(test)]")?;
        Some((name, unit_tests.to_owned()))
    });
    tests.collect()
}

/// Returns the body of each function without parameters and result, which may be a test or a case.
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

/// Returns the ways in which a text ends or ignores a test without a reason, or does not fail if everything is
/// required.
fn silent_skips(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for way in ["SEDIMENT_REQUIRE_ALL", "with_ignored_flag", "eprintln!(\"skipped"] {
        found.extend(text.contains(way).then(|| format!("{way}: only tests/support has it")));
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
    for (name, text) in &tests() {
        wrong.extend(silent_skips(text).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn silent_skips_are_found() {
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
