// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real [`Runner`]: starts the programs of a plan through the meters, and reads their costs.

use super::schedule::PlannedRun;
use super::{Measurement, Runner, of_variant};
use crate::data::Circumstances;
use crate::plan::{
    self, CommandLine, Extraction, Placeholders, Plan, PlannedWorkload, ReadyPlan, ServerPlan, WorkloadKind,
};
use crate::{derive, metrics};
use core::time::Duration;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_measure::clock::Clock;
use sediment_measure::perf_stat::{self, CountableEvents, PerfEvent};
use sediment_measure::{machine, meter, pace, page_cache};
use sediment_process::background::{Background, Ready, signal};
use sediment_process::command::{EndedProcess, Outcome, observe};
use sediment_process::{Command, StandardInput, Stop};
use std::path::{Path, PathBuf};

/// Largest number of bytes of a program's output in which its work counter is searched.
const KEPT_OF_OUTPUT: usize = 8 << 20;

/// Number of lines shown of a program that failed.
const LAST_LINES: usize = 8;

/// Number of attempts to count a server by perf.
const ATTEMPTS: u32 = 3;

/// The variable that pads the environment.
const PADDING: &str = "SEDIMENT_EVAL_PADDING";

/// Starts processes.
#[derive(Debug)]
pub struct Processes<'a> {
    plan: &'a Plan,
    /// The started programs, by variant and replica.
    programs: Vec<Vec<PathBuf>>,
    /// The files from which they were copied; empty if the originals are started.
    originals: Vec<Vec<PathBuf>>,
    /// The folder that the plan's paths are relative to.
    folder: PathBuf,
    /// A folder for temporary files.
    scratch: PathBuf,
    counters: CountableEvents,
    stop: Stop,
    clock: Clock,
    wall_ahead: f64,
}

impl<'a> Processes<'a> {
    /// Makes a runner of programs by variant and replica, in the plan's order; `before`: seconds of earlier sessions.
    #[must_use]
    pub fn new(
        plan: &'a Plan,
        programs: Vec<Vec<PathBuf>>,
        folder: &Path,
        scratch: &Path,
        counters: CountableEvents,
        stop: &Stop,
        before: f64,
    ) -> Self {
        let (programs, originals) = if plan.run.fresh_copies {
            (copies(&programs, scratch), programs)
        } else {
            (programs, Vec::new())
        };
        Self {
            plan,
            programs,
            originals,
            folder: folder.to_owned(),
            scratch: scratch.to_owned(),
            counters,
            stop: stop.clone(),
            clock: Clock::start(before),
            wall_ahead: 0.0,
        }
    }

    fn program(&self, planned: &PlannedRun) -> &Path {
        &self.programs[planned.variant][planned.replica as usize]
    }

    /// Replaces the program by a fresh copy: the physical pages of a file affect cache misses, and would otherwise
    /// count as luck of its layout.
    fn refresh(&self, planned: &PlannedRun) -> Result<()> {
        let Some(links) = self.originals.get(planned.variant) else { return Ok(()) };
        let (original, copy) = (&links[planned.replica as usize], self.program(planned));
        let replace = || {
            if let Some(folder) = copy.parent() {
                std::fs::create_dir_all(folder)?;
            }
            // A new file has new pages; processes that still run keep the old one.
            match std::fs::remove_file(copy) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => std::fs::copy(original, copy).map(drop),
            }
        };
        replace().map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot copy the program to {}: {error}", copy.display()))
                .with_input(original.display().to_string())
        })
    }

    fn placeholders(&self, planned: &PlannedRun, program: &Path) -> Placeholders {
        Placeholders::default()
            .with("program", program.to_string_lossy())
            .with("variant", self.plan.variants[planned.variant].name.as_str())
            .with("replica", planned.replica.to_string())
            .with("scratch", self.scratch.to_string_lossy())
            .with("folder", self.folder.to_string_lossy())
            .with_words("arguments", self.plan.variants[planned.variant].arguments.iter().cloned())
    }

    /// A command of the workload, ready to run; not padded and not pinned.
    fn command(
        &self,
        line: &CommandLine,
        workload: &PlannedWorkload,
        values: &Placeholders,
    ) -> Result<Command> {
        let mut words = line.fill(values)?.into_iter();
        let program = words.next().unwrap_or_default();
        let limit = Duration::from_secs_f64(self.plan.run.time_limit);
        let mut command = Command::new(program, self.folder.join(&workload.folder), limit)
            .with_arguments(words)
            .stopped_by(&self.stop);
        command.environment =
            workload.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Ok(command)
    }

    /// Returns the command with the block's padding in its environment, and additional padding if its arguments are
    /// shorter than those of the longest variant, so that stacks begin at the same distance for all.
    fn padded(&self, command: Command, line: &CommandLine, planned: &PlannedRun) -> Result<Command> {
        let bytes = |variant: usize, replica: usize| -> Result<usize> {
            let program = &self.programs[variant][replica];
            let words = line.fill(
                &self.placeholders(&PlannedRun { variant, replica: replica as u32, ..*planned }, program),
            )?;
            // The kernel also puts the program's own path onto the stack.
            Ok(words.iter().map(|word| word.len() + 1).sum::<usize>() + words.first().map_or(0, String::len))
        };
        let mut longest = 0;
        for (variant, programs) in self.programs.iter().enumerate() {
            for replica in 0..programs.len() {
                longest = longest.max(bytes(variant, replica)?);
            }
        }
        let own = bytes(planned.variant, planned.replica as usize)?;
        let mut command = command;
        let length = planned.padding as usize + (longest - own);
        command.environment.push((PADDING.into(), "x".repeat(length).into()));
        Ok(command)
    }

    fn pinned(&self, command: Command) -> Command {
        if self.plan.run.pin.is_empty() {
            return command;
        }
        let list: Vec<String> = self.plan.run.pin.iter().map(u64::to_string).collect();
        command.under("taskset", ["--cpu-list".to_owned(), list.join(",")])
    }

    fn prepare(&self, workload: &PlannedWorkload, values: &Placeholders, planned: &PlannedRun) -> Result<()> {
        if let Some(line) = &workload.prepare {
            let command = self.command(line, workload, values)?;
            let ended = observe(&command, KEPT_OF_OUTPUT)?;
            self.check_outcome(&ended, &command, "prepare")?;
        }
        if self.plan.run.cold {
            let program = self.program(planned);
            let files = page_cache::program_and_libraries(program, &self.stop)?;
            page_cache::drop_from(&files)?;
        }
        Ok(())
    }

    /// Ok if the program exited with code 0; otherwise an error with its last lines.
    fn check_outcome(&self, ended: &EndedProcess, command: &Command, what: &str) -> Result<()> {
        self.stop.check()?;
        let how = match ended.outcome {
            Outcome::Exited(0) => match perf_stat::signal_in_words(
                &ended.last_words().unwrap_or_default(),
                &under_perf(command).unwrap_or_default(),
            ) {
                None => return Ok(()),
                Some(signal) => format!("was ended by a signal: {signal}"),
            },
            Outcome::Exited(_) if command.may_fail => return Ok(()),
            Outcome::Exited(code) => format!("failed with exit code {code}"),
            Outcome::Signalled(number) => format!("was ended by signal {number}"),
            Outcome::OutOfTime => {
                format!("was ended because it ran for longer than {} s", command.time_limit.as_secs_f64())
            }
            Outcome::Stopped => return Err(Error::new(ErrorCode::Interrupted, "interrupted")),
        };
        let lines = ended.last_lines(LAST_LINES);
        let hint = if lines.is_empty() {
            "no output".to_owned()
        } else {
            format!("the last lines of its output:\n{}", lines.join("\n"))
        };
        Err(Error::new(ErrorCode::ProgramFailed, format!("{what} {how}")).with_hint(hint))
    }

    fn run_passes(&self, planned: &PlannedRun) -> Result<Measurement> {
        let workload = &self.plan.workloads[planned.workload];
        self.refresh(planned)?;
        let mut measurement = Measurement::default();
        let (ready_tasks, pace) = (pace::ready_tasks(), pace::look());
        // Without perf there is a single pass, measured by the kernel's own accounts.
        let none = [Vec::new()];
        let passes = if self.counters.passes.is_empty() { &none[..] } else { &self.counters.passes[..] };
        for (index, events) in passes.iter().enumerate() {
            let mut pass = match &workload.kind {
                WorkloadKind::Command { command, input } => {
                    self.run_command(planned, workload, command, input.as_deref(), events)?
                }
                WorkloadKind::Server(server) => self.run_server_counted(planned, workload, server, events)?,
                WorkloadKind::Import(_) => Measurement::default(),
            };
            if index == 0 {
                measurement.work = pass.work;
                measurement.printed = pass.printed;
                measurement.circumstances =
                    Circumstances { pace: Some(pace), ready_tasks, ..pass.circumstances };
            }
            pass.values.append(&mut measurement.values);
            measurement.values = pass.values;
            measurement.scaled.append(&mut pass.scaled);
            measurement.absent.append(&mut pass.absent);
        }
        if let (WorkloadKind::Command { command, input }, Some(block)) = (&workload.kind, planned.block) {
            if self.plan.run.meter_blocks == 0 || block < self.plan.run.meter_blocks {
                self.run_meters(planned, workload, command, input.as_deref(), &mut measurement)?;
            }
        }
        // perf reports a time of zero as not counted. If the other time exists, the kernel has accounted both.
        let (user, sys) = (measurement.values.get("user"), measurement.values.get("sys"));
        if user.is_some() || sys.is_some() {
            let sum = user.unwrap_or(&0.0) + sys.unwrap_or(&0.0);
            measurement.values.insert(derive::CPU_TIME.to_owned(), sum);
        }
        Ok(measurement)
    }

    fn measured_command(
        &self,
        planned: &PlannedRun,
        workload: &PlannedWorkload,
        line: &CommandLine,
        input: Option<&str>,
    ) -> Result<Command> {
        let values = self.placeholders(planned, self.program(planned));
        self.prepare(workload, &values, planned)?;
        let mut command = self.padded(self.command(line, workload, &values)?, line, planned)?;
        if let Some(input) = input {
            command.input = StandardInput::File(self.folder.join(input));
        }
        command.may_fail = self.plan.run.ignore_failure;
        Ok(command)
    }

    fn run_command(
        &self,
        planned: &PlannedRun,
        workload: &PlannedWorkload,
        line: &CommandLine,
        input: Option<&str>,
        events: &[&'static PerfEvent],
    ) -> Result<Measurement> {
        let command = self.measured_command(planned, workload, line, input)?;
        let file = self.scratch.join("perf-stat.csv");
        let whole =
            if events.is_empty() { command.clone() } else { perf_stat::under(&command, events, &file) };
        let whole = self.pinned(whole);
        let show = self.plan.run.show_output;
        let keep = if show || self.reads_output(workload) { KEPT_OF_OUTPUT } else { 64 * 1024 };
        let ended = observe(&whole, keep)?;
        self.check_outcome(&ended, &whole, &command.name())?;
        let mut measurement = Measurement::default();
        self.read_output(workload, &ended, &mut measurement)?;
        if show {
            measurement.printed = [&ended.output[..], ended.errors()].concat();
        }
        if self.prints_the_same(planned) {
            measurement.circumstances.printed = Some(plan::sha256(&ended.output));
            measurement.circumstances.exit = match ended.outcome {
                Outcome::Exited(code) => Some(code),
                _ => None,
            };
        }
        if events.is_empty() {
            let usage = &ended.usage;
            let seconds = |name: &str, time: Duration, measurement: &mut Measurement| {
                measurement.values.insert(name.to_owned(), time.as_secs_f64());
            };
            seconds("elapsed", usage.wall, &mut measurement);
            seconds("user", usage.user, &mut measurement);
            seconds("sys", usage.system, &mut measurement);
            for (name, count) in [
                ("minor-faults", usage.minor_faults),
                ("major-faults", usage.major_faults),
                ("context-switches", usage.context_switches),
            ] {
                measurement.values.insert(name.to_owned(), count as f64);
            }
        } else {
            add_counts(&perf_stat::read_counts(&file)?, events, &mut measurement);
            drop_late_clock(&mut measurement);
        }
        Ok(measurement)
    }

    /// True if a build must print the same as the baseline.
    fn prints_the_same(&self, planned: &PlannedRun) -> bool {
        let arguments = |variant: usize| &self.plan.variants[variant].arguments;
        !self.plan.run.ignore_output && arguments(planned.variant) == arguments(self.plan.baseline)
    }

    fn run_meters(
        &self,
        planned: &PlannedRun,
        workload: &PlannedWorkload,
        line: &CommandLine,
        input: Option<&str>,
        measurement: &mut Measurement,
    ) -> Result<()> {
        for meter in self.plan.run.meters.iter().filter_map(|name| meter(name)) {
            let command = self.measured_command(planned, workload, line, input)?;
            let readings = (meter.run)(&command, &self.scratch)?;
            for reading in readings {
                let name = metrics::of_meter(meter.name, reading.quantity.name);
                measurement.values.insert(name, reading.value as f64);
            }
        }
        Ok(())
    }

    /// Like [`Self::run_server`], but repeated if perf counted nothing, because it may have come too late to a process
    /// that was ending.
    fn run_server_counted(
        &self,
        planned: &PlannedRun,
        workload: &PlannedWorkload,
        plan: &ServerPlan,
        events: &[&'static PerfEvent],
    ) -> Result<Measurement> {
        // If there are several events, some may not have been counted yet.
        let expected: Vec<&str> = events
            .iter()
            .filter(|event| event.metric == "task-clock" || event.hardware)
            .map(|event| event.metric)
            .collect();
        for _ in 0..ATTEMPTS {
            let measurement = self.run_server(planned, workload, plan, events)?;
            if expected.is_empty() || expected.iter().any(|metric| measurement.values.contains_key(*metric)) {
                return Ok(measurement);
            }
        }
        Err(Error::new(
            ErrorCode::NotMeasured,
            format!("perf counted no events of the server in {ATTEMPTS} attempts"),
        )
        .with_hint("does another process do the work? counters = [] in [run] measures without perf"))
    }

    fn run_server(
        &self,
        planned: &PlannedRun,
        workload: &PlannedWorkload,
        plan: &ServerPlan,
        events: &[&'static PerfEvent],
    ) -> Result<Measurement> {
        let values = self.placeholders(planned, self.program(planned));
        self.prepare(workload, &values, planned)?;
        let command = self.padded(self.command(&plan.server, workload, &values)?, &plan.server, planned)?;
        let stop = signal(&plan.stop)?;
        let mut server = Background::start(&self.pinned(command))?.ended_by(stop);
        let ready = match &plan.ready {
            ReadyPlan::Command(line) => Ready::Command(Box::new(self.command(line, workload, &values)?)),
            ReadyPlan::Port(address) => Ready::Port(address.clone()),
            ReadyPlan::Socket(path) => Ready::Socket(self.folder.join(path)),
            ReadyPlan::Log(text) => Ready::Log(text.clone()),
        };
        server.wait_until(&ready, Duration::from_secs_f64(plan.ready_limit))?;
        if let Some(line) = &plan.warm_up {
            let command = self.command(line, workload, &values)?;
            let ended = observe(&command, KEPT_OF_OUTPUT)?;
            self.check_outcome(&ended, &command, "the warm-up").map_err(|error| with_log(error, &server))?;
        }
        let client = self.command(&plan.client, workload, &values)?;
        let file = self.scratch.join("perf-stat-server.csv");
        let counter = if events.is_empty() { None } else { Some(attach(&server, events, &file, &client)?) };
        let before = server.account();
        let ended = observe(&client, KEPT_OF_OUTPUT)?;
        let after = server.account();
        // perf prints its counts when it is interrupted, and then exits with the signal's code.
        let stop_counting =
            |counter: Background| counter.end(signal("INT")?, Duration::from_secs(20)).map(drop);
        counter.map(stop_counting).transpose()?;
        self.check_outcome(&ended, &client, "the driver").map_err(|error| with_log(error, &server))?;
        if server.has_ended() {
            return Err(with_log(
                Error::new(ErrorCode::ProgramFailed, "the server ended during the measurement"),
                &server,
            ));
        }
        let mut measurement = Measurement::default();
        self.read_output(workload, &ended, &mut measurement)?;
        if !events.is_empty() {
            // These three belong to perf, not to the server.
            let of_server: Vec<&PerfEvent> = events
                .iter()
                .copied()
                .filter(|event| !["elapsed", "user", "sys"].contains(&event.metric))
                .collect();
            add_counts(&perf_stat::read_counts(&file)?, &of_server, &mut measurement);
        }
        let mut put = |name: &str, value: f64| {
            measurement.values.entry(name.to_owned()).or_insert(value);
        };
        put("elapsed", ended.usage.wall.as_secs_f64());
        put("user", after.user - before.user);
        put("sys", after.system - before.system);
        put("minor-faults", after.minor_faults.saturating_sub(before.minor_faults) as f64);
        put("major-faults", after.major_faults.saturating_sub(before.major_faults) as f64);
        if after.peak_memory > 0 {
            put(metrics::PEAK_MEMORY, after.peak_memory as f64);
        }
        server.end(stop, Duration::from_secs_f64(plan.stop_limit))?;
        Ok(measurement)
    }

    fn reads_output(&self, workload: &PlannedWorkload) -> bool {
        workload.work.is_some() || self.plan.metrics.iter().any(|metric| metric.extraction.is_some())
    }

    /// Reads work and metrics from the program's output, on standard output or standard error.
    fn read_output(
        &self,
        workload: &PlannedWorkload,
        ended: &EndedProcess,
        measurement: &mut Measurement,
    ) -> Result<()> {
        if !self.reads_output(workload) {
            return Ok(());
        }
        let output = String::from_utf8_lossy(&ended.output).into_owned();
        let errors = String::from_utf8_lossy(ended.errors()).into_owned();
        let find = |extraction: &Extraction| {
            extraction.numbers(&output).or_else(|error| extraction.numbers(&errors).map_err(|_| error))
        };
        if let Some((name, extraction)) = &workload.work {
            let numbers = find(extraction).map_err(|error| {
                let lines = ended.last_lines(LAST_LINES);
                Error::new(ErrorCode::NotMeasured, format!("no work counter ({name}): {error}"))
                    .with_hint(format!("the last lines of its output:\n{}", lines.join("\n")))
            })?;
            let work: f64 = numbers.iter().sum();
            if work <= 0.0 {
                return Err(Error::new(
                    ErrorCode::NotMeasured,
                    format!("it did no work: its counter ({name}) is {work}"),
                ));
            }
            measurement.work = Some(work);
        }
        for metric in &self.plan.metrics {
            let found = metric.extraction.as_ref().and_then(|extraction| find(extraction).ok());
            if let Some(value) = found.and_then(|numbers| numbers.last().copied()) {
                measurement.values.insert(metric.name.clone(), value);
            }
        }
        Ok(())
    }
}

/// Paths of fresh copies: one for all links of a variant, named after the first.
fn copies(programs: &[Vec<PathBuf>], scratch: &Path) -> Vec<Vec<PathBuf>> {
    let copy = |(variant, links): (usize, &Vec<PathBuf>)| {
        let name = links.first().and_then(|link| link.file_name()).unwrap_or_default();
        let path = scratch.join(format!("copy-{variant:03}")).join(name);
        vec![path; links.len()]
    };
    programs.iter().enumerate().map(copy).collect()
}

/// Attaches perf to a server's processes. perf fails if a process ends before it is attached, so only processes that
/// also existed a moment ago are named, and the attempt is repeated.
fn attach(
    server: &Background,
    events: &[&'static PerfEvent],
    file: &Path,
    like: &Command,
) -> Result<Background> {
    let mut tried = 0;
    loop {
        let before = server.processes();
        server.pause();
        let processes: Vec<u32> = server.processes().into_iter().filter(|id| before.contains(id)).collect();
        let mut counter = Background::start(&perf_stat::attached(&processes, events, file, like))?;
        match counter.wait_until(&Ready::Counting, Duration::from_secs(20)) {
            Ok(()) => return Ok(counter),
            Err(error) if error.kind() == sediment_core::ErrorKind::Interrupted || tried == 10 => {
                return Err(error);
            }
            Err(_) => tried += 1,
        }
    }
}

/// Returns perf's name for the program that it runs: the first word after `--`.
fn under_perf(command: &Command) -> Option<String> {
    let words: Vec<String> = std::iter::once(&command.program)
        .chain(&command.arguments)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let perf = words.iter().position(|word| word == "perf")?;
    let end = words.iter().skip(perf).position(|word| word == "--")?;
    words.get(perf + end + 1).cloned()
}

const LATE_CLOCK: &str = "in some runs perf started its clock after the program, so these runs have no counters; --no-counters (counters = [] in a plan) measures without perf";

/// perf starts its clock just after the program has begun. On a busy machine a short program may have finished its work
/// by then. If a run seems to have used more processors than there are, this has happened, and the elapsed time is
/// unknown.
fn drop_late_clock(measurement: &mut Measurement) {
    let value = |name: &str| measurement.values.get(name).copied().unwrap_or(0.0);
    let used = value("task-clock").max(value("user") + value("sys"));
    if used > 1.05 * value("elapsed") * machine::processors() as f64 {
        measurement.values.remove("elapsed");
        measurement.absent.insert("elapsed".to_owned(), LATE_CLOCK.to_owned());
    }
}

fn with_log(error: Error, server: &Background) -> Error {
    if error.kind() == sediment_core::ErrorKind::Interrupted {
        return error;
    }
    let log: Vec<String> = server.log().lines().rev().take(LAST_LINES).map(str::to_owned).collect();
    let mut hint = error.hint().map_or_else(String::new, |hint| format!("{hint}\n"));
    hint += "the last lines of the server's log:";
    for line in log.iter().rev() {
        hint += "\n";
        hint += line;
    }
    Error::new(error.code(), error.to_string()).with_hint(hint)
}

/// Name for rows of perf that are not understood.
const ROWS: &str = "rows of perf stat";

fn add_counts(table: &perf_stat::StatTable, events: &[&PerfEvent], measurement: &mut Measurement) {
    if let Some(rows) = perf_stat::unknown_rows(&table.unknown) {
        measurement.absent.insert(ROWS.to_owned(), rows);
    }
    for event in events {
        let Some(count) = table.counts.iter().find(|count| count.event == event.event) else { continue };
        if let Ok(value) = count.value {
            measurement.values.insert(event.metric.to_owned(), value);
            if perf_stat::scaled(count) {
                measurement.scaled.insert(event.metric.to_owned());
            }
        }
    }
}

impl Runner for Processes<'_> {
    fn seconds(&self) -> f64 {
        self.clock.seconds()
    }

    fn wall_jump(&mut self) -> f64 {
        let ahead = self.clock.wall_ahead();
        let jump = ahead - self.wall_ahead;
        self.wall_ahead = ahead;
        jump
    }

    fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
        self.run_passes(planned).map_err(|error| of_variant(self.plan, planned, error))
    }
}
