// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters by `perf stat`: finds out which of `EVENTS` this machine can count, and in how many passes, and counts a
//! run.
//!
//! perf is started with `-x,`, and its table is read. A processor counts a few hardware events at a time. If more are
//! requested, the kernel multiplexes, and perf scales the counts up. [`survey`] tries this once. If the kernel
//! multiplexed, it distributes the events over passes, which are further runs of the same program. Counts that perf
//! scaled nevertheless are marked.
//!
//! Events that cannot be counted are named once with the reason, and never become zeros.

use super::processor::{self, Processor};
use core::time::Duration;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::{Command, Stop, argument, run};
use std::collections::BTreeMap;
use std::path::Path;

/// An event that perf counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfEvent {
    /// Its name in perf.
    pub event: &'static str,
    /// Its metric.
    pub metric: &'static str,
    /// Unit of the metric's values here: `count` or `s`.
    pub unit: &'static str,
    /// True if the processor counts it; the kernel counts the others.
    pub hardware: bool,
}

const fn hardware(event: &'static str) -> PerfEvent {
    PerfEvent { event, metric: event, unit: "count", hardware: true }
}

const fn software(event: &'static str, metric: &'static str, unit: &'static str) -> PerfEvent {
    PerfEvent { event, metric, unit, hardware: false }
}

/// All events. Hardware events that are used in ratios are next to each other.
pub const EVENTS: &[PerfEvent] = &[
    hardware("cycles"),
    hardware("instructions"),
    hardware("iTLB-loads"),
    hardware("iTLB-load-misses"),
    hardware("L1-icache-load-misses"),
    hardware("branches"),
    hardware("branch-misses"),
    hardware("stalled-cycles-frontend"),
    hardware("stalled-cycles-backend"),
    hardware("cache-misses"),
    hardware("LLC-load-misses"),
    hardware("L1-dcache-load-misses"),
    software("task-clock", "task-clock", "s"),
    software("cpu-clock", "cpu-clock", "s"),
    software("context-switches", "context-switches", "count"),
    software("cpu-migrations", "cpu-migrations", "count"),
    software("minor-faults", "minor-faults", "count"),
    software("major-faults", "major-faults", "count"),
    software("duration_time", "elapsed", "s"),
    software("user_time", "user", "s"),
    software("system_time", "sys", "s"),
];

/// Events that can be counted here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountableEvents {
    /// The events of each pass over the program; the first pass also has the kernel's events. Empty if perf does not
    /// work at all.
    pub passes: Vec<Vec<&'static PerfEvent>>,
    /// Metrics that cannot be counted, and why.
    pub absent: BTreeMap<String, String>,
    /// perf's version line, if perf works.
    pub version: Option<String>,
    /// True if perf may only count in user space (`kernel.perf_event_paranoid`).
    pub user_space_only: bool,
}

/// A table of `perf stat`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatTable {
    /// Its counts, in their order.
    pub counts: Vec<StatCount>,
    /// Rows that are not understood.
    pub unknown: Vec<String>,
}

/// One line of perf's table, as [`row`] reads it.
#[derive(Debug, Clone, PartialEq)]
pub enum StatRow {
    /// An event with its value.
    Count(StatCount),
    /// A ratio that perf derives from counts of other rows, such as `,,,,0.21,stalled cycles per insn`.
    Metric,
    /// The count of a part of a run (`perf stat -I`), with the seconds from the run's start to the part's end.
    Interval(f64, StatCount),
    /// Anything else.
    Unknown,
}

/// One count of perf's table.
#[derive(Debug, Clone, PartialEq)]
pub struct StatCount {
    /// The event as perf printed it, without modifiers such as `:u`.
    pub event: String,
    /// Its modifiers, such as `u` for user space only; empty if there are none.
    pub modifiers: String,
    /// Kinds of cores on which it was counted, if a processor has several: `cpu_core`, `cpu_core+cpu_atom`. Otherwise
    /// empty.
    pub cores: String,
    /// Its value in the unit of the metric, or perf's own word for a missing value: `<not supported>`, `<not counted>`.
    pub value: std::result::Result<f64, String>,
    /// The unit of the value: `count`, `s`, `bytes`, or another unit of perf.
    pub unit: String,
    /// Per cent of the run during which it was counted; below 100 the value was scaled up.
    pub running: f64,
    /// With `perf stat -r`: standard error of the mean, in per cent of it.
    pub error_percent: Option<f64>,
}

impl StatCount {
    /// Adds `other` if it counts the same event of the same run on other cores; otherwise returns false.
    fn absorb_cores(&mut self, other: &Self) -> bool {
        let has_other = self.cores.split('+').any(|cores| cores == other.cores);
        if self.event != other.event || self.cores.is_empty() || other.cores.is_empty() || has_other {
            return false;
        }
        match (&mut self.value, &other.value) {
            (Ok(sum), Ok(value)) => {
                *sum += value;
                self.running = self.running.min(other.running);
            }
            // Not counted on cores on which the program never ran.
            (own @ Err(_), Ok(value)) => {
                *own = Ok(*value);
                self.running = other.running;
            }
            (_, Err(_)) => {}
        }
        self.cores = format!("{}+{}", self.cores, other.cores);
        true
    }
}

/// Adds up the counts of one event on several kinds of cores. `is_same`: both counts belong to the same run, or part of
/// one.
pub fn across_cores<T>(
    items: Vec<T>,
    count: impl Fn(&mut T) -> &mut StatCount,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<T> {
    /// Largest number of events in one table.
    const FAR: usize = 100;
    let mut sums: Vec<T> = Vec::with_capacity(items.len());
    for mut item in items {
        let own = count(&mut item).clone();
        let near = sums.iter_mut().rev().take(FAR);
        let mut same = near.filter(|sum| is_same(sum, &item));
        if own.cores.is_empty() || !same.any(|sum| count(sum).absorb_cores(&own)) {
            sums.push(item);
        }
    }
    sums
}

/// The event of this name.
#[must_use]
pub fn event(name: &str) -> Option<&'static PerfEvent> {
    EVENTS.iter().find(|event| event.event == name)
}

const PERF_HINT: &str =
    "install perf: linux-perf on Debian, linux-tools on Ubuntu, perf on Fedora, openSUSE, Arch and Alpine";

/// Events of the kernel, which a count of user space misses.
const IN_KERNEL: &[&str] = &["context-switches", "cpu-migrations", "minor-faults", "major-faults"];

const USER_SPACE_ONLY: &str =
    "perf may count in user space only here: sudo sysctl kernel.perf_event_paranoid=1";

/// Threshold below which a count is marked as scaled: per cent of the run in which it was counted.
const WHOLE_RUN: f64 = 99.5;

/// Finds out by trying which of the events (all if none is named) this machine counts; perf writes its file into the
/// folder.
///
/// # Errors
/// If `stop` is requested meanwhile. A missing perf is not an error: all events are absent then.
pub fn survey(wanted: Option<&[String]>, scratch: &Path, stop: &Stop) -> Result<CountableEvents> {
    let asked: Vec<&'static PerfEvent> = EVENTS
        .iter()
        .filter(|event| wanted.is_none_or(|names| names.iter().any(|name| name == event.metric)))
        .collect();
    let version = match sediment_process::command::probe("perf", &["--version"], PERF_HINT) {
        Ok(version) => version,
        Err(_) => {
            let why = format!("perf is not installed ({PERF_HINT})");
            let without = asked.iter().filter(|event| !KERNEL_SAYS_TOO.contains(&event.metric));
            return Ok(CountableEvents {
                absent: without.map(|event| (event.metric.to_owned(), why.clone())).collect(),
                ..CountableEvents::default()
            });
        }
    };
    let mut found = try_out(&asked, scratch, stop)?;
    found.version = Some(version);
    Ok(found)
}

/// Metrics also available without perf.
const KERNEL_SAYS_TOO: &[&str] =
    &["elapsed", "user", "sys", "minor-faults", "major-faults", "context-switches"];

fn try_out(asked: &[&'static PerfEvent], scratch: &Path, stop: &Stop) -> Result<CountableEvents> {
    // Long enough for the kernel to multiplex, short enough not to be noticed.
    let spin = Command::new("sh", scratch, Duration::from_secs(20))
        .with_arguments(["-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"])
        .stopped_by(stop);
    let mut found = CountableEvents::default();
    let table = match count(&spin, asked, scratch) {
        Ok(table) => table,
        Err(_) => {
            // A single event that this perf does not know makes all fail, so each is tried separately.
            stop.check()?;
            let mut table = StatTable::default();
            for event in asked {
                match count(&spin, &[*event], scratch) {
                    Ok(one) => {
                        table.counts.extend(one.counts);
                        table.unknown.extend(one.unknown);
                    }
                    Err(error) => {
                        stop.check()?;
                        let why = error.hint().unwrap_or("perf has no such event").to_owned();
                        found.absent.insert(event.metric.to_owned(), why);
                    }
                }
            }
            table
        }
    };
    let StatTable { counts, unknown } = table;
    // perf marks events that it could count only in user space. Kernel events would then wrongly read as zero.
    found.user_space_only = counts.iter().any(|count| count.modifiers.contains('u'));
    let counts_any = counts
        .iter()
        .any(|count| count.value.is_ok() && event(&count.event).is_some_and(|event| event.hardware));
    let mut hardware = Vec::new();
    let mut software = Vec::new();
    let mut took_turns = false;
    for event in asked {
        if found.absent.contains_key(event.metric) {
            continue;
        }
        match counts.iter().find(|count| count.event == event.event) {
            Some(StatCount { value: Err(why), .. }) if why.contains("not supported") => {
                found.absent.insert(event.metric.to_owned(), not_supported(event.event, counts_any));
            }
            Some(_) if found.user_space_only && IN_KERNEL.contains(&event.event) => {
                found.absent.insert(event.metric.to_owned(), USER_SPACE_ONLY.to_owned());
            }
            Some(count) if event.hardware => {
                took_turns |= count.value.is_err() || count.running < WHOLE_RUN;
                hardware.push(*event);
            }
            Some(_) => software.push(*event),
            None => {
                let why = unknown_rows(&unknown).map_or_else(
                    || "perf printed no row for it".to_owned(),
                    |rows| format!("perf printed unreadable rows for it ({rows})"),
                );
                found.absent.insert(event.metric.to_owned(), why);
            }
        }
    }
    let size = if took_turns { counted_at_once(&hardware, &spin, scratch, stop)? } else { hardware.len() };
    found.passes = passes(&hardware, &software, size);
    Ok(found)
}

/// Distributes the events: the software events to the first pass, and up to a number of hardware events to each.
fn passes(
    hardware: &[&'static PerfEvent],
    software: &[&'static PerfEvent],
    size: usize,
) -> Vec<Vec<&'static PerfEvent>> {
    let mut passes: Vec<Vec<&'static PerfEvent>> = hardware.chunks(size.max(1)).map(<[_]>::to_vec).collect();
    if passes.is_empty() {
        passes.push(Vec::new());
    }
    passes[0].extend_from_slice(software);
    passes.retain(|pass| !pass.is_empty());
    passes
}

/// Number of hardware events that can be counted together all the time.
fn counted_at_once(
    hardware: &[&'static PerfEvent],
    spin: &Command,
    scratch: &Path,
    stop: &Stop,
) -> Result<usize> {
    for size in [6, 4, 3, 2] {
        let mut whole = true;
        for group in hardware.chunks(size) {
            stop.check()?;
            let counts = count(spin, group, scratch)?.counts;
            whole &= counts.iter().all(|count| count.value.is_ok() && count.running >= WHOLE_RUN);
        }
        if whole {
            return Ok(size);
        }
    }
    Ok(1)
}

/// Reason why an event is not supported. `counts_any`: this machine counts other hardware events.
fn not_supported(event: &str, counts_any: bool) -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match Processor::of(&cpuinfo) {
        Some(processor) if processor.counts(event) == Some(None) => {
            format!("not supported: {} have no such event", processor.name())
        }
        _ if !counts_any && processor::is_virtual(&cpuinfo) => {
            "not supported: the hypervisor of this virtual machine provides no such counter".to_owned()
        }
        _ => "not supported: the processor, or its driver in the kernel, has no such counter".to_owned(),
    }
}

/// The command under `perf stat`, which writes its table to the file.
#[must_use]
pub fn under(command: &Command, events: &[&'static PerfEvent], file: &Path) -> Command {
    command.under("perf", arguments(events, file).into_iter().chain(["--".into()]))
}

/// Returns the command that counts in running processes, and in processes that they start later, until it is
/// interrupted.
#[must_use]
pub fn attached(processes: &[u32], events: &[&'static PerfEvent], file: &Path, like: &Command) -> Command {
    let list: Vec<String> = processes.iter().map(u32::to_string).collect();
    let arguments = arguments(events, file).into_iter().chain(["-p".into(), list.join(",").into()]);
    Command {
        program: "perf".into(),
        arguments: arguments.collect(),
        environment: Vec::new(),
        ..like.clone()
    }
}

fn arguments(events: &[&'static PerfEvent], file: &Path) -> Vec<std::ffi::OsString> {
    let list: Vec<&str> = events.iter().map(|event| event.event).collect();
    vec![
        "stat".into(),
        "-x,".into(),
        argument("--output=", file.as_os_str()),
        "-e".into(),
        list.join(",").into(),
    ]
}

/// Runs the command once under perf, and returns the counts.
fn count(command: &Command, events: &[&'static PerfEvent], scratch: &Path) -> Result<StatTable> {
    let file = scratch.join("perf-stat.csv");
    let wrapped = under(command, events, &file);
    run(&wrapped, 0)?.successful(&wrapped)?;
    read_counts(&file)
}

/// Reads the table that perf wrote, and removes it.
///
/// # Errors
/// If perf wrote none.
pub fn read_counts(file: &Path) -> Result<StatTable> {
    let text = std::fs::read(file);
    let _ = std::fs::remove_file(file);
    let text = text.map_err(|error| {
        Error::new(ErrorCode::ProgramFailed, format!("perf stat wrote no counts: {error}"))
    })?;
    Ok(table(&String::from_utf8_lossy(&text)))
}

/// Reads the table of `perf stat -x,` (also with `-r`). Comments, empty lines and metrics are skipped. Rows that are
/// not understood are counted, because perf's output depends on the processor.
#[must_use]
pub fn table(text: &str) -> StatTable {
    let mut table = StatTable::default();
    for line in text.lines().filter(|line| !is_comment(line)) {
        match row(line, ',') {
            StatRow::Count(count) => table.counts.push(count),
            StatRow::Metric => {}
            StatRow::Interval(..) | StatRow::Unknown => table.unknown.push(line.to_owned()),
        }
    }
    table.counts = across_cores(table.counts, |count| count, |_, _| true);
    table
}

/// True for an empty line or a comment in perf's machine-readable files.
#[must_use]
pub fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// Note on rows that were not understood: their number, and the first of them.
#[must_use]
pub fn unknown_rows(unknown: &[String]) -> Option<String> {
    let first: String = unknown.first()?.chars().take(200).collect();
    let plural = if unknown.len() == 1 { "row is" } else { "rows are" };
    Some(format!("{} {plural} unreadable, for example \"{first}\"", unknown.len()))
}

/// Reads one row with this separator. The fields, as perf's manual names them: with `-I` the time; value, unit, event;
/// with `-r` the deviation; running time in ns, its percentage, metric, and the metric's unit.
#[must_use]
pub fn row(line: &str, separator: char) -> StatRow {
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    let fields = match fields.split_first() {
        Some((time, behind)) if is_time(time) => {
            return match (row_of(behind), time.parse()) {
                (StatRow::Count(count), Ok(time)) => StatRow::Interval(time, count),
                (StatRow::Metric, _) => StatRow::Metric,
                _ => StatRow::Unknown,
            };
        }
        _ => fields,
    };
    row_of(&fields)
}

fn row_of(fields: &[&str]) -> StatRow {
    let [value, unit, event, rest @ ..] = fields else { return StatRow::Unknown };
    if let ("", "", "", [.., metric, name]) = (*value, *unit, *event, rest) {
        let is_metric = metric.parse::<f64>().is_ok() && name.contains(|c: char| c.is_ascii_alphabetic());
        return if is_metric { StatRow::Metric } else { StatRow::Unknown };
    }
    if event.is_empty() || !(value.starts_with('<') || value.parse::<f64>().is_ok()) {
        return StatRow::Unknown;
    }
    let (error_percent, rest) = match rest.split_first() {
        Some((first, behind)) if first.ends_with('%') => (first.trim_end_matches('%').parse().ok(), behind),
        _ => (None, rest),
    };
    let running = rest.get(1).and_then(|text| text.parse().ok()).unwrap_or(100.0);
    StatRow::Count(new_count(value, unit, event, running, error_percent))
}

/// True for the time that `-I` prints, in seconds with nine decimals; counts have fewer.
pub fn is_time(field: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    field.split_once('.').is_some_and(|(whole, part)| digits(whole) && part.len() == 9 && digits(part))
}

/// Returns the kind of cores on which an event was counted (empty if perf names none), and the event:
/// `cpu_core/cycles/u` is `cycles/u` on `cpu_core`.
fn on_cores(event: &str) -> (&str, &str) {
    let named = event.split_once('/').filter(|(cores, rest)| {
        (cores.starts_with("cpu_") || cores.starts_with("armv")) && rest.contains('/') && !rest.contains('=')
    });
    named.map_or(("", event), |(cores, rest)| (cores, rest.strip_suffix('/').unwrap_or(rest)))
}

/// Makes a count from the texts that perf prints, converted to the unit of its metric.
#[must_use]
pub fn new_count(
    value: &str,
    unit: &str,
    event: &str,
    running: f64,
    error_percent: Option<f64>,
) -> StatCount {
    let (cores, event) = on_cores(event);
    let (name, modifiers) = match event.rsplit_once([':', '/']) {
        Some((name, modifiers))
            if !modifiers.is_empty() && modifiers.bytes().all(|b| b"ukhHGIppDSe".contains(&b)) =>
        {
            (name, modifiers)
        }
        _ => (event, ""),
    };
    let (unit, exponent) = match unit {
        "" => ("count", 0),
        "msec" | "ms" => ("s", -3),
        "ns" => ("s", -9),
        "usec" | "us" => ("s", -6),
        "sec" => ("s", 0),
        other => (other, 0),
    };
    // Scaled in decimal, so that 1.37 msec becomes the number nearest to 0.00137.
    let number = if exponent == 0 { value.parse::<f64>() } else { format!("{value}e{exponent}").parse() };
    let value = number.map_err(|_| value.to_owned());
    StatCount {
        event: name.to_owned(),
        modifiers: modifiers.to_owned(),
        cores: cores.to_owned(),
        value,
        unit: unit.to_owned(),
        running,
        error_percent,
    }
}

/// True if a count was scaled up because it was not counted all the time.
#[must_use]
pub fn scaled(count: &StatCount) -> bool {
    count.value.is_ok() && count.running < WHOLE_RUN
}

/// Finds the signal that ended the program in perf's message on standard error; its own exit code is 0 then.
#[must_use]
pub fn signal_in_words(last_words: &str, program: &str) -> Option<String> {
    const SIGNALS: &[&str] = &[
        "Hangup",
        "Quit",
        "Illegal instruction",
        "Trace/breakpoint trap",
        "Aborted",
        "Bus error",
        "Floating point exception",
        "Killed",
        "User defined signal 1",
        "Segmentation fault",
        "User defined signal 2",
        "Alarm clock",
        "Terminated",
        "CPU time limit exceeded",
        "File size limit exceeded",
        "Bad system call",
        "Interrupt",
    ];
    let said = last_words.strip_prefix(program)?.strip_prefix(": ")?;
    SIGNALS.contains(&said).then(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_events_are_spread_over_passes_and_the_kernels_go_with_the_first() {
        let hardware: Vec<&PerfEvent> = EVENTS.iter().filter(|event| event.hardware).collect();
        let software: Vec<&PerfEvent> = EVENTS.iter().filter(|event| !event.hardware).collect();
        let split = passes(&hardware, &software, 4);
        assert_eq!(split.iter().map(Vec::len).collect::<Vec<_>>(), [4 + software.len(), 4, 4]);
        assert_eq!(split.concat().len(), EVENTS.len());
        assert_eq!(passes(&[], &software, 4), std::slice::from_ref(&software));
        assert!(passes(&[], &[], 4).is_empty());
    }
}
