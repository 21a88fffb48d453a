// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects and interactions of factors, as weights on the builds of a complete factorial (R. Fisher, "The Design of
//! Experiments", 1935).
//!
//! On the logarithmic scale a main effect is the ratio that one level has over the reference level, averaged over all
//! combinations of the other factors. An interaction of two factors is the distance between the ratio of both changes
//! together and the product of their single ratios: (both / one) / (other / none), without the factor ½ that some books
//! put before it. Zero means that neither factor changes the other's effect. Any number of levels is allowed;
//! interactions of more than two factors are omitted.

use std::collections::BTreeMap;

/// Meaning of a contrast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    /// One level of a factor against its reference level.
    Main {
        /// The factor.
        factor: usize,
        /// The level.
        level: usize,
    },
    /// Difference between the effect of two levels together and the product of their single effects.
    Interaction {
        /// The factors.
        factors: (usize, usize),
        /// A level of each.
        levels: (usize, usize),
    },
}

/// Weights on the builds, which sum to zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// Its meaning.
    pub term: Term,
    /// A weight for each build, in the order given.
    pub weights: Vec<f64>,
}

/// Reason why builds do not make a full factorial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncompleteFactorial {
    /// No build has these levels (one for each factor).
    Missing(Vec<usize>),
    /// Two builds (by index) have the same levels.
    Twice(usize, usize),
    /// No factor has two levels.
    NoFactor,
}

/// Returns the contrasts of builds from their levels, one for each factor; level 0 is the reference.
///
/// # Errors
/// If the builds are not all combinations of the levels, each once.
pub fn contrasts(builds: &[Vec<usize>]) -> Result<Vec<Contrast>, IncompleteFactorial> {
    let factors = builds.first().map_or(0, Vec::len);
    let levels: Vec<usize> =
        (0..factors).map(|f| builds.iter().map(|build| build[f] + 1).max().unwrap_or(1)).collect();
    if levels.iter().all(|count| *count < 2) {
        return Err(IncompleteFactorial::NoFactor);
    }
    let mut seen = BTreeMap::new();
    for (index, build) in builds.iter().enumerate() {
        if let Some(other) = seen.insert(build, index) {
            return Err(IncompleteFactorial::Twice(other, index));
        }
    }
    let mut combination = vec![0; factors];
    loop {
        if !seen.contains_key(&combination) {
            return Err(IncompleteFactorial::Missing(combination));
        }
        let Some(place) = (0..factors).rev().find(|f| combination[*f] + 1 < levels[*f]) else { break };
        combination[place] += 1;
        combination[place + 1..].fill(0);
    }

    let share = |used: &[usize]| {
        let others: usize = (0..factors).filter(|f| !used.contains(f)).map(|f| levels[f]).product();
        1.0 / others as f64
    };
    let sign = |build: &[usize], factor: usize, level: usize| match build[factor] {
        at if at == level => 1.0,
        0 => -1.0,
        _ => 0.0,
    };
    let mut found = Vec::new();
    for (factor, count) in levels.iter().enumerate() {
        for level in 1..*count {
            let weights = builds.iter().map(|build| sign(build, factor, level) * share(&[factor])).collect();
            found.push(Contrast { term: Term::Main { factor, level }, weights });
        }
    }
    for one in 0..factors {
        for other in one + 1..factors {
            for (level, second) in (1..levels[one]).flat_map(|a| (1..levels[other]).map(move |b| (a, b))) {
                let weight = |build: &Vec<usize>| {
                    sign(build, one, level) * sign(build, other, second) * share(&[one, other])
                };
                let term = Term::Interaction { factors: (one, other), levels: (level, second) };
                found.push(Contrast { term, weights: builds.iter().map(weight).collect() });
            }
        }
    }
    Ok(found)
}
