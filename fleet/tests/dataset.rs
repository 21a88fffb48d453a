// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datasets in folders: equal to the library's merge, complete after interruptions, with forgetting and checks.

mod support;

use sediment_core::profile::merge::{Weight, merge};
use sediment_core::profile::rows::{Assembly, ProfileRow, RowKind};
use sediment_core::profile::{FunctionKey, Profile, text};
use sediment_fleet::{Dataset, Keys};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{LAYOUT, fleet, ingest, merge_alike, merge_of, merged_by_core, profile, refused, run, write};

struct Place {
    folder: tempfile::TempDir,
    dataset: String,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dataset = folder.path().join("dataset").display().to_string();
        Self { folder, dataset }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A dataset of these profiles, and the profiles' files.
    fn of(numbers: std::ops::Range<u64>) -> (Self, Vec<PathBuf>) {
        let place = Self::new();
        let files = write(&place.path().join("profiles"), numbers);
        ingest(&place.dataset, &place.path().join("profiles"));
        (place, files)
    }
}

#[test]
fn a_merge_without_policy_is_that_of_the_core() {
    let (place, mut files) = Place::of(0..60);
    let core = merged_by_core(&files);
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), core);
    assert_eq!(merge_of(&place.dataset, place.path(), &["--threads", "1"]), core);
    // In another order, in several steps, and combined.
    let other = Place::new();
    files.reverse();
    for (at, part) in files.chunks(17).enumerate() {
        let folder = other.path().join(format!("part{at}"));
        for file in part {
            let to = folder.join(file.strip_prefix(place.path().join("profiles")).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(file, to).unwrap();
        }
        ingest(&other.dataset, &folder);
    }
    assert_eq!(merge_of(&other.dataset, other.path(), &[]), core);
    run(&["compact", &other.dataset, "--files", "2"]);
    assert_eq!(merge_of(&other.dataset, other.path(), &[]), core);
    assert!(run(&["fsck", &other.dataset]).ends_with(" 0 faults\n"));
}

#[test]
fn selections_merge_what_they_name() {
    let (place, files) = Place::of(0..40);
    let of_version: Vec<PathBuf> = files
        .iter()
        .filter(|path| std::fs::read_to_string(path).unwrap().contains("prog-1.1-1"))
        .cloned()
        .collect();
    let merged = merge_of(&place.dataset, place.path(), &["--version-of-package", "1.1-1"]);
    assert_eq!(merged, merged_by_core(&of_version));
    let early: Vec<PathBuf> =
        files.iter().filter(|path| path.to_str().unwrap().contains("2026-10-01")).cloned().collect();
    assert_eq!(merge_of(&place.dataset, place.path(), &["--before", "2026-10-02"]), merged_by_core(&early));
    assert_eq!(merge_of(&place.dataset, place.path(), &["--arch", "x86_64"]), merged_by_core(&files));
    refused(&["merge", &place.dataset, "-o", "/dev/null", "--package", "other"], 1);
}

#[test]
fn duplicates_count_once_and_an_interrupted_run_is_taken_up() {
    let place = Place::new();
    let folder = place.path().join("profiles");
    let files = write(&folder, 0..20);
    let broken = folder.join("s1/server/2026-10-02/broken.gv");
    std::fs::write(&broken, "digraph {").unwrap();
    let said = refused(&["ingest", &place.dataset, folder.to_str().unwrap(), "--layout", LAYOUT], 1);
    assert!(said.contains("broken.gv"), "{said}");
    std::fs::remove_file(broken).unwrap();
    assert!(ingest(&place.dataset, &folder).starts_with("added 20 submissions"));
    assert!(ingest(&place.dataset, &folder).starts_with("added 0 submissions"));
    // The same bytes from another submitter are another submission.
    std::fs::create_dir_all(folder.join("other/desktop/2026-10-01")).unwrap();
    std::fs::copy(&files[0], folder.join("other/desktop/2026-10-01/copy.gv")).unwrap();
    assert!(ingest(&place.dataset, &folder).starts_with("added 1 submissions"));
    let all: Vec<PathBuf> = files.iter().chain(&files[..1]).cloned().collect();
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&all));
}

#[test]
fn weighed_classes_are_those_of_the_core() {
    let (place, files) = Place::of(0..60);
    let options = ["--weigh-host-class", "desktop=0.3", "--weigh-version", "1.1-1=0.7"];
    let mut classes: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for path in &files {
        let is_desktop = path.to_str().unwrap().contains("/desktop/");
        let is_weighed = std::fs::read_to_string(path).unwrap().contains("prog-1.1-1");
        let weight = match (is_desktop, is_weighed) {
            (true, true) => "0.21",
            (true, false) => "0.3",
            (false, true) => "0.7",
            (false, false) => "1",
        };
        classes.entry(weight).or_default().push(path.clone());
    }
    assert_eq!(classes.len(), 4);
    // Each class is summed first, then weighted.
    let sums: Vec<(Profile, Weight)> = classes
        .iter()
        .map(|(weight, files)| {
            let sum = text::parse(merged_by_core(files).as_bytes()).unwrap().0;
            (sum, Weight::parse(weight).unwrap())
        })
        .collect();
    let sums: Vec<(&Profile, Weight)> = sums.iter().map(|(sum, weight)| (sum, *weight)).collect();
    let core = text::print(&merge(&sums, false).unwrap());
    assert_eq!(merge_of(&place.dataset, place.path(), &options), core);
    assert_eq!(merge_of(&place.dataset, place.path(), &[&options[..], &["--threads", "1"]].concat()), core);
}

#[test]
fn caps_weights_and_a_minimum_of_submitters() {
    let (place, files) = Place::of(0..70);
    // One submitter floods the dataset. With a cap, only its newest recordings count.
    let flood = place.path().join("flood");
    std::fs::create_dir_all(flood.join("s0/desktop/2026-10-05")).unwrap();
    for number in 0..200 {
        std::fs::write(flood.join(format!("s0/desktop/2026-10-05/{number}.gv")), profile(1000 + number))
            .unwrap();
    }
    let before = merge_of(&place.dataset, place.path(), &["--cap", "10"]);
    ingest(&place.dataset, &flood);
    let after = merge_of(&place.dataset, place.path(), &["--cap", "10"]);
    let total =
        |text: &str| text.split("total=").nth(1).unwrap().split(',').next().unwrap().parse::<u128>().unwrap();
    assert_eq!(total(&before), total(&after));
    assert_eq!(total(&merge_of(&place.dataset, place.path(), &[])), 270 * 1_000_000_000_000_000);
    // The library applies weights to the sums of classes.
    let half = merge_of(
        &place.dataset,
        place.path(),
        &["--weigh-host-class", "desktop=0.5", "--weigh-host-class", "server=0.5"],
    );
    assert_eq!(total(&half), 135 * 1_000_000_000_000_000);
    let young = merge_of(&place.dataset, place.path(), &["--half-life", "1", "--until", "2026-10-05"]);
    assert!(total(&young) < total(&merge_of(&place.dataset, place.path(), &[])));
    // Seven submitters have all functions of the program; one or two of them have `only_N`.
    let common = merge_of(&place.dataset, place.path(), &["--min-submitters", "7", "--before", "2026-10-05"]);
    assert!(common.contains("\"f11\"") && !common.contains("\"only_"), "{common}");
    let of_all = merged_by_core(&files);
    assert!(of_all.contains("\"only_"));
    refused(&["merge", &place.dataset, "-o", "/dev/null", "--cap", "0"], 1);
}

#[test]
fn little_memory_suffices() {
    let (place, files) = Place::of(0..60);
    let merged =
        merge_of(&place.dataset, place.path(), &["--memory", "8", "--threads", "1", "--min-submitters", "1"]);
    assert_eq!(merged, merged_by_core(&files));
}

#[test]
fn plans_are_told() {
    let (place, _) = Place::of(0..10);
    let plan = run(&["merge", &place.dataset, "--explain", "--cap", "3", "--by-recordings"]);
    assert!(
        plan.starts_with("SELECT slot_of(subject, submission) AS slot") && plan.contains("AggregateExec"),
        "{plan}"
    );
}

#[test]
fn what_is_forgotten_is_gone() {
    let (place, files) = Place::of(0..42);
    let outliers = run(&["outliers", &place.dataset]);
    assert_eq!(outliers.lines().count(), 8, "{outliers}");
    // Finds each submitter of the dataset by removing it and looking at the rest.
    let rest: Vec<PathBuf> =
        files.iter().filter(|path| !path.to_str().unwrap().contains("2026-10-01")).cloned().collect();
    run(&["forget", &place.dataset, "--before", "2026-10-02"]);
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&rest));
    let key = outliers.lines().nth(1).unwrap().split('\t').next().unwrap();
    run(&["forget", &place.dataset, "--submitter", key]);
    let merged = merge_of(&place.dataset, place.path(), &[]);
    let without = |submitter: u64| {
        let rest: Vec<PathBuf> = rest
            .iter()
            .filter(|path| !path.to_str().unwrap().contains(&format!("/s{submitter}/")))
            .cloned()
            .collect();
        merged_by_core(&rest)
    };
    assert!((0..7).any(|submitter| without(submitter) == merged));
    // Names that nobody else uses are removed, too.
    let left = text::parse(merged.as_bytes()).unwrap().0;
    assert_eq!(names(&place.dataset), names_of(&left));
    // Files of earlier snapshots are removed when nobody reads them any more.
    let listed: usize = ["facts", "blocks", "submissions"]
        .map(|table| run(&["files", &place.dataset, table]).lines().count())
        .iter()
        .sum();
    run(&["vacuum", &place.dataset, "--retention", "0"]);
    let mut open: Vec<PathBuf> =
        ["facts", "blocks", "submissions"].map(|table| Path::new(&place.dataset).join(table)).to_vec();
    let mut there = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() && !path.ends_with("_delta_log") {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            there += usize::from(path.extension().is_some_and(|end| end == "parquet"));
        }
    }
    assert_eq!(there, listed);
    assert!(run(&["fsck", &place.dataset]).ends_with(" 0 faults\n"));
    refused(&["forget", &place.dataset, "--submitter", key], 1);
    refused(&["forget", &place.dataset], 2);
}

/// Names of functions in the tables.
fn names(dataset: &str) -> BTreeSet<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let names = runtime.block_on(async { Dataset::open(dataset).await.unwrap().names(None).await });
    let names = names.unwrap();
    (0..).map_while(|number| names.function_at(number)).map(|key| key.name.to_owned()).collect()
}

fn names_of(profile: &Profile) -> BTreeSet<String> {
    profile.functions().into_iter().map(|function| profile.key(function).name.clone()).collect()
}

/// A submitter is forgotten repeatedly, while others add profiles with the same names and with their own names.
#[test]
fn names_that_writers_use_meanwhile_are_not_forgotten() {
    let place = Place::new();
    let mut files = Vec::new();
    let mut parts = |writer: u64| -> Vec<PathBuf> {
        let parts = (0..6u64).map(|turn| {
            let folder = place.path().join(format!("writer{writer}-{turn}"));
            let numbers = [100 + 12 * writer + 2 * turn, 101 + 12 * writer + 2 * turn];
            files.extend(write(&folder, numbers));
            folder
        });
        parts.collect()
    };
    let parts: Vec<Vec<PathBuf>> = (0..2).map(&mut parts).collect();
    ingest(&place.dataset, &parts[0][0]);
    let keys = Keys::open(Path::new(&format!("{}.secret", place.dataset)), false).unwrap();
    let gone = keys.submitter("gone");
    std::thread::scope(|scope| {
        let writers: Vec<_> = parts
            .iter()
            .map(|parts| {
                let dataset = &place.dataset;
                scope.spawn(move || parts.iter().for_each(|part| drop(ingest(dataset, part))))
            })
            .collect();
        for number in 0.. {
            let file = place.path().join(format!("gone{number}.gv"));
            // Names of the writers are removed, too.
            std::fs::write(&file, profile(100 + number)).unwrap();
            run(&["ingest", &place.dataset, file.to_str().unwrap(), "--submitter", "gone"]);
            run(&["forget", &place.dataset, "--submitter", &gone]);
            if writers.iter().all(|writer| writer.is_finished()) {
                break;
            }
        }
    });
    let merged = merge_of(&place.dataset, place.path(), &[]);
    assert_eq!(merged, merged_by_core(&files));
    assert_eq!(names(&place.dataset), names_of(&text::parse(merged.as_bytes()).unwrap().0));
    assert!(run(&["fsck", &place.dataset]).ends_with(" 0 faults\n"));
}

/// A table of an earlier version lacks a column, and the next writer adds it.
#[test]
fn tables_get_columns_that_they_lack() {
    let (place, mut files) = Place::of(0..3);
    let log = Path::new(&place.dataset).join("subjects/_delta_log");
    let first = log.join("00000000000000000000.json");
    let text = std::fs::read_to_string(&first).unwrap();
    let column = ",{\\\"name\\\":\\\"forgotten\\\",\\\"type\\\":\\\"boolean\\\",\\\"nullable\\\":true,\\\"metadata\\\":{}}";
    assert!(text.contains(column), "{text}");
    std::fs::write(&first, text.replace(column, "")).unwrap();
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&files));
    files.extend(write(&place.path().join("further"), 3..5));
    ingest(&place.dataset, &place.path().join("further"));
    let logs = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    let added = logs.filter(|path| *path != first && path.extension().is_some_and(|end| end == "json"));
    assert!(added.map(|path| std::fs::read_to_string(path).unwrap()).any(|text| text.contains(column)));
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&files));
}

#[test]
fn damage_is_found() {
    let (place, _) = Place::of(0..10);
    let facts = run(&["files", &place.dataset, "facts"]);
    let first = Path::new(facts.lines().next().unwrap());
    // A file that no commit lists is not part of the dataset.
    std::fs::copy(first, first.with_file_name("0123456789abcdef-0.parquet")).unwrap();
    assert!(run(&["fsck", &place.dataset]).ends_with(" 0 faults\n"));
    let bytes = std::fs::read(first).unwrap();
    std::fs::write(first, &bytes[..bytes.len() / 2]).unwrap();
    let checked = support::fleet(&["fsck", &place.dataset]);
    assert_eq!(checked.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("fault: facts/"));
}

#[test]
fn other_schemas_secrets_and_missing_datasets_are_told() {
    let (place, files) = Place::of(0..3);
    let log = Path::new(&place.dataset).join("submissions/_delta_log/00000000000000000000.json");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace("\"sediment.schema\":\"3\"", "\"sediment.schema\":\"4\"")).unwrap();
    let said = refused(&["coverage", &place.dataset], 1);
    assert!(said.contains("schema 4, but this program reads up to 3"), "{said}");
    std::fs::write(&log, text).unwrap();
    let file = files[0].to_str().unwrap();
    let secret = format!("{}.secret", place.dataset);
    let kept = std::fs::read_to_string(&secret).unwrap();
    std::fs::write(&secret, "0".repeat(64)).unwrap();
    assert!(refused(&["ingest", &place.dataset, file], 1).contains("the secret is of another dataset"));
    std::fs::remove_file(&secret).unwrap();
    assert!(refused(&["ingest", &place.dataset, file], 1).contains("put it back"));
    std::fs::write(&secret, kept).unwrap();
    run(&["ingest", &place.dataset, file]);
    // The state that versions without Delta tables left.
    let old = place.path().join("old");
    std::fs::create_dir_all(old.join("manifest")).unwrap();
    std::fs::write(old.join("manifest/000000000001.json"), "{\"schema\": 1}").unwrap();
    let said = refused(&["coverage", old.to_str().unwrap()], 1);
    assert!(said.contains("sediment-fleet 0.1.0 before its tables were Delta tables"), "{said}");
    assert!(refused(&["coverage", "/no/such/dataset"], 1).contains("no dataset"));
}

#[test]
fn clocks_in_the_future_are_refused() {
    let place = Place::new();
    let files = write(&place.path().join("profiles"), 0..1);
    let file = files[0].to_str().unwrap();
    let said = refused(&["ingest", &place.dataset, file, "--day", "2999-01-01"], 1);
    assert!(said.contains("in the future"), "{said}");
}

#[test]
fn what_a_dataset_has_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (place, _) = Place::of(0..3);
    let mut open = vec![PathBuf::from(&place.dataset), PathBuf::from(format!("{}.secret", place.dataset))];
    while let Some(path) = open.pop() {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// Three programs add at the same time, while others combine and remove files. Each merge meanwhile contains only complete submissions.
#[test]
fn writers_readers_and_maintenance_at_once() {
    let (place, mut files) = Place::of(0..10);
    let whole = merge_of(&place.dataset, place.path(), &[]);
    let folders: Vec<PathBuf> = (0..3).map(|writer| place.path().join(format!("writer{writer}"))).collect();
    for (writer, folder) in (0..).zip(&folders) {
        for turn in 0..6 {
            let turn_folder = folder.join(turn.to_string());
            files.extend(write(&turn_folder, (0..4).map(|at| 100 + 24 * writer + 4 * turn + at)));
        }
    }
    std::thread::scope(|scope| {
        let writing: Vec<_> = folders
            .iter()
            .map(|folder| {
                let dataset = &place.dataset;
                scope.spawn(move || {
                    for turn in 0..6 {
                        assert!(ingest(dataset, &folder.join(turn.to_string())).starts_with("added 4 "));
                    }
                })
            })
            .collect();
        let output = place.path().join("beside");
        std::fs::create_dir(&output).unwrap();
        while writing.iter().any(|writer| !writer.is_finished()) {
            let merged = merge_of(&place.dataset, &output, &["--before", "2026-12-01"]);
            let total = |text: &str| {
                text.split("total=").nth(1).unwrap().split(',').next().unwrap().parse::<u128>().unwrap()
            };
            // Shares of complete submissions.
            assert_eq!(total(&merged) % 1_000_000_000_000_000, 0);
            assert!(total(&merged) >= total(&whole));
            run(&["compact", &place.dataset, "--files", "3"]);
            run(&["vacuum", &place.dataset]);
        }
    });
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&files));
    assert!(run(&["fsck", &place.dataset]).ends_with(" 0 faults\n"));
    run(&["compact", &place.dataset, "--files", "2"]);
    run(&["vacuum", &place.dataset, "--retention", "0"]);
    assert_eq!(merge_of(&place.dataset, place.path(), &[]), merged_by_core(&files));
    let left = |table: &str| run(&["files", &place.dataset, table]).lines().count();
    assert_eq!((left("submissions"), left("subjects"), left("submitters")), (1, 1, 1));
}

#[test]
fn damaged_files_are_named_and_can_be_skipped() {
    let place = Place::new();
    let folder = place.path().join("profiles");
    let files = write(&folder, 0..2);
    let whole = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &whole[..whole.len() / 2]).unwrap();
    let (folder, name) = (folder.display().to_string(), files[1].display().to_string());
    let said = refused(&["ingest", &place.dataset, &folder], 1);
    assert!(said.contains(&name), "{said}");
    assert!(run(&["fsck", &place.dataset]).ends_with(" 0 faults\n"));
    let skipped = fleet(&["ingest", &place.dataset, &folder, "--keep-going"]);
    let said = String::from_utf8_lossy(&skipped.stderr);
    assert!(skipped.status.success() && said.contains("skipped 1 files") && said.contains(&name), "{said}");
    std::fs::write(&files[1], &whole).unwrap();
    assert!(run(&["ingest", &place.dataset, &folder]).contains("added 1 submissions"));
}

/// DuckDB reads the tables through their Delta logs, after files were replaced and a checkpoint was made, with the SQL of the page.
#[test]
fn another_engine_reads_the_tables() {
    let modules = Command::new("python3").args(["-c", "import duckdb, duckdb_ext"]).output();
    if !modules.is_ok_and(|modules| modules.status.success()) {
        return support::skip("python3 lacks duckdb and duckdb-ext-delta (pip install duckdb-ext-delta)");
    }
    let (place, mut files) = Place::of(0..10);
    for number in 10..32 {
        let folder = place.path().join(format!("further{number}"));
        files.extend(write(&folder, [number]));
        ingest(&place.dataset, &folder);
    }
    run(&["compact", &place.dataset, "--files", "2"]);
    let logs = Path::new(&place.dataset).join("submissions/_delta_log");
    let is_checkpoint =
        |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().contains(".checkpoint.");
    assert!(std::fs::read_dir(logs).unwrap().any(|entry| is_checkpoint(entry.unwrap())));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = folder.join("../docs/background/fleet-tables.md");
    let output = Command::new("python3")
        .arg("-B")
        .args([folder.join("tests/engines/delta.py"), page, PathBuf::from(&place.dataset)])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (rows, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('{'));
    assert_eq!(text::print(&assembled(&rows)), merged_by_core(&files));
    // All in one class have equal sums; the program and its library have more than twenty calls.
    assert_eq!(others[0].parse::<usize>().unwrap(), rows.len());
    assert_eq!(others.len(), 21, "{others:?}");
}

/// The profile of rows as JSON.
fn assembled(rows: &[&str]) -> Profile {
    let mut assembly = Assembly::default();
    for row in rows {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let text = |name: &str| row[name].as_str();
        let mut function = |[dso, name, file]: [&str; 3]| {
            let parts = [dso, file].map(|part| text(part).map(str::as_bytes));
            let key = FunctionKey::new(parts[0], text(name)?.as_bytes(), parts[1]).unwrap();
            Some(assembly.profile().function(key))
        };
        let function_and_callee =
            (function(["dso", "name", "file"]), function(["callee_dso", "callee_name", "callee_file"]));
        assembly
            .add(&ProfileRow {
                kind: RowKind::parse(text("kind").unwrap()).unwrap(),
                function: function_and_callee.0,
                callee: function_and_callee.1,
                detail: text("detail").unwrap_or_default().to_owned(),
                weight: text("weight").map(|weight| weight.parse().unwrap()),
                first: row["first_use"].as_u64(),
            })
            .unwrap();
    }
    assembly.finish().unwrap()
}

/// The files of a dataset contain only the profile and an opaque key of a submitter.
#[test]
fn names_of_submitters_and_paths_are_in_no_file() {
    let place = Place::new();
    let folder = place.path().join("profiles");
    std::fs::create_dir_all(folder.join("alice-of-example/desktop/2026-10-01")).unwrap();
    std::fs::write(folder.join("alice-of-example/desktop/2026-10-01/home-secret.gv"), profile(1)).unwrap();
    ingest(&place.dataset, &folder);
    let mut open = vec![PathBuf::from(&place.dataset)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for secret in ["alice", "home-secret", folder.to_str().unwrap()] {
            assert!(
                !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
                "{}: {secret}",
                path.display()
            );
        }
    }
    // Parquet compresses its pages, so the tables are also searched.
    let coverage = run(&["coverage", &place.dataset]);
    assert!(coverage.contains("prog\t1."), "{coverage}");
}

#[test]
fn drift_tells_whether_to_refresh() {
    let (place, _) = Place::of(0..40);
    let shipped = place.path().join("shipped.gv");
    std::fs::write(&shipped, merge_alike(&place.dataset, place.path(), &[])).unwrap();
    let same = run(&["drift", &place.dataset, shipped.to_str().unwrap()]);
    assert!(same.contains("agreement: 100.0 %"), "{same}");
    std::fs::write(
        &shipped,
        "digraph { graph [sediment=2, unit=calls, total=2]; \"x\" -> \"y\" [count=2]; }",
    )
    .unwrap();
    let other = run(&["drift", &place.dataset, shipped.to_str().unwrap()]);
    assert!(other.contains("agreement: 0.0 %") && other.contains("lacks: 100.0 %"), "{other}");
}
