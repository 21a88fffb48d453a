// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records by perf: branch records, where the processor has them and the machine shows them, which tell every call among the last
//! few before each sample; or call stacks by frame pointers, which tell who called whom when a sample was taken.
//!
//! perf ends the program that it started when it is asked to end the recording.

use super::attend::attend;
use super::{Job, Recorded, RecordedData, Recorder, Settings, Target, Until};
use crate::error::{Error, ErrorCode, Result};
use sediment_process::command::probe;
use std::process::Command;

/// Branch records.
pub(super) const BRANCHES: Recorder = Recorder {
    name: "perf-branches",
    summary: "calls by the processor's branch records, at nearly full speed",
    lacks: "own cost, and everything between samples",
    traces: false,
    available: branches_available,
    suits,
    record: record_branches,
};

/// Call stacks.
pub(crate) const STACKS: Recorder = Recorder {
    name: "perf-stacks",
    summary: "samples with call stacks, at nearly full speed",
    lacks: "call counts and time order; functions without a frame pointer hide their callers",
    traces: false,
    available: stacks_available,
    suits,
    record: record_stacks,
};

const BRANCH_OPTIONS: [&str; 4] = ["-e", "branches:u", "-j", "any_call,u"];
const STACK_OPTIONS: [&str; 3] = ["-e", "cpu-clock:u", "-g"];

const INSTALL: &str =
    "install perf: linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora, openSUSE, Arch)";

fn suits(_: &Target, settings: &Settings) -> Result<()> {
    match settings.until {
        Until::Output => Err(Error::new(ErrorCode::Usage, "perf cannot stop at the program's first output")),
        _ => Ok(()),
    }
}

fn branches_available() -> Result<()> {
    let none = "no branch records: the processor has none, or a virtual machine hides them";
    try_out(&BRANCH_OPTIONS, none, "not needed: breakpoints work without")
}

fn stacks_available() -> Result<()> {
    try_out(&STACK_OPTIONS, "perf cannot sample here", "in a container allow it with --cap-add=PERFMON")
}

/// Records a program that does nothing.
fn try_out(options: &[&str], otherwise: &str, way_out: &str) -> Result<()> {
    probe("perf", &["--version"], INSTALL)?;
    let mut arguments = vec!["record", "-q", "-o", "/dev/null"];
    arguments.extend(options);
    arguments.extend(["--", "true"]);
    if probe("perf", &arguments, "").is_ok() {
        return Ok(());
    }
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let forbidden = paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2);
    if forbidden && !nix::unistd::geteuid().is_root() {
        let message = format!(
            "only root may count events on this machine (kernel.perf_event_paranoid = {})",
            paranoid.trim()
        );
        return Err(Error::new(ErrorCode::Unsupported, message)
            .with_hint("record as root, or allow it: sudo sysctl kernel.perf_event_paranoid=2"));
    }
    Err(Error::new(ErrorCode::Unsupported, otherwise).with_hint(way_out))
}

fn record_branches(job: &mut Job<'_>) -> Result<Recorded> {
    record(job, &BRANCH_OPTIONS)
}

fn record_stacks(job: &mut Job<'_>) -> Result<Recorded> {
    record(job, &STACK_OPTIONS)
}

fn record(job: &mut Job<'_>, options: &[&str]) -> Result<Recorded> {
    suits(job.target, job.settings)?;
    let file = job.folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-o"]).arg(&file).args(options);
    let started = match job.target {
        Target::Program(words) => {
            perf.arg("--").args(words);
            true
        }
        Target::Processes(ids) => {
            let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
            perf.args(["-p", &ids.join(",")]);
            false
        }
        Target::System => {
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
