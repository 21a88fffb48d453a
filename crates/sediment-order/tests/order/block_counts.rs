// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of block counts as they are written for compilers, with functions that occur in several programs and
//! libraries.

use sediment_core::profile::Profile;
use sediment_core::profile::text::parse;
use sediment_core::skipped::Reason;
use sediment_order::blocks::{HEADER, clusters, counts};

fn read(nodes: &str) -> Profile {
    parse(format!("digraph {{ graph [sediment=3, unit=calls, total=0]; {nodes} }}").as_bytes()).unwrap().0
}

/// Returns the lines for GCC without the first two.
fn lines(profile: &Profile) -> Vec<String> {
    let (text, skipped) = counts(profile);
    assert!(skipped.is_empty(), "{skipped:?}");
    let (header, lines) = text.split_once('\n').unwrap();
    assert_eq!(header, HEADER);
    assert!(lines.starts_with("\t\t00000000\t1="), "{lines}");
    lines.lines().skip(1).map(str::to_owned).collect()
}

/// The compiler does not know which program a unit becomes part of.
#[test]
fn equal_graphs_of_several_dsos_add_up() {
    let profile = read(
        "a1 [name=f, dso=one, blocks=\"00000001:1=10 2=? 3=4@00c3\"];
         a2 [name=f, dso=two, blocks=\"00000001:1=5 2=2 4=1\"];
         a3 [name=f, blocks=\"00000001:1=1 2=?\"];",
    );
    // By their total, the plugin aligns functions that are often called.
    assert!(counts(&profile).0.starts_with("sediment-blocks 2\n\t\t00000000\t1=16\nf\t"));
    // Only one graph knows block 2; this is enough.
    assert_eq!(lines(&profile), ["f\t\t00000001\t1=16 2=2 3=4@00c3 4=1"]);
}

/// The plugin takes the graph with its own hash, otherwise the first one that it can match.
#[test]
fn other_graphs_stand_below_the_heaviest() {
    let profile = read(
        "a1 [name=f, dso=one, blocks=\"00000001:1=10; 00000003:1=7\"];
         a2 [name=f, dso=two, blocks=\"00000002:1=900\"];
         a3 [name=f, dso=three, blocks=\"00000003:1=70\"];",
    );
    assert_eq!(lines(&profile), ["f\t\t00000002\t1=900", "f\t\t00000003\t1=77", "f\t\t00000001\t1=10"]);
}

/// Local functions are told apart by their file, whichever program they are in. Lines are sorted by their bytes, so
/// that the plugin can search.
#[test]
fn local_functions_of_other_files_stay_apart() {
    let profile = read(
        "a1 [name=f, dso=one, file=\"util.c\", blocks=\"00000001:1=10\"];
         a2 [name=f, dso=two, file=\"util.c\", blocks=\"00000001:1=3\"];
         a3 [name=f, dso=two, file=\"other.c\", blocks=\"00000001:1=2\"];
         a4 [name=f, dso=two, blocks=\"00000001:1=1\"];
         a5 [name=\"f.cold\", dso=two, blocks=\"00000001:1=8\"];
         a6 [name=e, dso=two];",
    );
    let expected = [
        "f\t\t00000001\t1=1",
        "f\tother.c\t00000001\t1=2",
        "f\tutil.c\t00000001\t1=13",
        "f.cold\t\t00000001\t1=8",
    ];
    assert_eq!(lines(&profile), expected);
}

/// The sums exceed 128 bits, and the counts exceed what the plugin can add.
#[test]
fn large_counts_stay_within_their_limits() {
    let most = u128::MAX;
    let nodes =
        format!("a1 [name=f, dso=one, blocks=\"1:1={most}\"]; a2 [name=f, dso=two, blocks=\"1:1={most}\"];");
    let (text, skipped) = counts(&read(&nodes));
    assert_eq!(skipped.iter().map(|(reason, ..)| reason).collect::<Vec<_>>(), [Reason::BlocksBeyond]);
    assert_eq!(text.lines().count(), 3, "{text}");
    // All counts are scaled down alike, and no executed block gets 0.
    let nodes = format!("f [blocks=\"1:1={} 2={} 3=1\"];", 1u128 << 77, 1u128 << 76);
    let text = counts(&read(&nodes)).0;
    let line = text.lines().last().unwrap();
    let numbers: Vec<u128> =
        line.split(['\t', '=', ' ']).filter_map(|word| word.parse().ok()).skip(2).step_by(2).collect();
    let [large, half, one] = numbers[..] else { panic!("{text}") };
    assert!(large <= 1 << 40 && large > 1 << 39 && half.abs_diff(large / 2) <= 1 && one == 1, "{text}");
}

/// clang's list has no hashes: it contains for each function the heaviest of clang's graphs, and never one of GCC's.
#[test]
fn lists_for_clang_have_the_heaviest_graph() {
    let profile = read(
        "a1 [name=f, dso=one, blocks=\"80000001:1=10 2=10@0001; 00000001:1=9000 7=9000\"];
         a2 [name=f, dso=two, blocks=\"80000002:1=900 4=800@0001 6=700@0000\"];
         a3 [name=g, dso=two, blocks=\"00000001:1=9\"];
         a4 [name=h, dso=two, file=\"a.c\", blocks=\"80000001:1=9\"];
         a5 [name=h, dso=two, file=\"b.c\", blocks=\"80000001:1=9\"];",
    );
    let (text, skipped) = clusters(&profile).unwrap();
    // In the order of their code: 5 comes before 3.
    assert_eq!(text, "v1\nf f\nc 0 5 3\n");
    assert_eq!(skipped.iter().map(|(reason, ..)| reason).collect::<Vec<_>>(), [Reason::AmbiguousBlocks]);
    assert!(!counts(&profile).0.contains("\t80000001\t"));
}
