// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading the output of perf stat.

use sediment_measure::perf_stat::{
    EVENTS, StatRow, StatTable, row, scaled, signal_in_words, table, unknown_rows,
};
use sediment_measure::processor::Processor;

// perf 6.1 in a virtual machine without counters.
const WITHOUT_PMU: &str = "# started on Sat Nov 21 23:48:29 2026\n\n<not supported>,,cycles,0,100.00,,\n\
    1.37,msec,task-clock,1372461,100.00,0.442,CPUs utilized\n48,,minor-faults,1372461,100.00,34.974,K/sec\n\
    3104391,ns,duration_time,3104391,100.00,2.262,G/sec\n<not counted>,ns,user_time,0,100.00,,\n";

#[test]
fn a_table_is_read_in_the_units_of_the_metrics() {
    let StatTable { counts, unknown } = table(WITHOUT_PMU);
    assert_eq!(unknown_rows(&unknown), None);
    assert_eq!(counts.len(), 5);
    assert_eq!(counts[0].value, Err("<not supported>".to_owned()));
    assert_eq!((counts[1].value.clone(), counts[1].unit.as_str()), (Ok(0.00137), "s"));
    assert_eq!(counts[2].value, Ok(48.0));
    assert_eq!(counts[3].value, Ok(0.003104391));
    assert_eq!(counts[4].value, Err("<not counted>".to_owned()));
}

// A processor with fewer counters than requested.
const WITH_PMU: &str = "# started on Sat Nov 21 23:48:29 2026\n\n18.12,msec,task-clock,18122597,100.00,0.497,CPUs utilized\n\
    5000000,,cycles:u,3328545,18.00,3.743,GHz\n,,,,0.22,stalled cycles per insn\n\
    8000000,,instructions:u,9200393,50.00,1.60,insn per cycle\n,,,,,0.22,stalled cycles per insn\n\
    ,,,,,,0.4,retiring\n<not supported>,,LLC-loads,0,100.00,,\n<not counted>,,iTLB-loads,0,0.00,,\n";

#[test]
fn metrics_between_the_counts_are_passed_over() {
    let StatTable { counts, unknown } = table(WITH_PMU);
    assert_eq!(unknown_rows(&unknown), None);
    let read: Vec<_> =
        counts.iter().map(|count| (count.event.as_str(), count.value.is_ok(), scaled(count))).collect();
    let expected = [
        ("task-clock", true, false),
        ("cycles", true, true),
        ("instructions", true, true),
        ("LLC-loads", false, false),
        ("iTLB-loads", false, false),
    ];
    assert_eq!(read, expected);
}

#[test]
fn rows_that_are_not_understood_are_counted_and_the_first_is_named() {
    let StatTable { counts, unknown } =
        table("nonsense\n5,,cycles,100,100.00,,\n,,,,,\n     0.100145580,7,,cycles,100,100.00,,\n,,x\n");
    assert_eq!(counts.len(), 1);
    assert_eq!(unknown_rows(&unknown).unwrap(), "4 rows are unreadable, for example \"nonsense\"");
    let part = row("     0.100145580,7,,cycles,100,100.00,,", ',');
    assert!(
        matches!(&part, StatRow::Interval(end, count) if *end == 0.10014558 && count.value == Ok(7.0)),
        "{part:?}"
    );
    assert_eq!(row("     0.100145580,,,,,0.21,stalled cycles per insn", ','), StatRow::Metric);
}

#[test]
fn user_space_only_and_scaled_counts_are_marked() {
    let read = |line| match row(line, ',') {
        StatRow::Count(count) => count,
        other => panic!("{line}: {other:?}"),
    };
    let count = read("8885976365,,cycles:u,2500000000,62.51,2.351,GHz");
    assert_eq!((count.event.as_str(), count.modifiers.as_str()), ("cycles", "u"));
    assert!(scaled(&count));
    let repeated = read("0.82,msec,task-clock,5.81%,824989,100.00,0.376,CPUs utilized");
    assert_eq!((repeated.error_percent, repeated.running), (Some(5.81), 100.0));
    let raw = read("12,,cpu/event=0x3c/,100,100.00,,");
    assert_eq!(raw.event, "cpu/event=0x3c/");
}

// Rows of a processor with two kinds of cores, perf 6.5.
const HYBRID: &str = "3,,cpu_core/cycles/u,1000,60.00,,\n4,,cpu_atom/cycles/u,800,40.00,,\n\
    7,,cpu_core/instructions/,1000,100.00,,\n<not counted>,,cpu_atom/instructions/,0,0.00,,\n\
    <not supported>,,cpu_core/LLC-loads/,0,100.00,,\n<not supported>,,cpu_atom/LLC-loads/,0,100.00,,\n\
    9,Joules,power/energy-pkg/,100,100.00,,\n";

#[test]
fn counts_on_several_kinds_of_cores_are_added_up() {
    let StatTable { counts, unknown } = table(HYBRID);
    assert_eq!(unknown_rows(&unknown), None);
    let read: Vec<_> = counts
        .iter()
        .map(|count| {
            (count.event.as_str(), count.modifiers.as_str(), count.value.clone().ok(), scaled(count))
        })
        .collect();
    let expected = [
        ("cycles", "u", Some(7.0), true),
        ("instructions", "", Some(7.0), false),
        ("LLC-loads", "", None, false),
        ("power/energy-pkg/", "", Some(9.0), false),
    ];
    assert_eq!(read, expected);
}

#[test]
fn the_end_by_a_signal_shows_in_perfs_last_words() {
    assert_eq!(signal_in_words("sh: Killed", "sh").as_deref(), Some("Killed"));
    assert_eq!(signal_in_words("sh: not found", "sh"), None);
    assert_eq!(signal_in_words("", "sh"), None);
}

#[test]
fn events_mean_what_the_kernel_makes_of_them_on_a_processor() {
    let amd = Processor::of("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\n").unwrap();
    let intel = Processor::of("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n").unwrap();
    let arm = Processor::of("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n").unwrap();
    assert_eq!([amd, intel, arm], [Processor::Amd, Processor::Intel, Processor::Neoverse]);
    // Other processors have other events.
    for other in [
        "",
        "vendor_id\t: AuthenticAMD\ncpu family\t: 21\n",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 58\nmodel name\t: 77\n",
        // Ivy Bridge for servers.
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 62\n",
        "vendor_id\t: HygonGenuine\ncpu family\t: 24\n",
        "CPU implementer\t: 0x61\n",
    ] {
        assert_eq!(Processor::of(other), None, "{other}");
    }
    for event in EVENTS.iter().filter(|event| event.hardware) {
        assert!([amd, intel, arm].iter().any(|processor| processor.counts(event.event).flatten().is_some()));
    }
    assert_eq!(amd.counts("LLC-load-misses"), Some(None));
    assert_ne!(amd.counts("iTLB-load-misses"), arm.counts("iTLB-load-misses"));
    assert_eq!(amd.counts("no-such-event"), None);
}
