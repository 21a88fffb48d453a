// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CORES`]: sizes of the TLBs and instruction caches of processor cores, as published by their makers.
//!
//! TLB entries are for pages of 4 KiB. The second level also holds entries for data, which an order of functions does
//! not affect, so its share for code is smaller than its size. Sources: Intel 64 and IA-32 Architectures Optimization
//! Reference Manual; AMD Software Optimization Guides for the families 19h and 1Ah; Arm's Technical Reference Manuals
//! of the cores.

/// Number of units, and of units per set. Both are at least 1; if they are equal, it is fully associative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    /// Number of TLB entries, or of cache lines.
    pub units: u32,
    /// Associativity: units per set.
    pub ways: u32,
}

impl Sets {
    /// Number of sets, at least 1.
    #[must_use]
    pub fn sets(self) -> u32 {
        (self.units / self.ways.max(1)).max(1)
    }
}

/// TLBs and instruction cache of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Core {
    /// Name by which the user chooses it.
    pub name: &'static str,
    /// Name of the core, for people.
    pub summary: &'static str,
    /// First-level instruction TLB.
    pub itlb: Sets,
    /// Second-level TLB.
    pub second_tlb: Sets,
    /// First-level instruction cache, in lines of `LINE` bytes.
    pub l1i: Sets,
}

/// Size of an instruction cache line in bytes, in all of [`CORES`].
pub(crate) const LINE: u64 = 64;

/// All known cores; the first is the default.
pub const CORES: &[Core] = &[
    core("skylake", "Intel Skylake and its successors up to Comet Lake", (128, 8), (1536, 12), (512, 8)),
    core("haswell", "Intel Haswell", (128, 4), (1024, 8), (512, 8)),
    core("ice-lake", "Intel Ice Lake", (128, 8), (2048, 16), (512, 8)),
    core(
        "golden-cove",
        "Intel Alder Lake and Sapphire Rapids, performance cores",
        (256, 8),
        (2048, 16),
        (512, 8),
    ),
    core("zen3", "AMD Zen 3", (64, 64), (512, 8), (512, 8)),
    core("zen4", "AMD Zen 4", (64, 64), (512, 8), (512, 8)),
    core("zen5", "AMD Zen 5", (64, 64), (2048, 8), (512, 8)),
    core("neoverse-n1", "Arm Neoverse N1", (48, 48), (1280, 5), (1024, 4)),
    core("neoverse-v1", "Arm Neoverse V1", (48, 48), (2048, 8), (1024, 4)),
    core("cortex-a72", "Arm Cortex-A72", (48, 48), (1024, 4), (768, 3)),
];

const fn core(
    name: &'static str,
    summary: &'static str,
    itlb: (u32, u32),
    second_tlb: (u32, u32),
    l1i: (u32, u32),
) -> Core {
    Core { name, summary, itlb: sets(itlb), second_tlb: sets(second_tlb), l1i: sets(l1i) }
}

const fn sets((units, ways): (u32, u32)) -> Sets {
    Sets { units, ways }
}

/// Returns the core with this name.
#[must_use]
pub fn core_of(name: &str) -> Option<&'static Core> {
    CORES.iter().find(|core| core.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_out_even() {
        for core in CORES {
            for sets in [core.itlb, core.second_tlb, core.l1i] {
                assert_eq!(sets.sets() * sets.ways, sets.units, "{}", core.name);
                assert!(sets.sets().is_power_of_two(), "{}: {} sets", core.name, sets.sets());
            }
        }
        assert_eq!(core_of("zen3").unwrap().itlb.sets(), 1);
        assert!(core_of("8086").is_none());
    }
}
