// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the programs of GCC's own testsuite with sediment's plugin and random counts, and runs them. A program that
//! passes without the plugin must pass with it.
//!
//! `c_torture TESTSUITE PLUGIN SEDIMENT JOURNAL SECONDS ROUND LANGUAGE LEVEL` adds a line for each program to the
//! journal, skips programs that the journal has, and ends with status 3 if time ran out. Round 1 has all forms with the
//! first seed; each further round has the forms with counts, with another seed.
//!
//! Run by `scripts/prove c-torture`.
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::panic)] // a proof that cannot run has nothing to say

use sediment_core::binary::{Binary, NoFiles};
use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::random_counts;
use tempfile::TempDir;

/// One in so many programs is also compiled with GCC's own checks.
const CHECKED: usize = 8;
/// Limits in seconds of one compilation and of one run.
const LIMITS: (&str, &str) = ("1200", "60");
/// What a build with counters adds; `docs/beyond-functions.md` has the same.
const USE: &str = "-fprofile-use -fprofile-partial-training -fprofile-correction -fno-unroll-loops -fno-peel-loops \
                   -Wno-missing-profile -Wno-coverage-mismatch";
const BLOCKS: &str = "-fplugin-arg-sediment-blocks";
const COUNTS: &str = "-fplugin-arg-sediment-profile=counts";
const COUNTERS: &str = "-fplugin-arg-sediment-counters=counters";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
}

struct SuiteSettings {
    suite: PathBuf,
    plugin: String,
    sediment: PathBuf,
    round: u64,
    language: Language,
    level: String,
}

/// Results of one program: the form and what came out, in order.
type ProgramResults = Vec<(String, String)>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [suite, plugin, sediment, journal, seconds, round, language, level] = &arguments[..] else {
        eprintln!("c_torture TESTSUITE PLUGIN SEDIMENT JOURNAL SECONDS ROUND LANGUAGE LEVEL");
        return ExitCode::from(2);
    };
    let settings = SuiteSettings {
        suite: suite.into(),
        plugin: format!("-fplugin={plugin}"),
        sediment: sediment.into(),
        round: round.parse().unwrap(),
        language: if language == "C" { Language::C } else { Language::Cxx },
        level: level.clone(),
    };
    let end = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let row = format!("{round}\t{language}\t{level}\t");
    let known = fs::read_to_string(journal).unwrap_or_default();
    let done: HashSet<&str> =
        known.lines().filter_map(|line| line.strip_prefix(&row)?.split('\t').next()).collect();
    let programs = programs(&settings);
    let journal = Mutex::new(fs::OpenOptions::new().create(true).append(true).open(journal).unwrap());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while Instant::now() < end {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(place) else { break };
                    let name = program.strip_prefix(&settings.suite).unwrap().display().to_string();
                    if done.contains(name.as_str()) {
                        continue;
                    }
                    let lines: String = results(&settings, program, place)
                        .into_iter()
                        .map(|(form, result)| format!("{row}{name}\t{form}\t{result}\n"))
                        .collect();
                    journal.lock().unwrap().write_all(lines.as_bytes()).unwrap();
                }
            });
        }
    });
    if next.into_inner() < programs.len() { ExitCode::from(3) } else { ExitCode::SUCCESS }
}

/// The programs of a language, in the order of their names.
fn programs(settings: &SuiteSettings) -> Vec<PathBuf> {
    let (folder, end) = match settings.language {
        Language::C => ("gcc.c-torture/execute", "c"),
        Language::Cxx => ("g++.dg", "C"),
    };
    let mut found = Vec::new();
    let mut folders = vec![settings.suite.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Each of these tests needs a library of its own.
                folders.extend((!path.ends_with("builtins")).then_some(path));
            } else if path.extension().is_some_and(|own| own == end)
                && (settings.language == Language::C || is_run(&text_of(&path)))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

fn is_run(text: &str) -> bool {
    text.lines()
        .any(|line| line.split_once("dg-do").is_some_and(|(_, rest)| rest.trim_start().starts_with("run")))
}

/// The words that a test wants on its command line: options for this machine, and further sources.
fn words_of(text: &str, path: &Path) -> Vec<String> {
    let mut words = Vec::new();
    for line in text.lines() {
        if let Some((_, selector)) = line.split_once("dg-do") {
            let newest = ["c++20", "c++2a", "c++23"].into_iter().rfind(|version| selector.contains(version));
            words.extend(newest.map(|version| version.replace("c++", "-std=gnu++")));
        }
        for (directive, is_source) in
            [("dg-options", false), ("dg-additional-options", false), ("dg-additional-sources", true)]
        {
            let Some((_, rest)) = line.split_once(directive) else { continue };
            let Some((options, selector)) = rest.split_once('"').and_then(|(_, rest)| rest.split_once('"'))
            else {
                continue;
            };
            let is_here =
                ["x86_64", "i?86", "*-*-*", "lp64", "c++"].iter().any(|machine| selector.contains(machine));
            if selector.contains("target") && !is_here {
                continue;
            }
            let folder = path.parent().unwrap();
            words.extend(options.split_whitespace().map(|word| {
                if is_source { folder.join(word).display().to_string() } else { word.to_owned() }
            }));
        }
    }
    words
}

/// A program of the testsuite, and the folder for its builds.
struct Tested<'a> {
    settings: &'a SuiteSettings,
    folder: TempDir,
    source: String,
    words: Vec<String>,
}

/// Exit status and output of a run, or why it was not built.
type RunOutcome = Result<(Option<i32>, Vec<u8>), String>;

impl Tested<'_> {
    /// Runs a command in the folder, for a limited time.
    fn run(&self, limit: &str, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.current_dir(self.folder.path()).args(["-k", "5", limit, program]).args(words);
        command.env("LC_ALL", "C").stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// Compiles with further options. The optimisation of the round is the last option.
    fn compile(&self, more: &str, output: &str, is_linked: bool) -> Result<(), String> {
        let compiler = if self.settings.language == Language::C { "gcc" } else { "g++" };
        let mut words = vec!["-w", "-Wl,--build-id=none"];
        words.extend(self.words.iter().map(String::as_str));
        words.extend(more.split_whitespace());
        words.extend([self.settings.level.as_str(), &self.source, "-o", output]);
        words.extend(if is_linked { ["-lm"] } else { ["-c"] });
        let output = self.run(LIMITS.0, compiler, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return Ok(());
        }
        let line = said.lines().find(|line| line.contains("error") || line.contains("failure"));
        let line = line.or(said.lines().last()).unwrap_or("no message");
        Err(format!("not compiled: {}", line.replace('\t', " ")))
    }

    fn outcome(&self, more: &str, output: &str) -> RunOutcome {
        self.compile(more, output, true)?;
        let ran = self.run(LIMITS.1, &format!("./{output}"), &[]);
        Ok((ran.status.code(), ran.stdout))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Cold parts of functions in a program.
    fn cold_parts(&self, name: &str) -> usize {
        let bytes = self.bytes(name);
        let Ok(binary) = Binary::parse(&bytes, &NoFiles) else { return 0 };
        binary.functions.iter().filter(|function| function.name.contains(".cold")).count()
    }

    /// The program without symbols and debug information.
    fn stripped(&self, name: &str) -> Vec<u8> {
        let stripped = format!("{name}.stripped");
        self.run(LIMITS.1, "strip", &["-s", "-o", &stripped, name]);
        self.bytes(&stripped)
    }

    /// Counters of a run of an instrumented build, in the file for the compiler.
    fn counters(&self) -> Option<String> {
        self.compile("-fprofile-generate -ftest-coverage", "instrumented", true).ok()?;
        self.run(LIMITS.1, "./instrumented", &[]);
        let sediment = self.settings.sediment.display().to_string();
        for words in [
            &["import", ".", "-o", "p.gv"][..],
            &["export", "p.gv", "--format", "counters", "-o", "recorded"],
        ] {
            if !self.run(LIMITS.0, &sediment, words).status.success() {
                return None;
            }
        }
        let text = String::from_utf8(self.bytes("recorded")).ok();
        // GCC would read these in a build with counters.
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "gcda" || end == "gcno") {
                fs::remove_file(path).unwrap();
            }
        }
        text
    }
}

fn results(settings: &SuiteSettings, program: &Path, place: usize) -> ProgramResults {
    let text = text_of(program);
    let tested = Tested {
        settings,
        folder: TempDir::new().unwrap(),
        source: program.display().to_string(),
        words: words_of(&text, program),
    };
    let mut results = ProgramResults::new();
    let stock = tested.outcome("", "stock");
    match &stock {
        Ok((Some(0), _)) => {}
        Ok((code, _)) => return vec![("stock".to_owned(), format!("fails: {code:?}"))],
        Err(why) => return vec![("stock".to_owned(), why.clone())],
    }
    // Output that differs between two runs, such as addresses, is not compared.
    let again = tested.run(LIMITS.1, "./stock", &[]).stdout;
    let has_same_output = stock.as_ref().is_ok_and(|(_, output)| *output == again);
    results.push(("stock".to_owned(), format!("ok {}", tested.cold_parts("stock"))));
    let mut compare = |form: &str, found: RunOutcome, program: &str| {
        let expected = stock.as_ref().unwrap();
        let result = match found {
            Err(why) => why,
            Ok((code, _)) if code != expected.0 => format!("fails: {code:?}"),
            Ok((_, output)) if has_same_output && output != expected.1 => "prints something else".to_owned(),
            Ok(_) => format!("ok {}", tested.cold_parts(program)),
        };
        results.push((form.to_owned(), result));
    };
    let plugin = settings.plugin.as_str();
    let seed = seed_of(settings.round, &tested.source);
    let numbered = tested.outcome(&format!("{plugin} {BLOCKS}"), "numbered");
    let is_numbered = numbered.is_ok();
    let numbered = numbered.and_then(|found| {
        let is_same = tested.stripped("stock") == tested.stripped("numbered");
        if is_same { Ok(found) } else { Err("other code than without numbers".to_owned()) }
    });
    compare("numbers", numbered, "numbered");
    let counts = is_numbered.then(|| random_counts::blocks(&tested.bytes("numbered"), seed)).flatten();
    if let Some(counts) = &counts {
        fs::write(tested.folder.path().join("counts"), counts).unwrap();
        compare("blocks", tested.outcome(&format!("{plugin} {COUNTS}"), "blocks"), "blocks");
    }
    let counters = tested.counters();
    if let Some(counters) = &counters {
        fs::write(tested.folder.path().join("counters"), random_counts::counters(counters, seed)).unwrap();
        let with = format!("{plugin} {COUNTERS} {USE} {BLOCKS}");
        compare("counters", tested.outcome(&with, "counted"), "counted");
        if let Some(counts) = random_counts::blocks(&tested.bytes("counted"), seed) {
            fs::write(tested.folder.path().join("counts"), counts).unwrap();
            compare("both", tested.outcome(&format!("{with} {COUNTS}"), "both"), "both");
        }
    }
    if settings.round == 1 && place % CHECKED == 0 {
        if let Some(counts) = &counts {
            fs::write(tested.folder.path().join("counts"), counts).unwrap();
        }
        results.extend(check(&tested, counts.is_some(), counters.is_some()));
    }
    results
}

/// A seed for each program and round.
fn seed_of(round: u64, source: &str) -> u64 {
    let name = source.rsplit('/').next().unwrap_or(source);
    name.bytes().fold(round, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte))
}

/// GCC's own checks: of its data after each pass, and of the same code with and without debug information.
fn check(tested: &Tested<'_>, has_counts: bool, has_counters: bool) -> ProgramResults {
    let mut results = ProgramResults::new();
    let plugin = tested.settings.plugin.as_str();
    let forms = [
        (has_counts, "blocks", format!("{plugin} {COUNTS} {BLOCKS}")),
        (has_counters, "counters", format!("{plugin} {COUNTERS} {USE} {BLOCKS}")),
    ];
    for option in ["-fchecking=2", "-fcompare-debug"] {
        if tested.compile(option, "checked.o", false).is_err() {
            continue;
        }
        for (_, form, with) in forms.iter().filter(|(has, ..)| *has) {
            let found = tested.compile(&format!("{with} {option}"), "checked.o", false);
            let result = found.err().unwrap_or_else(|| "ok 0".to_owned());
            results.push((format!("{form} {option}"), result));
        }
    }
    results
}
