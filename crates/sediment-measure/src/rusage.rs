// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time and page faults of one run, from the kernel's accounts of the process ([`sediment_process::command`] describes
//! how they are obtained). They are not repeatable, because they depend on the machine, on other programs, and on the
//! content of the page cache.

use super::Command;
use super::{Meter, Quantity, Reading, Unit};
use sediment_core::error::Result;
use std::path::Path;
use std::time::Duration;

/// Row of this meter in the table of meters.
pub(crate) const METER: Meter = Meter {
    name: "rusage",
    summary: "time and page faults of one run, as the kernel accounts them",
    needs: "nothing",
    quantities: &[
        Quantity {
            name: "user time",
            unit: Unit::Microseconds,
            summary: "time on a processor outside the kernel, including descendants that it waited for",
            repeatable: false,
        },
        Quantity {
            name: "system time",
            unit: Unit::Microseconds,
            summary: "time on a processor inside the kernel",
            repeatable: false,
        },
        Quantity {
            name: "minor faults",
            unit: Unit::Count,
            summary: "page faults that needed no reading; the kernel maps up to 16 file pages at one fault",
            repeatable: false,
        },
        Quantity {
            name: "major faults",
            unit: Unit::Count,
            summary: "page faults that had to read from a file or swap",
            repeatable: false,
        },
    ],
    available: || Ok(()),
    run,
};

fn run(command: &Command, _: &Path) -> Result<Vec<Reading>> {
    let usage = sediment_process::command::run(command, 0)?.successful(command)?.usage;
    let values =
        [microseconds(usage.user), microseconds(usage.system), usage.minor_faults, usage.major_faults];
    Ok(METER.quantities.iter().zip(values).map(|(quantity, value)| Reading { quantity, value }).collect())
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
