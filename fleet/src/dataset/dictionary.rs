// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Dictionary`]: numbers of subjects and submitters. A number is assigned once and does not change.

use super::tables;
use datafusion::arrow::array::{Array as _, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sediment_core::profile::rows::{ProfileRow, RowKind};
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};
use std::cmp::Ordering;
use std::hash::BuildHasher as _;

/// A subject, with the numbers of its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'d> {
    /// Its kind.
    pub kind: RowKind,
    /// The function, or the caller.
    pub function: Option<u32>,
    /// The callee.
    pub callee: Option<u32>,
    /// More marks that distinguish it from other subjects.
    pub detail: &'d str,
}

/// A subject in compact form, so that many fit the processor's cache: all parts are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SubjectKey {
    kind: RowKind,
    function: u32,
    callee: u32,
    detail: u32,
}

/// Placeholder for a number that a subject does not have.
const NONE: u32 = u32::MAX;

/// The name of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName<'d> {
    /// Label of its library.
    pub dso: Option<&'d str>,
    /// Its own name.
    pub name: &'d str,
    /// Its source file.
    pub file: Option<&'d str>,
}

impl FunctionName<'_> {
    /// The name in the spelling of profiles.
    #[must_use]
    pub fn key(&self) -> FunctionKey {
        let Self { dso, name, file } = *self;
        FunctionKey { dso: dso.map(str::to_owned), name: name.to_owned(), file: file.map(str::to_owned) }
    }
}

/// Subjects and submitters by number, and the numbers of subjects and submitters.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// Functions in the spelling of [`spell`].
    functions: Words,
    details: Words,
    submitters: Words,
    subjects: Vec<SubjectKey>,
    /// Numbers of subjects by their keys.
    by_key: HashTable<i32>,
    hashing: RandomState,
    /// Number of subjects and submitters that are in files.
    kept: (usize, usize),
    /// Numbers of subjects that changed, because another writer assigned them to other subjects before they were stored.
    moves: Vec<Moved>,
}

/// Changed numbers: the numbers from `first` on are now the listed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    first: i32,
    now: Vec<i32>,
}

impl Moved {
    /// Current value of a number.
    #[must_use]
    pub fn of(&self, number: i32) -> i32 {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.now.get(at)).copied().unwrap_or(number)
    }
}

/// Words by number. They are stored one after the other, and the table does not contain them, because strangers may send millions.
#[derive(Default)]
pub(crate) struct Words {
    text: String,
    /// End offset of each word.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hashing: RandomState,
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").field("count", &self.ends.len()).finish_non_exhaustive()
    }
}

impl Words {
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        word_of(&self.text, &self.ends, number)
    }

    fn find(&self, word: &str) -> Option<u32> {
        self.table.find(self.hashing.hash_one(word), |number| self.get(*number) == Some(word)).copied()
    }

    /// The number of a word; assigns one if it has none.
    pub(crate) fn number(&mut self, word: &str) -> u32 {
        self.find(word).unwrap_or_else(|| {
            let number = self.ends.len() as u32;
            self.text.push_str(word);
            self.ends.push(self.text.len());
            let Self { text, ends, table, hashing } = self;
            let hash = |number: &u32| hashing.hash_one(word_of(text, ends, *number).unwrap_or_default());
            table.insert_unique(hashing.hash_one(word), number, hash);
            number
        })
    }

    /// Removes all words from a number on, and returns them.
    fn split_off(&mut self, first: usize) -> Vec<String> {
        let split: Vec<String> =
            (first as u32..).map_while(|number| self.get(number)).map(str::to_owned).collect();
        self.table.retain(|number| (*number as usize) < first);
        self.ends.truncate(first);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
        split
    }
}

fn word_of<'t>(text: &'t str, ends: &[usize], number: u32) -> Option<&'t str> {
    let at = number as usize;
    let begin = at.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied())?;
    text.get(begin..*ends.get(at)?)
}

/// Joins the parts of a function's key. No part contains a control character.
fn spell(key: &FunctionKey, into: &mut String) {
    into.clear();
    into.push_str(&key.name);
    for part in [&key.dso, &key.file] {
        into.push(if part.is_some() { '\u{1}' } else { '\0' });
        into.push_str(part.as_deref().unwrap_or_default());
    }
}

/// Splits a function's key into its parts.
fn spelled(text: &str) -> FunctionName<'_> {
    let marks = ['\0', '\u{1}'];
    let (name, rest) = text.split_at(text.find(marks).unwrap_or(text.len()));
    let (dso, file) = rest.split_at(rest.rfind(marks).unwrap_or(0));
    FunctionName { dso: dso.strip_prefix('\u{1}'), name, file: file.strip_prefix('\u{1}') }
}

impl Dictionary {
    /// Reads a file of subjects.
    ///
    /// # Errors
    /// Fails if a row is not a subject, or if its number is not the next number.
    pub fn read_subjects(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        // Numbers of names that are being forgotten are not assigned again.
        let is_forgotten = batch.column(9).as_boolean();
        for row in 0..batch.num_rows() {
            let number = numbers.value(row);
            match number.cmp(&(self.subjects.len() as i32)) {
                // Combined files contain rows that were read before.
                Ordering::Less => continue,
                Ordering::Equal => {}
                Ordering::Greater => {
                    return Err(damaged("numbers of subjects are not consecutive"));
                }
            }
            let text = |column| tables::text_at(batch, column, row);
            let function = |dso: usize| {
                let name = text(dso + 1)?;
                Some(FunctionKey::new(
                    text(dso).map(str::as_bytes),
                    name.as_bytes(),
                    text(dso + 2).map(str::as_bytes),
                ))
            };
            let kind =
                text(1).and_then(RowKind::parse).ok_or_else(|| damaged("a subject of an unknown kind"))?;
            let key = |dso| match function(dso) {
                Some(None) => Err(damaged("a function name that is not valid in profiles")),
                Some(key) => Ok(key),
                None => Ok(None),
            };
            let (function, callee) = (key(2)?, key(5)?);
            let key = self.subject_key(kind, function.as_ref(), callee.as_ref(), text(8).unwrap_or_default());
            if is_forgotten.is_null(row) || !is_forgotten.value(row) {
                self.remove(&key);
                self.insert(&key, number);
            }
            self.subjects.push(key);
        }
        self.kept.0 = self.subjects.len();
        Ok(())
    }

    /// Reads a file of submitters.
    ///
    /// # Errors
    /// Fails if a number is not the next number.
    pub fn read_submitters(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            if self.submitter(tables::text_at(batch, 1, row).unwrap_or_default()) != numbers.value(row) {
                return Err(damaged("numbers of submitters are not consecutive"));
            }
        }
        self.kept.1 = self.submitters.ends.len();
        Ok(())
    }

    /// The key of a subject. Parts without a number get one.
    fn subject_key(
        &mut self,
        kind: RowKind,
        function: Option<&FunctionKey>,
        callee: Option<&FunctionKey>,
        detail: &str,
    ) -> SubjectKey {
        let mut word = String::new();
        let mut number = |key: Option<&FunctionKey>| {
            key.map_or(NONE, |key| {
                spell(key, &mut word);
                self.functions.number(&word)
            })
        };
        let (function, callee) = (number(function), number(callee));
        let detail = if detail.is_empty() { NONE } else { self.details.number(detail) };
        SubjectKey { kind, function, callee, detail }
    }

    fn find_key(&self, key: &SubjectKey) -> Option<i32> {
        let is_it = |number: &i32| self.subjects.get(*number as usize) == Some(key);
        self.by_key.find(self.hashing.hash_one(key), is_it).copied()
    }

    fn insert(&mut self, key: &SubjectKey, number: i32) {
        let Self { subjects, by_key, hashing, .. } = self;
        by_key.insert_unique(hashing.hash_one(key), number, |number| {
            // The subject with this number is inserted next.
            hashing.hash_one(subjects.get(*number as usize).unwrap_or(key))
        });
    }

    fn remove(&mut self, key: &SubjectKey) {
        let Self { subjects, by_key, hashing, .. } = self;
        let is_it = |number: &i32| subjects.get(*number as usize) == Some(key);
        if let Ok(known) = by_key.find_entry(hashing.hash_one(key), is_it) {
            known.remove();
        }
    }

    /// The number of a subject; assigns one if it has none.
    fn subject(&mut self, key: SubjectKey) -> i32 {
        self.find_key(&key).unwrap_or_else(|| {
            let number = self.subjects.len() as i32;
            self.insert(&key, number);
            self.subjects.push(key);
            number
        })
    }

    /// The number of a submitter.
    pub fn submitter(&mut self, key: &str) -> i32 {
        self.submitters.number(key) as i32
    }

    /// Number of a submitter that is known.
    #[must_use]
    pub fn find_submitter(&self, key: &str) -> Option<i32> {
        self.submitters.find(key).map(|number| number as i32)
    }

    /// Key of a submitter.
    #[must_use]
    pub fn submitter_at(&self, number: i32) -> Option<&str> {
        self.submitters.get(u32::try_from(number).ok()?)
    }

    /// Numbers of the subjects of a profile's rows, if they are known.
    #[must_use]
    pub fn find(&self, profile: &Profile, rows: &[ProfileRow]) -> Vec<Option<i32>> {
        let (mut word, mut functions) = (String::new(), vec![None; profile.function_count()]);
        let mut function = |index: Option<FunctionIndex>| match index {
            None => Some(NONE),
            Some(index) => *functions.get_mut(index.index())?.get_or_insert_with(|| {
                spell(profile.key(index), &mut word);
                self.functions.find(&word)
            }),
        };
        let find = |row: &ProfileRow| {
            let (function, callee) = (function(row.function)?, function(row.callee)?);
            let detail = if row.detail.is_empty() { Some(NONE) } else { self.details.find(&row.detail) };
            self.find_key(&SubjectKey { kind: row.kind, function, callee, detail: detail? })
        };
        rows.iter().map(find).collect()
    }

    /// The number of a subject; assigns one if it has none.
    pub fn number(
        &mut self,
        kind: RowKind,
        function: Option<&FunctionKey>,
        callee: Option<&FunctionKey>,
        detail: &str,
    ) -> i32 {
        let key = self.subject_key(kind, function, callee, detail);
        self.subject(key)
    }

    /// The subject of a number.
    #[must_use]
    pub fn subject_at(&self, number: i32) -> Option<Subject<'_>> {
        let key = self.subjects.get(usize::try_from(number).ok()?)?;
        let some = |number: u32| (number != NONE).then_some(number);
        let detail = some(key.detail).and_then(|number| self.details.get(number)).unwrap_or_default();
        Some(Subject { kind: key.kind, function: some(key.function), callee: some(key.callee), detail })
    }

    /// The name of a function's number.
    #[must_use]
    pub fn function_at(&self, number: u32) -> Option<FunctionName<'_>> {
        self.functions.get(number).map(spelled)
    }

    /// Number of functions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.ends.len()
    }

    /// Subjects that are not in files yet.
    ///
    /// # Errors
    /// Fails if the columns do not fit, which would be a bug.
    pub fn new_subjects(&self) -> Result<Option<RecordBatch>> {
        if self.subjects.len() == self.kept.0 {
            return Ok(None);
        }
        let fresh = (self.kept.0 as i32..).map_while(|number| Some((number, self.subject_at(number)?)));
        let rows = fresh.map(|(number, subject)| {
            let parts = |function: Option<u32>| match function.and_then(|number| self.function_at(number)) {
                Some(key) => [key.dso, Some(key.name), key.file],
                None => [None; 3],
            };
            let ([dso, name, file], [callee_dso, callee, callee_file]) =
                (parts(subject.function), parts(subject.callee));
            let kind = Some(subject.kind.text());
            (number, [kind, dso, name, file, callee_dso, callee, callee_file, Some(subject.detail)])
        });
        tables::texts(tables::subjects_schema(), rows).map(Some)
    }

    /// Submitters that are not in files yet.
    ///
    /// # Errors
    /// Fails if the columns do not fit, which would be a bug.
    pub fn new_submitters(&self) -> Result<Option<RecordBatch>> {
        if self.submitters.ends.len() == self.kept.1 {
            return Ok(None);
        }
        let fresh = (self.kept.1 as i32..).map_while(|number| Some((number, self.submitter_at(number)?)));
        let rows = fresh.map(|(number, key)| (number, [Some(key)]));
        tables::texts(tables::submitters_schema(), rows).map(Some)
    }

    /// Number of subjects and submitters that are in files.
    #[must_use]
    pub fn kept(&self) -> (usize, usize) {
        self.kept
    }

    /// Records that all known subjects are in files.
    pub fn subjects_are_kept(&mut self) {
        self.kept.0 = self.subjects.len();
    }

    /// Records that all known submitters are in files.
    pub fn submitters_are_kept(&mut self) {
        self.kept.1 = self.submitters.ends.len();
    }

    /// Adds subjects that another writer stored. Own subjects that are not in files get numbers after them.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_subjects`].
    pub fn give_way_to_subjects(&mut self, kept: &[RecordBatch]) -> Result<Moved> {
        let first = self.kept.0 as i32;
        self.by_key.retain(|number| *number < first);
        let own = self.subjects.split_off(self.kept.0);
        for batch in kept {
            self.read_subjects(batch)?;
        }
        let now = own.into_iter().map(|key| self.subject(key)).collect();
        let moved = Moved { first, now };
        self.moves.push(moved.clone());
        Ok(moved)
    }

    /// Adds submitters that another writer stored.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_submitters`].
    pub fn give_way_to_submitters(&mut self, kept: &[RecordBatch]) -> Result<Moved> {
        let first = self.kept.1 as i32;
        let own = self.submitters.split_off(self.kept.1);
        for batch in kept {
            self.read_submitters(batch)?;
        }
        let now = own.iter().map(|key| self.submitter(key)).collect();
        Ok(Moved { first, now })
    }

    /// How often numbers of subjects changed. Numbers that were looked up are valid for this mark.
    #[must_use]
    pub fn epoch(&self) -> usize {
        self.moves.len()
    }

    /// Current value of a number that was looked up at a mark.
    #[must_use]
    pub fn number_now(&self, number: i32, epoch: usize) -> i32 {
        self.moves.iter().skip(epoch).fold(number, |number, moved| moved.of(number))
    }
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorCode::Damaged, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> FunctionKey {
        FunctionKey::new(None, name.as_bytes(), None).unwrap()
    }

    #[test]
    fn numbers_give_way_to_those_of_another_writer() {
        let mut one = Dictionary::default();
        let mut other = Dictionary::default();
        let number = |dictionary: &mut Dictionary, name: &str| {
            dictionary.number(RowKind::Function, Some(&key(name)), None, "size=8")
        };
        for name in ["a", "b", "c"] {
            number(&mut one, name);
        }
        // Another writer stores `c` and `x` first.
        for name in ["c", "x"] {
            number(&mut other, name);
        }
        let kept = other.new_subjects().unwrap().unwrap();
        let epoch = one.epoch();
        let moved = one.give_way_to_subjects(&[kept]).unwrap();
        assert_eq!([0, 1, 2].map(|number| moved.of(number)), [2, 3, 0]);
        assert_eq!(one.number_now(1, epoch), 3);
        assert_eq!(one.number_now(1, one.epoch()), 1);
        assert_eq!([number(&mut one, "c"), number(&mut one, "x"), number(&mut one, "a")], [0, 1, 2]);
        assert_eq!(one.new_subjects().unwrap().unwrap().num_rows(), 2);
        let (mut first, mut second) = (Dictionary::default(), Dictionary::default());
        first.submitter("s");
        second.submitter("t");
        let kept = second.new_submitters().unwrap().unwrap();
        assert_eq!(first.give_way_to_submitters(&[kept]).unwrap().of(0), 1);
        assert_eq!((first.submitter("t"), first.submitter("s")), (0, 1));
    }
}
