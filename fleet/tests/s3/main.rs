// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datasets in an object store: calls that fail, and several writers. The store is [`bucket`], which rejects a second put of a name.

#[path = "../support/mod.rs"]
mod support;

mod bucket;

use bucket::Bucket;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use support::{LAYOUT, merged_by_core, write};

const DATASET: &str = "s3://bucket/fleet";

fn fleet(bucket: &Bucket, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sediment-fleet"))
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT", format!("http://{}", bucket.address))
        .env("AWS_ALLOW_HTTP", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn ingest(bucket: &Bucket, profiles: &Path, secret: &str) -> String {
    let folder = profiles.to_str().unwrap();
    fleet(bucket, &["ingest", DATASET, folder, "--layout", LAYOUT, "--secret", secret])
}

fn merge(bucket: &Bucket, folder: &Path) -> String {
    let output = folder.join("merged.gv");
    fleet(bucket, &["merge", DATASET, "--by-recordings", "-o", output.to_str().unwrap()]);
    std::fs::read_to_string(&output).unwrap()
}

/// Of many simultaneous puts of a new name, exactly one succeeds. The tests of several writers depend on this.
#[test]
fn the_bucket_refuses_a_second_put() {
    let bucket = Bucket::start(false);
    let put = || {
        let mut stream = TcpStream::connect(bucket.address).unwrap();
        stream
            .write_all(b"PUT /bucket/a HTTP/1.1\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\nx")
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8(answer[9..].to_vec()).unwrap()
    };
    let answers: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(put)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |status: &str| answers.iter().filter(|answer| *answer == status).count();
    assert_eq!((count("200"), count("412")), (1, 19));
}

#[test]
fn a_store_whose_every_second_call_fails_has_the_same_dataset() {
    let bucket = Bucket::start(true);
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("profiles");
    let secret = folder.path().join("secret").display().to_string();
    let mut files: Vec<PathBuf> = write(&profiles, 0..20);
    ingest(&bucket, &profiles, &secret);
    files.extend(write(&profiles, 20..30));
    ingest(&bucket, &profiles, &secret);
    assert_eq!(merge(&bucket, folder.path()), merged_by_core(&files));
    fleet(&bucket, &["compact", DATASET, "--files", "2"]);
    assert_eq!(merge(&bucket, folder.path()), merged_by_core(&files));
    assert!(fleet(&bucket, &["fsck", DATASET]).ends_with(" 0 faults\n"));
    let (requests, failed) = (bucket.requests.load(Ordering::Relaxed), bucket.failed.load(Ordering::Relaxed));
    assert!(failed * 2 >= requests - 1 && failed > 20, "{failed} of {requests} calls failed");
}

/// Three writers add at the same time, while others merge, combine and remove files.
#[test]
fn several_writers_add_to_one_bucket() {
    let bucket = Bucket::start(false);
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret").display().to_string();
    let mut files = write(&folder.path().join("first"), 0..3);
    ingest(&bucket, &folder.path().join("first"), &secret);
    let parts: Vec<Vec<PathBuf>> = (0..3u64)
        .map(|writer| {
            let parts = (0..4u64).map(|turn| {
                let part = folder.path().join(format!("writer{writer}-{turn}"));
                let from = 100 + 12 * writer + 3 * turn;
                files.extend(write(&part, from..from + 3));
                part
            });
            parts.collect()
        })
        .collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = parts
            .iter()
            .map(|parts| {
                let (bucket, secret) = (&bucket, &secret);
                scope.spawn(move || {
                    for part in parts {
                        assert!(ingest(bucket, part, secret).starts_with("added 3 "));
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            merge(&bucket, folder.path());
            fleet(&bucket, &["compact", DATASET, "--files", "3"]);
            fleet(&bucket, &["vacuum", DATASET]);
        }
    });
    assert_eq!(merge(&bucket, folder.path()), merged_by_core(&files));
    assert!(fleet(&bucket, &["fsck", DATASET]).ends_with(" 0 faults\n"));
    assert!(bucket.refused.load(Ordering::Relaxed) > 0, "no writer came second");
    fleet(&bucket, &["compact", DATASET, "--files", "2"]);
    fleet(&bucket, &["vacuum", DATASET, "--retention", "0"]);
    assert_eq!(merge(&bucket, folder.path()), merged_by_core(&files));
}
