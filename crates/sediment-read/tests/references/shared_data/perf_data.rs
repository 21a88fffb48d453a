// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real perf.data files.

use libtest_mimic::Trial;
use sediment_core::binary::NoFiles;
use sediment_core::skipped::{Amount, Reason};
use support::{Need, case, shared_data};

const BRANCHES: &str = "propeller_sample_1.perf.data";
const NO_BRANCHES: &str = "ro_sample.perf.data";

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case("perf_data::every_branch_is_accounted_for", &[Need::SharedData(BRANCHES)], every_branch),
        case(
            "perf_data::samples_without_branches_are_own_cost",
            &[Need::SharedData(NO_BRANCHES)],
            no_branches,
        ),
    ]
}

/// All but a few of the 3,740 samples have 32 branches each. The recorded program is not available.
fn every_branch() {
    let bytes = std::fs::read(shared_data(BRANCHES)).unwrap();
    let recording = support::read(&bytes).unwrap();
    let kept: u128 = recording.transfers().iter().map(|(.., count)| count).sum();
    let is_branches = |reason| matches!(reason, Reason::Nowhere(Amount::Branches, ..) | Reason::NoCall(_));
    let lost = recording.skipped.weight(is_branches);
    assert_eq!((kept + lost, recording.total), (119_424, 119_424));
    assert_eq!(recording.seen, "3740 samples, 119424 branches");
    assert!(kept > 119_000, "{kept}");
    assert_eq!(recording.source.to_string(), "perf branch records (cycles:u)");
    assert_eq!(recording.arch.as_deref(), Some("x86_64"));
    let program = recording.dsos().iter().find(|dso| dso.path.ends_with(".bin.gen")).unwrap();
    assert_eq!(program.build_id.as_deref(), Some("572ac72487ae1966"));

    let error = sediment_read::resolve::resolve(&recording, &NoFiles).unwrap_err();
    assert!(error.to_string().contains("propeller_sample_1.bin.gen"), "{error}");
    assert!(error.hint().unwrap().contains("--symfs"), "{error:?}");
}

/// The samples are places only, in a program and libraries that are not available: they give own cost, but no calls.
fn no_branches() {
    let bytes = std::fs::read(shared_data(NO_BRANCHES)).unwrap();
    let recording = support::read(&bytes).unwrap();
    assert_eq!(
        recording.source.to_string(),
        "perf samples (cycles:u) without callers or call counts or time order"
    );
    assert_eq!((recording.total, recording.transfers().len()), (0, 0));
    let kept: u128 = recording.samples().iter().map(|(_, cost)| cost).sum();
    let lost: u128 = recording.skipped.weight(Reason::is_own_cost);
    assert_eq!((kept, lost), (480_068, 47_289));
    assert!(recording.dsos().iter().any(|dso| dso.path.ends_with("/libro_sample.so")));
}
