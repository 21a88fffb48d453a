// SPDX-License-Identifier: MIT OR Apache-2.0
//! The intake from the view of its clients: answers, limits, state after it was killed, pages, and `sediment collect --send`.

mod limits;
#[path = "../support/mod.rs"]
mod support;

use sediment_fleet::segments;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{merge_of, merged_by_core, profile, run};

struct Intake {
    child: Child,
    address: SocketAddr,
}

struct Site {
    folder: tempfile::TempDir,
    tokens: Vec<String>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        let tokens = ["alice", "bob"]
            .map(|name| run(&["token", file.to_str().unwrap(), name, "desktop"]).trim().to_owned());
        Self { folder, tokens: tokens.to_vec() }
    }

    fn dataset(&self) -> String {
        self.folder.path().join("dataset").display().to_string()
    }

    fn start(&self, options: &[&str]) -> Intake {
        self.started(Command::new(env!("CARGO_BIN_EXE_sediment-fleet")), options)
    }

    /// Starts it with a command that executes the program.
    fn started(&self, mut program: Command, options: &[&str]) -> Intake {
        let mut child = program
            .args(["serve", &self.dataset(), "--listen", "127.0.0.1:0", "--tokens"])
            .arg(self.folder.path().join("tokens"))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().rsplit('/').next().unwrap().parse().expect("the address is printed once it listens");
        Intake { child, address }
    }
}

impl Intake {
    /// Sends bytes, and returns the whole answer.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may close the connection before it has read a rejected body.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())
    }

    fn post(&self, token: &str, headers: &str, body: &str) -> String {
        self.raw(post(token, headers, body).as_bytes())
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("sediment_fleet_{name} ")));
        line.unwrap().parse().unwrap()
    }

    /// Waits until a counter has a value.
    fn wait_for(&self, name: &str, least: u64) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.metric(name) < least {
            assert!(Instant::now() < until, "{name} is {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks the process to end, and waits.
    fn stop(mut self) {
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        )
        .unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn post(token: &str, headers: &str, body: &str) -> String {
    format!(
        "POST /v1/profiles HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

fn files_of(folder: &Path, numbers: impl Iterator<Item = u64>) -> Vec<PathBuf> {
    let write = |number: u64| {
        let path = folder.join(format!("{number}.gv"));
        std::fs::write(&path, profile(number)).unwrap();
        path
    };
    numbers.map(write).collect()
}

#[test]
fn what_is_acknowledged_becomes_part_of_the_dataset() {
    let site = Site::new();
    let intake = site.start(&[]);
    for number in 0..12 {
        let token = &site.tokens[(number % 2) as usize];
        assert_eq!(status(&intake.post(token, "", &profile(number))), "201");
    }
    assert_eq!(status(&intake.post(&site.tokens[0], "", &profile(0))), "200");
    // The same key with the same bytes is a repeated request; with other bytes it is an error.
    let key = "Idempotency-Key: 1\r\n";
    assert_eq!(status(&intake.post(&site.tokens[0], key, &profile(100))), "201");
    assert_eq!(status(&intake.post(&site.tokens[0], key, &profile(100))), "200");
    assert_eq!(status(&intake.post(&site.tokens[0], key, &profile(101))), "409");
    assert_eq!(intake.metric("accepted_total"), 13);
    assert_eq!(intake.metric("duplicates_total"), 2);
    intake.stop();
    let files = files_of(site.folder.path(), (0..12).chain([100]));
    assert_eq!(merge_of(&site.dataset(), site.folder.path(), &[]), merged_by_core(&files));
    let coverage = run(&["coverage", &site.dataset()]);
    assert!(coverage.lines().skip(1).all(|line| line.starts_with("prog\t1.")), "{coverage}");
}

#[test]
fn whatever_breaks_a_limit_is_refused_with_its_status() {
    let site = Site::new();
    let intake = site.start(&["--max-size", "64", "--rate", "40", "--receive-timeout", "5", "--memory", "1"]);
    let token = &site.tokens[0];
    assert_eq!(status(&intake.post("wrong", "", &profile(1))), "401");
    assert_eq!(status(&intake.post(token, "", "digraph {")), "422");
    assert_eq!(
        status(&intake.post(token, "", "digraph { graph [sediment=2, total=1]; a -> b [count=1]; }")),
        "422"
    );
    assert_eq!(status(&intake.post(token, "", "digraph { graph [sediment=99]; }")), "422");
    assert_eq!(status(&intake.post(token, "", &"x".repeat(65 * 1024))), "413");
    let unannounced = format!(
        "POST /v1/profiles HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        65 * 1024,
        "x".repeat(65 * 1024)
    );
    assert_eq!(status(&intake.raw(unannounced.as_bytes())), "413");
    // Slow client: the rest never arrives.
    let whole = post(token, "", &profile(2));
    let mut slow = TcpStream::connect(intake.address).unwrap();
    slow.write_all(&whole.as_bytes()[..whole.len() - 10]).unwrap();
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert_eq!(status(&answer), "408");
    // Half of the body was sent, and the client is gone.
    let mut half = TcpStream::connect(intake.address).unwrap();
    half.write_all(&whole.as_bytes()[..whole.len() / 2]).unwrap();
    drop(half);
    intake.wait_for("refused_slow_total", 2);
    // The number of simultaneous submissions of a submitter is limited. An announced length alone does not reserve memory.
    let holders: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(intake.address).unwrap();
            let head = format!("POST /v1/profiles HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 65000\r\n\r\nx", site.tokens[1]);
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    intake.wait_for("refused_at_once_total", 16);
    assert_eq!(status(&intake.post(token, "", &profile(3))), "201");
    drop(holders);
    std::thread::sleep(Duration::from_millis(1500));
    let mut last = String::new();
    for number in 0..60 {
        last = intake.post(token, "", &profile(number));
        if status(&last) == "429" {
            break;
        }
    }
    assert!(status(&last) == "429" && last.contains("retry-after: 60"), "{last}");
    let accepted = intake.metric("accepted_total");
    intake.stop();
    let coverage = run(&["coverage", &site.dataset()]);
    let kept: u64 =
        coverage.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(kept, accepted, "nothing of a refused submission is kept");
}

/// Killed at 20 times while submissions arrive and segments become partitions.
#[test]
fn killed_at_any_moment_everything_acknowledged_is_there() {
    let site = Site::new();
    let mut acknowledged = Vec::new();
    let mut number = 0;
    for round in 0..20u64 {
        let intake = site.start(&["--every", "1", "--maintain-every", "1", "--rate", "100000"]);
        let until = Instant::now() + Duration::from_millis(60 + round * 97 % 1500);
        let address = intake.address;
        let tokens = &site.tokens;
        let sent: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut sent = Vec::new();
                        for next in 0.. {
                            let number = number + 2 * next + thread;
                            let Ok(mut stream) = TcpStream::connect(address) else { break };
                            let request = post(&tokens[thread as usize], "", &profile(number));
                            let mut answer = String::new();
                            if stream.write_all(request.as_bytes()).is_err()
                                || stream.read_to_string(&mut answer).is_err()
                            {
                                break;
                            }
                            match status(&answer) {
                                "201" | "200" => sent.push(number),
                                _ => break,
                            }
                        }
                        sent
                    })
                })
                .collect();
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            intake.kill();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let sent: Vec<u64> = sent.into_iter().flatten().collect();
        number += 2 * (sent.len() as u64 + 10);
        acknowledged.extend(sent);
    }
    assert!(acknowledged.len() > 20, "too few submissions: {}", acknowledged.len());
    // A complete start and stop adds everything in the log to the dataset.
    let intake = site.start(&["--rate", "100000"]);
    for (thread, token) in site.tokens.iter().enumerate() {
        let own = acknowledged.iter().filter(|number| **number % 2 == thread as u64);
        for number in own.clone().take(3).chain(own.rev().take(3)) {
            assert_eq!(
                status(&intake.post(token, "", &profile(*number))),
                "200",
                "submission {number} is lost"
            );
        }
    }
    intake.stop();
    assert!(run(&["fsck", &site.dataset()]).ends_with(" 0 faults\n"));
    let coverage = run(&["coverage", &site.dataset()]);
    let kept: usize =
        coverage.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().parse::<usize>().unwrap()).sum();
    // Some submissions were stored, but their answers were lost.
    assert!(
        kept >= acknowledged.len() && kept <= acknowledged.len() + 40,
        "{kept} of {}",
        acknowledged.len()
    );
    let log = Path::new(&site.dataset()).join("log");
    let left: u64 = segments(&log)
        .unwrap()
        .iter()
        .map(|number| std::fs::metadata(log.join(format!("{number:012}.log"))).unwrap().len())
        .sum();
    assert_eq!(left, 0, "the log is empty once all of it is in partitions");
}

#[test]
fn pages_show_packages_and_no_rare_functions() {
    let site = Site::new();
    let intake = site.start(&["--every", "1", "--min-submitters", "2"]);
    for number in 0..8 {
        intake.post(&site.tokens[(number % 2) as usize], "", &profile(number));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while intake.metric("compactions_total") == 0 {
        assert!(Instant::now() < deadline, "no segment became a partition");
        std::thread::sleep(Duration::from_millis(100));
    }
    let list = intake.get("/");
    assert!(
        list.contains("content-security-policy: default-src 'none'")
            && list.contains("href=\"/packages/prog\""),
        "{list}"
    );
    let page = intake.get("/packages/prog");
    assert!(page.contains("<code>f") && !page.contains("only_"), "{page}");
    let merged = intake.get("/packages/prog/profile.gv");
    assert!(merged.contains("digraph") && !merged.contains("only_"), "{merged}");
    assert_eq!(status(&intake.get("/packages/%3Cb%3E")), "404");
    assert_eq!(status(&intake.get("/health")), "200");
    intake.stop();
}

#[test]
fn a_full_disk_is_told_and_nothing_is_acknowledged() {
    let site = Site::new();
    // A file of at most 40 KB, which the log may not exceed.
    let limited = "trap '' XFSZ; exec prlimit --fsize=40000 \"$@\"";
    let mut program = Command::new("sh");
    program.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_sediment-fleet")]);
    let intake = site.started(program, &[]);
    let mut accepted = Vec::new();
    let mut full = false;
    for number in 0..60 {
        match status(&intake.post(&site.tokens[0], "", &profile(number))) {
            "201" => accepted.push(number),
            "507" => full = true,
            other => panic!("{other}"),
        }
    }
    assert!(full && !accepted.is_empty());
    intake.kill();
    let intake = site.start(&[]);
    for number in &accepted {
        assert_eq!(status(&intake.post(&site.tokens[0], "", &profile(*number))), "200");
    }
    intake.stop();
    let files = files_of(site.folder.path(), accepted.into_iter());
    assert_eq!(merge_of(&site.dataset(), site.folder.path(), &[]), merged_by_core(&files));
}

/// A profile of a package with names that try to inject code into a page.
fn odd() -> String {
    "digraph { graph [sediment=2, unit=calls, total=2, arch=\"x86_64\"]; subgraph cluster0 { graph [label=\"odd\", package=\"<b>odd-1-1\"]; \
     \"<script>window.broken=1</script>\"; } \"<script>window.broken=1</script>\" -> \"<script>window.broken=1</script>\" [count=2]; }"
        .to_owned()
}

#[test]
fn pages_are_read_in_a_browser() {
    let is_there = |program: &str| {
        let version =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    if let Some(missing) =
        ["python3", "chromedriver", "chromium"].into_iter().find(|program| !is_there(program))
    {
        return support::skip(&format!("{missing} is missing"));
    }
    let site = Site::new();
    let shipped = site.folder.path().join("shipped");
    std::fs::create_dir(&shipped).unwrap();
    std::fs::write(shipped.join("prog.gv"), profile(3)).unwrap();
    let options = ["--every", "1", "--min-submitters", "1", "--shipped", shipped.to_str().unwrap()];
    let intake = site.start(&options);
    for number in 0..8 {
        intake.post(&site.tokens[(number % 2) as usize], "", &profile(number));
    }
    assert_eq!(status(&intake.post(&site.tokens[0], "", &odd())), "201");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !intake.get("/").contains("odd") {
        assert!(Instant::now() < deadline, "no segment became a partition");
        std::thread::sleep(Duration::from_millis(200));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/pages.py");
    let screenshots = std::env::var_os("SEDIMENT_SCREENSHOTS").filter(|folder| !folder.is_empty());
    let found = Command::new("python3")
        .arg("-B")
        .arg(script)
        .arg(intake.address.to_string())
        .args(screenshots)
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    intake.stop();
}
