// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tracing process is killed at each of its steps: its calls of ptrace, and its writes into the program. The program
//! must go on as without a recorder.

use super::bench::{Bench, CommandExits, Made, ProcessExit, WatchedCommand};
use super::fault::{Fault, FaultKind};
use super::made::{FORKS, LOADS, THREADS, WORKS};
use super::parameters::Parameters;
use super::plan::{StartMode, TERM, difference, record, seconds, text, words_of};
use super::processes;
use super::scenario::{Scenario, special};
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let each = |name, made: Made, mode| {
        special(name, move |bench, parameters| at_each_step(bench, parameters, &made, mode))
            .rounds(2, 4)
            .threads(1, 3)
            .ranges(|ranges| ranges.time = (50, 150))
            .at_most(1)
    };
    vec![
        each("killed_at_each_step_of_calls", WORKS, StartMode::Start),
        each("killed_at_each_step_of_threads", THREADS, StartMode::Start),
        each("killed_at_each_step_of_children", FORKS, StartMode::Start),
        each("killed_at_each_step_of_dlopen", LOADS, StartMode::Start),
        each("killed_at_each_step_of_an_attach_to_calls", WORKS, StartMode::Attach),
        each("killed_at_each_step_of_an_attach_to_threads", THREADS, StartMode::Attach),
        each("killed_at_each_step_of_an_attach_to_children", FORKS, StartMode::Attach),
        each("killed_at_each_step_of_an_attach_to_dlopen", LOADS, StartMode::Attach),
    ]
}

/// Steps of a recording that are tried at most. Later ones repeat earlier ones, for other threads and processes.
const STEPS: usize = 500;
/// The short form tries one of so many steps.
const ONE_OF: usize = 151;

/// The words before a recorder that kill it at a step.
fn killed_at(bench: &Bench, step: usize) -> Vec<String> {
    let library = format!("LD_PRELOAD={}", text(&bench.library("kills")));
    vec!["env".to_owned(), library, format!("KILLED_AT={step}")]
}

fn at_each_step(bench: &Bench, parameters: &Parameters, made: &Made, mode: StartMode) -> Result<(), Fault> {
    let room = bench.room_of(parameters);
    let rounds = if mode == StartMode::Start { parameters.rounds } else { 0 };
    let program = [room.place(made), rounds.to_string(), parameters.threads.to_string()];
    let without = {
        let mut watched = room.start("without", &program);
        ended(&watched, made, mode)?;
        (watched.wait()?.command, watched.out())
    };
    let killed = room.path.join("killed");
    let long = super::number("SEDIMENT_REPEATS").is_some();
    let mut step = 1;
    while step <= STEPS {
        let _ = std::fs::remove_file(&killed);
        let mut words = killed_at(bench, step);
        words.extend(record(&room, parameters));
        let (report, watched) = match mode {
            StartMode::Start => {
                words.extend(words_of(&["--", "env", "-u", "LD_PRELOAD", "-u", "KILLED_AT"]));
                words.extend(program.iter().cloned());
                let mut watched = room.start("recorded", &words);
                (watched.wait()?, watched)
            }
            StartMode::Attach => {
                let mut target = room.start("recorded", &program);
                target.printed("ready\n")?;
                words.extend(seconds(parameters));
                words.extend(["--pid".to_owned(), target.program(made.name)?.to_string()]);
                room.start("recorder", &words).wait()?;
                ended(&target, made, mode)?;
                (target.wait()?, target)
            }
        };
        let Ok(at) = std::fs::read_to_string(&killed) else {
            eprintln!("{}: there is no step {step}", made.name);
            return Ok(());
        };
        judge(&report, &watched, made, (&without.0, &without.1))
            .map_err(|fault| fault.and(&format!("step {step}, {at} ({parameters})")))?;
        step += if long { 1 } else { ONE_OF };
    }
    Ok(())
}

/// Ends a program that runs until it is told to end.
fn ended(target: &WatchedCommand, made: &Made, mode: StartMode) -> Result<(), Fault> {
    if mode == StartMode::Start {
        return Ok(());
    }
    target.printed("ready\n")?;
    // What the recorder left has an effect now.
    std::thread::sleep(Duration::from_millis(30));
    processes::signal(target.program(made.name)?, TERM);
    Ok(())
}

/// Compares a program whose recorder was killed with the program alone. It may also not have begun.
fn judge(
    report: &CommandExits,
    watched: &WatchedCommand,
    made: &Made,
    (without, printed): (&ProcessExit, &str),
) -> Result<(), Fault> {
    let own = |(name, _): &&(String, ProcessExit)| name == made.name;
    let exit = report.orphans.iter().find(own).map_or(report.command, |(_, exit)| *exit);
    let begun = !watched.out().is_empty();
    if let Some(difference) = difference(&watched.out(), printed).filter(|_| begun) {
        return Err(Fault::new(FaultKind::Changed, difference));
    }
    if begun && exit != *without {
        let kind =
            if matches!(exit, ProcessExit::Signal(_)) { FaultKind::Killed } else { FaultKind::Changed };
        return Err(Fault::new(
            kind,
            format!("it ended with {exit:?} instead of {without:?}; {}", watched.err()),
        ));
    }
    Ok(())
}
