// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session of an experiment, new or resumed: programs, machine, counters, runs.

use super::builds;
use crate::files::{self, JournalFile, TemporaryFolder, Workshop};
use crate::start;
use crate::ui::Ui;
use indicatif::ProgressBar;
use sediment_core::plural::counted;
use sediment_core::{Error, ErrorCode, ErrorKind, Result};
use sediment_eval::Experiment;
use sediment_eval::import;
use sediment_eval::metrics;
use sediment_eval::plan::{Plan, ProgramSource, WorkloadKind};
use sediment_eval::run::journal::{self, RecordedExperiment};
use sediment_eval::run::processes::Processes;
use sediment_eval::run::{self, ExperimentProgress, Journal, Watcher};
use sediment_measure::clock::Clock;
use sediment_measure::{machine, perf_stat};
use sediment_process::Stop;
use std::path::{Path, PathBuf};

/// Makes a seed if the user gives none. Two experiments in the same second may have the same seed, which does no harm.
pub(super) fn new_seed() -> u64 {
    Clock::start(0.0).date() ^ (u64::from(std::process::id()) << 32)
}

/// Begins an experiment in a new file, and runs it.
pub(super) fn begin(
    plan: &Plan,
    folder: &Path,
    seed: Option<u64>,
    path: &Path,
    ui: &Ui,
) -> Result<Experiment> {
    let seed = seed.or(plan.run.seed).unwrap_or_else(new_seed);
    let folder = folder.canonicalize().map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot enter: {error}")).with_input(files::display(folder))
    })?;
    let mut file = JournalFile::create(path)?;
    let header = file.append(&journal::header(plan, &folder.to_string_lossy(), seed));
    match header.and_then(|()| journal::read(&files::read(path)?)) {
        Ok(recorded) => sit(plan, recorded, file, true, ui),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}

/// Makes an experiment in the user's file, or in a temporary one that is deleted after the report. If something fails,
/// the file stays, because the runs took time.
pub(super) fn beside<T>(output: Option<&Path>, experiment: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if let Some(path) = output {
        return experiment(path);
    }
    let folder = TemporaryFolder::new()?.keep();
    let path = folder.join("eval.jsonl");
    let done = experiment(&path);
    if done.is_ok() || !path.exists() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    done
}

/// Continues an experiment in a file.
pub(super) fn go_on(plan: &Plan, recorded: RecordedExperiment, path: &Path, ui: &Ui) -> Result<Experiment> {
    let file = JournalFile::go_on(path, recorded.whole as u64)?;
    sit(plan, recorded, file, false, ui)
}

fn sit(
    plan: &Plan,
    recorded: RecordedExperiment,
    mut file: JournalFile,
    is_new: bool,
    ui: &Ui,
) -> Result<Experiment> {
    let stop = start::stop_on_signals()?;
    let mut experiment = recorded.experiment.clone();
    let done = all(plan, &recorded, &mut experiment, &mut file, &stop, ui);
    let is_interrupted = |error: &Error| error.kind() == ErrorKind::Interrupted;
    let runs = experiment.observations.iter().filter(|run| !is_import(plan, run.workload)).count();
    let path = file.path().display().to_string();
    let go_on = format!("to continue: sediment eval resume {path}");
    match done {
        // A file without a run would prevent repeating the corrected command.
        Err(error) if is_new && runs == 0 && !(is_interrupted(&error) && has_built(plan, file.path())) => {
            file.remove();
            Err(if is_interrupted(&error) {
                Error::new(ErrorCode::Interrupted, "interrupted before the first run; nothing is kept")
            } else {
                error
            })
        }
        Err(error) if is_interrupted(&error) => {
            let what = if runs == 0 {
                format!("interrupted before the first run; {path} keeps what was built")
            } else {
                format!("interrupted after {}, kept in {path}", counted(runs, "run"))
            };
            Err(Error::new(ErrorCode::Interrupted, what).with_hint(go_on))
        }
        Err(error) => {
            if runs > 0 {
                ui.note(&format!("{path} keeps the runs so far"));
            }
            Err(error)
        }
        // The report uses the data that a later `eval report` will read.
        Ok(()) => Ok(journal::read(&files::read(file.path())?)?.experiment),
    }
}

fn is_import(plan: &Plan, workload: usize) -> bool {
    matches!(plan.workloads[workload].kind, WorkloadKind::Import(_))
}

/// True if the experiment file has a program that had to be built.
fn has_built(plan: &Plan, path: &Path) -> bool {
    let recorded = files::read(path).and_then(|bytes| journal::read(&bytes));
    let took_building = |variant: usize| {
        matches!(plan.variants[variant].source, ProgramSource::Built { .. } | ProgramSource::Spec { .. })
    };
    recorded.is_ok_and(|recorded| recorded.programs.keys().any(|(variant, _)| took_building(*variant)))
}

/// Refuses processors in `pin` that do not exist.
fn check_processors(plan: &Plan) -> Result<()> {
    let Ok(online) = files::read(Path::new("/sys/devices/system/cpu/online")) else { return Ok(()) };
    let online = String::from_utf8_lossy(&online).trim().to_owned();
    let is_there = |processor: u64| {
        online.split(',').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u64>(), last.parse::<u64>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&processor),
                _ => true,
            }
        })
    };
    match plan.run.pin.iter().find(|processor| !is_there(**processor)) {
        None => Ok(()),
        Some(missing) => Err(Error::new(
            ErrorCode::Usage,
            format!("processor {missing} does not exist (--pin, or pin in [run])"),
        )
        .with_hint(format!("online: {online}"))),
    }
}

fn all(
    plan: &Plan,
    recorded: &RecordedExperiment,
    experiment: &mut Experiment,
    file: &mut JournalFile,
    stop: &Stop,
    ui: &Ui,
) -> Result<()> {
    let folder = PathBuf::from(&recorded.folder);
    if plan.run.precision != experiment.precision {
        experiment.precision = plan.run.precision;
        file.append(&journal::precision(plan.run.precision))?;
    }
    import_files(plan, &folder, experiment, file, ui)?;
    if plan.is_import_only() {
        return Ok(());
    }
    check_processors(plan)?;
    let workshop = Workshop::new(None)?;
    let counters = perf_stat::survey(plan.run.counters.as_deref(), workshop.path(), stop)?;
    if let Some(refusal) = metrics::refusal(plan, &counters) {
        return Err(refusal);
    }
    let programs =
        builds::programs(plan, &folder, &builds::folder_beside(file.path()), recorded, stop, file, ui)?;
    for (name, value) in builds::facts(plan, &programs)? {
        run::set_fact(experiment, &name, value);
    }
    let root = Path::new("/");
    let state = machine::state(root);
    for warning in &state.warnings {
        file.append(&journal::warning(warning))?;
        ui.note(&warning.what);
        if !warning.command.is_empty() {
            ui.note(&format!("  to fix until the next boot: {}", warning.command));
        }
    }
    for (name, value) in state.facts.into_iter().chain(machine::tools()) {
        run::set_fact(experiment, &name, value);
    }
    if let Some(version) = &counters.version {
        let reach = if counters.user_space_only { ", user space only" } else { "" };
        run::set_fact(experiment, "perf", format!("{version}{reach}"));
    }
    if counters.passes.len() > 1 {
        let passes = format!(
            "{} for each measurement, because the processor counts few events at a time",
            counted(counters.passes.len(), "run")
        );
        run::set_fact(experiment, "counters", passes);
    }
    run::set_fact(experiment, "sediment", env!("CARGO_PKG_VERSION").to_owned());
    experiment.absent.clone_from(&counters.absent);
    say_what_is_absent(experiment, ui);
    file.append(&journal::absent(&experiment.absent))?;
    file.append(&journal::facts(&experiment.facts))?;
    let before = experiment.observations.iter().map(|o| o.at).fold(0.0, f64::max);
    let clock = Clock::start(0.0);
    let activity = machine::activity(root);
    let mut hands = Processes::new(plan, programs, &folder, workshop.path(), counters, stop, before);
    let mut watch = SessionProgress { bar: ui.progress(1), ui };
    let finished = run::run(plan, experiment, &mut hands, file, &mut watch, stop);
    watch.bar.finish_and_clear();
    let meanwhile = machine::between(&activity, &machine::activity(root), clock.seconds());
    for warning in &meanwhile.warnings {
        file.append(&journal::warning(warning))?;
        ui.note(&warning.what);
    }
    for (name, value) in &meanwhile.facts {
        run::set_fact(experiment, name, value.clone());
    }
    let finished = finished?;
    run::set_fact(experiment, "ended", finished.why);
    file.append(&journal::facts(&experiment.facts))
}

/// Prints one line for each reason, with the metrics that are missing because of it.
fn say_what_is_absent(experiment: &Experiment, ui: &Ui) {
    let mut reasons: Vec<&String> = experiment.absent.values().collect();
    reasons.sort();
    reasons.dedup();
    for reason in reasons {
        let of_reason = experiment.absent.iter().filter(|(_, why)| *why == reason);
        let names: Vec<&str> = of_reason.map(|(name, _)| name.as_str()).collect();
        ui.detail(&format!("not counted: {}: {reason}", names.join(", ")));
    }
}

/// Reads the files of workloads with imports, unless an earlier session did.
fn import_files(
    plan: &Plan,
    folder: &Path,
    experiment: &mut Experiment,
    file: &mut JournalFile,
    ui: &Ui,
) -> Result<()> {
    for (index, workload) in plan.workloads.iter().enumerate() {
        let WorkloadKind::Import(files) = &workload.kind else { continue };
        let is_there = experiment.observations.iter().any(|o| o.workload == index)
            || experiment.summaries.iter().any(|s| s.workload == index);
        if is_there {
            continue;
        }
        for (variant, planned) in plan.variants.iter().enumerate() {
            for path in files.get(&planned.name).into_iter().flatten() {
                // FILE#LABEL selects a table, unless a file has exactly this name.
                let whole = folder.join(path);
                let (path, label) = match path.rsplit_once('#') {
                    Some((file, label)) if !whole.exists() => (folder.join(file), Some(label)),
                    _ => (whole, None),
                };
                let imported = import::read(&files::read(&path)?, label)
                    .map_err(|error| error.with_input(files::display(&path)))?;
                if let Some(rows) = perf_stat::unknown_rows(&imported.unknown) {
                    let text = format!("{}: {rows}", files::display(&path));
                    ui.note(&text);
                    file.append(&journal::note(&text))?;
                }
                for line in import::enter(plan, experiment, (index, variant), &imported) {
                    file.append(&line)?;
                }
            }
        }
    }
    run::choose_primary(plan, experiment);
    file.append(&journal::facts(&experiment.facts))
}

/// Shows the progress.
struct SessionProgress<'a> {
    bar: ProgressBar,
    ui: &'a Ui,
}

impl Watcher for SessionProgress<'_> {
    fn progress(&mut self, progress: &ExperimentProgress) {
        self.bar.set_length(progress.most_runs);
        self.bar.set_position(progress.runs);
        let mut text = format!("block {}", progress.blocks);
        if let Some(half) = progress.half_width {
            text += &format!(", ±{:.2} % (target ±{:.2} %)", 100.0 * half, 100.0 * progress.precision);
        }
        if let Some(left) = progress.seconds_left {
            let left = left.round() as u64;
            text += &format!(", at most {}:{:02} left", left / 60, left % 60);
        }
        self.bar.set_message(text);
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| self.ui.note(text));
    }

    fn printed(&mut self, text: &[u8]) {
        self.bar.suspend(|| self.ui.raw_error(text));
    }
}
