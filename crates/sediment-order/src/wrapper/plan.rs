// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plan of the linker wrapper: links that pass through unchanged, the dialect that the real linker reads, and arguments
//! that it needs in addition to the order. Has no side effects; the program itself calls the linker, finds files and
//! starts processes.

use super::command_line::{IncompleteLine, LinkLine};
use crate::link::{self, LINKERS, Linker, gnu_ld_script};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Reason to link as without sediment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassThrough {
    /// Nothing is linked: the linker is asked for information.
    Question,
    /// The output is an object: an order would combine its sections, and the final link could no longer order them.
    Relocatable,
    /// A configure script runs a test.
    Test,
    /// The build sets an order of its own, with this option.
    OwnOrder(String),
    /// The inputs of the link are unknown.
    Incomplete(IncompleteLine),
}

impl PassThrough {
    /// Describes the reason in a few words.
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

/// Returns the reason to pass a link through, independently of the profiles; `folder` is the linker's working
/// directory.
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

/// True if a linker script is itself an order of functions: a script in addition to the linker's own, as `order` writes
/// it for every GNU ld, not a script that replaces the linker's own.
#[must_use]
pub fn is_order(script: &str) -> bool {
    let inserts = script.split_whitespace().any(|word| word == "INSERT");
    inserts && link::read(script).is_ok_and(|(linker, _)| linker.name == gnu_ld_script::LINKER.name)
}

/// True for names that configure scripts use in tests: autoconf's `conftest`, CMake's `cmTC_1a2b3` and folders, Meson's
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

/// Returns the dialect that a linker reads, from the first line of its `--version` and from its `--help`.
///
/// # Errors
/// If the linker cannot order functions; the error explains it in a sentence.
pub fn dialect(version: &str, help: &str) -> Result<&'static Linker, String> {
    LINKERS.iter().find(|linker| (linker.is_read_by)(version, help)).ok_or_else(|| {
        let name = version.split_whitespace().next().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("this linker cannot order functions{name}; linking without an order")
    })
}

/// True if a linker, identified by the first line of its `--version`, keeps the order of code in its inputs. Then one
/// object into which GNU ld has combined all others in order has the effect of an order. Tested with mold and wild.
#[must_use]
pub fn keeps_order_of_objects(version: &str) -> bool {
    ["mold ", "Wild "].iter().any(|name| version.starts_with(name))
}

/// Returns the positions in a linker's arguments of the objects that can be combined before the link.
///
/// Objects on the command line are always linked completely and in order, so a combined object at the position of the
/// first is equivalent. The start and end of a program (`crt1.o`, `crti.o`, …) stay separate.
///
/// # Errors
/// If the result may differ: with options that handle single sections or objects, and with objects that are compiled
/// during the link (`complete`: the sections of all inputs are known). The error is a few words.
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
    // A word that looks like an object but is the value of an option would be mistaken for one.
    if positions.is_empty() || positions.len() != inputs.len() {
        return Err("its objects".to_owned());
    }
    Ok(positions)
}

/// Returns the arguments with which GNU ld combines objects into one in the order of a script; everything except the
/// listed functions stays as it is.
#[must_use]
pub fn join_arguments(script: &OsStr, output: &OsStr, objects: &[OsString]) -> Vec<OsString> {
    // Duplicate section groups are resolved here, because their members are then in a common section.
    let mut arguments: Vec<OsString> = ["-r", "--force-group-allocation", "-T"].map(OsString::from).to_vec();
    arguments.extend([script.to_owned(), "-o".into(), output.to_owned()]);
    arguments.extend_from_slice(objects);
    arguments
}

/// Returns the arguments that pass an ordering file to the linker itself, not to a compiler.
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

/// Adds function sections to the options of the compiler that GCC's link-time optimisation runs (COLLECT_GCC_OPTIONS);
/// `None` if they are there already. Without them its objects have one section for all functions, and an order has no
/// effect.
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

/// Arguments for LLVM's plugin in GNU ld and gold that give each function its own section; lld does that by default.
#[must_use]
pub fn plugin_arguments(line: &LinkLine) -> Vec<OsString> {
    let is_llvm = line.plugin.as_ref().is_some_and(|plugin| {
        let name = std::path::Path::new(plugin).file_name().unwrap_or_default().as_bytes().to_vec();
        name.starts_with(b"LLVMgold")
    });
    if is_llvm { vec!["-plugin-opt=-function-sections=1".into()] } else { Vec::new() }
}

/// Returns the architecture for GNU ld's emulation, as `uname -m` spells it, and the names that Debian, Fedora and
/// others use for the target.
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
