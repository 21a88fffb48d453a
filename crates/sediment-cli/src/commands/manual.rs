// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment manual`, for packagers of sediment, writes a man page for each command, including upstream sediment's, and
//! shell completions. All are made from the definitions of the argument parser.

use super::{SedimentProgram, legacy};
use crate::files;
use crate::output::WrittenOutput;
use crate::ui::Ui;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use sediment_core::{Error, ErrorCode, Result};
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Man page for the name under which cargo calls the program.
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
    let mut program = SedimentProgram::command().disable_help_subcommand(true);
    program.build();
    let mut written = Vec::new();
    write_pages(&program, &pages, &mut written, ui)?;
    for mut command in legacy::commands() {
        command.build();
        write_pages(&command, &pages, &mut written, ui)?;
    }
    // cargo calls the program by this name to optimize a workspace.
    let cargo = pages.join("cargo-sediment.1");
    files::write(&cargo, CARGO_PAGE.as_bytes(), ui)?;
    written.push(cargo);
    for (shell, name) in
        [(Shell::Bash, "bash/sediment"), (Shell::Zsh, "zsh/_sediment"), (Shell::Fish, "fish/sediment.fish")]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut SedimentProgram::command(), "sediment", &mut text);
        let text = with_packages(shell, &String::from_utf8_lossy(&text));
        let path = folder.join(name);
        files::folder(path.parent().unwrap_or(&folder))?;
        files::write(&path, text.as_bytes(), ui)?;
        written.push(path);
    }
    match arguments.json {
        true => ui.json(&WrittenOutput::new(written.iter().map(PathBuf::as_path), ui.skipped_items())),
        false => Ok(()),
    }
}

/// Command for bash, fish and zsh that prints the names of the installed packages, one per line.
const PACKAGES: &str = r"dpkg-query -W -f '${Package}\n' 2>/dev/null || rpm -qa --qf '%{NAME}\n' 2>/dev/null";

const BASH_PACKAGES: &str = r#"
_sediment_packages() {
    PACKAGES
}

_sediment_with_packages() {
    _sediment "$@"
    local word command=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word != -- ]] || return
        [[ -n $command || $word == -* ]] || command=$word
    done
    # Not where an option waits for its value.
    if [[ $command == collect && $2 != -* && " WITH_VALUES " != *" $3 "* ]]; then
        COMPREPLY=( $(compgen -W "$(_sediment_packages)" -- "$2") )
    fi
}

complete -F _sediment_with_packages -o bashdefault -o default sediment
"#;

const FISH_PACKAGES: &str = r#"
function __fish_sediment_packages
    PACKAGES
end

complete -c sediment -n "__fish_sediment_using_subcommand collect" -f -a "(__fish_sediment_packages)"
"#;

const ZSH_PACKAGES: &str = r#"
_sediment_packages() {
    local -a packages; packages=(${(f)"$(PACKAGES)"})
    compadd -a packages
}
"#;

/// Options of `collect` that have a value, as typed.
fn options_with_values() -> String {
    let program = SedimentProgram::command();
    let collect = program.find_subcommand("collect").into_iter().flat_map(clap::Command::get_arguments);
    let with_values = collect.filter(|argument| argument.get_action().takes_values());
    let names = with_values.flat_map(|argument| {
        let (long, short) = (argument.get_long(), argument.get_short());
        long.map(|long| format!("--{long}")).into_iter().chain(short.map(|short| format!("-{short}")))
    });
    names.collect::<Vec<_>>().join(" ")
}

/// Returns a shell's completions with the names of installed packages for `collect`: the generator supports only fixed
/// values.
fn with_packages(shell: Shell, text: &str) -> String {
    let own = |own: &str| own.replace("PACKAGES", PACKAGES).replace("WITH_VALUES", &options_with_values());
    match shell {
        Shell::Bash => text.to_owned() + &own(BASH_PACKAGES),
        Shell::Fish => text.to_owned() + &own(FISH_PACKAGES),
        _ => {
            let name = |line: &str| line.starts_with("'*::packages -- ");
            let lines = text.lines().map(|line| match line.strip_suffix(":_default' \\") {
                Some(line) if name(line) => format!("{line}:_sediment_packages' \\\n"),
                _ => format!("{line}\n"),
            });
            let text: String = lines.collect();
            // The last lines call the functions before them.
            let end = text.rfind("\nif [").map_or(text.len(), |at| at + 1);
            format!("{}{}\n{}", &text[..end], own(ZSH_PACKAGES).trim_start(), &text[end..])
        }
    }
}

/// Returns a page with the values of options in its synopsis, which the generator does not print.
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

/// True for a command of this program, false for a command of upstream sediment.
fn is_own(name: &str) -> bool {
    name == "sediment" || name.starts_with("sediment-")
}

/// Exit codes and their meanings.
const CODES: [(&str, &str); 8] = [
    ("0", "Done."),
    ("1", "Failed."),
    ("2", "The command line is wrong."),
    ("3", "An experiment shows a regression (\\fBeval gate\\fR)."),
    ("4", "An experiment is inconclusive (\\fBeval gate \\-\\-conclusive\\fR)."),
    ("5", "A result is below a threshold."),
    ("6", "Not possible on this machine."),
    ("130", "Interrupted."),
];

/// Commands, a variable that they read, and its meaning; no commands means all.
const VARIABLES: &[(&[&str], &str, &str)] = &[
    (
        &["order", "doctor", "eval-noise"],
        "CC, LDFLAGS",
        "The compiler, and its options that choose a linker.",
    ),
    (&["wrapper"], "PROF_DIR", "Profile, or folder of profiles, for the wrapper."),
    (&["wrapper"], "SEDIMENT_LOG", "Folder for the wrapper's log and orders."),
    (&["wrapper"], "SEDIMENT_LD", "Linker that the wrapper calls."),
    (
        &["wrapper"],
        "SEDIMENT_COUNTERS, SEDIMENT_BLOCKS",
        "Counters and block counts for GCC, instead of the files in the wrapper's folder.",
    ),
    (&["wrapper"], "SEDIMENT_COMPILERS", "Folder of the scripts that run GCC's own compilers with counts."),
    (
        &["optimize"],
        "CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS, RUSTFLAGS, …",
        "Passed on to the build. After a change the run begins again.",
    ),
    (&[], "NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "Turn colours of messages on or off."),
    (&[], "TMPDIR", "Folder of temporary files."),
];

/// Commands, a file that they use, and its contents.
const FILES: &[(&[&str], &str, &str)] = &[
    (&["optimize"], "sediment.toml", "The project file: options that are not on the command line."),
    (&["optimize"], ".sediment", "The working folder: results, levels, reports, and the copy of the tree."),
    (
        &["record"],
        "sediment.gv",
        "The profile, unless \\-o names another file; an older one becomes sediment.gv.old.",
    ),
    (&["optimize", "wrapper"], "/usr/libexec/sediment/sediment.so", "sediment's plugin for GCC."),
    (&["wrapper"], "/usr/libexec/sediment/compilers", "Scripts that run GCC's own compilers with counts."),
];

/// Returns sections on exit codes, variables and files, which the generator does not support.
fn more_sections(name: &str) -> String {
    let command = name.strip_prefix("sediment-").unwrap_or_default();
    let mut text = String::from(".SH \"EXIT STATUS\"\n");
    if command == "record" {
        text += "The exit code of the recorded program; if it was not started:\n";
    }
    for (code, meaning) in CODES {
        text += &format!(".TP\n\\fB{code}\\fR\n{meaning}\n");
    }
    for (heading, rows) in [("ENVIRONMENT", VARIABLES), ("FILES", FILES)] {
        let rows: Vec<_> = rows.iter().filter(|(of, ..)| of.is_empty() || of.contains(&command)).collect();
        if !rows.is_empty() {
            text += &format!(".SH {heading}\n");
        }
        for (_, name, meaning) in rows {
            let name =
                name.strip_prefix('.').map_or_else(|| (*name).to_owned(), |rest| format!("\\&.{rest}"));
            text += &format!(".TP\n\\fB{name}\\fR\n{meaning}\n");
        }
    }
    text
}

/// Writes the page of a command and of its subcommands; adds the files to `written`.
fn write_pages(command: &clap::Command, folder: &Path, written: &mut Vec<PathBuf>, ui: &Ui) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .section("1")
        .manual("Sediment")
        .render(&mut text)
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot write the page of {name}: {error}")))?;
    let text = with_values(command, &String::from_utf8_lossy(&text));
    let text = if is_own(&name) { text + &more_sections(&name) } else { text };
    let path = folder.join(format!("{name}.1"));
    files::write(&path, text.as_bytes(), ui)?;
    written.push(path);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, folder, written, ui)?;
    }
    Ok(())
}
