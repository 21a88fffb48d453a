// SPDX-License-Identifier: MIT OR Apache-2.0
//! Additions to a build's environment, by which each function has a section and each link goes through the wrapper, whatever the
//! build system: scripts of the compilers' names first on PATH, which add `-ffunction-sections`, and the wrapper in COMPILER_PATH.
//!
//! GCC finds the wrapper as `real-ld`, so that a configure script that asks for its linker learns the usual one; clang, by the
//! linkers' own names.
//!
//! Variables such as CFLAGS are left alone: set in the environment, they would replace a project's own default (`-O2`).

use crate::files;
use crate::wrapper;
use sediment::{Error, ErrorCode, Result, escape};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Folders of scripts, and of the wrapper for GCC and for clang.
const SCRIPTS: &str = "bin";
const FOR_GCC: &str = "gcc";
const FOR_CLANG: &str = "ld";

/// Makes these folders in the working folder.
///
/// # Errors
/// If no compiler is on PATH.
pub(super) fn make(work: &Path) -> Result<()> {
    let (linkers, itself) = (files::folder(&work.join(FOR_CLANG))?, super::runs::itself()?);
    wrapper::make_links(&linkers, &itself)?;
    files::symbolic_link(&itself, &files::folder(&work.join(FOR_GCC))?.join(wrapper::REAL_LD))?;
    let linkers = linkers.to_string_lossy();
    let for_clang = escape::shell(&linkers).map_or_else(String::new, |folder| {
        format!("COMPILER_PATH={folder}:$COMPILER_PATH\nexport COMPILER_PATH\n")
    });
    let folder = files::folder(&work.join(SCRIPTS))?;
    let compilers = compilers(&folder);
    if compilers.is_empty() {
        return Err(Error::new(ErrorCode::Unsupported, "no C compiler on PATH")
            .with_hint("install a C compiler: gcc (and libc6-dev or glibc-devel), or clang"));
    }
    for (name, path) in compilers {
        let is_clang = path.canonicalize().is_ok_and(|path| files::base_name(&path).contains("clang"));
        let path = path.to_string_lossy();
        let Some(quoted) = escape::shell(&path) else { continue };
        let more = if is_clang { for_clang.as_str() } else { "" };
        let text = format!("#!/bin/sh\n{more}exec {quoted} \"$@\" -ffunction-sections\n");
        let script = folder.join(name);
        files::write_owned(&script, text.as_bytes())?;
        files::make_executable(&script)?;
    }
    Ok(())
}

/// The compilers on PATH by name, each the first of its name.
fn compilers(own: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let search = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&search).filter(|folder| folder != own && folder.is_absolute()) {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            let is_program = std::fs::metadata(&path)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
            if wrapper::is_compiler(&name) && is_program {
                found.entry(name).or_insert(path);
            }
        }
    }
    found
}

/// The environment of a build: with these profiles, and this folder for the wrapper's log.
pub(super) fn environment(work: &Path, profiles: &Path, log: &Path) -> Vec<(OsString, OsString)> {
    let before = |name: &str, folder: PathBuf| {
        let mut value = folder.into_os_string();
        if let Some(inherited) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            value.push(":");
            value.push(inherited);
        }
        (OsString::from(name), value)
    };
    vec![
        before("PATH", work.join(SCRIPTS)),
        before("COMPILER_PATH", work.join(FOR_GCC)),
        ("PROF_DIR".into(), profiles.into()),
        ("SEDIMENT_LOG".into(), log.into()),
        // A recording needs symbols; cargo would strip them where the profile asks.
        ("CARGO_PROFILE_RELEASE_STRIP".into(), "none".into()),
    ]
}
