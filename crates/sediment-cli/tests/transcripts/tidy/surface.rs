// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the public interface of the libraries: a function, constant or module is public only if another crate, a
//! test, an example, a benchmark, a fuzz target or the fleet uses it. The compiler checks that types in public
//! signatures are public.

use super::tree::{code_of, files_below, read, relative, root};
use std::collections::BTreeSet;

const LIBRARIES: &[&str] = &[
    "sediment-core",
    "sediment-read",
    "sediment-order",
    "sediment-process",
    "sediment-record",
    "sediment-measure",
    "sediment-eval",
];

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Name of the public function, constant or module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = words(line.trim_start().strip_prefix("pub ")?);
    let mut word = words.next()?;
    while ["async", "unsafe"].contains(&word) {
        word = words.next()?;
    }
    match word {
        "fn" | "static" | "mod" => words.next(),
        "const" => words.next().and_then(|name| if name == "fn" { words.next() } else { Some(name) }),
        _ => None,
    }
}

#[test]
fn whatever_is_public_has_a_caller() {
    let rust = |folder: &str| files_below(&root().join(folder), "rs");
    let all: Vec<_> =
        ["crates", "proofs", "tests", "fuzz", "fleet"].iter().flat_map(|folder| rust(folder)).collect();
    for library in LIBRARIES {
        let own = root().join("crates").join(library).join("src");
        let (inside, outside): (Vec<_>, Vec<_>) = all.iter().partition(|path| path.starts_with(&own));
        let outside: Vec<String> = outside.into_iter().map(|path| read(path)).collect();
        let code =
            outside.iter().flat_map(|text| text.lines()).filter(|line| !line.trim_start().starts_with("//"));
        let used: BTreeSet<&str> = code.flat_map(words).collect();
        let mut idle = Vec::new();
        for path in inside {
            let code = code_of(&read(path));
            let names = code.lines().filter_map(declared).filter(|name| !used.contains(name));
            idle.extend(names.map(|name| format!("{}: {name}", relative(path))));
        }
        assert!(idle.is_empty(), "public, and nobody outside of {library} names it: {}", idle.join(", "));
    }
}

#[test]
fn declarations_are_found() {
    assert_eq!(declared("    pub const fn new() -> Self {"), Some("new"));
    assert_eq!(declared("pub fn read<T>(input: T)"), Some("read"));
    assert_eq!(declared("pub const LIMIT: u64 = 1;"), Some("LIMIT"));
    assert_eq!(declared("pub mod text;"), Some("text"));
    assert_eq!(declared("pub(crate) fn read()"), None);
    assert_eq!(declared("    pub count: u64,"), None);
}
