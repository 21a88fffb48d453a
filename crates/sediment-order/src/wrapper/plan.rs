// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan of the linker wrapper: which links pass through unchanged, which dialect the real linker reads, and which
//! arguments it needs besides the order. By values alone; the program calls the linker, finds files and starts
//! processes.

use super::command_line::{IncompleteLine, LinkLine};
use crate::link::{self, LINKERS, Linker, gnu_ld_script};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Why a link is done as it would be without sediment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassThrough {
    /// Nothing is linked: the linker is asked about itself.
    Question,
    /// The output is an object: an order would take its sections together, and the final link could not order them any more.
    Relocatable,
    /// A configure script tries something out.
    Test,
    /// The build asks for an order of its own, by this option.
    OwnOrder(String),
    /// The inputs of the link are unknown.
    Incomplete(IncompleteLine),
}

impl PassThrough {
    /// The reason in a few words.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Question => "nothing to link".to_owned(),
            Self::Relocatable => "output is an object (-r): order the final link".to_owned(),
            Self::Test => "test of a configure script".to_owned(),
            Self::OwnOrder(option) => format!("the build sets its own order ({option})"),
            Self::Incomplete(IncompleteLine::TooLong) => {
                "the command line with its response files is too long".to_owned()
            }
            Self::Incomplete(IncompleteLine::ReadOnce(path)) => {
                let path = sediment_core::escape::terminal(&path.to_string_lossy());
                format!("{path} is a pipe or device, so only the linker can read it")
            }
        }
    }
}

/// Reason to pass a link through whatever the profiles say; `folder` is where the linker runs.
#[must_use]
pub fn left_alone(line: &LinkLine, folder: &OsStr) -> Option<PassThrough> {
    if line.question {
        Some(PassThrough::Question)
    } else if let Some(incomplete) = &line.incomplete {
        Some(PassThrough::Incomplete(incomplete.clone()))
    } else if line.inputs.is_empty() {
        Some(PassThrough::Question)
    } else if line.relocatable {
        Some(PassThrough::Relocatable)
    } else if is_test(line, folder) {
        Some(PassThrough::Test)
    } else {
        line.own_order.clone().map(PassThrough::OwnOrder)
    }
}

/// True if a linker script is itself an order of functions: one that lists them beside the linker's own script, as
/// `order` writes them for every GNU ld; not a script that replaces the linker's own.
#[must_use]
pub fn is_order(script: &str) -> bool {
    let inserts = script.split_whitespace().any(|word| word == "INSERT");
    inserts && link::read(script).is_ok_and(|(linker, _)| linker.name == gnu_ld_script::LINKER.name)
}

/// Names that configure scripts give to what they try out: autoconf's `conftest`, CMake's `cmTC_1a2b3` and folders, Meson's
/// private folder.
fn is_test(line: &LinkLine, folder: &OsStr) -> bool {
    let name = line.output_name();
    let stem = name.split('.').next().unwrap_or_default();
    let output = line.output.as_deref().unwrap_or_default().as_bytes();
    let folders = ["CMakeFiles/CMakeTmp", "CMakeFiles/CMakeScratch", "/CompilerId", "meson-private"];
    let within = |path: &[u8]| {
        let path = String::from_utf8_lossy(path);
        folders.iter().any(|folder| path.contains(folder))
    };
    let first_input = line.inputs.iter().any(|input| {
        matches!(input, super::command_line::LinkInput::Path(path) if path.as_bytes().starts_with(b"conftest"))
    });
    matches!(stem, "conftest" | "libconftest")
        || name.starts_with("cmTC_")
        || first_input
        || within(output)
        || within(folder.as_bytes())
}

/// The dialect that a linker reads, from the first line that it prints for `--version`, and what it prints for `--help`.
///
/// # Errors
/// With a sentence where it cannot order functions.
pub fn dialect(version: &str, help: &str) -> Result<&'static Linker, String> {
    LINKERS.iter().find(|linker| (linker.is_read_by)(version, help)).ok_or_else(|| {
        let name = version.split_whitespace().next().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("this linker cannot order functions{name}; linking without an order")
    })
}

/// True if a linker, by the first line of its `--version`, keeps the order of code in its inputs, so that one object
/// which GNU ld made of all in order has the effect of an order. Tested with mold and wild.
#[must_use]
pub fn keeps_order_of_objects(version: &str) -> bool {
    ["mold ", "Wild "].iter().any(|name| version.starts_with(name))
}

/// The positions, among a linker's arguments, of the objects that can be made into one before they are linked.
///
/// Objects on the command line are always linked, whole and in their order, so that one at the position of the first
/// means the same; the start and end of a program (`crt1.o`, `crti.o`, …) stay separate.
///
/// # Errors
/// With a few words where that may mean another thing: options that look at single sections or objects, and objects that are compiled
/// while they are linked (`complete`: all inputs show their sections).
pub fn joinable(line: &LinkLine, arguments: &[OsString], complete: bool) -> Result<Vec<usize>, String> {
    if !complete {
        return Err("link-time optimisation".to_owned());
    }
    if let Some(option) = &line.looks_at_sections {
        return Err(option.clone());
    }
    if arguments.iter().any(|argument| argument.as_bytes().starts_with(b"@")) {
        return Err("a response file".to_owned());
    }
    let is_object = |path: &OsStr| {
        let name = path.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
        let ends = name.starts_with(b"crt") || name.ends_with(b"crt1.o");
        name.ends_with(b".o") && !ends
    };
    let inputs: Vec<&OsString> = line
        .inputs
        .iter()
        .filter_map(|input| match input {
            super::command_line::LinkInput::Path(path) if is_object(path) => Some(path),
            _ => None,
        })
        .collect();
    let positions: Vec<usize> =
        (0..arguments.len()).filter(|place| inputs.contains(&&arguments[*place])).collect();
    // A word that looks like an object and is none (the value of an option) would be taken for one.
    if positions.is_empty() || positions.len() != inputs.len() {
        return Err("its objects".to_owned());
    }
    Ok(positions)
}

/// The arguments by which GNU ld makes one object of several, in the order of a script: as they are, but for the functions listed.
#[must_use]
pub fn join_arguments(script: &OsStr, output: &OsStr, objects: &[OsString]) -> Vec<OsString> {
    // Groups of sections of which the linker keeps one are settled here, as their members lie in a common section then.
    let mut arguments: Vec<OsString> = ["-r", "--force-group-allocation", "-T"].map(OsString::from).to_vec();
    arguments.extend([script.to_owned(), "-o".into(), output.to_owned()]);
    arguments.extend_from_slice(objects);
    arguments
}

/// The arguments that hand an ordering file to the linker itself, not to a compiler.
#[must_use]
pub fn order_arguments(linker: &Linker, file: &OsStr) -> Vec<OsString> {
    let words =
        linker.arguments.split_whitespace().flat_map(|word| word.trim_start_matches("-Wl,").split(','));
    words.map(|word| if word == "FILE" { file.to_owned() } else { with_file(word, file) }).collect()
}

fn with_file(word: &str, file: &OsStr) -> OsString {
    let mut bytes = Vec::new();
    let mut parts = word.split("FILE");
    bytes.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        bytes.extend(file.as_bytes());
        bytes.extend(part.as_bytes());
    }
    OsString::from_vec(bytes)
}

/// The options of the compiler that GCC's link-time optimisation compiles with (COLLECT_GCC_OPTIONS), with function sections
/// among them; None where they are there. Without them its objects have one section for all functions, and no order shows.
#[must_use]
pub fn with_function_sections(options: &OsStr) -> Option<OsString> {
    const OPTION: &[u8] = b"'-ffunction-sections'";
    let there = options.as_bytes().windows(OPTION.len()).any(|window| window == OPTION);
    (!there).then(|| {
        let mut options = options.to_owned();
        options.push(" ");
        options.push(OsStr::from_bytes(OPTION));
        options
    })
}

/// Arguments for LLVM's plugin in GNU ld and gold that give each function a section; lld does so by itself.
#[must_use]
pub fn plugin_arguments(line: &LinkLine) -> Vec<OsString> {
    let is_llvm = line.plugin.as_ref().is_some_and(|plugin| {
        let name = std::path::Path::new(plugin).file_name().unwrap_or_default().as_bytes().to_vec();
        name.starts_with(b"LLVMgold")
    });
    if is_llvm { vec!["-plugin-opt=-function-sections=1".into()] } else { Vec::new() }
}

/// The names that Debian, Fedora and others give to what they link for, by GNU ld's name of its emulation; and the architecture as
/// `uname -m` spells it.
#[must_use]
pub fn targets(emulation: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match emulation {
        "elf_x86_64" => ("x86_64", &["x86_64-linux-gnu", "x86_64-redhat-linux", "x86_64-suse-linux"]),
        "elf_i386" => ("i686", &["i686-linux-gnu", "i386-linux-gnu"]),
        "elf32_x86_64" => ("x86_64", &["x86_64-linux-gnux32"]),
        "aarch64linux" | "aarch64elf" => ("aarch64", &["aarch64-linux-gnu"]),
        "armelf_linux_eabi" => ("arm", &["arm-linux-gnueabihf", "arm-linux-gnueabi", "arm-linux-gnu"]),
        "elf64_s390" => ("s390x", &["s390x-linux-gnu"]),
        "elf64lriscv" | "elf64lriscv_lp64" => ("riscv64", &["riscv64-linux-gnu"]),
        "elf64lppc" => ("powerpc64le", &["powerpc64le-linux-gnu", "ppc64le-linux-gnu"]),
        "elf64ppc" => ("powerpc64", &["powerpc64-linux-gnu", "ppc64-linux-gnu"]),
        "elf64loongarch" => ("loongarch64", &["loongarch64-linux-gnu"]),
        _ => return None,
    })
}
