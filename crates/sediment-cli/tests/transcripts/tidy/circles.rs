// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds cycles: sibling files and folders that use one another. A folder's mod.rs (lib.rs, main.rs) is above its
//! parts: it may use them, and they may use its own declarations; an item that it re-exports from a part counts as that
//! part's.

use super::tree::{code_of, files_below, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module, as its path from the crate's root.
type ModulePath = Vec<String>;

/// Which file or folder uses which sibling, by the folder that contains both.
pub type Uses = BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>>;

/// Reads the modules of a crate.
pub fn uses(source: &Path) -> Uses {
    let files = files_below(source, "rs");
    uses_of(&files.iter().map(|path| (module(source, path), code_of(&read(path)))).collect())
}

fn uses_of(files: &BTreeMap<ModulePath, String>) -> Uses {
    // Re-exports of a mod.rs: the name, and the module that has it.
    let mut handed_on: BTreeMap<ModulePath, ModulePath> = BTreeMap::new();
    for (here, code) in files {
        for path in paths(code, here) {
            let there = longest(files, &path);
            if let (true, Some(name)) = (there.len() > here.len() && there.starts_with(here), path.last()) {
                handed_on.insert([here.as_slice(), std::slice::from_ref(name)].concat(), there.to_vec());
            }
        }
    }
    let mut uses = Uses::new();
    for (here, code) in files {
        for path in paths(code, here) {
            let mut there = longest(files, &path);
            while let Some(further) = path.get(..=there.len()).and_then(|path| handed_on.get(path)) {
                there = further;
            }
            let common = here.iter().zip(there).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (here.get(common), there.get(common)) {
                let folder = uses.entry(here[..common].to_vec()).or_default();
                folder.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    uses
}

/// Returns the files and folders of each folder that use one another in a cycle, as `folder: one, other`.
pub fn circles(uses: &Uses) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, uses) in uses {
        let reached = |from: &String| {
            let mut reached: BTreeSet<&String> = BTreeSet::new();
            let mut open: Vec<&String> = uses.get(from).into_iter().flatten().collect();
            while let Some(next) = open.pop() {
                if reached.insert(next) {
                    open.extend(uses.get(next).into_iter().flatten());
                }
            }
            reached
        };
        let all: BTreeMap<&String, BTreeSet<&String>> =
            uses.keys().map(|name| (name, reached(name))).collect();
        let circles: BTreeSet<Vec<&str>> = all
            .iter()
            .filter(|(name, reached)| reached.contains(**name))
            .map(|(name, reached)| {
                let back = |other: &&&String| all.get(**other).is_some_and(|reached| reached.contains(*name));
                reached.iter().filter(back).map(|other| other.as_str()).collect()
            })
            .collect();
        let folder = if folder.is_empty() { "the crate".to_owned() } else { folder.join("/") };
        found.extend(circles.iter().map(|circle| format!("{folder}: {}", circle.join(", "))));
    }
    found
}

/// Returns the module of a file.
fn module(source: &Path, path: &Path) -> ModulePath {
    let inside = path.strip_prefix(source).unwrap().with_extension("");
    let mut module: ModulePath =
        inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// Returns the longest beginning of a path that is a module.
fn longest<'a>(files: &BTreeMap<ModulePath, String>, path: &'a [String]) -> &'a [String] {
    let lengths = (0..=path.len()).rev();
    lengths.map(|length| &path[..length]).find(|beginning| files.contains_key(*beginning)).unwrap_or_default()
}

/// Returns every path from the crate's root in the code of a module, in `use` or elsewhere, with each name of a group
/// separately.
fn paths(code: &str, here: &[String]) -> Vec<Vec<String>> {
    let beginnings = ["crate::", "super::", "self::", "use "];
    let leaves = beginnings.iter().flat_map(|beginning| leaves_from(code, beginning));
    leaves.filter_map(|leaf| absolute(&leaf, here)).collect()
}

/// Returns the leaves of every tree of names that begins with this word.
fn leaves_from<'a>(code: &'a str, beginning: &str) -> Vec<Vec<&'a str>> {
    let mut leaves = Vec::new();
    for (at, _) in code.match_indices(beginning) {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) {
            leaves_of(code[at..].strip_prefix("use ").unwrap_or(&code[at..]), &[], &mut leaves);
        }
    }
    leaves
}

/// Returns a path from the crate's root. A path that begins with an unknown word belongs to a part of the module, or to
/// another crate, which is not a module.
fn absolute(path: &[&str], here: &[String]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|&&name| name == "super").count();
    let (up, rest) = match *path.first()? {
        "crate" => (here.len(), &path[1..]),
        "self" => (0, &path[1..]),
        _ => (ups, &path[ups..]),
    };
    let kept = here.len().checked_sub(up)?;
    Some(here[..kept].iter().cloned().chain(rest.iter().map(|&name| name.to_owned())).collect())
}

/// Collects the leaves of a tree of names such as `a::{b, c::d}`; returns the text after it.
fn leaves_of<'a>(tree: &'a str, before: &[&'a str], leaves: &mut Vec<Vec<&'a str>>) -> &'a str {
    let tree = tree.trim_start();
    if let Some(mut group) = tree.strip_prefix('{') {
        loop {
            group = group.trim_start();
            if let Some(behind) = group.strip_prefix('}') {
                return behind;
            }
            let behind = leaves_of(group, before, leaves).trim_start();
            // `as`, and other text between two names.
            let Some(end) = behind.find([',', '}']) else { return "" };
            group = behind[end..].strip_prefix(',').unwrap_or(&behind[end..]);
        }
    }
    let end = tree.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tree.len());
    let mut path = before.to_vec();
    if end > 0 && &tree[..end] != "self" || before.is_empty() {
        path.push(&tree[..end]);
    }
    match tree[end..].strip_prefix("::") {
        Some(rest) => leaves_of(rest, &path, leaves),
        None => {
            leaves.push(path);
            tree.get(end.max(1)..).unwrap_or_default()
        }
    }
}

#[test]
fn circles_are_found() {
    let found = |files: &[(&str, &str)]| {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect();
        circles(&uses_of(&files))
    };
    let root = ("", "mod a; mod b; mod c; pub use b::Thing;");
    assert_eq!(found(&[root, ("a", "use super::b::Thing;"), ("b", "use crate::c;"), ("c", "")]), [""; 0]);
    assert_eq!(
        found(&[
            root,
            ("a", "use crate::{b::Thing, x};"),
            ("b", "fn f() { super::c::g() }"),
            ("c", "use super::a::{self, X};")
        ]),
        ["the crate: a, b, c"]
    );
    // Re-exported by the parent file, and from inside folders.
    assert_eq!(found(&[root, ("a", "use crate::Thing;"), ("b", "use crate::a::X;")]), ["the crate: a, b"]);
    let folder =
        [root, ("a", "mod d; mod e;"), ("a/d", "use super::e::X;"), ("a/e", "use crate::{a::d::Y, b::Z};")];
    assert_eq!(found(&folder), ["a: d, e"]);
    assert_eq!(found(&[folder[0], folder[1], folder[2], ("b", "use crate::a::W;")]), [""; 0]);
    // Parts may use items that a mod.rs itself declares, and it may use them.
    assert_eq!(found(&[root, ("a", "mod d; use d::Y; pub struct X;"), ("a/d", "use super::X;")]), [""; 0]);
}
