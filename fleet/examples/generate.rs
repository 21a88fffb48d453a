// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes synthetic profiles with realistic skew, for tests and proofs: few functions have most calls, few submitters send most profiles, versions change
//! slowly, and one profile in a hundred is a copy.
//!
//!     generate text DIR COUNT CALLS                DIR/SUBMITTER/CLASS/DAY/NUMBER.gv
//!     generate dataset DATASET COUNT CALLS         directly into a dataset, with the writer that `ingest` uses; with a fourth number
//!                                                  COPIES, this number of submitters send each profile, on other days
//!     generate forged DATASET SUBMITTERS EACH      adds submitters that push calls which others rarely make, with EACH profiles each
//!     generate bodies DIR COUNT CALLS              DIR/NUMBER.gv, all different

use sediment_core::random::Generator;
use sediment_fleet::{Contents, Day, Keys, Named, Origin, Submission, Writer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

/// Number of functions of the program, possible calls, versions, days and submitters.
const FUNCTIONS: u64 = 20_000;
const EDGES: u64 = 60_000;
const VERSIONS: u64 = 4;
const DAYS: u64 = 7;
const SUBMITTERS: u64 = 20_000;

fn below(random: &mut Generator, limit: u64) -> u64 {
    random.below(limit as usize) as u64
}

/// A random number below `limit`; small numbers are far more frequent.
fn skewed(random: &mut Generator, limit: u64) -> u64 {
    let (a, b) = (below(random, limit), below(random, limit));
    a * b / limit
}

/// A profile and its origin.
struct Made {
    text: String,
    submitter: u64,
    day: Day,
}

impl Made {
    fn host_class(&self) -> &'static str {
        ["desktop", "server", "laptop"][(self.submitter % 3) as usize]
    }
}

/// The profile of one submitter: some of the possible calls, with the submitter's own distribution.
fn profile(number: u64, calls: u64) -> Made {
    let mut random = Generator::new(number / 100 * 100 + if number % 100 == 99 { 98 } else { number % 100 });
    let submitter = skewed(&mut random, SUBMITTERS);
    let (version, day) = (below(&mut random, VERSIONS), below(&mut random, DAYS));
    let mut edges: Vec<u64> = (0..calls * 2).map(|_| skewed(&mut random, EDGES)).collect();
    edges.sort_unstable();
    edges.dedup();
    // Spread over all drawn calls; the first calls are the hottest.
    random.shuffle(&mut edges);
    edges.truncate(calls as usize);
    edges.sort_unstable();
    // Counts fall with the rank of a call. Each submitter has its own distribution.
    let counted = edges.into_iter().map(|edge| {
        let mut ends = Generator::new(edge);
        let count = 1 + 1_000_000 / (edge + 1) * (1 + below(&mut random, 8)) + below(&mut random, 50);
        (below(&mut ends, FUNCTIONS), below(&mut ends, FUNCTIONS), count)
    });
    Made { text: print(version, counted.collect()), submitter, day: day_at(day) }
}

/// A forged profile: calls that hardly any program makes are the hottest.
fn forged(submitter: u64, number: u64) -> Made {
    let mut random = Generator::stream(submitter, number);
    let counted = (0..600).map(|call| {
        let mut ends = Generator::new(EDGES / 2 + below(&mut random, EDGES / 2));
        (below(&mut ends, FUNCTIONS), below(&mut ends, FUNCTIONS), 1_000_000_000 + call)
    });
    Made { text: print(0, counted.collect()), submitter, day: day_at(number % DAYS) }
}

fn day_at(number: u64) -> Day {
    Day("2026-10-01".parse::<Day>().unwrap().0 + number as i32)
}

fn print(version: u64, counted: Vec<(u64, u64, u64)>) -> String {
    let total: u64 = counted.iter().map(|(_, _, count)| count).sum();
    let mut functions: Vec<u64> = counted.iter().flat_map(|(caller, callee, _)| [*caller, *callee]).collect();
    functions.sort_unstable();
    functions.dedup();
    let build = 0x5ed1_0000 + version;
    let mut text = format!(
        "digraph Callgraph {{\n  graph [sediment=2, source=\"perf call stacks\", unit=calls, total={total}, arch=\"x86_64\", inputs=1];\n  \
         node [shape=ellipse];\n  subgraph cluster0 {{\n    \
         graph [label=\"served\", build_id=\"{build:016x}\", package=\"served-1.{version}-1\"];\n"
    );
    for function in functions {
        let size = 32 + below(&mut Generator::new(function + 77), 900);
        let _ = writeln!(text, "    \"request_handler_{function}\" [size={size}];");
    }
    text.push_str("  }\n");
    for (caller, callee, count) in counted {
        let share = count as f64 / total as f64;
        let _ = writeln!(
            text,
            "  \"request_handler_{caller}\" -> \"request_handler_{callee}\" [label={share:.6}, count={count}];"
        );
    }
    text.push_str("}\n");
    text
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (copies, arguments) = match &arguments[..] {
        [most @ .., copies] if most.len() == 5 => (copies.parse().unwrap(), most),
        all => (1, all),
    };
    let [_, kind, place, count, calls] = arguments else {
        panic!("generate text|dataset|forged|bodies PLACE COUNT CALLS [COPIES]")
    };
    let (count, calls): (u64, u64) = (count.parse().unwrap(), calls.parse().unwrap());
    match kind.as_str() {
        "text" => {
            for number in 0..count {
                let made = profile(number, calls);
                let folder = format!("{place}/s{}/{}/{}", made.submitter, made.host_class(), made.day);
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(format!("{folder}/{number}.gv"), made.text).unwrap();
            }
        }
        "bodies" => {
            std::fs::create_dir_all(place).unwrap();
            for number in (0..).filter(|number| number % 100 != 99).take(count as usize) {
                std::fs::write(format!("{place}/{number}.gv"), profile(number, calls).text).unwrap();
            }
        }
        "dataset" => add(place, "s", (count, copies), |number| profile(number, calls)),
        "forged" => add(place, "forger", (count * calls, 1), |number| forged(number / calls, number % calls)),
        other => panic!("{other}"),
    }
}

/// A profile as rows, with its submitters and identities.
struct Ready {
    origins: Vec<(Origin, u128)>,
    contents: Contents,
}

impl Ready {
    fn of(made: &Made, prefix: &str, keys: &Keys, copies: u64) -> Self {
        let origin = |copy: u64| {
            let submitter = keys.submitter(&format!("{prefix}{}", made.submitter + copy * SUBMITTERS));
            let identity = keys.identity(&submitter, made.text.as_bytes());
            let day = day_at((made.day.0 - day_at(0).0) as u64 + copy % DAYS);
            let day = if day.0 < day_at(DAYS).0 { day } else { Day(day.0 - DAYS as i32) };
            (Origin { submitter, host_class: made.host_class().to_owned(), day }, identity)
        };
        let submission = Submission::read(made.text.as_bytes(), &Named::default()).unwrap();
        Self { origins: (0..copies).map(origin).collect(), contents: Contents::new(submission) }
    }
}

/// Adds profiles to a dataset in the order of their numbers. Other threads make and read them.
fn add(place: &str, prefix: &str, (count, copies): (u64, u64), make: impl Fn(u64) -> Made + Sync) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut writer = runtime.block_on(Writer::open(place, None)).unwrap();
    let keys = writer.keys().clone();
    let next = AtomicU64::new(0);
    let (sender, receiver) = sync_channel(64);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            let (sender, next, make, keys) = (sender.clone(), &next, &make, &keys);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let ready = Ready::of(&make(number), prefix, keys, copies);
                    if sender.send((number, ready)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut expected) = (BTreeMap::new(), 0);
        for (number, ready) in &receiver {
            early.insert(number, ready);
            while let Some(ready) = early.remove(&expected) {
                expected += 1;
                for (origin, identity) in ready.origins {
                    writer.add(&ready.contents, &origin, identity).unwrap();
                    runtime.block_on(writer.spill()).unwrap();
                }
                if expected * copies % 100_000 == 0 {
                    runtime.block_on(writer.commit()).unwrap();
                }
            }
        }
    });
    runtime.block_on(writer.commit()).unwrap();
}
