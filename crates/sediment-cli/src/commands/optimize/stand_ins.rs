// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temporarily replaces programs by scripts that run them under valgrind, so that other programs of the same command
//! run normally. The program is renamed, in the folder of its script. [`recover`] restores it after a killed run.

use super::links::LinkedOutput;
use crate::files;
use sediment_core::binary::is_program;
use sediment_core::{Result, escape};
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Prefix of a program's name while a script replaces it.
const HIDDEN: &str = ".sediment-run-";
/// First lines of the script.
const HEAD: &str = "#!/bin/sh\n# sediment optimize measures this program.\n";

/// Programs replaced by scripts, which are restored when this is dropped.
pub(super) struct StandIns(Vec<PathBuf>);

impl StandIns {
    /// Replaces each program among the outputs by a script; `scratch` is a folder for the scripts. `limit` has the CPU
    /// time in seconds after which a process under valgrind ends and keeps its counts, and the time after which no
    /// further process is simulated.
    pub(super) fn replace(
        outputs: &[LinkedOutput],
        valgrind: &[OsString],
        limit: Option<u64>,
        scratch: &Path,
    ) -> Result<Self> {
        let mut stand_ins = Self(Vec::new());
        let quoted: Option<Vec<String>> =
            valgrind.iter().map(|word| escape::shell(&word.to_string_lossy())).collect();
        let Some(quoted) = quoted else { return Ok(stand_ins) };
        for path in outputs.iter().flat_map(LinkedOutput::paths) {
            let hidden = hidden(path);
            let Some(shown) = escape::shell(&hidden.to_string_lossy()) else { continue };
            if !fs::read(path).is_ok_and(|bytes| is_program(&bytes)) {
                continue;
            }
            let script = scratch.join("stand-in");
            let limits = limit.map_or_else(String::new, |seconds| limits(seconds, shown.as_str()));
            let text = format!("{HEAD}{limits}exec valgrind {} {shown} \"$@\"\n", quoted.join(" "));
            files::write_owned(&script, text.as_bytes())?;
            files::make_executable(&script)?;
            stand_ins.0.push(path.to_path_buf());
            files::link_or_copy(path, &hidden)?;
            files::copy(&script, path)?;
        }
        Ok(stand_ins)
    }

    /// True if there are no programs, for example in a build of libraries.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Lines of a script that limit the CPU time of the program, and run it without valgrind if it begins too late.
fn limits(seconds: u64, program: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let last = now.map_or(0, |now| now.as_secs()) + seconds;
    format!("test \"$(date +%s)\" -le {last} || exec {program} \"$@\"\nulimit -S -t {seconds}\n")
}

impl Drop for StandIns {
    fn drop(&mut self) {
        recover(self.0.iter().map(PathBuf::as_path));
    }
}

/// True if a command of valgrind runs this program: by its name while a script replaces it, or as the first argument.
/// Only blanks separate arguments, and folders may contain blanks.
pub(super) fn is_run_by(command: &str, program: &Path) -> bool {
    let name = files::base_name(program);
    let is_word = |rest: &str| {
        rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    match command.split_once(HIDDEN) {
        Some((_, rest)) => is_word(rest),
        None => files::base_name(Path::new(command.split(' ').next().unwrap_or_default())) == name,
    }
}

/// Replaces the names of hidden programs in a recording of valgrind by their own names.
pub(super) fn under_own_names(recorded: &[u8]) -> Vec<u8> {
    let mut named = Vec::with_capacity(recorded.len());
    let mut at = 0;
    while at < recorded.len() {
        if recorded[at..].starts_with(HIDDEN.as_bytes()) {
            at += HIDDEN.len();
        } else {
            named.push(recorded[at]);
            at += 1;
        }
    }
    named
}

/// Returns the path of the program that has this name while a script replaces it.
pub(super) fn path_of(hidden: &Path) -> Option<PathBuf> {
    let name = files::base_name(hidden);
    name.strip_prefix(HIDDEN).map(|name| hidden.with_file_name(name))
}

fn hidden(path: &Path) -> PathBuf {
    path.with_file_name(format!("{HIDDEN}{}", files::base_name(path)))
}

/// Restores programs in place of their scripts, and removes files that a killed run left next to them. Returns the
/// number of programs.
pub(super) fn recover<'a>(paths: impl Iterator<Item = &'a Path>) -> usize {
    let mut recovered = 0;
    for path in paths {
        let hidden = hidden(path);
        let is_program = || files::elf_type(&hidden).is_some();
        if (is_script(path) || fs::symlink_metadata(path).is_err()) && is_program() {
            recovered += usize::from(fs::rename(&hidden, path).is_ok());
        } else if files::elf_type(path).is_some() {
            let _ = fs::remove_file(&hidden);
        }
        for begun in [path, &hidden].map(files::beside) {
            let _ = fs::remove_file(begun);
        }
    }
    recovered
}

fn is_script(path: &Path) -> bool {
    let mut head = [0; HEAD.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *HEAD.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of an ELF file.
    const PROGRAM: &[u8] = b"\x7fELF\x02\x01\x01 program \x02\x00 and more";

    #[test]
    fn a_killed_run_loses_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prog");
        let script = format!("{HEAD}exec valgrind prog\n");
        // A program next to its script; a program alone; and one without a script yet.
        for (in_place, beside) in
            [(Some(script.as_bytes()), Some(PROGRAM)), (None, Some(PROGRAM)), (Some(PROGRAM), Some(b"cut"))]
        {
            let _ = fs::remove_file(&path);
            for (bytes, path) in [(in_place, path.clone()), (beside, hidden(&path))] {
                bytes.into_iter().for_each(|bytes| fs::write(&path, bytes).unwrap());
            }
            fs::write(files::beside(&path), "cut").unwrap();
            recover([path.as_path()].into_iter());
            assert_eq!(fs::read(&path).unwrap(), PROGRAM);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn programs_are_known_in_folders_with_blanks() {
        let program = Path::new("/home/my project/toy");
        for own in ["/home/my project/.sediment-run-toy a b", "./.sediment-run-toy", "./toy", "toy -x"] {
            assert!(is_run_by(own, program), "{own}");
        }
        for other in ["/home/my project/.sediment-run-toys", "sh -c ./toy", "/bin/ls"] {
            assert!(!is_run_by(other, program), "{other}");
        }
    }

    #[test]
    fn recordings_name_programs_as_they_are_known() {
        let recorded = b"cmd: ./.sediment-run-toy a\nob=(1) /home/x/.sediment-run-toy\nfn=(1) main\n";
        let named = b"cmd: ./toy a\nob=(1) /home/x/toy\nfn=(1) main\n";
        assert_eq!(under_own_names(recorded), named);
    }

    #[test]
    fn files_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prog");
        fs::write(&path, "#!/bin/sh\necho mine\n").unwrap();
        fs::write(hidden(&path), PROGRAM).unwrap();
        recover([path.as_path()].into_iter());
        assert_eq!(fs::read(&path).unwrap(), b"#!/bin/sh\necho mine\n");
        assert_eq!(fs::read(hidden(&path)).unwrap(), PROGRAM);
    }
}
