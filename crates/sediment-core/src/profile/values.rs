// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MeasuredValues`]: values computed by the code of a function, as measured by a compiler's instrumentation. Each
//! measured statement has a few counts, in the compiler's order.
//!
//! They follow the counts of arcs in the text: ` | interval 3 1`, and likewise `power` (true, false), `average` (sum
//! and number), `bits` (all set bits), `first` (rank of the first call in the program, from 1),
//! ` | top 12 3=500:16=400,32=100` (the fourth of twelve statements was executed 500 times, 400 of them with the value
//! 16). ` | callees 2 0=500:w.c%3Bstep=500` are likewise the functions that indirect calls reached.

use super::arithmetic::integer;
use super::escaped::{escaped, unescaped};
use super::runs::RunLengthCounts;
use super::{acceptable, base_name};
use std::collections::BTreeMap;
use std::fmt;

/// Measured values of one variant of a function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeasuredValues {
    /// Counts of a value in each part of an interval.
    pub interval: RunLengthCounts,
    /// Counts of values that were powers of two, and of others.
    pub power: RunLengthCounts,
    /// Sums of values, each followed by their number.
    pub average: RunLengthCounts,
    /// All bits that were ever set.
    pub bits: RunLengthCounts,
    /// Rank of the function's first call, from 1; 0 if it was not called.
    pub first: RunLengthCounts,
    /// Most frequent values.
    pub tops: Tops<u64>,
    /// Functions that indirect calls reached.
    pub callees: Tops<CalleeName>,
}

/// The most frequent values of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tops<V> {
    /// Number of statements.
    pub statements: u32,
    /// The executed statements, by their number.
    pub executed: BTreeMap<u32, Top<V>>,
}

/// The most frequent values of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top<V> {
    /// Number of its executions.
    pub total: u128,
    /// Executions with each value.
    pub values: BTreeMap<V, u128>,
}

/// Name of a called function; for a local one, its source file without folders and a semicolon come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalleeName(String);

impl CalleeName {
    /// Makes the name of a function and, for a local one, of its source file, which may be a path; `None` if a profile
    /// cannot hold them.
    pub fn new(file: Option<&[u8]>, name: &[u8]) -> Option<Self> {
        let name = acceptable(name)?;
        match file {
            None => Some(Self(name.to_owned())),
            Some(file) => Some(Self(format!("{};{name}", acceptable(base_name(file))?))),
        }
    }

    /// Returns the name; for a local function, the file and `;` come first.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Value of a statement, as text in a profile.
pub trait StatementValue: Sized + Ord + Clone {
    /// Parses it; `None` if the text is invalid.
    fn parse(text: &[u8]) -> Option<Self>;
    /// The text that [`Self::parse`] reads.
    fn print(&self) -> String;
}

impl StatementValue for u64 {
    fn parse(text: &[u8]) -> Option<Self> {
        Self::try_from(integer(text).ok()?).ok()
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl StatementValue for CalleeName {
    fn parse(text: &[u8]) -> Option<Self> {
        let name = unescaped(std::str::from_utf8(text).ok()?)?;
        let split = memchr::memrchr(b';', &name);
        split.map_or_else(|| Self::new(None, &name), |at| Self::new(Some(&name[..at]), &name[at + 1..]))
    }

    fn print(&self) -> String {
        escaped(&self.0)
    }
}

impl<V> Default for Tops<V> {
    fn default() -> Self {
        Self { statements: 0, executed: BTreeMap::new() }
    }
}

impl<V> Default for Top<V> {
    fn default() -> Self {
        Self { total: 0, values: BTreeMap::new() }
    }
}

impl MeasuredValues {
    /// Returns the sum of both; `None` if a count exceeds 128 bits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let sum = |one: &RunLengthCounts, other: &RunLengthCounts| one.joined(other, u128::checked_add);
        Some(Self {
            interval: sum(&self.interval, &other.interval)?,
            power: sum(&self.power, &other.power)?,
            average: sum(&self.average, &other.average)?,
            bits: self.bits.joined(&other.bits, |one, two| Some(one | two))?,
            first: self.first.joined(&other.first, |one, two| {
                Some(if one == 0 || two == 0 { one.max(two) } else { one.min(two) })
            })?,
            tops: self.tops.plus(&other.tops)?,
            callees: self.callees.plus(&other.callees)?,
        })
    }

    /// Returns the values with each count changed; the first error ends it.
    pub(super) fn scaled<E>(&self, scale: impl Fn(u128) -> Result<u128, E>) -> Result<Self, E> {
        Ok(Self {
            interval: self.interval.scaled(&scale)?,
            power: self.power.scaled(&scale)?,
            average: self.average.scaled(&scale)?,
            bits: self.bits.clone(),
            first: self.first.clone(),
            tops: self.tops.scaled(&scale)?,
            callees: self.callees.scaled(&scale)?,
        })
    }

    /// Parses one kind of values and adds it; the error describes the fault of the text.
    pub(super) fn parse(&mut self, text: &[u8]) -> Result<(), &'static str> {
        let end = memchr::memchr(b' ', text).unwrap_or(text.len());
        let (kind, counts) = text.split_at(end);
        let runs = match kind {
            b"interval" => &mut self.interval,
            b"power" => &mut self.power,
            b"average" => &mut self.average,
            b"bits" => &mut self.bits,
            b"first" => &mut self.first,
            b"top" => {
                self.tops = Tops::parse(counts)?;
                return Ok(());
            }
            b"callees" => {
                self.callees = Tops::parse(counts)?;
                return Ok(());
            }
            _ => return Err("has values of an unknown kind"),
        };
        *runs = RunLengthCounts::parse(counts)?;
        Ok(())
    }
}

impl<V: StatementValue> Tops<V> {
    fn plus(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        sum.statements = sum.statements.max(other.statements);
        for (place, top) in &other.executed {
            let known = sum.executed.entry(*place).or_default();
            known.total = known.total.checked_add(top.total)?;
            for (value, count) in &top.values {
                let known = known.values.entry(value.clone()).or_default();
                *known = known.checked_add(*count)?;
            }
        }
        Some(sum)
    }

    fn scaled<E>(&self, scale: impl Fn(u128) -> Result<u128, E>) -> Result<Self, E> {
        let top = |top: &Top<V>| {
            let values = top.values.iter().map(|(value, count)| Ok((value.clone(), scale(*count)?)));
            Ok(Top { total: scale(top.total)?, values: values.collect::<Result<_, E>>()? })
        };
        let executed = self.executed.iter().map(|(place, known)| Ok((*place, top(known)?)));
        Ok(Self { statements: self.statements, executed: executed.collect::<Result<_, E>>()? })
    }

    fn parse(text: &[u8]) -> Result<Self, &'static str> {
        const WRONG: &str = "has frequent values that are not PLACE=TOTAL:VALUE=COUNT,…";
        let mut items = text.split(|byte| *byte == b' ').filter(|item| !item.is_empty());
        let statements =
            items.next().and_then(|item| u32::try_from(integer(item).ok()?).ok()).ok_or(WRONG)?;
        let mut tops = Self { statements, executed: BTreeMap::new() };
        for item in items {
            let (place, top) = Top::parse(item).ok_or(WRONG)?;
            if place >= statements || tops.executed.insert(place, top).is_some() {
                return Err("lists a statement twice, or one that does not exist, in its frequent values");
            }
        }
        Ok(tops)
    }
}

impl<V: Ord> Top<V> {
    /// Returns the values by their counts, the most frequent first.
    pub fn heaviest(&self) -> Vec<(&V, u128)> {
        let mut values: Vec<_> = self.values.iter().map(|(value, count)| (value, *count)).collect();
        values.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
        values
    }
}

impl<V: StatementValue> Top<V> {
    fn parse(item: &[u8]) -> Option<(u32, Self)> {
        let split = |text, byte| {
            let at = memchr::memchr(byte, text)?;
            Some((&text[..at], &text[at + 1..]))
        };
        let (place, rest) = split(item, b'=')?;
        let (total, values) = split(rest, b':').unwrap_or((rest, &[]));
        let mut top = Self { total: integer(total).ok()?, values: BTreeMap::new() };
        for value in values.split(|byte| *byte == b',').filter(|value| !value.is_empty()) {
            let (value, count) = split(value, b'=')?;
            top.values.insert(V::parse(value)?, integer(count).ok()?).is_none().then_some(())?;
        }
        Some((u32::try_from(integer(place).ok()?).ok()?, top))
    }
}

impl fmt::Display for MeasuredValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = [
            ("interval", &self.interval),
            ("power", &self.power),
            ("average", &self.average),
            ("bits", &self.bits),
            ("first", &self.first),
        ];
        for (kind, runs) in runs.into_iter().filter(|(_, runs)| !runs.is_empty()) {
            write!(f, " | {kind} {runs}")?;
        }
        self.tops.print("top", f)?;
        self.callees.print("callees", f)
    }
}

impl<V: StatementValue> Tops<V> {
    fn print(&self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.statements == 0 {
            return Ok(());
        }
        write!(f, " | {kind} {}", self.statements)?;
        self.executed.iter().try_for_each(|(place, top)| write!(f, " {place}={top}"))
    }
}

impl<V: StatementValue> fmt::Display for Top<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.total)?;
        for (at, (value, count)) in self.heaviest().into_iter().enumerate() {
            write!(f, "{}{}={count}", if at > 0 { "," } else { ":" }, value.print())?;
        }
        Ok(())
    }
}
