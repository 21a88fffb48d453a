// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records with perf. Branch records contain the last few calls before each sample; they need a processor that has them
//! and a machine that exposes them. Samples with call stacks, unwound by frame pointers, show hot code and its callers.
//! Samples are taken by processor cycles if these are counted, otherwise by the kernel's clock.
//!
//! When perf is asked to end a recording, it ends the program that it started.

use super::attend::attend;
use super::tracing::system::may_record_branches;
use super::{RecordSettings, Recorded, RecordedData, Recorder, RecordingJob, RecordingTarget, Until};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::probe;
use sediment_read::read::check_events;
use std::process::Command;
use std::time::Duration;

/// Branch records.
pub(super) const BRANCHES: Recorder = Recorder {
    name: "perf-branches",
    summary: "calls by the processor's branch records, at nearly full speed",
    lacks: "own cost, and everything between samples",
    traces: false,
    counts_all: false,
    tells_addresses: true,
    available: branches_available,
    suits,
    serves_best: has_branches,
    record: record_branches,
};

/// Call stacks.
pub(crate) const STACKS: Recorder = Recorder {
    name: "perf-stacks",
    summary: "samples of cycles (of the clock, if cycles are not counted) with call stacks, at nearly full speed",
    lacks: "call counts and time order; functions without a frame pointer hide their callers",
    traces: false,
    counts_all: false,
    tells_addresses: true,
    available: stacks_available,
    suits,
    serves_best: samples_suffice,
    record: record_stacks,
};

const BRANCH_OPTIONS: [&str; 4] = ["-e", "branches:u", "-j", "any_call,u"];
/// Events of samples, the best first.
const SAMPLED: [&str; 2] = ["cycles:u", "cpu-clock:u"];
/// Time that a sample with its stack costs the program: 37 to 45 µs on a virtual machine.
const SAMPLE: Duration = Duration::from_micros(50);
/// Samples per second of processor time: limits, and the number without a given overhead.
const FEWEST: f64 = 50.0;
const MOST: f64 = 4000.0;
const USUAL: f64 = 1000.0;

const INSTALL: &str =
    "install perf: linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora, openSUSE, Arch)";

fn suits(_: &RecordingTarget, settings: &RecordSettings) -> Result<()> {
    match settings.until {
        Until::Output => Err(Error::new(ErrorCode::Usage, "perf cannot stop at the program's first output")),
        _ => Ok(()),
    }
}

const NO_BRANCHES: &str =
    "no branch records: the processor has none, or the virtual machine does not expose them";

/// Asks the kernel, because a start of perf takes longer than the recording of a short program.
fn has_branches(_: &RecordingTarget, _: &RecordSettings) -> Result<()> {
    if may_record_branches() { Ok(()) } else { Err(Error::new(ErrorCode::Unsupported, NO_BRANCHES)) }
}

/// Samples miss blocks that are executed rarely.
fn samples_suffice(target: &RecordingTarget, settings: &RecordSettings) -> Result<()> {
    match target {
        RecordingTarget::Program(_) if settings.addresses => {
            Err(Error::new(ErrorCode::Unsupported, "valgrind counts every block"))
        }
        _ => Ok(()),
    }
}

fn branches_available() -> Result<()> {
    let none = NO_BRANCHES;
    let way_out = "not needed: `record` counts calls without them";
    // A recording that fails takes longer, because perf first reads all symbols of the kernel.
    probe("perf", &["--version"], INSTALL)?;
    if count(BRANCH_OPTIONS[1]).is_ok_and(|said| said.contains("<not supported>")) {
        return Err(why_not(none, way_out));
    }
    try_out(&BRANCH_OPTIONS, none, way_out)
}

fn stacks_available() -> Result<()> {
    try_out(
        &["-e", SAMPLED[1], "-g"],
        "perf cannot sample here",
        "in a container allow it with --cap-add=PERFMON",
    )
}

/// Records a program that does nothing.
fn try_out(options: &[&str], otherwise: &str, way_out: &str) -> Result<()> {
    probe("perf", &["--version"], INSTALL)?;
    let unwritten = |error: std::io::Error| {
        Error::new(ErrorCode::Io, format!("cannot store perf's file: {error}"))
            .with_hint("is the folder of temporary files (TMPDIR) writable?")
    };
    let file = tempfile::NamedTempFile::new().map_err(unwritten)?;
    let path = file.path().to_string_lossy();
    let mut arguments = vec!["record", "-q", "-o", &path];
    arguments.extend(options);
    arguments.extend(["--", "true"]);
    if probe("perf", &arguments, "").is_ok() {
        // Exit status 0 is not enough: perf also succeeds if it finds none of the events.
        return check_events(&std::fs::read(&path[..]).map_err(unwritten)?).map_err(|error| {
            Error::new(ErrorCode::Unsupported, "perf has no events here")
                .with_hint(error.hint().unwrap_or_default())
        });
    }
    Err(why_not(otherwise, way_out))
}

/// Returns the reason why perf records nothing: missing permission, or `otherwise`.
fn why_not(otherwise: &str, way_out: &str) -> Error {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let forbidden = paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2);
    if forbidden && !nix::unistd::geteuid().is_root() {
        let message = format!(
            "only root may count events on this machine (kernel.perf_event_paranoid = {})",
            paranoid.trim()
        );
        return Error::new(ErrorCode::Unsupported, message)
            .with_hint("record as root, or allow it: sudo sysctl kernel.perf_event_paranoid=2");
    }
    Error::new(ErrorCode::Unsupported, otherwise).with_hint(way_out)
}

fn record_branches(job: &mut RecordingJob<'_>) -> Result<Recorded> {
    let [option, event, rest @ ..] = BRANCH_OPTIONS;
    let settings = job.settings;
    let event = settings.event.as_deref().unwrap_or(event);
    let mut options = vec![option, event];
    options.extend(rest);
    let rate = job.settings.frequency.map(|rate| rate.to_string());
    options.extend(rate.iter().flat_map(|rate| ["-F", rate]));
    record(job, &options)
}

fn record_stacks(job: &mut RecordingJob<'_>) -> Result<Recorded> {
    let rate = job.settings.frequency.unwrap_or_else(|| samples_in_a_second(job.settings, most_samples()));
    let settings = job.settings;
    let event = match &settings.event {
        Some(event) => event,
        None => event_of_samples(),
    };
    record(job, &["-e", event, "-g", "-F", &rate.to_string()])
}

/// True if the processor counts cycles and the machine exposes the counter.
pub(super) fn counts_cycles() -> bool {
    event_of_samples() == SAMPLED[0]
}

/// Returns the event for samples on this machine. A virtual machine may hide the processor's counters.
fn event_of_samples() -> &'static str {
    let event = SAMPLED[0];
    let is_counted = |said: String| said.contains(event.trim_end_matches(":u")) && !said.contains("<not ");
    if count(event).is_ok_and(is_counted) { event } else { SAMPLED[1] }
}

/// Returns perf's output on an event that it counts in a program that does nothing.
fn count(event: &str) -> Result<String> {
    probe("perf", &["stat", "-x,", "--log-fd", "1", "-e", event, "--", "true"], "")
}

/// Number of samples per second of processor time that fits the allowed cost of the recording.
fn samples_in_a_second(settings: &RecordSettings, most: f64) -> u32 {
    let rate = settings.overhead.map_or(USUAL, |overhead| overhead / SAMPLE.as_secs_f64());
    rate.min(MOST).min(most).max(FEWEST).round() as u32
}

/// Largest number of samples per second that the kernel allows.
fn most_samples() -> f64 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_default();
    text.trim().parse().unwrap_or(MOST)
}

fn record(job: &mut RecordingJob<'_>, options: &[&str]) -> Result<Recorded> {
    suits(job.target, job.settings)?;
    let file = job.folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-o"]).arg(&file).args(options);
    let started = match job.target {
        RecordingTarget::Program(words) => {
            perf.arg("--").args(words);
            true
        }
        RecordingTarget::Processes(ids) => {
            let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
            perf.args(["-p", &ids.join(",")]);
            false
        }
        RecordingTarget::System => {
            perf.arg("-a");
            false
        }
    };
    let outcome = attend(perf, job, true)?;
    if !file.exists() {
        return Err(Error::new(ErrorCode::ProgramFailed, "perf wrote no recording")
            .with_hint("its messages are above"));
    }
    Ok(Recorded { kept: RecordedData::Files(vec![file]), outcome: started.then_some(outcome) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_the_budget() {
        let of = |overhead: f64, most| {
            let overhead = Some(overhead);
            samples_in_a_second(&RecordSettings { overhead, ..RecordSettings::default() }, most)
        };
        assert_eq!(of(0.05, 1e6), 1000, "50 ms in a second");
        assert_eq!(of(0.5, 1e6), 4000);
        assert_eq!(of(0.05, 500.0), 500, "the kernel allows no more");
        assert_eq!(of(0.0001, 1e6), 50);
        assert_eq!(samples_in_a_second(&RecordSettings::default(), 1e6), 1000);
    }
}
