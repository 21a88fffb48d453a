// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps recorded addresses to source lines, through inlined functions, with the debug information of the available
//! binaries.

use super::ResolveSettings;
use super::dsos::{self, BinaryView, Dsos};
use super::executions::{Stretches, by_dso};
use crate::counters::line_profile::{Body, CallSites, CallingLine, LineCounts, LinePosition};
use crate::read::{AddressId, DsoId, Recording, Spot, TransferKind};
use sediment_core::binary::Files;
use sediment_core::binary::inlined::{InlineFrame, InlineFrames};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const HINT: &str = "build with -g (Go: without -ldflags=-w), and name the recorded program: --binary PROGRAM";

/// Returns executions by line for the DSOs with a wanted label, counted as LLVM does: a line has the count of its most
/// executed instruction or, with samples, of the instruction with the most samples.
///
/// # Errors
/// If a binary is damaged or is not the recorded one, and if no executed code has a line.
pub fn lines(
    recording: &Recording,
    files: &dyn Files,
    settings: ResolveSettings,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(LineCounts, Skipped)> {
    let mut skipped = Skipped::default();
    let loaded = dsos::load(recording, files, settings, &mut skipped)?;
    let dsos = Dsos::new(recording, &loaded);
    let sources = InlineSources::read(recording, &dsos, files, wanted, &mut skipped)?;
    let mut lines = LineCounts::default();
    for (id, code) in by_dso(recording) {
        let (Some(view), Some(label), Some(source)) = (dsos.view(id), dsos.label(id), sources.of(id)) else {
            continue;
        };
        if recording.counts_by_samples {
            for (spot, cost) in &code.samples {
                let Some(address) = view.address_of(spot) else { continue };
                add(&mut lines, source, address, saturated(*cost), &mut skipped);
            }
        } else {
            for (begin, end, count) in Stretches::of(&code, recording, view, label, &mut skipped).sums() {
                for address in source.changes(begin, end) {
                    add(&mut lines, source, address, saturated(count), &mut skipped);
                }
            }
        }
    }
    add_calls(&mut lines, recording, &dsos, &sources);
    if lines.functions.values().all(|body| body.total() == 0) {
        let why = "none of the executed code has source lines";
        return Err(Error::new(ErrorCode::Unresolved, why).with_hint(HINT));
    }
    Ok((lines, skipped))
}

/// Collects calls by their source line, also the calls in inlined functions. In each stack only the innermost call
/// counts, as in Go's compiler: the call into the sampled code.
///
/// # Errors
/// If a binary is damaged or is not the recorded one, and if no call has a line.
pub fn call_sites(
    recording: &Recording,
    files: &dyn Files,
    settings: ResolveSettings,
) -> Result<(CallSites, Skipped)> {
    let mut skipped = Skipped::default();
    let loaded = dsos::load(recording, files, settings, &mut skipped)?;
    let dsos = Dsos::new(recording, &loaded);
    let sources = InlineSources::read(recording, &dsos, files, &|_| true, &mut skipped)?;
    let mut sites = CallSites::default();
    let met: HashMap<AddressId, u128> = recording.samples().into_iter().collect();
    for (from, to, kind, count) in recording.transfers() {
        let is_named =
            |at: AddressId| matches!(recording.addresses()[at.0 as usize].spot, Spot::Symbol { .. });
        let count = if is_named(to) { count } else { count.min(met.get(&to).copied().unwrap_or(0)) };
        if kind == TransferKind::Affinity || count == 0 {
            continue;
        }
        if is_named(from) {
            skipped.add(Reason::NoLines, count, "");
            continue;
        }
        let caller = sources.frames(recording, &dsos, from.0, true);
        let Some(innermost) = caller.first() else { continue };
        let callee = sources.frames(recording, &dsos, to.0, false);
        add_inlined(&mut sites, &caller, count);
        if let Some(outermost) = callee.last() {
            let found = sites.add(caller_of(innermost), outermost.name, outermost.first_line, count);
            if !found {
                skipped.add(Reason::NoFirstLine, count, innermost.name);
            }
        }
    }
    for (at, cost) in recording.samples() {
        add_inlined(&mut sites, &sources.frames(recording, &dsos, at.0, false), cost);
    }
    if sites.is_empty() {
        let why = "no recorded call has source lines";
        return Err(Error::new(ErrorCode::Unresolved, why).with_hint(HINT));
    }
    Ok((sites, skipped))
}

fn caller_of<'a>(frame: &InlineFrame<'a>) -> CallingLine<'a> {
    CallingLine { name: frame.name, start_line: frame.first_line, line: frame.line }
}

/// Adds the calls of functions that were inlined into one another.
fn add_inlined(sites: &mut CallSites, frames: &[InlineFrame<'_>], weight: u128) {
    for pair in frames.windows(2) {
        sites.add(caller_of(&pair[1]), pair[0].name, pair[0].first_line, weight);
    }
}

fn saturated(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Debug information of the DSOs that have some.
struct InlineSources(BTreeMap<DsoId, InlineFrames>);

impl InlineSources {
    fn read(
        recording: &Recording,
        dsos: &Dsos,
        files: &dyn Files,
        wanted: &dyn Fn(&str) -> bool,
        skipped: &mut Skipped,
    ) -> Result<Self> {
        let mut all = BTreeMap::new();
        let used = recording.addresses().iter().filter_map(|address| address.dso);
        let used: BTreeSet<DsoId> = used.collect();
        for id in used {
            let (Some(view), Some(label)) = (dsos.view(id), dsos.label(id)) else { continue };
            if !wanted(label) {
                continue;
            }
            match InlineFrames::read(view.bytes(), files).map_err(|error| error.with_input(label))? {
                Some(frames) => drop(all.insert(id, frames)),
                None => skipped.add(Reason::NoLines, 0, label),
            }
        }
        Ok(Self(all))
    }

    fn of(&self, id: DsoId) -> Option<&InlineFrames> {
        self.0.get(&id)
    }

    /// Finds the functions at a recorded address, innermost first. For a return address, finds the functions at the
    /// call before it.
    fn frames(&self, recording: &Recording, dsos: &Dsos, at: u32, is_return: bool) -> Vec<InlineFrame<'_>> {
        let place = &recording.addresses()[at as usize];
        let found = place.dso.and_then(|id| Some((self.of(id)?, address_in(dsos.view(id)?, &place.spot)?)));
        found.map_or_else(Vec::new, |(frames, address)| {
            frames.at(address.saturating_sub(u64::from(is_return)))
        })
    }
}

/// Returns the address of a place; for a function known by name, the address of its first byte.
fn address_in(view: &BinaryView<'_>, spot: &Spot) -> Option<u64> {
    match spot {
        Spot::Symbol { name, .. } => Some(view.only(std::str::from_utf8(name).ok()?)?.address),
        spot => view.address_of(spot),
    }
}

/// Raises the executions of the line at an address.
fn add(lines: &mut LineCounts, source: &InlineFrames, address: u64, count: u64, skipped: &mut Skipped) {
    let frames = source.at(address);
    let Some(body) = body_of(lines, &frames) else {
        skipped.add(Reason::NoLines, count.into(), "");
        return;
    };
    if let Some(innermost) = frames.first().filter(|frame| frame.line > 0) {
        body.raise(site_of(innermost), count.saturating_mul(source.copies(address)));
    }
    if source.start_of(address) == Some(address) {
        if let Some(outermost) = frames.last().and_then(|frame| lines.functions.get_mut(frame.name)) {
            outermost.head = outermost.head.max(count);
        }
    }
}

/// The place of a frame. Discriminators of another compiler mean nothing to LLVM.
fn site_of(frame: &InlineFrame<'_>) -> LinePosition {
    LinePosition::of(frame.line, frame.first_line, if frame.is_of_llvm { frame.discriminator } else { 0 })
}

/// Returns the body that the innermost of these functions has at this place.
fn body_of<'a>(lines: &'a mut LineCounts, frames: &[InlineFrame<'_>]) -> Option<&'a mut Body> {
    let mut outer = frames.last().filter(|frame| frame.first_line > 0)?;
    let mut body = lines.functions.entry(outer.name.to_owned()).or_default();
    for frame in frames.iter().rev().skip(1) {
        body = body.inlined.entry((site_of(outer), frame.name.to_owned())).or_default();
        outer = frame;
    }
    Some(body)
}

/// Adds the targets of calls, if the recording has the addresses of the calls.
fn add_calls(lines: &mut LineCounts, recording: &Recording, dsos: &Dsos, sources: &InlineSources) {
    for (from, to, kind, count) in recording.transfers() {
        let is_address = !matches!(recording.addresses()[from.0 as usize].spot, Spot::Symbol { .. });
        if !is_address || !matches!(kind, TransferKind::Call | TransferKind::Branch) {
            continue;
        }
        let caller = sources.frames(recording, dsos, from.0, false);
        let callee = sources.frames(recording, dsos, to.0, false);
        let (Some(innermost), Some(callee)) = (caller.first(), callee.last()) else { continue };
        let place = &recording.addresses()[to.0 as usize];
        let is_entry = place.dso.and_then(|id| {
            let address = address_in(dsos.view(id)?, &place.spot)?;
            Some(sources.of(id)?.start_of(address)? == address)
        });
        if is_entry != Some(true) {
            continue;
        }
        let site = site_of(innermost);
        // A call from code that was never counted would have no line to attach it to.
        if let Some(body) = body_of(lines, &caller).filter(|body| body.counts.contains_key(&site)) {
            let sum = body.calls.entry((site, callee.name.to_owned())).or_default();
            *sum = sum.saturating_add(saturated(count));
        }
    }
}
