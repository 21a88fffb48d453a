// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Bucket`]: an S3 bucket in memory. Each request runs under one lock, so exactly one of two puts of a new name succeeds, and the other fails with 412.
//! Signatures are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Objects on a page of a list. Few, so that lists have several pages.
const PAGE: usize = 50;

struct Object {
    bytes: Vec<u8>,
    tag: u64,
    written: chrono::DateTime<chrono::Utc>,
}

/// The server, until the process ends.
pub(crate) struct Bucket {
    pub(crate) address: SocketAddr,
    pub(crate) requests: AtomicU64,
    /// Number of requests that were answered with 503; half of them were executed before.
    pub(crate) failed: AtomicU64,
    /// Number of puts that were rejected because the name was taken.
    pub(crate) refused: AtomicU64,
    objects: Mutex<BTreeMap<String, Object>>,
}

struct Request {
    method: String,
    /// Path below the bucket, decoded.
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Bucket {
    /// Starts a server for `/bucket`. With `fails`, every second request fails.
    pub(crate) fn start(fails: bool) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bucket = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            requests: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            objects: Mutex::default(),
        });
        let server = Arc::clone(&bucket);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let server = Arc::clone(&server);
                std::thread::spawn(move || {
                    let mut waiting = Vec::new();
                    while let Some(request) = next_request(&mut stream, &mut waiting) {
                        let answer = server.answer(&request, fails);
                        if stream.write_all(&answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        bucket
    }

    fn answer(&self, request: &Request, fails: bool) -> Vec<u8> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if fails && number.is_multiple_of(2) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            if number.is_multiple_of(4) {
                self.work(request);
            }
            return response(503, &[], b"", true);
        }
        if request.headers.contains_key("if-none-match") {
            // A delay like on a network, so that other writers can come between reading the log and the put.
            std::thread::sleep(Duration::from_millis(30));
        }
        self.work(request)
    }

    fn work(&self, request: &Request) -> Vec<u8> {
        let mut objects = self.objects.lock().unwrap();
        match request.method.as_str() {
            "PUT" => {
                let there = objects.get(&request.key).map(|object| tag(object.tag));
                let is_new = request.headers.get("if-none-match").is_some_and(|tag| tag == "*");
                let expected = request.headers.get("if-match");
                if is_new && there.is_some() || expected.is_some() && expected != there.as_ref() {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return response(412, &[], b"", true);
                }
                let number = self.requests.load(Ordering::Relaxed);
                let written = SystemTime::now().into();
                let object = Object { bytes: request.body.clone(), tag: number, written };
                objects.insert(request.key.clone(), object);
                response(200, &[("ETag", tag(number))], b"", true)
            }
            "GET" if request.query.contains_key("list-type") => list(&objects, &request.query),
            "GET" | "HEAD" => match objects.get(&request.key) {
                Some(object) => get(object, request),
                None => response(404, &[], b"", true),
            },
            "POST" if request.query.contains_key("delete") => {
                let body = String::from_utf8(request.body.clone()).unwrap();
                let mut deleted = String::new();
                for part in body.split("<Key>").skip(1) {
                    let key = part.split("</Key>").next().unwrap();
                    objects.remove(key);
                    let _ = write!(deleted, "<Deleted><Key>{key}</Key></Deleted>");
                }
                let text = format!("<DeleteResult>{deleted}</DeleteResult>");
                response(200, &[], text.as_bytes(), true)
            }
            "DELETE" => {
                objects.remove(&request.key);
                response(204, &[], b"", true)
            }
            other => panic!("the bucket knows no {other}"),
        }
    }
}

fn tag(number: u64) -> String {
    format!("\"{number:x}\"")
}

fn get(object: &Object, request: &Request) -> Vec<u8> {
    let length = object.bytes.len();
    let headers = [("ETag", tag(object.tag)), ("Last-Modified", object.written.to_rfc2822())];
    let has_body = request.method == "GET";
    let Some(range) = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return response(200, &headers, &object.bytes, has_body);
    };
    let (from, to) = range.split_once('-').unwrap();
    let (from, to) = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => (from, (to + 1).min(length)),
        (Ok(from), Err(_)) => (from, length),
        (Err(_), last) => (length - last.unwrap().min(length), length),
    };
    let part = ("Content-Range", format!("bytes {from}-{}/{length}", to - 1));
    response(206, &[&headers[..], &[part]].concat(), &object.bytes[from..to], has_body)
}

/// A page of a list by prefix, with or without a delimiter.
fn list(objects: &BTreeMap<String, Object>, query: &BTreeMap<String, String>) -> Vec<u8> {
    let text = |name: &str| query.get(name).cloned().unwrap_or_default();
    let (prefix, after) = (text("prefix"), text("start-after").max(text("continuation-token")));
    let mut found = String::new();
    let mut folders = BTreeSet::new();
    let mut count = 0;
    let mut last = None;
    for (key, object) in objects.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix)) {
        if *key <= after {
            continue;
        }
        if count == PAGE {
            last = last.map(|last| format!("<NextContinuationToken>{last}</NextContinuationToken>"));
            break;
        }
        count += 1;
        last = Some(key.clone());
        match key[prefix.len()..].split_once('/') {
            Some((folder, _)) if text("delimiter") == "/" => {
                folders.insert(format!("{prefix}{folder}/"));
            }
            _ => {
                let (size, tag, date) = (object.bytes.len(), object.tag, object.written.to_rfc3339());
                let _ = write!(
                    found,
                    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;{tag:x}&quot;</ETag><LastModified>{date}</LastModified></Contents>"
                );
            }
        }
    }
    for folder in folders {
        let _ = write!(found, "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
    }
    let next = last.filter(|last| last.starts_with('<')).unwrap_or_default();
    let text = format!("<ListBucketResult>{found}{next}</ListBucketResult>");
    response(200, &[("Content-Type", "application/xml".to_owned())], text.as_bytes(), true)
}

fn response(status: u16, headers: &[(&str, String)], body: &[u8], has_body: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| {
        let _ = write!(head, "{name}: {value}\r\n");
    });
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(if has_body { body } else { b"" });
    bytes
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

/// The next request of a connection, with its body. `waiting` contains the bytes after it.
fn next_request(client: &mut TcpStream, waiting: &mut Vec<u8>) -> Option<Request> {
    let mut piece = [0; 64 * 1024];
    loop {
        if let Some(end) = waiting.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8(waiting[..end].to_vec()).unwrap();
            let mut lines = head.lines();
            let mut first = lines.next()?.split(' ').map(str::to_owned);
            let headers: BTreeMap<String, String> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            if waiting.len() >= end + 4 + length {
                let rest = waiting.split_off(end + 4 + length);
                let body = std::mem::replace(waiting, rest).split_off(end + 4);
                let (method, target) = (first.next()?, first.next()?);
                let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                let path = path.strip_prefix("/bucket").expect("the name of the bucket");
                let query = query.split('&').filter(|part| !part.is_empty());
                let query = query.map(|part| part.split_once('=').unwrap_or((part, "")));
                return Some(Request {
                    method,
                    key: decoded(path.trim_start_matches('/')),
                    query: query.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
                    headers,
                    body,
                });
            }
        }
        match client.read(&mut piece) {
            Ok(count) if count > 0 => waiting.extend(&piece[..count]),
            _ => return None,
        }
    }
}
