// SPDX-License-Identifier: MIT OR Apache-2.0
//! Meanings of perf's hardware events on a processor. The kernel gives one name to different events of different processors, and
//! an event may be missing.
//!
//! Sources: Linux, arch/x86/events/amd/core.c (family 17h and later), arch/x86/events/intel/core.c (Haswell and later) and
//! drivers/perf/arm_pmuv3.c.

/// Processors whose events are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// AMD Zen and later: family 17h.
    Amd,
    /// Intel Haswell and later: family 6 from model 3Ch on, and later families.
    Intel,
    /// Arm Neoverse, and others with Arm's PMUv3.
    Neoverse,
}

/// Meanings of an event by processor; `None` if there is no such event.
struct Meaning {
    event: &'static str,
    amd: Option<&'static str>,
    intel: Option<&'static str>,
    neoverse: Option<&'static str>,
}

const fn same(event: &'static str, meaning: &'static str) -> Meaning {
    Meaning { event, amd: Some(meaning), intel: Some(meaning), neoverse: Some(meaning) }
}

const MEANINGS: &[Meaning] = &[
    same("cycles", "clock cycles of the core"),
    same("instructions", "retired instructions"),
    Meaning {
        event: "iTLB-loads",
        amd: Some("misses of the first-level iTLB that hit the second level"),
        intel: Some(
            "misses of the first-level iTLB that hit the second level; no such event since Sapphire Rapids",
        ),
        neoverse: Some("lookups of the first-level iTLB"),
    },
    Meaning {
        event: "iTLB-load-misses",
        amd: Some("misses of both levels"),
        intel: Some("misses of both levels (page walks)"),
        neoverse: Some("misses of the first-level iTLB"),
    },
    same("L1-icache-load-misses", "misses of the L1 instruction cache"),
    same("branches", "retired branches"),
    same("branch-misses", "mispredicted branches"),
    Meaning {
        event: "stalled-cycles-frontend",
        amd: Some("cycles without instructions from the front end"),
        intel: None,
        neoverse: Some("cycles without instructions from the front end"),
    },
    Meaning {
        event: "stalled-cycles-backend",
        amd: None,
        intel: None,
        neoverse: Some("cycles in which the back end takes no instruction"),
    },
    Meaning {
        event: "cache-misses",
        amd: Some("misses of the L2 cache"),
        intel: Some("misses of the last-level cache"),
        neoverse: Some("misses of the L1 data cache"),
    },
    Meaning {
        event: "LLC-load-misses",
        amd: None,
        intel: Some("loads that miss the last-level cache"),
        neoverse: Some("loads that miss the last-level cache"),
    },
    same("L1-dcache-load-misses", "misses of the L1 data cache"),
];

/// Models of Intel's family 6 with numbers like Haswell and later, but with other events: Ivy Bridge for servers,
/// Atoms, and Xeon Phi.
const OTHERS_OF_INTEL: [u32; 12] = [0x3e, 0x4a, 0x4c, 0x4d, 0x57, 0x5a, 0x5c, 0x5d, 0x5f, 0x75, 0x7a, 0x85];

impl Processor {
    /// The processor that a `/proc/cpuinfo` describes, if its events are known.
    #[must_use]
    pub fn of(cpuinfo: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
        };
        let number = |key: &str| value(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let model = (number("cpu family"), number("model"));
        match (value("vendor_id"), value("CPU implementer")) {
            (Some("AuthenticAMD"), _) => (model >= (0x17, 0)).then_some(Self::Amd),
            (Some("GenuineIntel"), _) => {
                (model >= (6, 0x3c) && !OTHERS_OF_INTEL.contains(&model.1)).then_some(Self::Intel)
            }
            (None, Some("0x41")) => Some(Self::Neoverse),
            _ => None,
        }
    }

    /// Name, in the plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd => "AMD processors since Zen",
            Self::Intel => "Intel processors since Haswell",
            Self::Neoverse => "Arm Neoverse processors",
        }
    }

    /// The meaning of an event; None for an unknown event, `Some(None)` if the processor lacks the event.
    #[must_use]
    pub fn counts(self, event: &str) -> Option<Option<&'static str>> {
        let meaning = MEANINGS.iter().find(|meaning| meaning.event == event)?;
        Some(match self {
            Self::Amd => meaning.amd,
            Self::Intel => meaning.intel,
            Self::Neoverse => meaning.neoverse,
        })
    }
}

/// True if a `/proc/cpuinfo` is a virtual machine's, which may have no counters.
#[must_use]
pub(crate) fn is_virtual(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}
