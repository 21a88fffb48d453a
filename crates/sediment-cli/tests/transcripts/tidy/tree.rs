// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of the project, in a checkout or in a release's tarball.

use std::path::{Path, PathBuf};
pub use support::root;

/// Returns all files except build outputs, sorted.
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found
}

/// Returns the files below a folder with this extension, sorted.
pub fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, &mut found);
    found.retain(|path| path.extension().is_some_and(|e| e == ending));
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    const NOT_OURS: [&str; 4] = [".git", ".cache", "target", "__pycache__"];
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            walk(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a source text without comments and without unit tests, which may use anything.
pub fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

pub fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
