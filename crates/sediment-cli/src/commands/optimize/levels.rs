// SPDX-License-Identifier: MIT OR Apache-2.0
//! The levels above the order: further builds of the tree, each in a copy of its own, with the counts of blocks, with the counters of the
//! compiler's instrumentation, or with both. Each is recorded and linked in the order of the functions that it has: with a profile, the
//! compiler inlines and clones different functions.
//!
//! Levels are tried cheapest first. One that cannot be built, or that has nothing to gain, is passed over with the reason.

use super::links::LinkedOutput;
use super::progress::{RunProgress, RunStep};
use super::recordings::step;
use super::runs::{self, UNLIMITED};
use super::ship::{LevelName, TriedLevel};
use super::stand_ins::{StandIns, under_own_names};
use super::toolbox::LevelCompiler;
use super::verdict::LevelVerdict;
use super::{Arguments, OptimizeJob, entries, layouts, measure, saved};
use crate::compiler;
use crate::files;
use sediment_core::{Error, ErrorCode, ErrorKind, Result, binary, escape};
use sediment_measure::judge;
use sediment_process::VALGRIND_HINT;
use sediment_process::command::{argument, probe};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Place of the plugin in sediment's packages, and its name in GCC's folder of plugins.
const INSTALLED: &str = "/usr/libexec/sediment/sediment.so";
const NAME: &str = "sediment.so";
/// Options for GCC: to count, and to compile with counters.
const COUNTING: &[&str] = &["-fprofile-generate", "-ftest-coverage", "-fprofile-update=prefer-atomic"];
const COUNTED: &[&str] = &[
    "-fprofile-use",
    "-fprofile-partial-training",
    "-fprofile-correction",
    "-Wno-missing-profile",
    "-Wno-coverage-mismatch",
];
/// Options that disable optimisations which `-fprofile-use` enables, and whose code growth costs more than they gain
/// (docs/proofs/pgo.md). The same options are in gcc-plugin/compiler.
const FEWER: &[&str] = &["-fno-unroll-loops", "-fno-peel-loops"];
/// Further such options, for a build whose blocks are also split by counts.
const LEAN: &[&str] = &[
    "-fno-tracer",
    "-fno-split-loops",
    "-fno-unswitch-loops",
    "-fno-ipa-cp-clone",
    "-fvect-cost-model=very-cheap",
];
/// Options for clang: to count, and to compile with counters. Functions are identified by the source's base name,
/// because each level is built in its own folder.
const CLANG_BOTH: &[&str] = &["-mllvm", "-static-func-full-module-prefix=false"];
const CLANG_COUNTED: &[&str] = &["-Wno-profile-instr-out-of-date", "-Wno-profile-instr-unprofiled"];
/// Processor time of a process while callgrind counts blocks, in seconds; what runs later is not counted. And the limit of the whole.
const COUNTED_SECONDS: u64 = 120;
const SLOWDOWN: u32 = 200;
/// Least share of a program in the processor time for which counters are tried.
const LEAST_USER: f64 = 0.1;

/// The plugin that was named, or is installed.
///
/// # Errors
/// If there is no plugin.
pub(super) fn plugin(named: Option<&Path>) -> Result<PathBuf> {
    let of_gcc = compiler::own_folder("plugin").map(|folder| folder.join(NAME));
    let found = match named {
        Some(named) => Some(named.to_path_buf()),
        None => [Some(PathBuf::from(INSTALLED)), of_gcc].into_iter().flatten().find(|path| path.is_file()),
    };
    let missing = |message: &str| {
        Error::new(ErrorCode::NotFound, message).with_hint(
            "install sediment-gcc-plugin, or build it (make -C gcc-plugin) and name it: --gcc-plugin FILE",
        )
    };
    let found = found.ok_or_else(|| missing("blocks and counters of GCC need sediment's plugin"))?;
    found
        .canonicalize()
        .map_err(|_| missing("this file is not a plugin for GCC").with_input(files::display(&found)))
}

/// Input of a level's build.
struct LevelBuild {
    /// Options for the compiler.
    words: Vec<String>,
    /// Profiles that these options refer to.
    profiles: Vec<PathBuf>,
}

/// The compiler of programs and libraries, by what it signed them with.
pub(super) fn compiler_of(outputs: &[LinkedOutput]) -> LevelCompiler {
    let has = |name: &str| {
        let signed = |output: &LinkedOutput| files::read(&output.path).map(|bytes| binary::producers(&bytes));
        outputs.iter().filter_map(|output| signed(output).ok()).flatten().any(|by| by.contains(name))
    };
    match (has("rustc version"), has("clang version")) {
        (true, _) => LevelCompiler::Rustc,
        (false, true) => LevelCompiler::Clang,
        (false, false) => LevelCompiler::Gcc,
    }
}

impl OptimizeJob<'_> {
    /// Builds and measures the levels, cheapest first, while there is something to gain; all that were asked for, if some were.
    pub(super) fn try_levels(&mut self, outputs: &[LinkedOutput]) -> Result<Vec<TriedLevel>> {
        let compiler = compiler_of(outputs);
        let mut tried = Vec::new();
        for name in LevelName::ALL {
            if name != LevelName::Order && !self.arguments.wants(name) {
                continue;
            }
            let level = match self.why_not(name, compiler, &tried) {
                Some(why) => TriedLevel::not(name, why),
                None => {
                    let mut level = self.built_level(name, compiler, outputs)?;
                    if level.is_built() && self.arguments.wants(name) {
                        level.rows = self.measure(&level, outputs, &tried)?;
                    }
                    level
                }
            };
            if let Some(why) = &level.why_not {
                let said = format!("level {} not built: {}", name.text(), escape::terminal(why));
                if self.arguments.are_fixed() { self.ui.note(&said) } else { self.ui.detail(&said) }
            }
            tried.push(level);
        }
        Ok(tried)
    }

    /// Why a level is not built; None if it is to be tried.
    fn why_not(&self, name: LevelName, compiler: LevelCompiler, tried: &[TriedLevel]) -> Option<String> {
        if name == LevelName::Order {
            return None;
        }
        if self.arguments.in_place {
            return Some("--in-place builds only the level order".to_owned());
        }
        let cannot = match compiler {
            LevelCompiler::Gcc => {
                let error = plugin(self.arguments.gcc_plugin.as_deref()).err();
                error.map(|error| format!("{error}: {}", error.hint().unwrap_or_default()))
            }
            LevelCompiler::Rustc | LevelCompiler::Clang => None,
        };
        cannot.or_else(|| if self.arguments.are_fixed() { None } else { nothing_left(name, tried) })
    }

    /// Builds a level. If it cannot be built, the result contains the reason.
    fn built_level(
        &mut self,
        name: LevelName,
        compiler: LevelCompiler,
        outputs: &[LinkedOutput],
    ) -> Result<TriedLevel> {
        let build = match name {
            LevelName::Order => {
                let profile = self.state.path(entries::PROFILES).join("profile.gv");
                let folder = self.state.path(entries::AFTER);
                return Ok(TriedLevel {
                    why_not: None,
                    folder,
                    profile,
                    ..TriedLevel::not(name, String::new())
                });
            }
            LevelName::Blocks => {
                self.training(name, |job| job.count_blocks("blocks", compiler, &[], outputs))
            }
            LevelName::Counters => self.counters(compiler),
            LevelName::Both => match self.counters(compiler) {
                Ok(counters) => {
                    let lean = LEAN.iter().filter(|_| compiler == LevelCompiler::Gcc);
                    let lean = lean.map(|word| (*word).to_owned());
                    let words: Vec<String> = counters.words.iter().cloned().chain(lean).collect();
                    let both = self.training(name, |job| job.count_blocks("both", compiler, &words, outputs));
                    both.map(|mut both| {
                        both.profiles.extend(counters.profiles);
                        both
                    })
                }
                Err(error) => Err(error),
            },
        };
        let built = match self.optional(build)? {
            Ok(build) => {
                let built = self.build_level(name, compiler, &build, outputs);
                self.optional(built)?
            }
            Err(why) => Err(why),
        };
        Ok(match built {
            Ok((folder, profile)) => {
                TriedLevel { why_not: None, folder, profile, ..TriedLevel::not(name, String::new()) }
            }
            Err(why) => TriedLevel::not(name, why),
        })
    }

    fn counters(&mut self, compiler: LevelCompiler) -> Result<LevelBuild> {
        self.training(LevelName::Counters, |job| match compiler {
            LevelCompiler::Gcc => job.count(),
            LevelCompiler::Clang | LevelCompiler::Rustc => job.count_by_llvm(compiler),
        })
    }

    /// Measures a level against the first build; figures of each command.
    fn measure(
        &mut self,
        level: &TriedLevel,
        outputs: &[LinkedOutput],
        tried: &[TriedLevel],
    ) -> Result<Vec<Value>> {
        let step = format!("{}{}", entries::MEASURE, level.name.text());
        if !self.state.has_done(&step) {
            let scratch = files::folder(&self.state.path("scratch"))?;
            let bench = measure::OutputBench {
                place: self.place(Vec::new()),
                outputs,
                sides: [self.state.path(entries::BEFORE), level.folder.clone()],
                known: tried.first().map_or(&[], |order| &order.rows),
                events: measure::events(&scratch, self.stop)?,
                limit: self.arguments.timeout,
                measure_for: self.arguments.measure_for,
                scratch,
                progress: &self.progress,
                level: Some(level.name).filter(|name| *name != LevelName::Order).map(LevelName::text),
                ui: self.ui,
            };
            let measured = bench.measure(&self.arguments.measured())?;
            self.state.done(&step, measured)?;
        }
        Ok(self.state.fact(&step).as_array().cloned().unwrap_or_default())
    }

    /// Turns an error into a reason why the level is skipped, except an interruption.
    fn optional<T>(&self, done: Result<T>) -> Result<std::result::Result<T, String>> {
        match done {
            Ok(value) => Ok(Ok(value)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                if let Some(hint) = error.hint() {
                    self.ui.detail(hint);
                }
                Ok(Err(error.to_string()))
            }
        }
    }

    /// A training build, unless it was done before.
    fn training(
        &mut self,
        name: LevelName,
        run: impl FnOnce(&mut Self) -> Result<LevelBuild>,
    ) -> Result<LevelBuild> {
        let step = format!("level {}", name.text());
        let known = || -> Option<LevelBuild> {
            let fact = self.state.fact(&step);
            let words = fact["words"].as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned()));
            let profiles = fact["profiles"].as_array()?.iter().filter_map(entries::from_json);
            Some(LevelBuild { words: words.collect(), profiles: profiles.collect() })
        };
        if let Some(level) = known() {
            return Ok(level);
        }
        let level = run(self)?;
        let profiles: Vec<Value> = level.profiles.iter().map(|path| entries::to_json(path)).collect();
        self.state.done(&step, json!({ "words": level.words, "profiles": profiles }))?;
        Ok(level)
    }

    /// The working folder of a build for a level.
    fn folder_of(&self, name: &str) -> Result<PathBuf> {
        let folder = files::folder(&self.state.path(entries::BUILDS))?.join(name);
        files::folder(&folder)?.canonicalize().map_err(|error| files::unreadable(&folder, &error))
    }

    /// Builds the tree in a copy with further options for the compiler.
    fn build_with<'j>(
        &'j self,
        arguments: &'j Arguments,
        name: &str,
        (compiler, words): (LevelCompiler, Vec<String>),
    ) -> Result<(OptimizeJob<'j>, Vec<LinkedOutput>)> {
        let folder = self.folder_of(name)?;
        let mut job = OptimizeJob::begin(
            arguments,
            self.original.clone(),
            &folder,
            (compiler, words),
            self.stop,
            self.ui,
        )?;
        // As deep as the first copy: training commands may name files by paths that lead out of it.
        job.tree = self.state.path(&format!("{}-{name}", entries::TREE));
        job.progress = self.progress.of_level(name);
        job.prepare()?;
        job.build()?;
        let outputs = job.outputs()?;
        Ok((job, outputs))
    }

    /// Counters of an instrumented build under the training commands.
    fn count(&self) -> Result<LevelBuild> {
        let plugin = plugin(self.arguments.gcc_plugin.as_deref())?;
        let arguments = self.arguments.of_level();
        let words = COUNTING.iter().map(|word| (*word).to_owned()).collect();
        let (job, outputs) = self.build_with(&arguments, "counting", (LevelCompiler::Gcc, words))?;
        job.train("counting", arguments.timeout.saturating_mul(10), &job.progress)?;
        let (profile, counters) = (job.state.path("counters.gv"), job.state.path("counters"));
        job.import_counters(&job.tree, &outputs, &profile)?;
        job.export(&profile, "counters", &counters)?;
        let mut words = of_plugin(&plugin);
        words.push(format!("-fplugin-arg-sediment-counters={}", text(&counters)?));
        words.extend(COUNTED.iter().chain(FEWER).map(|word| (*word).to_owned()));
        Ok(LevelBuild { words, profiles: vec![profile] })
    }

    /// Counters of a build that clang or rustc instrumented, under the training commands.
    fn count_by_llvm(&self, compiler: LevelCompiler) -> Result<LevelBuild> {
        let arguments = self.arguments.of_level();
        let runs = self.folder_of("counting-runs")?;
        let (option, both, counted): (_, &[&str], &[&str]) = match compiler {
            LevelCompiler::Rustc => ("-Cprofile", &[], &[]),
            LevelCompiler::Clang | LevelCompiler::Gcc => ("-fprofile", CLANG_BOTH, CLANG_COUNTED),
        };
        let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut words = of(both);
        words.push(format!("{option}-generate={}", text(&runs)?));
        let (job, outputs) = self.build_with(&arguments, "counting", (compiler, words))?;
        // Programs that the build itself ran are not training.
        let _ = std::fs::remove_dir_all(&runs);
        job.train("counting", arguments.timeout.saturating_mul(10), &job.progress)?;
        let (profile, counters) = (job.state.path("counters.gv"), job.state.path("counters.profdata"));
        job.import_counters(&runs, &outputs, &profile)?;
        job.export(&profile, "profdata", &counters)?;
        let mut words = of(&[both, counted].concat());
        words.push(format!("{option}-use={}", text(&counters)?));
        Ok(LevelBuild { words, profiles: vec![profile] })
    }

    /// Counts the blocks of a build that numbers them; `words` are the compiler's options of the level below. For the
    /// first level, this build is the first build, with the files `outputs`.
    fn count_blocks(
        &self,
        name: &str,
        compiler: LevelCompiler,
        words: &[String],
        outputs: &[LinkedOutput],
    ) -> Result<LevelBuild> {
        probe("valgrind", &["--version"], VALGRIND_HINT)?;
        let mut below = words.to_vec();
        if compiler == LevelCompiler::Gcc && words.is_empty() {
            below = of_plugin(&plugin(self.arguments.gcc_plugin.as_deref())?);
        }
        let [numbers, by_counts] = blocks_words(compiler);
        let (profile, format) = match compiler {
            LevelCompiler::Gcc => ("blocks", "blocks"),
            LevelCompiler::Clang | LevelCompiler::Rustc => ("blocks.list", "bb-sections"),
        };
        if compiler == LevelCompiler::Rustc && text(self.state.folder())?.contains(char::is_whitespace) {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "rustc splits LLVM's options at blanks, and the path of the working folder has a blank",
            )
            .with_hint("name another folder: --work DIR"));
        }
        let arguments = self.arguments.of_level();
        let (counted, list) = if words.is_empty() && compiler == LevelCompiler::Gcc && self.numbers_blocks() {
            let before = self.state.path(entries::BEFORE);
            for (index, output) in outputs.iter().enumerate() {
                let kept = saved(&before, index, output)?;
                output.paths().try_for_each(|path| files::copy(&kept, path))?;
            }
            (
                self.record_blocks(&arguments, outputs, &self.progress.of_level(name))?,
                self.state.path(profile),
            )
        } else {
            let mut numbering = below.clone();
            numbering.push(numbers.to_owned());
            let (job, built) =
                self.build_with(&arguments, &format!("{name}-numbering"), (compiler, numbering))?;
            (job.record_blocks(&arguments, &built, &job.progress)?, job.state.path(profile))
        };
        self.export(&counted, format, &list)?;
        below.push(format!("{by_counts}{}", text(&list)?));
        Ok(LevelBuild { words: below, profiles: vec![counted] })
    }

    /// True if the first build numbers blocks.
    fn numbers_blocks(&self) -> bool {
        self.words.1.iter().any(|word| word == blocks_words(LevelCompiler::Gcc)[0])
    }

    /// The profile of the blocks of a build, by callgrind under the training commands.
    fn record_blocks(
        &self,
        arguments: &Arguments,
        outputs: &[LinkedOutput],
        progress: &RunProgress,
    ) -> Result<PathBuf> {
        let seconds = self.train("timing", arguments.timeout, progress)?;
        let limit = (seconds * f64::from(SLOWDOWN / 2) > COUNTED_SECONDS as f64).then_some(COUNTED_SECONDS);
        let recorded = files::folder(&self.state.path("callgrind"))?;
        let valgrind = [
            "--tool=callgrind".into(),
            "--dump-instr=yes".into(),
            argument("--callgrind-out-file=", recorded.join("out.%p").as_os_str()),
        ];
        let scratch = files::folder(&self.state.path("scratch"))?;
        let stand_ins = StandIns::replace(outputs, &valgrind, limit, &scratch)?;
        if stand_ins.is_empty() {
            return Err(Error::new(
                ErrorCode::NotMeasured,
                "the build links only libraries, but blocks are counted in programs",
            ));
        }
        let trained = self.train("counting blocks", arguments.timeout.saturating_mul(SLOWDOWN), progress);
        drop(stand_ins);
        // The limit ends processes by a signal, which their command may take for a failure.
        match trained {
            Err(error) if limit.is_none() || error.kind() == ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut parts: Vec<PathBuf> =
            std::fs::read_dir(&recorded).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        parts.retain(|path| std::fs::metadata(path).is_ok_and(|found| found.len() > 0));
        parts.sort();
        for part in &parts {
            files::write_owned(part, &under_own_names(&files::read(part)?))?;
        }
        let profile = self.state.path("blocks.gv");
        let mut import: Vec<OsString> = ["-q", "import", "--blocks"].map(OsString::from).to_vec();
        import.extend(parts.into_iter().map(OsString::from));
        for output in outputs {
            import.extend(["--binary".into(), output.path.clone().into()]);
        }
        import.extend(["-o".into(), profile.clone().into()]);
        self.sediment(&import)?;
        Ok(profile)
    }

    /// Runs the training commands without a recording; their processor time in seconds.
    fn train(&self, doing: &str, limit: std::time::Duration, progress: &RunProgress) -> Result<f64> {
        let mut seconds = 0.0;
        for (index, (line, _)) in self.arguments.trainings().enumerate() {
            let bar = progress.begin(RunStep::Training(index), &format!("{doing}: {line}"), self.ui);
            let log = self.state.path(&format!("counting-{}.log", index + 1));
            let what = format!("the {} (`{line}`)", step(index));
            let done = self.place(Vec::new()).run(&what, &runs::in_shell(line), limit, &log);
            bar.finish_and_clear();
            let usage = done?;
            seconds += (usage.user + usage.system).as_secs_f64();
        }
        Ok(seconds)
    }

    /// Runs a command of this program.
    fn sediment(&self, words: &[OsString]) -> Result<()> {
        let mut all = vec![files::own_program()?.into_os_string()];
        all.extend(words.iter().cloned());
        let log = self.state.path("importing.log");
        self.place(Vec::new()).run("the import of counts", &all, UNLIMITED, &log).map(|_| ())
    }

    /// Makes the profile of the files of counters in a folder.
    fn import_counters(&self, folder: &Path, outputs: &[LinkedOutput], profile: &Path) -> Result<()> {
        let mut import: Vec<OsString> = ["-q", "import"].map(OsString::from).to_vec();
        import.push(folder.into());
        for output in outputs {
            import.extend(["--binary".into(), output.path.clone().into()]);
        }
        import.extend(["-o".into(), profile.into()]);
        self.sediment(&import)
    }

    /// Exports a profile for the compiler. Counts are first converted to shares, just as in the shipped profile.
    fn export(&self, profile: &Path, format: &str, file: &Path) -> Result<()> {
        let shares = self.state.path("shares.gv");
        let run = |words: &[&str], files: [&Path; 2]| {
            let [from, to] = files.map(OsString::from);
            let words = words.iter().map(OsString::from).chain([from, "-o".into(), to]);
            self.sediment(&words.collect::<Vec<_>>())
        };
        run(&["-q", "merge", "--normalize"], [profile, &shares])?;
        run(&["export", "--format", format], [&shares, file])
    }

    /// Builds a level, records it, and links it in its own order; the folder of its outputs, and the profile that its
    /// build needs.
    fn build_level(
        &mut self,
        name: LevelName,
        compiler: LevelCompiler,
        level: &LevelBuild,
        outputs: &[LinkedOutput],
    ) -> Result<(PathBuf, PathBuf)> {
        let arguments = self.arguments.of_level();
        let (mut job, mut built) =
            self.build_with(&arguments, name.text(), (compiler, level.words.clone()))?;
        job.record(&built)?;
        job.profile(&mut built)?;
        built.retain(|output| output.label.is_some());
        // Linked by the profile that the level is shipped with: a function with counters alone has a place in the order, too.
        let profile = job.state.path(entries::PROFILES).join("profile.gv");
        job.add_counts(&profile, &level.profiles)?;
        job.link_in_order(&built)?;
        let folder = self.folder_of(&format!("{}-outputs", name.text()))?;
        for (index, output) in outputs.iter().enumerate() {
            let inside = output.path.strip_prefix(&self.tree).unwrap_or(&output.path);
            files::copy(&job.tree.join(inside), &saved(&folder, index, output)?)?;
        }
        let inner: Vec<Option<&LinkedOutput>> = outputs
            .iter()
            .map(|output| {
                let inside = output.path.strip_prefix(&self.tree).unwrap_or(&output.path);
                built.iter().find(|built| built.path == job.tree.join(inside))
            })
            .collect();
        layouts::collect(outputs, &inner, &job.state.path(entries::LINKS_AFTER), "after", &folder)?;
        Ok((folder, profile))
    }

    /// Adds counts to the profile of an order.
    fn add_counts(&self, profile: &Path, counts: &[PathBuf]) -> Result<()> {
        let sum = self.state.path("sum.gv");
        let mut words: Vec<OsString> = ["-q", "merge"].map(OsString::from).to_vec();
        words.extend(std::iter::once(profile).chain(counts.iter().map(PathBuf::as_path)).map(OsString::from));
        words.extend(["-o".into(), sum.clone().into()]);
        self.sediment(&words)?;
        files::write_owned(profile, &files::read(&sum)?)
    }
}

/// Why this level need not be tried after the simpler ones; `None` if it should be tried.
fn nothing_left(name: LevelName, tried: &[TriedLevel]) -> Option<String> {
    let figure = |level: &TriedLevel, of: &str, key: &str| {
        let all: Option<Vec<f64>> = level.rows.iter().map(|row| row[of][key].as_f64()).collect();
        all.filter(|all| !all.is_empty())
    };
    let level = |name: LevelName| tried.iter().find(|level| level.name == name && level.is_built());
    let few_misses = |level: &TriedLevel| {
        let left = figure(level, "worth_percent", "left")?.into_iter().fold(0.0, f64::max);
        (left < 100.0 * judge::WORTH)
            .then(|| format!("the remaining misses are worth at most {left:.1} % of CPU time"))
    };
    match name {
        LevelName::Order => None,
        LevelName::Blocks => few_misses(level(LevelName::Order)?),
        LevelName::Counters => {
            let system = figure(level(LevelName::Order)?, "cpu_time", "system_percent")?;
            let system = system.into_iter().fold(100.0, f64::min);
            (system > 100.0 * (1.0 - LEAST_USER)).then(|| {
                format!("{system:.0} % of CPU time is spent in the kernel, which counters do not change")
            })
        }
        LevelName::Both => match level(LevelName::Counters) {
            Some(counters) if counters.verdict([0, 0]).0 == LevelVerdict::Gain => few_misses(counters),
            _ => Some("counters alone were not shown to save CPU time".to_owned()),
        },
    }
}

/// Words for a compiler to number blocks, and to place them by counts, which end in a file's path.
fn blocks_words(compiler: LevelCompiler) -> [&'static str; 2] {
    match compiler {
        LevelCompiler::Gcc => ["-fplugin-arg-sediment-blocks", "-fplugin-arg-sediment-profile="],
        LevelCompiler::Clang => ["-fbasic-block-address-map", "-fbasic-block-sections=list="],
        LevelCompiler::Rustc => {
            ["-Cllvm-args=-basic-block-address-map", "-Cllvm-args=-basic-block-sections="]
        }
    }
}

/// Words for the first build: GCC with the plugin numbers blocks, which changes no code, if they may be counted later.
pub(super) fn first_words(arguments: &Arguments) -> (LevelCompiler, Vec<String>) {
    let numbers = !arguments.in_place && arguments.wants(LevelName::Blocks);
    let words = plugin(arguments.gcc_plugin.as_deref()).ok().filter(|_| numbers).map(|plugin| {
        let mut words = of_plugin(&plugin);
        words.push(blocks_words(LevelCompiler::Gcc)[0].to_owned());
        words
    });
    (LevelCompiler::Gcc, words.unwrap_or_default())
}

/// Returns the option that loads the plugin.
fn of_plugin(plugin: &Path) -> Vec<String> {
    vec![format!("-fplugin={}", plugin.to_string_lossy())]
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::new(ErrorCode::Usage, "the path of the working folder is not UTF-8")
            .with_hint("name another folder: --work DIR")
    })
}
