// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of plans, schedules, runs with a runner that starts nothing, and the file of an experiment; and comparisons of
//! the tables with their pages.

use sediment_core::{Error, ErrorCode, ErrorKind, ErrorLocation, Result};
use sediment_eval::import::IMPORTERS;
use sediment_eval::plan::{self, Plan};
use sediment_eval::run::schedule::{self, PlannedRun};
use sediment_eval::run::{self, ExperimentProgress, Journal, Measurement, Runner, Watcher, journal};
use sediment_eval::verdict::Verdict;
use sediment_eval::{Circumstances, Phase, Probe};
use sediment_measure::perf_stat::EVENTS;
use sediment_measure::processor::Processor;
use sediment_process::Stop;
use std::collections::{BTreeMap, BTreeSet};
use support::root;

const PLAN: &str = "sediment-eval = 1\n[run]\nblocks = 4\npilot = 4\nwarm-ups = 1\n[build]\nreplicas = 2\n\
    link = [\"cc\", \"{padding_object}\", \"-o\", \"{output}\"]\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
    [[workload]]\nname = \"w\"\ncommand = [\"{program}\"]\n[[workload]]\nname = \"x\"\ncommand = [\"{program}\", \"x\"]\n";

fn plan() -> Plan {
    plan::read(PLAN).unwrap()
}

/// A runner that starts no process: every run takes a second, and its costs depend on the number of its variant.
struct Pretend {
    seconds: f64,
    fails_at: Option<usize>,
    jumps_at: Option<usize>,
    made: Vec<PlannedRun>,
}

impl Pretend {
    fn new() -> Self {
        Self { seconds: 0.0, fails_at: None, jumps_at: None, made: Vec::new() }
    }
}

impl Runner for Pretend {
    fn seconds(&self) -> f64 {
        self.seconds
    }
    fn wall_jump(&mut self) -> f64 {
        if self.jumps_at == Some(self.made.len()) { 3600.0 } else { 0.001 }
    }
    fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
        if self.fails_at == Some(self.made.len()) {
            return Err(Error::new(ErrorCode::ProgramFailed, "broke"));
        }
        self.seconds += 1.0;
        self.made.push(*planned);
        let wobble = 0.001 * (self.made.len() % 7) as f64;
        let value = 1.0 + 0.1 * planned.variant as f64 + wobble;
        Ok(Measurement { values: BTreeMap::from([("elapsed".to_owned(), value)]), ..Measurement::default() })
    }
}

/// Keeps lines in memory.
#[derive(Default)]
struct MemoryLines(String);

impl Journal for MemoryLines {
    fn append(&mut self, line: &str) -> Result<()> {
        assert!(!line.contains('\n'));
        self.0 += line;
        self.0.push('\n');
        Ok(())
    }
}

#[derive(Default)]
struct ShownProgress {
    notes: Vec<String>,
    last: Option<ExperimentProgress>,
}

impl Watcher for ShownProgress {
    fn progress(&mut self, progress: &ExperimentProgress) {
        self.last = Some(*progress);
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn printed(&mut self, _: &[u8]) {}
}

/// The links of a single build differ by a tenth of a per cent each: there is no verdict, and all blocks run.
#[test]
fn links_of_one_build_show_their_layouts() {
    struct GradedLinks(Pretend);
    impl Runner for GradedLinks {
        fn seconds(&self) -> f64 {
            self.0.seconds()
        }
        fn wall_jump(&mut self) -> f64 {
            0.0
        }
        fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
            let mut made = self.0.perform(planned)?;
            made.values.insert("elapsed".to_owned(), (0.001 * f64::from(planned.replica)).exp());
            Ok(made)
        }
    }
    let text = |replicas: u32| {
        let plan = PLAN.replace("[[variant]]\nname = \"b\"\n", "").replace("blocks = 4", "blocks = 30");
        "noise-floor = false\n".to_owned() + &plan.replace("replicas = 2", &format!("replicas = {replicas}"))
    };
    let refused = plan::read(&text(2)).unwrap_err();
    assert!(refused.to_string().contains("two or more variants"), "{refused}");
    let plan = plan::read(&text(3)).unwrap();
    let mut experiment = run::begin(&plan, 5);
    let (mut runner, mut told) = (GradedLinks(Pretend::new()), ShownProgress::default());
    run::run(&plan, &mut experiment, &mut runner, &mut MemoryLines::default(), &mut told, &Stop::default())
        .unwrap();
    let measured = experiment.observations.iter().filter(|run| run.phase == Phase::Measured).count();
    assert_eq!(measured, 30 * 3 * 2);
    let analysis = sediment_eval::analyse(&experiment).unwrap();
    for workload in &analysis.workloads {
        let noise = workload.layout_noise.unwrap();
        assert_eq!((noise.layouts, noise.blocks), (3, 30));
        // The standard deviation of 0, 1 and 2 is 1.
        assert!((noise.floor.estimate.ln_1p() - 0.001 * 1.959964 * 2.0_f64.sqrt()).abs() < 1e-9, "{noise:?}");
        assert!(noise.floor.lower > 0.0 && workload.verdicts.is_empty());
    }
}

#[test]
fn a_block_has_every_link_once_in_an_order_of_its_own() {
    let plan = plan();
    let probes: Vec<_> = plan.variants.iter().filter_map(|variant| variant.probe).collect();
    assert_eq!(probes, [Probe::SameFile, Probe::Relinked]);
    let links: BTreeSet<(usize, u32)> = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)].into();
    let mut orders = BTreeSet::new();
    let mut paddings = BTreeSet::new();
    for number in 0..50 {
        let block = schedule::block(&plan, 9, number);
        assert_eq!(block, schedule::block(&plan, 9, number), "the seed decides");
        for workload in 0..2 {
            let runs: Vec<&PlannedRun> =
                block.iter().filter(|planned| planned.workload == workload).collect();
            assert_eq!(runs.iter().map(|v| (v.variant, v.replica)).collect::<BTreeSet<_>>(), links);
            assert_eq!(runs.iter().map(|v| v.slot).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
            orders.insert(runs.iter().map(|v| (v.variant, v.replica)).collect::<Vec<_>>());
        }
        assert!(block.iter().all(|planned| planned.padding == block[0].padding && planned.padding <= 4096));
        paddings.insert(block[0].padding);
    }
    assert!(orders.len() > 80 && paddings.len() > 40, "{} orders, {} paddings", orders.len(), paddings.len());
    assert_ne!(schedule::block(&plan, 9, 0), schedule::block(&plan, 10, 0));
}

#[test]
fn no_link_is_favoured_by_its_place() {
    let plan = plan();
    let mut first = BTreeMap::new();
    for number in 0..600 {
        let block = schedule::block(&plan, 1, number);
        *first.entry((block[0].variant, block[0].replica)).or_insert(0) += 1;
    }
    // 600 blocks with six links give 100 each; four standard deviations are 37.
    assert!(first.len() == 6 && first.values().all(|count| (63..=137).contains(count)), "{first:?}");
}

#[test]
fn runs_are_kept_as_they_are_made_and_the_file_tells_all() {
    let plan = plan();
    let mut lines = MemoryLines::default();
    lines.append(&journal::header(&plan, "/somewhere", 9)).unwrap();
    let mut experiment = run::begin(&plan, 9);
    let (mut runner, mut told) = (Pretend::new(), ShownProgress::default());
    let finished =
        run::run(&plan, &mut experiment, &mut runner, &mut lines, &mut told, &Stop::new()).unwrap();
    assert!(finished.why.contains("4 blocks"), "{}", finished.why);
    assert_eq!(runner.made.len(), 12 + 4 * 12);
    let progress = told.last.unwrap();
    assert_eq!((progress.runs, progress.most_runs, progress.blocks), (48, 48, 4));
    let recorded = journal::read(lines.0.as_bytes()).unwrap();
    assert_eq!(recorded.experiment, experiment);
    assert_eq!(recorded.whole, lines.0.len());
    let warm_ups = experiment.observations.iter().filter(|o| o.phase == Phase::WarmUp);
    assert!(warm_ups.clone().all(|o| o.block.is_none()) && warm_ups.count() == 12);
}

#[test]
fn interrupted_experiment_resumes_with_the_same_result() {
    let plan = plan();
    let whole = {
        let mut runner = Pretend::new();
        run::run(
            &plan,
            &mut run::begin(&plan, 9),
            &mut runner,
            &mut MemoryLines::default(),
            &mut ShownProgress::default(),
            &Stop::new(),
        )
        .unwrap();
        runner.made
    };
    for fails_at in [0, 5, 12, 13, 30, 59] {
        let mut lines = MemoryLines::default();
        lines.append(&journal::header(&plan, "/", 9)).unwrap();
        let mut first = Pretend { fails_at: Some(fails_at), ..Pretend::new() };
        let mut experiment = run::begin(&plan, 9);
        let broken = run::run(
            &plan,
            &mut experiment,
            &mut first,
            &mut lines,
            &mut ShownProgress::default(),
            &Stop::new(),
        );
        assert_eq!(broken.unwrap_err().to_string(), "broke");
        assert_eq!(experiment.observations.len(), fails_at, "all that was measured is there");
        // The file was cut off in the middle of the next line.
        let torn = lines.0.clone() + "{\"run\":{\"at\":1.5,\"bl";
        let mut recorded = journal::read(torn.as_bytes()).unwrap();
        assert_eq!((recorded.whole, recorded.experiment.observations.len()), (lines.0.len(), fails_at));
        let mut second = Pretend::new();
        run::run(
            &plan,
            &mut recorded.experiment,
            &mut second,
            &mut lines,
            &mut ShownProgress::default(),
            &Stop::new(),
        )
        .unwrap();
        let measured =
            |made: &[PlannedRun]| made.iter().filter(|v| v.block.is_some()).copied().collect::<Vec<_>>();
        let both: Vec<PlannedRun> = measured(&first.made).into_iter().chain(measured(&second.made)).collect();
        assert_eq!(both, measured(&whole), "broken at run {fails_at}");
    }
}

#[test]
fn nothing_runs_when_nothing_is_missing() {
    let plan = plan();
    let mut experiment = run::begin(&plan, 9);
    let mut runner = Pretend::new();
    run::run(
        &plan,
        &mut experiment,
        &mut runner,
        &mut MemoryLines::default(),
        &mut ShownProgress::default(),
        &Stop::new(),
    )
    .unwrap();
    let mut again = Pretend::new();
    run::run(
        &plan,
        &mut experiment,
        &mut again,
        &mut MemoryLines::default(),
        &mut ShownProgress::default(),
        &Stop::new(),
    )
    .unwrap();
    assert!(again.made.is_empty(), "no warm-ups either");
}

#[test]
fn a_run_in_which_the_clock_jumps_is_made_again() {
    let plan = plan();
    let mut lines = MemoryLines::default();
    lines.append(&journal::header(&plan, "/", 9)).unwrap();
    let mut runner = Pretend { jumps_at: Some(20), ..Pretend::new() };
    let mut told = ShownProgress::default();
    run::run(&plan, &mut run::begin(&plan, 9), &mut runner, &mut lines, &mut told, &Stop::new()).unwrap();
    assert_eq!(told.notes.len(), 1);
    assert!(told.notes[0].contains("3600 s"), "{}", told.notes[0]);
    let recorded = journal::read(lines.0.as_bytes()).unwrap();
    assert_eq!(recorded.notes, told.notes);
    let at: Vec<f64> = recorded.experiment.observations.iter().map(|o| o.at).collect();
    let steps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps.iter().filter(|step| **step == 2.0).count(), 1, "the run that is not judged");
    assert!(steps.iter().all(|step| *step == 1.0 || *step == 2.0), "no jump in what is recorded");
    assert_eq!(at.len() + 1, runner.made.len());

    let mut always = Jumps(Pretend::new());
    let mut experiment = run::begin(&plan, 9);
    let lines = &mut MemoryLines::default();
    let ended =
        run::run(&plan, &mut experiment, &mut always, lines, &mut ShownProgress::default(), &Stop::new());
    assert_eq!(ended.unwrap_err().code(), ErrorCode::NotMeasured);
    assert_eq!((experiment.observations.len(), always.0.made.len()), (0, 3));
}

/// A runner whose clock jumps in each run.
struct Jumps(Pretend);

impl Runner for Jumps {
    fn seconds(&self) -> f64 {
        self.0.seconds()
    }
    fn wall_jump(&mut self) -> f64 {
        -3600.0
    }
    fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
        self.0.perform(planned)
    }
}

/// The runs show a clear difference, unless they must not be judged. Each case is a change to the measurement of a run,
/// by its number.
#[test]
fn what_disturbs_runs_is_said_and_not_judged() {
    struct ChangedRuns<F>(Pretend, F);
    impl<F: Fn(usize, &PlannedRun, &mut Measurement)> Runner for ChangedRuns<F> {
        fn seconds(&self) -> f64 {
            self.0.seconds()
        }
        fn wall_jump(&mut self) -> f64 {
            0.0
        }
        fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
            let mut made = self.0.perform(planned)?;
            made.circumstances = Circumstances {
                printed: Some("same".to_owned()),
                exit: Some(0),
                pace: Some(1e-5),
                ready_tasks: Some(3.0),
            };
            (self.1)(self.0.made.len(), planned, &mut made);
            Ok(made)
        }
    }
    fn judged(change: impl Fn(usize, &PlannedRun, &mut Measurement)) -> sediment_eval::Analysis {
        let text = PLAN.replace("blocks = 4\npilot = 4", "blocks = 12\npilot = 12");
        let plan = plan::read(&("noise-floor = false\nprimary = \"elapsed\"\n".to_owned() + &text)).unwrap();
        let (mut experiment, mut lines) = (run::begin(&plan, 9), MemoryLines::default());
        lines.append(&journal::header(&plan, "/", 9)).unwrap();
        let mut runner = ChangedRuns(Pretend::new(), change);
        run::run(
            &plan,
            &mut experiment,
            &mut runner,
            &mut lines,
            &mut ShownProgress::default(),
            &Stop::new(),
        )
        .unwrap();
        let analysis = sediment_eval::analyse(&experiment).unwrap();
        let recorded = journal::read(lines.0.as_bytes()).unwrap().experiment;
        assert_eq!(sediment_eval::analyse(&recorded).unwrap(), analysis, "the file has it all");
        analysis
    }
    fn refused(says: &str, change: impl Fn(usize, &PlannedRun, &mut Measurement)) {
        for found in judged(change).workloads {
            assert_eq!(
                found.verdicts[0].verdict,
                Verdict::Inconclusive,
                "{says}: {}",
                found.verdicts[0].reason
            );
            assert!(found.recommendation.contains(says), "{says}: {}", found.recommendation);
            assert_eq!(found.layout_noise, None, "{says}");
        }
    }
    for found in judged(|_, _, _| ()).workloads {
        assert_eq!(found.verdicts[0].verdict, Verdict::Slower, "{}", found.verdicts[0].reason);
    }
    refused("the outputs of a and b differ", |_, planned, made| {
        made.circumstances.printed = Some(planned.variant.to_string());
    });
    refused("the exit codes of a and b differ", |_, planned, made| {
        made.circumstances.exit = Some(planned.variant as i32);
    });
    refused("the outputs of the links of b differ", |_, planned, made| {
        made.circumstances.printed = Some(planned.replica.to_string());
    });
    refused("the work changes from run to run: -", |number, _, made| {
        made.values.entry("elapsed".to_owned()).and_modify(|value| *value *= 0.98_f64.powi(number as i32));
    });
    refused("the speed of the processor changed by 100 %", |number, _, made| {
        made.circumstances.pace = Some(if number % 3 == 0 { 2e-5 } else { 1e-5 });
    });
    refused("other work had 9 tasks for each processor", |_, _, made| {
        made.circumstances.ready_tasks = Some(9.0);
    });
    // A program that prints its run time has a different output in each run.
    for found in judged(|number, _, made| made.circumstances.printed = Some(number.to_string())).workloads {
        assert_eq!(found.verdicts[0].verdict, Verdict::Slower, "{}", found.verdicts[0].reason);
    }
}

#[test]
fn time_is_a_budget_too_and_a_stop_is_obeyed() {
    let mut plan = plan();
    plan.run.time = Some(30.0);
    let mut runner = Pretend::new();
    let mut experiment = run::begin(&plan, 9);
    let finished = run::run(
        &plan,
        &mut experiment,
        &mut runner,
        &mut MemoryLines::default(),
        &mut ShownProgress::default(),
        &Stop::new(),
    )
    .unwrap();
    // 12 runs to warm up, then blocks of 12 until 30 s have passed, which makes two blocks.
    assert_eq!(runner.made.len(), 3 * 12);
    assert!(finished.why.contains("36 s"), "{}", finished.why);
    let stop = Stop::new();
    stop.ask();
    let mut none = Pretend::new();
    let stopped = run::run(
        &plan,
        &mut run::begin(&plan, 9),
        &mut none,
        &mut MemoryLines::default(),
        &mut ShownProgress::default(),
        &stop,
    );
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(none.made.is_empty());
}

/// Plans, with short names for their usual beginnings and ends; the line of the error, and a name or number in the
/// error.
const WRONG: &[(&str, u64, &str)] = &[
    ("", 1, "sediment-eval = 1"),
    ("\nsediment-eval = 9\nnew = 1\n", 2, "9"),
    ("sediment-eval = 1\nx = [\n", 2, ""),
    ("BASE colour = 1\nTWO WORK ", 2, "colour"),
    ("BASE TWO WORK comand = 1\n", 11, "comand"),
    ("BASE TWO ", 1, "[[workload]]"),
    ("BASE WORK ", 1, "0"),
    ("BASE TWO TWO WORK ", 9, "name a"),
    ("BASE baseline = \"c\"\nTWO WORK ", 2, "variant c"),
    ("BASE margin = \"much\"\nTWO WORK ", 2, "much"),
    ("BASE margin = -1\nTWO WORK ", 2, "margin"),
    ("BASE margin = nan\nTWO WORK ", 2, "margin"),
    ("BASE [run]\nprecision = 1\nTWO WORK ", 3, "precision"),
    ("BASE TWO [[workload]]\nname = \"w\"\n", 9, "workload w"),
    ("BASE TWO [[workload]]\nname = \"w\"\nserver = \"s\"\n", 10, "ready"),
    ("BASE TWO WORK ready = { log = \"x\" }\n", 11, "server"),
    ("BASE TWO WORK work = { regex = \"x\" }\n", 11, "group"),
    ("BASE TWO WORK work = { }\n", 11, "regex"),
    ("BASE TWO WORK work = { count = 0 }\n", 11, "count"),
    ("BASE TWO WORK work = { pointer = \"/n\", count = 3 }\n", 11, "pointer"),
    (
        "BASE TWO [[workload]]\nname = \"w\"\nserver = \"s\"\ndrive = \"d\"\nready = { port = \"x\" }\nstop = \"NO\"\n",
        13,
        "NO",
    ),
    ("BASE [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nWORK ", 3, "of a"),
    ("BASE TWO flags = \"-O2\"\nWORK ", 8, "flags"),
    ("BASE [[factor]]\nname = \"f\"\nlevels = [\"x\"]\nWORK ", 4, "factor f"),
    ("BASE [[factor]]\nname = \"f\"\nlevels = [\"x\", \"y\"]\nWORK ", 2, "[build]"),
    ("BASE [run]\ncounters = [\"cycels\"]\nTWO WORK ", 3, "cycels"),
    ("BASE TWO [[workload]]\nname = \"w\"\nimport = { c = [\"f\"] }\n", 8, "for c"),
    ("BASE [run]\nblocks = 0\nTWO WORK ", 3, "100000"),
    ("BASE [run]\nblocks = -1\nTWO WORK ", 3, "-1"),
    ("BASE [run]\ncold = 1\nTWO WORK ", 3, "cold"),
    ("BASE TWO WORK folder = 3\n", 11, "folder"),
    ("BASE TWO WORK folder = \"a\\u0000\"\n", 11, "NUL"),
    ("BASE TWO WORK prepare = []\n", 11, "prepare"),
    ("BASE run = 3\nTWO WORK ", 2, "run"),
    ("BASE [variant]\nname = \"a\"\nWORK ", 2, "[[variant]]"),
    ("BASE TWO [[workload]]\ncommand = \"x\"\n", 8, "name"),
    (
        "BASE TWO [[workload]]\nname = \"w\"\nserver = \"s\"\nready = { log = \"x\", port = \"y\" }\n",
        11,
        "socket",
    ),
    ("BASE TWO [[workload]]\nname = \"w\"\nserver = \"s\"\nready = { logg = \"x\" }\n", 11, "logg"),
    ("BASE TWO WORK [[metric]]\nname = \"m\"\nbetter = \"more\"\n", 13, "better"),
    ("BASE TWO WORK [[metric]]\nunit = \"m\"\n", 11, "name"),
];

#[test]
fn wrong_plans_are_refused_with_the_line() {
    let base = "sediment-eval = 1\n";
    let two = "[[variant]]\nname = \"a\"\nprogram = \"a\"\n[[variant]]\nname = \"b\"\nprogram = \"b\"\n";
    let work = "[[workload]]\nname = \"w\"\ncommand = \"x\"\n";
    for (text, line, named) in WRONG {
        let text = text.replace("BASE ", base).replace("TWO ", two).replace("WORK ", work);
        let error = plan::read(&text).unwrap_err();
        assert_eq!(error.location(), Some(ErrorLocation::Line(*line)), "{text}: {error}");
        assert!(error.to_string().contains(named), "{text}: {error}");
    }
}

#[test]
fn factors_make_all_combinations_and_the_first_is_the_baseline() {
    let text = "sediment-eval = 1\n[build]\ncommand = \"make {flags}\"\nflags = \"-g\"\n\
        [[factor]]\nname = \"lto\"\nlevels = [\"off\", \"on\"]\nflags = [\"\", \"-flto\"]\n\
        [[factor]]\nname = \"inline\"\nlevels = [\"off\", \"on\"]\nflags = [\"\", \"-DINLINE\"]\n\
        [[workload]]\nname = \"w\"\ncommand = [\"{program}\"]\n";
    let plan = plan::read(text).unwrap();
    let named: Vec<(&str, &str)> =
        plan.variants.iter().map(|variant| (variant.name.as_str(), variant.flags.as_str())).collect();
    assert_eq!(
        named,
        [
            ("lto=off inline=off", "-g"),
            ("lto=off inline=on", "-g -DINLINE"),
            ("lto=on inline=off", "-g -flto"),
            ("lto=on inline=on", "-g -flto -DINLINE"),
            ("A/A", "-g"),
        ]
    );
    assert_eq!(plan.baseline, 0);
    let levels: Vec<&str> = plan.variants[1].factors.iter().map(|factor| factor.level.as_str()).collect();
    assert_eq!(levels, ["on", "off"], "sorted by factor: inline, lto");
    assert_ne!(plan.hash(), plan::read(&format!("{text}\n")).unwrap().hash());
}

#[test]
fn files_that_are_none_are_refused() {
    let lines = journal::header(&plan(), "/", 1) + "\n";
    for (text, code, line) in [
        ("", ErrorCode::UnknownFormat, None),
        ("{}\n", ErrorCode::UnknownFormat, None),
        (&lines.replace("blocks = 4", "blocks = 5"), ErrorCode::Damaged, Some(1)),
        (&format!("{lines}{{\"run\":{{}}}}\n"), ErrorCode::Damaged, Some(2)),
        (&format!("{lines}{{\"run\":\n{{\"note\":\"x\"}}\n"), ErrorCode::Damaged, Some(2)),
    ] {
        let error = journal::read(text.as_bytes()).unwrap_err();
        assert_eq!((error.code(), error.location()), (code, line.map(ErrorLocation::Line)), "{error}");
    }
    let newer = journal::read(lines.replace("\"version\":1", "\"version\":2").as_bytes()).unwrap_err();
    assert!(newer.to_string().contains("version 2"), "{newer}");
    let later = journal::read(format!("{lines}{{\"of-a-later-program\":1}}\n").as_bytes());
    assert!(later.is_ok());
}

#[test]
fn the_example_is_a_plan() {
    let text = std::fs::read_to_string(root().join("examples/evaluation/plan.toml")).unwrap();
    let plan = plan::read(&text).unwrap();
    assert_eq!(plan.variants.iter().filter(|variant| variant.probe.is_none()).count(), 8);
}

/// Makes a plan with all tables, and one more line in one of them.
fn plan_with(place: &str, line: &str) -> String {
    let tables = [
        ("top", "sediment-eval = 1"),
        ("[run]", "[run]"),
        ("[build]", "[build]\nlink = \"cc\""),
        ("[[factor]]", "[[factor]]\nname = \"f\"\nlevels = [\"x\", \"y\"]"),
        ("[[variant]]", "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\""),
        ("[[workload]]", "[[workload]]\nname = \"w\"\nserver = \"s\"\ndrive = \"d\""),
        ("workload.ready", "[workload.ready]\nport = \"host:1\""),
        ("workload.work", "[workload.work]\nregex = \"([0-9])\""),
        ("[[metric]]", "[[metric]]\nname = \"m\""),
    ];
    assert!(tables.iter().any(|(name, _)| *name == place), "{place}");
    tables.map(|(name, text)| format!("{text}\n{}\n", if name == place { line } else { "" })).concat()
}

/// The plan in docs/background/plan-keys.md lists exactly the keys that the reader knows, with their defaults.
#[test]
fn the_document_lists_every_key_and_its_default() {
    let settled = |text: &str| Plan { text: String::new(), ..plan::read(text).unwrap() };
    let page = std::fs::read_to_string(root().join("docs/background/plan-keys.md")).unwrap();
    let lines =
        page.lines().skip_while(|line| *line != "## Plan keys").filter_map(|line| line.strip_prefix("    "));
    // The keys of each table, and the number of defaults.
    let mut tables: Vec<(&str, BTreeSet<String>)> = vec![("top", BTreeSet::new())];
    let mut defaults = 0;
    for line in lines {
        let (text, meaning) = line.split_once("  #").unwrap_or((line, ""));
        if let Some((key, _)) = text.strip_prefix("# ").unwrap_or(text).split_once(" = ") {
            let (place, keys) = tables.last_mut().unwrap();
            keys.insert(key.to_owned());
            if !text.starts_with('#') && !meaning.starts_with(" required") {
                let said = plan_with(place, text.trim());
                assert_eq!(
                    format!("{:?}", settled(&said)),
                    format!("{:?}", settled(&plan_with(place, ""))),
                    "{said}"
                );
                defaults += 1;
            }
        } else {
            let name = text.trim();
            let name = if name.starts_with("[workload.") { name.trim_matches(['[', ']']) } else { name };
            tables.push((name, BTreeSet::new()));
        }
    }
    for (place, listed) in tables {
        let asked = plan_with(place, "no-such-key = 1")
            .replace("[workload.ready]\nport = \"host:1\"\nno", "[workload.ready]\nno");
        let refused = plan::read(&asked).unwrap_err();
        let known = refused.hint().unwrap().strip_prefix("known keys: ").unwrap();
        let tables = ["run", "build", "variant", "factor", "workload", "metric", "ready", "work"];
        let known = known.split(", ").filter(|key| !tables.contains(key));
        assert_eq!(known.map(str::to_owned).collect::<BTreeSet<_>>(), listed, "{place}");
    }
    assert!(defaults > 15, "{defaults}");
}

/// The pages list exactly the importers and the meanings of events that the code has; `SEDIMENT_BLESS=1` rewrites them.
#[test]
fn the_documents_list_every_importer_and_event() {
    let mut rows = String::from("| format | written by |\n|---|---|\n");
    for importer in IMPORTERS {
        rows += &format!("| {} | {} |\n", importer.name, importer.summary);
    }
    hold("docs/measuring.md", "imports", &rows);
    let processors = [Processor::Amd, Processor::Intel, Processor::Neoverse];
    let mut rows =
        format!("| event | {} |\n|---|---|---|---|\n", processors.map(Processor::name).join(" | "));
    for event in EVENTS.iter().filter(|event| event.hardware) {
        let meaning =
            |processor: Processor| processor.counts(event.event).unwrap().unwrap_or("no such event");
        rows += &format!("| `{}` | {} |\n", event.event, processors.map(meaning).join(" | "));
    }
    hold("docs/background/statistics.md", "events", &rows);
}

/// Compares the rows between the marks of a page's table; `SEDIMENT_BLESS=1` writes them.
fn hold(page: &str, title: &str, rows: &str) {
    let path = root().join(page);
    let written = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- table {title} -->\n"), "<!-- end -->");
    let from = written.find(&begin).unwrap_or_else(|| panic!("{page} lacks {begin}")) + begin.len();
    let to = from + written[from..].find(end).unwrap();
    if std::env::var_os("SEDIMENT_BLESS").is_some() {
        std::fs::write(&path, format!("{}{rows}{}", &written[..from], &written[to..])).unwrap();
    }
    assert!(
        &written[from..to] == rows,
        "{page} differs from the code (SEDIMENT_BLESS=1 rewrites its table of {title})"
    );
}

/// Tests builds that are faster, slower, equal, and too noisy.
#[test]
fn recommendations_on_processor_time_have_the_sentences_of_the_judge() {
    struct Four(Pretend);
    impl Runner for Four {
        fn seconds(&self) -> f64 {
            self.0.seconds()
        }
        fn wall_jump(&mut self) -> f64 {
            0.0
        }
        fn perform(&mut self, planned: &PlannedRun) -> Result<Measurement> {
            let made = self.0.perform(planned)?;
            // Multiples of the golden ratio's fractional part vary without a pattern.
            let luck = (self.0.made.len() as f64 * 0.618_034).fract() - 0.5;
            let (mean, spread) =
                [(1.0, 0.002), (0.9, 0.002), (1.1, 0.002), (1.0, 0.002), (1.0, 0.2)][planned.variant];
            let values = BTreeMap::from([
                ("user".to_owned(), mean + spread * luck),
                ("cpu-time".to_owned(), mean + spread * luck),
            ]);
            Ok(Measurement { values, ..made })
        }
    }
    let variants: String = ["c", "d", "e"].map(|name| format!("[[variant]]\nname = \"{name}\"\n")).concat();
    let text = PLAN
        .replace("replicas = 2", "replicas = 1")
        .replace("blocks = 4\npilot = 4", "blocks = 20\npilot = 20");
    let text = text.replace("[[workload]]\nname = \"w\"", &(variants + "[[workload]]\nname = \"w\""));
    let plan = plan::read(&("noise-floor = false\nprimary = \"cpu-time\"\n".to_owned() + &text)).unwrap();
    let mut experiment = run::begin(&plan, 5);
    let (mut runner, mut told) = (Four(Pretend::new()), ShownProgress::default());
    run::run(&plan, &mut experiment, &mut runner, &mut MemoryLines::default(), &mut told, &Stop::new())
        .unwrap();
    let said = &sediment_eval::analyse(&experiment).unwrap().workloads[0].recommendation;
    for sentence in [
        "Keep b: it saves 10.0 % of CPU time (95 %: ",
        "c costs 10.0 % more CPU time (95 %: ",
        "d: nothing to gain: at most 0.",
        "e: cannot detect a change below 4.9 % in 3m; about 362 blocks would give an interval of ±0.5 %",
    ] {
        assert!(said.contains(sentence), "no {sentence:?} in {said}");
    }
}
