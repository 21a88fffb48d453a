// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of what a profile is known to lack.

use sediment_core::profile::knowledge::{NotKnown, interpreter, not_known};
use sediment_core::profile::source::Unknown;
use sediment_core::profile::{FunctionKey, Profile};

fn profile(sources: &[&str], functions: &[(&str, u128)]) -> Profile {
    let mut profile = Profile::default();
    profile.source.extend(sources.iter().map(|source| (*source).to_owned()));
    for (number, (label, cost)) in functions.iter().enumerate() {
        let name = format!("f{number}");
        let key = FunctionKey::new(Some(label.as_bytes()), name.as_bytes(), None).unwrap();
        let function = profile.function(key);
        profile.facts_mut(function).samples = Some(*cost);
    }
    profile
}

#[test]
fn gaps_of_one_source_are_named() {
    let one = profile(&["perf call stacks (cycles:u) without callers or time order"], &[("x", 1)]);
    let what = vec![Unknown::CallCounts, Unknown::TimeOrder, Unknown::Sizes, Unknown::Callers];
    assert_eq!(not_known(&one), [NotKnown { source: Some("perf call stacks (cycles:u)".into()), what }]);

    // Words of an unknown source are not mistaken for words that announce a gap.
    let odd = profile(&["a tool without mercy or sizes"], &[("x", 1)]);
    assert_eq!(not_known(&odd)[0].source.as_deref(), Some("a tool without mercy or sizes"));
    assert_eq!(not_known(&odd)[0].what, [Unknown::CallCounts, Unknown::TimeOrder, Unknown::Sizes]);

    let mut whole = profile(&["x"], &[("x", 1)]);
    let function = whole.functions()[0];
    (whole.facts_mut(function).size, whole.facts_mut(function).first) = (Some(1), Some(0));
    whole.edge_mut(function, function).count = Some(1);
    assert_eq!(not_known(&whole), []);
}

#[test]
fn of_several_sources_each_says_its_own() {
    let two = profile(&["gprof without own cost", "valgrind callgrind (Ir)"], &[("x", 1)]);
    let of_gprof = NotKnown { source: Some("gprof".into()), what: vec![Unknown::OwnCost] };
    let of_all =
        NotKnown { source: None, what: vec![Unknown::CallCounts, Unknown::TimeOrder, Unknown::Sizes] };
    assert_eq!(not_known(&two), [of_gprof, of_all]);
}

#[test]
fn an_interpreter_is_known_by_its_name_whatever_its_version() {
    let cases = [
        ("python3.11", Some("Python")),
        ("python", Some("Python")),
        ("libpython3.11.so.1.0", Some("Python")),
        ("perl5.36-x86_64-linux-gnu", Some("Perl")),
        ("libjvm.so", Some("Java")),
        ("java", Some("Java")),
        ("javac-wrapper", None),
        ("node", Some("JavaScript")),
        ("node_exporter", None),
        ("lua5.4", Some("Lua")),
        ("lualatex", None),
        ("php8.2", Some("PHP")),
        ("bash", Some("shell")),
        ("sh", Some("shell")),
        ("sha256sum", None),
        ("shred", None),
        ("rubyfmt", None),
        ("R", Some("R")),
        ("RSS", None),
        ("qemu-aarch64-static", Some("emulated")),
        ("qemu-img", None),
        ("postgres", None),
        ("libc.so.6", None),
    ];
    for (label, runs) in cases {
        let found = interpreter(&profile(&["x"], &[(label, 51), ("libother.so", 49)]));
        assert_eq!(found.as_ref().map(|found| found.runs), runs, "{label}");
        assert_eq!(interpreter(&profile(&["x"], &[(label, 50), ("libother.so", 50)])), None, "{label}");
    }
    // Program and library of one interpreter count as one.
    let both = profile(&["x"], &[("python3.11", 20), ("libpython3.11.so.1.0", 40), ("libc.so.6", 40)]);
    let found = interpreter(&both).unwrap();
    assert_eq!((found.label.as_str(), found.weight), ("libpython3.11.so.1.0", (60, 100)));
}
