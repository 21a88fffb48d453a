// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compressed names: `(ID) name` defines an id, `(ID)` refers to it, and a bare name has no id.
//!
//! Objects, files and functions have separate ids. [`CompressedNames`] has the first two; [`CallgrindFunctions`] has
//! functions, whose names belong to the object and the file that define them.

use std::collections::HashMap;

/// Index by id. Ids are small in valgrind's files, so they are in a table; large ids are in a map, so that a line with
/// a huge id cannot allocate much memory.
#[derive(Debug)]
struct Ids {
    table: Vec<u32>,
    longest_table: u64,
    beyond: HashMap<u64, u32>,
}

const NOTHING: u32 = u32::MAX;

impl Ids {
    fn new(input_length: usize) -> Self {
        Self { table: Vec::new(), longest_table: 1024 + input_length as u64 / 4, beyond: HashMap::new() }
    }

    fn get(&self, id: u64) -> Option<u32> {
        if id < self.longest_table {
            self.table.get(id as usize).copied().filter(|index| *index != NOTHING)
        } else {
            self.beyond.get(&id).copied()
        }
    }

    fn set(&mut self, id: u64, index: u32) {
        if id >= self.longest_table {
            self.beyond.insert(id, index);
            return;
        }
        let id = id as usize;
        if id >= self.table.len() {
            self.table.resize(id + 1, NOTHING);
        }
        self.table[id] = index;
    }

    fn forget(&mut self) {
        self.table.clear();
        self.beyond.clear();
    }
}

/// A name in a line: its definition, its id, or the bare name.
enum NameReference<'a> {
    Definition(u64, &'a [u8]),
    Id(u64),
    Bare(&'a [u8]),
}

fn reference(text: &[u8]) -> NameReference<'_> {
    let bare = NameReference::Bare(text);
    let Some(rest) = text.strip_prefix(b"(") else { return bare };
    let mut id: u64 = 0;
    let mut digits = 0;
    while let Some(digit @ b'0'..=b'9') = rest.get(digits) {
        if digits == 18 {
            return bare;
        }
        id = id * 10 + u64::from(digit - b'0');
        digits += 1;
    }
    if digits == 0 || rest.get(digits) != Some(&b')') {
        return bare;
    }
    match rest[digits + 1..].trim_ascii_start() {
        b"" => NameReference::Id(id),
        name => NameReference::Definition(id, name),
    }
}

const UNDEFINED: &str = "undefined (id)";

/// Names of objects, or of files.
#[derive(Debug)]
pub(super) struct CompressedNames<'a> {
    texts: Vec<&'a [u8]>,
    by_text: HashMap<&'a [u8], u32>,
    ids: Ids,
}

impl<'a> CompressedNames<'a> {
    pub(super) fn new(input_length: usize) -> Self {
        Self { texts: Vec::new(), by_text: HashMap::new(), ids: Ids::new(input_length) }
    }

    /// Returns the texts by index.
    pub(super) fn texts(&self) -> &[&'a [u8]] {
        &self.texts
    }

    /// Returns the id of an unnamed object or file.
    pub(super) fn unknown(&mut self) -> u32 {
        self.intern(b"")
    }

    /// Returns the index for the text after `ob=`, `fl=` and similar.
    pub(super) fn named(&mut self, text: &'a [u8]) -> Result<u32, &'static str> {
        match reference(text) {
            NameReference::Bare(text) => Ok(self.intern(text)),
            NameReference::Id(id) => self.ids.get(id).ok_or(UNDEFINED),
            NameReference::Definition(id, text) => {
                let index = self.intern(text);
                self.ids.set(id, index);
                Ok(index)
            }
        }
    }

    pub(super) fn forget_ids(&mut self) {
        self.ids.forget();
    }

    fn intern(&mut self, text: &'a [u8]) -> u32 {
        let texts = &mut self.texts;
        *self.by_text.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() as u32 - 1
        })
    }
}

/// A function as written in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallgrindFunction<'a> {
    /// Its name, still with valgrind's additions for recursion and callers.
    pub(super) name: &'a [u8],
    /// Its object.
    pub(super) object: u32,
    /// Its file.
    pub(super) file: u32,
    /// Own cost in the first event.
    pub(super) cost: u128,
    /// True if it was entered or called.
    pub(super) executed: bool,
    /// Line of its first mention.
    pub(super) line: u64,
}

/// The functions by index.
#[derive(Debug)]
pub(super) struct CallgrindFunctions<'a> {
    all: Vec<CallgrindFunction<'a>>,
    by_key: HashMap<(&'a [u8], u32, u32), u32>,
    ids: Ids,
}

impl<'a> CallgrindFunctions<'a> {
    pub(super) fn new(input_length: usize) -> Self {
        Self { all: Vec::new(), by_key: HashMap::new(), ids: Ids::new(input_length) }
    }

    pub(super) fn all(&self) -> &[CallgrindFunction<'a>] {
        &self.all
    }

    /// Own cost of all functions.
    pub(super) fn cost(&self) -> u128 {
        self.all.iter().map(|function| function.cost).sum()
    }

    pub(super) fn add_cost(&mut self, function: u32, cost: u64) {
        // It would overflow only after 2^64 lines with a cost of 2^64.
        self.all[function as usize].cost += u128::from(cost);
    }

    pub(super) fn executed(&mut self, function: u32) {
        self.all[function as usize].executed = true;
    }

    pub(super) fn forget_ids(&mut self) {
        self.ids.forget();
    }

    /// Returns the function of an `fn=`. Its object and file come directly before it, so they replace those of earlier
    /// lines, which only referred to it.
    pub(super) fn defined(
        &mut self,
        text: &'a [u8],
        object: u32,
        file: u32,
        line: u64,
    ) -> Result<u32, &'static str> {
        let index = self.named(text, object, file, line)?;
        let function = &mut self.all[index as usize];
        function.object = object;
        function.file = file;
        function.executed = true;
        Ok(index)
    }

    /// Returns the function of a `cfn=` or `jfn=`.
    pub(super) fn named(
        &mut self,
        text: &'a [u8],
        object: u32,
        file: u32,
        line: u64,
    ) -> Result<u32, &'static str> {
        match reference(text) {
            NameReference::Id(id) => self.ids.get(id).ok_or(UNDEFINED),
            NameReference::Bare(name) => {
                if let Some(&index) = self.by_key.get(&(name, object, file)) {
                    return Ok(index);
                }
                let index = self.push(name, object, file, line);
                self.by_key.insert((name, object, file), index);
                Ok(index)
            }
            NameReference::Definition(id, name) => {
                // The same definition may occur twice, for example in combined dumps.
                if let Some(index) = self.ids.get(id).filter(|index| self.all[*index as usize].name == name) {
                    return Ok(index);
                }
                let index = self.push(name, object, file, line);
                self.ids.set(id, index);
                Ok(index)
            }
        }
    }

    fn push(&mut self, name: &'a [u8], object: u32, file: u32, line: u64) -> u32 {
        self.all.push(CallgrindFunction { name, object, file, cost: 0, executed: false, line });
        self.all.len() as u32 - 1
    }
}

/// Returns the function's own name, without the callers (`f'main`) and the depth of recursion (`f'2`) that valgrind
/// appends. A mangled name contains no `'`. In a demangled one it may belong to a lambda or a lifetime, so only the
/// text after the last bracket, or a number at the end, counts as an addition.
pub(super) fn function_name(raw: &[u8]) -> &[u8] {
    let Some(first) = memchr::memchr(b'\'', raw) else { return raw };
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'@');
    if first > 0 && raw[..first].iter().all(plain) {
        return &raw[..first];
    }
    if let Some(bracket) = raw.windows(2).position(|pair| pair == b")'") {
        return &raw[..=bracket];
    }
    let last = memchr::memrchr(b'\'', raw).unwrap_or(first);
    let depth = &raw[last + 1..];
    if last > 0 && !depth.is_empty() && depth.iter().all(u8::is_ascii_digit) { &raw[..last] } else { raw }
}

/// True for an address in place of a missing symbol.
pub(super) fn is_address(name: &[u8]) -> bool {
    name.strip_prefix(b"0x")
        .is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
}

/// True for the single name that stands for all code before main.
pub(super) fn is_below_main(name: &[u8]) -> bool {
    name == b"(below main)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_of_valgrind_are_cut_and_quotes_of_the_language_are_not() {
        let cases: [(&str, &str); 9] = [
            ("rec", "rec"),
            ("rec'2", "rec"),
            ("rec'th'start_thread", "rec"),
            ("pthread_create@@GLIBC_2.34'main", "pthread_create@@GLIBC_2.34"),
            ("(below main)'0x000000000001ab70", "(below main)"),
            ("f(int)'2", "f(int)"),
            ("A::f(int) const'12", "A::f(int) const"),
            ("<impl Trait for &'a T>::f", "<impl Trait for &'a T>::f"),
            ("f()::'lambda'(int)'2", "f()::'lambda'(int)"),
        ];
        for (raw, name) in cases {
            assert_eq!(String::from_utf8_lossy(function_name(raw.as_bytes())), name, "{raw}");
        }
    }

    #[test]
    fn an_id_as_large_as_can_be_takes_no_memory() {
        let mut names = CompressedNames::new(100);
        let index = names.named(b"(999999999999999999) far").unwrap();
        assert_eq!(names.named(b"(999999999999999999)"), Ok(index));
        assert!(names.ids.table.is_empty());
        assert_eq!(names.named(b"(7)"), Err(UNDEFINED));
    }
}
