// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions that the intake accepts, rejects and publishes, with limits against any client.

use crate::support::{self, merge_of, merged_by_core, profile, run};
use crate::{Intake, Site, files_of, status};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A page does not change until enough new submitters have changed its package.
#[test]
fn pages_are_published_again_once_enough_new_submitters_changed_them() {
    let mut site = Site::new();
    let file = site.folder.path().join("tokens").display().to_string();
    site.tokens
        .extend(["carol", "dave"].map(|name| run(&["token", &file, name, "desktop"]).trim().to_owned()));
    let intake = site.start(&["--every", "1", "--min-submitters", "2"]);
    let taken_up = |intake: &Intake, number| intake.wait_for("compactions_total", number);
    assert_eq!(status(&intake.post(&site.tokens[0], "", &profile(0))), "201");
    taken_up(&intake, 1);
    // One submitter is not enough.
    assert_eq!(status(&intake.get("/packages/prog")), "404");
    assert!(!intake.get("/").contains("/packages/prog"));
    assert_eq!(status(&intake.post(&site.tokens[1], "", &profile(1))), "201");
    taken_up(&intake, 2);
    let first = intake.get("/packages/prog/profile.gv");
    assert!(first.contains("inputs=2"), "{first}");
    let body = |answer: &str| answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    let stays = |intake: &Intake| {
        assert_eq!(body(&intake.get("/packages/prog/profile.gv")), body(&first));
    };
    // Submitters that are already on the page cannot cause a new publication, and one new submitter is not enough.
    for (number, token) in [(2, 0), (3, 1), (4, 2)] {
        assert_eq!(status(&intake.post(&site.tokens[token], "", &profile(number))), "201");
    }
    taken_up(&intake, 3);
    intake.wait_for("accepted_total", 5);
    stays(&intake);
    intake.stop();
    // Not even after a restart.
    let intake = site.start(&["--every", "1", "--min-submitters", "2"]);
    stays(&intake);
    assert_eq!(status(&intake.post(&site.tokens[3], "", &profile(5))), "201");
    taken_up(&intake, 1);
    assert!(intake.get("/packages/prog/profile.gv").contains("inputs=6"));
    intake.stop();
}

#[test]
fn packed_bodies_are_taken_within_the_limit() {
    let site = Site::new();
    let intake = site.start(&["--max-size", "64"]);
    let send = |encoding: &str, body: &[u8]| {
        let mut request = format!(
            "POST /v1/profiles HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
            site.tokens[0],
            body.len()
        )
        .into_bytes();
        request.extend(body);
        intake.raw(&request)
    };
    let gzip = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    assert_eq!(status(&send("gzip", &gzip(&profile(1)))), "201");
    assert_eq!(status(&send("zstd", &zstd::stream::encode_all(profile(1).as_bytes(), 1).unwrap())), "200");
    assert_eq!(status(&send("gzip", &gzip(&"x".repeat(1 << 20)))), "413");
    assert_eq!(status(&send("gzip", b"no gzip")), "415");
    assert_eq!(status(&send("br", b"x")), "415");
    intake.stop();
    let files = files_of(site.folder.path(), 1..2);
    assert_eq!(merge_of(&site.dataset(), site.folder.path(), &[]), merged_by_core(&files));
}

/// A field of protocol buffers.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value as u8 & 127 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A pprof profile of a program with this build-id: main calls work.
fn pprof(build_id: &str) -> Vec<u8> {
    let strings = ["", "samples", "count", "/usr/bin/web", "main", "work", build_id];
    let mut bytes = field(1, &[number(1, 1), number(2, 2)].concat());
    bytes.extend(field(2, &[field(1, &[2, 1]), field(2, &[30])].concat()));
    bytes.extend(field(
        3,
        &[number(1, 1), number(2, 0x40_0000), number(3, 0x50_0000), number(5, 3), number(6, 6), number(7, 1)]
            .concat(),
    ));
    for function in 1..3u64 {
        let line = field(4, &[number(1, function), number(2, 7)].concat());
        bytes.extend(field(
            4,
            &[number(1, function), number(2, 1), number(3, 0x40_1000 + 64 * function), line].concat(),
        ));
        bytes.extend(field(
            5,
            &[number(1, function), number(2, 3 + function), number(3, 3 + function)].concat(),
        ));
    }
    strings.iter().for_each(|text| bytes.extend(field(6, text.as_bytes())));
    bytes
}

#[test]
fn profilers_push_what_they_recorded() {
    let site = Site::new();
    let build_ids = site.folder.path().join("build-ids");
    std::fs::write(&build_ids, "00ff\tserver-3-4\n").unwrap();
    let intake = site.start(&["--build-ids", build_ids.to_str().unwrap()]);
    let send = |path: &str, body: &[u8]| {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
            site.tokens[0],
            body.len()
        )
        .into_bytes();
        request.extend(body);
        intake.raw(&request)
    };
    let answer = send("/ingest?name=web.cpu%7Bversion%3D1.2-3%7D&format=pprof", &pprof("aa"));
    assert_eq!(status(&answer), "201", "{answer}");
    // Nothing names a package.
    assert_eq!(status(&send("/ingest?format=pprof", &pprof("aa"))), "422");
    // The build-id does.
    assert_eq!(status(&send("/ingest?format=pprof", &pprof("00ff"))), "201");
    assert_eq!(status(&send("/v1development/profiles", b"\xff\xff")), "422");
    assert_eq!(intake.metric("imported_total"), 2);
    intake.stop();
    let coverage = run(&["coverage", &site.dataset()]);
    assert!(coverage.contains("\nweb\t1.2-3\t1\t") && coverage.contains("\nserver\t3-4\t1\t"), "{coverage}");
    let merged = merge_of(&site.dataset(), site.folder.path(), &[]);
    assert!(merged.contains("\"main\" -> \"work\""), "{merged}");
}

/// Sends a message with gRPC. Returns the status and the reason.
fn call(intake: &Intake, path: &str, token: &str, message: &[u8], is_packed: bool) -> (u16, String) {
    let frame = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[u8::from(is_packed)][..], &length, bytes].concat()
    };
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(message).unwrap();
    let body = if is_packed { frame(&packed.finish().unwrap()) } else { frame(message) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(intake.address).await.unwrap();
        let stream = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::post(format!("http://{}{path}", intake.address))
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers")
            .header("grpc-encoding", "gzip")
            .header("authorization", format!("Bearer {token}"))
            .body(http_body_util::Full::new(bytes::Bytes::from(body)))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        let answer = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
        let trailers = answer.trailers().unwrap();
        let text = |name: &str| trailers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        (text("grpc-status").parse().unwrap(), text("grpc-message"))
    })
}

#[test]
fn profilers_push_with_grpc() {
    let site = Site::new();
    let intake = site.start(&[]);
    let path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
    let token = &site.tokens[0];
    let gzip = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let label =
        |name: &str, value: &str| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
    let series = |labels: &[u8], profile: &[u8]| {
        field(2, &[field(1, labels), field(2, &field(1, &gzip(profile)))].concat())
    };
    let named =
        [label("__name__", "parca_agent_cpu"), label("job", "web"), label("version", "2.1-4")].concat();
    // The second profile has no package, and does not keep the first from being accepted.
    let both = [series(&named, &pprof("aa")), series(&label("node", "a"), &pprof("bb"))].concat();
    assert_eq!(call(&intake, path, token, &both, true), (0, String::new()));
    assert_eq!(call(&intake, path, token, &both, false), (0, String::new()));
    assert_eq!(intake.metric("imported_total"), 1);
    let (status, reason) = call(&intake, path, token, &series(&[], &pprof("bb")), true);
    assert!(status == 3 && reason.contains("name of the profiled service is missing"), "{status} {reason}");
    assert_eq!(call(&intake, path, "wrong", &both, true).0, 16);
    assert_eq!(call(&intake, path, token, b"", false).0, 3);
    let otlp = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    let (status, reason) = call(&intake, otlp, token, b"\xff\xff", false);
    assert!(status == 3 && !reason.is_empty(), "{status} {reason}");
    intake.stop();
    let coverage = run(&["coverage", &site.dataset()]);
    assert!(coverage.contains("\nweb\t2.1-4\t1\t"), "{coverage}");
}

#[test]
fn tokens_count_from_the_moment_their_file_changes() {
    let site = Site::new();
    let file = site.folder.path().join("tokens");
    let empty = site.folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let said = support::refused(
        &["serve", &site.dataset(), "--listen", "127.0.0.1:0", "--tokens", empty.to_str().unwrap()],
        1,
    );
    assert!(said.contains("no token"), "{said}");
    let intake = site.start(&[]);
    assert_eq!(status(&intake.post(&site.tokens[0], "", &profile(0))), "201");
    let new = run(&["token", file.to_str().unwrap(), "carol", "desktop"]).trim().to_owned();
    let hang_up = || {
        let process = nix::unistd::Pid::from_raw(intake.child.id() as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).unwrap();
    };
    let becomes = |token: &str, expected: &str| {
        let until = Instant::now() + Duration::from_secs(10);
        while status(&intake.post(token, "", &profile(1))) != expected {
            assert!(Instant::now() < until, "the token is not {expected}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    hang_up();
    becomes(&new, "201");
    // Only this token is revoked.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    becomes(&site.tokens[0], "401");
    assert_eq!(status(&intake.post(&site.tokens[1], "", &profile(2))), "201");
    std::fs::write(&file, "").unwrap();
    becomes(&site.tokens[1], "401");
    let health = intake.get("/health");
    assert!(status(&health) == "503" && health.contains("tokens fails"), "{health}");
    // After many wrong tokens, the answer is to wait.
    let mut last = String::new();
    for _ in 0..80 {
        last = status(&intake.post("wrong", "", "x")).to_owned();
    }
    assert_eq!(last, "429");
    intake.stop();
}

/// Clients that are slow or idle, or do not read, make room for others within a second.
#[test]
fn slow_clients_do_not_delay_others() {
    let site = Site::new();
    let intake = site.start(&["--connections", "32", "--every", "1", "--min-submitters", "1"]);
    let time = |number: u64| {
        let begun = Instant::now();
        let answer = intake.post(&site.tokens[0], "", &profile(number));
        assert_eq!(status(&answer), "201", "{answer}");
        begun.elapsed()
    };
    // The time without such clients, during the other cases.
    let alone = (900..903).map(time).max().unwrap();
    let honest = |number: u64| {
        let taken = time(number);
        assert!(taken < alone + Duration::from_secs(1), "{number}: {taken:?}, and {alone:?} without them");
    };
    let connections = |count: usize, text: &str| -> Vec<TcpStream> {
        let connect = |_| {
            let mut stream = TcpStream::connect(intake.address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream
        };
        (0..count).map(connect).collect()
    };
    let endless = format!(
        "POST /v1/profiles HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nd\r\n",
        site.tokens[1]
    );
    let bodies = connections(16, &endless);
    std::thread::sleep(Duration::from_millis(400));
    honest(1);
    drop(bodies);
    for text in ["", "GET /health HTTP/1.1\r\n", "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let idle = connections(60, text);
        std::thread::sleep(Duration::from_millis(400));
        honest(2 + text.len() as u64);
        drop(idle);
    }
    intake.wait_for("compactions_total", 1);
    let unread = connections(60, "GET /packages/prog/profile.gv HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(400));
    honest(1000);
    drop(unread);
    assert!(intake.metric("made_room_total") > 0);
    intake.stop();
}

/// A log belongs to one dataset and one intake.
#[test]
fn two_datasets_do_not_share_a_log() {
    let site = Site::new();
    let log = site.folder.path().join("log").display().to_string();
    let intake = site.start(&["--log", &log]);
    let tokens = site.folder.path().join("tokens").display().to_string();
    let other = site.folder.path().join("other").display().to_string();
    let second = |dataset: &str| {
        support::refused(
            &["serve", dataset, "--tokens", &tokens, "--log", &log, "--listen", "127.0.0.1:0"],
            1,
        )
    };
    assert!(second(&other).contains("another intake has this log"));
    intake.stop();
    assert!(second(&other).contains("this log is of another dataset"));
}

/// The log's records of a submitter that is forgotten do not come back.
#[test]
fn a_forgotten_submitter_does_not_come_back_from_the_log() {
    let site = Site::new();
    let intake = site.start(&[]);
    for (number, token) in (0..).zip(&site.tokens) {
        assert_eq!(status(&intake.post(token, "", &profile(number))), "201");
    }
    intake.stop();
    let key = || {
        let outliers = run(&["outliers", &site.dataset()]);
        outliers.lines().nth(1).unwrap().split('\t').next().unwrap().to_owned()
    };
    let key = key();
    let submissions = || -> u64 {
        let coverage = run(&["coverage", &site.dataset()]);
        coverage.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().parse::<u64>().unwrap()).sum()
    };
    // A running intake, and one that was killed.
    for is_killed in [false, true] {
        let intake = site.start(&[]);
        for (number, token) in (10 + 2 * u64::from(is_killed)..).zip(&site.tokens) {
            assert_eq!(status(&intake.post(token, "", &profile(number))), "201");
        }
        if is_killed {
            intake.kill();
            run(&["forget", &site.dataset(), "--submitter", &key]);
            site.start(&[]).stop();
        } else {
            run(&["forget", &site.dataset(), "--submitter", &key]);
            intake.stop();
        }
        assert!(!run(&["outliers", &site.dataset()]).contains(&key));
    }
    assert_eq!(submissions(), 3);
}
