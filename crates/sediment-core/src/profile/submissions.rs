// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges submissions of users into the profile that a package keeps. Computes the weight and the contribution of each.
//!
//! A submission is converted to shares before it is weighted, even if it was merged from several recordings, so that
//! all submissions with the same weight count the same. A cap limits the share of any single submitter in the result:
//! submitters above it are scaled down to it. If T is the total of the result, U the total of all uncapped data, and k
//! submitters are at the cap c, then T = U / (1 - k c). Submitters are sorted by their totals, the largest first, and
//! the smallest k is used for which all other submitters are below c T.

use super::arithmetic::scaled;
use super::difference::{agreement, parts_per_million, shares, weights};
use super::merge::{self, Weight};
use super::{FunctionKey, Profile, SHARE_TOTAL};
use crate::error::{Error, ErrorCode, Result};
use std::collections::BTreeMap;

/// One, in parts per million.
const WHOLE: u128 = 1_000_000;

/// A profile sent in by a user.
#[derive(Debug)]
pub struct Submission<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Weight relative to the others.
    pub weight: Weight,
    /// Number of the submitter: submissions with the same number share a cap.
    pub submitter: usize,
}

/// True if the build has a function; `None` if none of the build's files should have it.
pub type IsThere<'a> = &'a dyn Fn(&FunctionKey) -> Option<bool>;

/// The merged profile with a report on its parts.
#[derive(Debug)]
pub struct Grown {
    /// The new profile that the package keeps.
    pub profile: Profile,
    /// Share of the former profile in the result, in parts per million.
    pub kept: u64,
    /// Contribution of each submission, in the given order.
    pub added: Vec<Added>,
    /// Agreement of the odd-numbered submissions, merged, with the even-numbered ones, in parts per million; `None` for
    /// fewer than two.
    pub halves: Option<u64>,
}

/// Contribution of one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Its weight after the cap.
    pub weight: Weight,
    /// True if the cap lowered it.
    pub capped: bool,
    /// Its share of the result, in parts per million.
    pub part: u64,
    /// Number of its functions that nothing else in the result has.
    pub new_functions: usize,
    /// Share of these functions in the result's calls, in parts per million.
    pub new_share: u64,
    /// Agreement with everything else in the result, in parts per million; `None` if there is nothing else.
    pub agreement: Option<u64>,
}

/// Share of a profile that belongs to a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildCoverage {
    /// Share of its weight that belongs to the build's files, in parts per million.
    pub belongs: u64,
    /// Share of that weight in functions that these files have, in parts per million; `None` if nothing belongs to
    /// them.
    pub there: Option<u64>,
}

/// Compares a profile with a build.
#[must_use]
pub fn coverage(profile: &Profile, is_there: IsThere<'_>) -> BuildCoverage {
    let (mut there, mut belongs, mut all) = (0u128, 0u128, 0u128);
    for (key, weight) in weights(profile) {
        all = all.saturating_add(weight);
        let Some(found) = is_there(key) else { continue };
        belongs = belongs.saturating_add(weight);
        if found {
            there = there.saturating_add(weight);
        }
    }
    let share = |of: u128, whole: u128| scaled(of, SHARE_TOTAL, whole).map(parts_per_million);
    BuildCoverage { belongs: share(belongs, all).unwrap_or(0), there: share(there, belongs) }
}

/// Merges submissions into the former profile; no submitter exceeds the cap (in parts per million).
///
/// # Errors
/// If there are too few submitters for the cap, or as for [`merge::merge`].
pub fn grow(
    kept: Option<(&Profile, Weight)>,
    submissions: &[Submission<'_>],
    cap: Option<u64>,
) -> Result<Grown> {
    let fresh = submissions
        .iter()
        .map(|submission| merge::merge(&[(submission.profile, Weight::ONE)], true))
        .collect::<Result<Vec<Profile>>>()?;
    let kept = kept.map(|(profile, weight)| merge::merge(&[(profile, weight)], false)).transpose()?;
    let weights: Vec<Weight> = match cap {
        Some(cap) => capped(kept.as_ref().map_or(0, |kept| kept.total), submissions, &fresh, cap)?,
        None => submissions.iter().map(|submission| submission.weight).collect(),
    };
    let weighed = fresh
        .iter()
        .zip(&weights)
        .map(|(profile, weight)| merge::merge(&[(profile, *weight)], false))
        .collect::<Result<Vec<Profile>>>()?;
    let all: Vec<(&Profile, Weight)> =
        kept.iter().chain(&weighed).map(|profile| (profile, Weight::ONE)).collect();
    let profile = merge::merge(&all, false)?;
    let part = |of: &Profile| parts_per_million(scaled(of.total, SHARE_TOTAL, profile.total).unwrap_or(0));
    let mut added = Vec::new();
    for ((submission, weight), own) in submissions.iter().zip(&weights).zip(&weighed) {
        let beside = beside(&profile, own, &all);
        added.push(Added {
            weight: *weight,
            capped: *weight != submission.weight,
            part: part(own),
            new_functions: beside.new_functions,
            new_share: beside.new_share,
            agreement: beside.agreement,
        });
    }
    Ok(Grown { kept: kept.as_ref().map_or(0, part), added, halves: halves(&weighed)?, profile })
}

/// Data of one input that the other inputs lack.
struct InputAdditions {
    new_functions: usize,
    new_share: u64,
    agreement: Option<u64>,
}

fn beside(whole: &Profile, own: &Profile, all: &[(&Profile, Weight)]) -> InputAdditions {
    let whole_weights = weights(whole);
    let own_weights = weights(own);
    let others: BTreeMap<&FunctionKey, u128> = whole_weights
        .iter()
        .map(|(key, weight)| (*key, weight.saturating_sub(own_weights.get(key).copied().unwrap_or(0))))
        .collect();
    let whole_shares = shares(&whole_weights);
    let (mut new_functions, mut new_share) = (0, 0u128);
    for key in own_weights.keys() {
        let elsewhere =
            all.iter().any(|(profile, _)| !std::ptr::eq(*profile, own) && profile.find(key).is_some());
        if !elsewhere {
            new_functions += 1;
            new_share = new_share.saturating_add(whole_shares.get(key).copied().unwrap_or(0));
        }
    }
    InputAdditions {
        new_functions,
        new_share: parts_per_million(new_share),
        agreement: agreement(&shares(&own_weights), &shares(&others)),
    }
}

/// Agreement of the odd-numbered submissions with the even-numbered ones.
fn halves(submissions: &[Profile]) -> Result<Option<u64>> {
    if submissions.len() < 2 {
        return Ok(None);
    }
    let half = |first: usize| -> Result<Profile> {
        let inputs: Vec<(&Profile, Weight)> =
            submissions.iter().skip(first).step_by(2).map(|profile| (profile, Weight::ONE)).collect();
        merge::merge(&inputs, false)
    };
    let (one, other) = (half(0)?, half(1)?);
    Ok(agreement(&shares(&weights(&one)), &shares(&weights(&other))))
}

/// Returns the weights of the submissions, scaled down to the cap for each submitter.
fn capped(kept: u128, submissions: &[Submission<'_>], fresh: &[Profile], cap: u64) -> Result<Vec<Weight>> {
    let cap = u128::from(cap).min(WHOLE);
    let mut totals: BTreeMap<usize, u128> = BTreeMap::new();
    for (submission, profile) in submissions.iter().zip(fresh) {
        let total = totals.entry(submission.submitter).or_default();
        *total = total.saturating_add(merge::merge(&[(profile, submission.weight)], false)?.total);
    }
    let mut by_total: Vec<(usize, u128)> = totals.iter().map(|(who, total)| (*who, *total)).collect();
    by_total.sort_by_key(|(who, total)| (std::cmp::Reverse(*total), *who));
    let limit = limit(kept, &by_total, cap).ok_or_else(|| {
        Error::new(
            ErrorCode::Usage,
            format!("a cap of {} % needs more submitters than {}", percent(cap), by_total.len()),
        )
        .with_hint("raise the cap, or wait for more submissions")
    })?;
    submissions
        .iter()
        .map(|submission| {
            let total = totals.get(&submission.submitter).copied().unwrap_or(0);
            if total <= limit {
                return Ok(submission.weight);
            }
            submission
                .weight
                .part(limit, total)
                .ok_or_else(|| Error::new(ErrorCode::Overflow, "the weights of the profiles exceed 128 bits"))
        })
        .collect()
}

/// Largest total that a submitter may have; `None` if the cap cannot be met.
fn limit(kept: u128, by_total: &[(usize, u128)], cap: u128) -> Option<u128> {
    let mut others = by_total.iter().fold(kept, |sum, (_, total)| sum.saturating_add(*total));
    for (capped, (_, total)) in by_total.iter().enumerate() {
        let room = WHOLE.checked_sub(cap * capped as u128).filter(|room| *room > 0)?;
        let limit = scaled(others, cap, room)?;
        if *total <= limit {
            return Some(limit);
        }
        others = others.saturating_sub(*total);
    }
    let room = WHOLE.checked_sub(cap * by_total.len() as u128).filter(|room| *room > 0)?;
    scaled(others, cap, room).filter(|limit| *limit > 0)
}

/// Formats parts per million as a percentage without trailing zeros.
fn percent(parts: u128) -> String {
    let text = format!("{}.{:04}", parts / 10_000, parts % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
