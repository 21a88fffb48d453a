// SPDX-License-Identifier: MIT OR Apache-2.0
//! Further builds of the tree for `--pgo`, each in a copy of its own: by the counts of blocks, by the counters of GCC's
//! instrumentation, and by both; of a cargo build by the counters of rustc's instrumentation. Each is recorded and linked in the order of the functions that it has: the compiler inlines and clones
//! others than without a profile.
//!
//! A level that cannot be built is skipped with the reason; the rest is compared.

use super::links::Output;
use super::progress::{RunProgress, RunStep};
use super::recordings::step;
use super::runs::{self, UNLIMITED};
use super::stand_ins::{StandIns, under_own_names};
use super::toolbox::Compiler;
use super::{Arguments, Job, entries, layouts, saved, ship};
use crate::compiler;
use crate::files;
use sediment_core::{Error, ErrorCode, ErrorKind, Result, escape};
use sediment_process::VALGRIND_HINT;
use sediment_process::command::{argument, probe};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Place of the plugin in sediment's packages, and its name in GCC's folder of plugins.
const INSTALLED: &str = "/usr/libexec/sediment/sediment.so";
const NAME: &str = "sediment.so";
/// Words for GCC: to count, and to compile by counters.
const COUNTING: &[&str] = &["-fprofile-generate", "-ftest-coverage", "-fprofile-update=prefer-atomic"];
const COUNTED: &[&str] = &[
    "-fprofile-use",
    "-fprofile-partial-training",
    "-fprofile-correction",
    "-Wno-missing-profile",
    "-Wno-coverage-mismatch",
];
/// Words against optimisations that counters turn on, and whose copies of code are larger than what they gain (docs/proofs/pgo.md). The same words
/// are in gcc-plugin/compiler.
const FEWER: &[&str] = &["-fno-unroll-loops", "-fno-peel-loops"];
/// More of them, where blocks are split by counts of their own.
const LEAN: &[&str] = &[
    "-fno-tracer",
    "-fno-split-loops",
    "-fno-unswitch-loops",
    "-fno-ipa-cp-clone",
    "-fvect-cost-model=very-cheap",
];
/// Longest training command that valgrind runs, and how much longer it may take there.
const COUNTED_SECONDS: f64 = 10.0;
const SLOWDOWN: u32 = 200;

/// The plugin that was named, or is installed.
///
/// # Errors
/// If there is none.
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
    let found = found.ok_or_else(|| missing("--pgo needs sediment's plugin for GCC"))?;
    found.canonicalize().map_err(|_| missing("no plugin for GCC there").with_input(files::display(&found)))
}

/// A level: what it is built by.
struct Level<'a> {
    name: &'a str,
    /// Words for the compiler.
    words: Vec<String>,
    /// Profiles that the words are of.
    profiles: Vec<PathBuf>,
}

impl Job<'_> {
    /// Builds the levels; folders of their outputs, in the order of the fact `levels`.
    pub(super) fn levels(&mut self, outputs: &[Output]) -> Result<Vec<PathBuf>> {
        if self.arguments.compiler() == Compiler::Rustc {
            let counted = self.training("counters", Path::new(""), |job, _| job.count_by_rustc());
            let counted = self.optional(counted)?;
            let no_blocks = || Err("rustc does not number blocks".to_owned());
            return self.build_all(
                [(ship::BLOCKS, no_blocks()), (ship::COUNTS, counted), (ship::BOTH, no_blocks())],
                outputs,
            );
        }
        let plugin = plugin(self.arguments.gcc_plugin.as_deref())?;
        let counted = self.training("counters", &plugin, |job, plugin| job.count(plugin));
        let counted = self.optional(counted)?;
        let blocks = self.training("blocks", &plugin, |job, plugin| job.count_blocks("blocks", plugin, &[]));
        let blocks = self.optional(blocks)?;
        let both = match &counted {
            Ok(counters) => {
                let lean = LEAN.iter().map(|word| (*word).to_owned());
                let words: Vec<String> = counters.words.iter().cloned().chain(lean).collect();
                let both =
                    self.training("both", &plugin, |job, plugin| job.count_blocks("both", plugin, &words));
                self.optional(both)?.map(|mut both| {
                    both.profiles.extend(counters.profiles.iter().cloned());
                    both
                })
            }
            Err(why) => Err(why.clone()),
        };
        self.build_all([(ship::BLOCKS, blocks), (ship::COUNTS, counted), (ship::BOTH, both)], outputs)
    }

    /// Builds these levels, or says why one is not; folders of their outputs.
    fn build_all(
        &mut self,
        levels: [(&'static str, std::result::Result<Level<'static>, String>); 3],
        outputs: &[Output],
    ) -> Result<Vec<PathBuf>> {
        let (mut facts, mut folders) = (Vec::new(), Vec::new());
        for (name, level) in levels {
            let built = match level {
                Ok(level) => {
                    let built = self.build_level(&Level { name, ..level }, outputs);
                    self.optional(built)?
                }
                Err(why) => Err(why),
            };
            match built {
                Ok((folder, profiles)) => {
                    let profiles: Vec<Value> = profiles.iter().map(|path| entries::to_json(path)).collect();
                    facts.push(json!({ "name": name, "profiles": profiles }));
                    folders.push(folder);
                }
                Err(why) => {
                    self.ui.note(&format!("level {name} not compared: {}", escape::terminal(&why)));
                    facts.push(json!({ "name": name, "why": why }));
                }
            }
        }
        self.state.done(ship::LEVELS, json!(facts))?;
        Ok(folders)
    }

    /// A result of which an error is a reason, but for an interruption.
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
        name: &str,
        plugin: &Path,
        run: impl FnOnce(&mut Self, &Path) -> Result<Level<'static>>,
    ) -> Result<Level<'static>> {
        let step = format!("level {name}");
        let known = || -> Option<Level<'static>> {
            let fact = self.state.fact(&step);
            let words = fact["words"].as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned()));
            let profiles = fact["profiles"].as_array()?.iter().filter_map(entries::from_json);
            Some(Level { name: "", words: words.collect(), profiles: profiles.collect() })
        };
        if let Some(level) = known() {
            return Ok(level);
        }
        let level = run(self, plugin)?;
        let profiles: Vec<Value> = level.profiles.iter().map(|path| entries::to_json(path)).collect();
        self.state.done(&step, json!({ "words": level.words, "profiles": profiles }))?;
        Ok(level)
    }

    /// The working folder of a build for a level.
    fn folder_of(&self, name: &str) -> Result<PathBuf> {
        let folder = files::folder(&self.state.path(entries::LEVELS))?.join(name);
        files::folder(&folder)?.canonicalize().map_err(|error| files::unreadable(&folder, &error))
    }

    /// Builds the tree in a copy with further words for GCC.
    fn build_with<'j>(
        &'j self,
        arguments: &'j Arguments,
        name: &str,
        words: Vec<String>,
    ) -> Result<(Job<'j>, Vec<Output>)> {
        let folder = self.folder_of(name)?;
        let mut job = Job::begin(arguments, self.original.clone(), &folder, words, self.stop, self.ui)?;
        job.progress = RunProgress::of_level(name);
        job.prepare()?;
        job.build()?;
        let outputs = job.outputs()?;
        Ok((job, outputs))
    }

    /// Arguments of a build for a level.
    fn arguments_of_level(&self) -> Arguments {
        Arguments { pgo: false, json: false, measure: Vec::new(), ..self.arguments.clone() }
    }

    /// Counters of an instrumented build under the training commands.
    fn count(&self, plugin: &Path) -> Result<Level<'static>> {
        let arguments = self.arguments_of_level();
        let words = COUNTING.iter().map(|word| (*word).to_owned()).collect();
        let (job, outputs) = self.build_with(&arguments, "counting", words)?;
        job.train("counting", arguments.timeout.saturating_mul(10))?;
        let (profile, counters) = (job.state.path("counters.gv"), job.state.path("counters"));
        job.import_counters(&job.tree, &outputs, &profile)?;
        job.export(&profile, "counters", &counters)?;
        let mut words = of_plugin(plugin);
        words.push(format!("-fplugin-arg-sediment-counters={}", text(&counters)?));
        words.extend(COUNTED.iter().chain(FEWER).map(|word| (*word).to_owned()));
        Ok(Level { name: "", words, profiles: vec![profile] })
    }

    /// Counters of a build that rustc instrumented, under the training commands.
    fn count_by_rustc(&self) -> Result<Level<'static>> {
        let arguments = self.arguments_of_level();
        let runs = self.folder_of("counting-runs")?;
        let words = vec![format!("-Cprofile-generate={}", text(&runs)?)];
        let (job, outputs) = self.build_with(&arguments, "counting", words)?;
        // What the build itself ran is no training.
        let _ = std::fs::remove_dir_all(&runs);
        job.train("counting", arguments.timeout.saturating_mul(10))?;
        let (profile, counters) = (job.state.path("counters.gv"), job.state.path("counters.profdata"));
        job.import_counters(&runs, &outputs, &profile)?;
        job.export(&profile, "profdata", &counters)?;
        let words = vec![format!("-Cprofile-use={}", text(&counters)?)];
        Ok(Level { name: "", words, profiles: vec![profile] })
    }

    /// Counts of the blocks of a build that numbers them, by callgrind; `words` are those of the level below.
    fn count_blocks(&self, name: &str, plugin: &Path, words: &[String]) -> Result<Level<'static>> {
        probe("valgrind", &["--version"], VALGRIND_HINT)?;
        let arguments = self.arguments_of_level();
        let below = if words.is_empty() { of_plugin(plugin) } else { words.to_vec() };
        let mut numbering = below.clone();
        numbering.push("-fplugin-arg-sediment-blocks".to_owned());
        let (job, outputs) = self.build_with(&arguments, &format!("{name}-numbering"), numbering)?;
        let seconds = job.train("timing", arguments.timeout)?;
        if seconds > COUNTED_SECONDS {
            return Err(Error::new(
                ErrorCode::NotMeasured,
                format!(
                    "training takes {seconds:.1} s, and callgrind counts blocks of at most {COUNTED_SECONDS} s"
                ),
            ));
        }
        let recorded = files::folder(&job.state.path("callgrind"))?;
        let valgrind = [
            "--tool=callgrind".into(),
            "--dump-instr=yes".into(),
            argument("--callgrind-out-file=", recorded.join("out.%p").as_os_str()),
        ];
        let scratch = files::folder(&job.state.path("scratch"))?;
        let stand_ins = StandIns::replace(&outputs, &valgrind, &scratch)?;
        if stand_ins.is_empty() {
            return Err(Error::new(
                ErrorCode::NotMeasured,
                "the build links libraries alone: blocks are counted in programs",
            ));
        }
        let trained = job.train("counting blocks", arguments.timeout.saturating_mul(SLOWDOWN));
        drop(stand_ins);
        trained?;
        let mut parts: Vec<PathBuf> =
            std::fs::read_dir(&recorded).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        parts.retain(|path| std::fs::metadata(path).is_ok_and(|found| found.len() > 0));
        parts.sort();
        for part in &parts {
            files::write_owned(part, &under_own_names(&files::read(part)?))?;
        }
        let (profile, blocks) = (job.state.path("blocks.gv"), job.state.path("blocks"));
        let mut import: Vec<OsString> = ["-q", "import", "--blocks"].map(OsString::from).to_vec();
        import.extend(parts.into_iter().map(OsString::from));
        for output in &outputs {
            import.extend(["--binary".into(), output.path.clone().into()]);
        }
        import.extend(["-o".into(), profile.clone().into()]);
        job.sediment(&import)?;
        job.export(&profile, "blocks", &blocks)?;
        let mut words = below;
        words.push(format!("-fplugin-arg-sediment-profile={}", text(&blocks)?));
        Ok(Level { name: "", words, profiles: vec![profile] })
    }

    /// Runs the training commands without a recording; their processor time in seconds.
    fn train(&self, doing: &str, limit: std::time::Duration) -> Result<f64> {
        let mut seconds = 0.0;
        for (index, (line, _)) in self.arguments.trainings().enumerate() {
            let bar = self.progress.begin(RunStep::Training(index), &format!("{doing}: {line}"), self.ui);
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
    fn import_counters(&self, folder: &Path, outputs: &[Output], profile: &Path) -> Result<()> {
        let mut import: Vec<OsString> = ["-q", "import"].map(OsString::from).to_vec();
        import.push(folder.into());
        for output in outputs {
            import.extend(["--binary".into(), output.path.clone().into()]);
        }
        import.extend(["-o".into(), profile.into()]);
        self.sediment(&import)
    }

    fn export(&self, profile: &Path, format: &str, file: &Path) -> Result<()> {
        let words =
            ["export".as_ref(), profile.as_os_str(), "--format".as_ref(), format.as_ref(), "-o".as_ref()];
        let mut words: Vec<OsString> = words.iter().map(|word| (*word).to_owned()).collect();
        words.push(file.into());
        self.sediment(&words)
    }

    /// Builds a level, records it, and links it in its own order; the folder of its outputs, and its profiles.
    fn build_level(&mut self, level: &Level<'_>, outputs: &[Output]) -> Result<(PathBuf, Vec<PathBuf>)> {
        let arguments = self.arguments_of_level();
        let (mut job, mut built) = self.build_with(&arguments, level.name, level.words.clone())?;
        job.record(&built)?;
        job.profile(&mut built)?;
        built.retain(|output| output.label.is_some());
        job.link_in_order(&built)?;
        let folder = self.folder_of(&format!("{}-outputs", level.name))?;
        for (index, output) in outputs.iter().enumerate() {
            let inside = output.path.strip_prefix(&self.tree).unwrap_or(&output.path);
            files::copy(&job.tree.join(inside), &saved(&folder, index, output)?)?;
        }
        let inner: Vec<Option<&Output>> = outputs
            .iter()
            .map(|output| {
                let inside = output.path.strip_prefix(&self.tree).unwrap_or(&output.path);
                built.iter().find(|built| built.path == job.tree.join(inside))
            })
            .collect();
        layouts::collect(outputs, &inner, &job.state.path(entries::LINKS_AFTER), "after", &folder)?;
        let mut profiles = vec![job.state.path(entries::PROFILES).join("profile.gv")];
        profiles.extend(level.profiles.iter().cloned());
        Ok((folder, profiles))
    }

    /// Writes the profile of the level to ship.
    pub(super) fn keep_shipped(&self, level: Option<&str>) -> Result<()> {
        let levels = self.state.fact(ship::LEVELS).as_array();
        let wanted =
            levels.into_iter().flatten().find(|fact| level.is_some() && fact["name"].as_str() == level);
        let profiles = wanted.and_then(|fact| fact["profiles"].as_array());
        let profiles: Vec<PathBuf> = profiles.into_iter().flatten().filter_map(entries::from_json).collect();
        if profiles.is_empty() {
            return Ok(());
        }
        let merged = self.state.path(entries::SHIPPED);
        let mut words: Vec<OsString> = ["-q", "merge"].map(OsString::from).to_vec();
        words.extend(profiles.into_iter().map(OsString::from));
        words.extend(["-o".into(), merged.clone().into()]);
        self.sediment(&words)?;
        match &self.arguments.keep_profile {
            Some(kept) => files::write(kept, &files::read(&merged)?, self.ui),
            None => Ok(()),
        }
    }
}

/// The word that loads the plugin.
fn of_plugin(plugin: &Path) -> Vec<String> {
    vec![format!("-fplugin={}", plugin.to_string_lossy())]
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::new(ErrorCode::Usage, "the path of the working folder is no text")
            .with_hint("name another folder: --work DIR")
    })
}
