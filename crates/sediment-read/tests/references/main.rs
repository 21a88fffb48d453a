// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers against others that read the same format, and on real recordings ([`shared_data`]): DOT against Graphviz, symbols of ELF files against the `object` crate's common
//! interface and readelf, pprof against prost. Inputs are mutants and generated texts, each by its number.
//!
//! Where sediment differs on purpose, a rule in these files says so; what a rule passes over is counted and may be no more than its share.
//! A short form runs by default. `SEDIMENT_DIFFERENTIAL=long` makes 200,000 cases within this process and 5,000 for each other program.

mod cases;
mod dot;
mod dot_text;
mod elf;
mod pprof;
mod readelf;
mod shared_data;

use libtest_mimic::Arguments;
use support::{Need, case};

fn main() {
    let mut trials = vec![
        case("dot_is_read_as_graphviz_reads_it", &[Need::Program("gvpr")], dot::against_graphviz),
        case("symbols_are_those_of_the_object_crate", &[], elf::against_object),
        case("symbols_are_those_of_readelf", &[Need::Program("readelf")], readelf::against_readelf),
        case("pprof_is_read_as_its_messages_say", &[], pprof::against_prost),
    ];
    trials.extend(shared_data::cases());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
