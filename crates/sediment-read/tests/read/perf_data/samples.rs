// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of other samples than branch stacks: call stacks, single branches, addresses; and of the choice among several
//! events.

use super::*;
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::skipped::{Amount, NoCall, Nowhere, Reason, Side};
use sediment_read::read::{ReadSettings, Step, replay};
use sediment_read::trace::StepCounter;
use std::collections::BTreeMap;

/// Makes a recording of one event with these fields, and with the program mapped at [`BASE`].
fn recording_of(name: &'static str, of: (u32, u64), sample_type: u64, branch_sample_type: u64) -> PerfData {
    let mut file = PerfData::new();
    let event = Event { name, of, sample_type, branch_sample_type, ..file.events[0].clone() };
    file.events = vec![event];
    file.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
    file
}

fn chains() -> PerfData {
    recording_of("cycles:u", (0, 0), IP | TID | TIME | PERIOD | CALLCHAIN, 0)
}

/// Returns the calls as offsets in the program, with their counts.
fn passages(recording: &Recording) -> BTreeMap<(u64, u64), u128> {
    let offset = |id: sediment_read::read::AddressId| match recording.addresses()[id.0 as usize].spot {
        Spot::FileOffset(offset) => offset - 0x1000,
        _ => panic!("no offset"),
    };
    recording.transfers().iter().map(|(from, to, _, count)| ((offset(*from), offset(*to)), *count)).collect()
}

/// If every branch is recorded, the code between two of them ran; the stack is read from the newest branch back.
#[test]
fn between_two_branches_code_ran() {
    let stack = [
        Branch::new(BASE + 0x90, BASE + 0x10, CONDITIONAL),
        Branch::new(BASE + 0x48, BASE + 0x80, JUMP),
        Branch::new(BASE + 0x08, BASE + 0x40, CALL),
        // A lost record leaves code that would run backwards.
        Branch::new(BASE + 0x88, BASE + 0x70, JUMP),
    ];
    let settings = ReadSettings { executions: true, ..ReadSettings::default() };
    for (recorded, expected) in [(ANY, vec![(0x40, 0x48, 2), (0x80, 0x90, 2)]), (ANY_CALL, Vec::new())] {
        let mut file = recording_of("cycles:u", (0, 0), IP | TID | TIME | PERIOD | BRANCH_STACK, recorded);
        for time in [5, 6] {
            file.sample(10, time, BASE + 0x20, &stack);
        }
        let recording = sediment_read::read::read(&file.finish().as_slice(), &settings).unwrap();
        let offset =
            |place: sediment_read::read::AddressId| match recording.addresses()[place.0 as usize].spot {
                Spot::FileOffset(offset) => offset - 0x1000,
                _ => panic!("no offset"),
            };
        let mut runs: Vec<(u64, u64, u64)> = recording
            .straight_runs()
            .iter()
            .map(|run| (offset(run.from), offset(run.to.unwrap()), run.count))
            .collect();
        runs.sort_unstable();
        assert_eq!(runs, expected);
        assert_eq!(recording.counts_by_samples, expected.is_empty());
    }
}

#[test]
fn call_chains_are_calls_from_the_byte_before_the_one_they_return_to() {
    let mut file = chains();
    let at = |offset: u64| BASE + offset;
    file.chain = Some(vec![CONTEXT_USER, at(0x30), at(0x25), at(0x15)]);
    file.sample(10, 5, at(0x30), &[]);
    file.sample(10, 6, at(0x30), &[]);
    // A sample in the kernel, entered from 0x31, gives the program no own cost. The kernel's part of the chain is cut
    // off.
    file.chain = Some(vec![CONTEXT_KERNEL, KERNEL, KERNEL + 9, CONTEXT_USER, at(0x31), at(0x25)]);
    file.sample_of(0, IN_KERNEL, 10, 7, KERNEL, &[]);
    // With recursion each pair counts once. One caller is unknown.
    file.chain = Some(vec![CONTEXT_USER, at(0x40), at(0x41), at(0x41), at(0x41), 0x77]);
    file.sample(10, 8, at(0x40), &[]);
    let recording = read(&file.finish());
    let expected = [((0x24, 0x30), 2000), ((0x14, 0x24), 2000), ((0x24, 0x31), 1000), ((0x40, 0x40), 1000)];
    assert_eq!(passages(&recording), BTreeMap::from(expected));
    assert_eq!(recording.total, 7000);
    assert_eq!(recording.source.to_string(), "perf call stacks (cycles:u) without call counts or time order");
    let own: Vec<u128> = recording.samples().into_iter().map(|(_, cost)| cost).collect();
    assert_eq!(own.iter().sum::<u128>(), 3000);
    assert_eq!(recording.skipped.items(Nowhere::System.of(Amount::OwnCost)), 1);
    assert_eq!(recording.skipped.items(Reason::Nowhere(Amount::Calls, Nowhere::Unmapped, Side::From)), 1);
}

/// Executes a known sequence of calls and returns, and shows after each step what a profiler of stacks and one of
/// branches would see.
#[derive(Default)]
struct Machine {
    /// The place from which each running function was called, outermost first, and the last executed byte.
    stack: Vec<u64>,
    branches: Vec<Branch>,
}

impl Machine {
    const FUNCTION: u64 = 0x100;

    fn call(&mut self, from: u64, to: u64) {
        let site = BASE + from * Self::FUNCTION + 0x10 + 8 * to;
        self.branches.push(Branch::new(site, BASE + to * Self::FUNCTION, CALL));
        self.stack.push(site);
    }

    fn leave(&mut self, from: u64) {
        if let Some(site) = self.stack.pop() {
            self.branches.push(Branch::new(BASE + from * Self::FUNCTION + 0xff, site + 5, RETURN));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// A run of calls and returns between seven functions, recorded as branch stacks, as call chains and as call stacks
    /// of branch records, in either byte order, in a file or a pipe, compressed or not. Each must give all that it can
    /// contain.
    #[test]
    fn one_run_seen_by_every_means(
        steps in proptest::collection::vec(prop::option::weighted(0.6, 1u64..7), 1..60),
        big_endian in any::<bool>(),
        pipe in any::<bool>(),
        compressed in prop::option::of((20usize..5000, any::<bool>())),
    ) {
        let mut by_branch = begin();
        by_branch.events[0].sample_type |= IDENTIFIER;
        let mut by_chain = recording_of("cycles:u", (0, 0), IP | TID | TIME | PERIOD | CALLCHAIN | IDENTIFIER | WEIGHT, 0);
        let stacks = IP | TID | TIME | PERIOD | BRANCH_STACK | IDENTIFIER;
        let mut by_lbr = recording_of("cycles:u", (0, 0), stacks, ANY_CALL | CALL_STACK);
        let mut files = [&mut by_branch, &mut by_chain, &mut by_lbr];
        files.iter_mut().for_each(|file| file.big_endian = big_endian);
        // The byte order is chosen before the first record is written.
        for file in &mut files {
            let mut again = file.without_records();
            again.mmap2(10, (BASE, 0x2000, 0x1000), PROGRAM, &[0xcd; 20], 2);
            **file = again;
        }
        let starts = files.each_ref().map(|file| file.len());

        let mut machine = Machine::default();
        let (mut functions, mut time) = (vec![0u64], 10);
        let mut calls: BTreeMap<(u64, u64), u128> = BTreeMap::new();
        let mut lasting: BTreeMap<(u64, u64), u128> = BTreeMap::new();
        let mut met = 0;
        for step in steps {
            let now = *functions.last().unwrap();
            match step {
                Some(to) => {
                    machine.call(now, to);
                    functions.push(to);
                    *calls.entry((now, to)).or_default() += 1;
                }
                None if functions.len() > 1 => {
                    machine.leave(now);
                    functions.pop();
                }
                None => continue,
            }
            time += 1;
            let address = BASE + functions.last().unwrap() * Machine::FUNCTION + 0xf0;
            // Every branch is in exactly one stack.
            let new: Vec<Branch> = machine.branches[met..].iter().rev().copied().collect();
            met = machine.branches.len();
            by_branch.sample(10, time, address, &new);
            let callers = machine.stack.iter().rev();
            by_chain.chain = Some([CONTEXT_USER, address].into_iter().chain(callers.clone().map(|site| site + 1)).collect());
            by_chain.sample(10, time, address, &[]);
            let entries: Vec<Branch> = callers.zip(functions.iter().rev())
                .map(|(site, function)| Branch::new(*site, BASE + function * Machine::FUNCTION, CALL)).collect();
            by_lbr.sample(10, time, address, &entries);
            let mut pairs: Vec<(u64, u64)> = functions.windows(2).map(|pair| (pair[0], pair[1])).collect();
            pairs.sort_unstable();
            pairs.dedup();
            for pair in pairs {
                *lasting.entry(pair).or_default() += 1000;
            }
        }
        prop_assume!(!calls.is_empty());
        let mut files = [by_branch, by_chain, by_lbr];
        if let Some((piece, newer)) = compressed {
            files.iter_mut().zip(starts).for_each(|(file, start)| file.compress(start, piece, newer));
        }
        let [by_branch, by_chain, by_lbr] = files.map(|file| {
            let bytes = if pipe { file.finish_pipe() } else { file.finish() };
            (read(&bytes), bytes)
        });
        let by_function = |recording: &Recording| {
            let mut sums: BTreeMap<(u64, u64), u128> = BTreeMap::new();
            for ((from, to), count) in passages(recording) {
                *sums.entry((from / Machine::FUNCTION, to / Machine::FUNCTION)).or_default() += count;
            }
            sums
        };
        prop_assert_eq!(by_function(&by_branch.0), calls.clone());
        prop_assert_eq!(by_branch.0.total, calls.values().sum::<u128>());
        prop_assert_eq!(by_branch.0.source.to_string(), "perf branch records (branches:u)");
        prop_assert_eq!(by_branch.0.arch.as_deref(), Some("x86_64"));
        // If a stack has several calls between the same two functions from the same place, addresses cannot distinguish
        // them.
        let (chain, lbr) = (by_function(&by_chain.0), by_function(&by_lbr.0));
        prop_assert_eq!(&chain.keys().collect::<Vec<_>>(), &lasting.keys().collect::<Vec<_>>());
        prop_assert!(lasting.iter().all(|(pair, count)| chain[pair] >= *count), "{chain:?} {lasting:?}");
        prop_assert_eq!(chain, lbr);

        // Replays the steps of the run: every function that began or continued, in order.
        let mut told = Vec::new();
        let mut note = |step: Step| {
            if let Step::Run { place, .. } = step {
                let Spot::FileOffset(offset) = by_branch.0.addresses()[place.0 as usize].spot else { return };
                told.push((offset - 0x1000) / Machine::FUNCTION);
            }
        };
        prop_assert!(replay(&by_branch.1, &ReadSettings::default(), &by_branch.0, &mut note).unwrap());
        let mut ran = vec![0];
        ran.extend(machine.branches.iter().map(|branch| (branch.to - BASE) / Machine::FUNCTION));
        told.dedup();
        ran.dedup();
        prop_assert_eq!(told, ran);
    }
}

#[test]
fn workers_count_steps_as_one_does() {
    let mut file = recording_of("branches:u", (0, 4), IP | TID | TIME | BRANCH_STACK, ANY_CALL);
    // The file is large enough to be shared by several threads, if there are several cores.
    for sample in 0..12_000u64 {
        let branch = |number: u64| {
            let (from, to) = ((sample * 7 + number) % 30, (sample * sample + number * 11) % 30);
            Branch::new(BASE + 0x100 * (from % 16) + number, BASE + 0x100 * (to % 16), CALL)
        };
        let branches: Vec<Branch> = (0..16).map(branch).collect();
        file.sample(10, 100 + sample, BASE + 0x20, &branches);
    }
    let bytes = file.finish();
    assert!(bytes.len() > 4 << 20);
    let recording = read(&bytes);
    let mut empty = Profile::default();
    let functions: Vec<_> = recording
        .addresses()
        .iter()
        .map(|place| match place.spot {
            Spot::FileOffset(offset) => {
                Some(empty.function(FunctionKey { dso: None, name: format!("f{}", offset >> 8), file: None }))
            }
            _ => None,
        })
        .collect();
    let (mut by_one, mut by_workers) = (StepCounter::new(&functions), StepCounter::new(&functions));
    let mut step = |step: Step| by_one.step(step);
    assert!(replay(&bytes, &ReadSettings::default(), &recording, &mut step).unwrap());
    assert!(replay(&bytes, &ReadSettings::default(), &recording, &mut by_workers).unwrap());
    assert!(by_one.runs() > 180_000, "{}", by_one.runs());
    assert_eq!(by_one.runs(), by_workers.runs());
    let profiles = [by_one, by_workers].map(|sequence| {
        let mut profile = empty.clone();
        sequence.put_into(&mut profile, false);
        profile
    });
    assert!(profiles[0].edge_count() > 100);
    assert_eq!(profiles[0], profiles[1]);
}

#[test]
fn lbr_call_stacks_of_the_kernel_begin_where_the_program_entered_it() {
    let sample_type = IP | TID | TIME | PERIOD | CALLCHAIN | BRANCH_STACK;
    let mut file = recording_of("cycles", (0, 0), sample_type, ANY_CALL | CALL_STACK);
    let branches = [Branch::new(BASE + 0x10, BASE + 0x100, CALL), Branch::new(BASE + 0x20, BASE, CALL)];
    file.chain = Some(vec![CONTEXT_KERNEL, KERNEL, CONTEXT_USER, BASE + 0x140]);
    file.sample_of(0, IN_KERNEL, 10, 5, KERNEL, &branches);
    file.chain = Some(vec![CONTEXT_KERNEL, KERNEL]);
    file.sample_of(0, IN_KERNEL, 10, 5, KERNEL, &branches);
    let recording = read(&file.finish());
    let expected = [((0x10, 0x140), 1000), ((0x10, 0x100), 1000), ((0x20, 0x10), 2000)];
    assert_eq!(passages(&recording), BTreeMap::from(expected));
    let source = "perf call stacks from branch records (cycles) without call counts or time order";
    assert_eq!(recording.source.to_string(), source);
}

#[test]
fn addresses_alone_are_own_cost_alone() {
    let mut file = recording_of("cpu-clock:u", (1, 0), IP | TID | TIME | PERIOD, 0);
    file.sample(10, 5, BASE + 0x10, &[]);
    file.sample_of(0, IN_KERNEL, 10, 6, KERNEL, &[]);
    file.sample_of(0, IN_GUEST, 10, 7, BASE, &[]);
    let recording = read(&file.finish());
    assert_eq!((recording.total, recording.samples().len()), (0, 1));
    let source = "perf samples (cpu-clock:u) without callers or call counts or time order";
    assert_eq!(recording.source.to_string(), source);
    assert_eq!(recording.skipped.items(Reason::GuestSample), 1);
}

#[test]
fn branches_made_of_a_processor_trace_are_branches() {
    let mut file = recording_of("branches", (0, 4), IP | TID | TIME | ADDR, 0);
    file.events[0].period = 1;
    file.about = BASE + 0x100;
    file.sample(10, 5, BASE + 0x10, &[]);
    let recording = read(&file.finish());
    assert_eq!(passages(&recording), BTreeMap::from([((0x10, 0x100), 1)]));
    assert_eq!(recording.transfers()[0].2, TransferKind::Branch);
}

#[test]
fn copies_of_the_stack_are_for_perf_to_unwind() {
    let sample_type = IP | TID | TIME | CALLCHAIN | REGS_USER | STACK_USER;
    let mut file = recording_of("cycles:u", (0, 0), sample_type, 0);
    file.chain = Some(vec![CONTEXT_USER]);
    file.sample(10, 5, BASE, &[]);
    let error = error(&file.finish());
    assert!(error.contains("--call-graph dwarf") && error.contains("perf script"), "{error}");
}

/// Such samples are written by simpleperf and others, which unwind the copies of the stack while they record.
#[test]
fn whole_chains_beside_registers_and_copies_of_the_stack_are_read() {
    let sample_type = IP | TID | TIME | CALLCHAIN | REGS_USER | STACK_USER;
    let mut file = recording_of("cycles:u", (0, 0), sample_type, 0);
    file.events[0].period = 1;
    for (time, chain) in
        [(5, vec![CONTEXT_USER, BASE + 0x30, BASE + 0x20]), (6, vec![CONTEXT_USER, BASE + 0x30])]
    {
        file.chain = Some(chain);
        file.sample(10, time, BASE + 0x30, &[]);
    }
    let recording = read(&file.finish());
    assert_eq!(passages(&recording), BTreeMap::from([((0x1f, 0x30), 1)]));
    assert_eq!(recording.samples().into_iter().map(|(_, cost)| cost).sum::<u128>(), 2);
}

#[test]
fn of_several_events_the_best_is_read_and_unlike_ones_are_not_added() {
    let sample_type = IP | TID | TIME | PERIOD | CALLCHAIN | IDENTIFIER;
    let mut file = recording_of("cpu_core/cycles/u", (0, 0xa << 32), sample_type, 0);
    let first = file.events[0].clone();
    file.events.push(Event { name: "cpu_atom/cycles/u", of: (0, 0x4 << 32), id: 8, ..first.clone() });
    file.events.push(Event { name: "instructions:u", of: (0, 1), id: 9, ..first.clone() });
    file.events.push(Event {
        name: "cpu-clock:u",
        of: (1, 0),
        id: 10,
        sample_type: sample_type & !CALLCHAIN,
        ..first
    });
    for event in 0..4 {
        file.chain = Some(vec![CONTEXT_USER, BASE + 0x30, BASE + 0x25 + event as u64]);
        file.sample_of(event, IN_USER, 10, 5, BASE + 0x30, &[]);
    }
    let recording = read(&file.finish());
    assert_eq!(passages(&recording), BTreeMap::from([((0x24, 0x30), 1000), ((0x25, 0x30), 1000)]));
    assert!(
        recording
            .source
            .to_string()
            .starts_with("perf call stacks (cpu_core/cycles/u+cpu_atom/cycles/u) without")
    );
    assert_eq!(recording.skipped.items(Reason::OtherEvent), 2);
}

#[test]
fn aborted_speculation_is_not_counted() {
    let mut file = begin();
    let real = Branch::new(BASE, BASE + 0x10, CALL);
    file.sample(10, 5, BASE, &[real, Branch { wrong_path: true, ..real }]);
    let recording = read(&file.finish());
    assert_eq!(recording.total, 1);
    let lost = Reason::NoCall(NoCall::WrongPath);
    assert_eq!(recording.skipped.items(lost), 1);
}
