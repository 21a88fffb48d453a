// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls by line in a profile of pprof, as Go's compiler sums them up since Go 1.23: of each stack the innermost two locations, as what lies
//! above hardly calls again and again. Functions that were inlined at a location called one another.

use super::super::locations::{self, Budget, DEEPEST};
use super::super::protobuf::Damage;
use super::super::protobuf::stream::{Content, Messages};
use super::super::{HEAD, Input, input};
use super::answers;
use super::tables::Tables;
use super::{Sample, counted_value};
use crate::counters::line_profile::{CallSites, Caller};
use sediment_core::error::Result;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashSet;

/// Locations of a stack that count.
const INNERMOST: usize = 2;
/// Bytes of memory of a call between two frames.
const CALL_COST: usize = 160;

/// Reads the calls; those without a first line of the caller are skipped.
///
/// # Errors
/// When the profile is damaged, or has no sample.
pub fn call_sites(input: &dyn Input) -> Result<(CallSites, Skipped)> {
    if answers::begins(&input::head(input, HEAD)?) {
        return of_profile(&answers::profile(&input::whole(input)?)?);
    }
    of_profile(input)
}

fn of_profile(input: &dyn Input) -> Result<(CallSites, Skipped)> {
    let mut budget = Budget::of(input.length());
    let longest = budget.0;
    let tables = Tables::read(&mut Messages::of(input, longest)?, &mut budget, true)?;
    let (counted, _) = counted_value(&tables)?;
    let (mut sites, mut skipped) = (CallSites::default(), Skipped::default());
    let mut messages = Messages::of(input, longest)?;
    let (mut sample, mut samples) = (Sample::default(), 0u64);
    let mut seen: HashSet<[(u64, usize); 2]> = HashSet::new();
    while let Some((number, content)) = messages.next()? {
        if (number, content) != (2, Content::Bytes) {
            continue;
        }
        sample.read(&messages.buffer).map_err(|Damage| messages.damage("a damaged sample"))?;
        samples += 1;
        if sample.locations.len() > DEEPEST || sample.values.len() != tables.types.len() {
            return Err(messages.damage("a sample of another form than its profile"));
        }
        let value = sample.values[counted] as i64;
        let weight = u128::from(value.unsigned_abs());
        if value <= 0 {
            let reason = if value == 0 { Reason::ZeroSample } else { Reason::NegativeSample };
            skipped.add(reason, weight, "");
            continue;
        }
        seen.clear();
        let mut caller: Option<((u64, usize), Caller<'_>)> = None;
        for id in sample.locations.iter().take(INNERMOST).rev() {
            // The last line is the function that has code of its own.
            for (place, line) in tables.lines(*id)?.iter().enumerate().rev() {
                let (name, start_line) = tables.named(*id, line.function)?;
                let key = (*id, place);
                if let Some((above, caller)) = caller.filter(|(above, _)| *above != key) {
                    if seen.insert([above, key]) {
                        budget.take(CALL_COST)?;
                        if !sites.add(caller, name, start_line, weight) {
                            skipped.add(Reason::NoFirstLine, weight, caller.name);
                        }
                    }
                }
                caller = Some((key, Caller { name, start_line, line: line.line }));
            }
        }
    }
    if samples == 0 {
        return Err(locations::no_sample());
    }
    Ok((sites, skipped))
}
