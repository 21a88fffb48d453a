// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Dictionary`]: numbers of subjects and submitters. A number is given once and stays.

use super::tables;
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Int32Type;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sediment_core::profile::rows::{ProfileRow, RowKind};
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// A subject by the numbers of its functions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Its kind.
    pub kind: RowKind,
    /// The function, or the caller.
    pub function: Option<u32>,
    /// The callee.
    pub callee: Option<u32>,
    /// Further marks that tell it from others.
    pub detail: String,
}

/// A subject in small, so that many lie in a processor's cache: all parts by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SubjectKey {
    kind: RowKind,
    function: u32,
    callee: u32,
    detail: u32,
}

/// In place of a number that a subject does not have.
const NONE: u32 = u32::MAX;

/// Subjects and submitters by number, and numbers by these.
#[derive(Debug, Default)]
pub struct Dictionary {
    functions: Functions,
    subjects: Vec<Subject>,
    by_subject: HashMap<SubjectKey, i32, RandomState>,
    by_detail: HashMap<String, u32, RandomState>,
    submitters: Vec<String>,
    by_submitter: HashMap<String, i32, RandomState>,
    /// Subjects and submitters that files have.
    kept: (usize, usize),
    /// Numbers of subjects that changed, as another writer gave them to others before they were kept.
    moves: Vec<Moved>,
}

/// Numbers that changed: those from `first` on are now the ones that are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    first: i32,
    now: Vec<i32>,
}

impl Moved {
    /// What a number is now.
    #[must_use]
    pub fn of(&self, number: i32) -> i32 {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.now.get(at)).copied().unwrap_or(number)
    }
}

/// Functions by number. Names lie side by side and the table has none of them, so that both stay in a processor's cache.
#[derive(Default)]
struct Functions {
    keys: Vec<FunctionKey>,
    /// Names as [`spell`] writes them.
    text: Vec<u8>,
    /// Where the name of each number ends.
    ends: Vec<usize>,
    /// Hashes of names, and numbers.
    table: HashTable<(u64, u32)>,
    state: RandomState,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").field("count", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Functions {
    /// The number of a function that has one. `spelled` is memory for its name.
    fn find(&self, key: &FunctionKey, spelled: &mut Vec<u8>) -> Option<u32> {
        spell(key, spelled);
        self.find_spelled(self.state.hash_one(&spelled[..]), spelled)
    }

    fn find_spelled(&self, hash: u64, spelled: &[u8]) -> Option<u32> {
        let is_it =
            |(its_hash, number): &(u64, u32)| *its_hash == hash && self.spelled(*number) == Some(spelled);
        self.table.find(hash, is_it).map(|(_, number)| *number)
    }

    fn spelled(&self, number: u32) -> Option<&[u8]> {
        let at = number as usize;
        let begin = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(begin..*self.ends.get(at)?)
    }

    /// The number of a function, which is given now if it has none.
    fn number(&mut self, key: &FunctionKey) -> u32 {
        let mut spelled = Vec::new();
        spell(key, &mut spelled);
        let hash = self.state.hash_one(&spelled[..]);
        self.find_spelled(hash, &spelled).unwrap_or_else(|| {
            let number = self.keys.len() as u32;
            self.keys.push(key.clone());
            self.text.extend_from_slice(&spelled);
            self.ends.push(self.text.len());
            self.table.insert_unique(hash, (hash, number), |(hash, _)| *hash);
            number
        })
    }
}

/// Writes the parts of a function's key one after the other. No part has a control character.
fn spell(key: &FunctionKey, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(key.name.as_bytes());
    for part in [&key.dso, &key.file] {
        into.push(if part.is_some() { 1 } else { 0 });
        into.extend_from_slice(part.as_deref().unwrap_or_default().as_bytes());
    }
}

impl Dictionary {
    /// Reads a file of subjects.
    ///
    /// # Errors
    /// When a row is none of a subject, or the numbers are not those that follow.
    pub fn read_subjects(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
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
                Some(None) => Err(damaged("a function with a name that no profile has")),
                Some(key) => Ok(key),
                None => Ok(None),
            };
            let (function, callee) = (key(2)?, key(5)?);
            let detail = text(8).unwrap_or_default();
            if self.number(kind, function.as_ref(), callee.as_ref(), detail) != numbers.value(row) {
                return Err(damaged("numbers of subjects that do not follow one another"));
            }
        }
        self.kept.0 = self.subjects.len();
        Ok(())
    }

    /// Reads a file of submitters.
    ///
    /// # Errors
    /// When the numbers are not those that follow.
    pub fn read_submitters(&mut self, batch: &RecordBatch) -> Result<()> {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        for row in 0..batch.num_rows() {
            if self.submitter(tables::text_at(batch, 1, row).unwrap_or_default()) != numbers.value(row) {
                return Err(damaged("numbers of submitters that do not follow one another"));
            }
        }
        self.kept.1 = self.submitters.len();
        Ok(())
    }

    /// The number of a subject, which is given now if it has none.
    fn subject(&mut self, kind: RowKind, function: Option<u32>, callee: Option<u32>, detail: &str) -> i32 {
        let key = SubjectKey {
            kind,
            function: function.unwrap_or(NONE),
            callee: callee.unwrap_or(NONE),
            detail: self.detail(detail),
        };
        *self.by_subject.entry(key).or_insert_with(|| {
            let number = self.subjects.len() as i32;
            self.subjects.push(Subject { kind, function, callee, detail: detail.to_owned() });
            number
        })
    }

    fn detail(&mut self, detail: &str) -> u32 {
        self.find_detail(detail).unwrap_or_else(|| {
            let number = self.by_detail.len() as u32;
            self.by_detail.insert(detail.to_owned(), number);
            number
        })
    }

    fn find_detail(&self, detail: &str) -> Option<u32> {
        if detail.is_empty() { Some(NONE) } else { self.by_detail.get(detail).copied() }
    }

    /// The number of a submitter.
    pub fn submitter(&mut self, key: &str) -> i32 {
        if let Some(number) = self.by_submitter.get(key) {
            return *number;
        }
        let number = self.submitters.len() as i32;
        self.submitters.push(key.to_owned());
        self.by_submitter.insert(key.to_owned(), number);
        number
    }

    /// Number of a known submitter.
    #[must_use]
    pub fn find_submitter(&self, key: &str) -> Option<i32> {
        self.by_submitter.get(key).copied()
    }

    /// Key of a submitter.
    #[must_use]
    pub fn submitter_at(&self, number: i32) -> Option<&str> {
        self.submitters.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// Numbers of the subjects of a profile's rows, where they are known.
    #[must_use]
    pub fn find(&self, profile: &Profile, rows: &[ProfileRow]) -> Vec<Option<i32>> {
        let (mut spelled, mut functions) = (Vec::new(), vec![None; profile.function_count()]);
        let mut function = |index: Option<FunctionIndex>| match index {
            None => Some(NONE),
            Some(index) => *functions
                .get_mut(index.index())?
                .get_or_insert_with(|| self.functions.find(profile.key(index), &mut spelled)),
        };
        let find = |row: &ProfileRow| {
            let (function, callee) = (function(row.function)?, function(row.callee)?);
            let key = SubjectKey { kind: row.kind, function, callee, detail: self.find_detail(&row.detail)? };
            self.by_subject.get(&key).copied()
        };
        rows.iter().map(find).collect()
    }

    /// The number of a subject, which is given now if it has none.
    pub fn number(
        &mut self,
        kind: RowKind,
        function: Option<&FunctionKey>,
        callee: Option<&FunctionKey>,
        detail: &str,
    ) -> i32 {
        let mut function_number = |key: Option<&FunctionKey>| Some(self.functions.number(key?));
        let (function, callee) = (function_number(function), function_number(callee));
        self.subject(kind, function, callee, detail)
    }

    /// The subject of a number.
    #[must_use]
    pub fn subject_at(&self, number: i32) -> Option<&Subject> {
        self.subjects.get(usize::try_from(number).ok()?)
    }

    /// The key of a function's number.
    #[must_use]
    pub fn function_at(&self, number: u32) -> Option<&FunctionKey> {
        self.functions.keys.get(number as usize)
    }

    /// Number of functions.
    #[must_use]
    pub fn function_count(&self) -> usize {
        self.functions.keys.len()
    }

    /// Subjects that no file has yet.
    ///
    /// # Errors
    /// When the columns do not fit, which would be a defect.
    pub fn new_subjects(&self) -> Result<Option<RecordBatch>> {
        let fresh = self.subjects.iter().enumerate().skip(self.kept.0);
        if fresh.len() == 0 {
            return Ok(None);
        }
        let rows = fresh.map(|(number, subject)| {
            let parts = |function: Option<u32>| match function.and_then(|number| self.function_at(number)) {
                Some(key) => [key.dso.as_deref(), Some(key.name.as_str()), key.file.as_deref()],
                None => [None; 3],
            };
            let ([dso, name, file], [callee_dso, callee, callee_file]) =
                (parts(subject.function), parts(subject.callee));
            let detail = Some(subject.detail.as_str());
            (
                number as i32,
                [Some(subject.kind.text()), dso, name, file, callee_dso, callee, callee_file, detail],
            )
        });
        tables::texts(tables::subjects_schema(), rows).map(Some)
    }

    /// Submitters that no file has yet.
    ///
    /// # Errors
    /// When the columns do not fit, which would be a defect.
    pub fn new_submitters(&self) -> Result<Option<RecordBatch>> {
        let fresh = self.submitters.iter().enumerate().skip(self.kept.1);
        if fresh.len() == 0 {
            return Ok(None);
        }
        let rows = fresh.map(|(number, key)| (number as i32, [Some(key.as_str())]));
        tables::texts(tables::submitters_schema(), rows).map(Some)
    }

    /// Number of subjects and submitters that files have.
    #[must_use]
    pub fn kept(&self) -> (usize, usize) {
        self.kept
    }

    /// Says that files have all subjects that are known.
    pub fn subjects_are_kept(&mut self) {
        self.kept.0 = self.subjects.len();
    }

    /// Says that files have all submitters that are known.
    pub fn submitters_are_kept(&mut self) {
        self.kept.1 = self.submitters.len();
    }

    /// Takes in subjects that another writer kept: those that no file had are numbered behind them.
    ///
    /// # Errors
    /// As [`Self::read_subjects`].
    pub fn give_way_to_subjects(&mut self, kept: &[RecordBatch]) -> Result<Moved> {
        let first = self.kept.0 as i32;
        let own = self.subjects.split_off(self.kept.0);
        for subject in &own {
            let key = self.key_of(subject);
            self.by_subject.remove(&key);
        }
        for batch in kept {
            self.read_subjects(batch)?;
        }
        let now = own
            .into_iter()
            .map(|one| self.subject(one.kind, one.function, one.callee, &one.detail))
            .collect();
        let moved = Moved { first, now };
        self.moves.push(moved.clone());
        Ok(moved)
    }

    /// Takes in submitters that another writer kept.
    ///
    /// # Errors
    /// As [`Self::read_submitters`].
    pub fn give_way_to_submitters(&mut self, kept: &[RecordBatch]) -> Result<Moved> {
        let first = self.kept.1 as i32;
        let own = self.submitters.split_off(self.kept.1);
        for key in &own {
            self.by_submitter.remove(key);
        }
        for batch in kept {
            self.read_submitters(batch)?;
        }
        let now = own.iter().map(|key| self.submitter(key)).collect();
        Ok(Moved { first, now })
    }

    /// How often numbers of subjects changed: a mark of those that were looked up.
    #[must_use]
    pub fn epoch(&self) -> usize {
        self.moves.len()
    }

    /// What a number is now that was looked up at a mark.
    #[must_use]
    pub fn number_now(&self, number: i32, epoch: usize) -> i32 {
        self.moves.iter().skip(epoch).fold(number, |number, moved| moved.of(number))
    }

    fn key_of(&self, subject: &Subject) -> SubjectKey {
        SubjectKey {
            kind: subject.kind,
            function: subject.function.unwrap_or(NONE),
            callee: subject.callee.unwrap_or(NONE),
            detail: self.find_detail(&subject.detail).unwrap_or(NONE),
        }
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
        // Another writer keeps `c` and `x` first.
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
