// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times links of programs that differ by padding, with planted changes, and counts how often the judge is right. `proofs/scripts/judge` runs
//! this.
//!
//! ```text
//! judge_coverage time TABLE ROUNDS LAYOUT… -- PROGRAM ARGUMENT…    PROGRAM is replaced by each layout; then it runs itself
//! judge_coverage judge FILE LAYOUT… -- PROGRAM ARGUMENT…           the first half of the layouts before, the other after; writes the sentence
//! judge_coverage compare TABLE…                                    prints shares, for a Markdown table
//! ```
#![allow(clippy::print_stdout)] // this program prints figures
#![allow(clippy::unwrap_used)] // a proof that cannot run must fail

use sediment_core::random::Generator;
use sediment_measure::judge::{self, Answer};
use sediment_process::Command;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Planted changes, as parts of the time of an unchanged run.
const PLANTED: [f64; 4] = [0.0, 0.01, 0.02, 0.05];
/// CPU time of one value, in seconds.
const LEAST: f64 = 0.06;
/// Duration of a judgement.
const TIME: Duration = Duration::from_secs(60);
/// Number of layouts of each build in a comparison, and number of comparisons of each program and change.
const LAYOUTS: usize = 5;
const COMPARISONS: u64 = 40;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    match words[0].as_str() {
        how @ ("time" | "judge") => {
            let split = words.iter().position(|word| word == "--").unwrap();
            let (options, command) = (&words[1..split], &words[split + 1..]);
            match how {
                _ if Path::new(&options[0]).exists() => {}
                "time" => time(&options[0], options[1].parse().unwrap(), &options[2..], &command[1..]),
                _ => judge_layouts(&options[0], &options[1..], &command[1..]),
            }
            panic!("{}", std::process::Command::new(&command[0]).args(&command[1..]).exec());
        }
        "compare" => compare(&words[1..]),
        other => panic!("{other}: unknown"),
    }
}

/// CPU seconds of a fresh copy of a layout that takes this number of nanoseconds longer.
fn run(layout: &str, arguments: &[String], nanoseconds: u64) -> f64 {
    let folder = env::current_dir().unwrap();
    let copy = folder.join("copy");
    fs::copy(layout, &copy).unwrap();
    let mut command = Command::new(&copy, &folder, Duration::from_secs(600)).with_arguments(arguments.iter());
    command.environment.push(("PLANTED".into(), format!("{nanoseconds:012}").into()));
    let ended = sediment_process::command::run(&command, 0).unwrap().successful(&command).unwrap();
    (ended.usage.user + ended.usage.system).as_secs_f64()
}

/// Number of runs of a layout for one value.
fn often(seconds: f64) -> usize {
    (LEAST / seconds).ceil().clamp(1.0, 50.0) as usize
}

/// Writes the judge's sentence about the second half of the layouts against the first half.
fn judge_layouts(file: &str, layouts: &[String], arguments: &[String]) {
    let half = layouts.len() / 2;
    let run = |at: usize| run(&layouts[at], arguments, 0);
    let often = often(run(0));
    let began = Instant::now();
    let cost = |build: usize, layout: usize| {
        Ok((0..often).map(|_| run(build * half + layout)).sum::<f64>() / often as f64)
    };
    let rounds =
        judge::rounds(&[half, half], TIME, &mut Generator::new(1), cost, || began.elapsed()).unwrap();
    let judgement = judge::judge(&rounds, 1).unwrap();
    fs::write(file, judgement.sentence(began.elapsed())).unwrap();
}

/// Writes a table: planted nanoseconds of each change, and a line for each round, change and layout with the seconds of a run.
fn time(table: &str, rounds: usize, layouts: &[String], arguments: &[String]) {
    let mean = |of: &dyn Fn() -> f64, times: usize| (0..times).map(|_| of()).sum::<f64>() / times as f64;
    let without = mean(&|| run(&layouts[0], arguments, 0), 10);
    let often = often(without);
    let nanoseconds = PLANTED.map(|share| (share * without * 1e9) as u64);
    let mut lines = format!("planted {}\n", nanoseconds.map(|each| each.to_string()).join(" "));
    let mut random = Generator::new(20_261_128);
    for round in 0..rounds {
        let mut turns: Vec<(usize, usize)> = (0..PLANTED.len())
            .flat_map(|change| (0..layouts.len()).map(move |layout| (change, layout)))
            .collect();
        random.shuffle(&mut turns);
        for (change, layout) in turns {
            let seconds = mean(&|| run(&layouts[layout], arguments, nanoseconds[change]), often);
            lines += &format!("{round} {change} {layout} {seconds:.7}\n");
        }
    }
    fs::write(format!("{table}.new"), lines).unwrap();
    fs::rename(format!("{table}.new"), table).unwrap();
}

/// Timings of a program: `seconds[round][change][layout]`.
struct Timings {
    name: String,
    seconds: Vec<Vec<Vec<f64>>>,
    planted: Vec<f64>,
}

impl Timings {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (head, rest) = text.split_once('\n').unwrap();
        let planted = head.split(' ').skip(1).map(|each| each.parse::<f64>().unwrap() * 1e-9).collect();
        let mut seconds: Vec<Vec<Vec<f64>>> = Vec::new();
        let mut rows: Vec<Vec<f64>> =
            rest.lines().map(|line| line.split(' ').map(|each| each.parse().unwrap()).collect()).collect();
        rows.sort_by(|one, other| one[..3].partial_cmp(&other[..3]).unwrap());
        for row in rows {
            let [round, change, _] = [0, 1, 2].map(|at| row[at] as usize);
            seconds.resize_with(seconds.len().max(round + 1), Vec::new);
            let changes = &mut seconds[round];
            changes.resize_with(changes.len().max(change + 1), Vec::new);
            changes[change].push(row[3]);
        }
        Self { name: path.file_stem().unwrap().to_string_lossy().into_owned(), seconds, planted }
    }

    /// Mean time of a run without a change, over all layouts and rounds.
    fn without(&self) -> f64 {
        let all: Vec<f64> = self.seconds.iter().flat_map(|round| round[0].iter().copied()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    }
}

/// Results of comparisons.
#[derive(Default, Clone, Copy)]
struct Outcomes {
    all: f64,
    holds: f64,
    said: f64,
    wrong: f64,
    announced: f64,
    found: f64,
    width: f64,
}

impl Outcomes {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.holds += other.holds;
        self.said += other.said;
        self.wrong += other.wrong;
        self.announced += other.announced;
        self.found += other.found;
        self.width += other.width;
    }
}

/// Compares builds with two planted changes, with randomly drawn layouts and rounds.
fn counts(timings: &Timings, before: usize, after: usize, random: &mut Generator) -> Outcomes {
    let mut counts = Outcomes::default();
    let cost = |change: usize| timings.without() + timings.planted[change];
    let truth = 1.0 - cost(after) / cost(before);
    for _ in 0..COMPARISONS {
        let mut layouts: Vec<usize> = (0..timings.seconds[0][0].len()).collect();
        random.shuffle(&mut layouts);
        let mut rounds: Vec<usize> = (0..timings.seconds.len()).collect();
        random.shuffle(&mut rounds);
        let mut runs = 0;
        let in_round = 2 * LAYOUTS;
        let done = std::cell::Cell::new(0_u64);
        let measured = judge::rounds(
            &[LAYOUTS, LAYOUTS],
            Duration::from_secs(rounds.len() as u64),
            &mut Generator::new(1),
            |build, layout| {
                let round = &timings.seconds[rounds[runs / in_round]];
                runs += 1;
                done.set((runs / in_round) as u64);
                Ok(round[[before, after][build]][layouts[build * LAYOUTS + layout]])
            },
            || Duration::from_secs(done.get()),
        )
        .unwrap();
        let judgement = judge::judge(&measured, 1).unwrap();
        let count = |is: bool| f64::from(u8::from(is));
        let is_said = matches!(judgement.answer(), Answer::Saves | Answer::Costs);
        let is_announced = truth != 0.0 && judgement.detectable <= truth.abs();
        counts.add(Outcomes {
            all: 1.0,
            holds: count(judgement.saved.lower <= truth && truth <= judgement.saved.upper),
            said: count(is_said),
            wrong: count(is_said && (truth == 0.0 || (judgement.saved.estimate > 0.0) != (truth > 0.0))),
            announced: count(is_announced),
            found: count(is_announced && is_said),
            width: judgement.saved.half_width(),
        });
    }
    counts
}

fn compare(tables: &[String]) {
    let programs: Vec<Timings> = tables.iter().map(|table| Timings::read(&PathBuf::from(table))).collect();
    let mut random = Generator::new(7);
    let share = |part: f64, all: f64| {
        if all > 0.0 { format!("{:.1} %", 100.0 * part / all) } else { "–".to_owned() }
    };
    println!(
        "| planted | comparisons | interval holds it | said to differ | said wrongly | announced | of these found |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    let mut by_program = vec![Outcomes::default(); programs.len()];
    let (mut all, mut equal, mut planted) = (Outcomes::default(), Outcomes::default(), Outcomes::default());
    for (before, after) in [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (3, 0), (0, 3)] {
        let mut sum = Outcomes::default();
        for (timings, own) in programs.iter().zip(&mut by_program) {
            let counts = counts(timings, before, after, &mut random);
            sum.add(counts);
            own.add(counts);
        }
        all.add(sum);
        if before == after { &mut equal } else { &mut planted }.add(sum);
        println!(
            "| {:+.0} % | {} | {} | {} | {} | {} | {} |",
            100.0 * (PLANTED[before] - PLANTED[after]),
            sum.all,
            share(sum.holds, sum.all),
            share(sum.said, sum.all),
            share(sum.wrong, sum.all),
            sum.announced,
            share(sum.found, sum.announced)
        );
    }
    println!(
        "\n| program | seconds of a run | interval holds it | half width | said wrongly |\n|---|--:|--:|--:|--:|"
    );
    for (timings, own) in programs.iter().zip(&by_program) {
        println!(
            "| {} | {:.3} | {} | ±{:.2} % | {} |",
            timings.name,
            timings.without(),
            share(own.holds, own.all),
            100.0 * own.width / own.all,
            share(own.wrong, own.all)
        );
    }
    let holds = all.holds / all.all >= 0.93
        && equal.wrong / equal.all <= 0.02
        && planted.found >= 0.9 * planted.announced;
    println!("\nThe claims {}.", if holds { "hold" } else { "do not hold" });
}
