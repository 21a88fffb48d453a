// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the current step: on a terminal in a line that disappears after the step, elsewhere in a line for each step,
//! with the time so far.

use super::Arguments;
use crate::ui::Ui;
use indicatif::ProgressBar;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A step of a run, with its number among the steps of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStep {
    Copy,
    Build,
    Training(usize),
    Link,
    Measurement(usize),
}

/// Steps of a run, or of the builds of a level.
pub(super) struct RunProgress {
    begun: Instant,
    /// Number of copying steps, of training commands, and of measured commands; None in a level.
    counts: Option<[usize; 3]>,
    /// Name of the level.
    level: String,
    /// Parts of the remaining time, once they are known.
    costs: Cell<Option<RunCosts>>,
    /// Time to measure a level, in seconds.
    measured: f64,
    /// Names of the further levels that may be tried.
    further: Vec<&'static str>,
}

/// Seconds of a build, of all training commands, of these under a simulator, and of these while blocks are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunCosts {
    pub(super) build: f64,
    pub(super) training: f64,
    pub(super) simulation: f64,
    pub(super) counting: f64,
}

impl RunProgress {
    /// Starts the progress of a run that may try these further levels.
    pub(super) fn of(arguments: &Arguments, further: Vec<&'static str>) -> Self {
        let counts =
            [usize::from(!arguments.in_place), arguments.trainings().count(), arguments.measured().len()];
        Self {
            begun: Instant::now(),
            counts: Some(counts),
            level: String::new(),
            costs: Cell::new(None),
            measured: arguments.measure_for.as_secs_f64(),
            further,
        }
    }

    /// Stores the times of builds and training commands.
    pub(super) fn know(&self, costs: RunCosts) {
        self.costs.set(Some(costs));
    }

    /// Returns the longest remaining time at the beginning of a step, in seconds; None before the times of builds and
    /// training commands are known.
    fn left(&self, step: RunStep) -> Option<f64> {
        let RunCosts { build, training, simulation, counting } = self.costs.get()?;
        let measure = self.measured + simulation;
        // A level needs at most three builds (for counting, with the counts, with the order), training for each,
        // counting, and a measurement.
        let level = 3.0 * build + 3.0 * training + counting + measure;
        // The build for counting is part of its level.
        let own = if self.level.starts_with("counting") { "counters" } else { self.level.as_str() };
        let done = self.further.iter().position(|name| own.starts_with(name));
        let after = self.further.len() - done.map_or(0, |at| at + 1);
        let now = match (step, done) {
            (RunStep::Link, None) => build + measure,
            (RunStep::Measurement(_), _) => measure,
            (_, Some(_)) => level,
            _ => return None,
        };
        Some(now + after as f64 * level)
    }

    /// Returns the progress of a level's builds in this run.
    pub(super) fn of_level(&self, name: &str) -> Self {
        Self {
            begun: self.begun,
            counts: None,
            level: name.to_owned(),
            costs: self.costs.clone(),
            measured: self.measured,
            further: self.further.clone(),
        }
    }

    /// Begins a step.
    pub(super) fn begin(&self, step: RunStep, doing: &str, ui: &Ui) -> ProgressBar {
        self.begin_as(&self.label(step), self.left(step), doing, ui)
    }

    /// Begins a measurement: a step of the run, or a part of a further level.
    pub(super) fn begin_measurement<'a>(
        &'a self,
        index: usize,
        level: Option<&str>,
        doing: &str,
        ui: &'a Ui,
    ) -> MeasurementProgress<'a> {
        let step = RunStep::Measurement(index);
        let (label, left) = match level {
            None => (self.label(step), self.left(step)),
            Some(level) => (format!("level {level}"), self.of_level(level).left(step)),
        };
        let bar = self.begin_as(&label, left, doing, ui);
        MeasurementProgress { progress: self, label, bar, has_long_part: Cell::new(false), ui }
    }

    fn begin_as(&self, label: &str, left: Option<f64>, doing: &str, ui: &Ui) -> ProgressBar {
        let left = left.map(|left| format!(", about {} left", in_words(Duration::from_secs_f64(left))));
        let text = format!("{label}{}: {doing}", left.unwrap_or_default());
        if ui.is_terminal() {
            return ui.spinner(&text);
        }
        self.note(&text, ui);
        ProgressBar::hidden()
    }

    /// Prints a line with the time so far.
    fn note(&self, text: &str, ui: &Ui) {
        let so_far = self.begun.elapsed();
        if so_far.as_secs() > 0 {
            ui.note(&format!("[{}] {text}", in_words(so_far)));
        } else {
            ui.note(text);
        }
    }

    fn label(&self, step: RunStep) -> String {
        let Some([copies, trainings, measurements]) = self.counts else {
            return format!("level {}", self.level);
        };
        let number = match step {
            RunStep::Copy => 1,
            RunStep::Build => copies + 1,
            RunStep::Training(index) => copies + 2 + index,
            RunStep::Link => copies + 2 + trainings,
            RunStep::Measurement(index) => copies + 3 + trainings + index,
        };
        format!("step {number} of {}", copies + 2 + trainings + measurements)
    }
}

/// A running measurement. Its parts are shown as they begin.
pub(super) struct MeasurementProgress<'a> {
    progress: &'a RunProgress,
    label: String,
    bar: ProgressBar,
    has_long_part: Cell<bool>,
    ui: &'a Ui,
}

/// Outside a terminal, only parts of at least this many seconds have a line of their own.
const LONG: f64 = 5.0;

impl MeasurementProgress<'_> {
    /// Begins a part that takes about this many seconds. Outside a terminal, a line is printed for long parts, and for
    /// the parts after them.
    pub(super) fn begin_part(&self, doing: &str, seconds: f64) {
        self.show(doing, seconds);
        let is_long = seconds >= LONG || self.has_long_part.get();
        if is_long && !self.ui.is_terminal() {
            self.has_long_part.set(true);
            let time = in_words(Duration::from_secs_f64(seconds.max(1.0)));
            self.progress.note(&format!("{}: {doing}, about {time}", self.label), self.ui);
        }
    }

    /// Shows the state of a part on a terminal, with about this many seconds left.
    pub(super) fn show(&self, doing: &str, seconds: f64) {
        let left = in_words(Duration::from_secs_f64(seconds.max(1.0)));
        let text = format!("{}: {doing}, about {left} left", self.label);
        self.bar.set_message(sediment_core::escape::terminal(&text));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `45 s`, `2 min 5 s`.
pub(super) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_numbers() {
        let progress = RunProgress {
            begun: Instant::now(),
            counts: Some([1, 2, 2]),
            level: String::new(),
            costs: Cell::new(None),
            measured: 120.0,
            further: vec!["counters"],
        };
        let steps = [
            RunStep::Copy,
            RunStep::Build,
            RunStep::Training(0),
            RunStep::Training(1),
            RunStep::Link,
            RunStep::Measurement(0),
            RunStep::Measurement(1),
        ];
        for (index, step) in steps.into_iter().enumerate() {
            assert_eq!(progress.label(step), format!("step {} of 7", index + 1));
        }
        let in_place = RunProgress { counts: Some([0, 1, 1]), ..progress };
        assert_eq!(in_place.label(RunStep::Measurement(0)), "step 4 of 4");
        assert_eq!(in_place.of_level("counters").label(RunStep::Build), "level counters");
        // The remaining time shrinks from step to step.
        assert_eq!(in_place.left(RunStep::Link), None);
        in_place.know(RunCosts { build: 10.0, training: 2.0, simulation: 40.0, counting: 60.0 });
        let level = in_place.of_level("counters");
        let left = [
            in_place.left(RunStep::Link),
            in_place.left(RunStep::Measurement(0)),
            level.left(RunStep::Build),
            level.left(RunStep::Measurement(0)),
        ];
        let left = left.map(|left| left.unwrap());
        assert!(left.is_sorted_by(|one, next| one > next) && left[3] >= 120.0, "{left:?}");
    }

    #[test]
    fn times_in_words() {
        assert_eq!(
            [5, 60, 125].map(|seconds| in_words(Duration::from_secs(seconds))),
            ["5 s", "1 min", "2 min 5 s"]
        );
    }
}
