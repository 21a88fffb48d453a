// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--method call-sites`: programs of many kinds behave as without it, and every call is counted.

use super::{RecordingFolder, calls, code, err, firsts, number_of, slower, text};
use libtest_mimic::Trial;
use sediment_core::profile::Profile;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Vec::new();
    }
    let compiler = [Need::Program("cc")];
    let cxx = [Need::Program("c++")];
    let strips = [Need::Program("cc"), Need::Program("strip")];
    let another_user = [Need::Program("cc"), Need::Program("setpriv"), Need::Root];
    let tracer = [Need::Program("strace")];
    let chosen = [Need::Program("cc"), Need::Program("objcopy"), Need::Program("prlimit")];
    let debugger = [Need::Program("cc"), Need::Program("gdb")];
    vec![
        case("every_kind_of_call_is_counted", &compiler, every_kind_of_call_is_counted),
        case("static_programs_are_counted", &compiler, static_programs_are_counted),
        case("stripped_programs_are_counted", &strips, stripped_programs_are_counted),
        case("calls_of_threads_and_processes_are_counted", &compiler, threads_and_processes),
        case("calls_of_libraries_are_counted", &compiler, libraries),
        case("exceptions_pass_call_sites", &cxx, exceptions),
        case("signals_and_seccomp_pass_call_sites", &compiler, signals_and_seccomp),
        case("programs_run_on_when_the_recording_ends", &compiler, recording_ends_before),
        case("a_recording_ends_while_programs_begin", &compiler, ends_while_programs_begin),
        case("what_outlives_the_program_runs_on", &[Need::Program("setsid")], outlived),
        case("programs_run_on_when_the_recorder_is_killed", &compiler, recorder_is_killed),
        case("programs_with_other_rights_are_left_alone", &another_user, other_rights),
        case("tracers_work_under_call_sites", &tracer, tracers_work),
        case("debuggers_work_under_call_sites", &debugger, debuggers_work),
        case("what_call_sites_cannot_record_is_refused", &compiler, refusals),
        case("the_method_is_chosen_by_what_is_asked", &chosen, chosen_method),
    ]
}

/// Has its call sites recorded.
pub(super) fn record(shop: &RecordingFolder, options: &[&str], command: &[&str]) -> Command {
    let mut record = Command::new(env!("CARGO_BIN_EXE_sediment"));
    record.args(["record", "-v", "-o", "recorded.gv", "--method", "call-sites"]).args(options);
    record.current_dir(shop.path()).stdin(Stdio::null());
    if !command.is_empty() {
        record.arg("--").args(command);
    }
    record
}

/// Runs a program with and without a recorder, and checks that it behaves the same. Returns the output and the profile.
fn compare(shop: &RecordingFolder, command: &[&str]) -> (Output, Profile) {
    let plain = Command::new(command[0]).args(&command[1..]).current_dir(shop.path()).output().unwrap();
    let recorded = record(shop, &[], command).output().unwrap();
    let when = format!("{command:?}: {}", err(&recorded));
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&plain.stdout), "{when}");
    assert_eq!(code(&recorded), as_a_shell(&plain), "{when}");
    (recorded, shop.profile())
}

fn as_a_shell(output: &Output) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap())
}

/// Each kind of call a known number of times.
pub(super) const KINDS: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define FUNCTION __attribute__((noinline, noclone))
static volatile long work;
static jmp_buf place;
FUNCTION long direct(long x) { work += x; return x + 1; }
FUNCTION long last(long x) { work += x; return x + 2; }
FUNCTION long jumps(long x) { work++; return last(x + 3); }
FUNCTION long one(long x) { work += 1; return x; }
FUNCTION long two(long x) { work += 2; return x; }
FUNCTION long three(long x) { work += 3; return x; }
FUNCTION long four(long x) { work += 4; return x; }
static long (*volatile table[4])(long) = { one, two, three, four };
FUNCTION long through(int which, long x) { return table[which](x) + 1; }
FUNCTION long onwards(int which, long x) { work++; return table[which](x); }
FUNCTION long maybe(long (*f)(long), long x) { if (f) x += f(x); return x + 1; }
FUNCTION long down(long n) { if (n == 0) return direct(0); long y = down(n - 1); work += y; return y + 1; }
FUNCTION void leap(long n) { if (n == 0) longjmp(place, 1); leap(n - 1); work++; }
FUNCTION long choose(long n) {
    switch (n % 8) {
    case 0: return direct(n); case 1: return one(n); case 2: return two(n); case 3: return three(n);
    case 4: return four(n); case 5: return last(n) + 1; case 6: return n * 3; default: return n;
    }
}
FUNCTION int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int count, char **words) {
    long sum = 0;
    for (int i = 0; i < 1000; i++) sum += direct(i);
    for (int i = 0; i < 700; i++) sum += jumps(i);
    for (int i = 0; i < 400; i++) sum += through(i % 4, i);
    for (int i = 0; i < 800; i++) sum += onwards(i % 4, i);
    for (int i = 0; i < 500; i++) sum += maybe(i % 5 ? one : 0, i);
    for (int i = 0; i < 8000; i++) sum += choose(i);
    sum += down(90);
    for (int i = 0; i < 10; i++) if (!setjmp(place)) leap(4);
    int numbers[2] = { 2, 1 };
    qsort(numbers, 2, sizeof *numbers, compare);
    printf("%ld %ld %d\n", sum, work, numbers[0]);
    if (count > 1) raise(SIGKILL);
    return 5;
}
"#;

/// Counts of [`KINDS`].
const KINDS_COUNTED: [(&str, &str, u128); 20] = [
    ("main", "direct", 1000),
    ("main", "jumps", 700),
    ("jumps", "last", 700),
    ("main", "through", 400),
    ("through", "one", 100),
    ("through", "two", 100),
    ("through", "three", 100),
    ("through", "four", 100),
    ("main", "onwards", 800),
    ("onwards", "one", 200),
    ("onwards", "four", 200),
    ("maybe", "one", 400),
    ("main", "choose", 8000),
    ("choose", "direct", 1000),
    ("choose", "three", 1000),
    ("choose", "last", 1000),
    ("down", "down", 90),
    ("main", "down", 1),
    ("leap", "leap", 40),
    ("main", "leap", 10),
];

fn expect_kinds(profile: &Profile, when: &str) {
    for (caller, callee, expected) in KINDS_COUNTED {
        assert_eq!(calls(profile, caller, callee), expected, "{caller} -> {callee}, {when}");
    }
    let firsts: Vec<String> = firsts(profile, "kinds").into_iter().map(|(_, name)| name).collect();
    let place = |name: &str| firsts.iter().position(|found| found == name);
    let order = ["main", "direct", "jumps", "last", "through", "one", "two"].map(place);
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{firsts:?}, {when}");
}

fn every_kind_of_call_is_counted() {
    // At -O1 GCC makes tail calls only if an option requests them.
    for flags in
        [&["-O2"][..], &["-O1", "-foptimize-sibling-calls", "-no-pie", "-fno-pie"], &["-O2", "-fno-plt"]]
    {
        let shop = RecordingFolder::new();
        let program = shop.compile("kinds", KINDS, flags);
        let when = format!("{flags:?}");
        let (_, profile) = compare(&shop, &[text(&program)]);
        expect_kinds(&profile, &when);
        let recorded = || certain(&std::fs::read_to_string(shop.path().join("recorded.gv")).unwrap());
        let first = recorded();
        // The counts of a killed program are kept. Its last calls may have been in another order.
        let (_, profile) = compare(&shop, &[text(&program), "killed"]);
        expect_kinds(&profile, &when);
        compare(&shop, &[text(&program)]);
        assert!(first == recorded(), "two recordings of the same work differ, {when}");
    }
}

/// The profile; on AArch64 the counts of edges that do not depend on where the kernel places libraries, which the dynamic linker
/// aligns there to more than a page.
fn certain(profile: &str) -> String {
    if cfg!(target_arch = "x86_64") {
        return profile.to_owned();
    }
    let edges = profile.lines().filter(|line| line.contains(" -> ") && !line.contains("\"munmap\""));
    edges
        .map(|edge| edge.replace(['.', '='], " "))
        .map(|edge| {
            let (names, counts) = edge.split_once('[').unwrap_or_default();
            format!("{names}{}\n", counts.rsplit(' ').next().unwrap_or_default())
        })
        .collect()
}

fn static_programs_are_counted() {
    for flags in [&["-O2", "-static"][..], &["-O2", "-static-pie"]] {
        let shop = RecordingFolder::new();
        let program = shop.compile("kinds", KINDS, flags);
        let (_, profile) = compare(&shop, &[text(&program)]);
        expect_kinds(&profile, &format!("{flags:?}"));
    }
}

/// Without symbols, functions are addresses; the counts equal those of the same file with symbols.
fn stripped_programs_are_counted() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2", "-Wl,--build-id"]);
    let symbols = Command::new("nm").arg(&program).output().unwrap();
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        format!("{address:#x}")
    };
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let (_, profile) = compare(&shop, &[text(&program)]);
    for (caller, callee, expected) in KINDS_COUNTED {
        assert_eq!(calls(&profile, &address(caller), &address(callee)), expected, "{caller} -> {callee}");
    }
}

/// Threads that call at once, processes that fork, vfork and exec, and a child that is killed.
const THREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline, noclone))
static volatile __thread long work;
FUNCTION long called(long x) { work += x; return x; }
FUNCTION void *thread(void *none) { for (long i = 0; i < 200000; i++) called(i); return none; }
FUNCTION void child(void) { for (long i = 0; i < 1000; i++) called(i); }
int main(int count, char **words) {
    if (count > 1) { called(1); return 3; }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, thread, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    int status, codes = 0;
    for (int i = 0; i < 6; i++) {
        pid_t process = fork();
        if (process == 0) { child(); if (i == 5) raise(SIGKILL); _exit(i); }
        if (i == 3) continue;
        waitpid(process, &status, 0);
        codes += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    }
    while (wait(&status) > 0) codes += WEXITSTATUS(status);
    pid_t process = vfork();
    if (process == 0) { execl("/proc/self/exe", "threads", "again", (char *)0); _exit(9); }
    waitpid(process, &status, 0);
    printf("%d %d\n", codes, WEXITSTATUS(status));
    return 0;
}
"#;

fn threads_and_processes() {
    let shop = RecordingFolder::new();
    let program = shop.compile("threads", THREADS, &["-O2"]);
    let (_, profile) = compare(&shop, &[text(&program)]);
    assert_eq!(calls(&profile, "thread", "called"), 800_000);
    assert_eq!(calls(&profile, "child", "called"), 6000);
    assert_eq!(calls(&profile, "main", "called"), 1);
}

fn libraries() {
    let library = r"
        static volatile long work;
        __attribute__((noinline)) long inner(long x) { work += x; return x + 1; }
        __attribute__((constructor)) void begins(void) { inner(0); }
        long outer(long x) { return inner(x) + inner(x) + 1; }
    ";
    let loads = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <signal.h>
        int main(int count, char **words) {
            long sum = 0;
            signal(SIGTRAP, SIG_IGN);
            for (int i = 0; i < 3; i++) {
                void *library = dlopen(words[1], RTLD_NOW);
                if (!library) { puts(dlerror()); return 2; }
                long (*outer)(long) = (long (*)(long))dlsym(library, "outer");
                for (int k = 0; k < 100; k++) sum += outer(k);
                dlclose(library);
            }
            printf("%ld\n", sum);
            return 4;
        }
    "#;
    let shop = RecordingFolder::new();
    let library = shop.compile("library.so", library, &["-O2", "-shared", "-fPIC"]);
    let program = shop.compile("loads", loads, &["-ldl"]);
    let (_, profile) = compare(&shop, &[text(&program), text(&library)]);
    assert_eq!(calls(&profile, "main", "outer"), 300);
    assert_eq!(calls(&profile, "outer", "inner"), 600);
    assert_eq!(calls(&profile, "begins", "inner"), 3);
}

fn exceptions() {
    let source = r#"
        #include <cstdio>
        #include <stdexcept>
        #include <vector>
        struct Base { virtual ~Base() {} virtual int value(int) = 0; };
        struct One : Base { int value(int x) override { if (x % 10 == 0) throw std::runtime_error("ten"); return 1; } };
        struct Two : Base { int value(int x) override { return 2 + x; } };
        struct Guard { int *count; ~Guard() { ++*count; } };
        __attribute__((noinline)) int ask(Base &base, int x, int *count) { Guard guard{count}; return base.value(x) + 1; }
        int main() {
            One one; Two two; std::vector<Base *> all{&one, &two};
            int caught = 0, count = 0; long sum = 0;
            for (int i = 0; i < 1000; i++) {
                try { sum += ask(*all[i & 1], i, &count); } catch (const std::exception &) { caught++; }
            }
            std::printf("%d %d %ld\n", caught, count, sum);
            return 6;
        }
    "#;
    let shop = RecordingFolder::new();
    let file = shop.path().join("throws.cc");
    std::fs::write(&file, source).unwrap();
    let program = shop.path().join("throws");
    let built = Command::new("c++").args(["-O2", "-o"]).arg(&program).arg(&file).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (_, profile) = compare(&shop, &[text(&program)]);
    let asked = |callee: &str| {
        let edges = profile.edges();
        let from_ask = edges.iter().filter(|(from, to, _)| {
            profile.key(*from).name.starts_with("_Z3ask") && profile.key(*to).name.starts_with(callee)
        });
        from_ask.map(|(_, _, facts)| facts.count.unwrap_or(0)).sum::<u128>()
    };
    assert_eq!((asked("_ZN3One5value"), asked("_ZN3Two5value")), (500, 500));
}

/// Signals at any point, on a separate stack, and a filter that allows only the system calls of the program.
const SIGNALS: &str = r#"
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline, noclone))
static volatile long work, rang;
FUNCTION long called(long x) { work += x; return x; }
FUNCTION void from_handler(void) { rang++; }
static void on_alarm(int signal) { from_handler(); work++; }
static void on_trap(int signal) { rang += 1000000; }
int main(int count, char **words) {
    static char memory[65536];
    stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
    sigaltstack(&stack, 0);
    struct sigaction alarm = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART };
    sigaction(SIGALRM, &alarm, 0);
    signal(SIGTRAP, on_trap);
    raise(SIGTRAP);
    struct itimerval often = { { 0, 500 }, { 0, 500 } };
    setitimer(ITIMER_REAL, &often, 0);
    for (long i = 0; i < 20000000 && rang < 1000050; i++) called(i);
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &never, 0);
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { 5, rules };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    for (long i = 0; i < 1000; i++) called(i);
    char said[] = "well\n";
    write(1, said, rang >= 1000050 ? 5 : 0);
    syscall(SYS_exit_group, 7);
}
"#;

fn signals_and_seccomp() {
    let shop = RecordingFolder::new();
    let program = shop.compile("signals", SIGNALS, &["-O2", "-Wno-unused-result"]);
    let (_, profile) = compare(&shop, &[text(&program)]);
    assert!(calls(&profile, "main", "called") > 1000);
    assert!(calls(&profile, "on_alarm", "from_handler") >= 50);
}

/// Runs for a second or more, and prints whether its code equals the file.
const RUNS_ON: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline, noclone))
static volatile __thread long work;
FUNCTION long called(long x) { work += x; return x; }
static long (*volatile pointer)(long) = called;
FUNCTION long through(long x) { return pointer(x) + 1; }
static volatile int over;
static void *thread(void *none) { while (!over) { called(1); through(1); } return none; }
int main(int count, char **words) {
    pthread_t other; pthread_create(&other, 0, thread, 0);
    struct timespec begun, now; clock_gettime(CLOCK_MONOTONIC, &begun);
    do { for (int i = 0; i < 1000; i++) { called(i); through(i); } clock_gettime(CLOCK_MONOTONIC, &now); }
    while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < 1500 * atoi(words[1]));
    over = 1; pthread_join(other, 0);
    // The call of the pointer has its opcode (x86-64, AArch64) or not.
    const unsigned char *code = (const unsigned char *)through; int original = 0;
    for (int i = 0; i < 32; i++) if (code[i] == 0xff || code[i] == 0x3f && code[i + 1] == 0xd6) original = 1;
    printf("well\n"); fprintf(stderr, "code %s\n", original ? "as before" : "changed");
    return 3;
}
"#;

fn recording_ends_before() {
    let shop = RecordingFolder::new();
    let program = shop.compile("runs", RUNS_ON, &["-O2"]);
    let times = slower().min(10);
    let seconds = format!("{:.1}", 0.7 * times as f64);
    let command = [text(&program), &times.to_string()];
    let recorded = record(&shop, &["--seconds", &seconds], &command).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "well\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 3, "{}", err(&recorded));
    assert!(err(&recorded).contains("code as before"), "{}", err(&recorded));
    let profile = shop.profile();
    assert!(calls(&profile, "main", "called") > 1000 && calls(&profile, "through", "called") > 1000);
}

/// A recording ends when the started program has ended, even if other processes remain.
fn outlived() {
    let shop = RecordingFolder::new();
    let begun = Instant::now();
    let script = "setsid sleep 300 <&- >&- 2>&- & echo $!; exit 3";
    let recorded = record(&shop, &[], &["sh", "-c", script]).output().unwrap();
    let took = begun.elapsed();
    let child = String::from_utf8_lossy(&recorded.stdout).trim().to_owned();
    let is_untraced = |status: &str| status.contains("TracerPid:\t0\n");
    let mut status = String::new();
    // It may be about to execute `sleep`.
    while begun.elapsed() < Duration::from_secs(60) {
        status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        if status.contains("State:\tS") || !is_untraced(&status) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = Command::new("kill").arg(&child).status();
    assert_eq!(code(&recorded), 3, "{}", err(&recorded));
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(is_untraced(&status) && status.contains("State:\tS"), "{status}");
    shop.profile();
}

/// Threads that start programs: when the recording ends, some wait for a child in the kernel, and some end because
/// another executes a program.
const BEGINS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static char *self;
static void *waits(void *none) { for (;;) pause(); }
static void *becomes(void *none) { execl(self, self, "last", NULL); abort(); }
static void *spawns(void *none) {
    char *words[] = { self, "last", NULL };
    for (int i = 0; i < 150; i++) {
        pid_t child; int status;
        if (posix_spawn(&child, self, NULL, NULL, words, environ) || waitpid(child, &status, 0) != child || status) abort();
    }
    return NULL;
}
int main(int count, char **words) {
    self = words[0];
    if (count > 1 && words[1][0] == 'l') return 0;
    pthread_t thread;
    if (count > 1) {
        for (int i = 0; i < 4; i++) pthread_create(&thread, 0, waits, 0);
        pthread_create(&thread, 0, becomes, 0);
        for (;;) pause();
    }
    pthread_create(&thread, 0, spawns, 0);
    for (int i = 0; i < 120; i++) {
        pid_t child = fork(); int status;
        if (child == 0) { execl(self, self, "threads", NULL); abort(); }
        if (waitpid(child, &status, 0) != child || status) abort();
    }
    pthread_join(thread, 0);
    puts("well");
    return 5;
}
"#;

fn ends_while_programs_begin() {
    let shop = RecordingFolder::new();
    let program = shop.compile("begins", BEGINS, &["-O2"]);
    for seconds in ["0.2", "0.4"] {
        let recorded = record(&shop, &["--seconds", seconds], &[text(&program)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "well\n", "{}", err(&recorded));
        assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    }
}

/// The recorder is killed at any moment of a start: the program and its children run on.
fn recorder_is_killed() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let script = format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {}; done; exit 4", text(&program));
    let plain = Command::new("sh").args(["-c", &script]).output().unwrap();
    for step in 0..number_of("SEDIMENT_REPEATS").unwrap_or(1) * 8 {
        let recording = record(&shop, &[], &["sh", "-c", &script]);
        let mut recording = { recording };
        let recording = recording.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis((60 + 37 * step % 400) * slower()));
        if let Some(recorder) = recorder_of(recording.id()) {
            let _ = Command::new("kill").args(["-KILL", &recorder.to_string()]).status();
        }
        let ended = recording.wait_with_output().unwrap();
        if ended.stdout.is_empty() {
            // It had not begun.
            continue;
        }
        assert_eq!(ended.stdout, plain.stdout, "step {step}: {}", err(&ended));
        assert_eq!(code(&ended), 4, "step {step}: {}", err(&ended));
    }
}

/// The process that records, a child of the front of the same name.
pub(super) fn recorder_of(front: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).ok()?;
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    let name = |child: &u32| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    children.find(|child| name(child).trim() == "sediment")
}

/// A program with the rights of its owner, started by another user.
fn other_rights() {
    let shop = RecordingFolder::new();
    let folder = Path::new("/tmp").join(format!("sediment-rights-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\\n\", geteuid() == 0); return 5; }\n";
    let program = shop.compile("rights", source, &[]);
    let placed = folder.join("rights");
    std::fs::copy(&program, &placed).unwrap();
    std::fs::set_permissions(&placed, std::fs::Permissions::from_mode(0o4755)).unwrap();
    // Recorded as root, through a shell: the program has its rights, and is not recorded.
    let recorded = record(&shop, &[], &["setpriv", "--reuid", "65534", text(&placed)]).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "1\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 5, "{}", err(&recorded));
}

fn tracers_work() {
    let shop = RecordingFolder::new();
    let recorded =
        record(&shop, &[], &["sh", "-c", "strace -o traced -f sh -c 'exit 6'; exit $?"]).output().unwrap();
    assert_eq!(code(&recorded), 6, "{}", err(&recorded));
    let traced = std::fs::read_to_string(shop.path().join("traced")).unwrap();
    assert!(traced.contains("execve") && traced.contains("exited with 6"), "{traced}");
    // Without other programs there is nothing to record; the exit code is the program's.
    let recorded = record(&shop, &[], &["strace", "-o", "traced", "sh", "-c", "exit 6"]).output().unwrap();
    assert_eq!(code(&recorded), 6, "{}", err(&recorded));
}

fn debuggers_work() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let command = ["-batch", "-ex", "break last", "-ex", "run", "-ex", "backtrace", "-ex", "kill"];
    let recorded =
        record(&shop, &[], &[&["gdb"], &command[..], &["--args", text(&program)]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&recorded.stdout).into_owned();
    assert!(said.contains("Breakpoint 1, "), "{said} {}", err(&recorded));
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
}

fn refusals() {
    let shop = RecordingFolder::new();
    for options in [&["--system"][..], &["--blocks", "--", "true"]] {
        let refused = record(&shop, options, &[]).output().unwrap();
        assert_eq!(code(&refused), 2, "{options:?}: {}", err(&refused));
        assert!(err(&refused).contains("hint: use "), "{options:?}: {}", err(&refused));
    }
    // With our memory in it, the program would reach a memory limit earlier.
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let limited = format!("ulimit -v 200000; exec {}", text(&program));
    let recorded = record(&shop, &[], &["sh", "-c", &limited]).output().unwrap();
    assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    assert!(err(&recorded).contains("limit of memory"), "{}", err(&recorded));
}

/// Executes another program under a filter that allows everything, as containers do.
const FILTERS: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog filter = { 1, allow };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    return execvp(words[1], words + 1);
}
"#;

/// Without a given method, every call is counted, unless blocks are asked for, or call sites cannot record the program.
fn chosen_method() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let filters = shop.compile("filters", FILTERS, &[]);
    let method_under = |confined: &[&str], options: &[&str]| {
        let record = [env!("CARGO_BIN_EXE_sediment"), "record", "-v", "-o", "recorded.gv"];
        let words = [confined, &record, options, &["--", text(&program)]].concat();
        let recorded = Command::new(words[0]).args(&words[1..]).current_dir(shop.path()).output().unwrap();
        let said = err(&recorded);
        let line = said.lines().find_map(|line| line.split_once("recording by ")).expect(&said).1.to_owned();
        let chosen = line.split(' ').next().unwrap().to_owned();
        let recorded = chosen != "call-sites" || !firsts(&shop.profile(), "kinds").is_empty();
        assert!(recorded, "{words:?}: {said}");
        chosen
    };
    let method = |options: &[&str]| method_under(&[], options);
    let usual = method(&[]);
    // Or branch records, if the processor has them.
    assert!(["call-sites", "perf-branches"].contains(&&*usual), "{usual}");
    assert_eq!(method(&["--exclude", "libc.so.6"]), usual);
    assert_eq!(method(&["--overhead", "5"]), usual);
    assert_eq!(method(&["--max-memory", "64M"]), usual);
    assert_eq!(method(&["--exact"]), "call-sites");
    assert_eq!(method(&["--until", "OUTPUT"]), usual);
    // Options of former versions have no effect.
    assert_eq!(method(&["--share-processor", "--trampolines", "--seed", "3"]), usual);
    assert!(["valgrind", "perf-branches"].contains(&&*method(&["--blocks"])));
    // A filter of the recorder's own that allows all calls is no reason; it applies to the program, too.
    assert_eq!(method_under(&[text(&filters)], &[]), usual);
    for confined in [["prlimit", "--as=8000000000"], ["prlimit", "--fsize=800000000"]] {
        assert_ne!(method_under(&confined, &[]), "call-sites", "{confined:?}");
    }
    assert!(
        Command::new("objcopy")
            .args(["--remove-section", ".eh_frame"])
            .arg(&program)
            .status()
            .unwrap()
            .success()
    );
    assert_ne!(method(&[]), "call-sites", "without unwind tables");
}
