// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario: its requirements, the parameters drawn for its runs, its execution, and the reduction of a failed run.

use super::bench::Bench;
use super::fault::Fault;
use super::parameters::{Parameters, Ranges};
use super::plan::{ScenarioPlan, is_root};
use std::time::{Duration, Instant};
use support::Need;

type ScenarioRun = Box<dyn Fn(&Bench, &Parameters) -> Result<(), Fault> + Send + Sync>;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) needs: Vec<Need>,
    pub(crate) as_root: bool,
    pub(crate) ranges: Ranges,
    /// Number of runs in the short form; 0 if it is only in the long form.
    pub(crate) short: usize,
    /// Number of runs in the long form, if it takes too long to be run as often as the others.
    pub(crate) at_most: usize,
    run: ScenarioRun,
}

/// Makes a scenario from a plan.
pub(crate) fn row(name: &'static str, plan: ScenarioPlan) -> Scenario {
    special(name, move |bench, parameters| plan.run(bench, parameters))
}

/// Makes a scenario with its own code.
pub(crate) fn special(
    name: &'static str,
    run: impl Fn(&Bench, &Parameters) -> Result<(), Fault> + Send + Sync + 'static,
) -> Scenario {
    Scenario {
        name,
        needs: vec![Need::Program("cc")],
        as_root: false,
        ranges: Ranges::default(),
        short: 1,
        at_most: usize::MAX,
        run: Box::new(run),
    }
}

impl Scenario {
    pub(crate) fn needs(mut self, programs: &[&'static str]) -> Self {
        self.needs.extend(programs.iter().map(|program| Need::Program(program)));
        self
    }

    /// Requires root, to become another user or to drop privileges.
    pub(crate) fn needs_root(mut self) -> Self {
        self.as_root = true;
        self.needs.push(Need::Program("setpriv"));
        self
    }

    pub(crate) fn ranges(mut self, change: impl FnOnce(&mut Ranges)) -> Self {
        change(&mut self.ranges);
        self
    }

    pub(crate) fn rounds(self, low: u32, high: u32) -> Self {
        self.ranges(|ranges| ranges.rounds = (low, high))
    }

    pub(crate) fn threads(self, low: u32, high: u32) -> Self {
        self.ranges(|ranges| ranges.threads = (low, high))
    }

    /// Always with all calls.
    pub(crate) fn all_calls(self) -> Self {
        self.ranges(|ranges| ranges.startup = (0, 0))
    }

    pub(crate) fn signals(self, signals: &'static [u32]) -> Self {
        self.ranges(|ranges| ranges.signals = signals)
    }

    pub(crate) fn short(mut self, runs: usize) -> Self {
        self.short = runs;
        self
    }

    pub(crate) fn at_most(mut self, runs: usize) -> Self {
        self.at_most = runs;
        self
    }

    /// Returns the reason why it cannot be run here, other than missing requirements.
    pub(crate) fn impossible(&self) -> Option<&'static str> {
        (self.as_root && !is_root()).then_some("needs root")
    }

    pub(crate) fn run(&self, bench: &Bench, parameters: &Parameters) -> Result<(), Fault> {
        (self.run)(bench, parameters)
    }

    /// Finds the smallest run that fails in the same way, in limited time.
    pub(crate) fn shrink(&self, bench: &Bench, failed: &Parameters, fault: &Fault) -> (Parameters, Fault) {
        const TRIES: usize = 3;
        let limit = Duration::from_secs(30);
        let started = Instant::now();
        let (mut smallest, mut why) = (failed.clone(), fault.clone());
        'smaller: loop {
            for simpler in smallest.simpler(&self.ranges) {
                for _ in 0..TRIES {
                    if started.elapsed() > limit {
                        break 'smaller;
                    }
                    if let Some(again) =
                        self.run(bench, &simpler).err().filter(|again| again.kind == fault.kind)
                    {
                        (smallest, why) = (simpler, again);
                        continue 'smaller;
                    }
                }
            }
            break;
        }
        (smallest, why)
    }
}
