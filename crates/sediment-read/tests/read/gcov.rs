// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the counters of GCC's instrumentation: files of each version, runs that add up, and damage.

use sediment_core::profile::Profile;
use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::text::{parse, print};
use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, Result, Skipped};
#[allow(unreachable_pub)] // shared by several test programs
use sediment_read::counters::gcov::{self, Units};

fn file(name: &str) -> Vec<u8> {
    std::fs::read(support::root().join("tests/golden/gcov").join(name)).unwrap()
}

fn joined(files: &[&[u8]]) -> (Result<Profile>, Skipped) {
    let mut units = Units::default();
    let mut skipped = Skipped::default();
    let read = files.iter().try_for_each(|bytes| units.read("work.gcda", bytes, &mut skipped));
    let profile = read.and_then(|()| units.profile(&[], &mut skipped));
    (profile, skipped)
}

#[test]
fn every_version_says_the_same() {
    for version in ["gcc-12", "gcc-13", "gcc-14"] {
        let [data, notes] = ["gcda", "gcno"].map(|extension| file(&format!("{version}.{extension}")));
        let (profile, skipped) = joined(&[&data, &notes]);
        let text = print(&profile.unwrap());
        support::golden("gcov/profile.gv", &text);
        assert_eq!(print(&parse(text.as_bytes()).unwrap().0), text);
        assert!(skipped.is_empty(), "{skipped:?}");
    }
}

#[test]
fn processes_add_up_in_any_order() {
    let (data, notes) = (file("gcc-14.gcda"), file("gcc-14.gcno"));
    let twice = joined(&[&notes, &data, &data]).0.unwrap();
    assert_eq!(twice, joined(&[&data, &data, &notes]).0.unwrap());
    assert_eq!(twice.counters_total, 2 * joined(&[&data, &notes]).0.unwrap().counters_total);
}

#[test]
fn counts_need_the_names_of_their_own_compilation() {
    let (profile, skipped) = joined(&[&file("gcc-12.gcda"), &file("gcc-13.gcno")]);
    assert_eq!(profile.unwrap_err().code(), ErrorCode::EmptyRecording);
    assert_eq!(skipped.items(Reason::NoNotes), 1);
}

#[test]
fn counters_reach_the_compiler_as_text() {
    let profile = joined(&[&file("gcc-14.gcda"), &file("gcc-14.gcno")]).0.unwrap();
    let (text, skipped) = gcov::counters(&profile);
    assert!(skipped.is_empty());
    let first = text.lines().next().unwrap();
    assert_eq!(first, format!("{} 250", gcov::HEADER));
    // Counts beyond the limit of GCC's files are scaled down, but none to 0.
    let large = print(&profile).replace("250*2", "25000000000 3");
    let text = gcov::counters(&parse(large.as_bytes()).unwrap().0).0;
    assert!(text.contains("\t1 4166666666 1"), "{text}");
}

/// Zeros of a recording are not exact, so its counters are never added to those of instrumentation.
#[test]
fn counters_of_early_ids_stay_apart() {
    let of = |source: &str, unit: &str| {
        let graph = format!("sediment=3, source=\"{source}\", unit=calls, total=0, counters_total=9");
        let text = format!(
            "digraph {{ graph [{graph}]; \"work\" [counters=\"{unit}@00000001 00000002.00000003: 9 0\"]; }}"
        );
        parse(text.as_bytes()).unwrap().0
    };
    let units = |profile: &Profile| -> Vec<String> {
        let text = gcov::counters(profile).0;
        text.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().to_owned()).collect()
    };
    let (early, own) = (of("callgrind", "early+work.c"), of("gcc -fprofile-generate", "work.c"));
    let both = merge(&[(&early, Weight::ONE), (&own, Weight::ONE)], false).unwrap();
    assert_eq!(units(&both), ["early+work.c@00000001", "work.c@00000001"]);
    assert_eq!(units(&early), ["early+work.c@00000001"]);
    // An older profile does not mark its counters.
    assert_eq!(units(&of("callgrind", "work.c")), ["early+work.c@00000001"]);
}

#[test]
fn other_versions_are_refused_by_name() {
    let data = file("gcc-14.gcda");
    for (version, found) in
        [(*b"*13B", "13"), (*b"*31B", "11"), (*b"*19A", "9"), (*b"*408", "9"), (*b"*17B", "17")]
    {
        let mut other = data.clone();
        other[4..8].copy_from_slice(&version);
        let (profile, _) = joined(&[&other, &file("gcc-14.gcno")]);
        match found {
            "13" => drop(profile.unwrap()),
            _ => {
                let error = profile.unwrap_err();
                assert_eq!(error.code(), ErrorCode::UnsupportedVariant);
                assert!(error.to_string().contains(found), "{error}");
            }
        }
    }
}

#[test]
fn wrapped_counters_are_skipped_with_their_function() {
    let mut data = file("gcc-14.gcda");
    let at = data.windows(8).position(|bytes| bytes == 250u64.to_le_bytes()).unwrap();
    data[at..at + 8].copy_from_slice(&(-1i64).to_le_bytes());
    let (profile, skipped) = joined(&[&data, &file("gcc-14.gcno")]);
    assert_eq!(profile.unwrap().function_count(), 1);
    assert_eq!(skipped.items(Reason::WrappedCounters), 1);
}

#[test]
fn damage_is_an_error_or_less() {
    for name in ["gcc-14.gcda", "gcc-14.gcno"] {
        let whole = file(name);
        let other = file(if name.ends_with("gcda") { "gcc-14.gcno" } else { "gcc-14.gcda" });
        for length in 0..whole.len() {
            let _ = joined(&[&whole[..length], &other]);
            for value in [0, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[length] = value;
                let _ = joined(&[&changed, &other]);
            }
        }
    }
    let data = file("gcc-14.gcda");
    let cut = joined(&[&data[..100], &file("gcc-14.gcno")]).0.unwrap_err();
    assert_eq!(cut.code(), ErrorCode::Damaged);
}
