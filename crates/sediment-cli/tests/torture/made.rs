// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs in `torture/programs`, with the way of building each.

use super::bench::{Made, TortureLibrary};

const fn made(name: &'static str, source: &'static str) -> Made {
    Made { name, source, flags: &[], libraries: &[] }
}

const NARROW: [TortureLibrary; 3] = [
    TortureLibrary { name: "libnarrow1.so", source: "narrow.c", flags: &["-DNUMBER=1"] },
    TortureLibrary { name: "libnarrow2.so", source: "narrow.c", flags: &["-DNUMBER=2"] },
    TortureLibrary { name: "libnarrow3.so", source: "narrow.c", flags: &["-DNUMBER=3"] },
];
const WIDE: TortureLibrary = TortureLibrary { name: "libwide.so", source: "wide.c", flags: &[] };

pub(crate) const WORKS: Made = made("works", "works.c");
pub(crate) const WORKS_STATIC: Made = Made { name: "works-static", flags: &["-static"], ..WORKS };
pub(crate) const WORKS_STATIC_PIE: Made =
    Made { name: "works-pie", flags: &["-static-pie", "-fPIE"], ..WORKS };
pub(crate) const THREADS: Made = made("threads", "threads.c");
pub(crate) const THREADS_STATIC: Made = Made { name: "threads-static", flags: &["-static"], ..THREADS };
pub(crate) const FORKS: Made = made("forks", "forks.c");
pub(crate) const LEAVES: Made = made("leaves", "leaves.c");
pub(crate) const VFORKS: Made = made("vforks", "vforks.c");
pub(crate) const EXECS: Made = made("execs", "execs.c");
pub(crate) const MEMORY_FILES: Made = made("memory_files", "memory_files.c");
pub(crate) const LOADS: Made = Made {
    flags: &["./libwide.so", "-ldl", "-Wl,-rpath,$ORIGIN"],
    libraries: &[WIDE, NARROW[0], NARROW[1], NARROW[2]],
    ..made("loads", "loads.c")
};
pub(crate) const DELETES: Made =
    Made { flags: &["-ldl"], libraries: &NARROW, ..made("deletes", "deletes.c") };
pub(crate) const PROTECTS: Made =
    Made { flags: &["-ldl"], libraries: &NARROW, ..made("protects", "protects.c") };
pub(crate) const TURNS: Made = made("turns", "turns.c");
pub(crate) const PATCHES: Made = made("patches", "patches.c");
pub(crate) const REWRITES: Made = made("rewrites", "rewrites.c");
pub(crate) const COPIES: Made = made("copies", "copies.c");
pub(crate) const GENERATES: Made = made("generates", "generates.c");
pub(crate) const MAPS: Made = made("maps", "maps.c");
pub(crate) const WRITABLE: Made = Made {
    flags: &[
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-Wl,-N",
    ],
    ..made("writable", "writable.c")
};
pub(crate) const SIGNALS: Made = made("signals", "signals.c");
pub(crate) const SIGTRAPS: Made = made("sigtraps", "sigtraps.c");
pub(crate) const BLOCKS: Made = made("blocks", "blocks.c");
pub(crate) const STOPS: Made = made("stops", "stops.c");
pub(crate) const CRASHES: Made = made("crashes", "crashes.c");
pub(crate) const THROWS: Made = made("throws", "throws.cc");
pub(crate) const HIDES: Made = made("hides", "hides.c");
pub(crate) const DROPS: Made = made("drops", "drops.c");
pub(crate) const BECOMES: Made = made("becomes", "becomes.c");
pub(crate) const PREFIXES: Made = made("prefixes", "prefixes.c");
pub(crate) const HEADLESS: Made = made("headless", "headless.c");
pub(crate) const SHARES: Made = made("shares", "shares.c");
pub(crate) const DAEMONS: Made = made("daemons", "daemons.c");
pub(crate) const CONFINES: Made = made("confines", "confines.c");
pub(crate) const STRICT: Made = made("strict", "strict.c");
pub(crate) const HOARDS: Made = made("hoards", "hoards.c");
pub(crate) const CROWDS: Made = made("crowds", "crowds.c");
pub(crate) const LOOKS: Made = made("looks", "looks.c");
pub(crate) const MOVES: Made = made("moves", "moves.c");
pub(crate) const IGNORES: Made = made("ignores", "ignores.c");
pub(crate) const UNMAPS: Made = made("unmaps", "unmaps.c");
pub(crate) const SERVES: Made = made("serves", "serves.c");
pub(crate) const POLLS: Made = made("polls", "polls.c");
