// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a real recording, as perf prints it, with the same recording read without perf.

use libtest_mimic::Trial;
use sediment_read::read::{Recording, TransferKind};
use std::collections::BTreeMap;
use std::process::Command;
use support::describe::place;
use support::{Need, case, read, shared_data};

const NAME: &str = "propeller_sample_1.perf.data";

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("perf"), Need::SharedData(NAME)];
    vec![case("perf_script_says_what_the_recording_says", &needs, same_branches)]
}

fn passages(recording: &Recording) -> BTreeMap<(String, String, TransferKind), u128> {
    let mut passages = BTreeMap::new();
    for (from, to, kind, count) in recording.transfers() {
        *passages.entry((place(recording, from), place(recording, to), kind)).or_default() += count;
    }
    passages
}

fn same_branches() {
    let binary = read(&std::fs::read(shared_data(NAME)).unwrap()).unwrap();
    for fields in ["comm,pid,tid,time,event,ip,brstack", "ip,brstack", "comm,tid,ip,sym,dso,brstack"] {
        let mut perf = Command::new("perf");
        perf.args(["script", "--show-mmap-events", "--show-task-events", "-F", fields, "-i"]);
        let output = perf.arg(shared_data(NAME)).output().unwrap();
        assert!(output.status.success());
        let text = read(&output.stdout).unwrap();
        assert_eq!(text.seen, binary.seen, "{fields}");
        assert_eq!(passages(&text), passages(&binary), "{fields}");
        assert_eq!(text.total, binary.total, "{fields}");
    }
}
