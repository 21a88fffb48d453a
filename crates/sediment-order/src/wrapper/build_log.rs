// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the links in the log of a build, to compare them with the links that the wrapper saw.
//!
//! It reads the lines in which make, ninja, libtool and similar tools print their commands: words in shell syntax, and
//! commands separated by `&&`, `||`, `;` and `|`. A command links if it runs a compiler or linker, has an output, and
//! does not stop earlier (`-c`, `-S`, `-E`, `-r`). GNU make's "Entering directory" lines, and `cd`, give the folder.

/// A link in a build's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildLogLink {
    /// Line of the log, from 1.
    pub line: u64,
    /// The program that links, as in the command.
    pub program: String,
    /// Its output: an absolute path if the log has the folder.
    pub output: String,
    /// Folders of `-B`, in which the compiler searches its programs.
    pub search: Vec<String>,
    /// True if the command is a linker, not a compiler.
    pub by_linker: bool,
    /// True if the output is a shared library.
    pub shared: bool,
}

/// Returns the links in a log, in order.
#[must_use]
pub fn links(text: &str) -> Vec<BuildLogLink> {
    let mut folders: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some(rest) = line.split_once(": Entering directory ").map(|(_, rest)| rest) {
            folders.push(rest.trim_matches(['\'', '`', '"']).to_owned());
            continue;
        }
        if line.contains(": Leaving directory ") {
            folders.pop();
            continue;
        }
        let mut folder = folders.last().cloned();
        for command in commands(line) {
            if let [cd, target, ..] = command.as_slice() {
                if cd == "cd" {
                    folder = Some(joined(folder.as_deref(), target));
                    continue;
                }
            }
            found.extend(link(&command, folder.as_deref(), number));
        }
    }
    found
}

/// Returns the link that a command makes, if it makes one.
fn link(command: &[String], folder: Option<&str>, line: u64) -> Option<BuildLogLink> {
    let at = command.iter().take(12).position(|word| is_compiler(word) || is_linker(word))?;
    // Words before the compiler only start it: settings, libtool, ccache, env.
    let starts = |word: &String| {
        word.contains('=') || word.starts_with('-') || word.ends_with(':') || {
            let base = base(word);
            matches!(
                base,
                "libtool"
                    | "ccache"
                    | "distcc"
                    | "env"
                    | "time"
                    | "sh"
                    | "bash"
                    | "link"
                    | "nice"
                    | "sccache"
            )
        }
    };
    if !command[..at].iter().all(starts) {
        return None;
    }
    let (program, arguments) = command[at..].split_first()?;
    let mut link = BuildLogLink {
        line,
        program: program.clone(),
        output: String::new(),
        search: Vec::new(),
        by_linker: is_linker(program),
        shared: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-c" | "-S" | "-E" | "-r" | "-M" | "-MM" | "-fsyntax-only" | "--version" | "-v" | "-Wl,-r"
            | "-Wl,--version" => return None,
            "-o" => link.output.clone_from(words.next()?),
            "-B" => link.search.extend(words.next().cloned()),
            "-shared" | "--shared" => link.shared = true,
            "-MF" | "-MT" | "-MQ" | "-x" | "-I" | "-L" | "-isystem" | "-include" => {
                words.next();
            }
            other => {
                link.search.extend(other.strip_prefix("-B").map(str::to_owned));
                if let Some(output) = other.strip_prefix("-o").filter(|_| link.output.is_empty()) {
                    link.output = output.to_owned();
                }
            }
        }
    }
    let name = base(&link.output);
    let is_test =
        name.starts_with("conftest") || name.starts_with("cmTC_") || link.output.contains("meson-private");
    if name.is_empty()
        || is_test
        || name.ends_with(".o")
        || name.ends_with(".lo")
        || name.ends_with(".la")
        || link.output.starts_with("/dev/")
    {
        return None;
    }
    link.output = joined(folder, &link.output);
    Some(link)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True for `gcc`, `x86_64-linux-gnu-g++-12`, `clang-19`, `c++`.
fn is_compiler(word: &str) -> bool {
    let name = base(word);
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-');
    let last = unnumbered.rsplit('-').next().unwrap_or_default();
    matches!(last, "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "gfortran")
}

fn is_linker(word: &str) -> bool {
    let name = base(word);
    let last = name.rsplit('-').next().unwrap_or_default();
    name.starts_with("ld.lld") || matches!(last, "ld" | "ld.bfd" | "ld.gold" | "ld.lld")
}

/// Returns a path relative to a folder, without `.` and `..`.
fn joined(folder: Option<&str>, path: &str) -> String {
    let whole = match folder {
        Some(folder) if !path.starts_with('/') => format!("{folder}/{path}"),
        _ => path.to_owned(),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
            }
            "" if !parts.is_empty() => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Splits a line into commands, each as words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() || matches!(c, ';' | '&' | '|') => {
                if let (Some(done), Some(command)) = (word.take(), commands.last_mut()) {
                    command.push(done);
                }
                if !c.is_whitespace() && commands.last().is_some_and(|command| !command.is_empty()) {
                    commands.push(Vec::new());
                }
            }
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if let (Some(done), Some(command)) = (word, commands.last_mut()) {
        command.push(done);
    }
    commands
}
