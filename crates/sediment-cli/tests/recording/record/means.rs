// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other recording methods: chosen by the user, used by default if they are the best, and ended by the interrupt
//! key.

use super::{RecordingFolder, Running, calls, code, compilers, err, number_in, programs, text, wait};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{Need, case, root};

pub fn cases() -> Vec<Trial> {
    let both = [Need::Program("cc"), Need::Program("valgrind"), Need::Program("perf")];
    let blocks = [compilers::COMPILERS[0].needs, &[Need::Program("perf")]].concat();
    vec![
        case("samples_tell_blocks", &blocks, samples_tell_blocks),
        case(
            "samples_are_of_cycles_where_these_are_counted",
            &[Need::Program("cc")],
            samples_are_of_cycles_where_these_are_counted,
        ),
        case("other_means_can_be_chosen", &both, other_means_can_be_chosen),
        case("the_interrupt_key_ends_every_recording", &both, the_interrupt_key_ends_every_recording),
        case("the_whole_machine_is_recorded", &both, the_whole_machine_is_recorded),
        case(
            "branch_records_are_taken_where_they_are",
            &[Need::Program("cc")],
            branch_records_are_taken_where_they_are,
        ),
        case(
            "a_perf_without_events_is_not_taken",
            &[Need::Program("cc")],
            a_perf_without_events_is_not_taken,
        ),
    ]
}

fn sediment() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sediment"))
}

fn other_means_can_be_chosen() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &["-fno-omit-frame-pointer"]);
    let record = |method: &str| {
        let mut record = sediment();
        record.args(["record", "-o", "recorded.gv", "--method", method, "--"]).arg(&program);
        record.current_dir(shop.path()).stdin(Stdio::null()).output().unwrap()
    };
    let recorded = record("valgrind");
    assert_eq!((code(&recorded), recorded.stdout.ends_with(b"the end\n")), (7, true), "{}", err(&recorded));
    assert_eq!(calls(&shop.profile(), "work", "f17"), 20_000, "valgrind counts every call");
    // A run of some milliseconds may have few samples on a busy machine.
    let samples = || {
        let recorded = record("perf-stacks");
        assert_eq!(
            (code(&recorded), recorded.stdout.ends_with(b"the end\n")),
            (7, true),
            "{}",
            err(&recorded)
        );
        calls(&shop.profile(), "main", "work")
    };
    assert!((0..5).any(|_| samples() > 0));
    let doctor = sediment().arg("doctor").output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(is_default(&said, "call-sites: ") && said.contains("valgrind: "), "{said}");
    assert!(said.contains("perf-branches"), "{said}");
}

/// Works until it is told to end, after writing its process id to the file in its argument.
fn worker() -> String {
    programs::plain().replace(
        "int main(void) {",
        "#include <signal.h>\nint main(int count, char **arguments) {\n\
         \x20   FILE *file = fopen(arguments[1], \"w\"); fprintf(file, \"%d\\n\", getpid()); fclose(file);\n\
         \x20   for (long i = 0; i < 2000000; i++) work(20);\n",
    )
}

fn the_interrupt_key_ends_every_recording() {
    let shop = RecordingFolder::new();
    let program = shop.compile("worker", &worker(), &["-fno-omit-frame-pointer"]);
    let place = shop.path().join("worker.pid");
    for method in ["call-sites", "perf-stacks", "valgrind"] {
        let _ = std::fs::remove_file(&place);
        let _ = std::fs::remove_file(shop.path().join("recorded.gv"));
        // Background processes are started with the interrupt key ignored; here it must arrive.
        let mut record = Command::new("env");
        record.args(["--default-signal=INT", env!("CARGO_BIN_EXE_sediment"), "record", "-o", "recorded.gv"]);
        record.args(["--method", method, "--", text(&program), text(&place)]).current_dir(shop.path());
        record.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let recorder = Running(record.spawn().unwrap());
        let process = number_in(&place);
        std::thread::sleep(Duration::from_millis(400));
        for id in [recorder.0.id(), process as u32] {
            // One may have ended because the other did.
            let _ =
                Command::new("kill").args(["-INT", &id.to_string()]).stderr(Stdio::null()).status().unwrap();
        }
        let ended = wait(recorder);
        assert!(shop.path().join("recorded.gv").exists(), "{method}: {}", err(&ended));
        let profile = shop.profile();
        assert!(
            calls(&profile, "main", "work") > 0 || calls(&profile, "work", "f17") > 0,
            "{method}: {}",
            err(&ended)
        );
    }
}

fn the_whole_machine_is_recorded() {
    let allowed = Command::new("perf")
        .args(["record", "-q", "-a", "-e", "cpu-clock:u", "-o", "/dev/null", "--", "true"])
        .output()
        .unwrap();
    if !allowed.status.success() {
        return support::skip_on_this_machine("this user may not record the whole machine");
    }
    let shop = RecordingFolder::new();
    let program = shop.compile("worker", &worker(), &["-fno-omit-frame-pointer"]);
    let place = shop.path().join("worker.pid");
    let worker = Running(Command::new(&program).arg(&place).stdout(Stdio::null()).spawn().unwrap());
    number_in(&place);
    let mut record = sediment();
    record.args(["record", "-v", "--system", "--seconds", "1", "-o", "recorded.gv"]).current_dir(shop.path());
    let recorded = record.stdin(Stdio::null()).output().unwrap();
    drop(worker);
    assert!(code(&recorded) == 0 && err(&recorded).contains(" by perf-"), "{}", err(&recorded));
    let profile = shop.profile();
    assert!(calls(&profile, "main", "work") > 0, "{}", err(&recorded));
    let by_call_sites = sediment().args(["record", "--system", "--method", "call-sites"]).output().unwrap();
    assert_eq!(code(&by_call_sites), 2, "{}", err(&by_call_sites));
}

/// True if the doctor lists this method as the default.
fn is_default(doctor: &str, means: &str) -> bool {
    doctor.lines().any(|line| line.contains(means) && line.contains("`sediment record`"))
}

/// A machine with branch records, simulated by stand-ins for the kernel, which allows them, and for perf, which reports
/// having recorded one.
fn branch_records_are_taken_where_they_are() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &[]);
    let recorded_there = root().join("tests/golden/read/perf-script/branches-by-name/input");
    let run = with_perf_of(&shop, &recorded_there);
    let recorded = run(&["record", "-v", "-o", "recorded.gv", "--", text(&program)]);
    assert_eq!((code(&recorded), recorded.stdout.ends_with(b"the end\n")), (7, true), "{}", err(&recorded));
    assert!(err(&recorded).contains(" by perf-branches\n"), "{}", err(&recorded));
    assert_eq!(calls(&shop.profile(), "main", "hot"), 3);
    let doctor = run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(is_default(&said, "perf-branches: "), "{said}");
}

/// perf 6.12 if /sys is not mounted: it records nothing, but succeeds.
fn a_perf_without_events_is_not_taken() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &[]);
    // Header: sizes of itself and of an event; sections of no events, of eight bytes of records, of no event types; no
    // features.
    let numbers: [u64; 12] = [104, 152, 104, 0, 104, 8, 0, 0, 0, 0, 0, 0];
    let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let nothing = shop.path().join("nothing.data");
    std::fs::write(&nothing, [b"PERFILE2", &header[..], &[68, 0, 0, 0, 0, 0, 8, 0]].concat()).unwrap();
    let run = with_perf_of(&shop, &nothing);
    let recorded = run(&["record", "-o", "recorded.gv", "--", text(&program)]);
    assert_eq!((code(&recorded), recorded.stdout.ends_with(b"the end\n")), (7, true), "{}", err(&recorded));
    assert!(calls(&shop.profile(), "main", "work") > 0, "{}", err(&recorded));
    let doctor = run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!is_default(&said, "perf-branches: ") && said.contains(" /sys:"), "{said}");
}

/// A stand-in for a kernel that allows every event.
const KERNEL: &str = "#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f)
{
  if (number == SYS_perf_event_open)
    return open(\"/dev/null\", O_RDONLY | O_CLOEXEC);
  long (*next)(long, ...) = (long (*)(long, ...)) dlsym(RTLD_NEXT, \"syscall\");
  return next(number, a, b, c, d, e, f);
}
";

/// Runs sediment with a stand-in for perf that copies a file as its recording, where the kernel allows branch records.
fn with_perf_of(shop: &RecordingFolder, recorded: &Path) -> impl Fn(&[&str]) -> Output {
    let script = format!(
        "[ \"$branches\" = any_call,u ] || exit 1\n\"$@\"\nended=$?\ncp '{}' \"$output\"\nexit $ended\n",
        recorded.display()
    );
    let run = beside_perf(shop, &script);
    let kernel = shop.compile("kernel.so", KERNEL, &["-shared", "-fPIC", "-ldl"]);
    let before = format!("LD_PRELOAD={}", text(&kernel));
    move |arguments| run(&[&["env", &before, env!("CARGO_BIN_EXE_sediment")], arguments].concat())
}

/// Runs commands with a stand-in for perf: a shell script that receives the program and its arguments, and variables
/// with the version of perf, the event, the output, and whether branches or stacks are requested.
fn beside_perf(shop: &RecordingFolder, script: &str) -> impl Fn(&[&str]) -> Output + use<> {
    let perf = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo perf version 6.1.0; exit; }}\nkind=$1\n\
         while [ $# -gt 0 ] && [ \"$1\" != -- ]; do\n\
         \x20   [ \"$1\" = -o ] && output=$2\n    [ \"$1\" = -j ] && branches=$2\n\
         \x20   [ \"$1\" = -e ] && event=$2\n    [ \"$1\" = -g ] && stacks=yes\n    shift\ndone\nshift\n{script}"
    );
    let tools = shop.path().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::write(tools.join("perf"), perf).unwrap();
    std::fs::set_permissions(tools.join("perf"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", text(&tools), std::env::var("PATH").unwrap());
    let folder = shop.path().to_owned();
    move |words| {
        let mut run = Command::new(words[0]);
        run.args(&words[1..]).env("PATH", &path).current_dir(&folder).stdin(Stdio::null()).output().unwrap()
    }
}

/// Machines without branch records, with or without a cycle counter, simulated by stand-ins for perf. If tracing
/// is forbidden, samples use the event that doctor gives as the reason.
fn samples_are_of_cycles_where_these_are_counted() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &[]);
    let sandbox = shop.compile("sandbox", crate::sandbox::SANDBOX, &[]);
    let stacks = root().join("tests/golden/read/perf-script/call-chains/input");
    let sediment = env!("CARGO_BIN_EXE_sediment");
    for (count, event, reason) in
        [("1000", "cycles:u", "cycles"), ("<not supported>", "cpu-clock:u", "clock")]
    {
        let script = format!(
            "if [ $kind = stat ]; then echo \"{count},,$event,1000,100.00,,\"; exit; fi\n\
             [ \"$stacks\" = yes ] || exit 1\n[ \"$1\" = true ] || echo $event >event\n\
             \"$@\"\nended=$?\ncp '{}' \"$output\"\nexit $ended\n",
            stacks.display()
        );
        let run = beside_perf(&shop, &script);
        for before in [&[text(&sandbox), sediment][..], &[sediment]] {
            let is_sandboxed = before.len() > 1;
            let method: &[&str] = if is_sandboxed { &[] } else { &["--method", "perf-stacks"] };
            let words = [before, &["record", "-o", "recorded.gv"], method, &["--", text(&program)]].concat();
            let recorded = run(&words);
            let printed = recorded.stdout.ends_with(b"the end\n");
            assert_eq!((code(&recorded), printed), (7, true), "{event}: {}", err(&recorded));
            let asked = std::fs::read_to_string(shop.path().join("event")).unwrap();
            assert_eq!(asked.trim(), event, "{}", err(&recorded));
            assert!(calls(&shop.profile(), "main", "hot") > 0, "{event}: {}", err(&recorded));
            let doctor = run(&[before, &["doctor", "--json"]].concat());
            let said: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
            let goal = |name: &str| {
                let goals = said["goals"].as_array().unwrap();
                let goal = goals.iter().find(|goal| goal["goal"] == name).unwrap();
                ["method", "reason"].map(|key| goal[key].as_str().unwrap_or("none").to_owned())
            };
            if is_sandboxed {
                assert_eq!(goal("calls"), ["perf-stacks", reason]);
                assert_eq!(goal("starts"), ["none", "none"]);
            } else {
                assert_eq!(goal("calls"), ["call-sites", "every-call"]);
            }
        }
    }
}

/// Samples of a program with a map of its blocks.
fn samples_tell_blocks() {
    let source = "#include <stdio.h>\n\
        __attribute__((noinline)) long step(long x) { if (x % 3) return x * 7 + 1; return x / 3; }\n\
        __attribute__((noinline)) long work(long n) { long s = 1; for (long i = 0; i < n; i++) s = step(s + i) & 0xffffff; return s; }\n\
        int main(void) { printf(\"%ld\\n\", work(160000000)); return 7; }\n";
    let shop = RecordingFolder::new();
    let plugin = compilers::COMPILERS[0].plugin();
    let program = shop.compile("steps", source, &["-g", &plugin, "-fplugin-arg-sediment-blocks"]);
    let without = Command::new(&program).output().unwrap();
    let mut record = sediment();
    // Enough samples of a program that runs for a second or two.
    record.args([
        "record",
        "-o",
        "recorded.gv",
        "--method",
        "perf-stacks",
        "-e",
        "cpu-clock:u",
        "-F",
        "4000",
        "--",
    ]);
    let recorded = record.arg(&program).current_dir(shop.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!((code(&recorded), &recorded.stdout), (7, &without.stdout), "{}", err(&recorded));
    let profile = shop.profile();
    for name in ["step", "work"] {
        let mut functions = profile.functions().into_iter();
        let function = functions.find(|function| profile.key(*function).name == name);
        let function = function.unwrap_or_else(|| panic!("no sample of {name}: {}", err(&recorded)));
        assert!(profile.facts(function).blocks.is_some(), "{name}: {}", err(&recorded));
    }
    let mut export = sediment();
    export.args(["export", "recorded.gv", "--format", "blocks"]).current_dir(shop.path());
    let exported = export.output().unwrap();
    let blocks = String::from_utf8_lossy(&exported.stdout).into_owned();
    let counted = blocks.lines().find(|line| line.starts_with("step\t")).unwrap_or_default();
    let counts =
        counted.split([' ', '\t', '@']).filter_map(|word| word.split_once('=')?.1.parse::<u128>().ok());
    assert!(counts.sum::<u128>() > 0, "{blocks}: {}", err(&exported));
}
