// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the executed code of a recording, by DSO and address.

use super::dsos::BinaryView;
use crate::read::{AddressId, DsoId, ExecutedInstruction, Recording, Spot, StraightRun};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeMap, HashMap};

/// Recorded executions in one DSO.
#[derive(Default)]
pub(super) struct RecordedCode<'a> {
    executed: Vec<&'a ExecutedInstruction>,
    runs: Vec<&'a StraightRun>,
    /// Beginnings of blocks that could not be watched.
    /// Costs by position.
    pub(super) samples: Vec<(&'a Spot, u128)>,
}

/// Recorded executions by DSO.
pub(super) fn by_dso(recording: &Recording) -> BTreeMap<DsoId, RecordedCode<'_>> {
    let mut all: BTreeMap<DsoId, RecordedCode> = BTreeMap::new();
    let place = |id: AddressId| &recording.addresses()[id.0 as usize];
    for executed in recording.executed() {
        if let Some(dso) = place(executed.function).dso {
            all.entry(dso).or_default().executed.push(executed);
        }
    }
    for run in recording.straight_runs() {
        let to = place(run.to.unwrap_or(run.from)).dso;
        if let Some(dso) = place(run.from).dso.filter(|dso| to == Some(*dso)) {
            all.entry(dso).or_default().runs.push(run);
        }
    }
    if recording.counts_by_samples {
        for (at, cost) in recording.samples() {
            if let Some(dso) = place(at).dso {
                all.entry(dso).or_default().samples.push((&place(at).spot, cost));
            }
        }
    }
    all
}

/// Stretches of code with their counts, which may overlap.
#[derive(Default)]
pub(super) struct Stretches {
    /// The first byte of each stretch (`begins`) and the first byte after it (`ends`), each with the stretch's count.
    begins: Vec<(u64, u64)>,
    ends: Vec<(u64, u64)>,
}

impl Stretches {
    /// Collects the stretches of a DSO.
    pub(super) fn of(
        code: &RecordedCode<'_>,
        recording: &Recording,
        view: &BinaryView<'_>,
        label: &str,
        skipped: &mut Skipped,
    ) -> Self {
        let mut all = Self::default();
        if let Some(bias) = bias(recording, view, &code.executed) {
            all.add_executed(&code.executed, bias);
        } else if !code.executed.is_empty() {
            skipped.add(Reason::UnknownBias, 0, label);
        }
        all.add_runs(&code.runs, recording, view);
        all
    }

    fn add(&mut self, begin: u64, end: u64, count: u64) {
        if begin < end {
            self.begins.push((begin, count));
            self.ends.push((end, count));
        }
    }

    /// If several functions or parts list an instruction, it was executed for each of them.
    fn add_executed(&mut self, executed: &[&ExecutedInstruction], bias: u64) {
        for executed in executed {
            let address = executed.address.wrapping_sub(bias);
            self.add(address, address.saturating_add(1), executed.count);
        }
    }

    fn add_runs(&mut self, runs: &[&StraightRun], recording: &Recording, view: &BinaryView<'_>) {
        let address = |id: AddressId| view.address_of(&recording.addresses()[id.0 as usize].spot);
        for run in runs {
            let Some(from) = address(run.from) else { continue };
            let end = match run.to.map(address) {
                Some(Some(last)) => last.saturating_add(1),
                Some(None) => continue,
                None => from.saturating_add(view.straight(from, StraightRun::MOST_INSTRUCTIONS)),
            };
            self.add(from, end, run.count);
        }
    }

    /// Stretches that do not overlap, by address, with the sums of their counts.
    pub(super) fn sums(mut self) -> Vec<(u64, u64, u128)> {
        self.begins.sort_unstable();
        self.ends.sort_unstable();
        let mut sums = Vec::new();
        let (mut begins, mut ends) = (self.begins.iter().peekable(), self.ends.iter().peekable());
        let (mut at, mut sum) = (0u64, 0u128);
        while let Some(&&(end, leaves)) = ends.peek() {
            let next = begins.peek().map_or(end, |(begin, _)| end.min(*begin));
            if sum > 0 && at < next {
                sums.push((at, next, sum));
            }
            at = next;
            if next == end {
                sum -= u128::from(leaves);
                ends.next();
            } else if let Some((_, enters)) = begins.next() {
                sum += u128::from(*enters);
            }
        }
        sums
    }
}

/// Load bias of a DSO: most functions begin at their lowest executed address, and programs are loaded in whole pages.
fn bias(recording: &Recording, view: &BinaryView<'_>, executed: &[&ExecutedInstruction]) -> Option<u64> {
    const PAGE: u64 = 4096;
    let mut lowest: HashMap<&[u8], u64> = HashMap::new();
    for executed in executed {
        if let Spot::Symbol { name, .. } = &recording.addresses()[executed.function.0 as usize].spot {
            let address = lowest.entry(name).or_insert(executed.address);
            *address = executed.address.min(*address);
        }
    }
    let mut votes: BTreeMap<u64, u64> = BTreeMap::new();
    for (name, lowest) in lowest {
        let function = std::str::from_utf8(name).ok().and_then(|name| view.only(name));
        let bias = function.map(|function| lowest.wrapping_sub(function.address));
        if let Some(bias) = bias.filter(|bias| bias % PAGE == 0) {
            *votes.entry(bias).or_default() += 1;
        }
    }
    let all: u64 = votes.values().sum();
    let best = votes.into_iter().max_by_key(|(bias, votes)| (*votes, std::cmp::Reverse(*bias)))?;
    (best.1 > all / 2).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{RecordedAddress, RecordedDso};

    #[test]
    fn a_run_through_two_files_is_of_neither() {
        let mut recording = Recording::default();
        let [first, second] =
            ["a", "b"].map(|path| recording.dso(RecordedDso { path: path.to_owned(), build_id: None }));
        let mut address =
            |dso, address| recording.place(RecordedAddress { dso: Some(dso), spot: Spot::Address(address) });
        let [from, to, other] = [address(first, 16), address(first, 32), address(second, 32)];
        for to in [Some(to), Some(other), None] {
            recording.add_straight_run(StraightRun { from, to, count: 1 });
        }
        let runs: Vec<(DsoId, Option<AddressId>)> = by_dso(&recording)
            .iter()
            .flat_map(|(dso, code)| code.runs.iter().map(|run| (*dso, run.to)))
            .collect();
        assert_eq!(runs, [(first, Some(to)), (first, None)]);
    }
}
