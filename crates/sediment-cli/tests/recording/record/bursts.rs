// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--method call-sites` for a part of the time: in bursts, and for processes that are already running.

use super::call_sites::{record, recorder_of};
use super::{RecordingFolder, Running, assert_untouched, calls, code, err, number_in, slower, text};
use libtest_mimic::Trial;
use sediment_core::profile::Profile;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Vec::new();
    }
    let compiler = [Need::Program("cc")];
    vec![
        case("bursts_stand_for_all_calls", &compiler, bursts),
        case("calls_are_noted_in_their_order", &compiler, affinity),
        case("calls_of_running_processes_are_counted", &compiler, running),
        case(
            "processes_of_users_and_under_filters_are_attached_to",
            &[Need::Program("cc"), Need::Program("setpriv"), Need::Root],
            users_and_filters,
        ),
        case("a_running_process_survives_its_recorder", &compiler, recorder_is_killed),
    ]
}

/// Works until SIGTERM; under a filter that allows everything, or that ends a process which maps code.
const FILTERED: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile int over;
static void end(int signal) { over = 1; }
__attribute__((noinline)) long one(long x) { return x + 1; }
__attribute__((noinline)) long two(long x) { return one(x) * 3; }
int main(int count, char **words) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter forbid[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, allow};
    signal(SIGTERM, end);
    FILE *place = fopen(words[1], "w"); fprintf(place, "%d\n", getpid()); fclose(place);
    if (words[2][0] == 'f') filter = (struct sock_fprog){sizeof forbid / sizeof *forbid, forbid};
    if (words[2][0] != 'n' && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))) return 9;
    volatile long sum = 0;
    while (!over) sum = two(sum) & 0xffff;
    return 7;
}
"#;

/// Root records processes of several users. A filter is read, and its process is recorded only if it allows that.
fn users_and_filters() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("attaching under filters was never tried there");
    }
    let shop = RecordingFolder::new();
    std::fs::set_permissions(shop.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = shop.compile("filtered", FILTERED, &[]);
    let start = |user: &str, filter: &str| {
        let place = shop.path().join(format!("{user}.pid"));
        let [user, group] = ["--reuid", "--regid"].map(|option| format!("{option}={user}"));
        let mut command = Command::new("setpriv");
        command.args([&user, &group, "--clear-groups"]).arg(&program).arg(&place).arg(filter);
        let running = Running(command.stdin(Stdio::null()).spawn().unwrap());
        (running, number_in(&place))
    };
    let all = [start("65534", "none"), start("65533", "allow"), start("65532", "forbid")];
    // Their filters are set soon after the files are written.
    std::thread::sleep(Duration::from_millis(100));
    let ids: Vec<String> = all.iter().map(|(_, id)| id.to_string()).collect();
    let processes: Vec<&str> = ids.iter().flat_map(|id| ["--pid", id]).collect();
    let recorded = record(&shop, &[&processes[..], &["--seconds", "0.5"]].concat(), &[]).output().unwrap();
    let said = err(&recorded);
    assert_eq!(code(&recorded), 0, "{said}");
    assert!(calls(&shop.profile(), "main", "two") > 1000, "{said}");
    assert!(
        said.contains("(2 programs,") && said.contains(&format!("process {}: a seccomp filter", ids[2])),
        "{said}"
    );
    for (running, id) in all {
        assert_untouched(id);
        assert_eq!(code(&running.end("-TERM")), 7, "{said}");
    }
}

/// Calls of known shares for a second or two, in threads, under a timer's signals.
const ROUNDS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#define FUNCTION __attribute__((noinline, noclone))
static volatile long work, rings;
static int done;
FUNCTION long one(long x) { work += x; return x + 1; }
FUNCTION long three(long x) { work += x; return x + 2; }
FUNCTION long rare(long x) { work += x; return x + 3; }
static long (*volatile chosen)(long) = one;
FUNCTION long turn(long x) { x = chosen(x); for (int i = 0; i < 3; i++) x += three(x); return x & 7; }
FUNCTION long rang(long x) { return x + 1; }
static void ring(int signal) { rings = rang(rings); }
static void *rounds(void *number) {
    long sum = 0, all = *(long *)number;
    for (long i = 0; i < all; i++) { sum += turn(i); if (i == all / 2 && !__atomic_exchange_n(&done, 1, __ATOMIC_SEQ_CST)) sum += rare(i); }
    return (void *)sum;
}
int main(int count, char **words) {
    struct sigaction action = { .sa_handler = ring, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 500 }, { 0, 500 } };
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    long number = atol(words[1]), sum = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, rounds, &number);
    for (int i = 0; i < 2; i++) { void *one; pthread_join(threads[i], &one); sum += (long)one; }
    printf("%ld %d\n", sum, rings > 0);
    return 3;
}
"#;

/// Records the program, which must behave as without a recorder. Returns the profile and the recorder's output.
fn recorded_rounds(options: &[&str], rounds: u64) -> (Profile, String) {
    let shop = RecordingFolder::new();
    let program = shop.compile("rounds", ROUNDS, &["-O1", "-pthread"]);
    let recorded = record(&shop, options, &[text(&program), &rounds.to_string()]).output().unwrap();
    let said = err(&recorded);
    assert_eq!((code(&recorded), recorded.stdout), (3, expected(&shop, rounds)), "{said}");
    (shop.profile(), said)
}

/// Calls counted in bursts represent all calls, and a function that is called once is found at any time.
fn bursts() {
    let rounds = 60_000_000 / slower();
    let (profile, said) = recorded_rounds(&["--overhead", "20"], rounds);
    assert!(said.contains(" bursts "), "{said}");
    let counted = |from, to| calls(&profile, from, to) as f64;
    for (to, share) in [("one", 1.0), ("three", 3.0)] {
        let share = counted("turn", to) / counted("rounds", "turn") / share;
        assert!((0.9..1.1).contains(&share), "{to}: {share}, {said}");
    }
    // Bursts have a fixed duration, in which a busy machine may do less.
    let found = counted("rounds", "turn") / (2 * rounds) as f64;
    assert!((0.4..2.5).contains(&found), "{found}, {said}");
    assert_eq!(calls(&profile, "rounds", "rare"), 1, "{said}");
    let uncertain = profile.quality.uncertain.unwrap();
    assert!((1_000..900_000).contains(&uncertain.0), "{uncertain:?}");
}

/// Threads note which functions run close in time, and their calls are counted as exactly as without it.
fn affinity() {
    let rounds = 10_000_000 / slower();
    let (profile, _) = recorded_rounds(&["--exact", "--affinity"], rounds);
    let rounds = u128::from(rounds);
    let near = |from: &str, to: &str| {
        let edges = profile.edges().into_iter();
        let is_it = |index, name| profile.key(index).name == name;
        let found = edges.filter(|(caller, callee, _)| is_it(*caller, from) && is_it(*callee, to));
        found.filter_map(|(.., facts)| facts.affinity).sum::<u128>()
    };
    // three is called three times in a row by turn; one is called through a pointer.
    let [one, three, back] = [near("turn", "one"), near("turn", "three"), near("three", "turn")];
    assert!(one > 100 && three > 2 * one && back > 2 * one, "{one} {three} {back}");
    assert_eq!(calls(&profile, "rounds", "turn"), 2 * rounds);
    assert_eq!(calls(&profile, "rounds", "rare"), 1);
    assert_eq!(calls(&profile, "turn", "three"), 6 * rounds);
}

/// Starts a program that takes some seconds.
fn started(shop: &RecordingFolder, rounds: u64) -> Child {
    let program = shop.compile("rounds", ROUNDS, &["-O1", "-pthread"]);
    Command::new(program).arg(rounds.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

/// What a program prints without a recorder.
fn expected(shop: &RecordingFolder, rounds: u64) -> Vec<u8> {
    let output = Command::new(shop.path().join("rounds")).arg(rounds.to_string()).output().unwrap();
    assert_eq!(code(&output), 3);
    output.stdout
}

/// Number of our mappings in a process.
fn ours_in(process: u32) -> usize {
    let mapped = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    mapped.lines().filter(|line| line.contains("/memfd:sediment")).count()
}

/// The recorder attaches to a process twice: its calls are counted, nothing of ours stays, and it behaves as without a
/// recorder.
fn running() {
    let rounds = 150_000_000 / slower();
    let shop = RecordingFolder::new();
    let program = started(&shop, rounds);
    let id = program.id().to_string();
    for options in [&["--exact"][..], &["--overhead", "30"]] {
        let how = [&["--pid", &id, "--seconds", "0.7"][..], options].concat();
        let recorded = record(&shop, &how, &[]).output().unwrap();
        let said = err(&recorded);
        assert_eq!(code(&recorded), 0, "{said}");
        let profile = shop.profile();
        let turns = calls(&profile, "rounds", "turn") as f64;
        assert!(turns > 1000.0, "{said}");
        let share = calls(&profile, "turn", "three") as f64 / turns / 3.0;
        assert!((0.9..1.1).contains(&share), "{share}, {said}");
        // A thread that gets no processor stays in a stub, which a message reports.
        if !said.contains("keep the recorder's memory") {
            assert_eq!(ours_in(program.id()), 0, "{said}");
        }
    }
    let output = program.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(3), expected(&shop, rounds)));
}

/// SIGKILL ends the recorder while it counts, at several moments: the program goes on.
fn recorder_is_killed() {
    const WAIT: Duration = Duration::from_secs(20);
    let rounds = 40_000_000 / slower();
    let shop = RecordingFolder::new();
    for moment in [20, 120, 180, 240, 300, 600] {
        let program = started(&shop, rounds);
        let mut recorder = record(&shop, &["--pid", &program.id().to_string(), "--overhead", "30"], &[])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(moment * slower().min(10)));
        // At first there is no tracing process, or a child that checks its permissions in the kernel and ends.
        let killed =
            |id: u32| Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success();
        let tracing = recorder_of(recorder.id());
        assert!(tracing.is_some_and(killed) || killed(recorder.id()), "{moment} ms");
        recorder.wait().unwrap();
        let begun = Instant::now();
        let output = program.wait_with_output().unwrap();
        assert!(begun.elapsed() < WAIT, "{moment} ms");
        assert_eq!((output.status.code(), output.stdout), (Some(3), expected(&shop, rounds)), "{moment} ms");
    }
}
