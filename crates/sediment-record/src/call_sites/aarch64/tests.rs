// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stubs are executed by qemu-aarch64, if it and a compiler for AArch64 are here.

use super::TABLE;
use super::entrance::mapping;
use super::signal_frame::{self, ThreadRegisters};
use super::stubs::{emit_for, size};
use super::threads::table;
use super::writer::{B, BL, branch};
use crate::call_sites::counters::{
    EVENT_BYTES, EVENTS, FILES, FileCounters, FurtherTarget, MOST_EVENTS, SHARED, SiteCounts, TARGETS,
    TARGETS_BYTES, TO_NOTE,
};
use crate::call_sites::entrance::{Moment, Region, RegionKind};
use crate::call_sites::placement::{FileSites, MadeStubs, StubPlacement};
use crate::call_sites::sites::{DirectForm, DirectSite, IndirectSite, RelocatedCode};
use std::path::{Path, PathBuf};
use std::process::Command;

const CODE: u64 = 0x1000_0000;
const ROOM: u64 = 0x1100_0000;
const BLOCK: u64 = 0x2000_0000;
const PAGE_OF_ALL: u64 = 0x3000_0000;
const PAGE: u64 = 4096;
const RET: u32 = 0xd65f_03c0;
/// `bti c`: a branch must lead here if the page is guarded.
const LANDING_PAD: u32 = 0xd503_245f;
/// `str x30, [sp, -16]!` and `ldr x30, [sp], 16`.
const KEEP_LINK: u32 = 0xf81f_0ffe;
const LOAD_LINK: u32 = 0xf841_07fe;

/// Runs code with numbers in all registers, compares them afterwards, and prints the memory of the counters.
const HARNESS: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static void run(uint64_t *registers, uint64_t *flags) {
    register uint64_t *r __asm__("x0") = registers;
    register uint64_t *f __asm__("x1") = flags;
    __asm__ volatile(
        "stp x29, x30, [sp, -16]!\n stp x0, x1, [sp, -16]!\n stp x19, x20, [sp, -16]!\n stp x21, x22, [sp, -16]!\n"
        "stp x23, x24, [sp, -16]!\n stp x25, x26, [sp, -16]!\n stp x27, x28, [sp, -16]!\n"
        "ldr x2, [x1]\n msr nzcv, x2\n mov x30, x0\n"
        "ldp x0, x1, [x30]\n ldp x2, x3, [x30, 16]\n ldp x4, x5, [x30, 32]\n ldp x6, x7, [x30, 48]\n"
        "ldp x8, x9, [x30, 64]\n ldp x10, x11, [x30, 80]\n ldp x12, x13, [x30, 96]\n ldp x14, x15, [x30, 112]\n"
        "ldp x16, x17, [x30, 128]\n ldp x18, x19, [x30, 144]\n ldp x20, x21, [x30, 160]\n ldp x22, x23, [x30, 176]\n"
        "ldp x24, x25, [x30, 192]\n ldp x26, x27, [x30, 208]\n ldp x28, x29, [x30, 224]\n"
        "blr x29\n"
        "ldr x30, [sp, 80]\n"
        "stp x0, x1, [x30]\n stp x2, x3, [x30, 16]\n stp x4, x5, [x30, 32]\n stp x6, x7, [x30, 48]\n"
        "stp x8, x9, [x30, 64]\n stp x10, x11, [x30, 80]\n stp x12, x13, [x30, 96]\n stp x14, x15, [x30, 112]\n"
        "stp x16, x17, [x30, 128]\n stp x18, x19, [x30, 144]\n stp x20, x21, [x30, 160]\n stp x22, x23, [x30, 176]\n"
        "stp x24, x25, [x30, 192]\n stp x26, x27, [x30, 208]\n stp x28, x29, [x30, 224]\n"
        "ldr x1, [sp, 88]\n mrs x2, nzcv\n str x2, [x1]\n"
        "ldp x27, x28, [sp], 16\n ldp x25, x26, [sp], 16\n ldp x23, x24, [sp], 16\n ldp x21, x22, [sp], 16\n"
        "ldp x19, x20, [sp], 16\n add sp, sp, 16\n ldp x29, x30, [sp], 16\n"
        : "+r"(r), "+r"(f) : : "memory", "cc", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
        "x13", "x14", "x15", "x16", "x17", "x18");
}
static struct { uint64_t place, target, times; } calls[64];
static int number;
static void *work(void *unused) {
    for (int i = 0; i < number; i++)
        for (uint64_t time = 0; time < calls[i].times; time++) {
            uint64_t before[31], after[31], flags = time % 16 << 28, kept = flags;
            for (int r = 0; r < 30; r++) before[r] = 0x123456789abcdef0 * (r + 1) + time;
            before[3] = before[16] = calls[i].target;
            before[29] = calls[i].place;
            memcpy(after, before, sizeof after);
            run(after, &flags);
            if (memcmp(after, before, 30 * 8) || flags != kept) { fprintf(stderr, "registers changed by call %d\n", i); exit(1); }
        }
    return unused;
}
int main(int count, char **words) {
    FILE *given = fopen(words[1], "rb");
    uint64_t part[2], shown[2];
    int threads = atoi(words[2]), guarded = atoi(words[3]);
    fread(shown, 8, 2, given);
    while (fread(part, 8, 2, given) == 2 && part[0]) {
        int access = part[0] == 0x10000000 && guarded ? 7 | 16 : 7;
        if (mmap((void *)part[0], part[1], access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return 2;
        uint64_t length;
        fread(&length, 8, 1, given);
        fread((void *)part[0], 1, length, given);
        __builtin___clear_cache((char *)part[0], (char *)part[0] + length);
    }
    number = fread(calls, 24, 64, given);
    pthread_t other[8];
    for (int i = 1; i < threads; i++) pthread_create(&other[i], 0, work, 0);
    work(0);
    for (int i = 1; i < threads; i++) pthread_join(other[i], 0);
    fwrite((void *)shown[0], 1, shown[1], stdout);
    return 0;
}
"#;

/// A call: the code that makes it, a number in x3 and x16, and how often.
type Call = (u64, u64, u64);

/// Code with sites, and its stubs.
struct CodeWithSites {
    words: Vec<u32>,
    direct: Vec<DirectSite>,
    indirect: Vec<IndirectSite>,
}

impl CodeWithSites {
    /// Address of the next instruction.
    fn here(&self) -> u64 {
        CODE + 4 * self.words.len() as u64
    }

    fn function(&mut self, words: &[u32]) -> u64 {
        let at = self.here();
        self.words.extend(words);
        at
    }

    /// A function that makes a direct call.
    fn calls(&mut self, target: u64) -> u64 {
        let start = self.function(&[LANDING_PAD, KEEP_LINK]);
        let at = self.here();
        let word = branch(BL, at, target).unwrap();
        self.direct.push(DirectSite { at, form: DirectForm::BranchWithLink, target, slot: None });
        self.function(&[word, LOAD_LINK, RET]);
        start
    }

    /// A function that jumps to another one.
    fn jumps(&mut self, target: u64) -> u64 {
        let start = self.function(&[LANDING_PAD]);
        let at = self.here();
        self.direct.push(DirectSite { at, form: DirectForm::Branch, target, slot: None });
        self.function(&[branch(B, at, target).unwrap()]);
        start
    }

    /// A function that calls through a register, or jumps.
    fn by_register(&mut self, word: u32, is_tail: bool) -> u64 {
        let start = self.function(&[LANDING_PAD, KEEP_LINK][..if is_tail { 1 } else { 2 }]);
        let at = self.here();
        let none = RelocatedCode::default;
        let (window, original) = (at..at + 4, word.to_le_bytes().to_vec());
        let site = IndirectSite { at, window, is_tail, original, before: none(), load: none(), go: none() };
        self.indirect.push(site);
        self.function(&[word, LOAD_LINK, RET][..if is_tail { 1 } else { 3 }]);
        start
    }

    fn sites(&self) -> FileSites<'_> {
        FileSites { direct: &self.direct, calls: 0, indirect: &self.indirect }
    }

    fn placement(&self, is_traced: bool) -> StubPlacement {
        let counters = FileCounters::of((self.direct.len(), self.indirect.len()), FILES + 64);
        StubPlacement {
            bias: 0,
            stubs: ROOM + PAGE,
            room: ROOM,
            counters,
            notice: None,
            state: None,
            is_traced,
        }
    }

    fn stubs(&self, is_traced: bool, has_atomics: bool) -> MadeStubs {
        let sites = self.sites();
        // Stubs without atomic instructions are longer.
        let room = size(&sites) * 2;
        let made = emit_for(&sites, room, &self.placement(is_traced), has_atomics);
        assert!(made.too_far == 0 && (made.code.len() as u64) < room);
        made
    }
}

/// Runs calls in threads; returns the memory of their block, or `None` if the tools are missing.
fn run(
    sample: &CodeWithSites,
    (is_traced, has_atomics): (bool, bool),
    threads: usize,
    calls: &[Call],
    change: impl Fn(&mut [u8]),
) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), HARNESS)?;
    let made = sample.stubs(is_traced, has_atomics);
    let mut code: Vec<u8> = sample.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for change in made.changes.iter() {
        let there = &mut code[(change.at - CODE) as usize..][..4];
        assert_eq!(there, change.original, "{:#x}", change.at);
        there.copy_from_slice(change.changed);
    }
    let length = sample.placement(is_traced).counters.end().next_multiple_of(PAGE);
    let mut block = vec![0; length as usize];
    block[SHARED as usize..][..8].copy_from_slice(&PAGE_OF_ALL.to_le_bytes());
    change(&mut block);
    let mut given = [BLOCK, length].map(u64::to_le_bytes).concat();
    let parts = [
        (CODE, code.as_slice()),
        (ROOM - TABLE, &table(BLOCK)),
        (ROOM + PAGE, &made.code),
        (PAGE_OF_ALL, &[0; 8]),
        (BLOCK, &block),
    ];
    for (address, bytes) in parts {
        let length = bytes.len() as u64;
        given.extend([address, length.next_multiple_of(PAGE), length].map(u64::to_le_bytes).concat());
        given.extend(bytes);
    }
    given.extend([0; 16]);
    for (place, target, times) in calls {
        given.extend([*place, *target, *times].map(u64::to_le_bytes).concat());
    }
    std::fs::write(folder.path().join("given"), given).unwrap();
    let processor = if has_atomics { "max" } else { "cortex-a57" };
    let mut emulator = Command::new("qemu-aarch64");
    emulator.args(["-cpu", processor]).arg(program).arg(folder.path().join("given"));
    // The pages of the program are guarded, those of the stubs are not. Processors without atomic instructions have no guard.
    let done =
        emulator.args([threads, usize::from(has_atomics)].map(|number| number.to_string())).output().unwrap();
    assert!(done.status.success(), "{:?} {}", done.status, String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stdout.len(), length as usize);
    Some(done.stdout)
}

/// Runs a program with files; returns its output, or `None` if the tools are missing.
pub(super) fn output_of(program: &str, files: &[&[u8]]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut emulator = Command::new("qemu-aarch64");
    emulator.args(["-cpu", "max"]).arg(compiled(folder.path(), program)?);
    for (number, content) in files.iter().enumerate() {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, content).unwrap();
        emulator.arg(file);
    }
    let done = emulator.output().unwrap();
    assert!(done.status.success(), "{:?} {}", done.status, String::from_utf8_lossy(&done.stderr));
    Some(done.stdout)
}

/// Compiles a program.
fn compiled(folder: &Path, content: &str) -> Option<PathBuf> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("aarch64-linux-gnu-gcc") || !has("qemu-aarch64") {
        support::skip("a compiler or an emulator of AArch64 is missing");
        return None;
    }
    let (source, program) = (folder.join("harness.c"), folder.join("harness"));
    std::fs::write(&source, content).unwrap();
    let mut compiler = Command::new("aarch64-linux-gnu-gcc");
    let done =
        compiler.args(["-O1", "-static", "-pthread", "-w", "-o"]).arg(&program).arg(source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(program)
}

fn counted(sample: &CodeWithSites, block: &[u8]) -> SiteCounts {
    let counters = sample.placement(false).counters;
    let mut counts = SiteCounts::default();
    counts.add(&counters, &block[counters.at as usize..counters.end() as usize]);
    let table = &block[TARGETS as usize..(TARGETS + TARGETS_BYTES) as usize];
    counts.add_targets(&counters, &FurtherTarget::all(table).collect::<Vec<_>>());
    counts
}

/// Sites of all forms, and some functions that they lead to.
fn sample() -> (CodeWithSites, Vec<u64>, Vec<u64>) {
    let mut sample = CodeWithSites { words: Vec::new(), direct: Vec::new(), indirect: Vec::new() };
    let targets: Vec<u64> = (0..40).map(|_| sample.function(&[LANDING_PAD, RET])).collect();
    let callers = vec![
        sample.calls(targets[0]),
        sample.jumps(targets[1]),
        sample.by_register(0xd63f_0060, false), // blr x3
        sample.by_register(0xd63f_0200, false), // blr x16
        sample.by_register(0xd61f_0200, true),  // br x16
        sample.by_register(0xd63f_0060, false),
        sample.by_register(0xd61f_0060, true), // br x3
    ];
    (sample, targets, callers)
}

/// A stub counts each call and its target, and changes nothing else.
#[test]
fn stubs_count_and_change_no_register() {
    let (sample, targets, callers) = sample();
    for has_atomics in [true, false] {
        let mut calls = vec![
            (callers[0], 0, 7),
            (callers[1], 0, 5),
            (callers[2], targets[2], 3),
            (callers[3], targets[3], 4),
        ];
        calls.extend([(callers[4], targets[4], 2), (callers[4], targets[5], 6), (callers[4], targets[4], 1)]);
        calls.extend((0..40).map(|number| (callers[5], targets[number], number as u64 + 1)));
        calls.push((callers[6], targets[9], 2));
        let Some(block) = run(&sample, (false, has_atomics), 1, &calls, |_| {}) else { return };
        let counts = counted(&sample, &block);
        let direct: Vec<_> = counts.direct.iter().map(|(site, counted)| (*site, *counted)).collect();
        assert_eq!(direct, [(0, (7, 1)), (1, (5, 2))]);
        let of = |site: usize, target: usize| counts.indirect.get(&(site, targets[target])).copied();
        assert_eq!([of(0, 2), of(1, 3)], [Some((3, 3)), Some((4, 4))]);
        assert_eq!([of(2, 4), of(2, 5)], [Some((3, 5)), Some((6, 6))]);
        for number in 0..40 {
            assert_eq!(of(3, number), Some((number as u64 + 1, number as u32 + 7)), "{number}");
        }
        assert_eq!(of(4, 9), Some((2, 47)));
        assert_eq!((counts.indirect.len(), counts.without_target.len()), (45, 0));
    }
}

/// Threads that share a block lose no counts.
#[test]
fn threads_share_counters() {
    let (sample, targets, callers) = sample();
    for has_atomics in [true, false] {
        let mut calls = vec![(callers[0], 0, 2000)];
        calls.extend((0..8).map(|number| (callers[5], targets[number], 500)));
        let Some(block) = run(&sample, (false, has_atomics), 4, &calls, |_| {}) else { return };
        let counts = counted(&sample, &block);
        assert_eq!(counts.direct[&0].0, 4 * 2000);
        for target in &targets[..8] {
            assert_eq!(counts.indirect[&(3, *target)].0, 4 * 500);
        }
        assert!(counts.without_target.is_empty());
    }
}

/// In a window, calls are noted with their sites, targets and stack pointers.
#[test]
fn stubs_note_calls() {
    let (sample, targets, callers) = sample();
    for has_atomics in [true, false] {
        let calls = [(callers[0], 0, 1), (callers[5], targets[7], 2), (callers[1], 0, 1)];
        let begin = |block: &mut [u8]| {
            block[TO_NOTE as usize..][..4].copy_from_slice(&(MOST_EVENTS as u32).to_le_bytes());
        };
        let Some(block) = run(&sample, (true, has_atomics), 1, &calls, begin) else { return };
        let made = sample.stubs(true, has_atomics);
        let number = |at: u64| u32::from_le_bytes(block[at as usize..][..4].try_into().unwrap());
        assert_eq!(number(TO_NOTE), MOST_EVENTS as u32 - 4);
        let event = |nth: u64| EVENTS + EVENT_BYTES * (MOST_EVENTS - nth);
        let offset = |nth: u64| number(event(nth)) - (ROOM + PAGE) as u32;
        let bytes = ((made.noting.indirect[0].0 - made.noting.first[0]) / 2) & !15;
        assert_eq!((offset(1) - made.noting.first[0]) / bytes, 0);
        assert_eq!((offset(4) - made.noting.first[0]) / bytes, 1);
        for nth in [2, 3] {
            assert_eq!(made.noting.indirect.iter().find(|(at, _)| *at == offset(nth)).unwrap().1, 3);
            assert_eq!(number(event(nth) + 4), targets[7] as u32);
        }
    }
}

#[test]
fn what_is_too_far_stays() {
    let (sample, ..) = sample();
    let sites = sample.sites();
    let placement = StubPlacement { bias: 1 << 30, ..sample.placement(false) };
    let made = emit_for(&sites, size(&sites), &placement, true);
    assert_eq!((made.too_far, made.changes.iter().count()), (7, 0));
}

/// Runs code that ends by a frame, and prints all registers afterwards, the blocked signals, and what is at BLOCK.
const FRAME_HARNESS: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char stack[1 << 16] __attribute__((aligned(16))), alternate[1 << 16];
static uint64_t top;
void landing(void);
__asm__("landing: sub sp, sp, 768\n stp x0, x1, [sp]\n stp x2, x3, [sp, 16]\n stp x4, x5, [sp, 32]\n stp x6, x7, [sp, 48]\n"
    "stp x8, x9, [sp, 64]\n stp x10, x11, [sp, 80]\n stp x12, x13, [sp, 96]\n stp x14, x15, [sp, 112]\n stp x16, x17, [sp, 128]\n"
    "stp x18, x19, [sp, 144]\n stp x20, x21, [sp, 160]\n stp x22, x23, [sp, 176]\n stp x24, x25, [sp, 192]\n stp x26, x27, [sp, 208]\n"
    "stp x28, x29, [sp, 224]\n str x30, [sp, 240]\n mrs x1, nzcv\n mov x0, sp\n add x2, sp, 256\n"
    "stp q0, q1, [x2]\n stp q2, q3, [x2, 32]\n stp q4, q5, [x2, 64]\n stp q6, q7, [x2, 96]\n stp q8, q9, [x2, 128]\n"
    "stp q10, q11, [x2, 160]\n stp q12, q13, [x2, 192]\n stp q14, q15, [x2, 224]\n stp q16, q17, [x2, 256]\n stp q18, q19, [x2, 288]\n"
    "stp q20, q21, [x2, 320]\n stp q22, q23, [x2, 352]\n stp q24, q25, [x2, 384]\n stp q26, q27, [x2, 416]\n stp q28, q29, [x2, 448]\n"
    "stp q30, q31, [x2, 480]\n b landed\n");
void landed(uint64_t *registers, uint64_t flags) {
    uint64_t mask = 0, moved = (uint64_t)registers + 768 - top;
    stack_t now;
    sigprocmask(SIG_BLOCK, 0, (sigset_t *)memset(alternate, 0, 128));
    memcpy(&mask, alternate, 8);
    sigaltstack(0, &now);
    uint64_t kept = now.ss_sp == alternate && now.ss_size == sizeof alternate;
    fwrite(registers, 8, 31, stdout), fwrite(&flags, 8, 1, stdout), fwrite(&moved, 8, 1, stdout), fwrite(&mask, 8, 1, stdout);
    fwrite(&kept, 8, 1, stdout), fwrite(registers + 32, 1, 512, stdout), fwrite((void *)0x20000000, 1, 16, stdout);
    exit(0);
}
int main(int count, char **words) {
    stack_t other = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&other, 0);
    char *code = mmap((void *)0x10000000, 1 << 16, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    FILE *of_code = fopen(words[1], "rb"), *of_frame = fopen(words[2], "rb");
    size_t length = fread(code, 1, 1 << 12, of_code);
    /* The file to map is the third one. */
    strcpy(code + length, words[3]);
    __builtin___clear_cache(code, code + length);
    char *frame = stack + (1 << 15);
    length = fread(frame, 1, 1 << 12, of_frame);
    uint64_t *special = (uint64_t *)(frame + 560);
    special[0] = top = (uint64_t)(frame + length), special[1] = (uint64_t)landing;
    __asm__ volatile("mov sp, %0\n mov x9, %1\n br x9" : : "r"(frame), "r"(code) : "x9");
}
"#;

/// A thread that maps memory between two of its instructions goes on with the same registers, by itself.
#[test]
fn frames_give_registers_back() {
    let mut general = [0; 31];
    general
        .iter_mut()
        .enumerate()
        .for_each(|(place, register)| *register = 0x1234_5678_9abc * (place as u64 + 1));
    let mut floating = [0; signal_frame::FLOATING];
    floating[..512].iter_mut().enumerate().for_each(|(place, byte)| *byte = (place % 251) as u8);
    let (flags, blocked) = (0x6000_0000, 1 << 11);
    let state = ThreadRegisters {
        general,
        stack: 0,
        program_counter: 0,
        pstate: flags,
        blocked,
        floating,
        vectors: Vec::new(),
    };
    let region = |address, kind| Region { address, length: PAGE, offset: 0, kind };
    let regions = [region(ROOM, RegionKind::Code), region(BLOCK, RegionKind::Data)];
    let mut code = mapping(("", &regions), Moment::Running, CODE, 0);
    code.pop();
    let mut content = b"in shared memory".to_vec();
    content.resize(PAGE as usize, 0);
    let Some(after) = output_of(FRAME_HARNESS, &[&code, &signal_frame::frame(&state).unwrap(), &content])
    else {
        return;
    };
    let (words, vectors) = after.split_at(8 * 35);
    let words: Vec<u64> = words.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[..31], general);
    assert_eq!(words[31..], [flags, 0, blocked, 1], "flags, stack, blocked signals, alternate stack");
    assert_eq!(vectors, [&floating[..512], b"in shared memory"].concat());
}
