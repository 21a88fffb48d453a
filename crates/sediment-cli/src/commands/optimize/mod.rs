// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment optimize` makes an ordered, verified and measured program from a source tree, in one command.
//!
//! The tree is copied, built through the linker's wrapper, and recorded under the training commands. Programs and
//! libraries with a profile are linked again in order, verified, and compared with the first build. The working folder
//! lists the finished steps.

mod cargo;
mod entries;
mod layouts;
mod levels;
mod links;
mod measure;
mod progress;
mod project_file;
mod recipe;
mod recordings;
mod result;
mod runs;
mod ship;
mod sources;
mod stand_ins;
mod state;
mod summary;
pub(super) mod toolbox;
mod tree;
mod undo;
mod verdict;

use super::doctor;
use super::order::gain;
use crate::exit::{self, ExitCode};
use crate::files;
use crate::inputs;
use crate::start;
use crate::ui::Ui;
use crate::values;
pub(super) use cargo::{as_cargo_command, with_help_for_cargo};
use clap::Args;
use links::LinkedOutput;
use progress::{RunCosts, RunProgress, RunStep};
use runs::{RunPlace, UNLIMITED};
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, ErrorKind, Result};
use sediment_measure::{judge, pace};
use sediment_process::Stop;
use serde_json::{Value, json};
use ship::{LevelName, TriedLevel};
use state::WorkFolder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolbox::CompilerWords;

/// Build a program of your own, record it, link it in order, verify and measure it
#[derive(Debug, Clone, Args)]
#[command(
    long_about = "Build a program of your own, record it, link it in order, verify and measure it.\n\nCopies the source tree to .sediment/tree and runs the build command there, whatever the build system. Records the training commands, links again in order, verifies, and measures before and after. Then tries the levels that the compiler supports (blocks, counters, both), as long as there may be something to gain. Puts the files of the level that saves time into .sediment/result, and prints what to add to the build. An interrupted run continues when started again. The tree itself stays unchanged, unless the build writes there by absolute paths.\n\nOptions that are not given are taken from sediment.toml, if it exists.",
    after_help = "Example: sediment optimize --train './prog input' -- make -j4"
)]
pub(crate) struct Arguments {
    /// Shell command with typical work to record, run in the built tree; repeatable (required without
    /// --startup)
    #[arg(long, value_name = "COMMAND")]
    train: Vec<String>,
    /// Shell command whose start-up time matters; repeatable [default: none]
    #[arg(long, value_name = "COMMAND")]
    startup: Vec<String>,
    /// Shell command to measure, before and after; repeatable [default: the training commands]
    #[arg(long, value_name = "COMMAND")]
    measure: Vec<String>,
    /// Build command; a single argument with blanks runs in a shell
    #[arg(last = true, value_name = "COMMAND")]
    build: Vec<OsString>,
    /// Working folder: state, logs, the copy of the tree, results
    #[arg(long, value_name = "DIR", default_value = ".sediment")]
    work: PathBuf,
    /// Time limit of each training command, above 0; accepts 90, 90s and 2m
    #[arg(long, value_name = "SECONDS", default_value = "10m", value_parser = values::duration)]
    timeout: Duration,
    /// Total time to measure all commands, above 0; accepts 90, 90s and 10m
    #[arg(long, value_name = "SECONDS", default_value = "2m", value_parser = values::duration)]
    measure_for: Duration,
    /// Also write the profile of the shipped level to this file [default: none]
    #[arg(long, value_name = "FILE")]
    keep_profile: Option<PathBuf>,
    /// Levels to try, separated by commas; all of these are tried [default: cheapest first, as long as there is
    /// something to gain]
    #[arg(long, value_name = "LEVEL", value_delimiter = ',', conflicts_with = "pgo")]
    level: Vec<LevelName>,
    /// Level to ship, whatever the measurement shows [default: the simplest that saves time]
    #[arg(long, value_name = "LEVEL")]
    ship: Option<LevelName>,
    /// Build in the tree itself, without a copy
    #[arg(long)]
    in_place: bool,
    /// Try every level: the same as --level order,blocks,counters,both
    #[arg(long, conflicts_with = "in_place")]
    pgo: bool,
    /// sediment's plugin for GCC, for blocks and counters [default: the installed one]
    #[arg(long, value_name = "FILE")]
    gcc_plugin: Option<PathBuf>,
    /// Write the given options to sediment.toml, the project file, and exit
    #[arg(long, conflicts_with = "undo")]
    init: bool,
    /// Restore the files that --in-place rewrote, and remove the working folder
    #[arg(long, conflicts_with_all = ["train", "startup", "measure", "build", "in_place", "keep_profile", "level", "ship", "pgo"])]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<ExitCode> {
    let tree = std::env::current_dir()
        .and_then(|here| here.canonicalize())
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot find the current folder: {error}")))?;
    // It is compared with other paths, even before it exists.
    let work = tree.join(&arguments.work);
    let work = work.canonicalize().ok().or_else(|| links::resolved(&work)).unwrap_or(work);
    if arguments.undo {
        return undo::run(&tree, &work, ui).map(|()| ExitCode::SUCCESS);
    }
    if arguments.init {
        return project_file::write(arguments, &tree, ui).map(|()| ExitCode::SUCCESS);
    }
    let arguments = &project_file::complete(arguments, &tree)?;
    arguments.check()?;
    doctor::must_suit_optimize(!arguments.startup.is_empty(), ui)?;
    let stop = start::stop_on_signals()?;
    sediment_process::left_behind::adopt_orphans();
    let words = levels::first_words(arguments);
    let mut job = OptimizeJob::begin(arguments, tree, &work, words, &stop, ui)?;
    if let Some(load) = pace::overload_now() {
        ui.note(&format!("{load}: if it stays so, the verdict will be unknown"));
    }
    match job.run() {
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            ui.note("interrupted; the same command continues after the last step that was done");
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

impl Arguments {
    fn check(&self) -> Result<()> {
        let usage = |message: &str, hint: &str| Err(Error::new(ErrorCode::Usage, message).with_hint(hint));
        let example = "for example: sediment optimize --train './prog input' -- make; or write them to sediment.toml: --init";
        if self.build.is_empty() {
            return usage("no build command", example);
        }
        if self.train.is_empty() && self.startup.is_empty() {
            return usage("no training command: give --train or --startup", example);
        }
        let further = |level: &&LevelName| **level != LevelName::Order;
        if let Some(level) = self.level.iter().chain(&self.ship).find(further).filter(|_| self.in_place) {
            return usage(
                &format!("--in-place cannot build the level {}", level.text()),
                "this level is built in a copy: remove --in-place",
            );
        }
        if self.gcc_plugin.is_some() {
            levels::plugin(self.gcc_plugin.as_deref())?;
        }
        self.keep_profile.as_deref().map_or(Ok(()), files::expect_to_write)
    }

    /// True if the user named the levels, which are all tried then.
    fn are_fixed(&self) -> bool {
        self.pgo || self.ship.is_some() || !self.level.is_empty()
    }

    /// True if a level is to be tried when there is something to gain.
    fn wants(&self, level: LevelName) -> bool {
        let is_named = self.level.contains(&level) || self.ship == Some(level);
        is_named || self.pgo || !self.are_fixed()
    }

    /// Arguments of a build for a level.
    fn of_level(&self) -> Self {
        let json = false;
        Self {
            pgo: false,
            json,
            measure: Vec::new(),
            level: vec![LevelName::Order],
            ship: None,
            ..self.clone()
        }
    }

    /// All training commands, each with its kind.
    fn trainings(&self) -> impl Iterator<Item = (&str, bool)> {
        let starts = self.startup.iter().map(|line| (line.as_str(), true));
        self.train.iter().map(|line| (line.as_str(), false)).chain(starts)
    }

    /// Commands to measure.
    fn measured(&self) -> Vec<&str> {
        if self.measure.is_empty() {
            return self.trainings().map(|(line, _)| line).collect();
        }
        self.measure.iter().map(String::as_str).collect()
    }
}

/// Refuses a tree whose copy cannot be built, and a working folder that contains the tree.
fn check_folders(arguments: &Arguments, tree: &Path, work: &Path) -> Result<()> {
    let refused = |message: String, hint: &str| Err(Error::new(ErrorCode::Usage, message).with_hint(hint));
    if work.canonicalize().is_ok_and(|work| tree.starts_with(work)) {
        return refused(
            "the working folder contains the tree".to_owned(),
            "name a new or empty folder: --work DIR",
        );
    }
    if work.to_str().is_none_or(|path| path.contains([':', '\n'])) {
        return refused(
            format!("PATH cannot hold the path of the working folder, {}", files::display(work)),
            "name a folder without colons and line breaks: --work DIR",
        );
    }
    match tree::mark_of_own_path(tree).filter(|_| !arguments.in_place) {
        Some(mark) => refused(
            format!("this folder has {mark}, which contains its path: a build in a copy would write here"),
            "build in the folder itself: --in-place; or from clean sources: -- sh -c 'cmake -B build && cmake --build build'",
        ),
        None => Ok(()),
    }
}

/// A run of the command.
struct OptimizeJob<'a> {
    arguments: &'a Arguments,
    /// The tree that is built: the copy, or with --in-place the tree itself.
    tree: PathBuf,
    /// The tree in which the command was started.
    original: PathBuf,
    /// Further options of a level, for a compiler.
    words: CompilerWords,
    state: WorkFolder,
    progress: RunProgress,
    stop: &'a Stop,
    ui: &'a Ui,
}

impl<'a> OptimizeJob<'a> {
    fn begin(
        arguments: &'a Arguments,
        original: PathBuf,
        work: &Path,
        words: CompilerWords,
        stop: &'a Stop,
        ui: &'a Ui,
    ) -> Result<Self> {
        check_folders(arguments, &original, work)?;
        let own = arguments.keep_profile.as_ref().map(|path| original.join(path));
        let files = tree::files(&original, work, own.as_deref());
        // A build in place changes its own tree.
        let stamp = if arguments.in_place { 0 } else { tree::stamp(&files) };
        let build: Vec<_> = arguments.build.iter().map(|word| word.to_string_lossy()).collect();
        let mut request = json!({
            "build": build, "train": arguments.train, "startup": arguments.startup,
            "measure": arguments.measure, "measure_for": arguments.measure_for.as_secs_f64(), "in_place": arguments.in_place, "stamp": stamp.to_string(),
            "environment": toolbox::settings(),
        });
        let levels = LevelName::ALL.into_iter().filter(|level| arguments.wants(*level)).map(LevelName::text);
        request["levels"] =
            json!([arguments.are_fixed(), levels.collect::<Vec<_>>(), arguments.ship.map(LevelName::text)]);
        if !words.is_empty() {
            request["words"] = words.json();
        }
        let state = WorkFolder::open(work, &original, &files, request, ui)?;
        let tree = if arguments.in_place { original.clone() } else { state.path(entries::TREE) };
        let is_further = |level: &LevelName| *level != LevelName::Order && !arguments.in_place;
        let further = LevelName::ALL.into_iter().filter(|level| is_further(level) && arguments.wants(*level));
        let progress = RunProgress::of(arguments, further.map(LevelName::text).collect());
        Ok(Self { arguments, tree, original, words, state, progress, stop, ui })
    }

    fn run(&mut self) -> Result<()> {
        self.prepare()?;
        self.build()?;
        let mut outputs = self.outputs()?;
        self.record(&outputs)?;
        let profile = self.profile(&mut outputs)?;
        let training =
            (0..self.arguments.trainings().count()).filter_map(|index| self.seconds_of(index)).sum();
        self.progress.know(RunCosts {
            build: self.state.fact("build").as_f64().unwrap_or(0.0),
            training,
            simulation: measure::longest_simulation(training),
            counting: measure::longest_count(training),
        });
        outputs.retain(|output| output.label.is_some());
        self.tell_of_little_worth(&outputs, &profile);
        self.link_in_order(&outputs)?;
        let levels = self.try_levels(&outputs)?;
        self.summarize(&outputs, &profile, &levels)
    }

    fn work(&self) -> PathBuf {
        self.state.folder().to_path_buf()
    }

    fn place(&self, environment: Vec<(OsString, OsString)>) -> RunPlace<'_> {
        RunPlace {
            folder: &self.tree,
            is_copy: !self.arguments.in_place,
            environment,
            stop: self.stop,
            ui: self.ui,
        }
    }

    /// Copies the tree, or saves the files that a build in place rewrites; makes the compilers' scripts.
    fn prepare(&mut self) -> Result<()> {
        if self.state.has_done("prepare") {
            return Ok(());
        }
        let work = self.work();
        if self.arguments.in_place {
            let saved = undo::save(&self.original, &work)?;
            self.ui.note(&format!(
                "building in {}: rewrites its objects, programs and libraries; {saved} saved for sediment optimize --undo",
                files::display(&self.original)
            ));
        } else {
            let _ = std::fs::remove_dir_all(&self.tree);
            let bar = self.progress.begin(RunStep::Copy, "copying the tree", self.ui);
            let left_out = tree::copy(&self.original, &work, &self.tree, self.stop)?;
            bar.finish_and_clear();
            for folder in &left_out.folders {
                self.ui.note(&format!("not copied: the build folder {}", files::display(folder)));
            }
            if left_out.objects > 0 {
                let objects = counted(left_out.objects, "object");
                self.ui.note(&format!("not copied: {objects} of an earlier build"));
            }
        }
        toolbox::make(&work, &self.words)?;
        self.state.done("prepare", Value::Null)
    }

    /// Builds without profiles.
    fn build(&mut self) -> Result<()> {
        if self.state.has_done("build") {
            return Ok(());
        }
        let (profiles, log) =
            (files::folder(&self.state.path(entries::NO_PROFILES))?, self.state.path(entries::LINKS_BEFORE));
        let before = self.files();
        let took = self.run_build(RunStep::Build, entries::BUILDING, &profiles, &log)?;
        let outside = self.must_stay_in_copy(&log);
        if outside.is_err() {
            self.state.give_up()?;
        }
        outside?;
        self.tell_of_changed_original();
        let after = self.files();
        self.tell_of_missed(&log, &before, &after);
        if self.arguments.in_place {
            sources::save(&sources::after_build(&before, &after), &self.state.path(entries::SOURCES))?;
        }
        // An interrupted second build may have removed some of them.
        let outputs = links::outputs(&log, &self.tree, &self.work());
        if self.arguments.in_place {
            undo::remember(&outputs, &self.tree, &self.work())?;
        }
        self.remember_build_ids(&outputs)?;
        let outputs: Vec<Value> = outputs.iter().map(LinkedOutput::to_json).collect();
        self.state.done("outputs", json!(outputs))?;
        self.state.done("build", json!(took))
    }

    /// Lists the files of the built tree.
    fn files(&self) -> tree::FileStamps {
        self.files_of(&self.tree)
    }

    fn files_of(&self, tree: &Path) -> tree::FileStamps {
        let own = self.arguments.keep_profile.as_ref().map(|path| self.original.join(path));
        tree::files(tree, &self.work(), own.as_deref())
    }

    /// Fails if the build of the copy wrote to the original tree, or to the working folder around the copy.
    fn must_stay_in_copy(&self, log: &Path) -> Result<()> {
        if self.arguments.in_place {
            return Ok(());
        }
        let links = links::read(log);
        let linked: Vec<PathBuf> = links.keys().filter_map(|path| links::resolved(Path::new(path))).collect();
        let work = self.state.folder();
        let is_above = |path: &&PathBuf| path.starts_with(work) && !path.starts_with(&self.tree);
        let above = linked.iter().find(is_above).cloned().or_else(|| toolbox::first_stranger(work));
        let is_copied = |path: &Path| path.starts_with(work) || path.starts_with(&self.tree);
        let is_original = |path: &&PathBuf| path.starts_with(&self.original) && !is_copied(path);
        let (path, what, hint) = if let Some(path) = above {
            let what = "the build of the copy wrote outside the copy, into the working folder";
            (
                path,
                what,
                "start in the folder that contains all files of the build, or build in the tree itself: --in-place",
            )
        } else if let Some(path) = linked.into_iter().find(|path| is_original(&path)) {
            let what = "the build in the copy wrote into the tree itself, by its absolute path";
            (path, what, "build by relative paths, or in the tree itself: --in-place")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorCode::ProgramFailed, what).with_input(files::display(&path)).with_hint(hint))
    }

    /// Warns of a file of the original tree that changed while the copy was built.
    fn tell_of_changed_original(&self) {
        if self.arguments.in_place {
            return;
        }
        let list = self.state.path(entries::ORIGINALS);
        let change = sources::change(&list, &self.files_of(&self.original), |_| true);
        if let sources::SourceChange::Files { first, count } = change {
            let changed = sources::SourceChange::in_words(&first, count, &self.original);
            self.ui.warn(&format!(
                "the build of the copy, or somebody else, changed the tree itself meanwhile: {changed}"
            ));
        }
    }

    /// Names the linked files that the build made or changed, but that the wrapper did not see or that are elsewhere.
    fn tell_of_missed(&self, log: &Path, before: &tree::FileStamps, after: &tree::FileStamps) {
        let seen = links::outputs(log, &self.tree, &self.work());
        if seen.is_empty() {
            return;
        }
        let is_seen = |path: &Path| seen.iter().any(|output| output.paths().any(|known| known == path));
        let is_older = |path: &Path| before.get(path).is_some_and(|stamp| after.get(path) == Some(stamp));
        let linked = tree::linked_files(&self.tree, &self.work());
        // These are CMake's own tests of compilers.
        let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "CMakeFiles");
        let missed = linked.iter().filter(|path| !is_seen(path) && !is_older(path) && !is_test(path));
        let missed: Vec<&PathBuf> = missed.collect();
        if let Some(first) = missed.first() {
            let files = counted(missed.len() as u64, "linked file");
            self.ui.warn(&format!(
                "{files} not ordered, because the link did not use the wrapper or the file was changed afterwards: {}",
                files::display(first.strip_prefix(&self.tree).unwrap_or(first))
            ));
        }
        let links = links::read(log);
        let elsewhere = links.keys().filter_map(|path| links::resolved(Path::new(path)));
        let elsewhere: Vec<PathBuf> =
            elsewhere.filter(|path| !path.starts_with(&self.tree) && path.is_file()).collect();
        if let Some(first) = elsewhere.first() {
            let files = counted(elsewhere.len() as u64, "linked file");
            self.ui.warn(&format!(
                "{files} outside the tree, not ordered, and not put back by --undo: {}",
                files::display(first)
            ));
        }
    }

    fn run_build(&self, step: RunStep, said: &str, profiles: &Path, log: &Path) -> Result<f64> {
        let mut environment = toolbox::environment(&self.work(), profiles, log);
        let layouts = self.state.path(layouts::FOLDER);
        if layouts.is_dir() {
            environment.push((crate::wrapper::layouts::LAYOUTS.into(), layouts.into()));
        }
        let place = self.place(environment);
        links::begin(log)?;
        let words = runs::build_words(&self.arguments.build);
        let shown: Vec<_> = self.arguments.build.iter().map(|word| word.to_string_lossy()).collect();
        let doing = if step == RunStep::Link { "linking in order" } else { "building" };
        let bar = self.progress.begin(step, &format!("{doing}: {}", shown.join(" ")), self.ui);
        let usage = place.run("the build", &words, UNLIMITED, &self.state.path(said));
        bar.finish_and_clear();
        usage.map(|usage| usage.wall.as_secs_f64())
    }

    /// Returns the programs and libraries that the first build linked.
    fn outputs(&self) -> Result<Vec<LinkedOutput>> {
        let outputs = self.state.outputs();
        if outputs.is_empty() {
            let linked = tree::linked_files(&self.tree, &self.work());
            let hint = if linked.is_empty() {
                "does this command link programs or shared libraries here?".to_owned()
            } else {
                let example = files::display(linked[0].strip_prefix(&self.tree).unwrap_or(&linked[0]));
                format!(
                    "{example} exists: was it built earlier (clean first: -- sh -c 'make clean && make'), or does the build call the compiler or linker by its path?"
                )
            };
            return Err(Error::new(
                ErrorCode::NotFound,
                "the build linked nothing through the compilers and linkers on PATH",
            )
            .with_hint(hint));
        }
        Ok(outputs)
    }

    /// Prints the outputs whose order can save little time, before the link.
    fn tell_of_little_worth(&self, outputs: &[LinkedOutput], profile: &Profile) {
        for output in outputs.iter().filter(|_| !self.state.has_done("order")) {
            let (Ok(binary), Some(label)) = (inputs::read_binary(&output.path), &output.label) else {
                continue;
            };
            let selection = inputs::selection(Some(&binary), label, None);
            // If no order is possible, the link prints the reason.
            if let Ok(Some(worth)) = gain::little_worth(profile, &selection) {
                let (name, worth) = (output.name(), judge::worth_in_words(worth));
                self.ui.note(&format!("{name}: the iTLB misses that an order can save are {worth}"));
            }
        }
    }

    /// Links the outputs that have a profile again.
    fn link_in_order(&mut self, outputs: &[LinkedOutput]) -> Result<()> {
        if self.state.has_done("order") {
            return Ok(());
        }
        let before = files::folder(&self.state.path(entries::BEFORE))?;
        for (index, output) in outputs.iter().enumerate() {
            let saved = saved(&before, index, output)?;
            if !saved.exists() {
                files::copy(&output.path, &saved)?;
            }
        }
        links::remove(outputs.iter())?;
        layouts::make_objects(&self.state.path(layouts::FOLDER), self.stop, self.ui)?;
        let (profiles, log) = (self.state.path(entries::PROFILES), self.state.path(entries::LINKS_AFTER));
        let took = self.run_build(RunStep::Link, entries::LINKING, &profiles, &log)?;
        if let Some(missing) = outputs.iter().find(|output| !output.path.is_file()) {
            return Err(Error::new(
                ErrorCode::ProgramFailed,
                format!("the second build did not link {} again", missing.name()),
            )
            .with_hint("add the clean step to the build: -- sh -c 'make clean && make'"));
        }
        if let Err(error) = self.must_be_ordered(outputs, &log) {
            self.state.give_up()?;
            return Err(error);
        }
        let after = files::folder(&self.state.path(entries::AFTER))?;
        for (index, output) in outputs.iter().enumerate() {
            files::copy(&output.path, &saved(&after, index, output)?)?;
        }
        let linked: Vec<Option<&LinkedOutput>> = outputs.iter().map(Some).collect();
        layouts::collect(outputs, &linked, &log, "before", &before)?;
        layouts::collect(outputs, &linked, &log, "after", &after)?;
        self.state.done("order", json!(took))
    }

    /// Fails if no output that should be ordered was linked in order, and warns if only few functions could be placed.
    fn must_be_ordered(&self, outputs: &[LinkedOutput], log: &Path) -> Result<()> {
        let log = links::read(log);
        let (mut whys, mut lacks_sections) = (Vec::new(), false);
        for output in outputs {
            let name = files::base_name(output.known_as());
            let link = links::of_output(&log, output);
            lacks_sections |= links::lacks_sections(link);
            match links::why_not_ordered(link).filter(|_| !links::is_best_as_linked(link)) {
                Some(why) => whys.push(format!("{name}: {why}")),
                None => links::tell_of_few_sections(&name, link, self.ui),
            }
        }
        if whys.len() < outputs.len() {
            return Ok(());
        }
        whys.dedup();
        if lacks_sections {
            whys.push(
                "a compiler that the build calls by its path, not by its name, gets no -ffunction-sections"
                    .to_owned(),
            );
        }
        if lacks_sections && self.arguments.in_place {
            whys.push("objects of an earlier build have no function sections; build from clean sources: -- sh -c 'make clean && make'".to_owned());
        }
        Err(Error::new(ErrorCode::NotOrdered, "nothing was linked in order").with_hint(whys.join("\n")))
    }

    /// Puts the shipped files, and those of the other levels, into the folders for users, and prints the summary.
    fn summarize(
        &mut self,
        outputs: &[LinkedOutput],
        profile: &Profile,
        levels: &[TriedLevel],
    ) -> Result<()> {
        let choice = ship::choose(levels, self.arguments.ship);
        let laid_out = result::lay_out(self, outputs, levels, &choice)?;
        let summary = summary::OptimizeSummary::new(self, outputs, profile, levels, &choice, laid_out)?;
        summary.write_readme(self)?;
        if self.arguments.json {
            self.ui.json(&summary.json())?
        } else {
            self.ui.result(&summary.text())?
        }
        self.state.done(state::LAST, Value::Null)
    }
}

/// Path of an output's copy, under its own name.
fn saved(folder: &Path, index: usize, output: &LinkedOutput) -> Result<PathBuf> {
    Ok(files::folder(&folder.join(index.to_string()))?.join(output.name()))
}
