// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace files: definitions, runs, gaps and threads change; the end record counts the runs that are there.

use super::{blur, number, one_of, put_varint, rearrange, varint};
use sediment_core::random::Generator;

#[derive(Debug, Clone)]
enum Record {
    /// A gap, a thread, a run: the numbers of the record.
    Numbers(Vec<u64>),
    /// A definition: its texts by the flags.
    Definition(u64, Vec<Vec<u8>>),
}

const END: u64 = 0;
const THREAD: u64 = 2;
const DEFINITION: u64 = 3;
const RUN: u64 = 4;

pub fn mutate(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    let head = memchr::memchr(b'\n', bytes)? + 1;
    let mut records = parse(&bytes[head..])?;
    let defined = records.iter().filter(|record| matches!(record, Record::Definition(..))).count() as u64;
    match numbers.below(8) {
        0..3 => rearrange(&mut records, numbers),
        3 => {
            let at = numbers.below(records.len() + 1);
            records.insert(at, Record::Numbers(vec![RUN + numbers.scaled(defined)]));
        }
        4 => {
            let at = numbers.below(records.len() + 1);
            let thread = number(0, numbers);
            records.insert(at, Record::Numbers(one_of(&[vec![1], vec![THREAD, thread]], numbers)?.clone()));
        }
        5 => {
            let flags = numbers.scaled(4);
            let text = |numbers: &mut Generator| {
                one_of(&[&b"f"[..], b"lib.so", b"a.c"], numbers).map(|t| t.to_vec())
            };
            let texts = 1 + flags.count_ones();
            let texts = (0..texts).map(|_| text(numbers)).collect::<Option<Vec<_>>>()?;
            records.insert(0, Record::Definition(flags, texts));
        }
        _ => {
            let at = numbers.below(records.len());
            match records.get_mut(at)? {
                Record::Numbers(fields) => {
                    let at = numbers.below(fields.len());
                    fields[at] = number(fields[at], numbers);
                }
                Record::Definition(_, texts) => {
                    let at = numbers.below(texts.len());
                    blur(texts.get_mut(at)?, numbers);
                }
            }
        }
    }
    let mut mutant = bytes[..head].to_vec();
    let mut runs = 0;
    for record in &records {
        match record {
            Record::Numbers(fields) => {
                runs += u64::from(fields[0] >= RUN);
                fields.iter().for_each(|field| put_varint(&mut mutant, *field));
            }
            Record::Definition(flags, texts) => {
                put_varint(&mut mutant, DEFINITION);
                put_varint(&mut mutant, *flags);
                for text in texts {
                    put_varint(&mut mutant, text.len() as u64);
                    mutant.extend_from_slice(text);
                }
            }
        }
    }
    put_varint(&mut mutant, END);
    put_varint(&mut mutant, if numbers.below(16) == 0 { number(runs, numbers) } else { runs });
    Some(mutant)
}

/// The records before the end, as far as they are whole.
fn parse(mut rest: &[u8]) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while let Some((kind, mut after)) = varint(rest) {
        let record = match kind {
            END => break,
            THREAD => {
                let (thread, left) = varint(after)?;
                after = left;
                Record::Numbers(vec![kind, thread])
            }
            DEFINITION => {
                let (flags, mut left) = varint(after)?;
                let mut texts = Vec::new();
                for _ in 0..1 + (flags & 3).count_ones() {
                    let (length, text) = varint(left)?;
                    let (text, behind) = text.split_at_checked(usize::try_from(length).ok()?)?;
                    texts.push(text.to_vec());
                    left = behind;
                }
                after = left;
                Record::Definition(flags, texts)
            }
            _ => Record::Numbers(vec![kind]),
        };
        records.push(record);
        rest = after;
    }
    Some(records)
}
