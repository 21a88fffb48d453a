// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call sites, and the parts of a file that belong to them.

use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bytes of a page; the bytes of a site are in one page.
pub(super) const PAGE: u64 = 4096;

/// Map that is looked up for each site of a file.
pub(super) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// Form of a direct site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DirectForm {
    /// `call rel32`.
    Call,
    /// `jmp rel32`.
    Jump,
    /// `jcc rel32`.
    ConditionalJump,
    /// `call *slot(%rip)`.
    CallThroughSlot,
    /// `jmp *slot(%rip)`.
    JumpThroughSlot,
    /// `bl` of AArch64.
    BranchWithLink,
    /// `b` of AArch64.
    Branch,
}

impl DirectForm {
    /// Bytes of the instruction.
    pub(super) fn length(self) -> u64 {
        match self {
            Self::Call | Self::Jump => 5,
            Self::ConditionalJump | Self::CallThroughSlot | Self::JumpThroughSlot => 6,
            Self::BranchWithLink | Self::Branch => 4,
        }
    }

    /// True if the instruction calls, and nothing below the stack pointer is in use.
    pub(super) fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::CallThroughSlot | Self::BranchWithLink)
    }

    /// True if the instruction itself reads the target.
    pub(super) fn is_through_slot(self) -> bool {
        matches!(self, Self::CallThroughSlot | Self::JumpThroughSlot)
    }

    /// Bytes of the instruction before the displacement, which are kept.
    pub(super) fn opcode_length(self) -> u64 {
        self.length() - 4
    }
}

/// A call or jump whose instruction contains the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectSite {
    /// Address of the instruction.
    pub(super) at: u64,
    /// Form of the instruction.
    pub(super) form: DirectForm,
    /// Its target address, or the address of the slot that it reads.
    pub(super) target: u64,
    /// Slot of the global offset table that has the callee, if a linkage stub or the instruction itself reads it.
    pub(super) slot: Option<u64>,
}

/// Instructions that run at another place than the one for which they were linked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RelocatedCode {
    /// Their bytes.
    pub(super) bytes: Vec<u8>,
    /// Displacements that depend on the place: their position, the end of their instruction, and the address that they
    /// lead to.
    pub(super) relative: Vec<(usize, usize, u64)>,
}

/// A call or tail jump to an address in a register or in memory, or a tail jump of two bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndirectSite {
    /// Address of the call or jump.
    pub(super) at: u64,
    /// The bytes that change. The last instruction in them is the call or jump; padding may follow a jump.
    pub(super) window: Range<u64>,
    /// True if it jumps.
    pub(super) is_tail: bool,
    /// The bytes of the file.
    pub(super) original: Vec<u8>,
    /// Instructions before the call.
    pub(super) before: RelocatedCode,
    /// Loads the target into r11, which is saved on the stack.
    pub(super) load: RelocatedCode,
    /// Jumps to the target.
    pub(super) go: RelocatedCode,
}

/// Callee in a slot of the global offset table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotCallee {
    /// The function of this name, which the dynamic linker finds.
    Named(String),
    /// The function that a resolver at this address in the same file chooses.
    ChosenBy(u64),
}

/// A loaded segment with code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextSegment {
    /// Address and end as linked.
    pub(super) code: Range<u64>,
    pub(super) file_offset: u64,
}

/// Addresses of code.
#[derive(Debug)]
pub(super) struct CodeAddresses {
    /// By segment: a bit for each byte.
    segments: Vec<(Range<u64>, Vec<u64>)>,
}

impl CodeAddresses {
    /// Makes the set for these segments, without any addresses.
    pub(super) fn none(text: &[TextSegment]) -> Self {
        let bits = |code: &Range<u64>| vec![0; (code.end - code.start).div_ceil(64) as usize];
        Self { segments: text.iter().map(|segment| (segment.code.clone(), bits(&segment.code))).collect() }
    }

    /// Adds an address if it is in code.
    pub(super) fn insert(&mut self, address: u64) {
        if let Some((code, bits)) = self.segments.iter_mut().find(|(code, _)| code.contains(&address)) {
            let place = address - code.start;
            bits[(place / 64) as usize] |= 1 << (place % 64);
        }
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        self.segments.iter().find(|(code, _)| code.contains(&address)).is_some_and(|(code, bits)| {
            let place = address - code.start;
            bits[(place / 64) as usize] >> (place % 64) & 1 == 1
        })
    }
}

/// Property of a program because of which its processes are not recorded, or are followed with care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trait {
    /// It traces other processes, or is traced by others.
    Traces,
    /// It may use the register that points to the counters.
    UsesGs,
    /// It locks its memory.
    LocksMemory,
    /// It may look at its own mappings.
    ReadsMappings,
}

/// Number of unchanged sites, by reason.
pub(super) type RefusedSites = BTreeMap<Cow<'static, str>, u64>;

/// Bytes of a direct call or jump.
pub(super) const JUMP: u64 = 5;

/// Bytes that a stub puts on the stack before it loads the target: r11, below the red zone if the stub is reached by a
/// jump.
pub(super) const RED_ZONE: i64 = 128;

/// True if these bytes are in one page.
pub(super) fn in_one_page(bytes: &Range<u64>) -> bool {
    bytes.start / PAGE == (bytes.end - 1) / PAGE
}
