// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds profiles, with results that are exact to the byte.
//!
//! Recordings have different lengths, so each is first converted to shares: a recording's total becomes 10^15, and each
//! count its part of that. A merged file already has shares and is used as it is. Then all numbers are multiplied by
//! the input's weight and added.
//!
//! Every step is exact integer arithmetic, rounded half to even once for the share and once for the weight; a count
//! above 0 stays at least 1. Each input is rounded by itself, and sums of integers do not depend on their order.
//! Therefore, if merged files have weight 1, merging is associative and commutative to the byte. Scaling a merged file
//! back to 10^15 (`normalize`) rounds sums, so it is not associative.

use super::arithmetic::{NumberFault, decimal, scaled, scaled_share};
use super::text::entries;
use super::{
    CallKind, DsoFacts, EdgeFacts, FunctionFacts, FunctionIndex, FunctionKey, Profile, SHARE_TOTAL,
    WeightUnit,
};
use crate::error::{Error, ErrorCode, Result};

/// Number of decimals of a weight.
const DECIMALS: usize = 9;
const BILLION: u128 = 1_000_000_000;

/// Weight of an input: a decimal from 0 to 10^9 with at most nine decimals, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(u128);

impl Weight {
    /// Weight 1.
    pub const ONE: Self = Self(BILLION);
    /// Weight 0: only the input's functions count, not its calls.
    pub const ZERO: Self = Self(0);

    /// Returns this weight times a factor; `None` if it exceeds the maximum.
    #[must_use]
    pub fn times(self, factor: u32) -> Option<Self> {
        let product = self.0.checked_mul(u128::from(factor))?;
        (product <= BILLION * BILLION).then_some(Self(product))
    }

    /// Returns this weight times `numerator` / `denominator`, rounded down but above 0 if the weight is; `None` if it
    /// exceeds 128 bits or the denominator is 0.
    #[must_use]
    pub(super) fn part(self, numerator: u128, denominator: u128) -> Option<Self> {
        let product = self.0.checked_mul(numerator).and_then(|product| product.checked_div(denominator));
        let part = product.or_else(|| scaled(self.0, numerator, denominator))?;
        Some(Self(if self.0 > 0 { part.max(1) } else { part }))
    }

    /// Multiplies a number of shares by this weight: a number above 0 stays at least 1 if the weight is above 0.
    fn of(self, number: u128) -> Result<u128> {
        if self == Self::ONE {
            // The case of most profiles, which needs no division.
            return Ok(number);
        }
        scaled_share(number, self.0, BILLION).ok_or_else(too_large)
    }

    /// Returns the weight in billionths.
    #[must_use]
    pub fn billionths(self) -> u64 {
        self.0 as u64
    }

    /// Reads a weight.
    ///
    /// # Errors
    /// [`ErrorCode::Usage`] if the text is not a decimal in range.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |message: &str| {
            Error::new(ErrorCode::Usage, format!("a weight that {message}"))
                .with_found(text.as_bytes())
                .with_hint("a weight is a decimal from 0 to 1000000000 with at most nine decimal places")
        };
        if text.contains(['e', 'E']) {
            return Err(fault(NumberFault::NoNumber.message()));
        }
        if text.split_once('.').is_some_and(|(_, fraction)| fraction.len() > DECIMALS) {
            return Err(fault("has more than nine decimal places"));
        }
        let billionths =
            decimal(text.as_bytes(), DECIMALS as i64).map_err(|reason| fault(reason.message()))?;
        if billionths > BILLION * BILLION {
            return Err(fault(NumberFault::TooLarge.message()));
        }
        Ok(Self(billionths))
    }
}

impl std::fmt::Display for Weight {
    /// Prints the decimal without trailing zeros.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{}.{:09}", self.0 / BILLION, self.0 % BILLION);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Adds profiles. With `normalize`, the total of each input with shares is first scaled to 10^15.
///
/// The result has [`WeightUnit::Share`]. `count`, `affinity` and `samples` of a recording become shares of their own
/// sums (`count`: of the total). Numbers of the same kind are added; the result keeps the larger estimate, the lowest
/// rank, the largest size and the worst quality. For `kind`, direct takes precedence over indirect and indirect over
/// thunk; uncertain remains only if all are uncertain. Of two aliases, the first in byte order remains.
///
/// # Errors
/// If a sum or product exceeds 128 bits, if calls were counted but the total is 0, or if there is nothing to merge.
pub fn merge(inputs: &[(&Profile, Weight)], normalize: bool) -> Result<Profile> {
    if inputs.is_empty() {
        return Err(Error::new(ErrorCode::Usage, "no profile to merge"));
    }
    let mut sum = Profile { unit: WeightUnit::Share, inputs: Some(0), ..Profile::default() };
    for (input, weight) in inputs {
        add(&mut sum, input, *weight, normalize)?;
    }
    Ok(sum)
}

fn add(sum: &mut Profile, input: &Profile, weight: Weight, normalize: bool) -> Result<()> {
    let shares = Shares::of(input, weight, normalize)?;
    if input.blocks_total > 0 {
        if sum.blocks_total > 0 && sum.blocks_unit != input.blocks_unit {
            return Err(different_units());
        }
        sum.blocks_unit = input.blocks_unit;
        let total = shares.blocks.total(input.blocks_total)?;
        sum.blocks_total = sum.blocks_total.checked_add(total).ok_or_else(too_large)?;
    }
    let counters = shares.counters.total(input.counters_total)?;
    sum.counters_total = sum.counters_total.checked_add(counters).ok_or_else(too_large)?;
    sum.total = sum.total.checked_add(shares.total()?).ok_or_else(too_large)?;
    let recordings = sum.inputs.unwrap_or(0).checked_add(input.inputs.unwrap_or(1));
    sum.inputs = Some(recordings.ok_or_else(too_large)?);
    sum.quality.append(&input.quality);
    sum.source.extend(entries(&input.source).into_iter().map(str::to_owned));
    sum.arch.extend(entries(&input.arch).into_iter().map(str::to_owned));
    for (dso, said) in &input.dsos {
        match sum.dsos.get_mut(dso) {
            Some(known) => known.keep_agreed(dso, said)?,
            None => {
                sum.dsos.insert(dso.clone(), said.clone());
            }
        }
    }
    sum.reserve_functions(input.keys.len().saturating_sub(sum.keys.len()));
    let functions: Vec<FunctionIndex> = input.keys.iter().map(|key| sum.function_of(key)).collect();
    for (function, facts) in functions.iter().zip(&input.facts) {
        let Some(facts) = facts.as_deref() else { continue };
        let facts = FunctionFacts { alias: facts.alias.clone(), ..shares.of_function(facts)? };
        match &mut sum.facts[function.index()] {
            unknown @ None => *unknown = Some(Box::new(facts)),
            Some(known) => known.absorb(&facts).ok_or_else(too_large)?,
        }
    }
    sum.reserve_edges(input.edges.len().saturating_sub(sum.edges.len()));
    for edge in &input.edges {
        let facts = shares.of_edge(edge.facts())?;
        let number = sum.add_edge(functions[edge.caller.index()], functions[edge.callee.index()]);
        match &mut sum.edges[number].facts {
            unknown @ None => *unknown = Some(Box::new(facts)),
            Some(known) => known.absorb(&facts).ok_or_else(too_large)?,
        }
    }
    Ok(())
}

/// Merges a single profile with weight 1, in place.
///
/// # Errors
/// As [`merge`].
pub fn into_shares(mut profile: Profile) -> Result<Profile> {
    let shares = Shares::of(&profile, Weight::ONE, false)?;
    if profile.blocks_total == 0 {
        profile.blocks_unit = super::blocks::BlockUnit::default();
    }
    profile.blocks_total = shares.blocks.total(profile.blocks_total)?;
    profile.counters_total = shares.counters.total(profile.counters_total)?;
    profile.total = shares.total()?;
    profile.inputs = Some(profile.inputs.unwrap_or(1));
    profile.source = entries(&profile.source).into_iter().map(str::to_owned).collect();
    profile.arch = entries(&profile.arch).into_iter().map(str::to_owned).collect();
    profile.unit = WeightUnit::Share;
    for facts in profile.facts.iter_mut().flatten() {
        let alias = facts.alias.take();
        **facts = FunctionFacts { alias, ..shares.of_function(facts)? };
    }
    for facts in profile.edges.iter_mut().filter_map(|edge| edge.facts.as_mut()) {
        **facts = shares.of_edge(facts)?;
    }
    Ok(profile)
}

impl Profile {
    /// Returns the same profile with functions under other keys; numbers of functions with the same new key are added.
    /// `None` if a sum exceeds 128 bits. Data of DSOs stays.
    pub fn renamed(&self, key: impl Fn(&FunctionKey) -> FunctionKey) -> Option<Self> {
        let mut renamed = Self {
            source: self.source.clone(),
            unit: self.unit,
            total: self.total,
            arch: self.arch.clone(),
            inputs: self.inputs,
            quality: self.quality,
            blocks_unit: self.blocks_unit,
            blocks_total: self.blocks_total,
            counters_total: self.counters_total,
            dsos: self.dsos.clone(),
            ..Self::default()
        };
        let functions: Vec<FunctionIndex> = self.keys.iter().map(|old| renamed.function(key(old))).collect();
        for (function, facts) in functions.iter().zip(&self.facts) {
            if let Some(facts) = facts.as_deref() {
                renamed.facts_mut(*function).absorb(facts)?;
            }
        }
        renamed.reserve_edges(self.edges.len());
        for edge in &self.edges {
            let (caller, callee) = (functions[edge.caller.index()], functions[edge.callee.index()]);
            renamed.edge_mut(caller, callee).add(edge.facts())?;
        }
        Some(renamed)
    }
}

/// Converts one input's numbers to weighted shares.
struct Shares {
    count: ShareScale,
    affinity: ShareScale,
    samples: ShareScale,
    blocks: ShareScale,
    counters: ShareScale,
    total: u128,
}

impl Shares {
    fn of(input: &Profile, weight: Weight, normalize: bool) -> Result<Self> {
        let sum = |mut numbers: &mut dyn Iterator<Item = Option<u128>>| {
            (&mut numbers).flatten().try_fold(0u128, u128::checked_add).ok_or_else(too_large)
        };
        let counted = input.edges.iter().any(|edge| edge.facts().count.is_some_and(|count| count > 0));
        if counted && input.total == 0 {
            return Err(Error::new(ErrorCode::Damaged, "the profile has call counts, but its total is 0"));
        }
        let (over, total) = match (input.unit, input.total) {
            (_, 0) => ([None; 3], 0),
            (WeightUnit::Calls, total) => ([Some(total), None, None], SHARE_TOTAL),
            (WeightUnit::Share, total) if normalize => ([Some(total); 3], SHARE_TOTAL),
            (WeightUnit::Share, total) => ([None; 3], total),
        };
        let [count, mut affinity, mut samples] = over.map(|over| ShareScale { over, weight });
        let in_shares = input.unit == WeightUnit::Share && !normalize;
        let own_sum =
            |total: u128| ShareScale { over: Some(total).filter(|total| *total > 0 && !in_shares), weight };
        let (blocks, counters) = (own_sum(input.blocks_total), own_sum(input.counters_total));
        if input.unit == WeightUnit::Calls {
            affinity.over = Some(sum(&mut input.edges.iter().map(|edge| edge.facts().affinity))?);
            samples.over = Some(sum(&mut input.facts.iter().flatten().map(|facts| facts.samples))?);
        }
        Ok(Self { count, affinity, samples, blocks, counters, total })
    }

    /// Data of a function with its numbers as shares, without its alias.
    fn of_function(&self, facts: &FunctionFacts) -> Result<FunctionFacts> {
        let scale = |count| self.blocks.of(Some(count)).map(Option::unwrap_or_default);
        let blocks = facts.blocks.as_ref().map(|blocks| blocks.scaled(scale).map(Box::new)).transpose()?;
        let scale = |count| self.counters.of(Some(count)).map(Option::unwrap_or_default);
        let counters =
            facts.counters.as_ref().map(|counters| counters.scaled(scale).map(Box::new)).transpose()?;
        Ok(FunctionFacts {
            size: facts.size,
            samples: self.samples.of(facts.samples)?,
            first: facts.first,
            static_calls: facts.static_calls,
            heat: facts.heat,
            alias: None,
            taken: facts.taken,
            entry: facts.entry,
            blocks,
            counters,
        })
    }

    /// Data of an edge with its numbers as shares.
    fn of_edge(&self, facts: &EdgeFacts) -> Result<EdgeFacts> {
        Ok(EdgeFacts {
            count: self.count.of(facts.count)?,
            affinity: self.affinity.of(facts.affinity)?,
            ..*facts
        })
    }

    /// The input's part of the total.
    fn total(&self) -> Result<u128> {
        let total = scaled(self.total, self.count.weight.0, BILLION).ok_or_else(too_large)?;
        // No share is rounded below 1, so the total must not be either.
        let counted = self.total > 0 && self.count.weight.0 > 0;
        Ok(if counted { total.max(1) } else { total })
    }
}

/// Converts numbers to shares of 10^15 over their sum, unless they are shares already, and weights them.
struct ShareScale {
    over: Option<u128>,
    weight: Weight,
}

impl ShareScale {
    /// Scales a total; above 0 if the weight is.
    fn total(&self, total: u128) -> Result<u128> {
        Ok(self.of(Some(total))?.unwrap_or(0))
    }

    fn of(&self, number: Option<u128>) -> Result<Option<u128>> {
        let Some(number) = number.filter(|number| *number > 0) else { return Ok(number) };
        let share = match self.over {
            Some(over) => {
                number.checked_mul(SHARE_TOTAL).ok_or_else(too_large)?;
                scaled_share(number, SHARE_TOTAL, over)
            }
            None => Some(number),
        };
        self.weight.of(share.ok_or_else(too_large)?).map(Some)
    }
}

/// Error for counts of blocks that cannot be added.
pub(super) fn different_units() -> Error {
    Error::new(ErrorCode::IncompatibleInputs, "one profile counts block executions, another samples")
        .with_hint(
            "merge each kind separately; or give each file a weight (-w), and all counts become samples",
        )
}

pub(super) fn too_large() -> Error {
    Error::new(ErrorCode::Overflow, "the numbers of the profiles exceed 128 bits")
}

impl FunctionFacts {
    /// Adds another profile's data of the same function; `None` if the samples exceed 128 bits.
    pub(super) fn absorb(&mut self, other: &Self) -> Option<()> {
        self.size = self.size.max(other.size);
        self.samples = added(self.samples, other.samples)?;
        self.first = lesser(self.first, other.first);
        self.static_calls = self.static_calls.max(other.static_calls);
        self.heat = lesser(self.heat, other.heat);
        if other.alias.is_some() {
            self.alias = lesser(self.alias.take(), other.alias.clone());
        }
        self.taken |= other.taken;
        self.entry |= other.entry;
        match (&mut self.blocks, &other.blocks) {
            (Some(own), Some(other)) => own.absorb(other)?,
            (own @ None, other) => own.clone_from(other),
            (Some(_), None) => {}
        }
        match (&mut self.counters, &other.counters) {
            (Some(own), Some(other)) => own.absorb(other)?,
            (own @ None, other) => own.clone_from(other),
            (Some(_), None) => {}
        }
        Some(())
    }
}

impl EdgeFacts {
    /// Adds another profile's data of the same edge; `None` if a sum exceeds 128 bits.
    pub(super) fn absorb(&mut self, other: &Self) -> Option<()> {
        let static_calls = self.static_calls.max(other.static_calls);
        // Calls that are certain in one input are certain in the result.
        let certain = |facts: &Self| facts.kind.is_none() && facts.count.is_some();
        let kind = lesser(self.kind, other.kind)
            .filter(|kind| *kind != CallKind::Uncertain || !certain(self) && !certain(other));
        *self = Self {
            count: added(self.count, other.count)?,
            affinity: added(self.affinity, other.affinity)?,
            static_calls,
            kind,
        };
        Some(())
    }

    /// Adds a repeated edge of the same profile, whose estimates are added too; `None` if a sum exceeds 128 bits.
    pub(super) fn add(&mut self, other: &Self) -> Option<()> {
        let number = |estimate: Option<super::Millionths>| estimate.map(|estimate| estimate.0);
        let static_calls = added(number(self.static_calls), number(other.static_calls))?;
        self.absorb(other)?;
        self.static_calls = static_calls.map(super::Millionths);
        Some(())
    }
}

impl DsoFacts {
    /// Keeps only data on which another input with this DSO agrees.
    ///
    /// # Errors
    /// If functions without names would lose the build that their addresses refer to.
    pub(super) fn keep_agreed(&mut self, label: &str, other: &Self) -> Result<()> {
        if (self.unresolved || other.unresolved) && self.build_id != other.build_id {
            let id = |facts: &Self| facts.build_id.clone().unwrap_or_else(|| "none".to_owned());
            let message = format!(
                "cannot merge addresses of different builds: functions of {label} have no names, and its build-ids are {} and {}",
                id(self),
                id(other)
            );
            return Err(Error::new(ErrorCode::IncompatibleInputs, message)
                .with_hint("name the functions of each first: sediment resolve PROFILE --debug FILE"));
        }
        self.unresolved |= other.unresolved;
        if self.build_id != other.build_id {
            self.build_id = None;
        }
        if self.package != other.package {
            self.package = None;
        }
        Ok(())
    }
}

/// Adds the known numbers; `Some(None)` if none is known, and `None` on overflow.
fn added(a: Option<u128>, b: Option<u128>) -> Option<Option<u128>> {
    match (a, b) {
        (Some(a), Some(b)) => a.checked_add(b).map(Some),
        (a, b) => Some(a.or(b)),
    }
}

/// Returns the smaller known value.
fn lesser<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
