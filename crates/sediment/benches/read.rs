// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast profiles are read: `cargo bench -p sediment --bench read` prints bytes per second.
//!
//! Files of 100 MB are made in memory first. A callgrind file is to be read at 150 MB/s or more.

#[path = "../tests/support/callgrind_text.rs"]
mod callgrind_text;
#[path = "../tests/support/perf_data_writer.rs"]
mod perf_data_writer;
#[path = "../tests/support/perf_report_text.rs"]
mod perf_report_text;

use callgrind_text::{Form, Program};
use divan::Bencher;
use divan::counter::BytesCount;
use perf_report_text::{Call, End, Field};
use sediment::read::{Settings, read};

const SIZE: usize = 100_000_000;

fn main() {
    divan::main();
}

/// A program of 60,000 functions with 240,000 calls between them, repeated until it is large enough: as with dumps of a
/// program that runs on.
fn callgrind(form: Form) -> Vec<u8> {
    let part = Program::generate(60_000, 60_000, 60, 1).print(Form { parts: 1, ..form });
    part.repeat(SIZE.div_ceil(part.len())).into_bytes()
}

const AS_IT_COMES: Form = Form {
    compress_names: true,
    compress_positions: true,
    instructions: false,
    lines: true,
    further_events: 0,
    parts: 1,
    carriage_returns: false,
};

fn measure(bencher: Bencher<'_, '_>, bytes: &[u8]) {
    bencher
        .counter(BytesCount::of_slice(bytes))
        .bench_local(|| read(divan::black_box(&bytes), &Settings::default()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn callgrind_as_it_comes(bencher: Bencher<'_, '_>) {
    measure(bencher, &callgrind(AS_IT_COMES));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn callgrind_instructions_and_many_events(bencher: Bencher<'_, '_>) {
    measure(bencher, &callgrind(Form { instructions: true, further_events: 3, ..AS_IT_COMES }));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn callgrind_uncompressed(bencher: Bencher<'_, '_>) {
    measure(bencher, &callgrind(Form { compress_names: false, compress_positions: false, ..AS_IT_COMES }));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn perf_report(bencher: Bencher<'_, '_>) {
    let mut numbers = callgrind_text::Numbers(1);
    let mut end = || {
        let number = numbers.below(20_000);
        End::symbol(
            ["postgres", "libc.so.6", "libcrypto.so.3"][number as usize % 3],
            &format!("function_{number}"),
        )
    };
    let calls: Vec<Call> =
        (1..60_000).map(|count| Call { command: "postgres".into(), from: end(), to: end(), count }).collect();
    let fields = [
        Field::Overhead,
        Field::Command,
        Field::SourceObject,
        Field::SourceSymbol,
        Field::TargetObject,
        Field::TargetSymbol,
        Field::Ipc,
    ];
    let part = perf_report_text::print("branches:u", &calls, &perf_report_text::Form::new(&fields));
    measure(bencher, part.repeat(SIZE.div_ceil(part.len())).as_bytes());
}

/// 32 calls a sample, of 100,000 that are distinct, in one library.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn perf_data(bencher: Bencher<'_, '_>) {
    use perf_data_writer::{ANY_CALL, Branch, PerfData, UNTYPED};
    let mut numbers = callgrind_text::Numbers(1);
    let mut address = || 0x7f00_0000_0000 + u64::from(numbers.below(1 << 24) as u32);
    let calls: Vec<Branch> = (0..100_000).map(|_| Branch::new(address(), address(), UNTYPED)).collect();
    let mut file = PerfData::new();
    file.events[0].branch_sample_type = ANY_CALL | 1;
    file.mmap2(10, (0x7f00_0000_0000, 1 << 24, 0), "/usr/lib/library.so", &[1; 20], 1);
    let mut numbers = callgrind_text::Numbers(2);
    for time in 2.. {
        let stack: Vec<Branch> = (0..32).map(|_| calls[numbers.below(100_000) as usize]).collect();
        file.sample(10, time, stack[0].to, &stack);
        if file.len() >= SIZE {
            break;
        }
    }
    measure(bencher, &file.finish());
}
