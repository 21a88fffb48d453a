// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares readers with other readers of the same format, and tests them on real recordings ([`shared_data`]): DOT
//! with Graphviz, symbols of ELF files with the `object` crate's common interface and readelf, pprof with prost. Inputs
//! are mutants and generated texts, made from their numbers.
//!
//! Rules in these files describe intended differences. Cases that a rule skips are counted, and must not exceed a given
//! share. By default the tests are short; `SEDIMENT_DIFFERENTIAL=long` makes 200,000 cases within this process and
//! 5,000 for each other program.

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
