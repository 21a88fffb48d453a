// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that read the output of the real perf for a program with known hot functions: perf script, perf report and
//! folded stacks.

use libtest_mimic::Trial;
use sediment_core::profile::source::Unknown;
use sediment_read::read::{Recording, Spot};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::{Need, case, read};

pub(crate) fn cases() -> Vec<Trial> {
    let needs = [Need::Program("perf"), Need::Program("cc")];
    vec![case("perf_text_of_call_stacks", &needs, call_stacks)]
}

/// `leaf` runs about ten times as long for `hot` as for `warm`; `hot` itself runs a tenth of that. `deep` calls itself.
/// `leaf` asks for its frame address, because gcc keeps no frame in functions without calls; their callers would be
/// missing from the chains.
const PROGRAM: &str = "
static volatile unsigned long sink;
#define FUNCTION __attribute__((noinline, noclone))
FUNCTION void leaf(unsigned long n) { __asm__ volatile(\"\" :: \"r\"(__builtin_frame_address(0))); for (unsigned long i = 0; i < n; i++) sink += i; }
FUNCTION void warm(unsigned long n) { leaf(n); __asm__ volatile(\"\"); }
FUNCTION void hot(unsigned long n) { leaf(10 * n); for (unsigned long i = 0; i < n; i++) sink ^= i; __asm__ volatile(\"\"); }
FUNCTION int deep(int n) { if (n > 0) return deep(n - 1) + 1; warm(200000); return 0; }
FUNCTION void never(void) { sink = 0; }
int main(int n, char **v) { (void)v; for (int i = 0; i < 100; i++) { hot(200000); deep(3); } if (n > 5) never(); return 0; }
";

/// Weights of calls and own cost, by the names of functions.
#[derive(Debug, Default)]
struct RecordedWeights {
    calls: BTreeMap<(String, String), u128>,
    costs: BTreeMap<String, u128>,
}

impl RecordedWeights {
    fn of(recording: &Recording) -> Self {
        let name = |id: sediment_read::read::AddressId| match &recording.addresses()[id.0 as usize].spot {
            Spot::Symbol { name, .. } => String::from_utf8(name.clone()).unwrap(),
            spot => format!("{spot:?}"),
        };
        let mut known = Self::default();
        for (from, to, _, count) in recording.transfers() {
            *known.calls.entry((name(from), name(to))).or_default() += count;
        }
        for (place, cost) in recording.samples() {
            *known.costs.entry(name(place)).or_default() += cost;
        }
        known
    }

    fn call(&self, from: &str, to: &str) -> u128 {
        self.calls.get(&(from.to_owned(), to.to_owned())).copied().unwrap_or(0)
    }

    fn cost(&self, name: &str) -> u128 {
        self.costs.get(name).copied().unwrap_or(0)
    }

    /// Checks properties that hold even if a busy machine takes few samples.
    fn check(&self, what: &str) {
        assert!(self.cost("leaf") > self.cost("hot") && self.cost("hot") > 0, "{what}: {self:#?}");
        assert!(self.cost("hot") > self.cost("main"), "{what}");
        assert!(self.call("hot", "leaf") > 2 * self.call("warm", "leaf"), "{what}: {self:#?}");
        assert!(self.call("main", "hot") >= self.call("hot", "leaf"), "{what}: {self:#?}");
        assert!(
            self.call("deep", "deep") <= self.call("main", "deep"),
            "{what}: once in each stack: {self:#?}"
        );
        assert!(self.call("deep", "deep") > 0 && self.call("deep", "warm") > 0, "{what}: {self:#?}");
        assert_eq!(self.call("leaf", "hot"), 0, "{what}: not the wrong way round");
        assert!(!self.calls.keys().any(|(from, to)| from == "never" || to == "never"), "{what}");
    }
}

fn perf(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new("perf");
    command.args(arguments).current_dir(folder).env("LC_ALL", "C").env("PERF_CONFIG", "/dev/null");
    let output = command.env("HOME", folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {arguments:?}: {said}");
    output.stdout
}

fn record_call_stacks(folder: &Path) {
    std::fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.args([
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "program.c",
        "-o",
        "my program",
    ]);
    assert!(cc.current_dir(folder).status().unwrap().success());
    let record =
        ["record", "-q", "-e", "cpu-clock:u", "-F", "1999", "-g", "-o", "perf.data", "--", "./my program"];
    perf(folder, &record);
}

fn call_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    record_call_stacks(folder);
    let samples = scripts_agree(folder);
    reports_agree(folder, &samples);
    reports_that_lack_counts_are_refused(folder);
}

/// Checks that all forms of perf script agree; returns the samples without callers.
fn scripts_agree(folder: &Path) -> RecordedWeights {
    let fields = "comm,pid,tid,time,period,event,ip,sym,symoff,dso";
    let scripts: [&[&str]; 7] = [
        &[],
        &["--no-demangle"],
        &["-F", fields],
        &["-F", fields, "--show-mmap-events", "--show-task-events"],
        &["-F", "ip,sym"],
        &["-F", "comm,tid,event,ip,sym,dso"],
        &["--header"],
    ];
    let mut whole = None;
    for script in scripts {
        let text = perf(folder, &[&["script", "-i", "perf.data"], script].concat());
        let recording = read(&text).unwrap_or_else(|error| panic!("{script:?}: {error}"));
        assert!(recording.source.name == "perf call stacks", "{script:?}: {}", recording.source);
        let known = RecordedWeights::of(&recording);
        known.check(&format!("{script:?}"));
        assert_eq!(recording.arch.is_some(), script.contains(&"--header"));
        // Each sample has the same period, so the forms differ only by this factor.
        whole.get_or_insert(known.call("hot", "leaf"));
    }
    // Without frames there are no calls.
    let text = perf(folder, &["script", "-i", "perf.data", "-G", "-F", "comm,pid,tid,event,ip,sym,dso"]);
    let recording = read(&text).unwrap();
    assert!(recording.transfers().is_empty() && recording.source.unknown.contains(&Unknown::Callers));
    RecordedWeights::of(&recording)
}

fn reports_agree(folder: &Path, samples: &RecordedWeights) {
    let reports: [&[&str]; 4] = [
        &["-g", "folded,count,caller,0"],
        &["-g", "folded,count,callee,0"],
        &["-g", "folded,period,caller,0", "-n"],
        &["-g", "folded,count,caller,0", "--sort", "dso,sym", "-t", "|"],
    ];
    for report in reports {
        let options = [&["report", "-i", "perf.data", "--stdio", "--no-children"], report].concat();
        let recording = read(&perf(folder, &options)).unwrap_or_else(|error| panic!("{report:?}: {error}"));
        let known = RecordedWeights::of(&recording);
        known.check(&format!("{report:?}"));
        if report[1].contains("count") {
            assert_eq!(known.cost("leaf"), samples.cost("leaf"), "{report:?}");
        }
    }
}

fn reports_that_lack_counts_are_refused(folder: &Path) {
    let refused: [&[&str]; 6] = [
        &["--no-children", "-g", "caller"],
        &["--no-children", "-n", "--sort", "sym", "-g", "caller,count"],
        &["--no-children", "-g", "flat,count,caller,0"],
        &["--no-children", "-g", "folded,percent,caller"],
        &["--children", "-g", "folded,count,caller"],
        &["--no-children", "-g", "callee,count"],
    ];
    for report in refused {
        let options = [&["report", "-i", "perf.data", "--stdio"], report].concat();
        let error = read(&perf(folder, &options)).unwrap_err();
        assert!(error.hint().unwrap().contains("-g folded,count,caller,0"), "{error:?}");
    }
}
