// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that use SIGTRAP before they are recorded: they get no breakpoints, and a message reports it.

use super::{RecordingFolder, Running, assert_untouched, code, err, firsts, number_in, text};
use libtest_mimic::Trial;
use std::io::Write as _;
use std::process::{Command, Stdio};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    vec![
        case("running_programs_keep_their_sigtrap", &compiler, running_programs),
        case("programs_keep_an_ignored_sigtrap", &compiler, inherited_use),
        case("programs_of_go_have_no_breakpoints", &compiler, runtime_of_go),
    ]
}

/// Writes its process id to a file, waits for a line, then prints whether SIGTRAP is handled as before.
const WAITS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void on_trap(int signal) { }
static void *thread(void *none) { return none; }
static int handler(void) {
    struct sigaction now; sigaction(SIGTRAP, 0, &now);
    return now.sa_handler == on_trap ? 2 : now.sa_handler == SIG_IGN ? 1 : 0;
}
__attribute__((noinline)) int one(int x) { volatile int a = x; return a; }
int main(int count, char **words) {
    if (!strcmp(words[2], "handles")) signal(SIGTRAP, on_trap);
    if (!strcmp(words[2], "blocks")) {
        sigset_t trap; sigemptyset(&trap); sigaddset(&trap, SIGTRAP); sigprocmask(SIG_BLOCK, &trap, 0);
    }
    FILE *place = fopen(words[1], "w");
    fprintf(place, "%d\n", getpid());
    fclose(place);
    char line[8];
    while (fgets(line, sizeof line, stdin)) one(1);
    pthread_t other; pthread_create(&other, 0, thread, 0); pthread_join(other, 0);
    sigset_t now; sigprocmask(SIG_BLOCK, 0, &now);
    printf("%d %d\n", handler(), sigismember(&now, SIGTRAP));
    return 0;
}
"#;

fn running_programs() {
    for (how, expected) in [("handles", "2 0\n"), ("blocks", "0 1\n")] {
        let shop = RecordingFolder::new();
        let place = shop.path().join("place");
        let program = shop.compile("waits", WAITS, &[]);
        let mut waits = Command::new(&program);
        let waits = waits.arg(&place).arg(how).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut waits = Running(waits.spawn().unwrap());
        let process = number_in(&place);
        let mut recorder = shop.record(&["--pid", &process.to_string(), "--seconds", "2"], &[]);
        let recorder = recorder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = waits.0.stdin.take().unwrap();
        for _ in 0..20 {
            line.write_all(b"on\n").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_untouched(process);
        let recorded = recorder.wait_with_output().unwrap();
        assert_ne!(code(&recorded), 0, "{how}: {}", err(&recorded));
        let warning = format!("sediment: warning: {} {how} SIGTRAP", text(&program));
        assert!(err(&recorded).contains(&warning), "{}", err(&recorded));
        drop(line);
        let ended = waits.end_of_pipes();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), expected, "{how}");
    }
}

/// Programs inherit ignored signals from the programs that started them.
fn inherited_use() {
    let shop = RecordingFolder::new();
    let program = shop.compile("waits", WAITS, &[]);
    let place = shop.path().join("place");
    let script = format!("trap '' TRAP; {} {} ignores </dev/null; exit 9", text(&program), text(&place));
    for options in [&[][..], &["--startup"], &["--startup", "--trampolines"]] {
        let recorded = shop.record(options, &["sh", "-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "1 0\n", "{}", err(&recorded));
        assert_eq!(code(&recorded), 9, "{}", err(&recorded));
        assert!(err(&recorded).contains("SIGTRAP"), "{}", err(&recorded));
    }
}

/// Go programs are recognised by their sections. Programs that they start are recorded.
fn runtime_of_go() {
    let shop = RecordingFolder::new();
    let source = r#"
#include <unistd.h>
__attribute__((section(".go.buildinfo"), used)) static const char built[16] = "built";
__attribute__((noinline)) int one(int x) { volatile int a = x; return a; }
int main(int count, char **words) { return one(1) == 1 ? execvp(words[1], words + 1) : 3; }
"#;
    let of_go = shop.compile("of_go", source, &[]);
    let other = shop.compile(
        "other",
        "__attribute__((noinline)) int f(void) { return 5; } int main(void) { return f(); }",
        &[],
    );
    let recorded = shop.record(&["--startup"], &[text(&of_go), text(&other)]).output().unwrap();
    assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    let warning = format!("sediment: warning: {} handles SIGTRAP", text(&of_go));
    assert!(err(&recorded).contains(&warning), "{}", err(&recorded));
    let profile = shop.profile();
    assert!(firsts(&profile, "of_go").is_empty());
    assert!(firsts(&profile, "other").iter().any(|(_, name)| name == "f"));
}
