// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instruction TLB misses, first-level instruction cache misses and touched pages by cachegrind: exact and
//! repeatable on every machine with valgrind, without hardware counters.
//!
//! Cachegrind simulates a first-level instruction cache of any size, associativity and line length. A cache of 64 lines
//! of 4 KiB in one set, which evicts the least recently used line, has the same misses as an instruction TLB of 64
//! entries for 4 KiB pages. A cache that is large enough to keep every line counts the distinct pages of executed
//! instructions (`mincore` and `smaps` would also count the kernel's read-ahead and fault-around). The model has no
//! second-level TLB, prefetching, huge pages, other programs on the same core, or instructions in the kernel.
//!
//! The counts are the sum over the process that the command starts and its descendants, including shared libraries and
//! the dynamic linker. Each process has a cache of its own. A forked process that does not exec another program also
//! includes the instructions that its parent executed before the fork.

use super::{Meter, Quantity, Reading, Unit};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::VALGRIND_HINT;
use sediment_process::command::{Command, argument, probe, run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of runs that this process began.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Size, associativity and line length of a first-level instruction cache that cachegrind simulates.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedCache {
    option: &'static str,
}

impl SimulatedCache {
    /// Options of valgrind that simulate this cache, for a program and everything that it starts.
    #[must_use]
    pub fn options(self) -> Vec<OsString> {
        [
            "--tool=cachegrind",
            "--trace-children=yes",
            // Off by default since valgrind 3.21.
            "--cache-sim=yes",
            self.option,
            // They make valgrind independent of this machine's own caches, and do not affect the figures used here.
            "--D1=32768,8,64",
            "--LL=8388608,16,64",
        ]
        .map(OsString::from)
        .to_vec()
    }
}

/// An instruction TLB of 64 pages of 4 KiB, fully associative.
pub const TLB: SimulatedCache = SimulatedCache { option: "--I1=262144,64,4096" };
/// A first-level instruction cache of 32 KiB: 8 ways, lines of 64 bytes.
pub const L1I: SimulatedCache = SimulatedCache { option: "--I1=32768,8,64" };
const NEVER_EVICTS: SimulatedCache = SimulatedCache { option: "--I1=67108864,16,4096" };

const INSTRUCTIONS: Quantity = Quantity {
    name: "instructions",
    unit: Unit::Count,
    summary: "instructions executed in user space",
    repeatable: true,
};

/// The instruction TLB's row in the table.
pub(crate) const ITLB_METER: Meter = Meter {
    name: "itlb",
    summary: "misses of a simulated instruction TLB: 64 entries, fully associative, 4 KiB pages",
    needs: "valgrind",
    quantities: &[
        Quantity {
            name: "iTLB misses",
            unit: Unit::Count,
            summary: "instruction fetches from a page that is not among the 64 last used",
            repeatable: true,
        },
        INSTRUCTIONS,
    ],
    available,
    run: |command, scratch| read_with(&ITLB_METER, TLB, command, scratch),
};

/// The instruction cache's row in the table.
pub(crate) const L1I_METER: Meter = Meter {
    name: "l1i",
    summary: "misses of a simulated first-level instruction cache: 32 KiB, 8-way, 64-byte lines",
    needs: "valgrind",
    quantities: &[
        Quantity {
            name: "L1I misses",
            unit: Unit::Count,
            summary: "instruction fetches from a line that is not in the cache",
            repeatable: true,
        },
        INSTRUCTIONS,
    ],
    available,
    run: |command, scratch| read_with(&L1I_METER, L1I, command, scratch),
};

/// The touched pages' row in the table.
pub(crate) const PAGES_METER: Meter = Meter {
    name: "pages",
    summary: "distinct 4 KiB pages from which instructions ran",
    needs: "valgrind",
    quantities: &[
        Quantity {
            name: "pages touched",
            unit: Unit::Count,
            summary: "distinct 4 KiB pages from which an instruction ran, shared libraries included",
            repeatable: true,
        },
        INSTRUCTIONS,
    ],
    available,
    run: |command, scratch| read_with(&PAGES_METER, NEVER_EVICTS, command, scratch),
};

fn available() -> Result<()> {
    probe("valgrind", &["--version"], VALGRIND_HINT).map(drop)
}

fn read_with(
    meter: &'static Meter,
    geometry: SimulatedCache,
    command: &Command,
    scratch: &Path,
) -> Result<Vec<Reading>> {
    // Runs of two programs at the same time may share the folder.
    let run_number = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("cachegrind-{}-{run_number}.", std::process::id());
    let pattern = argument("--cachegrind-out-file=", scratch.join(format!("{name}%p")).as_os_str());
    // Valgrind's summary would hide the last messages of a failing program.
    let mut options: Vec<OsString> = vec!["--quiet".into()];
    options.extend(geometry.options());
    options.push(pattern);
    let wrapped = command.under("valgrind", options);
    let ended = run(&wrapped, 0)?;
    let own = scratch.join(format!("{name}{}", ended.process));
    let files = files_of(scratch, &name);
    let texts: Vec<_> = files.iter().map(std::fs::read).collect();
    remove_all(&files);
    ended.successful(command)?;
    if !files.contains(&own) {
        return Err(Error::new(ErrorCode::ProgramFailed, "valgrind wrote no cachegrind file")
            .with_input(own.display().to_string()));
    }
    let mut sum = Totals::default();
    for (file, text) in files.iter().zip(texts) {
        let of_one = |text: Vec<u8>| totals(&String::from_utf8_lossy(&text));
        match text.map_err(|error| Error::new(ErrorCode::Io, error.to_string())).and_then(of_one) {
            Ok(one) => sum = sum + one,
            Err(error) if *file == own => return Err(error.with_input("cachegrind.out")),
            // A killed process has written a part or nothing.
            Err(_) => {}
        }
    }
    Ok(vec![
        Reading { quantity: &meter.quantities[0], value: sum.misses },
        Reading { quantity: &meter.quantities[1], value: sum.instructions },
    ])
}

/// The files that cachegrind wrote, one for each process.
fn files_of(scratch: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scratch).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(name));
    names.map(|entry| entry.path()).collect()
}

fn remove_all(files: &[PathBuf]) {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}

/// The sums over a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Executed instructions.
    pub instructions: u64,
    /// Misses of the first-level instruction cache.
    pub misses: u64,
}

impl std::ops::Add for Totals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { instructions: self.instructions + other.instructions, misses: self.misses + other.misses }
    }
}

/// Reads the totals from a cachegrind output file: `events:` names the columns, `summary:` has the sums.
///
/// # Errors
/// If a line or a column is missing, as in the file of a run without cache simulation or of a killed process.
pub fn totals(text: &str) -> Result<Totals> {
    let (mut events, mut summary) = (None, None);
    for (line, number) in text.lines().zip(1u64..) {
        if let Some(names) = line.strip_prefix("events:") {
            events = Some(names.split_whitespace().collect::<Vec<_>>());
        } else if let Some(sums) = line.strip_prefix("summary:") {
            summary = Some((number, sums.split_whitespace().collect::<Vec<_>>()));
        }
    }
    let events =
        events.ok_or_else(|| Error::new(ErrorCode::Damaged, "the cachegrind file has no line `events:`"))?;
    let (line, sums) = summary.ok_or_else(|| {
        Error::new(ErrorCode::Damaged, "the cachegrind file has no line `summary:`")
            .with_hint("was the program ended too early?")
    })?;
    let sum = |event: &str| {
        let column = events.iter().position(|name| *name == event).ok_or_else(|| {
            Error::new(ErrorCode::Damaged, format!("no event {event} in the cachegrind file"))
                .with_found(events.join(" ").as_bytes())
        })?;
        let text = sums.get(column).copied().unwrap_or("0");
        text.parse::<u64>().map_err(|_| {
            Error::at_line(line, format!("the sum of {event} is not a number")).with_found(text.as_bytes())
        })
    };
    Ok(Totals { instructions: sum("Ir")?, misses: sum("I1mr")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "desc: I1 cache:         262144 B, 4096 B, 64-way associative\ncmd: ./t 1\n\
        events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \nfl=a.c\nfn=main\n128 2 0 0 2 0 0 0 0 0\n\
        summary: 126321 75 70 28784 1204 987 10485 379 349\n";

    #[test]
    fn totals_come_from_the_named_columns() {
        assert_eq!(totals(FILE).unwrap(), Totals { instructions: 126_321, misses: 75 });
        let swapped = FILE.replace("Ir I1mr ILmr", "I1mr ILmr Ir");
        assert_eq!(totals(&swapped).unwrap(), Totals { instructions: 70, misses: 126_321 });
    }

    #[test]
    fn a_file_without_cache_simulation_or_cut_short_is_refused() {
        let without = totals("events: Ir\nsummary: 5\n").unwrap_err().to_string();
        assert_eq!(without, "no event I1mr in the cachegrind file (found \"Ir\")");
        let cut = totals("events: Ir I1mr\nfn=main\n").unwrap_err().to_string();
        assert_eq!(cut, "the cachegrind file has no line `summary:`");
        let junk = totals("events: Ir I1mr\nsummary: 5 x\n").unwrap_err().to_string();
        assert_eq!(junk, "line 2: the sum of I1mr is not a number (found \"x\")");
        assert!(totals("").is_err());
    }
}
