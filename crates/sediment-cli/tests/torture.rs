// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment record` on programs that are difficult to trace, under restrictions, and with every kind of end. Each run
//! is compared with the same run without a recorder: the output, exit code and signals must be the same; code in memory
//! must equal the files once the program is detached; nothing may stay stopped or running; the profile must be kept;
//! and all of it must end in limited time.
//!
//! The short form runs each scenario once or a few times, except long ones. Environment variables request more:
//!   SEDIMENT_REPEATS=N runs each scenario N times, with seeds from SEDIMENT_SEED (1) on
//!   SEDIMENT_JOURNAL=FILE keeps what was run, and does not run it again
//!   SEDIMENT_MINUTES=N begins no further run after so long
//!   SEDIMENT_LOAD=N brings the machine to this load average first
//!   SEDIMENT_PARAMETERS="…" replaces drawn parameters, as they are printed where a run fails
//!   SEDIMENT_SERVER_SECONDS=N how long PostgreSQL is attached to and let go under load (600)
//!   SEDIMENT_PATIENCE=SECONDS what counts as hung (60), up to six times as long on a loaded machine

#[path = "torture/bench.rs"]
mod bench;
#[path = "torture/catalogue.rs"]
mod catalogue;
#[path = "torture/fault.rs"]
mod fault;
#[path = "torture/journal.rs"]
mod journal;
#[path = "torture/kills.rs"]
mod kills;
#[path = "torture/made.rs"]
mod made;
#[path = "torture/parameters.rs"]
mod parameters;
#[path = "torture/plan.rs"]
mod plan;
#[path = "torture/processes.rs"]
mod processes;
#[path = "torture/real.rs"]
mod real;
#[path = "torture/scenario.rs"]
mod scenario;
#[path = "torture/servers.rs"]
mod servers;
#[path = "torture/special.rs"]
mod special;
#[path = "torture/strange.rs"]
mod strange;

use bench::Bench;
use fault::FaultKind;
use journal::TortureJournal;
use libtest_mimic::{Arguments, Trial};
use scenario::Scenario;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    let arguments = Arguments::from_args();
    let bench = Arc::new(Bench::new());
    let journal = Arc::new(TortureJournal::open());
    let scenarios = [
        catalogue::scenarios(),
        special::scenarios(),
        real::scenarios(),
        servers::scenarios(),
        strange::scenarios(),
        kills::scenarios(),
    ];
    let mut trials: Vec<Trial> =
        scenarios.into_iter().flatten().map(|scenario| trial(scenario, &bench, &journal)).collect();
    trials.push(Trial::test("printed_parameters_can_be_run_again", || {
        parameters::printed_parameters_can_be_run_again();
        Ok(())
    }));
    let load = (!arguments.list).then(|| under_load(&bench)).flatten();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(mut load) = load {
        let _ = load.kill();
        let _ = load.wait();
    }
    journal.print_table();
    conclusion.exit();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: this is no number")))
}

fn trial(scenario: Scenario, bench: &Arc<Bench>, journal: &Arc<TortureJournal>) -> Trial {
    let (bench, journal, name) = (Arc::clone(bench), Arc::clone(journal), scenario.name);
    if let Some(why) = scenario.impossible() {
        return support::ignored(name, why);
    }
    if scenario.short == 0 && number("SEDIMENT_REPEATS").is_none() {
        return support::ignored(name, "runs with SEDIMENT_REPEATS alone");
    }
    let needs = scenario.needs.clone();
    support::case(name, &needs, move || run_all(&scenario, &bench, &journal))
}

/// Number of repetitions of a scenario of the short form after a fault.
const AGAIN: usize = 2;
/// Factor for the time limits of a recording that is repeated because it left no profile: a round of a program may take
/// as long, and so may the changes of its code.
const LONGER: u32 = 10;

/// Runs a scenario as often as requested. After all runs, fails with the first fault, reduced to a smaller run.
fn run_all(scenario: &Scenario, bench: &Bench, journal: &TortureJournal) {
    let asked = number("SEDIMENT_REPEATS").map(|repeats| (repeats as usize).min(scenario.at_most));
    let first = number("SEDIMENT_SEED").unwrap_or(1);
    let replaced = std::env::var("SEDIMENT_PARAMETERS").unwrap_or_default();
    for seed in first..first + asked.unwrap_or(scenario.short) as u64 {
        if journal.has(scenario.name, seed) {
            continue;
        }
        if journal.leaves() {
            continue;
        }
        let mut drawn = scenario.ranges.draw(seed).replaced_by(&replaced);
        let started = Instant::now();
        let mut outcome = scenario.run(bench, &drawn);
        // The short form runs together with other tests, where delays easily exceed limits, so a fault counts only if
        // it is repeated. In the long form each fault counts, except that programs which hardly run before they end
        // leave no profile; that counts only if it is repeated.
        if let Some(fault) =
            outcome.as_ref().err().filter(|fault| asked.is_none() || fault.kind == FaultKind::Lost)
        {
            eprintln!("{}, seed {seed}: run again after {fault:?}", scenario.name);
            if fault.kind == FaultKind::Lost {
                drawn.time *= LONGER;
                drawn.delay *= LONGER;
            }
            outcome = (0..AGAIN).map(|_| scenario.run(bench, &drawn)).find(Result::is_err).unwrap_or(Ok(()));
        }
        let smaller = outcome.err().map(|fault| match journal.fault(scenario.name, fault.kind) {
            // It is enough to reduce one fault of each kind.
            Some(_) => (drawn.clone(), fault),
            None => scenario.shrink(bench, &drawn, &fault),
        });
        journal.add(scenario.name, &drawn, smaller, started.elapsed());
    }
    let faults = journal.faults(scenario.name);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Loads the machine until its load average reaches the requested value.
fn under_load(bench: &Bench) -> Option<std::process::Child> {
    let wanted = number("SEDIMENT_LOAD")?;
    let limit = Duration::from_secs(600);
    let processes = wanted.to_string();
    let mut busy = Command::new(bench.tool("busy"));
    let busy = busy.args([&processes, "3600"]).stdin(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let average = || -> f64 {
        let text = std::fs::read_to_string("/proc/loadavg").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    while average() < wanted as f64 * 0.95 && started.elapsed() < limit {
        std::thread::sleep(Duration::from_secs(1));
    }
    eprintln!("load average {}", average());
    Some(busy)
}
