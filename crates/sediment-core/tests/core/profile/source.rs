// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the text of a source: it is read as it was written.

use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{self, Callers, OwnCost, TimeOrder},
};

#[test]
fn a_source_is_read_as_it_was_written() {
    for (text, name, event, unknown) in [
        ("gprof call graph", "gprof call graph", "", &[][..]),
        ("valgrind callgrind (Ir)", "valgrind callgrind", "Ir", &[]),
        ("BOLT samples without callers or time order", "BOLT samples", "", &[Callers, TimeOrder]),
        ("perf samples (cpu/event=0x3c/u) without own cost", "perf samples", "cpu/event=0x3c/u", &[OwnCost]),
        // Words of an unknown source are not mistaken for words that announce a gap.
        ("a tool without mercy or own cost", "a tool without mercy or own cost", "", &[]),
        ("a () without own cost without", "a () without own cost without", "", &[]),
        ("a ()", "a ()", "", &[]),
        ("", "", "", &[]),
    ] {
        let source = ProfileSource::from(text);
        assert_eq!(source, ProfileSource::new(name, event, unknown));
        assert_eq!(source.to_string(), text);
    }
    for unknown in Unknown::ALL {
        let source = ProfileSource::new("a tool", "", &[*unknown, OwnCost]);
        assert_eq!(ProfileSource::from(source.to_string().as_str()), source);
    }
}
