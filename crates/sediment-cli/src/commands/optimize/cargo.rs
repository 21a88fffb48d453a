// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo sediment` calls this program by the name `cargo-sediment`. It optimizes the workspace of the current folder;
//! the build command is `cargo build --release` if neither the command line nor the project file names one.

use super::project_file;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name by which cargo finds this program.
const NAME: &str = "cargo-sediment";
/// Longest path of a workspace, and time limit for cargo to find it.
const LONGEST: usize = 1 << 16;
const LIMIT: Duration = Duration::from_secs(60);

/// Converts a call by cargo to the arguments of `sediment optimize`; `None` for any other call.
pub(in super::super) fn as_cargo_command(arguments: &[OsString]) -> Option<Result<Vec<OsString>>> {
    let name = Path::new(arguments.first()?).file_name()?;
    (name == NAME).then(|| {
        let given = arguments.get(1..).unwrap_or_default();
        // cargo passes on the name of the command, too.
        let given = given.strip_prefix(&[OsString::from("sediment")]).unwrap_or(given);
        let mut words = vec!["sediment".into(), "optimize".into()];
        words.extend(given.iter().cloned());
        let asks = |word: &OsString| ["-h", "--help"].iter().any(|question| word == question);
        if given.iter().any(asks) {
            return Ok(words);
        }
        let entered = enter_workspace();
        let has_file = entered.is_ok() && Path::new(super::entries::PROJECT_FILE).is_file();
        if given.is_empty() && !has_file {
            words.push("--help".into());
            return Ok(words);
        }
        entered?;
        let has_build = given.iter().any(|word| word == "--" || word == "--undo")
            || has_file && project_file::has_build(Path::new("."));
        if !has_build {
            words.extend(["--", "cargo", "build", "--release"].map(OsString::from));
        }
        Ok(words)
    })
}

/// Returns the definition of the commands, with the help of `cargo sediment` for `optimize`.
pub(in super::super) fn with_help_for_cargo(program: clap::Command) -> clap::Command {
    program.mut_subcommand("optimize", |command| {
        let about = "Optimize the programs of a Cargo workspace";
        command
            .about(about)
            .long_about(format!(
                "{about}.\n\nRuns `sediment optimize` in the folder of the workspace: builds a copy, records the training commands, links in order, verifies, and measures. Also tries counters, if llvm-profdata is installed. The build is `cargo build --release`, unless another one is given.\n\nOptions that are not given are taken from sediment.toml, if it exists."
            ))
            .override_usage("cargo sediment [OPTIONS] [-- COMMAND...]")
            .after_help("Example: cargo sediment --train 'target/release/prog input'")
    })
}

/// Changes to the folder of the workspace, because a copy of one of its packages could not be built by itself.
fn enter_workspace() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let question = ["locate-project", "--workspace", "--message-format", "plain"].map(OsStr::new);
    let command = Command::new(cargo, here, LIMIT).with_arguments(question);
    let answer = run(&command, LONGEST)?.successful(&command)?.output;
    let manifest = PathBuf::from(OsString::from_vec(answer.trim_ascii_end().to_vec()));
    let folder = manifest.parent().unwrap_or(Path::new("."));
    std::env::set_current_dir(folder).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot enter the folder of the workspace: {error}"))
            .with_input(crate::files::display(folder))
    })
}
