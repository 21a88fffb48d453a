// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment demo`: the whole line on a generated program, before and after measured.

use crate::demo::program::{self, SourceFile};
use crate::demo::report::{self, Comparison, Findings};
use crate::demo::toolchain::Toolchain;
use crate::files;
use crate::inputs::{read_binary, read_profile};
use crate::start;
use crate::ui::Ui;
use clap::Args;
use indicatif::ProgressBar;
use sediment_core::binary::objects::Objects;
use sediment_core::callgraph::GroupKind;
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_measure::pairs;
use sediment_measure::{METERS, Meter, Reading, Unit};
use sediment_order::link;
use sediment_order::order::{self, Ordering, Request, Selection};
use sediment_order::verify::{self, Report};
use sediment_process::command::run as run_program;
use sediment_process::{Command, Stop};
use sediment_record::{breakpoints, valgrind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another seed makes another program; this one is as good as any.
const PROGRAM_SEED: u64 = 1;
/// Requests are recorded from one stream and measured on another: an order must serve more than what it was made of.
const RECORDED_STREAM: u32 = 1;
const MEASURED_STREAM: u32 = 2;
/// About 30 million instructions: seconds under valgrind.
const REQUESTS: u32 = 3_000;
/// Tenths of a second without valgrind.
const TIMED_REQUESTS: u32 = 30_000;
const PAIRS: u32 = 9;
const TIME_LIMIT: Duration = Duration::from_secs(300);

const PROGRAM: &str = "program";
const PROFILE: &str = "program.gv";
const ORDER_FILE: &str = "program.order";
/// Of the program in input order and in the new one: names of one length, as the dynamic linker takes instructions over each
/// byte of a path.
const FOLDERS: [&str; 2] = ["input", "order"];

/// Show every step on a generated program: record, order, link, verify, measure
#[derive(Debug, Args)]
#[command(
    long_about = "Show every step on a generated program: record, order, link, verify, measure.\n\nGenerates a C program with thousands of functions whose hot path is spread over all files. Compiles and links it, records it by breakpoints (without the right to trace: under valgrind), and relinks it in the default order. Verifies and measures both programs. Takes about a minute on two processors. Needs a C compiler, its linker and valgrind."
)]
pub(crate) struct Arguments {
    /// Keep all files in this new folder [default: remove them]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// C compiler [default: the first of cc, gcc and clang]
    #[arg(long, value_name = "COMMAND")]
    cc: Option<OsString>,
    /// Linker argument for the compiler, for example -fuse-ld=lld; repeatable [default: none]
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    link_argument: Vec<OsString>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let stop = start::stop_on_signals()?;
    let done = play(arguments, &stop, ui);
    if stop.asked() {
        let kept = arguments.keep.as_deref().map(files::display);
        let kept =
            kept.map_or_else(|| "nothing is kept".to_owned(), |folder| format!("its files are in {folder}"));
        return Err(Error::new(ErrorCode::Interrupted, format!("interrupted; {kept}")));
    }
    done
}

/// The whole demo. Its files go with its end, however it ends, unless they are to be kept.
fn play(arguments: &Arguments, stop: &Stop, ui: &Ui) -> Result<()> {
    let toolchain = Toolchain::find(arguments.cc.as_deref(), &arguments.link_argument, stop)?;
    // Simulated figures are what the demo is about.
    (valgrind::RECORDER.available)()?;
    let own = &breakpoints::RECORDER;
    let recorder = if (own.available)().is_ok() { own } else { &valgrind::RECORDER };
    let workshop = files::Workshop::new(arguments.keep.as_deref())?;
    let stage = Stage { folder: workshop.path(), toolchain: &toolchain, stop, ui };

    let sources = program::program(PROGRAM_SEED);
    let units: Vec<String> =
        sources.iter().map(|file| file.name.clone()).filter(|name| name.ends_with(".c")).collect();
    let progress = Progress::new(ui, units.len());
    progress.begin(&format!("compiling {} files", units.len()));
    let objects = stage.compile(&sources, &units, &progress)?;
    progress.begin("linking in input order");
    let before = stage.link(FOLDERS[0], &objects, None)?;
    progress.begin(&format!("recording by {}", recorder.name));
    let profile = stage.record(recorder.name, &before)?;
    progress.begin("ordering the functions");
    let ordered_functions = stage.order(&profile, &before)?;
    progress.begin("linking in the new order");
    let after = stage.link(FOLDERS[1], &objects, Some(ORDER_FILE))?;
    progress.begin("verifying the linked program");
    let verified = stage.verify([&before, &after], &profile)?;
    stage.same_results(&before, &after)?;
    let (comparisons, missing_meters) = stage.measure(&before, &after, &progress)?;
    progress.begin("timing both programs in turn");
    let time_ratios = stage.time(&before, &after, &progress)?;
    progress.end();

    let findings = Findings {
        recorded_requests: REQUESTS,
        profiled_functions: profile
            .functions()
            .iter()
            .filter(|function| profile.key(**function).dso.as_deref() == Some(PROGRAM))
            .count(),
        recorder: recorder.name,
        ordered_functions,
        verified,
        comparisons,
        measured_requests: REQUESTS,
        missing_meters,
        time_ratios,
        timed_requests: TIMED_REQUESTS,
        kept_in: arguments.keep.as_deref().map(files::display),
    };
    match arguments.json {
        true => ui.json(&report::output(&findings, &toolchain)),
        false => ui.result(&report::text(&findings, &toolchain)),
    }
}

/// Where the demo plays: each of its steps takes and leaves files in one folder.
struct Stage<'a> {
    folder: &'a Path,
    toolchain: &'a Toolchain,
    stop: &'a Stop,
    ui: &'a Ui,
}

impl Stage<'_> {
    /// Writes the sources and compiles the units among them; the objects' names.
    fn compile(&self, sources: &[SourceFile], units: &[String], progress: &Progress) -> Result<Vec<String>> {
        for file in sources {
            files::write(&self.folder.join(&file.name), file.text.as_bytes(), self.ui)?;
        }
        self.toolchain.compile(units, self.folder, || progress.step())?;
        Ok(units.iter().map(|unit| unit.replace(".c", ".o")).collect())
    }

    /// Links the program into a folder of its own: it keeps its name, by which its profile knows it.
    fn link(&self, folder: &str, objects: &[String], order: Option<&str>) -> Result<PathBuf> {
        files::new_folder(&self.folder.join(folder))?;
        let program = Path::new(folder).join(PROGRAM);
        self.toolchain.link(objects, order, &program.to_string_lossy(), self.folder)?;
        Ok(self.folder.join(program))
    }

    /// A command that is stopped with the demo, and leaves files in its folder alone.
    fn here(&self, mut command: Command) -> Command {
        command.environment.push(("TMPDIR".into(), self.folder.into()));
        command.stopped_by(self.stop)
    }

    /// The program serving requests of a stream.
    fn serve(&self, program: &Path, requests: u32, stream: u32) -> Command {
        self.here(
            Command::new(program, self.folder, TIME_LIMIT)
                .with_arguments([requests.to_string(), stream.to_string()]),
        )
    }

    /// Records the program as a user does, by `sediment record`.
    fn record(&self, method: &str, program: &Path) -> Result<Profile> {
        let sediment = files::own_program()?;
        let served = self.serve(program, REQUESTS, RECORDED_STREAM);
        let options = ["record", "--quiet", "--method", method, "-o", PROFILE, "--"].map(OsString::from);
        let words = options.into_iter().chain([served.program]).chain(served.arguments);
        let record = self.here(Command::new(sediment, self.folder, TIME_LIMIT).with_arguments(words));
        run_program(&record, 1024)?.successful(&record)?;
        read_profile(&self.folder.join(PROFILE), self.ui)
    }

    /// Writes the ordering file; returns the number of profiled functions in it.
    fn order(&self, profile: &Profile, program: &Path) -> Result<usize> {
        let binary = read_binary(program)?;
        let selection = Selection::Binary { binary: &binary, file_name: PROGRAM };
        let Ordering { order, built, .. } = order::compute(profile, &selection, &Request::default())?;
        let (placements, _) = link::placements(&order, &built, Some(&binary), false);
        let (text, _) = (self.toolchain.linker.write)(&placements);
        files::write(&self.folder.join(ORDER_FILE), text.as_bytes(), self.ui)?;
        Ok(order
            .groups
            .iter()
            .filter(|group| group.kind != GroupKind::Unprofiled)
            .map(|group| group.functions.len())
            .sum())
    }

    /// Verifies both programs, the one linked without the order first.
    fn verify(&self, programs: [&Path; 2], profile: &Profile) -> Result<[Report; 2]> {
        let text = files::read(&self.folder.join(ORDER_FILE))?;
        let (_, asked) = link::read(&String::from_utf8_lossy(&text))?;
        let report = |program| {
            verify::verify(&read_binary(program)?, &asked, Some(profile), PROGRAM, &Objects::default())
        };
        let reports = [report(programs[0])?, report(programs[1])?];
        if !reports[1].in_force {
            return Err(Error::new(
                ErrorCode::NotOrdered,
                format!("the linker did not apply the order in {}", self.toolchain.linker_version),
            )
            .with_hint("choose another linker, such as --link-argument=-fuse-ld=bfd"));
        }
        Ok(reports)
    }

    /// Checks that both programs still do the same.
    fn same_results(&self, before: &Path, after: &Path) -> Result<()> {
        for stream in [RECORDED_STREAM, MEASURED_STREAM] {
            let output = |program: &Path| {
                let command = self.serve(program, REQUESTS, stream);
                run_program(&command, 1024)?.successful(&command).map(|done| done.output)
            };
            if output(before)? != output(after)? {
                return Err(Error::new(
                    ErrorCode::Internal,
                    "the program prints another result in the new order: this is a bug of the linker or of sediment",
                ));
            }
        }
        Ok(())
    }

    /// Reads all meters that work here on both programs; and which do not work, and why.
    fn measure(
        &self,
        before: &Path,
        after: &Path,
        progress: &Progress,
    ) -> Result<(Vec<Comparison>, Vec<String>)> {
        let (mut comparisons, mut missing): (Vec<Comparison>, _) = (Vec::new(), Vec::new());
        for meter in METERS {
            progress.begin(&format!("measuring {}", meter.name));
            if let Err(error) = (meter.available)() {
                missing.push(format!("{}: {error}", meter.summary));
                continue;
            }
            let [before, after] = self.read_both(meter, [before, after])?;
            for (before, after) in before.into_iter().zip(after) {
                let known = comparisons.iter().any(|row| row.before.quantity.name == before.quantity.name);
                // Time is worth nothing in one run; the pairs tell it.
                let seen = before.value > 0 || after.value > 0;
                if !known && seen && before.quantity.unit != Unit::Microseconds {
                    comparisons.push(Comparison { before, after });
                }
            }
        }
        Ok((comparisons, missing))
    }

    /// Figures that nothing else on the machine can change are read of both programs at once.
    fn read_both(&self, meter: &Meter, programs: [&Path; 2]) -> Result<[Vec<Reading>; 2]> {
        let commands = programs.map(|program| self.serve(program, REQUESTS, MEASURED_STREAM));
        let read = |command: &Command| (meter.run)(command, self.folder);
        if !meter.quantities.iter().all(|quantity| quantity.repeatable) {
            return Ok([read(&commands[0])?, read(&commands[1])?]);
        }
        std::thread::scope(|scope| {
            let after = scope.spawn(|| read(&commands[1]));
            let before = read(&commands[0]);
            let after = after
                .join()
                .unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, "a measuring thread panicked")));
            Ok([before?, after?])
        })
    }

    fn time(&self, before: &Path, after: &Path, progress: &Progress) -> Result<Vec<f64>> {
        let serve = |program| self.serve(program, TIMED_REQUESTS, MEASURED_STREAM);
        let pairs = pairs::run(&serve(before), &serve(after), PAIRS, |_| progress.step())?;
        Ok(pairs::ratios(&pairs, |usage| usage.user))
    }
}

/// Progress of the demo: a step per compiled file, meter, pair and other task.
struct Progress(ProgressBar);

impl Progress {
    fn new(ui: &Ui, units: usize) -> Self {
        const OTHER_STEPS: usize = 7;
        Self(ui.progress((units + OTHER_STEPS + METERS.len()) as u64 + u64::from(PAIRS)))
    }

    fn begin(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.inc(1);
    }

    fn step(&self) {
        self.0.inc(1);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
