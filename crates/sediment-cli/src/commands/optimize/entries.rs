// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of files and folders in the working folder, and paths in its files.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The project file, in the folder of the sources.
pub(super) const PROJECT_FILE: &str = "sediment.toml";
/// File that lists the finished steps.
pub(super) const STATE: &str = "state.json";
pub(super) const LOCK: &str = "lock";
pub(super) const IGNORED: &str = ".gitignore";
/// Copy of the tree.
pub(super) const TREE: &str = "tree";
/// Folder of files that a build in place would rewrite.
pub(super) const SAVED: &str = "saved";
/// Folders of scripts, and of the wrapper for GCC and for clang.
pub(super) const SCRIPTS: &str = "bin";
pub(super) const FOR_GCC: &str = "gcc";
pub(super) const FOR_CLANG: &str = "ld";
/// Folder of objects that are reused, if ccache is installed.
pub(super) const CACHE: &str = "ccache";
/// Entries of the first build: its (empty) folder of profiles, the wrapper's log, and the log of the build.
pub(super) const NO_PROFILES: &str = "no-profiles";
pub(super) const LINKS_BEFORE: &str = "links-before";
pub(super) const BUILDING: &str = "building.log";
/// Entries of the build with the order: its folder of profiles, the wrapper's log, and the log of the build.
pub(super) const PROFILES: &str = "profiles";
pub(super) const LINKS_AFTER: &str = "links-after";
pub(super) const LINKING: &str = "linking-in-order.log";
/// Folder of the outputs of the first build, which are put there before the second one.
pub(super) const BEFORE: &str = "before";
/// Folder of the outputs of the second build.
pub(super) const AFTER: &str = "after";
/// Working folders of the builds of further levels, and the outputs of each.
pub(super) const BUILDS: &str = "builds";
/// Folder of the shipped files and their profile; folder of the files of the other levels, by level; and the README that explains them.
pub(super) const RESULT: &str = "result";
pub(super) const LEVELS: &str = "levels";
pub(super) const README: &str = "README";
/// Beginning of the name of a step that measures a level.
pub(super) const MEASURE: &str = "measure ";
/// List of the files of a tree that is built in place, with their state after the build.
pub(super) const SOURCES: &str = "sources";

/// List of the files of the tree that was copied.
pub(super) const ORIGINALS: &str = "originals";

/// Everything that exists at the end of the first build.
pub(super) const AT_FIRST: &[&str] = &[
    STATE,
    LOCK,
    IGNORED,
    ORIGINALS,
    TREE,
    SAVED,
    SCRIPTS,
    FOR_GCC,
    FOR_CLANG,
    CACHE,
    NO_PROFILES,
    LINKS_BEFORE,
    BUILDING,
];

/// Converts a path for a file in the working folder: to text, or to bytes if it is not valid UTF-8.
pub(super) fn to_json(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str().as_encoded_bytes()), |text| json!(text))
}

/// Reads a path that [`to_json`] wrote.
pub(super) fn from_json(value: &Value) -> Option<PathBuf> {
    if let Some(text) = value.as_str() {
        return Some(PathBuf::from(text));
    }
    let bytes = value.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
    Some(PathBuf::from(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_back() {
        for bytes in [&b"a/b c"[..], "ä\n\"".as_bytes(), b"\xff/\xe4", b""] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            let text = to_json(&path).to_string();
            assert_eq!(from_json(&serde_json::from_str(&text).unwrap()), Some(path), "{text}");
        }
        for damaged in ["null", "7", "[256]", "[\"a\"]"] {
            assert_eq!(from_json(&serde_json::from_str(damaged).unwrap()), None, "{damaged}");
        }
    }
}
