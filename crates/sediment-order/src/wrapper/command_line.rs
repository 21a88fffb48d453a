// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses a linker's command line as far as an order needs it: output, inputs and options.
//!
//! It knows the common options of GNU ld, gold and lld ("Command-line Options" in the manual of GNU ld). One-letter
//! options may have their value in the same word (`-ofile`); long ones begin with one or two dashes, and have their
//! value after `=` or in the next word. An unknown option is assumed to have no value: if it has one, the value is read
//! as an input that does not exist, which does no harm.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A file to be linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkInput {
    /// A path.
    Path(OsString),
    /// `-lNAME`: to be searched in the folders of `-L`.
    Library(OsString),
}

/// Parsed command line of a linker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkLine {
    /// `-o`.
    pub output: Option<OsString>,
    /// `-soname`, `-h`.
    pub soname: Option<String>,
    /// `-m`: the target, as the name of GNU ld's emulation.
    pub emulation: Option<String>,
    /// `-r`: objects are linked to one object.
    pub relocatable: bool,
    /// `-shared`.
    pub shared: bool,
    /// `-static` or `-Bstatic` anywhere: if a library exists as an archive and as a shared library, the archive is
    /// used.
    pub prefers_archives: bool,
    /// Inputs of the link, in order.
    pub inputs: Vec<LinkInput>,
    /// Indices of inputs whose archives are linked completely (`--whole-archive`).
    pub whole: BTreeSet<usize>,
    /// Symbols that are needed independently of the inputs (`-u`, `-e`).
    pub required: Vec<OsString>,
    /// `-L`, in order.
    pub search: Vec<OsString>,
    /// The compiler's plugin for link-time optimisation, as drivers always pass it.
    pub plugin: Option<OsString>,
    /// Option with which the build itself sets an order of functions.
    pub own_order: Option<String>,
    /// `-T`: linker scripts, in order.
    pub scripts: Vec<OsString>,
    /// Option with which the linker handles single sections or objects: inputs must not be combined before the link.
    pub looks_at_sections: Option<String>,
    /// True if the linker is only asked for information: `--version`, `--help` and similar, whatever the other words
    /// are, or `-v` without inputs.
    pub question: bool,
    /// Values of options, each of which may be a file.
    pub values: Vec<OsString>,
    /// Reason why words are missing: a response file was not read.
    pub incomplete: Option<IncompleteLine>,
    /// Whether archives are linked completely after the words so far, and before each `--push-state`.
    is_whole: bool,
    pushed: Vec<bool>,
}

/// Reason why a command line is not completely known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncompleteLine {
    /// Response files exceed `LONGEST_RESPONSE`, [`MOST_RESPONSE_FILES`] or `MOST_WORDS`.
    TooLong,
    /// This response file can be read only once, so the linker must read it.
    ReadOnce(OsString),
}

/// Result of reading a response file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Its content.
    Text(Vec<u8>),
    /// The file does not exist: linkers then treat the word itself as an input.
    Missing,
    /// A pipe or a device.
    ReadOnce,
    /// It is longer than the limit.
    TooLong,
}

/// Largest total size of all response files of a command line, in bytes.
pub(crate) const LONGEST_RESPONSE: u64 = 64 << 20;

/// Largest number of response files of a command line, including nested ones; GNU ld's limit.
pub const MOST_RESPONSE_FILES: usize = 2000;

/// Largest number of words of a command line.
pub(crate) const MOST_WORDS: usize = 1 << 20;

impl LinkLine {
    /// Returns the base name of the output; linkers write `a.out` by default.
    #[must_use]
    pub fn output_name(&self) -> String {
        let output = self.output.as_deref().unwrap_or(OsStr::new("a.out"));
        let path = std::path::Path::new(output);
        path.file_name().unwrap_or(output).to_string_lossy().into_owned()
    }
}

/// Options of several letters with a value, without their dashes.
const WITH_VALUE: &[&str] = &[
    "architecture",
    "audit",
    "auxiliary",
    "chroot",
    "color-diagnostics",
    "compress-debug-sections",
    "config",
    "default-symver-file",
    "defsym",
    "depaudit",
    "dependency-file",
    "dynamic-linker",
    "dynamic-list",
    "entry",
    "exclude-libs",
    "export-dynamic-symbol",
    "export-dynamic-symbol-list",
    "filter",
    "fini",
    "format",
    "fuse-ld",
    "hash-style",
    "icf-iterations",
    "init",
    "just-symbols",
    "library",
    "library-path",
    "log-file",
    "lto-O",
    "Map",
    "mllvm",
    "oformat",
    "optimize",
    "out-implib",
    "output",
    "plugin",
    "plugin-opt",
    "print-symbol-order",
    "rpath",
    "rpath-link",
    "remap-inputs",
    "remap-inputs-file",
    "retain-symbols-file",
    "script",
    "section-start",
    "soname",
    "spare-dynamic-tags",
    "sysroot",
    "task-link",
    "Tbss",
    "Tdata",
    "Ttext",
    "Ttext-segment",
    "Trodata-segment",
    "Tldata-segment",
    "undefined",
    "unresolved-symbols",
    "version-script",
    "wrap",
    "y",
    "dT",
    "default-script",
    "threads",
    "reproduce",
    "why-extract",
    "image-base",
    "section-ordering-file",
    "symbol-ordering-file",
    "call-graph-ordering-file",
    "call-graph-profile-sort",
    "irpgo-profile",
    "bp-startup-sort",
    "section-order",
    "assert",
    "gpsize",
    "ifunc-resolver",
    "trace-symbol",
    "require-defined",
    "emit-relocs-file",
    "orphan-handling",
    "max-page-size",
    "common-page-size",
    "thinlto-cache-dir",
    "thinlto-jobs",
];

/// Options that set an order of functions, without their dashes.
const ORDERS: &[&str] = &[
    "section-ordering-file",
    "symbol-ordering-file",
    "call-graph-ordering-file",
    "bp-startup-sort",
    "shuffle-sections",
    "section-order",
];

/// Options that handle single sections or objects, without their dashes.
const LOOK_AT_SECTIONS: &[&str] = &[
    "gc-sections",
    "start-lib",
    "emit-relocs",
    "q",
    "format",
    "b",
    "shuffle-sections",
    "unique",
    "reproduce",
];

/// Letters of options with a value, in the same word or the next.
const LETTERS: &[u8] = b"oLlmhTuyYzeAbcfFGIPRO";

/// Parses a command line without the program's own name. `response` returns the content of a file given as `@file`, if
/// it is at most this many bytes long.
#[must_use]
pub fn read(arguments: &[OsString], response: &dyn Fn(&OsStr, u64) -> Response) -> LinkLine {
    let (words, incomplete) = expand(arguments, response);
    let mut line = LinkLine { incomplete, ..LinkLine::default() };
    let mut asks = false;
    let mut rest = words.into_iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        let Some(option) = bytes.strip_prefix(b"-").filter(|option| !option.is_empty()) else {
            line.add_input(LinkInput::Path(word));
            continue;
        };
        let long = option.strip_prefix(b"-").unwrap_or(option);
        let (name, attached) = match long.iter().position(|b| *b == b'=') {
            Some(at) => (&long[..at], Some(long[at + 1..].to_vec())),
            None => (long, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        if let Some(order) = ORDERS.iter().find(|order| **order == name) {
            line.own_order = Some(format!("--{order}"));
        }
        let icf = name == "icf" && attached.as_deref() != Some(b"none");
        if icf || LOOK_AT_SECTIONS.contains(&name.as_str()) {
            line.looks_at_sections = Some(format!("--{name}"));
        } else if matches!(name.as_str(), "no-gc-sections") {
            line.looks_at_sections.take_if(|option| option == "--gc-sections");
        }
        if WITH_VALUE.contains(&name.as_str()) || matches!(name.as_str(), "plugin-opt" | "soname") {
            let value = match attached {
                Some(value) => OsString::from_vec(value),
                // lld accepts these values only after `=`.
                None if matches!(
                    name.as_str(),
                    "color-diagnostics" | "threads" | "call-graph-profile-sort"
                ) =>
                {
                    continue;
                }
                None => rest.next().unwrap_or_default(),
            };
            line.take(&name, value);
            continue;
        }
        match name.as_str() {
            "r" | "relocatable" | "i" | "Ur" => line.relocatable = true,
            "shared" | "Bshareable" => line.shared = true,
            "static" | "Bstatic" | "dn" | "non_shared" => line.prefers_archives = true,
            "version" | "help" | "print-output-format" | "target-help" | "print-sysroot" => {
                line.question = true
            }
            // Linkers print their version, and link if there is something to link.
            "v" | "V" => asks = true,
            "verbose" => {}
            "whole-archive" => line.is_whole = true,
            "no-whole-archive" => line.is_whole = false,
            "push-state" => line.pushed.push(line.is_whole),
            "pop-state" => line.is_whole = line.pushed.pop().unwrap_or(line.is_whole),
            _ if !bytes.starts_with(b"--") && LETTERS.contains(&option[0]) && !is_word(option) => {
                let (letter, value) = option.split_at(1);
                let value = match value {
                    // -O and -z have optional and further meanings: the value of -O is always in the same word.
                    b"" if letter != b"O" => rest.next().unwrap_or_default(),
                    value => OsString::from_vec(value.to_vec()),
                };
                line.take(&String::from_utf8_lossy(letter), value);
            }
            _ => line.values.extend(attached.map(OsString::from_vec)),
        }
    }
    line.question |= asks && line.inputs.is_empty();
    line
}

impl LinkLine {
    fn add_input(&mut self, input: LinkInput) {
        if self.is_whole {
            self.whole.insert(self.inputs.len());
        }
        self.inputs.push(input);
    }

    fn take(&mut self, option: &str, value: OsString) {
        self.values.push(value.clone());
        match option {
            "o" | "output" => self.output = Some(value),
            "h" | "soname" => self.soname = Some(value.to_string_lossy().into_owned()),
            "m" => self.emulation = Some(value.to_string_lossy().into_owned()),
            "L" | "library-path" => self.search.push(value),
            "l" | "library" => self.add_input(LinkInput::Library(value)),
            "plugin" => self.plugin = Some(value),
            "T" | "script" => self.scripts.push(value),
            "u" | "undefined" | "require-defined" | "e" | "entry" => self.required.push(value),
            _ => {}
        }
    }
}

/// True for long options that may have one dash and begin with the letter of an option with a value.
fn is_word(option: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "eh-frame-hdr",
        "export-dynamic",
        "error-",
        "emit-relocs",
        "embedded-relocs",
        "end-group",
        "end-lib",
        "enable-",
        "fatal-warnings",
        "fix-",
        "force-",
        "fuse-",
        "gc-",
        "icf",
        "lto-",
        "merge-",
        "mmap",
        "oformat",
        "omagic",
        "print-",
        "pie",
        "pic-",
        "pop-state",
        "push-state",
        "Bsymbolic",
        "build-id",
        "auto",
        "as-needed",
        "accept-",
        "allow-",
        "add-",
        "copy-",
        "check-",
        "cref",
        "be8",
        "relax",
        "long-plt",
        "Ttext",
        "Tdata",
        "Tbss",
        "be32",
        "call_shared",
        "callgraph",
        "color-",
        "compress-",
        "cmse-",
        "hash-",
        "apply-",
        "android-",
        "undefined-version",
        "unique",
        "use-",
        "zero-",
        "your",
        "pack-dyn",
        "optimize",
        "no-",
        "map-whole",
        "out-",
    ];
    WORDS.iter().any(|word| option.starts_with(word.as_bytes()))
}

/// Replaces each `@file` by its words, recursively. Also returns the reason why words are missing.
fn expand(
    arguments: &[OsString],
    response: &dyn Fn(&OsStr, u64) -> Response,
) -> (Vec<OsString>, Option<IncompleteLine>) {
    let mut words = Vec::with_capacity(arguments.len());
    let mut incomplete = None;
    // Remaining words, the next one last.
    let mut rest: Vec<OsString> = arguments.iter().rev().cloned().collect();
    let (mut files, mut bytes) = (0, LONGEST_RESPONSE);
    while let Some(word) = rest.pop() {
        let Some(name) = word.as_bytes().strip_prefix(b"@").filter(|name| !name.is_empty()) else {
            words.push(word);
            continue;
        };
        if files == MOST_RESPONSE_FILES || words.len() + rest.len() > MOST_WORDS {
            incomplete = Some(IncompleteLine::TooLong);
            break;
        }
        match response(OsStr::from_bytes(name), bytes) {
            Response::Text(text) => {
                files += 1;
                bytes = bytes.saturating_sub(text.len() as u64);
                let most = MOST_WORDS.saturating_sub(words.len() + rest.len());
                let Some(named) = split(&text, most) else {
                    incomplete = Some(IncompleteLine::TooLong);
                    break;
                };
                rest.extend(named.into_iter().rev());
            }
            Response::Missing => words.push(word),
            Response::ReadOnce => {
                incomplete = Some(IncompleteLine::ReadOnce(OsStr::from_bytes(name).to_owned()))
            }
            Response::TooLong => {
                incomplete = Some(IncompleteLine::TooLong);
                break;
            }
        }
    }
    (words, incomplete)
}

/// Splits a response file into words: blanks separate them, both kinds of quotes group them, and a backslash makes the
/// next character literal ("@file" in the manual of GNU ld). `None` if there are more than `most`.
fn split(content: &[u8], most: usize) -> Option<Vec<OsString>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    let mut bytes = content.iter().copied();
    while let Some(byte) = bytes.next() {
        if words.len() > most {
            return None;
        }
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (byte, Some(open)) if byte == open => quote = None,
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take().map(OsString::from_vec)),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    (words.len() <= most).then_some(words)
}
