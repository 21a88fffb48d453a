// SPDX-License-Identifier: MIT OR Apache-2.0
//! ELF files of 64 bits: sections, symbols, relocations and segments change; offsets, sizes and counts are written anew.

use super::{blur, get, number, one_of, put, rearrange};
use sediment_core::random::Generator;

const HEADER: usize = 64;
const SECTION: usize = 64;
const SEGMENT: usize = 56;
const NOBITS: u64 = 8;

/// Machines by their numbers, with a stub of the procedure linkage table as GNU ld writes it.
const MACHINES: [(u64, &[u8]); 18] = [
    (62, b"\xf3\x0f\x1e\xfa\xf2\xff\x25\xd5\x2f\0\0\x0f\x1f\x44\0\0"),
    (3, b"\xff\xa3\x0c\0\0\0\x68\0\0\0\0\xe9\xe0\xff\xff\xff"),
    (3, b"\xff\x25\x04\xc0\x04\x08\x68\x08\0\0\0\xe9\xd0\xff\xff\xff"),
    (183, b"\x10\x01\0\x90\x11\x02\x40\xf9\x10\x02\0\x91\x20\x02\x1f\xd6"),
    (183, b"\x5f\x24\x03\xd5\x10\x01\0\x90\x11\x06\x40\xf9\x10\x22\0\x91\x20\x02\x1f\xd6\x1f\x20\x03\xd5"),
    (40, b"\0\xc6\x8f\xe2\x01\xca\x8c\xe2\x90\xfb\xbc\xe5"),
    (40, b"\x78\x47\xc0\x46\0\xc6\x8f\xe2\x01\xca\x8c\xe2\x88\xfb\xbc\xe5"),
    (243, b"\x17\x2e\0\0\x03\x3e\x0e\x97\x67\x03\x0e\0\x13\0\0\0"),
    (243, b"\x17\x2e\0\0\x03\x2e\x0e\x97\x67\x03\x0e\0\x13\0\0\0"),
    (22, b"\xc0\x10\0\0\x0c\xcc\xe3\x10\x10\0\0\x04\x07\xf1\x0d\x10\xe3\x10\x10\x0c\0\x14\xc0\xf4\xff\xff\xff\xe5\0\0\0\0"),
    (21, b""),
    (20, b""),
    (258, b""),
    (8, b""),
    (43, b""),
    (2, b""),
    (18, b""),
    (99, b""),
];

#[derive(Debug, Clone)]
struct Section {
    head: Vec<u8>,
    data: Vec<u8>,
    /// Where it stood in the file, and by what number.
    offset: u64,
    number: usize,
}

struct File {
    big_endian: bool,
    head: Vec<u8>,
    segments: Vec<Vec<u8>>,
    sections: Vec<Section>,
}

pub fn mutate(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    let mut file = File::parse(bytes)?;
    match numbers.below(16) {
        0..5 => file.change_entry(numbers)?,
        5..8 => file.rearrange_entries(numbers)?,
        8 | 9 => {
            let at = numbers.below(file.sections.len());
            blur(&mut file.sections.get_mut(at)?.data, numbers);
        }
        10 | 11 => file.change_section(numbers)?,
        12 => rearrange(&mut file.sections, numbers),
        13 => file.change_segment(numbers)?,
        14 if numbers.below(3) == 0 => put(&mut file.head, 16, 2, file.big_endian, 1 + numbers.scaled(4)),
        14 => file.change_machine(numbers)?,
        _ => file.rename(numbers)?,
    }
    Some(file.bytes())
}

impl File {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let big_endian = bytes.get(5)? == &2;
        let word = |at, width| get(bytes, at, width, big_endian);
        let table = |offset: u64, count: u64, size: usize| -> Option<Vec<&[u8]>> {
            let begin = usize::try_from(offset).ok()?;
            Some(bytes.get(begin..begin.checked_add(count as usize * size)?)?.chunks_exact(size).collect())
        };
        let segments = table(word(32, 8)?, word(56, 2)?, SEGMENT)?;
        let heads = table(word(40, 8)?, word(60, 2)?, SECTION)?;
        let mut sections = Vec::new();
        for (number, head) in heads.into_iter().enumerate() {
            let word = |at, width| get(head, at, width, big_endian);
            let (offset, size) = (word(24, 8)?, word(32, 8)?);
            let data = match word(4, 4)? {
                NOBITS => &[],
                _ => {
                    let begin = usize::try_from(offset).ok()?;
                    bytes.get(begin..begin.checked_add(usize::try_from(size).ok()?)?).unwrap_or_default()
                }
            };
            sections.push(Section { head: head.to_vec(), data: data.to_vec(), offset, number });
        }
        let segments = segments.into_iter().map(<[u8]>::to_vec).collect();
        Some(Self { big_endian, head: bytes.get(..HEADER)?.to_vec(), segments, sections })
    }

    fn bytes(mut self) -> Vec<u8> {
        let big_endian = self.big_endian;
        let names = get(&self.head, 62, 2, big_endian).unwrap_or(0) as usize;
        let segments_at = HEADER;
        let mut bytes = vec![0; HEADER + SEGMENT * self.segments.len()];
        // What lay in a section lies in it still.
        let mut moved: Vec<(u64, u64, u64)> = Vec::new();
        for section in &mut self.sections {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let (offset, size) = (bytes.len() as u64, section.data.len() as u64);
            let nothing = get(&section.head, 4, 4, big_endian) == Some(NOBITS);
            if !nothing {
                bytes.extend_from_slice(&section.data);
                put(&mut section.head, 32, 8, big_endian, size);
            }
            put(&mut section.head, 24, 8, big_endian, offset);
            moved.push((section.offset, size, offset));
        }
        for segment in &mut self.segments {
            let old = get(segment, 8, 8, big_endian).unwrap_or(0);
            let inside = |(before, size, now): &(u64, u64, u64)| {
                old.checked_sub(*before).filter(|inside| inside < size).map(|inside| now + inside)
            };
            if let Some(now) = moved.iter().find_map(inside) {
                put(segment, 8, 8, big_endian, now);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let sections_at = bytes.len();
        // Links are to numbers of sections, which may have changed.
        let now = |old: u64| self.sections.iter().position(|section| section.number as u64 == old);
        for section in &self.sections {
            let mut head = section.head.clone();
            if let Some(link) = get(&head, 40, 4, big_endian).and_then(now) {
                put(&mut head, 40, 4, big_endian, link as u64);
            }
            bytes.extend(head);
        }
        let mut head = self.head.clone();
        for (at, width, value) in [
            (32, 8, segments_at),
            (40, 8, sections_at),
            (56, 2, self.segments.len()),
            (60, 2, self.sections.len()),
            (62, 2, now(names as u64).unwrap_or(names)),
        ] {
            put(&mut head, at, width, big_endian, value as u64);
        }
        bytes[..HEADER].copy_from_slice(&head);
        let segments = self.segments.concat();
        bytes[segments_at..segments_at + segments.len()].copy_from_slice(&segments);
        bytes
    }

    /// A section of entries, as where it is and what an entry is long.
    fn table(&self, numbers: &mut Generator) -> Option<(usize, usize)> {
        let of_entries = |(at, section): (usize, &Section)| {
            let size = match get(&section.head, 4, 4, self.big_endian)? {
                2 | 11 | 4 => 24,
                6 | 9 => 16,
                // Code: a byte; notes: a word.
                1 => 1,
                7 => 4,
                _ => return None,
            };
            (section.data.len() >= size).then_some((at, size))
        };
        let tables: Vec<_> = self.sections.iter().enumerate().filter_map(of_entries).collect();
        one_of(&tables, numbers).copied()
    }

    /// Changes a field of a symbol, a relocation, an entry of the dynamic section, or of code.
    fn change_entry(&mut self, numbers: &mut Generator) -> Option<()> {
        let (at, size) = self.table(numbers)?;
        let count = self.sections.len() as u64;
        let data = &mut self.sections[at].data;
        let entries = data.len() / size;
        let (entry, other) = (size * numbers.below(entries), size * numbers.below(entries));
        let fields: &[(usize, usize)] = match size {
            // Of a symbol: name, info, section, value, size. Relocations share places, if not fields.
            24 => &[(0, 4), (4, 1), (6, 2), (8, 8), (16, 8)],
            16 => &[(0, 8), (8, 8)],
            4 => &[(0, 4)],
            _ => &[(0, 1)],
        };
        let (place, width) = *one_of(fields, numbers)?;
        let old = get(data, entry + place, width, self.big_endian)?;
        let new = match numbers.below(3) {
            0 => get(data, other + place, width, self.big_endian)?,
            1 if width == 1 => *one_of(&[2, 0x12, 4, 0x0a, 0x1a, 0x22, 3], numbers)?,
            1 if width == 2 => numbers.scaled(count + 1),
            1 => old.wrapping_add(numbers.scaled(64)),
            _ => number(old, numbers),
        };
        put(data, entry + place, width, self.big_endian, new);
        Some(())
    }

    fn rearrange_entries(&mut self, numbers: &mut Generator) -> Option<()> {
        let (at, size) = self.table(numbers)?;
        let data = &mut self.sections[at].data;
        let mut entries: Vec<Vec<u8>> = data.chunks(size).map(<[u8]>::to_vec).collect();
        rearrange(&mut entries, numbers);
        *data = entries.concat();
        Some(())
    }

    /// Changes a field of a section's header but its place in the file.
    fn change_section(&mut self, numbers: &mut Generator) -> Option<()> {
        let at = numbers.below(self.sections.len());
        let (place, width) = *one_of(&[(4, 4), (8, 8), (16, 8), (40, 4), (44, 4), (56, 8)], numbers)?;
        let other = one_of(&self.sections, numbers)?.head.clone();
        let head = &mut self.sections[at].head;
        let old = get(head, place, width, self.big_endian)?;
        let new = match numbers.below(2) {
            0 => get(&other, place, width, self.big_endian)?,
            _ => number(old, numbers),
        };
        put(head, place, width, self.big_endian, new);
        Some(())
    }

    fn change_segment(&mut self, numbers: &mut Generator) -> Option<()> {
        if numbers.below(3) == 0 {
            rearrange(&mut self.segments, numbers);
            return Some(());
        }
        let (place, width) = *one_of(&[(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8)], numbers)?;
        // Kinds: loaded, dynamic, notes.
        let kind = *one_of(&[1, 2, 4, 6], numbers)?;
        let at = numbers.below(self.segments.len());
        let segment = self.segments.get_mut(at)?;
        let old = get(segment, place, width, self.big_endian)?;
        put(segment, place, width, self.big_endian, if place == 0 { kind } else { number(old, numbers) });
        Some(())
    }

    /// Makes it a file for another machine, mostly with stubs of that in a section with code.
    fn change_machine(&mut self, numbers: &mut Generator) -> Option<()> {
        let (machine, stub) = *one_of(&MACHINES, numbers)?;
        put(&mut self.head, 18, 2, self.big_endian, machine);
        let code = |section: &&mut Section| {
            get(&section.head, 8, 8, self.big_endian).is_some_and(|flags| flags & 4 != 0)
        };
        let mut code: Vec<&mut Section> = self.sections.iter_mut().filter(code).collect();
        let at = numbers.below(code.len().max(1));
        if let Some(section) = code.get_mut(at).filter(|_| !stub.is_empty()) {
            section.data = stub.repeat(1 + numbers.below(3));
        }
        Some(())
    }

    /// Gives a section a name that means something.
    fn rename(&mut self, numbers: &mut Generator) -> Option<()> {
        const NAMES: [&str; 14] = [
            ".plt",
            ".plt.sec",
            ".plt.got",
            ".iplt",
            ".text",
            ".text.unlikely",
            ".got.plt",
            ".rela.plt",
            ".rel.plt",
            ".rela.iplt",
            ".note.gnu.build-id",
            ".gnu_debuglink",
            ".gnu_debugdata",
            ".dynamic",
        ];
        let names = get(&self.head, 62, 2, self.big_endian)? as usize;
        let strings = &mut self.sections.get_mut(names)?.data;
        let place = strings.len() as u64;
        strings.extend_from_slice(one_of(&NAMES, numbers)?.as_bytes());
        strings.push(0);
        let at = numbers.below(self.sections.len());
        put(&mut self.sections[at].head, 0, 4, self.big_endian, place);
        Some(())
    }
}
