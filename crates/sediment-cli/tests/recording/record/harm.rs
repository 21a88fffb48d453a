// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a recorder could easily harm: they end as without it, and nothing is left in them.

use super::forms::BuildForm;
use super::{
    RecordingFolder, Running, assert_untouched, code, err, number_in, patience, programs, repeated,
    repeated_alone, repeats, rounds, text,
};
use libtest_mimic::Trial;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    let another_user = [Need::Program("cc"), Need::Program("setpriv"), Need::Root];
    vec![
        repeated_alone("libraries_come_and_go_in_bursts", &compiler, libraries_come_and_go),
        repeated("a_program_is_let_go_while_it_loads_libraries", &compiler, let_go_while_it_loads),
        repeated(
            "program_that_becomes_unreadable_runs_on",
            &another_user,
            program_that_becomes_unreadable_runs_on,
        ),
        repeated("code_that_is_unmapped_harms_no_program", &compiler, code_is_unmapped),
        case("unreadable_programs_go_on", &another_user, unreadable_programs_go_on),
        case("programs_that_give_up_rights_go_on", &another_user, programs_that_give_up_rights_go_on),
        case("every_signal_restores_the_code", &compiler, every_signal_restores_the_code),
        case("a_killed_front_lets_the_program_go", &compiler, a_killed_front_lets_the_program_go),
        case("code_that_is_writable_is_left_alone", &compiler, code_that_is_writable_is_left_alone),
        case("a_file_that_is_replaced_is_one_loss", &compiler, a_file_that_is_replaced_is_one_loss),
        case("code_may_be_unexecutable_for_a_moment", &compiler, code_may_be_unexecutable_for_a_moment),
        case("a_process_whose_first_thread_has_ended_is_recorded", &compiler, first_thread_has_ended),
    ]
}

/// The program replaces code that it unmapped by data with the same bytes, which must not be changed.
fn code_is_unmapped() {
    let shop = RecordingFolder::new();
    let built = BuildForm::Whole.build(&shop, "unmaps", &programs::unmaps());
    let libraries =
        ["one.so", "two.so"].map(|name| shop.compile(name, &programs::library(), &["-shared", "-fPIC"]));
    let command = [text(&built.program), text(&libraries[0]), text(&libraries[1])];
    let without = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert_eq!(code(&without), 14, "{without:?}");
    let said = String::from_utf8_lossy(&without.stdout).into_owned();
    assert!(said.starts_with("data: 0 changed\ncopy: 0, library: 0, child: 300, sum "), "{said}");
    for repeat in 0..repeats() {
        for options in [&[][..], &["--overhead", "40%"], &["--affinity"]] {
            let recorded = shop.record(options, &command).output().unwrap();
            let when = format!("{options:?}, run {repeat}: {}", err(&recorded));
            assert_eq!(String::from_utf8_lossy(&recorded.stdout), said, "{when}");
            assert_eq!(code(&recorded), 14, "{when}");
            // The last one ran in a copy mapped by the program.
            built.expect(&shop.profile(), &["g0", "g19", "g30", "f59", "main"], &when);
        }
    }
}

const LIBRARY: &str = "int inner(int x) { return x * 2; } int outer(int x) { return inner(x) + 1; }";

/// Loads and unloads a library repeatedly, calling many functions in between, as often as its argument says; exits with
/// 42.
fn loads() -> String {
    let functions: String = (0..300)
        .map(|index| format!("__attribute__((noinline)) long b{index}(long x) {{ volatile long a = x + {index}; return a; }}\n"))
        .collect();
    let calls: String = (0..300).map(|index| format!("s += b{index}(s);")).collect();
    format!(
        r#"#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
{functions}
long all(long s) {{ {calls} return s; }}
int main(int count, char **words) {{
    long s = 0, rounds = atol(words[1]);
    for (long i = 0; i < rounds; i++) {{
        for (int j = 0; j < 20; j++) all(j);
        void *library = dlopen(i & 1 ? "./libone.so" : "./libtwo.so", RTLD_NOW);
        if (!library) return 1;
        s += ((int (*)(int)) dlsym(library, "outer"))((int) i & 7);
        dlclose(library);
    }}
    printf("%ld\n", s);
    return 42;
}}
"#
    )
}

fn shop_of_loads() -> (RecordingFolder, PathBuf) {
    let shop = RecordingFolder::new();
    for name in ["libone.so", "libtwo.so"] {
        shop.compile(name, LIBRARY, &["-shared", "-fPIC", "-O0"]);
    }
    let program = shop.compile("loads", &loads(), &["-ldl"]);
    (shop, program)
}

/// Worth its time: only thousands of changes reveal one in memory that another library reuses.
fn libraries_come_and_go() {
    let (shop, program) = shop_of_loads();
    let rounds = rounds(20_000);
    let without = Command::new(&program).arg(&rounds).current_dir(shop.path()).output().unwrap();
    assert_eq!(code(&without), 42);
    for _ in 0..repeats() {
        let recorded = shop.record(&["--overhead", "60%"], &[text(&program), &rounds]).output().unwrap();
        assert_eq!(code(&recorded), 42, "{}", err(&recorded));
        assert_eq!(recorded.stdout, without.stdout);
        shop.profile();
    }
}

/// Worth its time: the same, with recordings that end meanwhile.
fn let_go_while_it_loads() {
    let (shop, program) = shop_of_loads();
    let rounds = rounds(30_000);
    let without = Command::new(&program).arg(&rounds).current_dir(shop.path()).output().unwrap();
    for run in 0..2 * repeats() {
        let seconds = format!("0.{}", run % 4 + 1);
        let options = ["--startup", "--seconds", &seconds];
        let recorded = shop.record(&options, &[text(&program), &rounds]).output().unwrap();
        assert_eq!(code(&recorded), 42, "{}", err(&recorded));
        assert_eq!(recorded.stdout, without.stdout);
    }
}

/// The recorder as a user who may not read other users' processes; files of the shop are readable by all.
fn as_another_user(shop: &RecordingFolder, command: &[&str]) -> Command {
    std::fs::set_permissions(shop.path(), Permissions::from_mode(0o777)).unwrap();
    // Other users may not enter folders that root builds in.
    let sediment = shop.path().join("sediment");
    if !sediment.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &sediment).unwrap();
    }
    let mut record = Command::new("setpriv");
    record.args(["--reuid=65534", "--regid=65534", "--clear-groups", text(&sediment), "record", "-v"]);
    record.args(["-o", "recorded.gv", "--method", "call-sites", "--"]).args(command);
    record.current_dir(shop.path()).stdin(Stdio::null());
    record
}

/// As the root of a container, who may not trace processes with other rights.
fn without_the_right_to_trace(shop: &RecordingFolder, command: &[&str]) -> Command {
    let mut record = Command::new("setpriv");
    record.args(["--bounding-set", "-sys_ptrace", env!("CARGO_BIN_EXE_sediment"), "record"]);
    record.args(["-o", "recorded.gv", "--method", "call-sites", "--"]).args(command);
    record.current_dir(shop.path()).stdin(Stdio::null());
    record
}

fn output_in_time(mut command: Command) -> std::process::Output {
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let started = Instant::now();
    while running.0.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < patience(), "the recorder hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.end_of_pipes()
}

/// Becomes unreadable through the C library's function, or by its own system call, then forks; the children call
/// functions.
const UNREADABLE: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int next(int x) { return x + 1; }
__attribute__((noinline)) int last(int x) { return next(x); }
static void hide(int directly) {
    if (directly) {
#ifdef __aarch64__
        register long x8 __asm__("x8") = SYS_prctl, x0 __asm__("x0") = PR_SET_DUMPABLE, x1 __asm__("x1") = 0;
        __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
#else
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_prctl), "D"(PR_SET_DUMPABLE), "S"(0L) : "rcx", "r11", "memory");
#endif
    } else {
        prctl(PR_SET_DUMPABLE, 0);
    }
}
int main(int count, char **words) {
    int sum = 0, status;
    hide(count > 1);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) _exit(last(i));
        waitpid(child, &status, 0);
        sum += WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    }
    printf("sum=%d dumpable=%d\n", sum, prctl(PR_GET_DUMPABLE));
    return 4;
}
"#;

fn program_that_becomes_unreadable_runs_on() {
    let shop = RecordingFolder::new();
    let program = shop.compile("unreadable", UNREADABLE, &[]);
    for arguments in [&[text(&program)][..], &[text(&program), "directly"]] {
        for _ in 0..repeats() {
            let recorded = output_in_time(as_another_user(&shop, arguments));
            assert_eq!(
                String::from_utf8_lossy(&recorded.stdout),
                "sum=15 dumpable=0\n",
                "{}",
                err(&recorded)
            );
            assert_eq!(code(&recorded), 4, "{}", err(&recorded));
        }
    }
}

fn unreadable_programs_go_on() {
    let shop = RecordingFolder::new();
    let hidden = shop.compile("hidden", "int main(void) { return 3; }", &[]);
    std::fs::set_permissions(&hidden, Permissions::from_mode(0o711)).unwrap();
    let script = format!("{}; test $? = 3 && exit 23", text(&hidden));
    let recorded = output_in_time(as_another_user(&shop, &["sh", "-c", &script]));
    assert_eq!(code(&recorded), 23, "{}", err(&recorded));
    assert!(err(&recorded).contains("unreadable programs"), "{}", err(&recorded));
}

fn programs_that_give_up_rights_go_on() {
    let shop = RecordingFolder::new();
    let drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "id", "-u"];
    let recorded = output_in_time(without_the_right_to_trace(&shop, &drop));
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "65534\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    let script = format!("{}; echo end $?; exit 41", drop.join(" "));
    let recorded = output_in_time(without_the_right_to_trace(&shop, &["sh", "-c", &script]));
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "65534\nend 0\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 41, "{}", err(&recorded));
}

/// Writes its process id to a file, then calls functions until it is ended.
const BUSY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int one(int x) { volatile int a = x; return a; }
__attribute__((noinline)) int two(int x) { return one(x) + one(x + 1); }
int main(int count, char **words) {
    FILE *place = fopen(words[1], "w");
    fprintf(place, "%d\n", getpid());
    fclose(place);
    for (long i = 0;; i++) { free(malloc(i % 512)); two((int) i); }
}
"#;

/// Starts the busy program and a recorder for it; returns the recorder and the process.
fn busy_and_recorded(shop: &RecordingFolder) -> (Running, Running, i32) {
    let (busy, process) = busy(shop);
    (busy, recorded(shop, process), process)
}

fn busy(shop: &RecordingFolder) -> (Running, i32) {
    let program = shop.compile("busy", BUSY, &[]);
    let place = shop.path().join("busy.pid");
    let busy = Running(Command::new(program).arg(&place).stdin(Stdio::null()).spawn().unwrap());
    (busy, number_in(&place))
}

fn recorded(shop: &RecordingFolder, process: i32) -> Running {
    let mut record = shop.record(&["--pid", &process.to_string(), "--seconds", "50"], &[]);
    let recorder = Running(record.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    // It is traced and its code is changed.
    let started = Instant::now();
    while traced_by(process) == "0" {
        assert!(started.elapsed() < patience(), "it is not recorded");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(400));
    recorder
}

fn traced_by(process: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap().trim().to_owned()
}

/// Worth its time: a forgotten signal leaves stubs in a running process.
fn every_signal_restores_the_code() {
    let shop = RecordingFolder::new();
    let (_busy, process) = busy(&shop);
    let is_let_go = |ended: &Output, signal: &str| {
        assert_eq!(code(ended), 0, "{signal}: {}", err(ended));
        assert_untouched(process);
        shop.profile();
        std::fs::remove_file(shop.path().join("recorded.gv")).unwrap();
    };
    // Every third signal; all with SEDIMENT_LONG.
    let step = if std::env::var_os("SEDIMENT_LONG").is_some() { 1 } else { 3 };
    let to_the_front = [
        "QUIT", "USR1", "USR2", "ALRM", "XCPU", "STKFLT", "IO", "PWR", "TERM", "HUP", "VTALRM", "PROF",
        "XFSZ", "RTMIN",
    ];
    for signal in to_the_front.into_iter().step_by(step) {
        is_let_go(&recorded(&shop, process).end(&format!("-{signal}")), signal);
    }
    // The tracing process may receive signals too, for example when all processes of a service are ended.
    let to_the_recorder = ["TERM", "INT", "QUIT", "SEGV", "BUS", "ILL", "FPE", "TRAP", "SYS"];
    for signal in to_the_recorder.into_iter().step_by(step) {
        let mut recorder = recorded(&shop, process);
        let tracer = traced_by(process);
        // A thread of the process to which the signal is sent.
        let group = std::fs::read_to_string(format!("/proc/{tracer}/status")).unwrap();
        let group = group.lines().find_map(|line| line.strip_prefix("Tgid:")).unwrap().trim().to_owned();
        assert!(Command::new("kill").args([&format!("-{signal}"), &group]).status().unwrap().success());
        is_let_go(&recorder.end_of_pipes(), signal);
    }
}

fn a_killed_front_lets_the_program_go() {
    let shop = RecordingFolder::new();
    let (busy, mut recorder, process) = busy_and_recorded(&shop);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let started = Instant::now();
    while !shop.path().join("recorded.gv").exists() {
        assert!(started.elapsed() < patience(), "nothing was kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(traced_by(process), "0");
    assert_untouched(process);
    shop.profile();
    drop(busy);
}

fn code_that_is_writable_is_left_alone() {
    let shop = RecordingFolder::new();
    // A counter in the same pages as functions: a recorder that restores whole pages would lose counts.
    let source = r#"
static volatile long counter = 1;
__attribute__((noinline)) long one(long x) { return x + 1; }
__attribute__((noinline)) long two(long x) { return one(x) + 1; }
#ifdef __aarch64__
enum { WRITE = 64, EXIT_GROUP = 94, ROUNDS = 40000000 };
static long call(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#else
enum { WRITE = 1, EXIT_GROUP = 231, ROUNDS = 400000000 };
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
#endif
void _start(void) {
    long lost = 0;
    counter = 0;
    for (long i = 0; i < ROUNDS; i++) {
        counter = counter + 1;
        if (counter != i + 1) { lost++; counter = i + 1; }
        if ((i & 15) == 0) two(i);
    }
    if (lost == 0) call(WRITE, 1, (long) "whole\n", 6);
    call(EXIT_GROUP, lost ? 1 : 2, 0, 0);
}
"#;
    let flags = [
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fcf-protection=none",
        "-Wl,-N",
        "-w",
    ];
    let program = shop.compile("writable", source, &flags);
    let script = format!("{}; exit $?", text(&program));
    let recorded = shop.record(&["--overhead", "80%"], &["sh", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "whole\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 2, "{}", err(&recorded));
    assert!(err(&recorded).contains("files with writable code"), "{}", err(&recorded));
}

fn a_file_that_is_replaced_is_one_loss() {
    let shop = RecordingFolder::new();
    let script = "for i in 1 2; do printf 'int f%d(int x) { return x + %d; } int main(void) { return f%d(0); }' $i $i $i > try.c; \
                  cc -O0 -Wl,--build-id try.c -o try && ./try; echo $?; done; exit 32";
    let recorded = shop.record(&[], &["sh", "-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "1\n2\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 32, "{}", err(&recorded));
    let is_one = |line: &str| line.contains(" skipped 1: ") && line.ends_with(" for example try");
    assert!(err(&recorded).lines().any(is_one), "{}", err(&recorded));
    shop.profile();
}

fn code_may_be_unexecutable_for_a_moment() {
    let shop = RecordingFolder::new();
    for name in ["libone.so", "libtwo.so"] {
        shop.compile(name, LIBRARY, &["-shared", "-fPIC", "-O0"]);
    }
    let source = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void) {
    void *one = dlopen("./libone.so", RTLD_NOW);
    int (*f)(int) = (int (*)(int)) dlsym(one, "outer");
    void *page = (void *) ((unsigned long) f & ~4095ul);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    void *two = dlopen("./libtwo.so", RTLD_NOW);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    int (*g)(int) = (int (*)(int)) dlsym(two, "outer");
    printf("%d %d\n", f(3), g(3));
    return 12;
}
"#;
    let program = shop.compile("moment", source, &["-ldl"]);
    for options in [&[][..], &["--startup"]] {
        let recorded = shop.record(options, &[text(&program)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "7 7\n", "{}", err(&recorded));
        assert_eq!(code(&recorded), 12, "{}", err(&recorded));
    }
}

fn first_thread_has_ended() {
    let shop = RecordingFolder::new();
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int worked(int x) { volatile int a = x; return a; }
static void *work(void *place) {
    usleep(100000);
    FILE *file = fopen(place, "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    for (int i = 0;; i++) { worked(i); usleep(100); }
    return 0;
}
int main(int count, char **words) {
    pthread_t thread;
    pthread_create(&thread, 0, work, words[1]);
    pthread_exit(0);
}
"#;
    let program = shop.compile("headless", source, &[]);
    let place = shop.path().join("headless.pid");
    let running = Running(Command::new(program).arg(&place).stdin(Stdio::null()).spawn().unwrap());
    let process = number_in(&place);
    let recorded = shop.record(&["--pid", &process.to_string(), "--seconds", "1"], &[]).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    let firsts = super::firsts(&shop.profile(), "headless");
    assert!(firsts.iter().any(|(_, name)| name == "worked"), "{firsts:?}");
    drop(running);
}
