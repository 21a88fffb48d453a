// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes a build's environment so that each function gets a section and each link goes through the wrapper, whatever
//! the build system. Scripts with the names of the compilers come first on PATH, and add `-ffunction-sections`; the
//! wrapper is in COMPILER_PATH.
//!
//! GCC finds the wrapper as `real-ld`, so a configure script that asks GCC for its linker gets the usual one; clang
//! finds it by the linkers' own names.
//!
//! Variables such as CFLAGS are not set, because they would replace a project's own default (`-O2`).

use super::entries::{AT_FIRST, CACHE, FOR_CLANG, FOR_GCC, SCRIPTS};
use crate::files;
use crate::wrapper;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_process::Command;
use sediment_process::command::{probe, run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest script.
const LONGEST: u64 = 1 << 16;
/// Script that calls rustc, if a level has options for it.
const RUSTC: &str = "sediment-rustc";
/// Time limit for a compiler to show if it loads a plugin.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
/// First line of each script.
const HEAD: &str = "#!/bin/sh\n";
/// Variables that affect builds.
const SETTINGS: &[&str] =
    &["CC", "CXX", "CPPFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS", "RUSTFLAGS", "CARGO_TARGET_DIR"];

/// Returns the values of variables that affect builds.
pub(super) fn settings() -> Value {
    let values = SETTINGS.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    values
        .map(|(name, value)| (name.to_owned(), json!(value.to_string_lossy())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Finds a file or folder that a build left in the working folder because it wrote above its own folder.
pub(super) fn first_stranger(work: &Path) -> Option<PathBuf> {
    let entries = |folder: &Path| -> BTreeSet<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let is_own = |path: &Path| AT_FIRST.iter().any(|own| files::base_name(path) == *own);
    let is_script =
        |path: &Path| files::read_at_most(path, LONGEST).is_ok_and(|text| text.starts_with(HEAD.as_bytes()));
    let stranger = entries(work).into_iter().find(|path| !is_own(path));
    let in_folder = |name: &str, is_known: &dyn Fn(&Path) -> bool| {
        entries(&work.join(name)).into_iter().find(|path| !is_known(path))
    };
    stranger
        .or_else(|| in_folder(SCRIPTS, &is_script))
        .or_else(|| in_folder(FOR_GCC, &Path::is_symlink))
        .or_else(|| in_folder(FOR_CLANG, &Path::is_symlink))
}

/// Compilers for which a level can have options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum LevelCompiler {
    Gcc,
    Clang,
    Rustc,
}

impl LevelCompiler {
    /// Its name in the state of a run.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Gcc => "gcc",
            Self::Clang => "clang",
            Self::Rustc => "rustc",
        }
    }
}

/// Further options of a build, by compiler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::commands) struct CompilerWords(Vec<(LevelCompiler, Vec<String>)>);

impl CompilerWords {
    pub(super) fn add(&mut self, compiler: LevelCompiler, words: impl IntoIterator<Item = String>) {
        match self.0.iter_mut().find(|(other, _)| *other == compiler) {
            Some((_, all)) => all.extend(words),
            None => self.0.push((compiler, words.into_iter().collect())),
        }
    }

    pub(super) fn of(&self, compiler: LevelCompiler) -> &[String] {
        self.0.iter().find(|(other, _)| *other == compiler).map_or(&[], |(_, words)| words)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, words)| words.is_empty())
    }

    pub(super) fn json(&self) -> Value {
        self.0.iter().map(|(compiler, words)| (compiler.text().to_owned(), json!(words))).collect()
    }

    /// Reads the options that [`Self::json`] wrote.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut all = Self::default();
        for compiler in [LevelCompiler::Rustc, LevelCompiler::Clang, LevelCompiler::Gcc] {
            if let Some(words) = value.as_object()?.get(compiler.text()) {
                let words = words.as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned()));
                all.add(compiler, words);
            }
        }
        Some(all)
    }
}

/// Makes these folders in the working folder; `words` are further options for compilers.
///
/// # Errors
/// If no compiler is on PATH.
pub(in crate::commands) fn make(work: &Path, words: &CompilerWords) -> Result<()> {
    let (linkers, itself) = (files::folder(&work.join(FOR_CLANG))?, files::own_program()?);
    wrapper::make_links(&linkers, &itself)?;
    files::symbolic_link(&itself, &files::folder(&work.join(FOR_GCC))?.join(wrapper::REAL_LD))?;
    let linkers = linkers.to_string_lossy();
    let for_clang = escape::shell(&linkers).map_or_else(String::new, |folder| {
        format!("COMPILER_PATH={folder}:$COMPILER_PATH\nexport COMPILER_PATH\n")
    });
    let folder = files::folder(&work.join(SCRIPTS))?;
    // ccache and similar programs look for the compiler on PATH, and would find the script again.
    let shown = folder.to_string_lossy();
    let leave = escape::shell(&shown).map_or_else(String::new, |own| {
        format!(
            "PATH=:$PATH:\nPATH=${{PATH%%:{own}:*}}:${{PATH#*:{own}:}}\nPATH=${{PATH#:}}\nPATH=${{PATH%:}}\n"
        )
    });
    if !words.of(LevelCompiler::Rustc).is_empty() {
        make_for_rustc(&folder.join(RUSTC), words.of(LevelCompiler::Rustc))?;
    }
    let compilers = compilers(&folder);
    if compilers.is_empty() {
        return Err(Error::new(ErrorCode::Unsupported, "no C compiler on PATH")
            .with_hint("install a C compiler: gcc (and libc6-dev or glibc-devel), or clang"));
    }
    let cache = cache(work, &[words.of(LevelCompiler::Gcc), words.of(LevelCompiler::Clang)].concat());
    let mut loads = BTreeMap::new();
    for (name, path) in compilers {
        // PATH may contain ccache under the names of compilers.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_clang = name.contains("clang") || files::base_name(&real).contains("clang");
        let is_cached = files::base_name(&real) == CACHE;
        let kind = if is_clang { LevelCompiler::Clang } else { LevelCompiler::Gcc };
        let words = words.of(kind);
        // A plugin works with one version of GCC; for other compilers the plugin's options are left out.
        let takes = *loads.entry(real).or_insert_with(|| loads_plugin(&path, words));
        let path = path.to_string_lossy();
        let Some(quoted) = escape::shell(&path) else { continue };
        let more =
            if is_clang { format!("{for_clang}{}", for_linker_of_clang(words)) } else { String::new() };
        let words = words.iter().filter(|_| takes).filter_map(|word| escape::shell(word));
        let words: String = words.map(|word| format!(" {word}")).collect();
        let (set, by) = cache.as_ref().filter(|_| !is_cached).map_or(("", ""), |set| (set, "ccache "));
        let text = format!("{HEAD}{leave}{more}{set}exec {by}{quoted} \"$@\" -ffunction-sections{words}\n");
        let script = folder.join(name);
        files::write_owned(&script, text.as_bytes())?;
        files::make_executable(&script)?;
    }
    Ok(())
}

/// Lines of a script that add options of blocks to links by lld with link-time optimisation, in which the linker compiles. clang passes
/// none of them on.
fn for_linker_of_clang(words: &[String]) -> String {
    let of_linker = |word: &String| {
        let rest = word.strip_prefix("-fbasic-block-")?;
        escape::shell(&format!("--lto-basic-block-{}", rest.replacen("list=", "", 1)))
    };
    let added: String = words.iter().filter_map(of_linker).map(|word| format!(" -Xlinker {word}")).collect();
    if added.is_empty() {
        return added;
    }
    format!(
        "case \" $* \" in\n*\" -c \"* | *\" -S \"* | *\" -E \"*) ;;\n*\" -flto\"*\" -fuse-ld=\"*lld* | *\" -fuse-ld=\"*lld*\" -flto\"*) set -- \"$@\"{added} ;;\nesac\n"
    )
}

/// Lines of a script for ccache, if it is installed. Objects are kept in the working folder, and are made again if a
/// file named in the options changes. So files that a build compiles twice, for example after a cleaning step before
/// its second link, are compiled only once.
fn cache(work: &Path, words: &[String]) -> Option<String> {
    probe(CACHE, &["--version"], "").ok().filter(|version| version.starts_with(CACHE))?;
    let folder = escape::shell(&work.join(CACHE).to_string_lossy())?;
    let named = words.iter().filter_map(|word| word.split_once('=')).map(|(_, path)| path);
    let named: Vec<&str> = named.filter(|path| Path::new(path).is_file()).collect();
    let named = escape::shell(&named.join(":"))?;
    Some(format!(
        "CCACHE_DIR={folder} CCACHE_EXTRAFILES={named} CCACHE_NOSTATS=1\nexport CCACHE_DIR CCACHE_EXTRAFILES CCACHE_NOSTATS\n"
    ))
}

/// True if a compiler accepts the options; a plugin in them must fit its version.
fn loads_plugin(compiler: &Path, words: &[String]) -> bool {
    let Some(plugin) = words.iter().find(|word| word.starts_with("-fplugin=")) else { return true };
    let command = Command::new(compiler, "/", PROBE_LIMIT).with_arguments([
        plugin,
        "-x",
        "c",
        "-S",
        "-o",
        "/dev/null",
        "/dev/null",
    ]);
    run(&command, 0).and_then(|ended| ended.successful(&command)).is_ok()
}

/// Writes the script that cargo calls for rustc (`RUSTC_WRAPPER`). Unlike RUSTFLAGS, it keeps the flags of a project's
/// configuration, and does not change programs that run only in the build.
fn make_for_rustc(script: &Path, words: &[String]) -> Result<()> {
    let words: String =
        words.iter().filter_map(|word| escape::shell(word)).map(|word| format!(" {word}")).collect();
    // The script calls a wrapper of the user's, such as sccache, just as cargo would.
    let before = std::env::var("RUSTC_WRAPPER").unwrap_or_default();
    let before = match escape::shell(&before) {
        Some(quoted) if !before.is_empty() => format!("{quoted} "),
        _ => String::new(),
    };
    let text = format!(
        "{HEAD}case \" $* \" in\n*\" --crate-type proc-macro \"* | *\" --crate-name build_script_\"*) exec {before}\"$@\" ;;\nesac\nexec {before}\"$@\"{words}\n"
    );
    files::write_owned(script, text.as_bytes())?;
    files::make_executable(script)
}

/// Returns the first compiler of each name on PATH.
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

/// Returns the environment of a build with these profiles, and with this folder for the wrapper's log.
pub(in crate::commands) fn environment(
    work: &Path,
    profiles: &Path,
    log: &Path,
) -> Vec<(OsString, OsString)> {
    let before = |name: &str, folder: PathBuf| {
        let mut value = folder.into_os_string();
        if let Some(inherited) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            value.push(":");
            value.push(inherited);
        }
        (OsString::from(name), value)
    };
    let rustc = work.join(SCRIPTS).join(RUSTC);
    let for_rustc = rustc.is_file().then(|| ("RUSTC_WRAPPER".into(), rustc.into()));
    let for_all = vec![
        before("PATH", work.join(SCRIPTS)),
        before("COMPILER_PATH", work.join(FOR_GCC)),
        ("PROF_DIR".into(), profiles.into()),
        ("SEDIMENT_LOG".into(), log.into()),
        // A recording needs symbols, which cargo would strip if the profile says so.
        ("CARGO_PROFILE_RELEASE_STRIP".into(), "none".into()),
    ];
    for_all.into_iter().chain(for_rustc).collect()
}
