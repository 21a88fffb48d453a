// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time order of a run: affinity edges, ranks of first use, and the run itself.
//!
//! A reader of a format with time order replays it step by step ([`crate::read::replay()`]). [`StepCounter`] computes
//! from these steps the two values of a profile that need an order:
//!
//! - `affinity`: when a function begins to run, each of the last distinct functions executed before it in its thread
//!   gets an edge to it, as described in `affinity`. After a return, the caller begins again. Code outside the
//!   profile's functions is ignored; a gap empties the window. If there are very many edges, the rarest are skipped
//!   ([`StepCounter::put_into`]).
//! - `first`: the rank of a function in the order of first uses, from 0, over all threads.
//!
//! [`file`](mod@file) keeps the run itself, for models.

pub mod file;

use crate::read::{Listener, Step};
use sediment_core::affinity::Window;
use sediment_core::counts::Counts;
use sediment_core::profile::{FunctionIndex, Profile};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashMap;

/// Number of affinity edges that are kept per executed function, and the smallest limit of the total.
const PAIRS_OF_FUNCTION: usize = 32;
const PAIRS_AT_LEAST: usize = 1 << 18;

const NONE: u32 = u32::MAX;

/// Counts the steps of one run.
///
/// Parts of a run that are separated by gaps may be counted in separate threads and [absorbed](Self::absorb) in their
/// order, with the same result.
#[derive(Debug, Clone)]
pub struct StepCounter<'a> {
    functions: &'a [Option<FunctionIndex>],
    /// Index of each address's function, [`NONE`] for none; the same as `functions`, in a form that is faster in the
    /// inner loop.
    by_address: Vec<u32>,
    affinity: Counts,
    /// Rank of first use by function; [`NONE`] before it.
    ranks: Vec<u32>,
    next_rank: u32,
    threads: HashMap<u64, u32>,
    windows: Vec<Window>,
    thread: Option<u64>,
    /// Window of the thread that ran last.
    window: usize,
    runs: u64,
    /// Counts of the workers, to be absorbed later.
    by_workers: Vec<Self>,
}

impl<'a> StepCounter<'a> {
    /// Starts without steps. `functions` are the functions by address, as in [`crate::resolve::Resolved`].
    #[must_use]
    pub fn new(functions: &'a [Option<FunctionIndex>]) -> Self {
        let by_address: Vec<u32> = functions.iter().map(|f| f.map_or(NONE, |f| f.index() as u32)).collect();
        let count = by_address.iter().filter(|f| **f != NONE).max().map_or(0, |last| *last as usize + 1);
        Self {
            functions,
            by_address,
            affinity: Counts::default(),
            ranks: vec![NONE; count],
            next_rank: 0,
            threads: HashMap::new(),
            windows: Vec::new(),
            thread: None,
            window: 0,
            runs: 0,
            by_workers: Vec::new(),
        }
    }

    /// Counts one step. Addresses that are not in the table are ignored.
    #[inline]
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Run { thread, place } => {
                let Some(&function) = self.by_address.get(place.0 as usize) else { return };
                if function == NONE {
                    return;
                }
                if self.thread != Some(thread) {
                    self.switch_to(thread);
                }
                self.run(function);
            }
            Step::Gap { thread } => {
                self.switch_to(thread);
                self.windows[self.window] = Window::default();
            }
        }
    }

    /// Counts steps in order.
    pub fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(*step);
        }
    }

    #[inline]
    fn run(&mut self, function: u32) {
        let affinity = &mut self.affinity;
        let count = |other| affinity.add(Counts::pair(other, function), 1);
        if !self.windows[self.window].enter(function, count) {
            return;
        }
        self.runs += 1;
        let rank = &mut self.ranks[function as usize];
        if *rank == NONE {
            *rank = self.next_rank;
            self.next_rank += 1;
        }
    }

    #[cold]
    fn switch_to(&mut self, thread: u64) {
        let next = self.windows.len() as u32;
        let window = *self.threads.entry(thread).or_insert(next);
        if window == next {
            self.windows.push(Window::default());
        }
        self.thread = Some(thread);
        self.window = window as usize;
    }

    /// Number of times that a function began to run.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.by_workers.iter().fold(self.runs, |sum, worker| sum.saturating_add(worker.runs))
    }

    /// Adds the later counts of the same run, for the same table. There is no affinity between functions of the two
    /// parts.
    pub fn absorb(&mut self, mut later: Self) {
        self.by_workers.append(&mut later.by_workers);
        self.affinity.absorb(later.affinity);
        self.runs = self.runs.saturating_add(later.runs);
        let mut new: Vec<(u32, usize)> = later
            .ranks
            .iter()
            .enumerate()
            .filter(|(function, rank)| **rank != NONE && self.ranks[*function] == NONE)
            .map(|(function, rank)| (*rank, function))
            .collect();
        new.sort_unstable();
        for (_, function) in new {
            self.ranks[function] = self.next_rank;
            self.next_rank += 1;
        }
        // The thread is known, but the steps in between are not.
        self.threads.clear();
        self.windows.clear();
        self.thread = None;
    }

    /// Adds the `affinity` counts to the profile that the table was made for. If the run is `whole`, including its
    /// start, also adds the ranks of first use; a lower rank that the profile already has stays.
    ///
    /// A run with random jumps through much code has nearly as many affinity edges as executions. Therefore, if there
    /// are more than 2^18 edges, and more than 32 per executed function, only the heaviest are kept, up to this limit;
    /// of edges with equal weight, all or none. The others are returned as skipped, with their counts as weights.
    pub fn put_into(mut self, profile: &mut Profile, whole: bool) -> Skipped {
        let mut affinity = vec![std::mem::take(&mut self.affinity)];
        for mut worker in std::mem::take(&mut self.by_workers) {
            affinity.push(std::mem::take(&mut worker.affinity));
            self.absorb(worker);
        }
        let pairs = Counts::sum_sorted(affinity);
        let mut by_index: Vec<Option<FunctionIndex>> = vec![None; self.ranks.len()];
        for function in self.functions.iter().flatten() {
            by_index[function.index()] = Some(*function);
        }
        let limit = PAIRS_AT_LEAST.max(PAIRS_OF_FUNCTION.saturating_mul(self.next_rank as usize));
        let rarest = rarest_kept(&pairs, limit);
        let mut skipped = Skipped::default();
        let left_out = || pairs.iter().filter(|(_, count)| *count < rarest);
        let weight = left_out().map(|(_, count)| u128::from(*count)).sum();
        skipped.add_many(Reason::RarePair, left_out().count() as u64, weight, "");
        for (pair, count) in pairs.into_iter().filter(|(_, count)| *count >= rarest) {
            let (from, to) = Counts::of_pair(pair);
            if let (Some(from), Some(to)) = (by_index[from as usize], by_index[to as usize]) {
                let affinity = &mut profile.edge_mut(from, to).affinity;
                *affinity = Some(affinity.unwrap_or(0).saturating_add(u128::from(count)));
            }
        }
        if !whole {
            return skipped;
        }
        for (function, rank) in by_index.into_iter().zip(self.ranks) {
            if let (Some(function), true) = (function, rank != NONE) {
                let first = &mut profile.facts_mut(function).first;
                *first = Some(first.map_or(u64::from(rank), |known| known.min(u64::from(rank))));
            }
        }
        skipped
    }
}

/// Smallest count of the pairs to keep, so that at most `limit` are kept.
fn rarest_kept(pairs: &[(u64, u64)], limit: usize) -> u64 {
    if pairs.len() <= limit {
        return 0;
    }
    let mut counts: Vec<u64> = pairs.iter().map(|(_, count)| *count).collect();
    let (_, first_beyond, _) = counts.select_nth_unstable_by(limit, |one, other| other.cmp(one));
    first_beyond.saturating_add(1)
}

impl Listener for StepCounter<'_> {
    fn step(&mut self, step: Step) {
        Self::step(self, step);
    }

    fn steps(&mut self, steps: &[Step]) {
        Self::steps(self, steps);
    }

    fn wants_all(&self) -> bool {
        false
    }

    fn for_workers(&mut self, workers: usize) -> Vec<&mut (dyn Listener + Send)> {
        let functions = self.functions;
        let more = workers.saturating_sub(self.by_workers.len());
        self.by_workers.extend((0..more).map(|_| StepCounter::new(functions)));
        self.by_workers.iter_mut().take(workers).map(|worker| worker as &mut (dyn Listener + Send)).collect()
    }
}
