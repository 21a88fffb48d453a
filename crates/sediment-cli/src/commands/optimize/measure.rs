// SPDX-License-Identifier: MIT OR Apache-2.0
//! The training commands before and after, in the same tree: the outputs of the builds take turns under their names. Counted are
//! processor time in rounds of runs, cycles where perf counts them, and what cachegrind simulates of all processes.

use super::links::Output;
use super::runs::{self, Place};
use super::stand_ins::{self, StandIns};
use crate::files;
use crate::ui::Ui;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_measure::cachegrind::{self, SimulatedCache, Totals};
use sediment_measure::perf_stat::{self, Event};
use sediment_measure::samples::Spread;
use sediment_process::command::{argument, probe, run};
use sediment_process::{VALGRIND_HINT, left_behind};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for the pairs of one command, and the fewest and most pairs.
const FOR_PAIRS: Duration = Duration::from_secs(20);
const PAIRS: (u32, u32) = (5, 15);
/// Longest command that is simulated, and how much longer it takes under valgrind, about.
const SIMULATED: Duration = Duration::from_secs(4);
const SLOWDOWN: f64 = 50.0;
/// Event that judges where it is counted, and the name of a figure.
const CYCLES: &str = "cycles";
pub(super) const INSTRUCTIONS: &str = "instructions";
/// Simulated caches.
const CACHES: [(&str, SimulatedCache); 2] = [("itlb", cachegrind::TLB), ("l1i", cachegrind::L1I)];

/// Comparison of the outputs of several builds, in the tree.
pub(super) struct Bench<'a> {
    pub(super) place: Place<'a>,
    pub(super) outputs: &'a [Output],
    /// Folders of the outputs: before, after, and of further builds.
    pub(super) sides: &'a [PathBuf],
    /// True to say the figures of each side, too.
    pub(super) tells_sides: bool,
    /// Counted in each run; none where perf does not count here.
    pub(super) events: Vec<&'static Event>,
    pub(super) limit: Duration,
    pub(super) scratch: PathBuf,
    pub(super) ui: &'a Ui,
}

/// Costs of a run.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    cycles: Option<f64>,
}

/// Events for [`Bench::events`]: cycles, where perf counts them.
pub(super) fn events(scratch: &Path, stop: &sediment_process::Stop) -> Result<Vec<&'static Event>> {
    let counters = perf_stat::survey(Some(&[CYCLES.to_owned()]), scratch, stop)?;
    Ok(counters.passes.concat().into_iter().filter(|event| event.hardware).collect())
}

impl Bench<'_> {
    /// Measures each command; the outputs after stay in place.
    pub(super) fn measure(&self, lines: &[&str]) -> Result<Value> {
        let measured: Result<Vec<Value>> = lines.iter().map(|line| self.command(line)).collect();
        self.keep()?;
        Ok(json!(measured?))
    }

    fn command(&self, line: &str) -> Result<Value> {
        let bar = self.ui.spinner(&format!("measuring: {line}"));
        let done = self.figures(line);
        bar.finish_and_clear();
        done
    }

    fn figures(&self, line: &str) -> Result<Value> {
        let began = Instant::now();
        let all = 0..self.sides.len();
        for side in all.clone() {
            self.timed(side, line)?;
        }
        let once = began.elapsed() / self.sides.len() as u32;
        let time = FOR_PAIRS.as_secs_f64() / 2.0 * self.sides.len() as f64;
        let fitting = time / (self.sides.len() as f64 * once.as_secs_f64()).max(1e-3);
        let count = (fitting as u32).clamp(PAIRS.0, PAIRS.1);
        let mut rounds = Vec::new();
        for index in 0..count as usize {
            let mut round = vec![Cost { seconds: 0.0, cycles: None }; self.sides.len()];
            for turn in all.clone() {
                let side = (index + turn) % self.sides.len();
                round[side] = self.timed(side, line)?;
            }
            rounds.push(round);
        }
        let cpu = ratio(&rounds, 1, |cost| Some(cost.seconds)).map(|spread| {
            let mut cpu = json!({ "before_seconds": median(&rounds, 0), "after_seconds": median(&rounds, 1), "pairs": count });
            put_spread(&mut cpu, &spread);
            cpu
        });
        let mut row = json!({ "command": line, "cpu_time": cpu });
        let simulated = match self.simulated(line, once) {
            Ok(simulated) => simulated,
            Err(error) if error.kind() == sediment_core::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                row["not_simulated"] = json!(error.to_string());
                Vec::new()
            }
        };
        if let [before, after, ..] = &simulated[..] {
            let mut both = json!({});
            for name in before.keys() {
                both[name] = json!({ "before": before[name], "after": after[name] });
            }
            row["simulated"] = both;
        }
        if self.tells_sides {
            let sides = all.map(|side| {
                let mut figures =
                    json!({ "seconds": median(&rounds, side), "simulated": simulated.get(side) });
                let of_costs = |cost: fn(&Cost) -> Option<f64>| {
                    ratio(&rounds, side, cost).map_or(Value::Null, |spread| {
                        let mut value = json!({});
                        put_spread(&mut value, &spread);
                        value
                    })
                };
                figures["cpu_time"] = of_costs(|cost| Some(cost.seconds));
                figures["cycles"] = of_costs(|cost| cost.cycles);
                figures
            });
            row["sides"] = sides.collect();
        }
        Ok(row)
    }

    /// Processor time and cycles of a command with all that it starts, daemons among them.
    fn timed(&self, side: usize, line: &str) -> Result<Cost> {
        self.put(side)?;
        let mut command = self.place.command(&runs::in_shell(line), self.limit);
        let counts = self.scratch.join("counts");
        if !self.events.is_empty() {
            command = perf_stat::under(&command, &self.events, &counts);
        }
        let before = left_behind::processor_time();
        let ended = run(&command, 0).and_then(|ended| ended.successful(&command));
        left_behind::end_left_behind();
        ended.map_err(|error| {
            let error = error.with_input(format!("measuring `{}`", escape::terminal(line)));
            self.place.with_hint_of_copy(error, &[line])
        })?;
        let seconds = left_behind::processor_time().saturating_sub(before).as_secs_f64();
        let text = if self.events.is_empty() { None } else { fs::read_to_string(&counts).ok() };
        let cycles = text.and_then(|text| perf_stat::table(&text).counts.first()?.value.clone().ok());
        Ok(Cost { seconds, cycles })
    }

    /// Puts the outputs of a side into the tree, each under all of its names: as links, which takes no time. Each name has a file of its
    /// own, as a build that copies one to the other may follow.
    fn put(&self, side: usize) -> Result<()> {
        for (index, output) in self.outputs.iter().enumerate() {
            let folder = self.sides[side].join(index.to_string());
            let saved = folder.join(output.name());
            for (number, path) in output.paths().enumerate() {
                let kept =
                    if number == 0 { saved.clone() } else { folder.join("copies").join(number.to_string()) };
                if !kept.exists() {
                    files::folder(&folder.join("copies"))?;
                    files::copy(&saved, &kept)?;
                }
                // Which physical pages a file has decides on cache misses: each run counts cycles of a fresh copy.
                if self.events.is_empty() {
                    files::link_or_copy(&kept, path)?;
                } else {
                    files::copy(&kept, path)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the outputs of the second build to the tree: what changes them later changes nothing of ours.
    fn keep(&self) -> Result<()> {
        for (index, output) in self.outputs.iter().enumerate() {
            let saved = self.sides[1].join(index.to_string()).join(output.name());
            for path in output.paths() {
                files::copy(&saved, path)?;
            }
        }
        Ok(())
    }

    /// Simulated figures of each side, by name.
    fn simulated(&self, line: &str, once: Duration) -> Result<Vec<Map<String, Value>>> {
        if once > SIMULATED {
            let seconds = once.as_secs_f64();
            return Err(Error::new(
                ErrorCode::NotMeasured,
                format!(
                    "the command takes {seconds:.1} s, too long for a simulation: name shorter work, --measure COMMAND"
                ),
            ));
        }
        probe("valgrind", &["--version"], VALGRIND_HINT)?;
        let expected = SLOWDOWN * once.as_secs_f64() * (self.sides.len() * CACHES.len()) as f64 / 60.0;
        if expected > 1.0 {
            self.ui.note(&format!(
                "simulating misses takes about {expected:.0} minutes; --measure COMMAND names shorter work"
            ));
        }
        let mut all = vec![Map::new(); self.sides.len()];
        for (name, cache) in CACHES {
            for (side, figures) in all.iter_mut().enumerate() {
                let totals = self.misses(side, line, cache)?;
                figures.insert(name.to_owned(), json!(totals.misses));
                figures.insert(INSTRUCTIONS.to_owned(), json!(totals.instructions));
            }
        }
        Ok(all)
    }

    /// Misses of a simulated cache, summed over the processes that run an output, or all processes if there are libraries alone.
    fn misses(&self, side: usize, line: &str, cache: SimulatedCache) -> Result<Totals> {
        self.put(side)?;
        let folder = files::folder(&self.scratch.join("cachegrind"))?;
        let mut valgrind = cache.options();
        valgrind.push(argument("--cachegrind-out-file=", folder.join("out.%p").as_os_str()));
        let command = self.place.command(&runs::in_shell(line), self.limit.saturating_mul(100));
        let stand_ins = StandIns::replace(self.outputs, &valgrind, &self.scratch)?;
        let command = if stand_ins.is_empty() { command.under("valgrind", valgrind) } else { command };
        let ended = run(&command, 0).and_then(|ended| ended.successful(&command));
        left_behind::end_left_behind();
        drop(stand_ins);
        self.put(side)?;
        let sum = self.sum(&folder);
        let _ = fs::remove_dir_all(&folder);
        ended?;
        sum
    }

    /// Sum of the files that valgrind left in a folder: those of the outputs, if there are any.
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
                    .flat_map(Output::paths)
                    .any(|path| stand_ins::is_run_by(command, path));
                let sum = &mut sums[usize::from(!is_own)];
                *sum = Some(sum.unwrap_or_default() + totals);
            }
        }
        sums[0]
            .or(sums[1])
            .ok_or_else(|| Error::new(ErrorCode::NotMeasured, "valgrind left no cachegrind file"))
    }
}

/// Median processor time of a side.
fn median(rounds: &[Vec<Cost>], side: usize) -> Option<f64> {
    Spread::of(&rounds.iter().map(|round| round[side].seconds).collect::<Vec<_>>())
        .map(|spread| spread.median)
}

/// Ratios of a cost to that of the first side, over the rounds.
fn ratio(rounds: &[Vec<Cost>], side: usize, cost: impl Fn(&Cost) -> Option<f64>) -> Option<Spread> {
    let ratios = rounds.iter().filter_map(|round| {
        let before = cost(&round[0]).filter(|before| *before > 0.0)?;
        Some(cost(&round[side])? / before)
    });
    Spread::of(&ratios.collect::<Vec<f64>>())
}

fn put_spread(value: &mut Value, spread: &Spread) {
    value["ratio"] = json!(spread.median);
    value["lower_quartile"] = json!(spread.lower_quartile);
    value["upper_quartile"] = json!(spread.upper_quartile);
}
