// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the caller of the wrapper, and the folders in which it looks for its linker.
//!
//! GCC passes its search path to its programs in COMPILER_PATH, and also passes COLLECT_GCC. clang searches the folders
//! of `-B`, COMPILER_PATH, then its own, and passes nothing on. Any other caller (make, a shell) takes the first on
//! PATH.

use super::called_as;
use crate::files;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns a variable of the environment, if it is not empty.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the folders of a list such as PATH, each once; an empty entry is the current folder.
pub(super) fn folders(list: &OsStr) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths(list) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        // `Path` equality ignores a trailing slash.
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The caller of the wrapper. Its compiler family decides where to look for linkers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WrapperCaller {
    Gcc,
    /// With the folders of its `-B`, and the compiler's own folder.
    Clang(Vec<PathBuf>),
    Other,
}

impl WrapperCaller {
    pub(super) fn find() -> Self {
        // Limit of nested wrappers, each waiting for the next.
        const MOST_WRAPPERS: usize = 8;
        if variable("COLLECT_GCC").is_some() {
            return Self::Gcc;
        }
        let mut process = std::os::unix::process::parent_id();
        for _ in 0..MOST_WRAPPERS {
            let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { break };
            let name = files::base_name(&program);
            match compiler(&name) {
                Some(CallingCompiler::Gcc) => return Self::Gcc,
                Some(CallingCompiler::Clang) => {
                    let mut folders = prefixes(&words_of(process));
                    folders.extend(self::folders(&variable("COMPILER_PATH").unwrap_or_default()));
                    folders.extend(program.parent().map(Path::to_path_buf));
                    return Self::Clang(folders);
                }
                None => {}
            }
            // If the parent is another wrapper, its caller counts.
            if name != env!("CARGO_BIN_NAME") && called_as(&[name.into()]).is_none() {
                break;
            }
            let Some(caller) = called_as(&words_of(process)).and_then(|_| parent(process)) else { break };
            process = caller;
        }
        Self::Other
    }

    /// Folders searched before PATH.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        match self {
            Self::Gcc => folders(&variable("COMPILER_PATH").unwrap_or_default()),
            Self::Clang(folders) => folders.clone(),
            Self::Other => Vec::new(),
        }
    }
}

/// True for the name of a compiler driver, which a build calls to compile and to link.
pub(crate) fn is_compiler(name: &str) -> bool {
    name != "collect2" && compiler(name).is_some()
}

#[derive(Debug, PartialEq, Eq)]
enum CallingCompiler {
    Gcc,
    Clang,
}

/// Finds the family of a compiler driver by its file name, which may have a target prefix and a version suffix.
fn compiler(name: &str) -> Option<CallingCompiler> {
    const GCC: &[&str] = &[
        "gcc", "g++", "cc", "c++", "c89", "c99", "gfortran", "gdc", "gccgo", "gm2", "gcobol", "xgcc", "xg++",
        "collect2",
    ];
    const CLANG: &[&str] = &[
        "clang",
        "clang++",
        "flang",
        "icx",
        "icpx",
        "ifx",
        "dpcpp",
        "amdclang",
        "amdclang++",
        "amdflang",
        "armclang",
        "armclang++",
        "armflang",
    ];
    let is_release = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let mut parts: Vec<&str> = name.split('-').collect();
    if parts.len() > 1 && parts.last().is_some_and(|part| is_release(part)) {
        parts.pop();
    }
    // clang-cl, flang-new
    if parts.len() > 1 && parts.last().is_some_and(|part| matches!(*part, "cl" | "new")) {
        parts.pop();
    }
    let own = parts.last()?;
    if GCC.contains(own) {
        Some(CallingCompiler::Gcc)
    } else {
        CLANG.contains(own).then_some(CallingCompiler::Clang)
    }
}

/// Returns the folders of `-B` on a compiler's command line.
fn prefixes(words: &[OsString]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let value = match word.as_bytes() {
            b"-B" | b"--prefix" => words.next().map(|next| next.as_bytes()),
            bytes => bytes.strip_prefix(b"-B").or_else(|| bytes.strip_prefix(b"--prefix=")),
        };
        found.extend(value.map(|value| PathBuf::from(OsStr::from_bytes(value))));
    }
    found
}

/// Returns the command line of a process, with as few system calls as possible.
fn words_of(process: u32) -> Vec<OsString> {
    let mut bytes = vec![0; 32 << 10];
    let mut length = 0;
    if let Ok(mut file) = File::open(format!("/proc/{process}/cmdline")) {
        while let Ok(more @ 1..) = file.read(&mut bytes[length..]) {
            length += more;
            if length < bytes.len() {
                break;
            }
            bytes.resize(2 * length, 0);
        }
    }
    bytes.truncate(length);
    let mut words: Vec<OsString> =
        bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    words.pop();
    words
}

/// Returns the process that started another.
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat);
    // The name of the program may contain any characters.
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_known_by_their_names() {
        let rows: &[(&str, Option<CallingCompiler>)] = &[
            ("gcc", Some(CallingCompiler::Gcc)),
            ("cc", Some(CallingCompiler::Gcc)),
            ("x86_64-linux-gnu-gcc-12", Some(CallingCompiler::Gcc)),
            ("aarch64-linux-gnu-g++", Some(CallingCompiler::Gcc)),
            ("c++-14.2.0", Some(CallingCompiler::Gcc)),
            ("arm-none-eabi-gfortran-13", Some(CallingCompiler::Gcc)),
            ("collect2", Some(CallingCompiler::Gcc)),
            ("clang", Some(CallingCompiler::Clang)),
            ("clang-19", Some(CallingCompiler::Clang)),
            ("clang++-19", Some(CallingCompiler::Clang)),
            ("clang-cl", Some(CallingCompiler::Clang)),
            ("riscv64-unknown-elf-clang", Some(CallingCompiler::Clang)),
            ("flang-new", Some(CallingCompiler::Clang)),
            ("make", None),
            ("bash", None),
            ("dash", None),
            ("python3.11", None),
            ("timeout", None),
            ("ninja", None),
            ("rustc", None),
            ("gcc-wrapper", None),
            ("12", None),
            ("-12", None),
            ("", None),
        ];
        for (name, expected) in rows {
            assert_eq!(compiler(name), *expected, "{name}");
        }
    }

    #[test]
    fn folders_that_a_compiler_was_given() {
        let words =
            ["clang", "-B", "/a", "-B/b", "x.o", "--prefix=/c", "--prefix", "/d", "-B"].map(OsString::from);
        assert_eq!(prefixes(&words), ["/a", "/b", "/c", "/d"].map(PathBuf::from));
    }
}
