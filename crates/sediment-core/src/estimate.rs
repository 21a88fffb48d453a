// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates how often each function runs per start of the program, from the calls per call of its callers.
//!
//! A compiler guesses loops and branches within a function. Its numbers are relative to each function, so they cannot
//! be compared between functions. This module propagates them over the call graph (Y. Wu, J. Larus: Static Branch
//! Frequency and Program Profile Analysis, MICRO 1994, section 5). The program begins once in `main`, in each
//! constructor and in each exported function of a library. A function whose address is taken may be called through
//! pointers, which are not followed, and counts once too. A function runs as often as its callers call it.
//!
//! Callers are processed before callees, and a component of the graph at once (R. Tarjan: Depth-First Search and Linear
//! Graph Algorithms, SIAM Journal on Computing 1972). Inside a component, functions call each other in a cycle, so
//! calls are propagated in rounds. Each call causes at most `STAYING` further calls inside the component, so the rounds
//! converge and recursion is at most ten deep on average. Unreachable functions never run.
//!
//! Functions that the compiler marks as cold propagate nothing: errors are rare, whatever their handlers call.
//!
//! For a profile with a run ([`expected`]), the same propagation begins at the executed functions with their counts,
//! and continues only through unprofiled functions. It finds the unprofiled functions that the executed ones are most
//! likely to call.

use crate::profile::{FunctionIndex, Heat, Millionths, Profile};

/// Largest number of further calls inside a cycle that one call causes.
const STAYING: f64 = 0.9;
/// Number of rounds after which less than a thousandth is left in a cycle: 0.9 to this power.
const ROUNDS: usize = 66;
/// Limit of an estimate, in calls per start: nested loops over many functions multiply to meaningless numbers.
const MOST: f64 = 1e12;
const MILLION: f64 = 1e6;

/// Smallest weight of a function that was executed, or that may be called through a pointer or from elsewhere, as a
/// share of all counted calls.
const FROM_ELSEWHERE: f64 = 1e-7;

/// Sets `static` of every function to its estimated number of calls per start of the program.
pub fn estimate(profile: &mut Profile) {
    let runs = CallRates::of(profile, &|_| true).runs(begin(profile));
    for function in profile.functions() {
        let millionths = (runs[function.index()] * MILLION) as u128;
        profile.facts_mut(function).static_calls = Some(Millionths(millionths));
    }
}

/// Expected executions of unprofiled functions, in a profile with calls of a run and a compiler's estimates.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// By function of the profile: true if it was executed.
    pub executed: Vec<bool>,
    /// By function of the profile: calls into it, as a share of all counted calls. Above 0 if an executed function
    /// leads to it, or if it may be called from elsewhere. Executed functions have their counted calls, and at least
    /// this share.
    pub runs: Vec<f64>,
}

/// Estimates the executions of unprofiled functions; `None` if the profile does not have both a run and estimates.
#[must_use]
pub fn expected(profile: &Profile) -> Option<Expected> {
    let edges = profile.edges();
    let (mut executed, mut into) =
        (vec![false; profile.function_count()], vec![0.0; profile.function_count()]);
    let (mut counted, mut estimated) = (0.0, false);
    for (caller, callee, facts) in &edges {
        let count = facts.count.unwrap_or(0) as f64;
        if count > 0.0 || facts.affinity.is_some_and(|affinity| affinity > 0) {
            executed[caller.index()] = true;
            executed[callee.index()] = true;
        }
        into[callee.index()] += count;
        counted += count;
        estimated |= facts.static_calls.is_some_and(|calls| calls.0 > 0);
    }
    if counted == 0.0 || !estimated {
        return None;
    }
    for function in profile.functions() {
        let (facts, at) = (profile.facts(function), function.index());
        executed[at] |= facts.first.is_some() || facts.samples.is_some_and(|samples| samples > 0);
        into[at] /= counted;
        let elsewhere = (facts.taken || facts.entry) && facts.heat != Some(Heat::Cold);
        if executed[at] || elsewhere {
            into[at] = into[at].max(FROM_ELSEWHERE);
        }
    }
    let runs = CallRates::of(profile, &|callee| !executed[callee.index()]).runs(into);
    Some(Expected { executed, runs })
}

/// Number of calls of each function from outside the graph.
fn begin(profile: &Profile) -> Vec<f64> {
    let mut runs = vec![0.0; profile.function_count()];
    for function in profile.functions() {
        let (key, facts) = (profile.key(function), profile.facts(function));
        if facts.entry || facts.taken || key.name == "main" {
            runs[function.index()] = 1.0;
        }
    }
    runs
}

/// Calls by caller: callee and calls per call.
struct CallRates {
    calls: Vec<Vec<(usize, f64)>>,
}

impl CallRates {
    /// The calls of the functions for which `leads_to` is true.
    fn of(profile: &Profile, leads_to: &dyn Fn(FunctionIndex) -> bool) -> Self {
        let mut calls = vec![Vec::new(); profile.function_count()];
        for (caller, callee, facts) in profile.edges() {
            let cold = profile.facts(caller).heat == Some(Heat::Cold);
            if let Some(frequency) = facts.static_calls.filter(|_| !cold && leads_to(callee)) {
                calls[caller.index()].push((callee.index(), (frequency.0 as f64 / MILLION).min(MOST)));
            }
        }
        // An alias leads to its function.
        for function in profile.functions() {
            if let Some(target) = alias_of(profile, function).filter(|target| leads_to(*target)) {
                calls[function.index()].push((target.index(), 1.0));
            }
        }
        Self { calls }
    }

    /// Propagates the initial executions of functions over the calls.
    fn runs(&self, mut runs: Vec<f64>) -> Vec<f64> {
        for component in self.components() {
            self.spread(&component, &mut runs);
        }
        runs
    }

    /// The strongly connected components, callers first.
    fn components(&self) -> Vec<Vec<usize>> {
        let count = self.calls.len();
        let mut found: Vec<Vec<usize>> = Vec::new();
        let mut number = vec![usize::MAX; count];
        let mut low = vec![0; count];
        let mut open = vec![false; count];
        let mut path: Vec<usize> = Vec::new();
        let mut next = 0;
        // Iterative: call chains in untrusted files may be deep.
        let mut work: Vec<(usize, usize)> = Vec::new();
        for start in 0..count {
            if number[start] != usize::MAX {
                continue;
            }
            work.push((start, 0));
            while let Some((function, at)) = work.pop() {
                if at == 0 {
                    number[function] = next;
                    low[function] = next;
                    next += 1;
                    path.push(function);
                    open[function] = true;
                }
                if let Some((callee, _)) = self.calls[function].get(at) {
                    work.push((function, at + 1));
                    if number[*callee] == usize::MAX {
                        work.push((*callee, 0));
                    } else if open[*callee] {
                        low[function] = low[function].min(number[*callee]);
                    }
                    continue;
                }
                if let Some((caller, _)) = work.last() {
                    low[*caller] = low[*caller].min(low[function]);
                }
                if low[function] == number[function] {
                    let from = path.iter().rposition(|member| *member == function).unwrap_or(0);
                    let component = path.split_off(from);
                    for member in &component {
                        open[*member] = false;
                    }
                    found.push(component);
                }
            }
        }
        // Tarjan's algorithm finds callees first.
        found.reverse();
        found
    }

    /// Lets the flow into a component circulate in it, and propagates the result.
    fn spread(&self, component: &[usize], runs: &mut [f64]) {
        let inside: std::collections::HashSet<usize> = component.iter().copied().collect();
        let circles =
            component.len() > 1 || self.calls[component[0]].iter().any(|call| call.0 == component[0]);
        if circles {
            self.go_round(component, &inside, runs);
        }
        for &function in component {
            for &(callee, frequency) in &self.calls[function] {
                if !inside.contains(&callee) {
                    runs[callee] = (runs[callee] + runs[function] * frequency).min(MOST);
                }
            }
        }
    }

    fn go_round(&self, component: &[usize], inside: &std::collections::HashSet<usize>, runs: &mut [f64]) {
        let mut members = component.to_vec();
        members.sort_unstable();
        let position: std::collections::HashMap<usize, usize> =
            members.iter().enumerate().map(|(at, function)| (*function, at)).collect();
        let staying: Vec<Vec<(usize, f64)>> = members
            .iter()
            .map(|function| {
                let calls = self.calls[*function].iter().filter(|call| inside.contains(&call.0));
                let sum: f64 = calls.clone().map(|call| call.1).sum();
                let scale = if sum > STAYING { STAYING / sum } else { 1.0 };
                calls.map(|call| (position[&call.0], call.1 * scale)).collect()
            })
            .collect();
        let mut round: Vec<f64> = members.iter().map(|function| runs[*function]).collect();
        for _ in 0..ROUNDS {
            let mut next = vec![0.0; members.len()];
            for (at, calls) in staying.iter().enumerate() {
                for (callee, frequency) in calls {
                    next[*callee] += round[at] * frequency;
                }
            }
            for (function, more) in members.iter().zip(&next) {
                runs[*function] = (runs[*function] + more).min(MOST);
            }
            round = next;
        }
    }
}

fn alias_of(profile: &Profile, function: FunctionIndex) -> Option<FunctionIndex> {
    let alias = profile.facts(function).alias.as_ref()?;
    let key = profile.key(function);
    profile.find(&crate::profile::FunctionKey { name: alias.clone(), ..key.clone() })
}
