// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SubjectDictionary`]: subjects in compact form, as a writer collects them, and [`Names`]: the subjects of a dataset that a query needs, by number.
//!
//! A dataset may have far more names than fit in memory, because strangers can invent them. So a writer has only the names of the submissions that it
//! adds, and a query only the names of its result.

use super::tables;
use crate::errors::{ErrorContext as _, damaged};
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use indexmap::IndexSet;
use sediment_core::Result;
use sediment_core::profile::FunctionKey;
use sediment_core::profile::rows::RowKind;
use std::hash::BuildHasher as _;

/// A subject, with the positions of its functions in the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject<'d> {
    pub(crate) kind: RowKind,
    /// The function, or the caller.
    pub(crate) function: Option<u32>,
    pub(crate) callee: Option<u32>,
    /// More marks that distinguish it from other subjects.
    pub(crate) detail: &'d str,
}

/// A subject in compact form, so that many fit the processor's cache: all parts are positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SubjectKey {
    kind: RowKind,
    function: u32,
    callee: u32,
    detail: u32,
}

/// Placeholder for a part that a subject does not have.
const NONE: u32 = u32::MAX;

impl SubjectKey {
    pub(super) fn new(
        kind: RowKind,
        function: Option<u32>,
        callee: Option<u32>,
        detail: Option<u32>,
    ) -> Self {
        let [function, callee, detail] = [function, callee, detail].map(|part| part.unwrap_or(NONE));
        Self { kind, function, callee, detail }
    }
}

/// The name of a function, its library and its source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName<'d> {
    /// Label of its library.
    pub(crate) dso: Option<&'d str>,
    /// Its own name.
    pub name: &'d str,
    /// Its source file.
    pub(crate) file: Option<&'d str>,
}

impl FunctionName<'_> {
    /// The name in the spelling of profiles.
    pub(crate) fn key(&self) -> FunctionKey {
        let Self { dso, name, file } = *self;
        FunctionKey { dso: dso.map(str::to_owned), name: name.to_owned(), file: file.map(str::to_owned) }
    }
}

/// Joins the parts of a function's key. No part contains a control character.
pub(super) fn spell(key: &FunctionKey) -> String {
    spell_parts(key.dso.as_deref(), &key.name, key.file.as_deref())
}

fn spell_parts(dso: Option<&str>, name: &str, file: Option<&str>) -> String {
    let length = |part: Option<&str>| 1 + part.map_or(0, str::len);
    let mut text = String::with_capacity(name.len() + length(dso) + length(file));
    text.push_str(name);
    for part in [dso, file] {
        text.push(if part.is_some() { '\u{1}' } else { '\0' });
        text.push_str(part.unwrap_or_default());
    }
    text
}

/// Splits a function's key into its parts.
fn spelled(text: &str) -> FunctionName<'_> {
    let marks = ['\0', '\u{1}'];
    let (name, rest) = text.split_at(text.find(marks).unwrap_or(text.len()));
    let (dso, file) = rest.split_at(rest.rfind(marks).unwrap_or(0));
    FunctionName { dso: dso.strip_prefix('\u{1}'), name, file: file.strip_prefix('\u{1}') }
}

/// Words by position, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Words(IndexSet<Box<str>, RandomState>);

impl Words {
    pub(crate) fn get(&self, position: u32) -> Option<&str> {
        self.0.get_index(position as usize).map(|word| &**word)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All words, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|word| &**word)
    }

    /// The position of a word; adds it if it is new.
    pub(crate) fn number(&mut self, word: &str) -> u32 {
        let known = self.0.get_index_of(word);
        known.unwrap_or_else(|| self.0.insert_full(word.into()).0) as u32
    }
}

/// Subjects by position, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct SubjectDictionary {
    /// Functions in the spelling of [`spell`].
    pub(super) functions: Words,
    pub(super) details: Words,
    subjects: Vec<SubjectKey>,
    /// Positions of subjects. The keys are here once more, because a lookup then reads one place in memory.
    positions: HashTable<(SubjectKey, u32)>,
    hashing: RandomState,
}

impl SubjectDictionary {
    pub(super) fn len(&self) -> usize {
        self.subjects.len()
    }

    /// The position of a subject; adds it if it is new.
    pub(super) fn subject(&mut self, key: SubjectKey) -> u32 {
        let Self { subjects, positions, hashing, .. } = self;
        let hash = hashing.hash_one(key);
        if let Some((_, position)) = positions.find(hash, |(other, _)| *other == key) {
            return *position;
        }
        let position = subjects.len() as u32;
        subjects.push(key);
        positions.insert_unique(hash, (key, position), |(key, _)| hashing.hash_one(key));
        position
    }

    /// The subject at a position.
    pub(super) fn subject_at(&self, position: u32) -> Option<Subject<'_>> {
        let key = self.subjects.get(position as usize)?;
        let some = |part: u32| (part != NONE).then_some(part);
        let detail = some(key.detail).and_then(|detail| self.details.get(detail)).unwrap_or_default();
        Some(Subject { kind: key.kind, function: some(key.function), callee: some(key.callee), detail })
    }

    /// Texts of a subject, in the order of the table's columns.
    pub(super) fn texts_at(&self, position: u32) -> Option<[Option<&str>; 8]> {
        let subject = self.subject_at(position)?;
        let parts = |function: Option<u32>| match function.and_then(|at| self.functions.get(at)).map(spelled)
        {
            Some(key) => [key.dso, Some(key.name), key.file],
            None => [None; 3],
        };
        let [dso, name, file] = parts(subject.function);
        let [callee_dso, callee, callee_file] = parts(subject.callee);
        Some([
            Some(subject.kind.text()),
            dso,
            name,
            file,
            callee_dso,
            callee,
            callee_file,
            Some(subject.detail),
        ])
    }
}

/// Subjects of a dataset by number.
#[derive(Debug, Default)]
pub struct Names {
    dictionary: SubjectDictionary,
    /// Positions by number; [`NONE`] for numbers that were not read.
    positions: Vec<u32>,
}

impl Names {
    /// Reads rows of subjects.
    pub(crate) fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        for (row, number) in batch.column(0).as_primitive::<Int32Type>().values().iter().enumerate() {
            let text = |column| tables::text_at(batch, column, row);
            let kind =
                text(1).and_then(RowKind::parse).ok_or_else(|| damaged("a subject of an unknown kind"))?;
            let mut function = |dso: usize| {
                let Some(name) = text(dso + 1) else { return Ok(None) };
                let bytes = |column| text(column).map(str::as_bytes);
                if FunctionKey::new(bytes(dso), name.as_bytes(), bytes(dso + 2)).is_none() {
                    return Err(damaged("a function name that is not valid in profiles"));
                }
                let spelled = spell_parts(text(dso), name, text(dso + 2));
                Ok(Some(self.dictionary.functions.number(&spelled)))
            };
            let (function, callee) = (function(2)?, function(5)?);
            let detail = text(8).filter(|detail| !detail.is_empty());
            let detail = detail.map(|detail| self.dictionary.details.number(detail));
            let position = self.dictionary.subject(SubjectKey::new(kind, function, callee, detail));
            let at = usize::try_from(*number).damaged()?;
            if self.positions.len() <= at {
                self.positions.resize(at + 1, NONE);
            }
            self.positions[at] = position;
        }
        Ok(())
    }

    /// The subject with a number.
    pub(crate) fn subject_at(&self, number: i32) -> Option<Subject<'_>> {
        self.dictionary.subject_at(*self.positions.get(number as usize)?)
    }

    /// The name of a function.
    pub fn function_at(&self, position: u32) -> Option<FunctionName<'_>> {
        self.dictionary.functions.get(position).map(spelled)
    }

    pub(crate) fn function_count(&self) -> usize {
        self.dictionary.functions.len()
    }
}
