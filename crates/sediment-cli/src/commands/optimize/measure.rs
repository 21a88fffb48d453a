// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the training commands before and after, in the same tree: the outputs of the two builds take turns under
//! their names. A simulation of all processes by cachegrind shows if the time can differ at all. Then CPU time, or
//! cycles if perf counts them, is judged over links that differ only by padding.

use super::links::LinkedOutput;
use super::progress::{self, MeasurementProgress, RunProgress};
use super::runs::{self, RunPlace};
use super::stand_ins::{self, StandIns};
use crate::files;
use crate::ui::Ui;
use sediment_core::plural::counted;
use sediment_core::random::Generator;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_measure::cachegrind::{self, SimulatedCache, Totals};
use sediment_measure::clock::{self, Clock};
use sediment_measure::judge::{self, Judgement, Round};
use sediment_measure::machine;
use sediment_measure::pace;
use sediment_measure::perf_stat::{self, PerfEvent};
use sediment_process::command::{Outcome, argument, probe, run};
use sediment_process::{VALGRIND_HINT, left_behind};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit of the CPU seconds of a process under valgrind, so that only the beginning of longer work is simulated; and
/// the approximate slowdown under valgrind.
const SIMULATED: u64 = 30;
const SLOWDOWN: f64 = 50.0;
/// Figures of shortened work are given per this many instructions; and the least time of an instruction in nanoseconds:
/// three per cycle, at 3.3 GHz.
const PER: u64 = 1_000_000_000;
const INSTRUCTION: f64 = 0.1;
/// Key of a row with figures per [`PER`] instructions; it has the simulated seconds.
pub(super) const SHORTENED: &str = "simulated_seconds";
/// Least CPU seconds per measured value. Shorter commands are repeated, at most [`OFTEN`] times.
const LEAST: f64 = 0.05;
const OFTEN: f64 = 50.0;
/// Number of bytes of a command's output that are compared.
const COMPARED: usize = 1 << 20;
/// The event that is judged if it is counted, and the name of its figure.
const CYCLES: &str = "cycles";
pub(super) const INSTRUCTIONS: &str = "instructions";
/// Key that is true if the command printed a different result with the new build.
pub(super) const OTHER_OUTPUT: &str = "other_output";
/// Simulated caches.
const CACHES: [(&str, SimulatedCache); 2] = [("itlb", cachegrind::TLB), ("l1i", cachegrind::L1I)];
/// Folder of the links that differ by padding, in the folder of a side.
pub(super) const LAYOUTS: &str = "layouts";

/// Returns the longest time of simulations for commands of this many seconds: for each cache, before and after.
pub(super) fn longest_simulation(seconds: f64) -> f64 {
    (2 * CACHES.len()) as f64 * (SLOWDOWN * seconds).min(SIMULATED as f64)
}

/// Returns the longest time of counting blocks for commands of this many seconds.
pub(super) fn longest_count(seconds: f64) -> f64 {
    (2.0 * SLOWDOWN * seconds).min(4.0 * SIMULATED as f64)
}

/// Compares the outputs of two builds, in the tree.
pub(super) struct OutputBench<'a> {
    pub(super) place: RunPlace<'a>,
    pub(super) outputs: &'a [LinkedOutput],
    /// Folders of the outputs: before, and of a level; each contains its layouts, if there are any.
    pub(super) sides: [PathBuf; 2],
    /// Figures of the same commands for another level. The figures before are taken from them.
    pub(super) known: &'a [Value],
    /// Events counted in each run; none if perf cannot count here.
    pub(super) events: Vec<&'static PerfEvent>,
    pub(super) limit: Duration,
    /// Time to measure all commands.
    pub(super) measure_for: Duration,
    pub(super) scratch: PathBuf,
    pub(super) progress: &'a RunProgress,
    /// Name of a level above the order. Its time is measured in any case: a compiler changes more than misses.
    pub(super) level: Option<&'a str>,
    pub(super) ui: &'a Ui,
}

/// Costs of a run, and its output.
#[derive(Debug, Clone)]
struct Cost {
    seconds: f64,
    /// The kernel's share in the CPU time of the processes that the command waited for.
    system: f64,
    cycles: Option<f64>,
    wall: f64,
    printed: Vec<u8>,
}

/// Rounds of runs of all layouts.
struct MeasuredRounds {
    /// Costs in seconds of CPU time, or in cycles.
    rounds: Vec<Round>,
    /// True if all runs counted cycles, which do not depend on speed and clocks.
    by_cycles: bool,
    took: Duration,
    /// True if a run seemed to have more CPU time than possible, or if the wall clock was set.
    jumped: bool,
    /// Change of the processor's speed, as a share.
    pace: f64,
    /// Message if the machine had too much other work.
    overload: Option<String>,
    /// Messages about other work of the machine.
    disturbances: Vec<String>,
}

/// The events for [`OutputBench::events`]: cycles, if perf can count them.
pub(super) fn events(scratch: &Path, stop: &sediment_process::Stop) -> Result<Vec<&'static PerfEvent>> {
    let counters = perf_stat::survey(Some(&[CYCLES.to_owned()]), scratch, stop)?;
    Ok(counters.passes.concat().into_iter().filter(|event| event.hardware).collect())
}

impl OutputBench<'_> {
    /// Measures each command. The outputs of the first build are in place afterwards.
    pub(super) fn measure(&self, lines: &[&str]) -> Result<Value> {
        let time = self.measure_for / u32::try_from(lines.len()).unwrap_or(1).max(1);
        let measured: Result<Value> =
            lines.iter().enumerate().map(|(index, line)| self.command(index, line, time)).collect();
        self.put(&self.sides[0])?;
        measured
    }

    fn command(&self, index: usize, line: &str, time: Duration) -> Result<Value> {
        let doing = format!("measuring for up to {}: {line}", progress::in_words(time));
        let shown = self.progress.begin_measurement(index, self.level, &doing, self.ui);
        let done = self.figures(line, time, &shown);
        shown.finish();
        done
    }

    fn figures(&self, line: &str, time: Duration, shown: &MeasurementProgress<'_>) -> Result<Value> {
        let [before, after] = &self.sides;
        let once = [self.timed(before, line, COMPARED)?, self.timed(after, line, COMPARED)?];
        let seconds = once[0].seconds.max(once[1].seconds);
        let mut row = json!({ "command": line });
        if self.prints_another(line, &once)? {
            row[OTHER_OUTPUT] = json!(true);
        }
        let mut worth = None;
        match self.simulated(line, seconds, shown) {
            Ok(simulated) => {
                worth = Some(put_simulated(&mut row, &simulated, once[0].seconds));
            }
            Err(error) if error.kind() == sediment_core::ErrorKind::Interrupted => return Err(error),
            Err(error) => row["not_simulated"] = json!(error.to_string()),
        }
        let mut cpu = json!({
            "before_seconds": once[0].seconds, "after_seconds": once[1].seconds, "system_percent": 100.0 * once[0].system,
        });
        let why = match worth {
            _ if row[OTHER_OUTPUT] == true => Some("the outputs before and after differ".to_owned()),
            Some(worth) if worth < judge::WORTH && self.level.is_none() => {
                Some(format!("misses are {}", judge::worth_in_words(worth)))
            }
            _ => None,
        };
        match why {
            Some(why) => cpu["not_judged"] = json!(why),
            None => {
                shown.begin_part(&format!("comparing CPU time: {line}"), time.as_secs_f64());
                put_judged(&mut cpu, &self.rounds(line, &once, time)?);
            }
        }
        row["cpu_time"] = cpu;
        Ok(row)
    }

    /// Runs rounds of all layouts. `once` has a run of each side.
    fn rounds(&self, line: &str, once: &[Cost], time: Duration) -> Result<MeasuredRounds> {
        let layouts = self.sides.each_ref().map(|side| layouts(side));
        let counts = layouts.each_ref().map(Vec::len);
        let by_cycles = once.iter().all(|cost| cost.cycles.is_some());
        let longest = once.iter().map(|cost| cost.seconds).fold(0.0, f64::max);
        let runs = (LEAST / longest.max(1e-6)).ceil().clamp(1.0, OFTEN) as usize;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (began, before) = (Instant::now(), machine::activity(Path::new("/")));
        let mut jumped = false;
        let (wall, mut looks, mut tasks) = (Clock::start(0.0), Vec::new(), Vec::new());
        let rounds = judge::rounds(
            &counts,
            time,
            &mut Generator::new(1),
            |side, layout| {
                tasks.extend(pace::ready_tasks());
                looks.push(pace::look());
                let mut sum = 0.0;
                for _ in 0..runs {
                    let cost = self.timed(&layouts[side][layout], line, 0)?;
                    jumped |= cost.seconds > 1.1 * cost.wall * processors + 0.05;
                    sum += match cost.cycles.filter(|_| by_cycles) {
                        Some(cycles) => cycles,
                        None if by_cycles => {
                            return Err(Error::new(
                                ErrorCode::NotMeasured,
                                "perf counted no cycles in a run",
                            ));
                        }
                        None => cost.seconds,
                    };
                }
                Ok(sum / runs as f64)
            },
            || began.elapsed(),
        )?;
        let took = began.elapsed();
        let state = machine::between(&before, &machine::activity(Path::new("/")), took.as_secs_f64());
        let mut disturbances: Vec<String> = state.warnings.into_iter().map(|warning| warning.what).collect();
        let pace = pace::change(&looks);
        if pace > pace::UNSTEADY {
            disturbances.push(pace::in_words(pace));
        }
        jumped |= wall.wall_ahead().abs() > clock::JUMP;
        let overload = pace::overload(&tasks);
        Ok(MeasuredRounds { rounds, by_cycles, took, jumped, pace, overload, disturbances })
    }

    /// True if the command prints another result after the change. False if its output always differs.
    fn prints_another(&self, line: &str, once: &[Cost]) -> Result<bool> {
        if once.iter().all(|cost| cost.printed == once[0].printed) {
            return Ok(false);
        }
        // A program that prints its run time has a different output each time.
        Ok(self.timed(&self.sides[0], line, COMPARED)?.printed == once[0].printed)
    }

    /// Returns CPU time and cycles of a command with everything that it starts, including daemons, with the outputs in
    /// a folder. `keep`: number of bytes kept of its output.
    fn timed(&self, folder: &Path, line: &str, keep: usize) -> Result<Cost> {
        self.put(folder)?;
        let mut command = self.place.command(&runs::in_shell(line), self.limit);
        let counts = self.scratch.join("counts");
        if !self.events.is_empty() {
            command = perf_stat::under(&command, &self.events, &counts);
        }
        let (before, began) = (left_behind::processor_time(), Instant::now());
        let ended = run(&command, keep).and_then(|ended| ended.successful(&command));
        let wall = began.elapsed().as_secs_f64();
        left_behind::end_left_behind();
        let ended = ended.map_err(|error| {
            let side = self.sides.iter().find(|side| folder.starts_with(side));
            let side = side.and_then(|side| side.file_name()).unwrap_or_default().to_string_lossy();
            let error = error.with_input(format!("measuring `{}` ({side})", escape::terminal(line)));
            self.place.with_hint_of_copy(error, &[line])
        })?;
        let seconds = left_behind::processor_time().saturating_sub(before).as_secs_f64();
        let text = if self.events.is_empty() { None } else { fs::read_to_string(&counts).ok() };
        let cycles = text.and_then(|text| perf_stat::table(&text).counts.first()?.value.clone().ok());
        let [user, system] = [ended.usage.user, ended.usage.system].map(|time| time.as_secs_f64());
        let system = if user + system > 0.0 { system / (user + system) } else { 0.0 };
        Ok(Cost { seconds, system, cycles, wall, printed: ended.output })
    }

    /// Copies the outputs in a folder into the tree, each under all of its names. Each name gets a file of its own,
    /// because a build that copies one to the other may follow.
    fn put(&self, folder: &Path) -> Result<()> {
        for (index, output) in self.outputs.iter().enumerate() {
            let folder = folder.join(index.to_string());
            let saved = folder.join(output.name());
            for (number, path) in output.paths().enumerate() {
                let kept =
                    if number == 0 { saved.clone() } else { folder.join("copies").join(number.to_string()) };
                if !kept.exists() {
                    files::folder(&folder.join("copies"))?;
                    files::copy(&saved, &kept)?;
                }
                // The physical pages of a file affect cache misses, so each run has a fresh copy.
                files::copy(&kept, path)?;
            }
        }
        Ok(())
    }

    /// Computes simulated figures, before and after, for a command that takes this many seconds of processor time. For
    /// long work only the beginning is simulated, and the figures are per [`PER`] instructions.
    fn simulated(&self, line: &str, seconds: f64, shown: &MeasurementProgress<'_>) -> Result<Simulation> {
        probe("valgrind", &["--version"], VALGRIND_HINT)?;
        let known = self.known.iter().find(|row| row["command"] == line && row["simulated"].is_object());
        let is_long = SLOWDOWN * seconds > SIMULATED as f64;
        let is_shortened = known.map_or(is_long, |row| row[SHORTENED].is_number());
        let mut figures = [known.map(|row| side_of(row, "before")).unwrap_or_default(), Map::new()];
        let sides = figures.iter().filter(|figures| figures.is_empty()).count();
        let (runs, mut run) = (sides * CACHES.len(), 0);
        let left = |runs: usize| longest_simulation(seconds) * runs as f64 / (2 * CACHES.len()) as f64;
        shown.begin_part(&format!("simulating misses in {}: {line}", counted(runs, "run")), left(runs));
        for (side, figures) in self.sides.iter().zip(&mut figures).filter(|(_, figures)| figures.is_empty()) {
            for (name, cache) in CACHES {
                run += 1;
                shown.show(&format!("simulating misses, run {run} of {runs}: {line}"), left(runs + 1 - run));
                let Totals { misses, instructions } = self.misses(side, line, cache, is_shortened)?;
                if is_shortened {
                    let misses = u128::from(misses) * u128::from(PER) / u128::from(instructions.max(1));
                    figures.insert(name.to_owned(), json!(misses as u64));
                } else {
                    figures.insert(name.to_owned(), json!(misses));
                    figures.insert(INSTRUCTIONS.to_owned(), json!(instructions));
                }
            }
        }
        Ok(Simulation { figures, is_shortened })
    }

    /// Returns the misses of a simulated cache, summed over the processes that run an output, or over all processes if
    /// there are only libraries. If the work is shortened, processes end early, and late ones are not simulated.
    fn misses(&self, side: &Path, line: &str, cache: SimulatedCache, is_shortened: bool) -> Result<Totals> {
        self.put(side)?;
        let folder = files::folder(&self.scratch.join("cachegrind"))?;
        let mut valgrind = cache.options();
        valgrind.push(argument("--cachegrind-out-file=", folder.join("out.%p").as_os_str()));
        let command = self.place.command(&runs::in_shell(line), self.limit.saturating_mul(100));
        let limit = is_shortened.then_some(SIMULATED);
        let stand_ins = StandIns::replace(self.outputs, &valgrind, limit, &self.scratch)?;
        let command = if stand_ins.is_empty() { command.under("valgrind", valgrind) } else { command };
        self.ui.detail(&format!("simulating misses ({}): {line}", files::base_name(side)));
        let ended = run(&command, 0).and_then(|ended| {
            // The limit ends processes by a signal, which the command may consider a failure.
            if is_shortened && ended.outcome != Outcome::Stopped {
                Ok(ended)
            } else {
                ended.successful(&command)
            }
        });
        left_behind::end_left_behind();
        drop(stand_ins);
        self.put(side)?;
        let sum = self.sum(&folder);
        let _ = fs::remove_dir_all(&folder);
        ended?;
        sum
    }

    /// Returns the sum of valgrind's files in a folder: of those for the outputs, if there are any.
    fn sum(&self, folder: &Path) -> Result<Totals> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(folder))
        };
        let mut sums: [Option<Totals>; 2] = [None, None];
        for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
            let text = fs::read(entry.path()).map_err(failed)?;
            let text = String::from_utf8_lossy(&text);
            let command = text.lines().find_map(|line| line.strip_prefix("cmd:")).map(str::trim);
            if let Some((command, totals)) = command.zip(cachegrind::totals(&text).ok()) {
                let is_own = self
                    .outputs
                    .iter()
                    .flat_map(LinkedOutput::paths)
                    .any(|path| stand_ins::is_run_by(command, path));
                let sum = &mut sums[usize::from(!is_own)];
                *sum = Some(sum.unwrap_or_default() + totals);
            }
        }
        sums[0]
            .or(sums[1])
            .ok_or_else(|| Error::new(ErrorCode::NotMeasured, "valgrind wrote no cachegrind file"))
    }
}

/// The folders of a side's layouts, or the side itself if there are none.
fn layouts(side: &Path) -> Vec<PathBuf> {
    let numbered = (1..).map(|number| side.join(LAYOUTS).join(number.to_string()));
    let layouts: Vec<PathBuf> = numbered.take_while(|path| path.is_dir()).collect();
    if layouts.is_empty() { vec![side.to_path_buf()] } else { layouts }
}

/// Simulated figures by name, before and after.
struct Simulation {
    figures: [Map<String, Value>; 2],
    /// True if they cover only the beginning of the work.
    is_shortened: bool,
}

/// Simulated figures of one side of a row, by name.
fn side_of(row: &Value, side: &str) -> Map<String, Value> {
    let figures = row["simulated"].as_object().into_iter().flatten();
    figures.map(|(name, both)| (name.clone(), both[side].clone())).collect()
}

/// Adds simulated figures to a row, and the worth of saved and lost misses. Returns the larger worth, as a share of CPU
/// time.
fn put_simulated(row: &mut Value, simulation: &Simulation, seconds: f64) -> f64 {
    let [before, after] = &simulation.figures;
    let mut both = json!({});
    for name in before.keys() {
        both[name] = json!({ "before": before[name], "after": after[name] });
    }
    row["simulated"] = both;
    let count = |of: &Map<String, Value>, name: &str| of[name].as_f64().unwrap_or(0.0);
    let seconds = if simulation.is_shortened {
        row[SHORTENED] = json!(SIMULATED);
        PER as f64 * INSTRUCTION * 1e-9
    } else {
        seconds
    };
    let fewer = CACHES.map(|(name, _)| count(before, name) - count(after, name));
    let [gained, lost] = [fewer, fewer.map(|count| -count)].map(|saved| judge::worth(saved, seconds));
    let left = judge::worth(CACHES.map(|(name, _)| count(after, name)), seconds);
    row["worth_percent"] = json!({ "gained": 100.0 * gained, "lost": 100.0 * lost, "left": 100.0 * left });
    gained.max(lost)
}

/// Adds the result of the rounds for the new build to its figures.
fn put_judged(cpu: &mut Value, measured: &MeasuredRounds) {
    let rounds = &measured.rounds;
    cpu["rounds"] = json!(rounds.len());
    cpu["disturbances"] = json!(measured.disturbances);
    cpu["layouts"] = json!(rounds.first().map_or(0, |round| round[1].len()));
    match judgement(measured) {
        Ok(judgement) => {
            cpu["saved_percent"] = json!(100.0 * judgement.saved.estimate);
            cpu["lower_percent"] = json!(100.0 * judgement.saved.lower);
            cpu["upper_percent"] = json!(100.0 * judgement.saved.upper);
            cpu["detectable_percent"] = json!(100.0 * judgement.detectable);
            cpu["answer"] = json!(judgement.answer().code());
            cpu["in_words"] = json!(judgement.sentence(measured.took));
        }
        Err(why) => cpu["not_judged"] = json!(why),
    }
}

/// Returns the judgement, or the reason why there is none.
fn judgement(measured: &MeasuredRounds) -> std::result::Result<Judgement, String> {
    if let Some(why) = measured.overload.as_ref().filter(|_| !measured.by_cycles) {
        return Err(why.clone());
    }
    if !measured.by_cycles && measured.pace > pace::TOO_UNSTEADY {
        return Err(pace::in_words(measured.pace));
    }
    if !measured.by_cycles && measured.jumped {
        return Err("the clocks jumped during the runs".to_owned());
    }
    if let Some(why) = judge::changed_work(&measured.rounds) {
        return Err(why);
    }
    judge::judge(&measured.rounds, 1).ok_or_else(|| "the linker made no layouts to compare".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes rounds of a build that takes a tenth less.
    fn measured() -> MeasuredRounds {
        let round = |number: usize| {
            let cost =
                |share: f64, layout: usize| share * (1.0 + 1e-4 * ((number * 7 + layout * 3) % 5) as f64);
            [1.0, 0.9].map(|share| (0..5).map(|layout| cost(share, layout)).collect()).to_vec()
        };
        MeasuredRounds {
            rounds: (0..16).map(round).collect(),
            by_cycles: false,
            took: Duration::from_secs(16),
            jumped: false,
            pace: 0.0,
            overload: None,
            disturbances: Vec::new(),
        }
    }

    #[test]
    fn disturbed_times_are_not_judged_and_cycles_are() {
        let is_judged = |change: &dyn Fn(&mut MeasuredRounds)| {
            [false, true].map(|by_cycles| {
                let mut measured = MeasuredRounds { by_cycles, ..measured() };
                change(&mut measured);
                let mut cpu = json!({});
                put_judged(&mut cpu, &measured);
                assert_eq!(cpu["not_judged"].is_string(), cpu["answer"].is_null(), "{cpu}");
                cpu["answer"] == judge::Answer::Saves.code()
            })
        };
        assert_eq!(is_judged(&|_| ()), [true, true]);
        assert_eq!(is_judged(&|measured| measured.jumped = true), [false, true]);
        assert_eq!(is_judged(&|measured| measured.pace = 1.0), [false, true]);
        assert_eq!(is_judged(&|measured| measured.overload = pace::overload(&[9.0])), [false, true]);
        let shrinks = |measured: &mut MeasuredRounds| {
            for (number, round) in measured.rounds.iter_mut().enumerate() {
                round.iter_mut().flatten().for_each(|cost| *cost *= 0.95_f64.powi(number as i32));
            }
        };
        assert_eq!(is_judged(&shrinks), [false, false]);
    }
}
