// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes main effects and interactions of a plan's factors on the headline metric.
//!
//! Blocks are a random effect: with one link of each build, a contrast is computed within every block, and tested over
//! blocks. With several links it is tested by the variance between links, pooled over builds; without blocks, by the
//! variance of each build.

use super::comparison::{EffectScale, common_blocks, links};
use super::data::Experiment;
use super::samples::MetricValues;
use super::statistics::factorial::{Contrast, IncompleteFactorial, Term, contrasts};
use super::statistics::{Effect, Moments, student, welch};
use serde::Serialize;
use std::collections::BTreeSet;

/// Effect of one change of a factor, or of two together, on the headline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FactorEffect {
    /// `lto: on instead of off`, or `lto on × inline on`.
    pub name: String,
    /// True for an interaction: how far two changes together differ from the product of their single effects.
    pub interaction: bool,
    /// The effect as a natural logarithm of a ratio, averaged over the other factors.
    pub effect: Effect,
}

/// Returns the effects, or the reason why there are none; `None` if builds declare no factors.
pub(super) fn factor_effects(
    whole: &Experiment,
    scale: EffectScale,
    groups: &[MetricValues],
) -> Option<Result<Vec<FactorEffect>, String>> {
    let builds: Vec<usize> = (0..groups.len()).filter(|v| whole.variants[*v].probe.is_none()).collect();
    if builds.iter().all(|variant| whole.variants[*variant].factors.is_empty()) {
        return None;
    }
    Some(effects(whole, scale, groups, &builds))
}

fn effects(
    whole: &Experiment,
    scale: EffectScale,
    groups: &[MetricValues],
    builds: &[usize],
) -> Result<Vec<FactorEffect>, String> {
    if scale == EffectScale::Plain {
        return Err("a value is zero or negative, so there is no ratio".to_owned());
    }
    let names: Vec<&str> =
        whole.variants[whole.baseline].factors.iter().map(|factor| factor.name.as_str()).collect();
    let mut levels: Vec<Vec<&str>> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let reference = whole.variants[whole.baseline].factors[place].level.as_str();
        let others: BTreeSet<&str> = builds
            .iter()
            .filter_map(|variant| level_of(whole, *variant, name))
            .filter(|level| *level != reference)
            .collect();
        levels.push(std::iter::once(reference).chain(others).collect());
    }
    let mut coded = Vec::new();
    for variant in builds {
        let build = &whole.variants[*variant];
        if build.factors.len() != names.len() {
            return Err(format!("{} does not have the factors of the baseline", build.name));
        }
        let mut positions = Vec::new();
        for (name, levels) in names.iter().zip(&levels) {
            let level = level_of(whole, *variant, name)
                .ok_or_else(|| format!("{} has no level of the factor {name}", build.name))?;
            positions.push(levels.iter().position(|known| *known == level).unwrap_or(0));
        }
        coded.push(positions);
    }
    let contrasts = contrasts(&coded).map_err(|incomplete| match incomplete {
        IncompleteFactorial::Missing(positions) => {
            let combination: Vec<String> = positions
                .iter()
                .zip(names.iter().zip(&levels))
                .map(|(place, (name, levels))| format!("{name}={}", levels[*place]))
                .collect();
            format!("the factorial design is incomplete: no build has {}", combination.join(", "))
        }
        IncompleteFactorial::Twice(one, other) => {
            let name = |at: usize| &whole.variants[builds[at]].name;
            format!("{} and {} have the same levels", name(one), name(other))
        }
        IncompleteFactorial::NoFactor => "no factor has two levels".to_owned(),
    })?;
    contrasts
        .iter()
        .map(|contrast| {
            let (name, interaction) = describe(&contrast.term, &names, &levels);
            let effect = estimate(whole, scale, groups, builds, contrast)
                .ok_or_else(|| "a build has too few values to separate the factors".to_owned())?;
            Ok(FactorEffect { name, interaction, effect })
        })
        .collect()
}

fn level_of<'a>(whole: &'a Experiment, variant: usize, name: &str) -> Option<&'a str> {
    let found = whole.variants[variant].factors.iter().find(|factor| factor.name == name)?;
    Some(found.level.as_str())
}

fn describe(term: &Term, names: &[&str], levels: &[Vec<&str>]) -> (String, bool) {
    match *term {
        Term::Main { factor, level } => {
            (format!("{}: {} instead of {}", names[factor], levels[factor][level], levels[factor][0]), false)
        }
        Term::Interaction { factors: (one, other), levels: (level, second) } => {
            let name =
                format!("{} {} × {} {}", names[one], levels[one][level], names[other], levels[other][second]);
            (name, true)
        }
    }
}

fn estimate(
    whole: &Experiment,
    scale: EffectScale,
    groups: &[MetricValues],
    builds: &[usize],
    contrast: &Contrast,
) -> Option<Effect> {
    let blocked: Option<Vec<_>> = builds
        .iter()
        .map(|variant| match &groups[*variant] {
            MetricValues::Samples(samples) => links(scale, samples),
            _ => None,
        })
        .collect();
    let Some(blocked) = blocked else {
        let weighted: Option<Vec<(f64, Moments)>> = builds
            .iter()
            .zip(&contrast.weights)
            .map(|(variant, weight)| Some((*weight, logarithms(&groups[*variant])?)))
            .collect();
        return welch::contrast(&weighted?, whole.confidence);
    };
    let blocks = common_blocks(blocked.iter().flat_map(|links| links.values()))?;
    if blocked.iter().all(|links| links.len() == 1) {
        let by_block: Vec<f64> = blocks
            .iter()
            .map(|block| {
                let values = blocked.iter().filter_map(|links| links.values().next());
                values.zip(&contrast.weights).map(|(link, weight)| weight * link[block]).sum()
            })
            .collect();
        return student::paired(&by_block, whole.confidence);
    }
    let weighted: Option<Vec<(f64, Moments)>> = blocked
        .iter()
        .zip(&contrast.weights)
        .map(|(links, weight)| {
            let mean = |link: &std::collections::BTreeMap<u32, f64>| {
                blocks.iter().map(|block| link[block]).sum::<f64>() / blocks.len() as f64
            };
            Some((*weight, Moments::of(&links.values().map(mean).collect::<Vec<_>>())?))
        })
        .collect();
    student::contrast(&weighted?, whole.confidence)
}

fn logarithms(group: &MetricValues) -> Option<Moments> {
    match group {
        MetricValues::Samples(_) => Moments::of(&group.values().iter().map(|x| x.ln()).collect::<Vec<_>>()),
        _ => group.moments()?.of_logarithms(),
    }
}
