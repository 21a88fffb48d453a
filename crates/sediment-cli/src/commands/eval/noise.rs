// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment eval noise` measures how much links of one program differ only because of their layouts.

use super::super::optimize::toolbox;
use super::{RunOptions, list, session, texts};
use crate::exit::{BELOW_THRESHOLD, ExitCode};
use crate::files::{self, TemporaryFolder};
use crate::output::Schema;
use crate::padding_object;
use crate::start;
use crate::ui::Ui;
use crate::values;
use crate::wrapper::{LINKS, LoggedLink, layouts};
use clap::Args;
use sediment_core::escape::toml;
use sediment_core::plural::counted;
use sediment_core::random::Generator;
use sediment_core::{Error, ErrorCode, Result};
use sediment_eval::plan::{self, CommandLine};
use sediment_eval::{Experiment, LEAST_LINKS, LayoutNoise, analyse};
use sediment_measure::padding;
use sediment_process::Command;
use sediment_process::command::observe;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure how far two links of the same code differ by layout
#[derive(Debug, Args)]
#[command(
    long_about = "Measure how far two links of the same code differ by layout.\n\nLinks one program several times with padding of random size in front of its code, or takes existing links. Runs the benchmark on each link once per block, in random order, each time from a fresh copy of the file. Prints the floor: 95 % of the differences between two links are smaller. A smaller change between two single links may come from the layout alone.",
    override_usage = "sediment eval noise [OPTIONS] --link <COMMAND> -- COMMAND...\n       sediment eval noise [OPTIONS] --build <COMMAND> --file <FILE> -- COMMAND...\n       sediment eval noise [OPTIONS] --programs <PROGRAM>... -- COMMAND...",
    after_help = "Exit codes: 5 floor above --fail-above; the others as in `sediment --help`."
)]
pub(crate) struct Arguments {
    /// Shell command that links the program; {padding_object} is an object to put first, {output} the program to write (required without --programs and --build)
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["programs", "build"], conflicts_with = "programs")]
    link: Option<String>,
    /// Shell command that builds the program in this folder; needs --file [default: none]
    #[arg(long, value_name = "COMMAND", requires = "file", conflicts_with_all = ["programs", "link", "section"])]
    build: Option<String>,
    /// Program that --build links [default: none]
    #[arg(long, value_name = "FILE", requires = "build")]
    file: Option<PathBuf>,
    /// Existing links of one program, 3 or more [default: made by --link]
    #[arg(long, value_name = "PROGRAM", num_args = 1..)]
    programs: Vec<PathBuf>,
    /// Number of links, from 3 to 1000 [default: 10]
    #[arg(long, value_name = "COUNT", conflicts_with = "programs")]
    layouts: Option<u32>,
    /// Section to put the padding in, for a link with an ordering file
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "programs",
        default_value = ".text.sediment_eval_padding"
    )]
    section: String,
    /// Number of blocks, from 2; each link runs once per block
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..=100_000), default_value_t = 10)]
    blocks: u32,
    /// Start no block after this time, above 0; accepts 90, 90s, 10m and 2h [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    budget: Option<f64>,
    /// Seed of all random choices, from 0 [default: random, recorded in the file]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Exit with 5 if the floor is above this, in per cent, above 0 and below 100 [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = values::share)]
    fail_above: Option<f64>,
    /// Start the links themselves, not fresh copies, for programs that look for files next to them
    #[arg(long)]
    in_place: bool,
    /// Metric of the benchmark: cpu-time, elapsed, task-clock, cycles, instructions, ...
    #[arg(long, value_name = "METRIC", default_value = "cpu-time")]
    primary: String,
    #[command(flatten)]
    runs: RunOptions,
    /// File to write the runs to [default: no file, unless the experiment is interrupted]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Benchmark: {program} is the link to run; a single word with blanks runs in a shell
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let built = match (&arguments.build, &arguments.file) {
        (Some(build), Some(file)) => Some(PaddedLinks::make(build, file, arguments, ui)?),
        _ => None,
    };
    let text = plan_text(arguments, built.as_ref())?;
    let mut plan = plan::read(&text).map_err(|error| Error::new(ErrorCode::Usage, error.to_string()))?;
    plan.run.time = arguments.budget;
    let noise = session::beside(arguments.output.as_deref(), |path| {
        let experiment = session::begin(&plan, Path::new("."), arguments.seed, path, ui)?;
        let noise = NoiseOutput::of(&experiment)?;
        if arguments.json {
            ui.json(&noise)?
        } else {
            ui.result(&noise.text())?
        }
        Ok(noise)
    })?;
    Ok(arguments.fail_above.map_or(ExitCode::SUCCESS, |most| noise.judge((most * 1e8).round() / 1e6, ui)))
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Usage, message)
}

/// Returns a plan with one variant whose links differ only by padding.
fn plan_text(arguments: &Arguments, built: Option<&PaddedLinks>) -> Result<String> {
    let command = benchmark(&texts(&arguments.command)?)?;
    let (build, programs) = match &arguments.link {
        Some(link) => (link_table(arguments, link)?, String::new()),
        None => {
            let paths = built.map_or(&arguments.programs, |built| &built.programs);
            (String::new(), format!("programs = [{}]\n", list(&programs(paths)?)))
        }
    };
    Ok(format!(
        "sediment-eval = 1\nnoise-floor = false\nprimary = {}\n{}blocks = {}\nfresh-copies = {}\n{build}\n[[variant]]\nname = \"program\"\n{programs}{}",
        toml(&arguments.primary),
        arguments.runs.settings(),
        arguments.blocks,
        !arguments.in_place,
        arguments.runs.workload("benchmark", &command)
    ))
}

fn layouts(arguments: &Arguments) -> Result<u32> {
    let layouts = arguments.layouts.unwrap_or(10);
    if !(LEAST_LINKS..=1000).contains(&layouts) {
        return Err(usage(format!("--layouts {layouts}: give {LEAST_LINKS} to 1000 layouts")));
    }
    Ok(layouts)
}

/// Time limit of a build.
const LONGEST_BUILD: Duration = Duration::from_secs(24 * 3600);

/// Links that the wrapper made during a build.
struct PaddedLinks {
    programs: Vec<PathBuf>,
    /// Contains the links; deleted when dropped.
    _folder: TemporaryFolder,
}

impl PaddedLinks {
    fn make(build: &str, file: &Path, arguments: &Arguments, ui: &Ui) -> Result<Self> {
        let folder = TemporaryFolder::new()?;
        let stop = start::stop_on_signals()?;
        let [objects, log, none] =
            ["objects", "log", "none"].map(|name| files::folder(&folder.path().join(name)));
        let (objects, log, none) = (objects?, log?, none?);
        let name = file.file_name().ok_or_else(|| usage("--file names no file"))?;
        files::write_owned(&objects.join(layouts::NAME), name.as_encoded_bytes())?;
        let mut luck = Generator::new(arguments.seed.unwrap_or_else(session::new_seed));
        for number in 1..=self::layouts(arguments)? {
            let object = objects.join(format!("{number}.o"));
            padding_object::make(&object, layouts::SECTION, padding::draw(&mut luck), &stop)?;
        }
        toolbox::make(folder.path(), &toolbox::CompilerWords::default())?;
        let mut environment = toolbox::environment(folder.path(), &none, &log);
        environment.push((layouts::NOISE.into(), objects.into()));
        let here = std::env::current_dir().unwrap_or_default();
        let mut command =
            Command::new("sh", here, LONGEST_BUILD).with_arguments(["-c", build]).stopped_by(&stop);
        command.environment = environment;
        ui.note("building");
        observe(&command, 0)?.successful(&command)?;
        let programs = last_link(&log, name).map_or_else(Vec::new, |made| layouts::of_side(&made, "before"));
        if programs.len() < LEAST_LINKS as usize {
            let made = counted(programs.len(), "layout");
            return Err(Error::new(
                ErrorCode::NotMeasured,
                format!("the build made {made} of this file, and at least {LEAST_LINKS} are needed: the build did not link it through the wrapper, or linked it without the padding"),
            )
            .with_input(files::display(file))
            .with_hint(
                "remove the results of earlier builds, so that it is linked again; or give the link command: --link COMMAND",
            ));
        }
        Ok(Self { programs, _folder: folder })
    }
}

/// Returns the folder of layouts for the last link of an output with this name.
fn last_link(log: &Path, name: &OsStr) -> Option<PathBuf> {
    let text = files::read(&log.join(LINKS)).ok()?;
    let text = String::from_utf8_lossy(&text);
    let links = text.lines().filter_map(|line| serde_json::from_str::<LoggedLink>(line).ok());
    let of_output = links.filter(|link| Path::new(&link.output).file_name() == Some(name));
    of_output.filter_map(|link| link.layouts).next_back().map(PathBuf::from)
}

fn link_table(arguments: &Arguments, link: &str) -> Result<String> {
    let layouts = layouts(arguments)?;
    let command = CommandLine::Shell(link.to_owned());
    if !command.mentions("padding_object") && !command.mentions("seed") {
        return Err(usage("the link command has no {padding_object}, so all links would be the same")
            .with_hint("put it first among the objects: --link 'cc {padding_object} a.o b.o -o {output}'"));
    }
    if !command.mentions("output") {
        return Err(usage("the link command has no {output}, the name of the file to write")
            .with_hint("--link 'cc {padding_object} a.o b.o -o {output}'"));
    }
    Ok(format!(
        "\n[build]\nlink = {}\nreplicas = {layouts}\nsection = {}\n",
        toml(link),
        toml(&arguments.section)
    ))
}

fn programs(paths: &[PathBuf]) -> Result<Vec<String>> {
    if paths.len() < LEAST_LINKS as usize {
        return Err(usage(format!(
            "--programs has {}: give {LEAST_LINKS} or more",
            counted(paths.len(), "program")
        ))
        .with_hint("--link makes such programs, which differ by padding"));
    }
    texts(&paths.iter().map(|path| path.clone().into_os_string()).collect::<Vec<_>>())
}

/// Returns the benchmark's command in TOML: a text for the shell, or a list.
fn benchmark(words: &[String]) -> Result<String> {
    if !words.iter().any(|word| word.contains("{program}")) {
        return Err(usage("the benchmark does not run {program}, so all links would measure the same")
            .with_hint(
                "name the program after --, for example -- {program} input, or -- ./bench.sh {program}",
            ));
    }
    match words {
        [text] if text.contains(char::is_whitespace) => Ok(toml(text)),
        words => Ok(format!("[{}]", list(words))),
    }
}

/// Output of `eval noise --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NoiseOutput {
    schema: Schema<1>,
    /// Metric that decides.
    metric: String,
    /// Floor of the differences between two links of the same code: 95 % of them are smaller.
    floor_percent: f64,
    /// 95 % confidence interval of the floor; a lower end of 0 means that no difference between layouts is shown.
    floor_interval_percent: [f64; 2],
    /// Standard deviation between layouts.
    between_layouts_percent: f64,
    /// Standard deviation between runs of one layout.
    between_runs_percent: f64,
    /// p-value of no difference between layouts.
    p: f64,
    /// Number of layouts that were measured.
    layouts: usize,
    /// Number of runs of each layout.
    blocks: usize,
    /// Seed of all random choices, in decimal digits.
    #[cfg_attr(test, schemars(extend("pattern" = "^[0-9]+$")))]
    seed: String,
    /// Warnings, as text for people.
    warnings: Vec<String>,
}

impl NoiseOutput {
    fn of(experiment: &Experiment) -> Result<Self> {
        let analysis = analyse(experiment)?;
        let missing = || {
            let message =
                format!("no floor: every link needs values of {} above 0 in two blocks", experiment.primary);
            Error::new(ErrorCode::NotMeasured, message)
                .with_hint("give a larger --budget, or another --primary")
        };
        let workload = analysis.workloads.first().ok_or_else(missing)?;
        if let Some(why) = workload.unjudged.iter().flatten().next() {
            return Err(Error::new(ErrorCode::NotMeasured, format!("no floor: {why}")));
        }
        let (Some(at), Some(LayoutNoise { floor, layouts, blocks }), Some(split)) =
            (workload.headline, workload.layout_noise, workload.components)
        else {
            return Err(missing());
        };
        Ok(Self {
            schema: Schema,
            metric: analysis.metrics[at].name.clone(),
            floor_percent: 100.0 * floor.estimate,
            floor_interval_percent: [100.0 * floor.lower, 100.0 * floor.upper],
            between_layouts_percent: 100.0 * split.between_links,
            between_runs_percent: 100.0 * split.within_links,
            p: split.p,
            layouts,
            blocks,
            seed: experiment.seed.to_string(),
            warnings: workload.warnings.clone(),
        })
    }

    /// Returns the exit code; `most` is the largest allowed floor.
    fn judge(&self, most: f64, ui: &Ui) -> ExitCode {
        let (floor, [_, upper]) = (self.floor_percent, self.floor_interval_percent);
        if floor > most {
            ui.note(&format!("failed: the noise floor of {} is above {most} %", percent(floor)));
            return ExitCode::from(BELOW_THRESHOLD);
        }
        if upper > most {
            ui.note(&format!(
                "passed: the noise floor is {} (at most {}); more --layouts or --blocks narrow the interval",
                percent(floor),
                percent(upper)
            ));
        }
        ExitCode::SUCCESS
    }

    fn text(&self) -> String {
        let [lower, upper] = self.floor_interval_percent.map(percent);
        let metric = &self.metric;
        let floor = if self.floor_interval_percent[0] > 0.0 {
            format!(
                "two links of the same code differ by up to {} in {metric} (95 % interval: {lower} to {upper})\n  \
                 a smaller change between two links may come from the layout alone\n",
                percent(self.floor_percent)
            )
        } else {
            format!(
                "no difference between layouts is shown: two links of the same code differ by less than {upper} in {metric}\n"
            )
        };
        let mut text = format!(
            "{floor}  between layouts: {} ({} layouts)\n  between runs of one layout: {} ({} runs each)\n",
            percent(self.between_layouts_percent),
            self.layouts,
            percent(self.between_runs_percent),
            self.blocks
        );
        for warning in &self.warnings {
            text += &format!("  warning: {warning}\n");
        }
        text
    }
}

/// Formats a percentage with a useful number of decimals.
fn percent(value: f64) -> String {
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.places$} %")
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<NoiseOutput>("eval-noise");
}
