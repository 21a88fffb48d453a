// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of perf: events, records and features change; the header, and the sizes of records, say what is there.

use super::{blur, get, number, one_of, put, rearrange};
use sediment_core::random::Generator;

const HEADER: usize = 104;
const HEADER_OF_PIPE: usize = 16;
/// Bytes of type, misc and size.
const HEAD: usize = 8;

#[derive(Debug, Clone)]
struct File {
    big_endian: bool,
    head: Vec<u8>,
    /// Attributes without the section of their ids, and the ids.
    events: Vec<(Vec<u8>, Vec<u8>)>,
    records: Vec<Vec<u8>>,
    /// By bit.
    features: Vec<(usize, Vec<u8>)>,
}

pub fn mutate(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    let mut file = File::parse(bytes)?;
    match numbers.below(12) {
        0..3 => rearrange(&mut file.records, numbers),
        3..8 => file.change_record(numbers)?,
        8 | 9 if !file.events.is_empty() => file.change_event(numbers)?,
        10 if !file.features.is_empty() => {
            let at = numbers.below(file.features.len());
            match numbers.below(4) {
                0 => drop(file.features.remove(at)),
                1 => file.features[at].0 = numbers.below(32),
                _ => file.change_words(at, numbers),
            }
        }
        _ => file.insert_record(numbers)?,
    }
    Some(file.bytes())
}

impl File {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let big_endian = match bytes.get(..8)? {
            b"PERFILE2" => false,
            b"2ELIFREP" => true,
            _ => return None,
        };
        let word = |at| get(bytes, at, 8, big_endian).and_then(|word| usize::try_from(word).ok());
        let part = |at: usize| {
            let (offset, size) = (word(at)?, word(at + 8)?);
            bytes.get(offset..offset.checked_add(size)?)
        };
        if word(8)? == HEADER_OF_PIPE {
            let (head, records) = bytes.split_at_checked(HEADER_OF_PIPE)?;
            let records = split(records, big_endian);
            return Some(Self {
                big_endian,
                head: head.to_vec(),
                events: Vec::new(),
                records,
                features: Vec::new(),
            });
        }
        // An attribute ends with the place and size of its ids.
        let size = word(16).filter(|size| *size > 16)?;
        let mut events = Vec::new();
        for (index, attribute) in part(24)?.chunks_exact(size).enumerate() {
            let ids = part(word(24)? + index * size + size - 16)?;
            events.push((attribute[..size - 16].to_vec(), ids.to_vec()));
        }
        let mut table = word(40)?.checked_add(word(48)?)?;
        let mut features = Vec::new();
        for bit in 0..256 {
            if get(bytes, 72 + bit / 64 * 8, 8, big_endian)? >> (bit % 64) & 1 == 1 {
                features.push((bit, part(table)?.to_vec()));
                table += 16;
            }
        }
        let (head, records) = (bytes.get(..HEADER)?.to_vec(), split(part(40)?, big_endian));
        Some(Self { big_endian, head, events, records, features })
    }

    fn bytes(mut self) -> Vec<u8> {
        let big_endian = self.big_endian;
        let mut bytes = std::mem::take(&mut self.head);
        if bytes.len() == HEADER_OF_PIPE {
            bytes.extend(self.records.concat());
            return bytes;
        }
        let mut places = Vec::new();
        for (_, ids) in &self.events {
            places.push((bytes.len(), ids.len()));
            bytes.extend_from_slice(ids);
        }
        let word = |bytes: &mut Vec<u8>, number: usize| {
            let at = bytes.len();
            bytes.resize(at + 8, 0);
            put(bytes, at, 8, big_endian, number as u64);
        };
        let begin = bytes.len();
        for ((attribute, _), (offset, size)) in self.events.iter().zip(places) {
            bytes.extend_from_slice(attribute);
            word(&mut bytes, offset);
            word(&mut bytes, size);
        }
        let records_at = bytes.len();
        bytes.extend(self.records.concat());
        let records_end = bytes.len();
        self.features.sort_by_key(|(bit, _)| *bit);
        self.features.dedup_by_key(|(bit, _)| *bit);
        let mut offset = records_end + 16 * self.features.len();
        for (_, feature) in &self.features {
            word(&mut bytes, offset);
            word(&mut bytes, feature.len());
            offset += feature.len();
        }
        self.features.iter().for_each(|(_, feature)| bytes.extend_from_slice(feature));
        let mut put = |at, number: usize| put(&mut bytes, at, 8, big_endian, number as u64);
        put(24, begin);
        put(32, records_at - begin);
        put(40, records_at);
        put(48, records_end - records_at);
        for place in 0..4 {
            let bits = self.features.iter().filter(|(bit, _)| bit / 64 == place);
            put(72 + place * 8, bits.fold(0, |word, (bit, _)| word | 1 << (bit % 64)));
        }
        bytes
    }

    /// Changes the fields of a record, or its length and with it what its head says.
    fn change_record(&mut self, numbers: &mut Generator) -> Option<()> {
        let big_endian = self.big_endian;
        let other = one_of(&self.records, numbers)?.clone();
        let at = numbers.below(self.records.len());
        let record = &mut self.records[at];
        match numbers.below(8) {
            0 => put(record, 0, 4, big_endian, *one_of(&KINDS, numbers)?),
            1 => put(record, 4, 2, big_endian, 1 << numbers.below(16) | numbers.scaled(8)),
            2 => {
                // The length of a record is a multiple of eight.
                let length = numbers.below(record.len() / 8 + 8) * 8;
                record.resize(length.clamp(HEAD, 0xfff8), 0);
                let length = record.len() as u64;
                put(record, 6, 2, big_endian, length);
            }
            3 if other.len() >= 16 && record.len() >= 16 => {
                // An address, time or id of another record.
                let from = HEAD + 8 * numbers.below((other.len() - HEAD) / 8);
                let to = HEAD + 8 * numbers.below((record.len() - HEAD) / 8);
                record[to..to + 8].copy_from_slice(&other[from..from + 8]);
            }
            _ => change_word(record, HEAD, big_endian, numbers),
        }
        Some(())
    }

    fn insert_record(&mut self, numbers: &mut Generator) -> Option<()> {
        let kind = *one_of(&KINDS, numbers)?;
        let mut record = vec![0; HEAD + 8 * numbers.below(12)];
        let length = record.len() as u64;
        put(&mut record, 0, 4, self.big_endian, kind);
        put(&mut record, 6, 2, self.big_endian, length);
        for word in 1..record.len() / 8 {
            put(&mut record, 8 * word, 8, self.big_endian, number(0, numbers) >> (8 * numbers.below(8)));
        }
        let at = numbers.below(self.records.len() + 1);
        self.records.insert(at, record);
        Some(())
    }

    fn change_event(&mut self, numbers: &mut Generator) -> Option<()> {
        let big_endian = self.big_endian;
        let at = numbers.below(self.events.len());
        match numbers.below(6) {
            0 => {
                let event = self.events[at].clone();
                self.events.push(event);
            }
            1 => change_word(&mut self.events[at].1, 0, big_endian, numbers),
            2 => {
                // What samples hold decides how they are read: bits of sample_type.
                let old = get(&self.events[at].0, 24, 8, big_endian)?;
                put(&mut self.events[at].0, 24, 8, big_endian, old ^ 1 << numbers.below(26));
            }
            3 => {
                // Flags, sample_id_all among them; and which branches are recorded, and how.
                let place = *one_of(&[40, 72], numbers)?;
                let old = get(&self.events[at].0, place, 8, big_endian)?;
                put(&mut self.events[at].0, place, 8, big_endian, old ^ 1 << numbers.below(40));
            }
            _ => change_word(&mut self.events[at].0, 0, big_endian, numbers),
        }
        Some(())
    }

    fn change_words(&mut self, feature: usize, numbers: &mut Generator) {
        let content = &mut self.features[feature].1;
        if numbers.below(2) == 0 {
            blur(content, numbers);
        } else {
            change_word(content, 0, self.big_endian, numbers);
        }
    }
}

/// Kinds of records: the kernel's, and perf's own.
const KINDS: [u64; 24] =
    [1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 17, 20, 64, 65, 66, 67, 68, 71, 79, 80, 82];

/// The records one after the other, and what is left behind the last as one.
fn split(mut rest: &[u8], big_endian: bool) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !rest.is_empty() {
        let size = get(rest, 6, 2, big_endian).map_or(rest.len(), |size| size as usize);
        let (record, after) = rest.split_at(size.clamp(HEAD.min(rest.len()), rest.len()));
        records.push(record.to_vec());
        rest = after;
    }
    records
}

/// Another number in the place of one, of any width.
fn change_word(bytes: &mut [u8], from: usize, big_endian: bool, numbers: &mut Generator) {
    let width = [1, 2, 4, 8, 8][numbers.below(5)];
    let places = bytes.len().saturating_sub(from) / width;
    if places > 0 {
        let at = from + width * numbers.below(places);
        let old = get(bytes, at, width, big_endian).unwrap_or(0);
        put(bytes, at, width, big_endian, number(old, numbers));
    }
}
