// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts callgrind's output to a profile:
//! `cargo run -p sediment-order --example import callgrind.out.1234 >program.gv`.
//!
//! Callgrind's output has the names of functions. For formats with addresses, implement
//! [`sediment_core::binary::Files`] for the recorded programs.

use sediment_core::binary::NoFiles;
use sediment_core::profile::text;
use sediment_core::{Result, Skipped};
use sediment_read::{read, resolve};
use std::io::{self, Write};
use std::path::Path;

/// Returns the profile of a recording, and the skipped items.
fn import(recording: &[u8]) -> Result<(String, Skipped)> {
    let recording = read::read(&recording, &read::ReadSettings::default())?;
    let (profile, unresolved) = resolve::resolve(&recording, &NoFiles)?;
    let mut skipped = recording.skipped;
    skipped.append(&unresolved);
    Ok((text::print(&profile), skipped))
}

/// Writes the profile of a file to `output`, and the number of skipped items by their codes to `log`.
fn run(
    path: &Path,
    mut output: impl Write,
    mut log: impl Write,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (profile, skipped) = import(&std::fs::read(path)?)?;
    output.write_all(profile.as_bytes())?;
    for (reason, tally) in skipped.iter() {
        writeln!(log, "skipped {}: {} {reason}", reason.code(), tally.items)?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a file of callgrind")?;
    run(Path::new(&path), io::stdout(), io::stderr())
}

#[cfg(test)]
mod tests {
    use super::{import, run};
    use sediment_core::{ErrorCode, profile::text};

    #[test]
    fn a_recording_becomes_a_profile() {
        let recording = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\ncmd: ./program\npositions: line\n\
            events: Ir\n\nob=/usr/bin/program\nfl=main.c\nfn=main\n3 5\ncfn=parse\ncalls=11 20\n4 700\n\
            cfn=(below main)\ncalls=2 1\n5 1\n\nfn=parse\n20 700\n\ntotals: 1406\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("callgrind.out.1");
        std::fs::write(&path, recording).unwrap();
        let (mut output, mut log) = (Vec::new(), Vec::new());
        run(&path, &mut output, &mut log).unwrap();
        let (profile, skipped) = text::parse(&output).unwrap();
        assert!(skipped.is_empty());
        let names: Vec<&str> =
            profile.functions().into_iter().map(|function| &*profile.key(function).name).collect();
        assert_eq!(names, ["main", "parse"]);
        // Skipped calls are part of the total.
        assert_eq!(profile.total, 13);
        let log = String::from_utf8(log).unwrap();
        assert!(log.starts_with("skipped below-main: 1 ") && log.lines().count() == 1, "{log}");
    }

    #[test]
    fn other_files_are_told_apart() {
        let code = |bytes| import(bytes).unwrap_err().code();
        assert_eq!(code(b""), ErrorCode::EmptyInput);
        assert_eq!(code(b"\x7fELF"), ErrorCode::NotARecording);
    }
}
