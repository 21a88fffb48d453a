// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of memory and time for inputs that are made to take much of either. Each input has several megabytes, and
//! bounds are multiples of its size only, so that no constant allowance hides faster growth.

#![allow(clippy::unwrap_used)] // tests may fail loudly

mod fuzz_check;
mod mutations;

use fuzz_check::{Counting, peak_of};
use sediment_core::binary::source_lines::SourceLines;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::callgraph::{CallEdge, CallGraph, FunctionId};
use sediment_core::profile;
use sediment_core::{Error, ErrorCode};
use sediment_order::link;
use sediment_order::order::algorithms;
use sediment_order::order::algorithms::affinity;
use sediment_order::order::{self, Selection};
use sediment_read::read;
use sediment_read::resolve::resolve;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use support::elf_writer::{Elf, Function};
use support::graphs;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A lock: the counters of memory belong to the whole program.
fn turn() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs some work on an input of this length, which may take this many times as much memory.
#[track_caller]
fn within<T>(times: usize, length: usize, work: impl FnOnce() -> T) -> T {
    let (peak, result) = peak_of(work);
    assert!(peak <= times * length, "{peak} bytes for {length}: {} times, not {times}", peak / length);
    result
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packing = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packing.write_all(bytes).unwrap();
    packing.finish().unwrap()
}

/// Makes a section with the header of a compressed one, which gives this size.
fn compressed(size: u64, packed: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(1u32.to_le_bytes());
    section.extend(0u32.to_le_bytes());
    section.extend(size.to_le_bytes());
    section.extend(1u64.to_le_bytes());
    section.extend(packed);
    section
}

const COMPRESSED: u64 = 0x800;

#[track_caller]
fn refused(result: Result<Option<SourceLines>, Error>, says: &str, hint: &str) {
    let error = result.err().unwrap();
    assert!(error.to_string().contains(says), "{error}");
    assert!(error.hint().is_some_and(|said| said.contains(hint)), "{error:?}");
}

#[test]
fn sections_that_unpack_to_far_more_than_the_file_are_refused() {
    let _turn = turn();
    let size = 256 << 20;
    let packed = zlib(&vec![0; size]);
    let with = |name, flags, data| Elf { further: vec![(name, flags, data)], ..Elf::default() }.bytes();
    let old = [b"ZLIB".as_slice(), &(size as u64).to_be_bytes(), &packed].concat();
    for bytes in
        [with(".debug_info", COMPRESSED, compressed(size as u64, &packed)), with(".zdebug_info", 0, old)]
    {
        let read = within(140, bytes.len(), || SourceLines::read(&bytes, &NoFiles));
        refused(
            read,
            ".debug_info: the file unpacks to more than 8 times its size and 32 MiB",
            "objcopy --decompress",
        );
    }
}

#[test]
fn sections_are_counted_together() {
    let _turn = turn();
    // Each part alone is small enough.
    let part = 24 << 20;
    let section = compressed(part as u64, &zlib(&vec![0; part]));
    let names = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges"];
    let further = names.map(|name| (name, COMPRESSED, section.clone())).to_vec();
    let bytes = Elf { further, ..Elf::default() }.bytes();
    let (peak, read) = peak_of(|| SourceLines::read(&bytes, &NoFiles));
    refused(read, "the file unpacks to more than 8 times", "unpack it first");
    assert!(peak <= 34 << 20, "{peak}");
}

#[test]
fn a_section_is_unpacked_into_memory_of_its_size() {
    let _turn = turn();
    let size = 30 << 20;
    let packed = zlib(&vec![0; size]);
    let bytes = Elf {
        further: vec![
            (".debug_str", COMPRESSED, compressed(size as u64, &packed)),
            (".debug_info", 0, Vec::new()),
        ],
        ..Elf::default()
    }
    .bytes();
    let (peak, read) = peak_of(|| SourceLines::read(&bytes, &NoFiles));
    assert!(read.unwrap().is_some());
    assert!(peak < size + (2 << 20), "{peak} bytes for a section of {size}");

    for wrong in [size as u64 - 1, size as u64 + 1] {
        let further = vec![(".debug_info", COMPRESSED, compressed(wrong, &packed))];
        let bytes = Elf { further, ..Elf::default() }.bytes();
        let error = SourceLines::read(&bytes, &NoFiles).err().unwrap();
        assert!(error.code() == ErrorCode::Damaged && error.to_string().contains(".debug_info"), "{error}");
    }
}

#[test]
fn debug_data_that_unpacks_to_more_than_a_symbol_table_is_refused() {
    let _turn = turn();
    let mut packing = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(6)).unwrap();
    packing.write_all(&vec![0; 48 << 20]).unwrap();
    let packed = packing.finish().unwrap();
    let bytes = Elf { symbols: None, debug_data: Some(packed), ..Elf::default() }.bytes();
    // The decoder also has a window of 8 MiB.
    let (peak, read) = peak_of(|| Binary::parse(&bytes, &NoFiles));
    let error = read.unwrap_err();
    assert!(error.code() == ErrorCode::TooLarge && error.to_string().contains("4 MiB"), "{error}");
    assert!(error.hint().unwrap().contains("--remove-section .gnu_debugdata"), "{error:?}");
    assert!(peak < 32 << 20, "{peak}");
}

/// Bytes of memory allowed for each byte of a profile's text.
const PROFILE: usize = 49;

fn read_profile(text: &str) -> profile::Profile {
    within(PROFILE, text.len(), || profile::text::parse(text.as_bytes())).unwrap().0
}

#[test]
fn a_chain_of_many_functions() {
    let _turn = turn();
    let mut chain = "digraph{a0".to_owned();
    for function in 1..400_000 {
        write!(chain, "->a{function}").unwrap();
    }
    chain.push('}');
    let profile = read_profile(&chain);
    assert_eq!((profile.function_count(), profile.edge_count()), (400_000, 399_999));
}

/// Makes a name of two letters for each number below 2,704.
fn short(number: usize) -> String {
    let letter =
        |number: usize| char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 52]);
    [letter(number / 52), letter(number)].iter().collect()
}

#[test]
fn as_many_edges_as_a_text_can_name() {
    let _turn = turn();
    // Each step along the chain is an edge of its own, from all functions to all.
    let functions = 1_000;
    for weights in ["", "sediment=2;total=9;edge[count=1];node[samples=1];"] {
        let mut text = format!("digraph{{{weights}a");
        for from in 0..functions {
            for to in from..functions {
                write!(text, "->{}->{}", short(from), short(to)).unwrap();
            }
        }
        text.push('}');
        let profile = read_profile(&text);
        assert!(profile.edge_count() > 900_000, "{}", profile.edge_count());
    }
}

#[test]
fn edges_that_multiply() {
    let _turn = turn();
    let some = |from: usize, to: usize| (from..to).map(short).collect::<Vec<_>>().join(" ");
    for weights in ["", "[count=1]"] {
        let mut text =
            format!("digraph{{sediment=2;total=9;{{{}}}->{{{}}}{weights}//", some(0, 700), some(700, 1400));
        text.extend(std::iter::repeat_n('x', 4 << 20));
        text.push_str("\n}");
        let profile = read_profile(&text);
        assert_eq!(profile.edge_count(), 700 * 700);
    }
}

#[test]
fn subgraphs_and_functions_with_all_there_is() {
    let _turn = turn();
    let mut nested = "digraph{a".to_owned();
    for _ in 0..200 {
        nested.extend(std::iter::repeat_n('{', 9_000));
        nested.extend(std::iter::repeat_n('}', 9_000));
    }
    nested.push('}');
    let mut clusters = "digraph{sediment=2;".to_owned();
    for number in 0..100_000 {
        write!(clusters, "subgraph cluster{number}{{label=l{number};f{number}}}").unwrap();
    }
    clusters.push('}');
    let mut facts = "digraph{sediment=2;total=1;node[size=1,samples=1,first=1,alias=a];".to_owned();
    for number in 0..300_000 {
        write!(facts, "f{number};").unwrap();
    }
    facts.push('}');
    for (text, functions) in [(nested, 1), (clusters, 100_000), (facts, 300_000)] {
        assert_eq!(read_profile(&text).function_count(), functions);
    }
}

/// Makes an ELF file in which all symbols have the same name, section and source file, each of this length.
fn elf_of_one_name(symbols: usize, length: usize) -> Vec<u8> {
    let function = |number: usize| Function::local("f", number as u64 % 0x100, 1, "x.c");
    let elf = Elf { symbols: Some((0..symbols).map(function).collect()), ..Elf::default() };
    let _ = length;
    elf.bytes()
}

#[test]
fn many_symbols() {
    let _turn = turn();
    let bytes = elf_of_one_name(200_000, 1);
    let binary = within(16, bytes.len(), || Binary::parse(&bytes, &NoFiles)).unwrap();
    // There is one function for each of 256 places, and the first a second time: a second symbol of the same name
    // begins another unit.
    assert_eq!(binary.functions.len(), 257);
}

/// Bytes of memory allowed for each byte of a profile to compute an ordering file, or of a recording to compute a
/// profile. The inputs have 9 bytes for a function and a call; the profile's text has seven times as many.
const ORDER: usize = 104;

#[test]
fn an_order_of_a_long_chain() {
    let _turn = turn();
    let mut chain = "digraph{a0".to_owned();
    for function in 1..400_000 {
        write!(chain, "->a{function}").unwrap();
    }
    chain.push('}');
    let listed = within(ORDER, chain.len(), || {
        let (profile, _) = profile::text::parse(chain.as_bytes()).unwrap();
        order_text(&profile).lines().count()
    });
    assert_eq!(listed, 400_001);
}

#[test]
fn a_profile_of_many_short_stacks() {
    let _turn = turn();
    let mut stacks = String::new();
    for number in 0..50_000 {
        writeln!(stacks, "main;f{number};g{number};h{number} 1").unwrap();
    }
    let settings = read::ReadSettings { format: Some("folded".to_owned()), ..read::ReadSettings::default() };
    let text = within(ORDER, stacks.len(), || {
        let recording = read::read(&stacks.as_bytes(), &settings).unwrap();
        let (profile, _) = resolve(&recording, &NoFiles).unwrap();
        profile::text::print(&profile)
    });
    assert_eq!(text.matches(" -> ").count(), 150_000);
}

/// Returns the text that `sediment order` writes for lld.
fn order_text(profile: &profile::Profile) -> String {
    let built = order::build(profile, &Selection::Everything).unwrap();
    let order = algorithms::grouped(&built.graph, affinity::order(&built.graph, &[]).order);
    let (placements, _) = link::placements(&order, &built, None, false);
    (link::linker("lld").unwrap().write)(&placements).0
}

/// Makes a graph of one function that is paired with all others. The weights ascend or descend with the ids.
fn hub(functions: u32, descending: bool) -> CallGraph {
    let pair = |leaf: u32| {
        let (hub, leaf) = if descending { (functions - 1, leaf - 1) } else { (0, leaf) };
        CallEdge { caller: FunctionId(hub), callee: FunctionId(leaf), weight: u64::from(leaf) + 1 }
    };
    let pairs = (1..functions).map(pair).collect();
    let count = functions as usize;
    CallGraph::new(vec![8; count], vec![1; count], Vec::new()).unwrap().with_affinity(pairs).unwrap()
}

#[test]
fn functions_with_very_many_partners() {
    let _turn = turn();
    let time = |graph: &CallGraph| {
        let began = Instant::now();
        assert_eq!(affinity::order(graph, &[]).order.len(), graph.len());
        began.elapsed()
    };
    let pairs = graphs::graph(graphs::Shape::Program, 20_000, 150_000, 1);
    let program = CallGraph::new(pairs.sizes().to_vec(), pairs.weights().to_vec(), Vec::new()).unwrap();
    let usual = time(&program.with_affinity(pairs.edges().to_vec()).unwrap());
    // Without a bound, the first graph would take a hundred times as long, and the second one minutes.
    for descending in [false, true] {
        let took = time(&hub(100_000, descending));
        assert!(took < usual * 15, "{took:?}, where a program of as many pairs takes {usual:?}");
    }
}
