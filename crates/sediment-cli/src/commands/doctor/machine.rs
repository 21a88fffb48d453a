// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts of this machine: linkers, tools, debug symbols, page sizes.

use crate::compiler;
use crate::files;
use crate::inputs;
use crate::packages;
use crate::ui::Ui;
use nix::unistd::{SysconfVar, sysconf};
use sediment_core::binary::SymbolSource;
use sediment_order::wrapper::plan;
use sediment_process::Command;
use sediment_process::command::run;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest output of a tool for its version, and longest wait for it.
const LONGEST: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(20);

/// A linker, and the compiler flag that selects it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InstalledLinker {
    pub(super) name: String,
    pub(super) version: String,
    /// Its ordering language, for `sediment order --linker`; null if the wrapper must order for it.
    #[serde(rename = "linker")]
    pub(super) dialect: Option<&'static str>,
    /// Compiler flag that selects it, or `none`.
    pub(super) flag: String,
    /// True for the default linker of the compiler.
    #[serde(rename = "default")]
    pub(super) is_default: bool,
    /// The compiler.
    #[serde(skip)]
    pub(super) compiler: String,
}

/// Finds the linkers on PATH and in LLVM's folders.
pub(super) fn linkers(ui: &Ui) -> Vec<InstalledLinker> {
    let (compiler, arguments) = compiler::compiler_of_environment(|assumed| ui.warn(assumed));
    let of_compiler = compiler::linker_version(&compiler, &arguments);
    let words = [&compiler].into_iter().chain(&arguments).map(|word| word.to_string_lossy());
    let compiler = words.collect::<Vec<_>>().join(" ");
    let mut seen = BTreeSet::new();
    let mut linkers = Vec::new();
    for (path, flag) in candidates() {
        let Ok(real) = path.canonicalize() else { continue };
        let answer = ask(&path, &["--version"]);
        let (version, name) = (first_line(&answer), files::base_name(&path));
        if version.is_empty() || !seen.insert(real) {
            continue;
        }
        let dialect = plan::dialect(&version, &ask(&path, &["--help"])).ok().map(|linker| linker.name);
        if dialect.is_none() && !plan::keeps_order_of_objects(&version) {
            continue;
        }
        let is_default =
            version == of_compiler && !linkers.iter().any(|linker: &InstalledLinker| linker.is_default);
        linkers.push(InstalledLinker {
            name,
            version: short(&version),
            dialect,
            flag: if is_default { "none".to_owned() } else { flag },
            is_default,
            compiler: compiler.clone(),
        });
    }
    linkers
}

/// Returns paths of linkers with the compiler's flag for each.
fn candidates() -> Vec<(PathBuf, String)> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&search).collect();
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let mut found = Vec::new();
    let flags = [
        ("ld", ""),
        ("ld.bfd", "bfd"),
        ("ld.gold", "gold"),
        ("ld.lld", "lld"),
        ("ld.mold", "mold"),
        ("mold", "mold"),
        ("ld.wild", "wild"),
        ("wild", "wild"),
    ];
    for (name, flag) in flags {
        let flag = if flag.is_empty() { "none".to_owned() } else { format!("-fuse-ld={flag}") };
        found.extend(on_path(name).map(|path| (path, flag)));
    }
    // Releases of lld, newest first; in Debian, each has its own folder.
    for release in (10..=40).rev() {
        let folder = format!("/usr/lib/llvm-{release}/bin");
        let path = Path::new(&folder).join("ld.lld");
        if path.is_file() {
            let named = on_path(&format!("ld.lld-{release}"));
            found.push((named.unwrap_or(path), format!("-fuse-ld=lld -B{folder}")));
        }
    }
    found
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns a linker's name and release: the words of its version line up to the number, without parentheses.
fn short(version: &str) -> String {
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let mut plain = String::new();
    let mut depth = 0;
    for character in version.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            other if depth == 0 => plain.push(other),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    let name: Vec<&str> = words.iter().copied().take_while(|word| !is_number(word)).collect();
    let name = name.into_iter().filter(|word| *word != "Debian").collect::<Vec<_>>().join(" ");
    let number = words.iter().copied().find(is_number).unwrap_or_default();
    format!("{name} {number}").trim().to_owned()
}

fn ask(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program, "/", LIMIT).with_arguments(arguments.iter().map(OsStr::new));
    command.environment.push(("LC_ALL".into(), "C".into()));
    let output = run(&command, LONGEST).map(|ended| ended.output).unwrap_or_default();
    String::from_utf8_lossy(&output).into_owned()
}

/// A tool or setting, its state, and the command that fixes it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Fact {
    pub(super) name: String,
    /// Version or state, for people.
    pub(super) state: String,
    /// Command that fixes it; null if nothing is missing.
    pub(super) fix: Option<String>,
}

/// Returns tools that other commands use, and the debug symbols of the C library.
pub(super) fn tools() -> Vec<Fact> {
    let perf = "linux-perf (Debian), linux-tools (Ubuntu) or perf: branch records, counters";
    let mut facts = vec![tool("perf", perf), cycles(sediment_record::counts_cycles()), valgrind()];
    facts.extend(symbols_of_libc());
    facts
}

/// Returns the event that perf-stacks samples.
fn cycles(counted: bool) -> Fact {
    let state = if counted {
        "counted; perf-stacks samples by cycles"
    } else {
        "not counted; perf-stacks samples by the clock"
    };
    Fact { name: "cycles".to_owned(), state: state.to_owned(), fix: None }
}

pub(super) fn valgrind() -> Fact {
    tool("valgrind", "valgrind: exact calls, simulated misses")
}

/// Returns a tool with its version, or the package that contains it and its purpose.
fn tool(name: &str, package: &str) -> Fact {
    let version = first_line(&ask(Path::new(name), &["--version"]));
    let number = version.split_whitespace().find_map(|word| {
        let number = word.trim_start_matches(|first: char| !first.is_ascii_digit());
        (!number.is_empty()).then(|| number.to_owned())
    });
    let fix = version.is_empty().then(|| format!("install the package {package}"));
    let state = if version.is_empty() { "missing".to_owned() } else { number.unwrap_or(version) };
    Fact { name: name.to_owned(), state, fix }
}

/// Returns debug symbols of the C library that this program uses.
fn symbols_of_libc() -> Option<Fact> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_libc = |path: &&str| files::base_name(Path::new(path)).starts_with("libc.");
    let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(is_libc)?;
    let binary = inputs::read_binary(Path::new(path)).ok()?;
    let name = "libc symbols".to_owned();
    if binary.symbols_from != SymbolSource::DynamicSymbols {
        return Some(Fact { name, state: "yes".to_owned(), fix: None });
    }
    let os_release = std::fs::read_to_string("/etc/os-release").ok();
    let owner = packages::owner(Path::new(path), None);
    let build_id = binary.build_id.as_deref();
    let policy = packages::apt_policy(&owner, None);
    let symbols = packages::debug_symbols(os_release.as_deref(), owner.as_ref(), path, build_id, &policy);
    Some(Fact { name, state: "exported only".to_owned(), fix: Some(symbols.command) })
}

/// Page sizes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PageSizes {
    #[serde(rename = "page_bytes")]
    pub(super) page: u64,
    /// Null if the kernel has no transparent huge pages.
    #[serde(rename = "huge_page_bytes")]
    pub(super) huge: Option<u64>,
    /// When transparent huge pages are used: `always`, `madvise` or `never`.
    #[serde(rename = "transparent_huge_pages")]
    pub(super) transparent: Option<String>,
    /// Command that allows huge pages; null if none is needed.
    pub(super) fix: Option<&'static str>,
}

pub(super) fn memory() -> PageSizes {
    const OF_KERNEL: &str = "/sys/kernel/mm/transparent_hugepage";
    let read = |name: &str| std::fs::read_to_string(format!("{OF_KERNEL}/{name}")).ok();
    let huge = read("hpage_pmd_size").and_then(|text| text.trim().parse().ok());
    let chosen = |text: String| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned());
    let transparent = read("enabled").and_then(chosen);
    let is_never = transparent.as_deref() == Some("never");
    let fix = is_never.then_some("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
    PageSizes { page: page_size(), huge, transparent, fix }
}

/// Returns the kernel's page size.
fn page_size() -> u64 {
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| size.try_into().ok()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linkers_have_short_names() {
        let rows = [
            ("GNU ld (GNU Binutils for Debian) 2.40", "GNU ld 2.40"),
            ("GNU gold (GNU Binutils for Debian 2.40) 1.16", "GNU gold 1.16"),
            ("Debian LLD 19.1.7 (compatible with GNU linkers)", "LLD 19.1.7"),
            ("mold 2.42.0 (compatible with GNU ld)", "mold 2.42.0"),
        ];
        for (version, expected) in rows {
            assert_eq!(short(version), expected);
        }
    }
}
