// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes an order move by move; each move must lower its cost.
//!
//! **Cost.** The functions follow each other without gaps, but each begins at a multiple of 16 bytes. A page is active
//! in a window when a function that it holds a part of was executed there. For the windows of one band (a width, a
//! workload) the cost is 2 · (pages that become active after a window in which they were not) + (pages active), summed
//! over the windows. The first term counts the misses of a memory that holds the pages of the last window or two; the
//! second term represents the limited size of such a memory. Bands are summed by the weights of their workloads, with
//! equal weights of the widths, as shares of the cost of the first order. The offset of the first function in its page
//! is unknown, so the cost is summed over four offsets, a quarter of a page apart.
//!
//! Neighbouring functions usually share a cache line. Therefore the search (but not the final comparison) rewards
//! affinity between neighbours (the `affinity` of a profile). The reward is scaled so that in the first order it is a
//! fifth of the page cost. Without it, single functions are separated from their callers, which costs cache lines, and
//! the search gets stuck earlier.
//!
//! **Moves**, of runs of up to a dozen functions: two runs of equal length are exchanged, so that nothing else moves;
//! or one run moves elsewhere, and the functions between move up. The target is usually drawn next to a companion of
//! one of the functions (a function often executed together with it), and one time in eight at random. A move that
//! lowers the cost is kept. Costs are integers, so large sums are exact.

use super::windows::{Companion, WindowActivity};
use crate::model::Geometry;
use sediment_core::random::Generator;

/// Bytes of a page.
const PAGE: u64 = Geometry::COMMON.page;
const PHASES: u64 = Geometry::PHASES;
/// Largest number of functions in a run that moves.
const LONGEST_RUN: usize = 12;
/// A run moves past more bytes than this only one time in [`FAR_MOVES`].
const NEARBY: u64 = 8 * PAGE;
const FAR_MOVES: u64 = 32;
/// Divisor: the gain of all neighbours at the start, as a share of the cost.
const AFFINITY_SHARE: i64 = 5;
/// The costs of a band over all phases are scaled to this sum at the start, times the share of its workload.
const UNIT: u64 = 1 << 32;

/// Weight of each band.
pub(super) type BandWeights = Vec<i64>;

/// An order and the addresses of its functions.
#[derive(Debug, Clone)]
pub(super) struct LocalSearch<'a> {
    activity: &'a WindowActivity,
    companions: &'a [Vec<Companion>],
    sizes: &'a [u64],
    weights: BandWeights,
    order: Vec<u32>,
    /// Address at which the function at a position begins; one more entry for the end.
    starts: Vec<u64>,
    /// Position of each function, [`u32::MAX`] if it is not in the order.
    positions: Vec<u32>,
    /// By phase and page: its cost.
    pages: Vec<Vec<i64>>,
    /// Gain per count of an affinity edge between neighbours.
    affinity_weight: i64,
    changed: Vec<(usize, usize, i64)>,
    union: Vec<u64>,
    next_order: Vec<u32>,
    next_starts: Vec<u64>,
}

impl<'a> LocalSearch<'a> {
    /// Begins with an order of some of the functions. `sizes` are multiples of the functions' alignment.
    pub(super) fn new(
        activity: &'a WindowActivity,
        companions: &'a [Vec<Companion>],
        sizes: &'a [u64],
        order: Vec<u32>,
        weights: BandWeights,
    ) -> Self {
        let mut positions = vec![u32::MAX; sizes.len()];
        let mut starts = vec![0; order.len() + 1];
        for (place, &function) in order.iter().enumerate() {
            positions[function as usize] = place as u32;
            starts[place + 1] = starts[place] + sizes[function as usize];
        }
        let mut search = Self {
            activity,
            companions,
            sizes,
            weights,
            next_order: order.clone(),
            next_starts: starts.clone(),
            order,
            starts,
            positions,
            pages: Vec::new(),
            affinity_weight: 0,
            changed: Vec::new(),
            union: vec![0; activity.words],
        };
        search.pages = (0..PHASES)
            .map(|phase| (0..search.page_count()).map(|page| search.cost_of_page(phase, page)).collect())
            .collect();
        search
    }

    /// Returns the current order.
    pub(super) fn into_order(self) -> Vec<u32> {
        self.order
    }

    /// The cost of all pages.
    pub(super) fn cost(&self) -> i64 {
        self.pages.iter().flatten().sum()
    }

    /// Returns the weights with which each band of this order costs its share of [`UNIT`].
    pub(super) fn balanced(&self, shares: &[f64]) -> BandWeights {
        let alone = |band: usize| -> i64 {
            let mut only = self.clone();
            only.weights = (0..shares.len()).map(|other| i64::from(other == band)).collect();
            (0..PHASES)
                .map(|phase| (0..only.page_count()).map(|page| only.cost_of_page(phase, page)).sum::<i64>())
                .sum()
        };
        (0..shares.len())
            .map(|band| match alone(band) {
                0 => 0,
                cost => (UNIT as f64 * shares[band] / cost as f64).round() as i64,
            })
            .collect()
    }

    /// Tries `moves` moves, and keeps those with a gain.
    pub(super) fn improve(&mut self, moves: u64, seed: u64) {
        if self.order.len() < 2 {
            return;
        }
        self.affinity_weight = match self.affinity_of_neighbours(0..self.order.len()) {
            0 => 0,
            affinity_of_neighbours => (self.cost() / AFFINITY_SHARE / affinity_of_neighbours).max(0),
        };
        let mut numbers = Generator::new(seed);
        for _ in 0..moves {
            self.try_move(&mut numbers);
        }
    }

    fn try_move(&mut self, numbers: &mut Generator) {
        let count = self.order.len();
        let from = numbers.scaled(count as u64) as usize;
        let mut length = 1;
        while length < LONGEST_RUN && numbers.scaled(3) != 0 {
            length += 1;
        }
        let until = (from + length).min(count);
        let Some(to) = self.target(from, until, numbers) else { return };
        if numbers.scaled(2) == 0 {
            self.try_exchange(from..until, to);
        } else {
            self.try_shift(from..until, to, numbers);
        }
    }

    /// Draws a position next to a companion of a function of the run, or anywhere.
    fn target(&self, from: usize, until: usize, numbers: &mut Generator) -> Option<usize> {
        const AROUND: u64 = 9;
        let one = self.order[from + numbers.scaled((until - from) as u64) as usize];
        let companions = &self.companions[one as usize];
        let affinity = if companions.is_empty() || numbers.scaled(8) == 0 {
            numbers.scaled(self.order.len() as u64) as usize
        } else {
            self.positions[companions[numbers.scaled(companions.len() as u64) as usize].function as usize]
                as usize
        };
        let place = (affinity + numbers.scaled(AROUND) as usize).checked_sub(AROUND as usize / 2)?;
        (place < self.order.len()).then_some(place)
    }

    /// Exchanges a run with one of the same length in bytes that begins at a position.
    fn try_exchange(&mut self, run: std::ops::Range<usize>, to: usize) {
        let bytes = self.starts[run.end] - self.starts[run.start];
        let end = self.starts[to] + bytes;
        let until = to + self.starts[to..].partition_point(|start| *start < end);
        if until <= to || until > self.order.len() || self.starts[until] != end {
            return;
        }
        if run.start < until && to < run.end {
            return;
        }
        let (front, back) = if run.start < to { (run, to..until) } else { (to..until, run) };
        let positions = back.clone().chain(front.end..back.start).chain(front.clone());
        self.lay_out(front.start..back.end, positions);
        let spans = [&front, &back].map(|part| (self.starts[part.start], self.starts[part.end]));
        self.settle(front.start..back.end, &spans);
    }

    /// Puts a run before the function at a position.
    fn try_shift(&mut self, run: std::ops::Range<usize>, to: usize, numbers: &mut Generator) {
        if (run.start..=run.end).contains(&to) {
            return;
        }
        let affected = run.start.min(to)..run.end.max(to);
        let span = (self.starts[affected.start], self.starts[affected.end]);
        if span.1 - span.0 > NEARBY && numbers.scaled(FAR_MOVES) != 0 {
            return;
        }
        if to < run.start {
            self.lay_out(affected.clone(), run.clone().chain(to..run.start));
        } else {
            self.lay_out(affected.clone(), (run.end..to).chain(run.clone()));
        }
        self.settle(affected, &[span]);
    }

    /// Fills `next_order` and `next_starts` with the functions at these positions.
    fn lay_out(&mut self, affected: std::ops::Range<usize>, positions: impl Iterator<Item = usize>) {
        for (at, place) in affected.zip(positions) {
            let function = self.order[place];
            self.next_order[at] = function;
            self.next_starts[at + 1] = self.next_starts[at] + self.sizes[function as usize];
        }
    }

    /// Keeps the new layout if it costs less, otherwise undoes it. `spans` are the changed ranges of bytes, ascending.
    fn settle(&mut self, affected: std::ops::Range<usize>, spans: &[(u64, u64)]) {
        let mut gain = -self.affinity_of_neighbours(affected.clone()) * self.affinity_weight;
        std::mem::swap(&mut self.order, &mut self.next_order);
        std::mem::swap(&mut self.starts, &mut self.next_starts);
        gain += self.affinity_of_neighbours(affected.clone()) * self.affinity_weight;
        self.changed.clear();
        for phase in 0..PHASES {
            let offset = phase * (PAGE / PHASES);
            let mut done = 0;
            for &(first, end) in spans {
                let last = (end.max(first + 1) - 1 + offset) / PAGE;
                for page in ((first + offset) / PAGE).max(done)..=last {
                    let cost = self.cost_of_page(phase, page as usize);
                    gain += self.pages[phase as usize][page as usize] - cost;
                    self.changed.push((phase as usize, page as usize, cost));
                    done = page + 1;
                }
            }
        }
        if gain <= 0 {
            std::mem::swap(&mut self.order, &mut self.next_order);
            std::mem::swap(&mut self.starts, &mut self.next_starts);
        } else {
            for &(phase, page, cost) in &self.changed {
                self.pages[phase][page] = cost;
            }
            for at in affected.clone() {
                self.positions[self.order[at] as usize] = at as u32;
            }
        }
        self.next_order[affected.clone()].copy_from_slice(&self.order[affected.clone()]);
        let starts = affected.start..affected.end + 1;
        self.next_starts[starts.clone()].copy_from_slice(&self.starts[starts]);
    }

    /// Affinity of neighbours at these positions, including the neighbours at either end.
    fn affinity_of_neighbours(&self, positions: std::ops::Range<usize>) -> i64 {
        let around = positions.start.saturating_sub(1)..(positions.end + 1).min(self.order.len());
        self.order[around].windows(2).map(|pair| self.affinity(pair[0], pair[1])).sum()
    }

    fn affinity(&self, one: u32, other: u32) -> i64 {
        let of = |list: u32, wanted: u32| {
            self.companions[list as usize].iter().find(|companion| companion.function == wanted)
        };
        // A function with very many companions remembers few of them, but they may remember the function.
        of(one, other).or_else(|| of(other, one)).map_or(0, |companion| companion.affinity as i64)
    }

    fn page_count(&self) -> usize {
        let end = self.starts.last().copied().unwrap_or(0);
        ((end + PAGE) / PAGE) as usize + 1
    }

    fn cost_of_page(&mut self, phase: u64, page: usize) -> i64 {
        let offset = phase * (PAGE / PHASES);
        let begin = (page as u64 * PAGE).saturating_sub(offset);
        let end = (page as u64 + 1) * PAGE - offset;
        self.union.fill(0);
        let mut place = self.starts.partition_point(|start| *start <= begin).saturating_sub(1);
        while place < self.order.len() && self.starts[place] < end {
            if self.starts[place + 1] > begin {
                for (word, executed) in
                    self.union.iter_mut().zip(self.activity.row(self.order[place] as usize))
                {
                    *word |= executed;
                }
            }
            place += 1;
        }
        let mut cost = 0;
        for (band, weight) in self.activity.bands.iter().zip(&self.weights) {
            let mut carry = 0;
            let (mut began, mut active) = (0, 0);
            for &word in &self.union[band.first_word..band.first_word + band.words] {
                began += (word & !(word << 1 | carry)).count_ones();
                active += word.count_ones();
                carry = word >> 63;
            }
            cost += weight * i64::from(2 * began + active);
        }
        cost
    }
}
