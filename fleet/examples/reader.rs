// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of the profile reader, for proofs: reads all profiles below a folder into memory, parses each ROUNDS times, and prints MB per second of CPU time:
//! for the reader alone, and for the reader with the shares and rows of a submission.
//!
//!     reader DIR ROUNDS

use nix::time::ClockId;
use sediment_core::profile::text;
use sediment_fleet::{Named, Submission};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

fn read(folder: &Path, texts: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, texts);
        } else {
            texts.push(std::fs::read(path).unwrap());
        }
    }
}

/// CPU time of this thread.
fn spent() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap().into()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, rounds] = &arguments[..] else { panic!("reader DIR ROUNDS") };
    let rounds: usize = rounds.parse().unwrap();
    let mut texts = Vec::new();
    read(Path::new(folder), &mut texts);
    let bytes: usize = texts.iter().map(Vec::len).sum();
    let rate = |work: &dyn Fn(&[u8])| {
        let begun = spent();
        for text in (0..rounds).flat_map(|_| &texts) {
            work(text);
        }
        (bytes * rounds) as f64 / 1e6 / (spent() - begun).as_secs_f64()
    };
    let alone = rate(&|text| drop(black_box(text::parse(text).unwrap())));
    let whole = rate(&|text| drop(black_box(Submission::read(text, &Named::default()).unwrap())));
    println!("{alone:.0}\t{whole:.0}\t{}\t{}", texts.len(), bytes / texts.len());
}
