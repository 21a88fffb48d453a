// SPDX-License-Identifier: MIT OR Apache-2.0
//! A made-up run of a program, entry by entry, and what tracers and instrumenting profilers would write of it.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A function begins or returns.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub time: u64,
    pub thread: u64,
    pub depth: usize,
    pub function: usize,
    pub enters: bool,
}

/// Events in the order of time.
#[derive(Debug, Clone)]
pub struct Run {
    pub names: Vec<String>,
    pub events: Vec<Event>,
}

/// Events of the run, by the numbers of functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Truth {
    pub calls: BTreeMap<(usize, usize), u128>,
    /// Entries without a caller.
    pub starts: u128,
    /// Nanoseconds that each function ran itself.
    pub own: BTreeMap<usize, u128>,
    /// In which thread a function, or none, begins or goes on to run.
    pub steps: Vec<(u64, Option<usize>)>,
}

/// Sizes and order of the numbers of a gmon.out.
#[derive(Debug, Clone, Copy)]
pub struct Gmon {
    pub wide: bool,
    pub little: bool,
    /// Address of the first function.
    pub base: u64,
}

/// Bytes from one function to the next in a gmon.out.
pub const FUNCTION: u64 = 64;

fn number_below(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) % bound
}

impl Run {
    /// A run of so many functions and threads, the same for the same seed.
    pub fn generate(functions: usize, threads: u64, steps: usize, seed: u64) -> Self {
        let mut state = seed * 2 + 1;
        let mut below = |bound: u64| number_below(&mut state, bound);
        let mut names: Vec<String> =
            (1..functions).map(|n| format!("_ZN4part{}function_{n}Ev", n % 10)).collect();
        names.insert(0, "main".to_owned());
        let mut stacks: Vec<Vec<usize>> = vec![Vec::new(); threads as usize];
        let (mut events, mut time) = (Vec::new(), 12_479_163_323_336u64);
        let mut push = |stacks: &mut Vec<Vec<usize>>, thread: usize, function: Option<usize>, time: u64| {
            let id = 13_900 + 7 * thread as u64;
            match function {
                Some(function) => {
                    events.push(Event {
                        time,
                        thread: id,
                        depth: stacks[thread].len(),
                        function,
                        enters: true,
                    });
                    stacks[thread].push(function);
                }
                None => {
                    if let Some(function) = stacks[thread].pop() {
                        let depth = stacks[thread].len();
                        events.push(Event { time, thread: id, depth, function, enters: false });
                    }
                }
            }
        };
        for _ in 0..steps {
            time += 1 + below(5000);
            let thread = below(threads) as usize;
            let enters = below(9) < 5 && stacks[thread].len() < 30 || stacks[thread].is_empty();
            // Each function calls few others, and itself now and then.
            let above = stacks[thread]
                .last()
                .map_or(thread, |caller| caller * 3 + below(4) as usize * (functions / 5));
            push(&mut stacks, thread, enters.then_some(above % functions), time);
        }
        for thread in 0..threads as usize {
            while !stacks[thread].is_empty() {
                time += 40;
                push(&mut stacks, thread, None, time);
            }
        }
        Self { names, events }
    }

    pub fn truth(&self) -> Truth {
        let mut truth = Truth::default();
        let mut stacks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        let mut running: BTreeMap<u64, Option<usize>> = BTreeMap::new();
        for event in &self.events {
            let stack = stacks.entry(event.thread).or_default();
            let before = last.insert(event.thread, event.time);
            if let (Some(top), Some(before)) = (stack.last(), before) {
                *truth.own.entry(*top).or_default() += u128::from(event.time - before);
            }
            if event.enters {
                match stack.last() {
                    Some(caller) => *truth.calls.entry((*caller, event.function)).or_default() += 1,
                    None => truth.starts += 1,
                }
                stack.push(event.function);
            } else {
                stack.pop();
            }
            let now = stack.last().copied();
            if running.insert(event.thread, now).flatten() != now {
                truth.steps.push((event.thread, now));
            }
        }
        truth
    }

    fn seconds(time: u64) -> String {
        format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
    }

    /// `uftrace dump`: thread by thread, with arguments and events between.
    pub fn dump(&self) -> String {
        let mut text = String::from(
            "uftrace file header: magic         = 4674726163652100\nuftrace file header: version       = 4\n\
             uftrace file header: info          = 0x3bff (EXE_NAME | EXE_BUILD_ID)\n",
        );
        let mut threads: Vec<u64> = self.events.iter().map(|event| event.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in threads {
            writeln!(text, "\nreading {thread}.dat").unwrap();
            for (at, event) in self.events.iter().enumerate().filter(|(_, event)| event.thread == thread) {
                let (time, kind) = (Self::seconds(event.time), if event.enters { "entry" } else { "exit " });
                let name = &self.names[event.function];
                writeln!(text, "{time} {thread:6}: [{kind}] {name}(5581{at:08x}) depth: {}", event.depth)
                    .unwrap();
                if at % 7 == 0 {
                    let kind = if event.enters { "args " } else { "retval" };
                    writeln!(
                        text,
                        "{time} {thread:6}: [{kind}] length = 8\n  args[0] d64: 0x0000000000000010"
                    )
                    .unwrap();
                }
            }
        }
        text + "\nreading perf-cpu0.dat\n12479.161850539  13900: [event] linux:sched-in(200001)\n\
                reading kernel-cpu0.dat\n12479.161850539  13900: [entry] __x64_sys_read(ffffffff81) depth: 0\n"
    }

    /// The entries alone.
    pub fn entries(&self) -> String {
        let mut text = String::from("# entered functions\n");
        for event in self.events.iter().filter(|event| event.enters) {
            writeln!(text, "{}", self.names[event.function]).unwrap();
        }
        text
    }

    /// gmon.out: a call from some place in the caller to where the callee has announced itself; a tick for each 1000 ns, in
    /// the bucket in the middle of the function.
    pub fn gmon(&self, form: Gmon) -> Vec<u8> {
        let truth = self.truth();
        let mut file = b"gmon".to_vec();
        let put = |file: &mut Vec<u8>, value: u64, length: usize| {
            let bytes = value.to_le_bytes();
            match form.little {
                true => file.extend(&bytes[..length]),
                false => file.extend(bytes[..length].iter().rev()),
            }
        };
        let address = if form.wide { 8 } else { 4 };
        put(&mut file, 1, 4);
        file.extend([0; 12]);
        let buckets = self.names.len() as u64 * FUNCTION / 4;
        file.push(0);
        put(&mut file, form.base, address);
        put(&mut file, form.base + 4 * buckets, address);
        put(&mut file, buckets, 4);
        put(&mut file, 100, 4);
        file.extend(b"seconds\0\0\0\0\0\0\0\0s");
        for bucket in 0..buckets {
            let (function, inside) = (bucket * 4 / FUNCTION, bucket * 4 % FUNCTION);
            let ticks = Self::ticks(&truth, function as usize);
            put(&mut file, if inside == FUNCTION / 2 { ticks } else { 0 }, 2);
        }
        for (number, ((caller, callee), count)) in truth.calls.iter().enumerate() {
            // Some calls are made at two places.
            let places =
                if number % 3 == 0 && *count > 1 { vec![1, *count as u64 - 1] } else { vec![*count as u64] };
            for (place, count) in places.into_iter().enumerate() {
                file.push(1);
                put(&mut file, form.base + *caller as u64 * FUNCTION + 20 + 5 * place as u64, address);
                put(&mut file, form.base + *callee as u64 * FUNCTION + 9, address);
                put(&mut file, count, 4);
            }
        }
        file
    }

    /// Ticks of a function in the gmon.out.
    pub fn ticks(truth: &Truth, function: usize) -> u64 {
        truth.own.get(&function).map_or(0, |own| (own / 1000).min(60_000) as u64)
    }
}
