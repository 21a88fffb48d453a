// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded event (perf_event_attr): the fields of its samples, and their usable content.

use super::cursor::PerfDataCursor;
use sediment_core::error::Result;

/// Bits of `sample_type` (PERF_SAMPLE_*).
pub(super) mod sample_type {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `branch_sample_type` (PERF_SAMPLE_BRANCH_*).
pub(super) mod branch_sample_type {
    pub(crate) const ANY: u64 = 1 << 3;
    pub(crate) const ANY_CALL: u64 = 1 << 4;
    pub(crate) const IND_CALL: u64 = 1 << 6;
    pub(crate) const CALL_STACK: u64 = 1 << 11;
    pub(crate) const CALL: u64 = 1 << 13;
    pub(crate) const HW_INDEX: u64 = 1 << 17;
    pub(crate) const COUNTERS: u64 = 1 << 19;
    /// Bits that choose kinds of branches; the others choose privilege levels and the fields of each branch.
    pub(crate) const KINDS: u64 = 0x3ff8;
}

/// Relevant values of `type` (PERF_TYPE_*) and of `config`.
mod event {
    pub(crate) const HARDWARE: u32 = 0;
    pub(crate) const SOFTWARE: u32 = 1;
    pub(crate) const BRANCH_INSTRUCTIONS: u64 = 4;
    pub(crate) const DUMMY: u64 = 9;
    pub(crate) const BPF_OUTPUT: u64 = 10;
}

/// Usable content of an event's samples, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SampleContent {
    /// Each sample has the newest branches of the processor.
    BranchStacks,
    /// Each sample is one branch, from the sampled instruction to the sampled address.
    SingleBranches,
    /// Each sample has the branches into functions that had not returned, which is a call stack.
    BranchesAsStack,
    /// Each sample has the return addresses on the stack.
    CallChains,
    /// Each sample has a copy of the stack, in which callers can be found only by unwinding.
    StackCopies,
    /// Each sample has the address of the executed instruction.
    AddressResolver,
    /// Nothing usable.
    Nothing,
}

/// The relevant parts of an event.
#[derive(Debug, Clone, Default)]
pub(super) struct Attribute {
    kind: u32,
    config: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    /// True if records other than samples also end in some of the sample's fields.
    pub(super) sample_id_all: bool,
    /// The fixed period; 0 if a frequency was requested.
    pub(super) period: u64,
    name: Option<String>,
}

impl Attribute {
    pub(super) fn read(mut cursor: PerfDataCursor) -> Result<Self> {
        const FREQUENCY: u32 = 10;
        const SAMPLE_ID_ALL: u32 = 18;
        const EXCLUDE_USER: u32 = 4;
        const EXCLUDE_KERNEL: u32 = 5;
        let kind = cursor.u32("the type of an event")?;
        cursor.u32("the size of an event")?;
        let config = cursor.u64("an event")?;
        let period = cursor.u64("the period of an event")?;
        let sample_type = cursor.u64("an event")?;
        let read_format = cursor.u64("an event")?;
        let flags = cursor.u64("an event")?;
        cursor.bytes(16, "an event")?;
        let mut branch_sample_type = 0;
        // The first version of the structure does not have this field.
        if cursor.len() >= 16 {
            cursor.u64("an event")?;
            branch_sample_type = cursor.u64("an event")?;
        }
        let flag = |bit: u32| cursor.bit_field(flags, bit, 1) == 1;
        let base = match (kind, config) {
            (0, 0) => Some("cycles"),
            (0, 1) => Some("instructions"),
            (0, 4) => Some("branches"),
            (0, 5) => Some("branch-misses"),
            (1, 0) => Some("cpu-clock"),
            (1, 1) => Some("task-clock"),
            (1, 2) => Some("page-faults"),
            _ => None,
        };
        let level = match (flag(EXCLUDE_USER), flag(EXCLUDE_KERNEL)) {
            (false, true) => ":u",
            (true, false) => ":k",
            _ => "",
        };
        Ok(Self {
            kind,
            config,
            sample_type,
            read_format,
            branch_sample_type,
            sample_id_all: flag(SAMPLE_ID_ALL),
            period: if flag(FREQUENCY) { 0 } else { period },
            name: base.map(|base| format!("{base}{level}")),
        })
    }

    pub(super) fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Content of its samples.
    pub(super) fn content(&self) -> SampleContent {
        use sample_type::{ADDR, BRANCH_STACK, CALLCHAIN, IP, STACK_USER, TID};
        let silent = self.kind == event::SOFTWARE && matches!(self.config, event::DUMMY | event::BPF_OUTPUT);
        if silent || !self.has(TID) {
            SampleContent::Nothing
        } else if self.has(BRANCH_STACK) && self.branch_sample_type & branch_sample_type::CALL_STACK != 0 {
            SampleContent::BranchesAsStack
        } else if self.has(BRANCH_STACK) {
            SampleContent::BranchStacks
        } else if !self.has(IP) {
            SampleContent::Nothing
        } else if self.has(ADDR) && self.is_each_a_branch() {
            SampleContent::SingleBranches
        } else if self.has(CALLCHAIN) {
            // Also for copies of the stack: a tool that has unwound them stores the callers here.
            SampleContent::CallChains
        } else if self.has(STACK_USER) {
            SampleContent::StackCopies
        } else {
            SampleContent::AddressResolver
        }
    }

    /// True if perf made its samples from the branches of a processor trace (`perf inject --itrace=b`): it describes
    /// them as individually counted branches, or with the name `branch` for the Statistical Profiling Extension.
    fn is_each_a_branch(&self) -> bool {
        let counted =
            self.kind == event::HARDWARE && self.config == event::BRANCH_INSTRUCTIONS && self.period == 1;
        counted || self.name.as_deref() == Some("branch")
    }

    /// True if the processor recorded only calls.
    pub(super) fn records_calls_only(&self) -> bool {
        use branch_sample_type::{ANY_CALL, CALL, IND_CALL, KINDS};
        let kinds = self.branch_sample_type & KINDS;
        kinds != 0 && kinds & !(ANY_CALL | IND_CALL | CALL) == 0
    }

    /// True if the processor recorded every branch, so that there is no branch between two consecutive ones.
    pub(super) fn records_all_branches(&self) -> bool {
        self.branch_sample_type & branch_sample_type::ANY != 0
    }

    /// True if the processor recorded only direct calls (`-j call`).
    pub(super) fn records_no_indirect_calls(&self) -> bool {
        use branch_sample_type::{ANY, ANY_CALL, CALL, IND_CALL};
        self.branch_sample_type & (ANY | ANY_CALL | IND_CALL | CALL) == CALL
    }

    /// True if both count the same thing: each type of core in a machine may have its own event.
    pub(super) fn counts_the_same(&self, other: &Self) -> bool {
        /// The upper half of a hardware event is the type of core.
        const EVENT: u64 = 0xffff_ffff;
        let config = |of: &Self| if of.kind == event::HARDWARE { of.config & EVENT } else { of.config };
        self.kind == other.kind && config(self) == config(other)
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("unnamed event")
    }

    /// Sets the name given by perf, if a profile's `source` may contain it.
    pub(super) fn set_name(&mut self, name: &[u8]) {
        const LONGEST: usize = 100;
        let fits = !name.is_empty()
            && name.len() <= LONGEST
            && name.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if fits {
            // A profile separates its sources by commas.
            self.name = Some(String::from_utf8_lossy(name).replace(',', "+"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_an_event_says_counts() {
        use sample_type::*;
        let base = Attribute { sample_type: IP | TID, ..Attribute::default() };
        let with = |more: u64| Attribute { sample_type: IP | TID | more, ..base.clone() };
        assert_eq!(base.content(), SampleContent::AddressResolver);
        assert_eq!(with(CALLCHAIN).content(), SampleContent::CallChains);
        assert_eq!(with(CALLCHAIN | STACK_USER).content(), SampleContent::CallChains);
        assert_eq!(with(STACK_USER).content(), SampleContent::StackCopies);
        assert_eq!(with(CALLCHAIN | STACK_USER | BRANCH_STACK).content(), SampleContent::BranchStacks);
        let stack =
            Attribute { branch_sample_type: branch_sample_type::CALL_STACK | 1, ..with(BRANCH_STACK) };
        assert_eq!(stack.content(), SampleContent::BranchesAsStack);
        let one = Attribute { config: event::BRANCH_INSTRUCTIONS, period: 1, ..with(ADDR) };
        assert_eq!(one.content(), SampleContent::SingleBranches);
        assert_eq!(Attribute { period: 1000, ..one }.content(), SampleContent::AddressResolver);
        let dummy = Attribute { kind: event::SOFTWARE, config: event::DUMMY, ..base.clone() };
        assert_eq!(dummy.content(), SampleContent::Nothing);
        assert_eq!(Attribute { sample_type: IP, ..base }.content(), SampleContent::Nothing);
    }

    #[test]
    fn the_same_event_of_two_kinds_of_cores_is_one() {
        let core = Attribute { config: 4 << 32, ..Attribute::default() };
        let atom = Attribute { config: 10 << 32, ..Attribute::default() };
        assert!(core.counts_the_same(&atom));
        assert!(!core.counts_the_same(&Attribute { config: 1, ..Attribute::default() }));
    }
}
