// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datasets in an object store: an emulator of S3 (moto, of PyPI), behind a proxy that lets half of the calls fail.
//!
//! Needs `moto_server` on PATH (`pip install 'moto[server]'`); without it the case says so.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{LAYOUT, merged_by_core, write};

struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A proxy in front of a server: every second request is answered with an error, half of these after the server did the work.
fn failing(server: SocketAddr, requests: Arc<AtomicU64>, failed: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut client) = stream else { return };
            let (requests, failed) = (Arc::clone(&requests), Arc::clone(&failed));
            std::thread::spawn(move || {
                let Some(request) = whole_request(&mut client) else { return };
                let number = requests.fetch_add(1, Ordering::Relaxed);
                let fails = number % 2 == 0;
                let mut answer = Vec::new();
                if !fails || number % 4 == 0 {
                    let mut server = TcpStream::connect(server).unwrap();
                    server.write_all(&request).unwrap();
                    let _ = server.read_to_end(&mut answer);
                }
                if fails {
                    failed.fetch_add(1, Ordering::Relaxed);
                    answer =
                        b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
                }
                let _ = client.write_all(&answer);
            });
        }
    });
    address
}

/// A request with its body, asking for the connection to be closed.
fn whole_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let head = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let length = text.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            if bytes.len() >= head + 4 + length.unwrap_or(0) {
                let lines = text.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
                let mut request = lines.collect::<Vec<_>>().join("\r\n").into_bytes();
                request.extend(b"\r\nConnection: close\r\n\r\n");
                request.extend(&bytes[head + 4..]);
                return Some(request);
            }
        }
        match client.read(&mut piece) {
            Ok(count) if count > 0 => bytes.extend(&piece[..count]),
            _ => return None,
        }
    }
}

fn fleet(endpoint: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sediment-fleet"))
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT", format!("http://{endpoint}"))
        .env("AWS_ALLOW_HTTP", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_store_whose_every_second_call_fails_has_the_same_dataset() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let moto = Command::new("moto_server")
        .args(["-H", "127.0.0.1", "-p", &free.port().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(moto) = moto else {
        return support::skip("moto_server is missing (pip install 'moto[server]')");
    };
    let _moto = Moto(moto);
    let deadline = Instant::now() + Duration::from_secs(120);
    while TcpStream::connect(free).is_err() {
        assert!(Instant::now() < deadline, "the emulator does not listen");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut bucket = TcpStream::connect(free).unwrap();
    bucket.write_all(b"PUT /bucket HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    bucket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let (requests, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let proxy = failing(free, Arc::clone(&requests), Arc::clone(&failed));
    let folder = tempfile::tempdir().unwrap();
    let profiles = folder.path().join("profiles");
    let mut files: Vec<PathBuf> = write(&profiles, 0..20);
    let dataset = "s3://bucket/fleet";
    let secret = folder.path().join("secret").display().to_string();
    fleet(proxy, &["ingest", dataset, profiles.to_str().unwrap(), "--layout", LAYOUT, "--secret", &secret]);
    files.extend(write(&profiles, 20..30));
    fleet(proxy, &["ingest", dataset, profiles.to_str().unwrap(), "--layout", LAYOUT, "--secret", &secret]);
    let output = folder.path().join("merged.gv");
    fleet(proxy, &["merge", dataset, "--by-recordings", "-o", output.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), merged_by_core(&files));
    assert!(fleet(proxy, &["fsck", dataset]).ends_with(" 0 faults\n"));
    let (requests, failed) = (requests.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
    assert!(failed * 2 >= requests - 1 && failed > 20, "{failed} of {requests} calls failed");
}
