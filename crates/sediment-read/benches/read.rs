// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmark of the readers, in bytes per second: `cargo bench -p sediment-order --bench read`.
//!
//! Files of 100 MB are made in memory first. The goals are 200 MB/s for a callgrind file, and 150 MB/s for reading and
//! for replaying a log of lackey.

use support::callgrind_text;
use support::lackey_log;
use support::perf_data_writer;
use support::perf_report_text;
use support::perf_script_text;

use callgrind_text::{Form, Program};
use divan::Bencher;
use divan::counter::BytesCount;
use perf_report_text::{Call, End, Field};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_read::read::{AddressId, ReadSettings, Step, read, replay};
use sediment_read::trace::StepCounter;

const SIZE: usize = 100_000_000;

fn main() {
    divan::main();
}

/// A program of 60,000 functions with 240,000 calls, repeated until the file is large enough, like dumps of a running
/// program.
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
        .bench_local(|| read(divan::black_box(&bytes), &ReadSettings::default()));
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

/// A run of 4,000 functions of eight blocks each, with loops inside and calls between them.
fn lackey() -> Vec<u8> {
    let mut numbers = callgrind_text::Numbers(1);
    let mut events = Vec::new();
    let mut function = 0;
    while events.len() < SIZE / 12 {
        for _ in 0..numbers.below(4) + 1 {
            for block in 0..numbers.below(8) + 1 {
                let place = ((function % 4) as usize, function / 4 * 128 + block * 16);
                events.push(lackey_log::Event::Block(place));
            }
        }
        // Mostly one of a few functions, as is typical for callees.
        function = (function * 31 + numbers.below(3) * 7) % 4000;
        if numbers.below(50) == 0 {
            function = numbers.below(4000);
        }
    }
    let form = lackey_log::Form { output_between: false, carriage_returns: false, times: false };
    lackey_log::print(&events, form).into_bytes()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn lackey_read(bencher: Bencher<'_, '_>) {
    measure(bencher, &lackey());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn lackey_replay(bencher: Bencher<'_, '_>) {
    let bytes = lackey();
    let recording = read(&bytes, &ReadSettings::default()).expect("a good log");
    bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| {
        let mut runs = 0u64;
        replay(&bytes, &ReadSettings::default(), &recording, &mut |_: Step| runs += 1).map(|_| runs)
    });
}

/// Ten million steps between 4,000 functions: affinity edges and ranks of first use.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn sequence_of_ten_million_steps(bencher: Bencher<'_, '_>) {
    let mut profile = Profile::default();
    let functions: Vec<_> = (0..4000)
        .map(|number| {
            Some(profile.function(FunctionKey { dso: None, name: format!("f{number}"), file: None }))
        })
        .collect();
    let mut numbers = callgrind_text::Numbers(1);
    let mut place = 0u64;
    let mut steps = Vec::new();
    for _ in 0..10_000_000 {
        place = if numbers.below(50) == 0 {
            numbers.below(4000)
        } else {
            (place * 31 + numbers.below(3) * 7) % 4000
        };
        steps.push(Step::Run { thread: 1, place: AddressId(place as u32) });
    }
    bencher.bench_local(|| {
        let mut sequence = StepCounter::new(&functions);
        sequence.steps(divan::black_box(&steps));
        sequence.runs()
    });
}

/// 24,000 functions of three processes: their mappings once, then samples until the file is large enough.
fn perf_script_branches(form: perf_script_text::Form) -> Vec<u8> {
    let program = perf_script_text::Program::generate(24_000, 10_000, 1);
    let text = perf_script_text::print_branches(&program, form);
    let samples = text.rfind("PERF_RECORD").and_then(|at| Some(at + text[at..].find('\n')? + 1)).unwrap();
    let (mappings, samples) = text.split_at(samples);
    format!("{mappings}{}", samples.repeat(SIZE.div_ceil(samples.len()))).into_bytes()
}

const FIELDS: perf_script_text::Form = perf_script_text::Form {
    command: true,
    process: true,
    processor: false,
    time: true,
    period: false,
    event: true,
    offset: true,
    object: true,
    inlined: false,
    carriage_returns: false,
    names: false,
    untyped: false,
};

#[divan::bench(sample_count = 5, sample_size = 1)]
fn perf_script_branch_stacks(bencher: Bencher<'_, '_>) {
    measure(bencher, &perf_script_branches(FIELDS));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn perf_script_branch_stacks_by_name(bencher: Bencher<'_, '_>) {
    measure(bencher, &perf_script_branches(perf_script_text::Form { names: true, ..FIELDS }));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn perf_script_call_chains(bencher: Bencher<'_, '_>) {
    let program = perf_script_text::Program::generate(24_000, 20_000, 1);
    let part = perf_script_text::print_chains(&program, perf_script_text::Form { period: true, ..FIELDS });
    measure(bencher, part.repeat(SIZE.div_ceil(part.len())).as_bytes());
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn folded(bencher: Bencher<'_, '_>) {
    let program = perf_script_text::Program::generate(24_000, 20_000, 1);
    let part = perf_script_text::print_folded(&program, Some("my_prog"));
    measure(bencher, part.repeat(SIZE.div_ceil(part.len())).as_bytes());
}

/// 32 calls per sample, out of 100,000 distinct calls in one library.
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
