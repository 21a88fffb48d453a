// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose waits, ends, descriptors and limits would change only because they are traced, even without
//! changed code.

use super::{RecordingFolder, Running, assert_untouched, code, err, number_in, repeated, repeats, text};
use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::{self, Need, case, long};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    vec![
        case("waits_last_as_long_as_without", &compiler, waits),
        case("waits_outlast_attaching_and_letting_go", &compiler, attached_waits),
        repeated("a_job_stops_with_its_program", &compiler, stopped_job),
        repeated("a_job_goes_on_and_stops_as_its_program_does", &compiler, job_of_a_program),
        case("ends_are_told_when_they_can_be_waited_for", &compiler, ends_told_to_a_pidfd),
        case("descriptors_are_closed_with_the_program", &compiler, descriptors),
        case("programs_end_by_their_own_signals", &compiler, real_time_signal),
        long(
            "a_limit_of_processor_time_ends_the_recording",
            &[Need::Program("prlimit")],
            limit_of_processor_time,
        ),
        case("programs_that_look_for_leaks_are_let_go", &compiler, search_for_leaks),
    ]
}

/// Waits in calls that end with EINTR when a thread is woken: for a child after a signal that is ignored explicitly or
/// by default, for a socket with a timeout, and under a filter that forbids `restart_syscall`.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static pid_t later(int signal, int next, int pipe) {
    pid_t parent = getpid(), child = fork();
    if (child) return child;
    usleep(100000); kill(parent, signal);
    usleep(100000); if (next) kill(parent, next);
    if (pipe >= 0 && write(pipe, "x", 1) != 1) _exit(1);
    _exit(0);
}
static void ends(pid_t child) { int status; waitpid(child, &status, 0); if (status) puts("a child failed"); }
#define OK(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static void filtered(void) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        OK(SYS_poll), OK(SYS_exit_group), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    pid_t child = later(SIGWINCH, 0, -1);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    poll(0, 0, 400);
    syscall(SYS_exit_group, 6);
}
int main(int count, char **words) {
    dup2(1, 2), setvbuf(stdout, 0, _IONBF, 0);
    if (count > 1) { FILE *place = fopen(words[1], "w"); fprintf(place, "%d\n", getpid()); fclose(place); }
    for (int round = 0; round < (count > 1 ? 8 : 1); round++) {
        int ends_of[2]; if (pipe(ends_of)) return 1;
        struct epoll_event event = {.events = EPOLLIN};
        int poll = epoll_create1(0); epoll_ctl(poll, EPOLL_CTL_ADD, ends_of[0], &event);
        pid_t child = later(SIGURG, 0, ends_of[1]);
        printf("epoll_wait %d\n", epoll_wait(poll, &event, 1, 5000));
        ends(child);
        sigset_t one; sigemptyset(&one), sigaddset(&one, SIGUSR1), sigprocmask(SIG_BLOCK, &one, 0);
        child = later(SIGSTOP, SIGCONT, ends_of[1]);
        char one_byte; if (read(ends_of[0], &one_byte, 1) != 1) return 1;
        printf("stopped %d\n", epoll_wait(poll, &event, 1, 5000));
        ends(child);
        child = later(SIGWINCH, SIGUSR1, -1);
        printf("sigwaitinfo %d\n", sigwaitinfo(&one, 0));
        ends(child);
        int semaphore = semget(IPC_PRIVATE, 1, 0600);
        struct sembuf take = {0, -1, 0};
        child = fork();
        if (child == 0) {
            usleep(100000), kill(getppid(), SIGWINCH), usleep(100000);
            struct sembuf give = {0, 1, 0}; _exit(semop(semaphore, &give, 1) != 0);
        }
        printf("semop %d\n", semop(semaphore, &take, 1));
        ends(child), semctl(semaphore, 0, IPC_RMID);
        int ends_in_time[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, ends_in_time);
        struct timeval limit = {0, 400000};
        setsockopt(ends_in_time[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        child = later(SIGWINCH, 0, -1);
        if (recv(ends_in_time[0], &one_byte, 1, 0) < 0) perror("recv");
        ends(child);
        child = later(SIGURG, 0, -1);
        if (read(ends_in_time[0], &one_byte, 1) < 0) perror("read");
        ends(child);
        setsockopt(ends_in_time[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        while (send(ends_in_time[0], &limit, sizeof limit, MSG_DONTWAIT) > 0) {}
        int program = open(words[0], O_RDONLY);
        child = later(SIGURG, 0, -1);
        if (sendfile(ends_in_time[0], program, 0, 100) < 0) perror("sendfile");
        ends(child), close(program), close(ends_in_time[0]), close(ends_in_time[1]);
        if (read(ends_of[0], &one_byte, 1) != 1) return 1;
        signal(SIGTSTP, SIG_IGN), child = later(SIGTSTP, 0, -1);
        printf("ignored %d\n", epoll_wait(poll, &event, 1, 400));
        ends(child), signal(SIGTSTP, SIG_DFL);
        if ((child = fork()) == 0) filtered();
        int status; waitpid(child, &status, 0);
        printf("filtered %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        fflush(stdout);
    }
    return 4;
}
"#;
const ROUND: &str = "epoll_wait 1\nstopped -1\nsigwaitinfo 10\nsemop 0\nrecv: Resource temporarily unavailable\n\
    read: Resource temporarily unavailable\nsendfile: Resource temporarily unavailable\nignored 0\nfiltered 6\n";

/// Worth its time: a tracer can end each of these calls early in a different way, and each must wait.
fn waits() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("the kernel does not let a call begin again there");
    }
    let shop = RecordingFolder::new();
    let program = shop.compile("waits", WAITS, &[]);
    for options in [&[][..], &["--startup"]] {
        let recorded = shop.record(options, &[text(&program)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), ROUND, "{options:?}: {}", err(&recorded));
        assert_eq!(code(&recorded), 4, "{options:?}: {}", err(&recorded));
    }
}

/// Several recordings, each of which stops all threads to change and to restore their code. Worth its time: these waits
/// must last, too; most of the time is spent asleep.
fn attached_waits() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("the kernel does not let a call begin again there");
    }
    let shop = RecordingFolder::new();
    let program = shop.compile("waits", WAITS, &[]);
    let place = shop.path().join("place");
    let mut waits = Command::new(program);
    let waits = waits.arg(&place).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut waits = Running(waits);
    let process = number_in(&place);
    for _ in 0..4 {
        let options = ["--pid", &process.to_string(), "--seconds", "0.7"];
        let recorded = shop.record(&options, &[]).output().unwrap();
        assert_eq!(code(&recorded), 0, "{}", err(&recorded));
        assert_untouched(process);
    }
    let ended = waits.end_of_pipes();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), ROUND.repeat(8));
}

/// Writes its process id to a file, and stops itself three times.
const STOPS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    FILE *place = fopen(words[1], "w"); fprintf(place, "%d\n", getpid()); fclose(place);
    raise(SIGSTOP), puts("first"), fflush(stdout);
    raise(SIGSTOP), puts("second"), fflush(stdout);
    raise(SIGSTOP), puts("third");
    return 7;
}
"#;

/// A shell waits for its program, and resumes the program or the whole job; another process resumes only the program.
fn stopped_job() {
    let shop = RecordingFolder::new();
    let program = shop.compile("stops", STOPS, &[]);
    let place = shop.path().join("place");
    for _ in 0..repeats() {
        let _ = std::fs::remove_file(&place);
        let mut job = shop.record(&[], &[text(&program), text(&place)]);
        let job = job.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let front = Pid::from_raw(job.id() as i32);
        let mut job = Running(job);
        let process = Pid::from_raw(number_in(&place));
        for (who, whole) in [(front, false), (front, true), (process, false)] {
            let stopped = waitid(Id::Pid(front), WaitPidFlag::WSTOPPED).unwrap();
            assert_eq!(stopped, WaitStatus::Stopped(front, Signal::SIGSTOP));
            if whole { killpg(who, Signal::SIGCONT) } else { kill(who, Signal::SIGCONT) }.unwrap();
        }
        let ended = job.end_of_pipes();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "first\nsecond\nthird\n");
        assert_eq!(code(&ended), 7);
    }
}

/// Writes its process id to a file, ignores the terminal's stop, and reads a line. Its first thread may end earlier,
/// and another thread stops it.
const JOB: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int stops;
static void *run(void *place) {
    FILE *file = fopen(place, "w"); fprintf(file, "%d\n", getpid()); fclose(file);
    char line[10];
    if (stops) usleep(100000), kill(getpid(), SIGSTOP);
    if (fgets(line, sizeof line, stdin)) fputs(line, stdout);
    fflush(stdout), _exit(8);
}
int main(int count, char **words) {
    signal(SIGTSTP, SIG_IGN), stops = count > 2;
    if (!stops) run(words[1]);
    pthread_t other; pthread_create(&other, 0, run, words[1]);
    pthread_exit(0);
}
"#;

/// A terminal's stop that the program ignores; a stop of the whole job from which only the front is resumed; and a stop
/// by a thread other than the first: the program stays stopped until somebody resumes it.
fn job_of_a_program() {
    let shop = RecordingFolder::new();
    let program = shop.compile("job", JOB, &["-pthread"]);
    let place = shop.path().join("place");
    for _ in 0..repeats() {
        for words in [&[][..], &["stops"]] {
            let _ = std::fs::remove_file(&place);
            let words = [&[text(&program), text(&place)], words].concat();
            let mut job = shop.record(&[], &words);
            let job = job.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
            let job = job.stderr(Stdio::null()).spawn().unwrap();
            let front = Pid::from_raw(job.id() as i32);
            let mut job = Running(job);
            let process = number_in(&place);
            let stopped = || waitid(Id::Pid(front), WaitPidFlag::WSTOPPED).unwrap();
            if words.len() == 2 {
                killpg(front, Signal::SIGTSTP).unwrap();
                std::thread::sleep(Duration::from_millis(100));
                let none = waitid(Id::Pid(front), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG).unwrap();
                assert_eq!(none, WaitStatus::StillAlive);
                killpg(front, Signal::SIGSTOP).unwrap();
            }
            assert_eq!(stopped(), WaitStatus::Stopped(front, Signal::SIGSTOP));
            std::thread::sleep(Duration::from_millis(400));
            let state = std::fs::read_to_string(format!("/proc/{front}/stat")).unwrap();
            assert!(state.contains(") T "), "{process} was let go on: {state}");
            kill(front, Signal::SIGCONT).unwrap();
            job.0.stdin.take().unwrap().write_all(b"line\n").unwrap();
            let ended = job.end_of_pipes();
            assert_eq!((code(&ended), &ended.stdout[..]), (8, &b"line\n"[..]));
        }
    }
}

/// As in event loops such as GLib's: a pidfd reports an end, and then the child can be waited for at once.
fn ends_told_to_a_pidfd() {
    let source = r#"
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int missed = 0;
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) { usleep(1000); _exit(3); }
        int ending = syscall(SYS_pidfd_open, child, 0);
        if (ending < 0) return 77;
        struct pollfd one = {ending, POLLIN};
        poll(&one, 1, -1);
        int status = 0;
        missed += waitpid(child, &status, WNOHANG) != child || WEXITSTATUS(status) != 3;
        if (!status) waitpid(child, 0, 0);
        close(ending);
    }
    printf("%d missed\n", missed);
    return 5;
}
"#;
    let shop = RecordingFolder::new();
    let program = shop.compile("ends", source, &[]);
    for options in [&[][..], &["--startup"]] {
        let recorded = shop.record(options, &[text(&program)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "0 missed\n", "{}", err(&recorded));
        assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    }
}

/// Descriptors that the program inherits are closed once it closes them, although the recorder runs on.
fn descriptors() {
    let source = "#include <unistd.h>\nint main(void) { char end; alarm(40); write(3, \"ready\", 5); close(3); return 4 + read(0, &end, 1); }\n";
    let shop = RecordingFolder::new();
    let program = shop.compile("tells", source, &["-w"]);
    let record = shop.record(&["--startup"], &[text(&program)]);
    let words = std::iter::once(record.get_program()).chain(record.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {} 3>&1 >/dev/null", words.join(" "))]).current_dir(shop.path());
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut recorder = Running(shell.spawn().unwrap());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut recorder.0.stdout.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "ready");
    drop(recorder.0.stdin.take());
    assert_eq!(recorder.0.wait().unwrap().code(), Some(4), "the recorder has kept the descriptor");
}

fn real_time_signal() {
    let source = "#include <signal.h>\n#include <unistd.h>\nint main(void) { kill(getpid(), SIGRTMIN + 2); pause(); }\n";
    let shop = RecordingFolder::new();
    let program = shop.compile("signalled", source, &[]);
    let recorded = shop.record(&["--startup"], &[text(&program)]).output().unwrap();
    assert_eq!(code(&recorded), 128 + 36, "{}", err(&recorded));
}

/// Many short programs, each of which stays within the limit; but all of the recorder's work for them does not.
fn limit_of_processor_time() {
    let shop = RecordingFolder::new();
    let script = "i=0; while [ $i -lt 1500 ]; do cat /dev/null; i=$((i+1)); done; echo done; exit 3";
    let recorded = shop.record(&["--startup"], &["sh", "-c", script]);
    let mut limited = Command::new("prlimit");
    limited.arg("--cpu=2:2").arg(recorded.get_program()).args(recorded.get_args());
    let recorded: Output = limited.current_dir(shop.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "done\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 3, "{}", err(&recorded));
    assert!(!shop.profile().functions().is_empty());
}

fn search_for_leaks() {
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(9)); puts(\"well\"); return 6; }\n";
    let shop = RecordingFolder::new();
    let program = shop.compile("leaks", source, &["-fsanitize=address"]);
    let script = format!("{}; exit 7", text(&program));
    let searched = shop.record(&["--startup"], &["sh", "-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&searched.stdout), "well\n", "{}", err(&searched));
    assert_eq!(code(&searched), 7, "{}", err(&searched));
    assert!(err(&searched).contains("leak checkers"), "{}", err(&searched));
}
