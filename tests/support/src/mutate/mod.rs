// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutations that keep an input well-formed: records, tables and sections change, and the sizes, offsets and counts that speak of
//! them are written anew. Blind mutation breaks those first, and so reaches little behind a reader's first checks.
//!
//! Each follows from its seed. fuzz/ hands them to libFuzzer, beside its own blind ones; the test bounds holds them to what
//! they promise.

#![allow(dead_code, unreachable_pub)] // fuzz/ and the tests each use their part

mod callgrind;
mod dot;
mod elf;
mod perf_data;
mod protobuf;
mod trace;

use sediment_core::random::Generator;

/// Makes a mutant; None where the input is not of the format.
type Mutator = fn(&[u8], &mut Generator) -> Option<Vec<u8>>;

/// A mutator for each of these targets.
pub const MUTATORS: &[(&str, Mutator)] = &[
    ("callgrind", callgrind::mutate),
    ("elf", elf::mutate),
    ("otlp", protobuf::otlp),
    ("perf-data", perf_data::mutate),
    ("pprof", protobuf::pprof),
    ("profile-text", dot::mutate),
    ("trace-file", trace::mutate),
];

/// A mutant of at most so many bytes; None where the target has no mutator or the input is not of its format.
pub fn mutate(target: &str, bytes: &[u8], most: usize, seed: u64) -> Option<Vec<u8>> {
    let (_, mutator) = MUTATORS.iter().find(|(name, _)| *name == target)?;
    let mut numbers = Generator::new(seed);
    let mut mutant = mutator(bytes, &mut numbers)?;
    // Few changes at once as a rule, and now and then many.
    while numbers.below(2) == 0 {
        mutant = mutator(&mutant, &mut numbers).unwrap_or(mutant);
    }
    (mutant.len() <= most).then_some(mutant)
}

/// One of a list, if it has any.
fn one_of<'a, T>(list: &'a [T], numbers: &mut Generator) -> Option<&'a T> {
    list.get(numbers.below(list.len()))
}

/// A list with items taken out, repeated, moved or exchanged.
fn rearrange<T: Clone>(list: &mut Vec<T>, numbers: &mut Generator) {
    if list.is_empty() {
        return;
    }
    let (one, other) = (numbers.below(list.len()), numbers.below(list.len()));
    match numbers.below(5) {
        0 => {
            let end = list.len().min(one + 1 + numbers.below(3));
            list.drain(one..end);
        }
        1 => {
            let item = list[one].clone();
            let most = 1 << numbers.below(5);
            let times = 1 + numbers.below(most);
            list.splice(other..other, std::iter::repeat_n(item, times));
        }
        2 => list.swap(one, other),
        3 => {
            let item = list.remove(one);
            list.insert(other.min(list.len()), item);
        }
        _ => list[one.min(other)..=one.max(other)].reverse(),
    }
}

/// Another number in the place of one: near it, small, or at the edge of some width.
fn number(old: u64, numbers: &mut Generator) -> u64 {
    match numbers.below(8) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ 1 << numbers.below(64),
        3 => numbers.scaled(16),
        4 => (1u64 << numbers.below(64)).wrapping_sub(numbers.scaled(2)),
        5 => u64::MAX - numbers.scaled(3),
        6 => old.wrapping_mul(1 + numbers.scaled(4)),
        _ => numbers.draw() >> numbers.below(64),
    }
}

/// Other bytes of much the same length.
fn blur(bytes: &mut Vec<u8>, numbers: &mut Generator) {
    match numbers.below(4) {
        0 => bytes.push(numbers.draw() as u8),
        1 => drop(bytes.pop()),
        _ if bytes.is_empty() => {}
        2 => {
            let at = numbers.below(bytes.len());
            bytes[at] ^= 1 << numbers.below(8);
        }
        _ => {
            let at = numbers.below(bytes.len());
            bytes[at] = *one_of(b"az_.:/@$<>\"\\ \n\0\xff0", numbers).unwrap_or(&b'a');
        }
    }
}

/// A number of so many bytes at an offset, in this byte order.
fn get(bytes: &[u8], at: usize, width: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) })
}

/// Writes a number of so many bytes at an offset, in this byte order.
fn put(bytes: &mut [u8], at: usize, width: usize, big_endian: bool, number: u64) {
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    if big_endian {
        place.copy_from_slice(&number.to_be_bytes()[8 - width..]);
    } else {
        place.copy_from_slice(&number.to_le_bytes()[..width]);
    }
}

/// A number of seven bits to a byte, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (place, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
