// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the probability that SIGKILL of only the tracing process ends a program; it cannot fail.

use super::bench::{Bench, Made};
use super::fault::Fault;
use super::made::{FORKS, LOADS, SERVES, THREADS, WORKS};
use super::parameters::{Parameters, Ranges};
use super::plan::{TERM, attached, record};
use super::processes;
use std::path::Path;
use std::time::Duration;

/// Kills this many tracing processes in each of several settings, and prints the number of programs that died because
/// of it.
pub(crate) fn measure(bench: &Bench, times: u64) {
    let seconds = |milliseconds: u32| (milliseconds, milliseconds);
    let settings = [
        ("attached, in the first 0.2 s", true, 0, (0, 200)),
        ("attached, after 2 s", true, 0, seconds(2000)),
        ("attached, bursts of 5 %, in the first second", true, 2, (0, 1000)),
        ("started by `record`, in the first 0.1 s", false, 0, (0, 100)),
        ("started by `record`, bursts of 5 %", false, 2, (0, 1000)),
    ];
    println!("| recording | tracing processes killed | programs that died within 0.5 s | by their end |");
    println!("|---|---:|---:|---:|");
    for (name, attach, startup, delay) in settings {
        let ranges = Ranges { delay, startup: (startup, startup), ..Ranges::default() };
        let (mut soon, mut in_the_end) = (0, 0);
        for seed in 1..=times {
            let mut drawn = ranges.draw(seed);
            drawn.overhead = 5;
            let made = [THREADS, FORKS, LOADS, WORKS, SERVES][seed as usize % 5];
            let died =
                died(bench, &drawn, &made, attach).unwrap_or_else(|fault| panic!("{name}: {}", fault.detail));
            soon += u32::from(died == Died::Soon);
            in_the_end += u32::from(died != Died::Not);
        }
        println!("| {name} | {times} | {soon} | {in_the_end} |");
    }
}

/// Time at which a program died because of it: within half a second, or later, when it was told to end and executed new
/// code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Died {
    Not,
    Soon,
    AtItsEnd,
}

fn died(bench: &Bench, parameters: &Parameters, made: &Made, attach: bool) -> Result<Died, Fault> {
    let room = bench.room();
    let program_words = [room.place(made), "0".to_owned(), "2".to_owned()];
    let (mut target, recorder);
    if attach {
        target = room.start("recorded", &program_words);
        target.printed("ready\n")?;
        let program = target.program(made.name)?;
        let words: Vec<String> =
            record(&room, parameters).into_iter().chain(["--pid".to_owned(), program.to_string()]).collect();
        recorder = Some(room.start("recorder", &words));
    } else {
        let words: Vec<String> =
            record(&room, parameters).into_iter().chain(["--".to_owned()]).chain(program_words).collect();
        target = room.start("recorded", &words);
        target.printed("ready\n")?;
        recorder = None;
    }
    let program = target.program(made.name)?;
    attached(recorder.as_ref().unwrap_or(&target), program)?;
    std::thread::sleep(Duration::from_millis(u64::from(parameters.delay)));
    let Some(tracer) = processes::tracer(program) else { return Ok(Died::Soon) };
    processes::signal(tracer, 9);
    std::thread::sleep(Duration::from_millis(500));
    let lives = Path::new(&format!("/proc/{program}/exe")).exists();
    processes::signal(program, TERM);
    let report = target.wait()?;
    let well = if attach {
        report.command.code() == 7
    } else {
        report.orphans.iter().any(|(_, ended)| ended.code() == 7)
    };
    Ok(match (lives, well) {
        (false, _) => Died::Soon,
        (true, false) => Died::AtItsEnd,
        (true, true) => Died::Not,
    })
}
