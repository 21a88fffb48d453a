// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment manual`, for packagers of sediment: a man page for each command, for those of upstream sediment too, and completions for shells. All are
//! made from the definitions by which the arguments are parsed.

use super::{Program, legacy};
use crate::files;
use crate::ui::Ui;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use sediment::{Error, ErrorCode, Result};
use std::path::{Path, PathBuf};

/// Write the man pages and shell completions
#[derive(Debug, Args)]
#[command(
    long_about = "Write the man pages and shell completions.\n\nInto DIR: man1/*.1, bash/sediment, zsh/_sediment and fish/sediment.fish. The same program writes the same bytes."
)]
pub(crate) struct Arguments {
    /// Folder to write to; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Page of the name by which cargo calls the program.
const CARGO_PAGE: &str = ".TH cargo-sediment 1 \"\" \"\" Sediment
.SH NAME
cargo\\-sediment \\- Optimize the programs of a Cargo workspace
.SH SYNOPSIS
\\fBcargo sediment\\fR [\\fIOPTIONS\\fR] [\\-\\- \\fICOMMAND\\fR...]
.SH DESCRIPTION
Runs \\fBsediment optimize\\fR in the folder of the workspace. Without a build command, the build is \\fBcargo build \\-\\-release\\fR.
.SH SEE ALSO
\\fBsediment\\-optimize\\fR(1)
";

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let folder = files::folder(&arguments.folder)?;
    let pages = files::folder(&folder.join("man1"))?;
    let mut program = Program::command().disable_help_subcommand(true);
    program.build();
    write_pages(&program, &pages, ui)?;
    for mut command in legacy::commands() {
        command.build();
        write_pages(&command, &pages, ui)?;
    }
    // cargo calls the program by this name to optimize a workspace.
    files::write(&pages.join("cargo-sediment.1"), CARGO_PAGE.as_bytes(), ui)?;
    for (shell, name) in
        [(Shell::Bash, "bash/sediment"), (Shell::Zsh, "zsh/_sediment"), (Shell::Fish, "fish/sediment.fish")]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Program::command(), "sediment", &mut text);
        let path = folder.join(name);
        files::folder(path.parent().unwrap_or(&folder))?;
        files::write(&path, &text, ui)?;
    }
    Ok(())
}

/// A page with the values of options in its synopsis, which the generator does not print.
fn with_values(command: &clap::Command, page: &str) -> String {
    let Some((head, rest)) = page.split_once(".SH SYNOPSIS\n") else { return page.to_owned() };
    let (synopsis, tail) = rest.split_once('\n').unwrap_or((rest, ""));
    let mut synopsis = synopsis.to_owned();
    for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
        let (Some(long), Some([value, ..])) = (argument.get_long(), argument.get_value_names()) else {
            continue;
        };
        let option = format!("\\fB\\-\\-{}\\fR", long.replace('-', "\\-"));
        for end in [']', '>'] {
            let with_value = format!("{option} \\fI{}\\fR{end}", value.replace('-', "\\-"));
            synopsis = synopsis.replace(&format!("{option}{end}"), &with_value);
        }
    }
    format!("{head}.SH SYNOPSIS\n{synopsis}\n{tail}")
}

/// The page of a command and those of its commands.
fn write_pages(command: &clap::Command, folder: &Path, ui: &Ui) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .section("1")
        .manual("Sediment")
        .render(&mut text)
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot write the page of {name}: {error}")))?;
    let text = with_values(command, &String::from_utf8_lossy(&text));
    files::write(&folder.join(format!("{name}.1")), text.as_bytes(), ui)?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder, ui)?;
    }
    Ok(())
}
