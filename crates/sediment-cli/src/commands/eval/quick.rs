// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval quick` compares commands without a plan.

use super::output::ReportOutput;
use super::{Limits, RunOptions, list, session, texts};
use crate::files;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::escape::toml;
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::plan;
use sediment_measure::METERS;
use sediment_process::Command;
use sediment_process::command as process;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Compare commands without a plan
#[derive(Debug, Args)]
#[command(
    long_about = "Compare commands without a plan.\n\nThe first command is the baseline. Each command runs once per block, in random order. Give each command as one text, which runs in a shell if it has blanks; or as words, after its own --. Options have the same names as in hyperfine, if it has them.",
    override_usage = "sediment eval quick [OPTIONS] COMMAND COMMAND...\n       sediment eval quick [OPTIONS] -- COMMAND... -- COMMAND... [-- COMMAND...]..."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    limits: Limits,
    /// Metric that decides: elapsed, cpu-time, task-clock, cycles, instructions, ... [default: elapsed]
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
    /// Largest difference that counts as equivalent, in per cent, above 0 and below 100
    #[arg(long, value_name = "PERCENT", value_parser = values::share, default_value = "1")]
    margin: f64,
    /// Name of a build, in the order of the commands; repeatable [default: from the commands]
    #[arg(short, long, alias = "command-name", value_name = "NAME")]
    name: Vec<String>,
    /// Shell command to run once before the experiment [default: none]
    #[arg(short, long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Run exactly this many blocks, whatever the precision [default: until the precision is reached]
    #[arg(short, long, value_name = "COUNT", conflicts_with_all = ["blocks", "precision"], value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Command to compare the others with, as a text [default: the first command]
    #[arg(long, value_name = "COMMAND")]
    reference: Option<String>,
    /// Name of the reference [default: from the command]
    #[arg(long, value_name = "NAME", requires = "reference")]
    reference_name: Option<String>,
    /// Run each command once for each of these values, separated by commas, which replace {NAME}; repeatable [default: none]
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "VALUES"])]
    parameter_list: Vec<String>,
    /// Run no command in a shell
    #[arg(short = 'N')]
    no_shell: bool,
    /// Also write the runs to this file, in the JSON of hyperfine [default: none]
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Also write the report to this file, in Markdown [default: none]
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Print the output of the runs to standard error
    #[arg(long)]
    show_output: bool,
    #[command(flatten)]
    run: RunOptions,
    /// Drop the programs and their libraries from the page cache before each run
    #[arg(long)]
    cold: bool,
    /// Additional meter, in runs of its own: itlb, l1i, pages, peak-memory; repeatable [default: none]
    #[arg(long, value_name = "NAME", value_parser = meter)]
    meter: Vec<String>,
    /// Run the first command twice per block, to measure the noise
    #[arg(long)]
    noise_floor: bool,
    /// File to write the runs to [default: no file, unless the experiment is interrupted]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOutput,
    /// Commands, each as one text
    #[arg(value_name = "COMMAND")]
    texts: Vec<String>,
    /// Commands as words, each after its own --
    #[arg(last = true, value_name = "COMMAND")]
    commands: Vec<OsString>,
}

impl Arguments {
    /// Returns the words of each command and its parameters. The reference comes first, then texts, then the other
    /// commands.
    fn groups(&self) -> Result<Vec<ParametrizedCommand>> {
        let words = texts(&self.commands)?;
        let of_words = words.split(|word| word == "--").filter(|_| !words.is_empty()).map(<[String]>::to_vec);
        let of_texts = self.reference.iter().chain(&self.texts);
        let of_texts = of_texts.map(|text| match values::shell_words(text) {
            Ok(words) if self.no_shell => words,
            _ => vec![text.clone()],
        });
        let all = of_texts.chain(of_words);
        let mut groups: Vec<ParametrizedCommand> =
            all.map(|words| ParametrizedCommand { words, parameters: BTreeMap::new() }).collect();
        for pair in self.parameter_list.chunks_exact(2) {
            let place = format!("{{{}}}", pair[0]);
            let with = |group: &ParametrizedCommand| -> Vec<ParametrizedCommand> {
                if !group.words.iter().any(|word| word.contains(&place)) {
                    return vec![group.clone()];
                }
                let put = |value: &str| {
                    let words = group.words.iter().map(|word| word.replace(&place, value)).collect();
                    let mut parameters = group.parameters.clone();
                    parameters.insert(pair[0].clone(), value.to_owned());
                    ParametrizedCommand { words, parameters }
                };
                pair[1].split(',').map(put).collect()
            };
            groups = groups.iter().flat_map(with).collect();
        }
        Ok(groups)
    }

    /// Returns the given names for this number of commands, the reference's first.
    fn names(&self, commands: usize) -> Vec<String> {
        let lacks_one = !self.name.is_empty() && self.name.len() + 1 == commands;
        let of_text = self.reference.as_ref().filter(|_| lacks_one);
        self.reference_name.as_ref().or(of_text).into_iter().chain(&self.name).cloned().collect()
    }
}

/// A command as words, with the parameters that were inserted.
#[derive(Clone)]
struct ParametrizedCommand {
    words: Vec<String>,
    parameters: BTreeMap<String, String>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let groups = arguments.groups()?;
    let commands = commands(&groups, &arguments.names(groups.len()))?;
    let text = plan_text(arguments, &commands);
    let mut plan = plan::read(&text).map_err(|error| Error::new(ErrorCode::Usage, error.to_string()))?;
    arguments.limits.apply(&mut plan);
    if let Some(runs) = arguments.runs {
        plan.run.blocks = runs;
        // The precision is not checked before the last block.
        plan.run.pilot = runs;
    }
    if let Some(setup) = &arguments.setup {
        let limit = Duration::from_secs_f64(arguments.run.time_limit);
        let command = Command::new("sh", ".", limit).with_arguments(["-c", setup.as_str()]);
        process::run(&command, 0)?.successful(&command).map_err(|error| {
            let named = Error::new(error.code(), format!("--setup: {error}"));
            match error.hint() {
                Some(hint) => named.with_hint(hint),
                None => named,
            }
        })?;
    }
    session::beside(arguments.output.as_deref(), |path| {
        let experiment = session::begin(&plan, Path::new("."), arguments.limits.seed, path, ui)?;
        if let Some(path) = &arguments.export_json {
            let parts = |command: &QuickCommand| (command.line(), command.parameters.clone());
            let lines: Vec<_> = commands.iter().map(parts).collect();
            files::write(path, sediment_eval::report::hyperfine(&experiment, &lines).as_bytes(), ui)?;
        }
        if let Some(path) = &arguments.export_markdown {
            let text = sediment_eval::report::markdown(&experiment, &sediment_eval::analyse(&experiment)?);
            files::write(path, text.as_bytes(), ui)?;
        }
        arguments.report.print(&experiment, None, ui)
    })
}

/// Checks the name of a meter that needs runs of its own. The meter of the kernel's accounts does not: it is always
/// used.
fn meter(text: &str) -> std::result::Result<String, String> {
    let names: Vec<&str> = METERS.iter().map(|meter| meter.name).filter(|name| *name != "rusage").collect();
    if names.contains(&text) { Ok(text.to_owned()) } else { Err(format!("supported: {}", names.join(", "))) }
}

/// Commands with longer names are called by their differences, or A, B, …, because tables have a column for each.
const LONGEST_NAME: usize = 24;

/// A command: program and arguments.
struct QuickCommand {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Values of parameters, by name.
    parameters: BTreeMap<String, String>,
}

impl QuickCommand {
    /// Returns the command as typed.
    fn line(&self) -> String {
        if let ("sh", [_, line]) = (files::base_name(&self.program).as_str(), &self.arguments[..]) {
            return line.clone();
        }
        let program = self.program.to_string_lossy();
        let words = std::iter::once(program.as_ref()).chain(self.arguments.iter().map(String::as_str));
        words.filter_map(sediment_core::escape::shell).collect::<Vec<_>>().join(" ")
    }
}

fn commands(all: &[ParametrizedCommand], given: &[String]) -> Result<Vec<QuickCommand>> {
    let usage = |message: String| Error::new(ErrorCode::Usage, message);
    let groups: Vec<&[String]> = all.iter().map(|group| group.words.as_slice()).collect();
    if groups.len() < 2 || groups.iter().any(|group| group.is_empty()) {
        return Err(usage("give two or more commands".to_owned())
            .with_hint("sediment eval quick './old input' './new input', or -- ./old input -- ./new input"));
    }
    let mut commands: Vec<QuickCommand> = all.iter().map(command).collect::<Result<_>>()?;
    if !given.is_empty() && given.len() != commands.len() {
        return Err(usage(format!(
            "{} for {}",
            counted(given.len(), "--name"),
            counted(commands.len(), "command")
        )));
    }
    if let Some(twice) = given.iter().enumerate().find(|(at, name)| given[..*at].contains(name)) {
        return Err(usage(format!("--name {} is given twice: each build needs a name of its own", twice.1)));
    }
    let own = || commands.iter().map(|command| command.name.clone()).collect::<Vec<String>>();
    let names = if given.is_empty() { distinct_names(own(), &groups) } else { given.to_vec() };
    for (command, name) in commands.iter_mut().zip(names) {
        command.name = name;
    }
    Ok(commands)
}

/// Returns names of commands: their own, otherwise the words in which they differ, otherwise letters.
fn distinct_names(own: Vec<String>, groups: &[&[String]]) -> Vec<String> {
    let fit = |names: &[String]| {
        names.iter().collect::<BTreeSet<_>>().len() == names.len()
            && names.iter().all(|name| !name.is_empty() && name.chars().count() <= LONGEST_NAME)
    };
    if fit(&own) {
        return own;
    }
    let whole: Vec<String> = groups.iter().map(|words| words.join(" ")).collect();
    let shortest = groups.iter().map(|words| words.len()).min().unwrap_or(0);
    let same = |at: &dyn Fn(&[String]) -> String| groups.iter().all(|words| at(words) == at(groups[0]));
    let before = (0..shortest).take_while(|index| same(&|words| words[*index].clone())).count();
    let behind =
        (0..shortest - before).take_while(|index| same(&|words| words[words.len() - 1 - index].clone()));
    let behind = behind.count();
    let differing: Vec<String> =
        groups.iter().map(|words| words[before..words.len() - behind].join(" ")).collect();
    if let Some(names) = [whole, differing].into_iter().find(|names| fit(names)) {
        return names;
    }
    let letter = |index: usize| {
        let letter = char::from_u32('A' as u32 + index as u32 % 26).unwrap_or('A');
        let round = if index < 26 { String::new() } else { (index / 26).to_string() };
        format!("{letter}{round}")
    };
    (0..groups.len()).map(letter).collect()
}

fn command(group: &ParametrizedCommand) -> Result<QuickCommand> {
    let parameters = group.parameters.clone();
    let (first, rest) =
        group.words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    if rest.is_empty() && first.contains(char::is_whitespace) && !Path::new(first).exists() {
        return Ok(QuickCommand {
            name: first.to_owned(),
            program: find("sh")?,
            arguments: vec!["-c".to_owned(), first.to_owned()],
            parameters,
        });
    }
    let program = find(first)?;
    Ok(QuickCommand { name: files::base_name(&program), program, arguments: rest.to_vec(), parameters })
}

/// Returns the path of a program: the given one, or the first with this name on the search path.
fn find(name: &str) -> Result<PathBuf> {
    let missing = || Error::new(ErrorCode::NotFound, "program not found").with_input(name.to_owned());
    if name.contains('/') {
        return std::path::absolute(name).ok().filter(|path| path.is_file()).ok_or_else(missing);
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&search)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(missing)
}

fn plan_text(arguments: &Arguments, commands: &[QuickCommand]) -> String {
    let mut text = format!(
        "sediment-eval = 1\nmargin = {:?}\nnoise-floor = {}\n",
        arguments.margin, arguments.noise_floor
    );
    if let Some(primary) = &arguments.primary {
        let _ = writeln!(text, "primary = {}", toml(primary));
    }
    text += &arguments.run.settings();
    if arguments.show_output {
        text += "show-output = true\n";
    }
    let _ = write!(text, "cold = {}\nmeters = [{}]\n", arguments.cold, list(&arguments.meter));
    for command in commands {
        let _ = write!(
            text,
            "\n[[variant]]\nname = {}\nprogram = {}\narguments = [{}]\n",
            toml(&command.name),
            toml(&command.program.to_string_lossy()),
            list(&command.arguments)
        );
    }
    text += &arguments.run.workload("quick", "[\"{program}\", \"{arguments}\"]");
    text
}

#[cfg(test)]
mod tests {
    use super::distinct_names;

    #[test]
    fn builds_are_called_by_what_differs() {
        let names = |own: &[&str], commands: &[&str]| {
            let words: Vec<Vec<String>> =
                commands.iter().map(|words| words.split(' ').map(str::to_owned).collect()).collect();
            let groups: Vec<&[String]> = words.iter().map(Vec::as_slice).collect();
            distinct_names(own.iter().map(|name| (*name).to_owned()).collect(), &groups)
        };
        assert_eq!(names(&["old", "new"], &["./old 1", "./new 1"]), ["old", "new"]);
        assert_eq!(names(&["sh", "sh"], &["sh test A", "sh test B"]), ["sh test A", "sh test B"]);
        let long = ["bash ./a-long-way/test.sh old 1000", "bash ./a-long-way/test.sh new 1000"];
        assert_eq!(names(&["bash", "bash"], &long), ["old", "new"]);
        assert_eq!(names(&["gzip", "gzip"], &["gzip f", "gzip f"]), ["A", "B"]);
        // One is the beginning of the other, so it has no word of its own.
        let begins = ["./a-very-long-name/of-a/program x", "./a-very-long-name/of-a/program x y"];
        assert_eq!(names(&["program", "program"], &begins), ["A", "B"]);
    }
}
