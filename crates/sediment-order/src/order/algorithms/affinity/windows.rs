// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records for each window of a run which functions were executed in it: everything that a trace says about functions
//! being used together.
//!
//! A window of width W is a part of a run in which W different pages are touched if the functions lie in a reference
//! order. Functions outside the graph (such as libraries) count as one page each. For every width a limited number of
//! windows is kept, in blocks of 64 consecutive windows, spread evenly over the run; every other block is used only for
//! judging.

use sediment_core::affinity::Window;
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::counts::Counts;
use std::collections::HashMap;

/// Windows in a block: one word of bits.
const BLOCK: usize = 64;
/// Number of companions remembered for a function.
const COMPANIONS: usize = 24;

/// The windows of one width of one workload.
#[derive(Debug, Clone)]
pub(super) struct Band {
    /// Where its words begin in the row of a function.
    pub(super) first_word: usize,
    /// Number of its words.
    pub(super) words: usize,
    /// Index of its workload.
    pub(super) workload: usize,
}

/// A row of bits for each function, with a bit for each window that is set if the function was executed in it.
#[derive(Debug, Clone, Default)]
pub(super) struct WindowActivity {
    /// Words of a row.
    pub(super) words: usize,
    /// The rows, by function.
    rows: Vec<u64>,
    /// Bands of the words of a row.
    pub(super) bands: Vec<Band>,
}

impl WindowActivity {
    /// The row of a function.
    pub(super) fn row(&self, function: usize) -> &[u64] {
        &self.rows[function * self.words..(function + 1) * self.words]
    }
}

/// Execution statistics of traces, by function.
#[derive(Debug, Clone, Default)]
pub(super) struct WindowStatistics {
    /// The windows to learn from.
    pub(super) train: WindowActivity,
    /// The windows to judge by.
    pub(super) held_out: WindowActivity,
    /// By function: true if it was executed at all.
    pub(super) executed: Vec<bool>,
    /// By function: those most often executed just before or after it, relative to the executions of both, the most
    /// frequent first.
    pub(super) companions: Vec<Vec<Companion>>,
}

/// A function that is often executed with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Companion {
    /// The function.
    pub(super) function: u32,
    /// Number of times that one of the two began while the other was among the last executed functions.
    pub(super) affinity: u64,
}

/// Limits for the windows that are kept from the traces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling<'a> {
    /// The widths, in pages.
    pub(super) widths: &'a [u32],
    /// Largest number of blocks of each width, of all workloads together; the same for learning and for judging.
    pub(super) blocks: usize,
}

/// Reads the traces. `pages` are the pages that each function touches first and in its middle, by the reference order.
pub(super) fn observe(traces: &[&Trace], pages: &[[u32; 2]], sampling: &Sampling<'_>) -> WindowStatistics {
    let functions = pages.len();
    let blocks = (sampling.blocks / traces.len().max(1)).max(4);
    let mut plans = Vec::new();
    for (workload, trace) in traces.iter().enumerate() {
        let totals = windows(trace, pages, sampling.widths, &mut |_, _, _| {});
        for (width, total) in totals.into_iter().enumerate() {
            plans.push(WindowSelection::new(workload, width, total as usize, blocks));
        }
    }
    let mut observed = WindowStatistics { executed: vec![false; functions], ..WindowStatistics::default() };
    for plan in &mut plans {
        for (activity, words) in [(&mut observed.train, plan.train), (&mut observed.held_out, plan.held_out)]
        {
            activity.bands.push(Band { first_word: activity.words, words, workload: plan.workload });
            activity.words += words;
        }
    }
    for activity in [&mut observed.train, &mut observed.held_out] {
        activity.rows = vec![0; functions * activity.words];
    }
    for (workload, trace) in traces.iter().enumerate() {
        for function in trace.functions.iter().filter(|function| function.index() < functions) {
            observed.executed[function.index()] = true;
        }
        let of_this = workload * sampling.widths.len();
        windows(trace, pages, sampling.widths, &mut |width, window, function| {
            let number = of_this + width;
            let Some(SampledBlock { held_out, word }) = plans[number].sampled(window as usize / BLOCK) else {
                return;
            };
            let activity = if held_out { &mut observed.held_out } else { &mut observed.train };
            let at = function * activity.words + activity.bands[number].first_word + word;
            activity.rows[at] |= 1 << (window as usize % BLOCK);
        });
    }
    observed.companions = companions(traces, functions);
    observed
}

/// Which blocks of one width are kept.
struct WindowSelection {
    workload: usize,
    /// Number of existing blocks, and number of kept blocks.
    total: usize,
    chosen: usize,
    train: usize,
    held_out: usize,
}

/// Position of the bits of a block.
struct SampledBlock {
    held_out: bool,
    word: usize,
}

impl WindowSelection {
    fn new(workload: usize, _width: usize, windows: usize, blocks: usize) -> Self {
        let total = windows.div_ceil(BLOCK);
        let chosen = total.min(2 * blocks);
        Self { workload, total, chosen, train: chosen.div_ceil(2), held_out: chosen / 2 }
    }

    fn sampled(&self, block: usize) -> Option<SampledBlock> {
        let number = (block * self.chosen).div_ceil(self.total.max(1));
        (number < self.chosen && number * self.total / self.chosen == block)
            .then_some(SampledBlock { held_out: number % 2 == 1, word: number / 2 })
    }
}

/// Goes through a trace in windows of all widths, and reports width, window and function whenever a function of the
/// graph runs. Returns the number of windows of each width.
fn windows(
    trace: &Trace,
    pages: &[[u32; 2]],
    widths: &[u32],
    tell: &mut impl FnMut(usize, u32, usize),
) -> Vec<u32> {
    let last_page = pages.iter().flatten().max().map_or(0, |page| page + 1);
    let mut others: HashMap<FunctionId, u32> = HashMap::new();
    // By page and width: the last window that touched it, plus one.
    let mut touched: Vec<u32> = vec![0; last_page as usize * widths.len()];
    let mut current = vec![0u32; widths.len()];
    let mut filled = vec![0u32; widths.len()];
    for function in &trace.functions {
        let touches = match pages.get(function.index()) {
            Some(touches) => *touches,
            None => {
                let next = last_page + others.len() as u32;
                let page = *others.entry(*function).or_insert(next);
                if page == next {
                    touched.resize((next as usize + 1) * widths.len(), 0);
                }
                [page; 2]
            }
        };
        for (number, &width) in widths.iter().enumerate() {
            for page in touches {
                let mark = &mut touched[page as usize * widths.len() + number];
                if *mark != current[number] + 1 {
                    if filled[number] == width {
                        current[number] += 1;
                        filled[number] = 0;
                    }
                    *mark = current[number] + 1;
                    filled[number] += 1;
                }
            }
            if function.index() < pages.len() {
                tell(number, current[number], function.index());
            }
        }
    }
    current.iter().map(|windows| windows + 1).collect()
}

fn companions(traces: &[&Trace], functions: usize) -> Vec<Vec<Companion>> {
    let mut pairs = Counts::default();
    let mut runs = vec![0u64; functions];
    for trace in traces {
        let mut breaks = trace.breaks.iter().peekable();
        let mut window = Window::default();
        for (at, function) in trace.functions.iter().enumerate() {
            if breaks.next_if(|gap| **gap == at).is_some() {
                window = Window::default();
            }
            if function.index() >= functions {
                continue;
            }
            let began = window.enter(function.0, |other| {
                pairs.add(Counts::pair(other.min(function.0), other.max(function.0)), 1);
            });
            runs[function.index()] += u64::from(began);
        }
    }
    let mut ranked: Vec<Vec<(f64, Companion)>> = vec![Vec::new(); functions];
    for (pair, count) in pairs.into_sorted() {
        let (one, other) = Counts::of_pair(pair);
        let share = count as f64 / (runs[one as usize] + runs[other as usize]) as f64;
        for (one, function) in [(one, other), (other, one)] {
            ranked[one as usize].push((share, Companion { function, affinity: count }));
        }
    }
    ranked
        .into_iter()
        .map(|mut others| {
            others.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.function.cmp(&b.1.function)));
            others.truncate(COMPANIONS);
            others.into_iter().map(|(_, companion)| companion).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(functions: &[u32]) -> Trace {
        Trace { functions: functions.iter().copied().map(FunctionId).collect(), breaks: Vec::new() }
    }

    #[test]
    fn a_window_ends_before_the_page_that_is_one_too_many() {
        let pages = [[0; 2], [1; 2], [2; 2]];
        let mut told = Vec::new();
        // 7 is outside of the graph, and takes one page.
        let total = windows(&trace(&[0, 1, 0, 2, 7, 0, 1]), &pages, &[2], &mut |_, window, function| {
            told.push((window, function));
        });
        assert_eq!(told, [(0, 0), (0, 1), (0, 0), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(total, [3]);
    }

    #[test]
    fn every_other_block_is_for_judging() {
        let plan = WindowSelection::new(0, 0, 64 * 10, 2);
        let sampled: Vec<(usize, bool, usize)> = (0..10)
            .filter_map(|block| plan.sampled(block).map(|sampled| (block, sampled.held_out, sampled.word)))
            .collect();
        assert_eq!(sampled, [(0, false, 0), (2, true, 0), (5, false, 1), (7, true, 1)]);
        assert_eq!((plan.train, plan.held_out), (2, 2));
    }

    #[test]
    fn companions_are_those_that_hardly_run_without_each_other() {
        let companions = companions(&[&trace(&[0, 1, 2, 1, 2, 1, 2, 0])], 4);
        assert_eq!(companions[1][0], Companion { function: 2, affinity: 5 });
        assert!(companions[3].is_empty());
    }
}
