// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of meters and the recorder on small programs with known costs.

use libtest_mimic::{Arguments, Trial};
use sediment_measure::pairs;
use sediment_measure::samples::Spread;
use sediment_measure::{METERS, Reading, meter};
use sediment_process::command::{Outcome, probe, run};
use sediment_process::{Command, StandardInput};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{Need, case};

const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    libtest_mimic::run(&Arguments::from_args(), cases()).exit();
}

fn cases() -> Vec<Trial> {
    let tools = [Need::Program("cc"), Need::Program("valgrind")];
    let compiler = [Need::Program("cc")];
    vec![
        case("measure::pages_counts_each_executed_page_once", &tools, pages_counts_each_executed_page_once),
        case("measure::itlb_holds_64_pages", &tools, itlb_holds_64_pages),
        case("measure::l1i_holds_32_kilobytes", &tools, l1i_holds_32_kilobytes),
        case("measure::instructions_grow_with_the_work", &tools, instructions_grow_with_the_work),
        case("measure::exact_meters_repeat_to_the_last_digit", &tools, exact_meters_repeat_to_the_last_digit),
        case("measure::peak_memory_is_the_programs_own", &compiler, peak_memory_is_the_programs_own),
        case("measure::faults_and_times_are_of_one_run", &compiler, faults_and_times_are_of_one_run),
        case("measure::a_program_out_of_time_is_ended", &[], a_program_out_of_time_is_ended),
        case(
            "measure::a_failing_program_is_named_with_its_code",
            &tools,
            a_failing_program_is_named_with_its_code,
        ),
        case("measure::a_missing_program_is_an_error", &tools, a_missing_program_is_an_error),
        case("measure::input_reaches_the_program", &[], input_reaches_the_program),
        case("measure::output_is_kept_within_bounds", &[], output_is_kept_within_bounds),
        case("measure::pairs_tell_twice_the_work", &compiler, pairs_tell_twice_the_work),
        case("sediment_record::valgrind_counts_the_calls", &tools, valgrind_counts_the_calls),
        case(
            "sediment_record::valgrind_leaves_one_file_per_forked_process",
            &tools,
            valgrind_leaves_one_file_per_forked_process,
        ),
    ]
}

/// A folder for one case, which is removed with it.
struct CaseFolder(tempfile::TempDir);

impl CaseFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn compile(&self, source: &str) -> PathBuf {
        let file = self.path().join("program.c");
        std::fs::write(&file, source).unwrap();
        let program = self.path().join("program");
        let compile =
            Command::new("cc", self.path(), LIMIT).with_arguments(["-O1", "-o", "program", "program.c"]);
        run(&compile, 0).unwrap().successful(&compile).unwrap();
        program
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        Command::new(program, self.path(), LIMIT).with_arguments(arguments.iter().copied())
    }

    fn read(&self, name: &str, command: &Command) -> Vec<Reading> {
        let readings = (meter(name).unwrap().run)(command, self.path()).unwrap();
        let named: Vec<_> = readings.iter().map(|reading| reading.quantity).collect();
        assert!(named.iter().copied().eq(meter(name).unwrap().quantities));
        readings
    }
}

/// Makes a program with 80 functions, each at the beginning of its own page. They are called in order, `argv[1]` times.
fn program_of_80_pages() -> String {
    let mut source = String::from("#include <stdlib.h>\nstatic volatile int sink;\n");
    for number in 0..80 {
        source += &format!(
            "__attribute__((noinline, aligned(4096))) static void f{number}(void) {{ sink += {number}; }}\n"
        );
    }
    source += "__attribute__((aligned(4096))) int main(int count, char **words) {\n  for (int i = count > 1 ? atoi(words[1]) : 0; i > 0; i--) {\n";
    for number in 0..80 {
        source += &format!("    f{number}();\n");
    }
    source + "  }\n  return 0;\n}\n"
}

fn pages_counts_each_executed_page_once() {
    let shop = CaseFolder::new();
    let program = shop.compile(&program_of_80_pages());
    let pages = |rounds| shop.read("pages", &shop.command(&program, &[rounds]))[0].value;
    let (none, once, often) = (pages("0"), pages("1"), pages("50"));
    assert!(
        (80..=83).contains(&(once - none)),
        "80 functions on pages of their own added {} pages",
        once - none
    );
    assert_eq!(often, once, "a page counts once, however often it runs");
}

fn itlb_holds_64_pages() {
    let shop = CaseFolder::new();
    let program = shop.compile(&program_of_80_pages());
    let misses = |rounds| shop.read("itlb", &shop.command(&program, &[rounds]))[0].value;
    // 80 pages run in turn, with 64 entries from which the least recently used is evicted: every access misses.
    let added = misses("20") - misses("10");
    assert!((10 * 80..=10 * 82).contains(&added), "{added} misses in 10 rounds over 80 pages");
}

fn l1i_holds_32_kilobytes() {
    let shop = CaseFolder::new();
    let program = shop.compile(&program_of_80_pages());
    let misses = |rounds| shop.read("l1i", &shop.command(&program, &[rounds]))[0].value;
    // 80 lines at the same offset in their pages compete for the 8 ways of one set.
    let added = misses("20") - misses("10");
    assert!((10 * 80..=10 * 100).contains(&added), "{added}");
}

fn instructions_grow_with_the_work() {
    let shop = CaseFolder::new();
    let program = shop.compile(&program_of_80_pages());
    let instructions = |rounds| shop.read("itlb", &shop.command(&program, &[rounds]))[1].value;
    let (ten, twenty, thirty) = (instructions("10"), instructions("20"), instructions("30"));
    assert_eq!(thirty - twenty, twenty - ten, "ten rounds cost the same whenever they run");
    assert!(twenty - ten >= 10 * 80 * 4, "{} instructions for 800 calls", twenty - ten);
}

fn exact_meters_repeat_to_the_last_digit() {
    let shop = CaseFolder::new();
    let command = shop.command(&shop.compile(&program_of_80_pages()), &["7"]);
    for name in ["itlb", "l1i", "pages"] {
        assert!(meter(name).unwrap().quantities.iter().all(|quantity| quantity.repeatable));
        assert_eq!(shop.read(name, &command), shop.read(name, &command), "{name}");
    }
    let left: Vec<_> =
        std::fs::read_dir(shop.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the meters leave no files behind: {left:?}");
}

fn peak_memory_is_the_programs_own() {
    const MIB: u64 = 1 << 20;
    let shop = CaseFolder::new();
    let program = shop.compile(
        "#include <signal.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
         static volatile int heard;\n\
         static void hear(int signal) { heard = signal; }\n\
         int main(int count, char **words) {\n\
           signal(SIGRTMIN + 3, hear); raise(SIGRTMIN + 3); if (heard != SIGRTMIN + 3) return 1;\n\
           size_t size = (size_t)atoi(words[1]) << 20;\n\
           if (count > 2 && fork()) { wait(0); return 0; }\n\
           volatile char *block = malloc(size + 1);\n\
           for (size_t i = 0; i < size; i += 512) block[i] = 1;\n  free((void *)block);\n  return 0;\n}\n",
    );
    // This process is made larger than the child, because the kernel's own figure for a child would begin at the peak
    // of this process.
    let ballast = vec![1u8; 200 << 20];
    let peak = |arguments: &[&str]| shop.read("peak-memory", &shop.command(&program, arguments))[0].value;
    let (small, large, in_child) = (peak(&["0"]), peak(&["64"]), peak(&["64", "fork"]));
    assert!(ballast.iter().all(|byte| *byte == 1));
    assert!(small < 16 * MIB, "a program that touches nothing had {small} bytes");
    assert!((64 * MIB..80 * MIB).contains(&large), "a program that touches 64 MiB had {large} bytes");
    assert!(
        (64 * MIB..80 * MIB).contains(&in_child),
        "a forked process that touches 64 MiB had {in_child} bytes"
    );
}

fn faults_and_times_are_of_one_run() {
    let shop = CaseFolder::new();
    let program = shop.compile(
        "#include <stdlib.h>\n#include <sys/mman.h>\nint main(int count, char **words) {\n\
           size_t pages = (size_t)atoi(words[1]);\n\
           char *block = mmap(0, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
           madvise(block, (pages + 1) * 4096, MADV_NOHUGEPAGE);\n\
           for (size_t i = 0; i < pages; i++) block[i * 4096] = 1;\n\
           for (volatile long i = 0; i < 1000000L * atoi(words[2]); i++) {}\n  return count == 0;\n}\n",
    );
    let read = |arguments: &[&str]| {
        let readings = shop.read("rusage", &shop.command(&program, arguments));
        let value = |name| readings.iter().find(|reading| reading.quantity.name == name).unwrap().value;
        (value("user time"), value("minor faults"))
    };
    // The expensive run comes first. If the sum over all children were read, the cheap run would look equally
    // expensive.
    let (dear_time, dear_faults) = read(&["4000", "200"]);
    let (cheap_time, cheap_faults) = read(&["0", "0"]);
    // Because of fault-around, the program's own start varies by a few faults.
    assert!((3900..4400).contains(&(dear_faults - cheap_faults)), "{dear_faults} and {cheap_faults} faults");
    assert!(dear_time > 10 * cheap_time.max(1000), "{dear_time} and {cheap_time} microseconds");
}

fn a_program_out_of_time_is_ended() {
    let shop = CaseFolder::new();
    let mark = shop.path().join("mark");
    let script = format!("(sleep 3; echo late > '{}') & sleep 60", mark.display());
    for name in ["rusage", "peak-memory"] {
        let command =
            Command::new("sh", shop.path(), Duration::from_millis(300)).with_arguments(["-c", &script]);
        let started = Instant::now();
        let error = (meter(name).unwrap().run)(&command, shop.path()).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(error.to_string().contains("0.3 s"), "{error}");
    }
    std::thread::sleep(Duration::from_secs(4));
    assert!(!mark.exists(), "what the program had started was not ended with it");
}

fn a_failing_program_is_named_with_its_code() {
    let shop = CaseFolder::new();
    let failing =
        Command::new("/bin/sh", shop.path(), LIMIT).with_arguments(["-c", "echo no such table >&2; exit 23"]);
    let killed = Command::new("/bin/sh", shop.path(), LIMIT).with_arguments(["-c", "kill -SEGV $$"]);
    for meter in METERS {
        let error = (meter.run)(&failing, shop.path()).unwrap_err();
        assert!(error.to_string().contains("code 23"), "{}: {error}", meter.name);
        if meter.needs != "valgrind" {
            assert!(error.hint().unwrap().contains("no such table"), "{error:?}");
        }
        let error = (meter.run)(&killed, shop.path()).unwrap_err();
        assert!(error.to_string().contains("SIGSEGV"), "{}: {error}", meter.name);
    }
    let error = sediment_record::valgrind::calls_of(&failing, shop.path()).unwrap_err();
    assert!(error.to_string().contains("code 23"), "{error}");
}

fn a_missing_program_is_an_error() {
    let shop = CaseFolder::new();
    for meter in METERS {
        let missing = shop.command(&shop.path().join("nowhere"), &[]);
        assert!((meter.run)(&missing, shop.path()).is_err(), "{}", meter.name);
    }
    let hint = "install it";
    let error = probe("sediment-has-no-such-tool", &[], hint).unwrap_err();
    assert_eq!((error.kind(), error.hint()), (sediment_core::ErrorKind::Unsupported, Some(hint)));
}

fn input_reaches_the_program() {
    let shop = CaseFolder::new();
    let file = shop.path().join("input");
    std::fs::write(&file, "from a file").unwrap();
    for (input, expected) in [
        (StandardInput::Empty, ""),
        (StandardInput::Bytes(b"from memory".to_vec()), "from memory"),
        (StandardInput::File(file), "from a file"),
    ] {
        let command = Command { input, ..Command::new("cat", shop.path(), LIMIT) };
        let ended = run(&command, 100).unwrap();
        assert_eq!(String::from_utf8(ended.output).unwrap(), expected);
    }
    let nowhere = Command {
        input: StandardInput::File("/no/such/file".into()),
        ..Command::new("cat", shop.path(), LIMIT)
    };
    let error = run(&nowhere, 100).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
    // The input is larger than a pipe's buffer, and the program does not read it.
    let deaf =
        Command { input: StandardInput::Bytes(vec![0; 1 << 20]), ..Command::new("true", shop.path(), LIMIT) };
    assert_eq!(run(&deaf, 0).unwrap().outcome, Outcome::Exited(0));
}

fn output_is_kept_within_bounds() {
    let shop = CaseFolder::new();
    let script =
        "head -c 1000000 /dev/zero; echo first >&2; head -c 200000 /dev/zero >&2; echo >&2; echo last >&2";
    let command = Command::new("sh", shop.path(), LIMIT).with_arguments(["-c", script]);
    let ended = run(&command, 1000).unwrap();
    assert_eq!((ended.output.len(), ended.output_dropped), (1000, 999_000));
    assert_eq!((ended.errors().len(), ended.last_words().as_deref()), (64 * 1024, Some("last")));
    // A process left running holds the pipes open, but is not waited for.
    let daemon = Command::new("sh", shop.path(), LIMIT).with_arguments(["-c", "sleep 20 & echo here"]);
    let started = Instant::now();
    assert_eq!(run(&daemon, 1000).unwrap().output, b"here\n");
    assert!(started.elapsed() < Duration::from_secs(15));
}

fn pairs_tell_twice_the_work() {
    let shop = CaseFolder::new();
    let program = shop.compile(
        "#include <stdlib.h>\nint main(int count, char **words) {\n\
           for (volatile long i = 0; i < 1000000L * atoi(words[1]); i++) {}\n  return count == 0;\n}\n",
    );
    let (once, thrice) = (shop.command(&program, &["12"]), shop.command(&program, &["36"]));
    let mut told = 0;
    let measured = pairs::run(&once, &thrice, 5, |done| told = done).unwrap();
    assert_eq!((measured.len(), told), (5, 5));
    let spread = Spread::of(&pairs::ratios(&measured, |usage| usage.user)).unwrap();
    assert!((2.0..4.5).contains(&spread.median), "three times the work took {spread:?}");
}

fn valgrind_counts_the_calls() {
    let shop = CaseFolder::new();
    let program = shop.compile(&program_of_80_pages());
    let recorder = sediment_record::recorder("valgrind").unwrap();
    (recorder.available)().unwrap();
    let files = sediment_record::valgrind::calls_of(&shop.command(&program, &["13"]), shop.path()).unwrap();
    assert_eq!(files.len(), 1);
    let text = String::from_utf8(files[0].bytes.clone()).unwrap();
    assert!(text.contains("events: Ir"));
    // main calls each function 13 times; names may be compressed to numbers.
    let calls = text.lines().filter(|line| line.starts_with("calls=13 ")).count();
    assert!(calls >= 80, "{calls} calls that were made 13 times");
    assert!(!shop.path().join("callgrind").exists(), "the private folder is removed");
}

fn valgrind_leaves_one_file_per_forked_process() {
    let shop = CaseFolder::new();
    let program = shop.compile(
        "#include <sys/wait.h>\n#include <unistd.h>\nint main(void) { if (fork()) wait(0); return 0; }\n",
    );
    let files = sediment_record::valgrind::calls_of(&shop.command(&program, &[]), shop.path()).unwrap();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| file.name.starts_with("callgrind.out.") && !file.bytes.is_empty()));
}
