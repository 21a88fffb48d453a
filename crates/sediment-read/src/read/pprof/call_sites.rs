// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts calls by line in a pprof profile, as Go's compiler does since Go 1.23: only the innermost two locations of
//! each stack count, because the outer functions rarely call repeatedly. Functions that were inlined at a location
//! called each other.

use super::super::locations::MemoryBudget;
use super::super::protobuf::stream::Messages;
use super::super::{HEAD, Input, input};
use super::answers;
use super::tables::PprofTables;
use super::{SampleValues, counted_value, each_sample};
use crate::counters::line_profile::{CallSites, CallingLine};
use sediment_core::error::Result;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashSet;

/// Number of locations of a stack that count.
const INNERMOST: usize = 2;
/// Memory of a call between two frames, in bytes.
const CALL_COST: usize = 160;

/// Reads the calls. Skips calls whose caller has no first line.
///
/// # Errors
/// If the profile is damaged, or has no samples.
pub fn call_sites(input: &dyn Input) -> Result<(CallSites, Skipped)> {
    if answers::begins(&input::head(input, HEAD)?) {
        return of_profile(&answers::profile(&input::whole(input)?)?);
    }
    of_profile(input)
}

fn of_profile(input: &dyn Input) -> Result<(CallSites, Skipped)> {
    let mut budget = MemoryBudget::of(input.length());
    let longest = budget.0;
    let tables = PprofTables::read(&mut Messages::of(input, longest)?, &mut budget, true)?;
    let (counted, _) = counted_value(&tables)?;
    let (mut sites, mut skipped) = (CallSites::default(), Skipped::default());
    let mut seen: HashSet<[(u64, usize); 2]> = HashSet::new();
    let mut unnamed = Skipped::default();
    let values = SampleValues { number: tables.types.len(), counted };
    each_sample(input, longest, values, &mut skipped, &mut |locations, weight| {
        seen.clear();
        let mut caller: Option<((u64, usize), CallingLine<'_>)> = None;
        for id in locations.iter().take(INNERMOST).rev() {
            // The last line is the function with code of its own.
            for (place, line) in tables.lines(*id)?.iter().enumerate().rev() {
                let (name, start_line) = tables.named(*id, line.function)?;
                let key = (*id, place);
                if let Some((above, caller)) = caller.filter(|(above, _)| *above != key) {
                    if seen.insert([above, key]) {
                        budget.take(CALL_COST)?;
                        if !sites.add(caller, name, start_line, weight) {
                            unnamed.add(Reason::NoFirstLine, weight, caller.name);
                        }
                    }
                }
                caller = Some((key, CallingLine { name, start_line, line: line.line }));
            }
        }
        Ok(())
    })?;
    skipped.append(&unnamed);
    Ok((sites, skipped))
}
