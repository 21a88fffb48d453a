// SPDX-License-Identifier: MIT OR Apache-2.0
//! The levels above the order: further builds of the tree, each in a copy of its own, with block counts, with counters
//! of the compiler's instrumentation, or with both. Each level is recorded and linked in the order of its own
//! functions, because with a profile the compiler inlines and clones different functions.
//!
//! Levels are tried cheapest first. A level that cannot be built, or has nothing to gain, is skipped with the reason.

use super::links::LinkedOutput;
use super::progress::{RunProgress, RunStep};
use super::recordings::step;
use super::runs::{self, UNLIMITED};
use super::ship::{LevelName, TriedLevel};
use super::stand_ins::{StandIns, under_own_names};
use super::toolbox::{CompilerWords, LevelCompiler};
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
/// Limit of a process's CPU time while callgrind counts blocks, in seconds (later work is not counted), and limit of
/// the whole.
const COUNTED_SECONDS: u64 = 120;
const SLOWDOWN: u32 = 200;
/// Counters are tried if at least this share of CPU time is spent in the program.
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
    /// Options for the compilers.
    words: CompilerWords,
    /// Profiles that these options refer to.
    profiles: Vec<PathBuf>,
}

/// Finds the compiler of programs and libraries, by the name that it left in them.
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
    /// Returns the compilers for which a level sets options, the one of the programs first. Rust programs may contain C
    /// code, which GCC compiles with sediment's plugin. If there is no such code, its options do no harm.
    fn compilers(&self, outputs: &[LinkedOutput]) -> Vec<LevelCompiler> {
        let main = compiler_of(outputs);
        let has_plugin = || plugin(self.arguments.gcc_plugin.as_deref()).is_ok();
        let further = (main == LevelCompiler::Rustc && has_plugin()).then_some(LevelCompiler::Gcc);
        std::iter::once(main).chain(further).collect()
    }

    /// Builds and measures the levels, cheapest first, while there is something to gain; or all requested levels.
    pub(super) fn try_levels(&mut self, outputs: &[LinkedOutput]) -> Result<Vec<TriedLevel>> {
        let compilers = self.compilers(outputs);
        let mut tried = Vec::new();
        for name in LevelName::ALL {
            if name != LevelName::Order && !self.arguments.wants(name) {
                continue;
            }
            let level = match self.why_not(name, compilers[0], &tried) {
                Some(why) => TriedLevel::not(name, why),
                None => {
                    let mut level = self.built_level(name, &compilers, outputs)?;
                    // If a build fails with options for two compilers, those for the main one may still work.
                    if let (Some(why), true) = (&level.why_not, compilers.len() > 1) {
                        self.ui.detail(&format!(
                            "level {} for one compiler: {}",
                            name.text(),
                            escape::terminal(why)
                        ));
                        level = self.built_level(name, &compilers[..1], outputs)?;
                    }
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

    /// Returns the reason why a level is not built; None if it is to be tried.
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
        compilers: &[LevelCompiler],
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
                let words = CompilerWords::default();
                self.training(name, |job| job.count_blocks("blocks", compilers, &words, outputs))
            }
            LevelName::Counters => self.counters(compilers),
            LevelName::Both => self.counters(compilers).and_then(|counters| {
                let mut words = counters.words.clone();
                if compilers.contains(&LevelCompiler::Gcc) {
                    words.add(LevelCompiler::Gcc, owned(LEAN));
                }
                self.training(name, |job| {
                    let mut both = job.count_blocks("both", compilers, &words, outputs)?;
                    both.profiles.extend(counters.profiles);
                    Ok(both)
                })
            }),
        };
        let built = match self.optional(build)? {
            Ok(build) => {
                let built = self.build_level(name, &build, outputs);
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

    fn counters(&mut self, compilers: &[LevelCompiler]) -> Result<LevelBuild> {
        self.training(LevelName::Counters, |job| job.count(compilers))
    }

    /// Measures a level, compared with the first build, and returns the figures of each command.
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

    /// Makes a training build, unless it exists already.
    fn training(
        &mut self,
        name: LevelName,
        run: impl FnOnce(&mut Self) -> Result<LevelBuild>,
    ) -> Result<LevelBuild> {
        let step = format!("level {}", name.text());
        let known = || -> Option<LevelBuild> {
            let fact = self.state.fact(&step);
            let words = CompilerWords::from_json(&fact["words"])?;
            let profiles = fact["profiles"].as_array()?.iter().filter_map(entries::from_json);
            Some(LevelBuild { words, profiles: profiles.collect() })
        };
        if let Some(level) = known() {
            return Ok(level);
        }
        let level = run(self)?;
        let profiles: Vec<Value> = level.profiles.iter().map(|path| entries::to_json(path)).collect();
        self.state.done(&step, json!({ "words": level.words.json(), "profiles": profiles }))?;
        Ok(level)
    }

    /// Returns the working folder of a build for a level.
    fn folder_of(&self, name: &str) -> Result<PathBuf> {
        let folder = files::folder(&self.state.path(entries::BUILDS))?.join(name);
        files::folder(&folder)?.canonicalize().map_err(|error| files::unreadable(&folder, &error))
    }

    /// Builds the tree in a copy with further options for compilers.
    fn build_with<'j>(
        &'j self,
        arguments: &'j Arguments,
        name: &str,
        words: CompilerWords,
    ) -> Result<(OptimizeJob<'j>, Vec<LinkedOutput>)> {
        let folder = self.folder_of(name)?;
        let mut job =
            OptimizeJob::begin(arguments, self.original.clone(), &folder, words, self.stop, self.ui)?;
        // The copy is as deep as the first one: training commands may use relative paths that lead out of it.
        job.tree = self.state.path(&format!("{}-{name}", entries::TREE));
        job.progress = self.progress.of_level(name);
        job.prepare()?;
        job.build()?;
        let outputs = job.outputs()?;
        Ok((job, outputs))
    }

    /// Counts a build that each compiler instrumented, under the training commands.
    fn count(&self, compilers: &[LevelCompiler]) -> Result<LevelBuild> {
        let arguments = self.arguments.of_level();
        let runs = self.folder_of("counting-runs")?;
        let mut counting = CompilerWords::default();
        for compiler in compilers {
            counting.add(*compiler, counting_words(*compiler, text(&runs)?));
        }
        let (job, outputs) = self.build_with(&arguments, "counting", counting)?;
        // Runs of programs during the build are not training.
        let _ = std::fs::remove_dir_all(&runs);
        job.train("counting", arguments.timeout.saturating_mul(10), &job.progress)?;
        let mut level = LevelBuild { words: CompilerWords::default(), profiles: Vec::new() };
        self.for_each_compiler(compilers, |compiler| {
            let (from, file, format) = match compiler {
                LevelCompiler::Gcc => (&job.tree, "counters", "counters"),
                LevelCompiler::Clang | LevelCompiler::Rustc => (&runs, "counters.profdata", "profdata"),
            };
            let profile = job.state.path(&format!("counters-{}.gv", compiler.text()));
            let counters = job.state.path(file);
            job.import_counters(from, &outputs, &profile)?;
            job.export(&profile, format, &counters)?;
            level.words.add(compiler, self.words_of_counters(compiler, text(&counters)?)?);
            level.profiles.push(profile);
            Ok(())
        })?;
        Ok(level)
    }

    /// Takes the counts of each compiler. One of several compilers may have compiled nothing that ran, which is an error
    /// only if it is true of all.
    fn for_each_compiler(
        &self,
        compilers: &[LevelCompiler],
        mut take: impl FnMut(LevelCompiler) -> Result<()>,
    ) -> Result<()> {
        let (mut is_taken, mut failed) = (false, Ok(()));
        for compiler in compilers {
            match take(*compiler) {
                Ok(()) => is_taken = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    self.ui.detail(&format!("no counts of {}: {error}", compiler.text()));
                    failed = failed.and(Err(error));
                }
            }
        }
        if is_taken { Ok(()) } else { failed }
    }

    /// Returns the options with which a compiler optimises by the counters in a file.
    fn words_of_counters(&self, compiler: LevelCompiler, counters: &str) -> Result<Vec<String>> {
        Ok(match compiler {
            LevelCompiler::Gcc => {
                let mut words = of_plugin(&plugin(self.arguments.gcc_plugin.as_deref())?);
                words.push(format!("-fplugin-arg-sediment-counters={counters}"));
                words.extend(owned(COUNTED).chain(owned(FEWER)));
                words
            }
            LevelCompiler::Clang => {
                let used = std::iter::once(format!("-fprofile-use={counters}"));
                owned(CLANG_BOTH).chain(owned(CLANG_COUNTED)).chain(used).collect()
            }
            LevelCompiler::Rustc => vec![format!("-Cprofile-use={counters}")],
        })
    }

    /// Counts the blocks of a build that numbers them; `words` are the compilers' options of the level below. For GCC's
    /// first level, this build is the first build, with the files `outputs`.
    fn count_blocks(
        &self,
        name: &str,
        compilers: &[LevelCompiler],
        words: &CompilerWords,
        outputs: &[LinkedOutput],
    ) -> Result<LevelBuild> {
        probe("valgrind", &["--version"], VALGRIND_HINT)?;
        let mut below = words.clone();
        if compilers.contains(&LevelCompiler::Gcc) && words.of(LevelCompiler::Gcc).is_empty() {
            below.add(LevelCompiler::Gcc, of_plugin(&plugin(self.arguments.gcc_plugin.as_deref())?));
        }
        if compilers.contains(&LevelCompiler::Rustc)
            && text(self.state.folder())?.contains(char::is_whitespace)
        {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "rustc splits LLVM's options at blanks, and the path of the working folder has a blank",
            )
            .with_hint("name another folder: --work DIR"));
        }
        let arguments = self.arguments.of_level();
        let is_first = words.is_empty() && compilers == [LevelCompiler::Gcc] && self.numbers_blocks();
        let (counted, folder) = if is_first {
            let before = self.state.path(entries::BEFORE);
            for (index, output) in outputs.iter().enumerate() {
                let kept = saved(&before, index, output)?;
                output.paths().try_for_each(|path| files::copy(&kept, path))?;
            }
            let counted = self.record_blocks(&arguments, outputs, &self.progress.of_level(name))?;
            (counted, self.state.folder().to_path_buf())
        } else {
            let mut numbering = below.clone();
            for compiler in compilers {
                numbering.add(*compiler, [blocks_words(*compiler)[0].to_owned()]);
            }
            let (job, built) = self.build_with(&arguments, &format!("{name}-numbering"), numbering)?;
            (job.record_blocks(&arguments, &built, &job.progress)?, job.state.folder().to_path_buf())
        };
        self.for_each_compiler(compilers, |compiler| {
            let (file, format) = match compiler {
                LevelCompiler::Gcc => ("blocks", "blocks"),
                LevelCompiler::Clang | LevelCompiler::Rustc => ("blocks.list", "bb-sections"),
            };
            let list = folder.join(file);
            self.export(&counted, format, &list)?;
            below.add(compiler, [format!("{}{}", blocks_words(compiler)[1], text(&list)?)]);
            Ok(())
        })?;
        Ok(LevelBuild { words: below, profiles: vec![counted] })
    }

    /// True if the first build numbers blocks.
    fn numbers_blocks(&self) -> bool {
        self.words.of(LevelCompiler::Gcc).iter().any(|word| word == blocks_words(LevelCompiler::Gcc)[0])
    }

    /// Makes the profile of a build's blocks, by callgrind under the training commands.
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
        // The limit ends processes by a signal, which the command may consider a failure.
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

    /// Runs the training commands without a recording, and returns their CPU time in seconds.
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

    /// Runs a command of sediment.
    fn sediment(&self, words: &[OsString]) -> Result<()> {
        let mut all = vec![files::own_program()?.into_os_string()];
        all.extend(words.iter().cloned());
        let log = self.state.path("importing.log");
        self.place(Vec::new()).run("the import of counts", &all, UNLIMITED, &log).map(|_| ())
    }

    /// Makes a profile of the counter files in a folder.
    fn import_counters(&self, folder: &Path, outputs: &[LinkedOutput], profile: &Path) -> Result<()> {
        let mut import: Vec<OsString> = ["-q", "import"].map(OsString::from).to_vec();
        import.push(folder.into());
        for output in outputs {
            import.extend(["--binary".into(), output.path.clone().into()]);
        }
        import.extend(["-o".into(), profile.into()]);
        self.sediment(&import)
    }

    /// Exports a profile for the compiler. Counts are first converted to shares, as in the shipped profile.
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

    /// Builds a level, records it, and links it in its own order. Returns the folder of its outputs, and the profile
    /// that its build needs.
    fn build_level(
        &mut self,
        name: LevelName,
        level: &LevelBuild,
        outputs: &[LinkedOutput],
    ) -> Result<(PathBuf, PathBuf)> {
        let arguments = self.arguments.of_level();
        let (mut job, mut built) = self.build_with(&arguments, name.text(), level.words.clone())?;
        job.record(&built)?;
        job.profile(&mut built)?;
        built.retain(|output| output.label.is_some());
        // It is linked with the profile with which the level is shipped, because functions that have only counters are
        // also in the order.
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

/// Returns the reason why this level need not be tried after the simpler ones; `None` if it should be tried.
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

/// The options with which a compiler numbers blocks, and those with which it places them by counts. Both end with the
/// path of a file.
fn blocks_words(compiler: LevelCompiler) -> [&'static str; 2] {
    match compiler {
        LevelCompiler::Gcc => ["-fplugin-arg-sediment-blocks", "-fplugin-arg-sediment-profile="],
        LevelCompiler::Clang => ["-fbasic-block-address-map", "-fbasic-block-sections=list="],
        LevelCompiler::Rustc => {
            ["-Cllvm-args=-basic-block-address-map", "-Cllvm-args=-basic-block-sections="]
        }
    }
}

/// Options for the first build: if blocks may be counted later, GCC numbers them by the plugin, which changes no code.
pub(super) fn first_words(arguments: &Arguments) -> CompilerWords {
    let mut words = CompilerWords::default();
    if let (false, true, Ok(plugin)) =
        (arguments.in_place, arguments.wants(LevelName::Blocks), plugin(arguments.gcc_plugin.as_deref()))
    {
        words.add(LevelCompiler::Gcc, of_plugin(&plugin));
        words.add(LevelCompiler::Gcc, [blocks_words(LevelCompiler::Gcc)[0].to_owned()]);
    }
    words
}

/// The options with which a compiler instruments; `runs` is the folder for the counts of LLVM's compilers.
fn counting_words(compiler: LevelCompiler, runs: &str) -> Vec<String> {
    match compiler {
        LevelCompiler::Gcc => owned(COUNTING).collect(),
        LevelCompiler::Clang => owned(CLANG_BOTH).chain([format!("-fprofile-generate={runs}")]).collect(),
        LevelCompiler::Rustc => vec![format!("-Cprofile-generate={runs}")],
    }
}

fn owned(words: &[&'static str]) -> impl Iterator<Item = String> {
    words.iter().map(|word| (*word).to_owned())
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
