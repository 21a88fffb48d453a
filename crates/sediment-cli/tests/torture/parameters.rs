// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random parameters of a run: the program's running time, the times of events, and the recorder's options.

use sediment_core::random::Generator;

/// Parameters of a run. Printed as `rounds=300 threads=2 …`, which can be parsed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) seed: u64,
    /// Number of rounds of a program that ends by itself.
    pub(crate) rounds: u32,
    /// Its second argument: threads, processes, or the way it ends.
    pub(crate) threads: u32,
    /// Milliseconds until the event that ends the recording.
    pub(crate) delay: u32,
    /// Milliseconds for `--seconds`.
    pub(crate) time: u32,
    /// `--overhead`, in per cent.
    pub(crate) overhead: u32,
    /// All calls: 0; only first uses: 1; bursts from the beginning: 2.
    pub(crate) startup: u32,
    /// Number of the signal that is sent.
    pub(crate) signal: u32,
    /// With `--affinity`: 1.
    pub(crate) affinity: u32,
    /// A program without symbols: 1.
    pub(crate) stripped: u32,
}

/// Inclusive ranges from which a scenario draws its values.
#[derive(Debug, Clone)]
pub(crate) struct Ranges {
    pub(crate) rounds: (u32, u32),
    pub(crate) threads: (u32, u32),
    pub(crate) delay: (u32, u32),
    pub(crate) time: (u32, u32),
    pub(crate) startup: (u32, u32),
    pub(crate) signals: &'static [u32],
}

impl Default for Ranges {
    fn default() -> Self {
        Self {
            rounds: (200, 500),
            threads: (2, 8),
            delay: (0, 150),
            time: (50, 400),
            startup: (0, 2),
            signals: &[],
        }
    }
}

impl Ranges {
    /// Draws the parameters for the run with this seed. Signals are used in turn, so that as many seeds as signals
    /// cover all of them.
    pub(crate) fn draw(&self, seed: u64) -> Parameters {
        let mut random = Generator::new(seed);
        let mut between = |(low, high): (u32, u32)| low + random.below((high - low + 1) as usize) as u32;
        let turn = |from: &[u32]| from.get(seed as usize % from.len().max(1)).copied().unwrap_or(0);
        Parameters {
            seed,
            rounds: between(self.rounds),
            threads: between(self.threads),
            delay: between(self.delay),
            time: between(self.time),
            overhead: [5, 20, 40, 80][between((0, 3)) as usize],
            // Most faults are possible with all calls.
            startup: [2, 1, 0, 0][between((0, 3)) as usize].clamp(self.startup.0, self.startup.1),
            signal: turn(self.signals),
            affinity: u32::from(between((0, 2)) == 0),
            stripped: u32::from(between((0, 2)) == 0),
        }
    }
}

impl std::fmt::Display for Parameters {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, rounds, threads, delay, time, overhead, startup, signal, affinity, stripped } = self;
        write!(
            out,
            "seed={seed} rounds={rounds} threads={threads} delay={delay} time={time} overhead={overhead} startup={startup} signal={signal} \
             affinity={affinity} stripped={stripped}"
        )
    }
}

impl Parameters {
    /// Replaces the parameters given in a text.
    pub(crate) fn replaced_by(mut self, text: &str) -> Self {
        for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            let number: u32 = value.parse().unwrap_or_else(|_| panic!("{name}={value}: this is no number"));
            match name {
                "seed" => self.seed = u64::from(number),
                "rounds" => self.rounds = number,
                "threads" => self.threads = number,
                "delay" => self.delay = number,
                "time" => self.time = number,
                "overhead" => self.overhead = number,
                "startup" => self.startup = number,
                "signal" => self.signal = number,
                "affinity" => self.affinity = number,
                "stripped" => self.stripped = number,
                _ => panic!("there is no parameter {name}"),
            }
        }
        self
    }

    /// Returns runs that are simpler in one parameter each, the simplest value of a parameter first.
    pub(crate) fn simpler(&self, ranges: &Ranges) -> Vec<Self> {
        let mut found = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            if simpler != *self {
                found.push(simpler);
            }
        };
        for divisor in [8, 2] {
            with(&|simpler| simpler.rounds = (self.rounds / divisor).max(1));
            with(&|simpler| simpler.delay = self.delay / divisor);
            with(&|simpler| simpler.time = (self.time / divisor).max(10));
            // The second argument may denote a kind instead of a number of threads.
            if ranges.threads.0 < ranges.threads.1 {
                with(&|simpler| simpler.threads = (self.threads / divisor).max(1));
            }
        }
        with(&|simpler| simpler.startup = ranges.startup.1.min(1));
        with(&|simpler| simpler.affinity = 0);
        with(&|simpler| simpler.stripped = 0);
        found
    }
}

/// Printed parameters can be run again; simpler ones are a different run.
pub(crate) fn printed_parameters_can_be_run_again() {
    let ranges = Ranges { signals: &[3, 10, 12], ..Ranges::default() };
    let drawn = ranges.draw(71);
    assert_eq!(ranges.draw(1).replaced_by(&drawn.to_string()), drawn);
    assert!(!drawn.simpler(&ranges).is_empty());
    assert!(drawn.simpler(&ranges).iter().all(|simpler| *simpler != drawn));
    // A few seeds draw every form, each with and without the other.
    let mut forms: Vec<_> = (1..100)
        .map(|seed| ranges.draw(seed))
        .map(|drawn| (drawn.startup, drawn.affinity, drawn.stripped))
        .collect();
    forms.sort_unstable();
    forms.dedup();
    assert_eq!(forms.len(), 12, "{forms:?}");
}
