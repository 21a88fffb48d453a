// SPDX-License-Identifier: MIT OR Apache-2.0
//! The training commands before and after, in the same tree: the outputs of the first and of the second build take turns under
//! their names. Counted are processor time in pairs of runs, and what cachegrind simulates of all processes.

use super::links::Output;
use super::runs::{self, Place};
use super::stand_ins::{self, StandIns};
use crate::files;
use crate::ui::Ui;
use sediment::{Error, ErrorCode, Result, escape};
use sediment_eval::measure::pairs::Spread;
use sediment_process::command::{argument, probe, run};
use sediment_process::{VALGRIND_HINT, left_behind};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for the pairs of one command, and the fewest and most pairs.
const FOR_PAIRS: Duration = Duration::from_secs(20);
const PAIRS: (u32, u32) = (5, 15);
/// Longest command that is simulated, and how much longer it takes under valgrind, about.
const SIMULATED: Duration = Duration::from_secs(4);
const SLOWDOWN: f64 = 50.0;
/// Simulated caches: an instruction TLB of 64 pages, and a first-level instruction cache of 32 KiB.
const CACHES: [(&str, &str); 2] = [("itlb", "--I1=262144,64,4096"), ("l1i", "--I1=32768,8,64")];

/// Comparison of the outputs of both builds, in the tree.
pub(super) struct Bench<'a> {
    pub(super) place: Place<'a>,
    pub(super) outputs: &'a [Output],
    /// Folders of the outputs before and after.
    pub(super) sides: &'a [PathBuf; 2],
    pub(super) limit: Duration,
    pub(super) scratch: PathBuf,
    pub(super) ui: &'a Ui,
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
        for side in 0..2 {
            self.timed(side, line)?;
        }
        let once = began.elapsed() / 2;
        let fitting = FOR_PAIRS.as_secs_f64() / (2.0 * once.as_secs_f64()).max(1e-3);
        let count = (fitting as u32).clamp(PAIRS.0, PAIRS.1);
        let mut pairs = Vec::new();
        for index in 0..count {
            let mut pair = [Duration::ZERO; 2];
            let sides = if index % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in sides {
                pair[side] = self.timed(side, line)?;
            }
            pairs.push(pair);
        }
        let ratios: Vec<f64> = pairs
            .iter()
            .filter(|[before, _]| !before.is_zero())
            .map(|[before, after]| after.as_secs_f64() / before.as_secs_f64())
            .collect();
        let seconds =
            |side: usize| Spread::of(&pairs.iter().map(|pair| pair[side].as_secs_f64()).collect::<Vec<_>>());
        let cpu = Spread::of(&ratios).map(|ratio| {
            json!({
                "before_seconds": seconds(0).map(|spread| spread.median),
                "after_seconds": seconds(1).map(|spread| spread.median),
                "ratio": ratio.median, "lower_quartile": ratio.lower_quartile, "upper_quartile": ratio.upper_quartile,
                "pairs": count,
            })
        });
        let mut row = json!({ "command": line, "cpu_time": cpu });
        match self.simulated(line, once) {
            Ok(simulated) => row["simulated"] = simulated,
            Err(error) if error.kind() == sediment::ErrorKind::Interrupted => return Err(error),
            Err(error) => row["not_simulated"] = json!(error.to_string()),
        }
        Ok(row)
    }

    /// Processor time of a command with all that it starts, daemons among them.
    fn timed(&self, side: usize, line: &str) -> Result<Duration> {
        self.put(side)?;
        let command = self.place.command(&runs::in_shell(line), self.limit);
        let before = left_behind::processor_time();
        let ended = run(&command, 0).and_then(|ended| ended.successful(&command));
        left_behind::end_left_behind();
        ended.map_err(|error| {
            let error = Error::from(error).with_input(format!("measuring `{}`", escape::terminal(line)));
            self.place.with_hint_of_copy(error, &[line])
        })?;
        Ok(left_behind::processor_time().saturating_sub(before))
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
                files::link_or_copy(&kept, path)?;
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

    fn simulated(&self, line: &str, once: Duration) -> Result<Value> {
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
        let expected = SLOWDOWN * once.as_secs_f64() * (2 * CACHES.len()) as f64 / 60.0;
        if expected > 1.0 {
            self.ui.note(&format!(
                "simulating misses takes about {expected:.0} minutes; --measure COMMAND names shorter work"
            ));
        }
        let mut all = json!({});
        for (name, cache) in CACHES {
            let [before, after] = [self.misses(0, line, cache)?, self.misses(1, line, cache)?];
            all[name] = json!({ "before": before, "after": after });
        }
        Ok(all)
    }

    /// Misses of a simulated cache, summed over the processes that run an output, or all processes if there are libraries alone.
    fn misses(&self, side: usize, line: &str, cache: &str) -> Result<u64> {
        self.put(side)?;
        let folder = files::folder(&self.scratch.join("cachegrind"))?;
        let valgrind: Vec<OsString> = [
            "--tool=cachegrind",
            "--cache-sim=yes",
            "--trace-children=yes",
            cache,
            "--D1=32768,8,64",
            "--LL=8388608,16,64",
        ]
        .iter()
        .map(OsString::from)
        .chain([argument("--cachegrind-out-file=", folder.join("out.%p").as_os_str())])
        .collect();
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
    fn sum(&self, folder: &Path) -> Result<u64> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot be read: {error}")).with_input(files::display(folder))
        };
        let mut sums = [None, None];
        for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
            let text = fs::read(entry.path()).map_err(failed)?;
            if let Some((command, misses)) = totals(&String::from_utf8_lossy(&text)) {
                let is_own = self
                    .outputs
                    .iter()
                    .flat_map(Output::paths)
                    .any(|path| stand_ins::is_run_by(&command, path));
                let sum = &mut sums[usize::from(!is_own)];
                *sum = Some(sum.unwrap_or(0) + misses);
            }
        }
        sums[0]
            .or(sums[1])
            .ok_or_else(|| Error::new(ErrorCode::NotMeasured, "valgrind left no cachegrind file"))
    }
}

/// The command in a file of cachegrind, and its misses of the first-level instruction cache.
fn totals(text: &str) -> Option<(String, u64)> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let column = value("events:")?.split_whitespace().position(|event| event == "I1mr")?;
    let misses = value("summary:")?.split_whitespace().nth(column)?.parse().ok()?;
    Some((value("cmd:")?.to_owned(), misses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_cachegrind_names_its_command_and_its_misses() {
        let text = "desc: I1 cache: 32768 B\ncmd: ./prog a b\nevents: Ir I1mr ILmr\nfn=main\n1 2 3 4\nsummary: 100 7 5\n";
        assert_eq!(totals(text), Some(("./prog a b".to_owned(), 7)));
        assert_eq!(totals("cmd: x\nevents: Ir\nsummary: 5\n"), None);
    }
}
