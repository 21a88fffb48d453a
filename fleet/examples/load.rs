// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load for proofs: sends submissions to an intake at a fixed rate, each one different, and prints a summary of the answers.
//!
//!     load ADDRESS TOKEN DIR RATE SECONDS CONNECTIONS

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A body for each number. A function of another size makes it a different submission.
fn body(bodies: &[String], number: usize) -> String {
    let text = &bodies[number % bodies.len()];
    let end = text.rfind('}').unwrap();
    format!("{}\"load\" [size={}];\n}}\n", &text[..end], 1 + number / bodies.len())
}

/// Sends one submission. Returns the status.
fn send(stream: &mut BufReader<TcpStream>, token: &str, body: &str) -> std::io::Result<u16> {
    let head = format!(
        "POST /v1/profiles HTTP/1.1\r\nHost: load\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), body.as_bytes()].concat();
    stream.get_mut().write_all(&request)?;
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|status| status.parse().ok()).unwrap_or(0);
        } else if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap_or(0);
        } else if line.is_empty() {
            break;
        }
    }
    std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink())?;
    Ok(status)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, token, folder, rate, seconds, connections] = &arguments[..] else {
        panic!("load ADDRESS TOKEN DIR RATE SECONDS CONNECTIONS")
    };
    let (rate, seconds): (f64, f64) = (rate.parse().unwrap(), seconds.parse().unwrap());
    let connections: usize = connections.parse().unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let bodies: Vec<String> = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let all = (rate * seconds) as usize;
    let begun = Instant::now();
    let mut results: Vec<(u16, Duration)> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|thread| {
                let bodies = &bodies;
                scope.spawn(move || {
                    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
                    let mut results = Vec::new();
                    for number in (thread..all).step_by(connections) {
                        let due = Duration::from_secs_f64(number as f64 / rate);
                        std::thread::sleep(due.saturating_sub(begun.elapsed()));
                        let body = body(bodies, number);
                        let sent = Instant::now();
                        let status = send(&mut stream, token, &body).unwrap_or(0);
                        results.push((status, sent.elapsed()));
                        if status == 0 {
                            stream = BufReader::new(TcpStream::connect(address).unwrap());
                        }
                    }
                    results
                })
            })
            .collect();
        for thread in threads {
            results.extend(thread.join().unwrap());
        }
    });
    let spent = begun.elapsed().as_secs_f64();
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for (status, _) in &results {
        *statuses.entry(*status).or_default() += 1;
    }
    let mut times: Vec<Duration> = results.iter().map(|(_, time)| *time).collect();
    times.sort();
    let at = |part: usize| {
        times.get(times.len() * part / 1000).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    println!("{all}\t{spent:.1}\t{:.0}\t{:.1}\t{:.1}\t{statuses:?}", all as f64 / spent, at(500), at(990));
}
