// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ArcCounters`]: a function's arc counts from a compiler's instrumentation, grouped by unit and control-flow graph.
//!
//! One function may have several variants, from different builds and from different units that compile it. The text of
//! the attribute `counters` has for each variant its unit, a blank, the checksums of its line and graph, a colon and
//! its counts in the compiler's order; `0*12` is twelve equal ones. Variants are separated by `; `, the heaviest first
//! (docs/background/profile-details.md).

use super::escaped::{escaped, unescaped};
use super::runs::RunLengthCounts;
use super::values::MeasuredValues;
use super::{acceptable, base_name};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Identity of a variant: the place where a compiler instrumented the function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterVariant {
    /// Base name of the unit's source file, after `early+` if a recording has the counters. Never a path.
    pub unit: String,
    /// Checksum of the functions of the unit: different units may have the same name.
    pub functions: u32,
    /// Checksum of the function's position in its source file.
    pub line: u32,
    /// Checksum of the control-flow graph.
    pub graph: u32,
}

/// Kinds of LLVM's instrumentation, used in place of a unit: of its intermediate code, of this code again after
/// inlining by counts, and of clang's front end. For a local function, a plus sign and its source file follow. LLVM
/// identifies a function only by its name and graph.
pub const LLVM_KINDS: [&str; 3] = ["llvm-ir", "llvm-csir", "llvm-fe"];

/// Prefix of the unit for counters that a recording has by early ids. Their zeros may come from sampling, and GCC
/// splits functions before it numbers them, so they are separate variants.
const EARLY: &str = "early+";

/// Counts of a function's arcs by variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArcCounters(BTreeMap<CounterVariant, VariantCounts>);

/// Counts of one variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariantCounts {
    /// Executions of the instrumented arcs.
    pub arcs: RunLengthCounts,
    /// Values measured in addition.
    pub values: MeasuredValues,
}

impl VariantCounts {
    /// Returns the sum of both; `None` if a count exceeds 128 bits.
    fn plus(&self, other: &Self) -> Option<Self> {
        let arcs = self.arcs.joined(&other.arcs, u128::checked_add)?;
        Some(Self { arcs, values: self.values.plus(&other.values)? })
    }
}

impl ArcCounters {
    /// Adds counts of a variant; `None`, without any change, if a count exceeds 128 bits.
    pub fn add(&mut self, variant: CounterVariant, counted: &VariantCounts) -> Option<()> {
        let sum = self.0.get(&variant).map_or_else(|| Some(counted.clone()), |known| known.plus(counted))?;
        self.0.insert(variant, sum);
        Some(())
    }

    /// Returns the variants by weight, the heaviest first, then by identity.
    #[must_use]
    pub fn variants(&self) -> Vec<(&CounterVariant, &VariantCounts)> {
        let mut variants: Vec<_> = self.0.iter().collect();
        variants.sort_by_key(|(variant, counted)| (Reverse(counted.arcs.sum()), *variant));
        variants
    }

    /// Sum of all counts, limited to 128 bits.
    pub fn sum(&self) -> u128 {
        let sums = self.0.values().map(|counted| counted.arcs.sum().unwrap_or(u128::MAX));
        sums.fold(0, u128::saturating_add)
    }

    /// The largest count.
    pub fn largest(&self) -> u128 {
        self.0.values().map(|counted| counted.arcs.largest()).max().unwrap_or(0)
    }

    /// Keeps the variants of one compiler's instrumentation.
    pub fn retain(&mut self, keep: impl Fn(&CounterVariant) -> bool) {
        self.0.retain(|variant, _| keep(variant));
    }

    /// True if there are no variants.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the heaviest variants; true if there were more.
    pub(super) fn keep_heaviest(&mut self, most: usize) -> bool {
        let before = self.0.len();
        let kept: Vec<CounterVariant> =
            self.variants().into_iter().take(most).map(|(one, _)| one.clone()).collect();
        self.0.retain(|variant, _| kept.contains(variant));
        self.0.len() < before
    }

    /// Returns the counters, each count changed by `scale`; the first error ends it.
    pub fn scaled<E>(&self, scale: impl Fn(u128) -> Result<u128, E>) -> Result<Self, E> {
        let variant = |(variant, counted): (&CounterVariant, &VariantCounts)| {
            let arcs = counted.arcs.scaled(&scale)?;
            Ok((variant.clone(), VariantCounts { arcs, values: counted.values.scaled(&scale)? }))
        };
        self.0.iter().map(variant).collect::<Result<_, E>>().map(Self)
    }

    /// Adds the counters of another profile for the same function; `None` if a count exceeds 128 bits.
    pub fn absorb(&mut self, other: &Self) -> Option<()> {
        other.0.iter().try_for_each(|(variant, counted)| self.add(variant.clone(), counted))
    }

    /// Parses the text of the attribute; the error describes its fault.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let mut counters = Self::default();
        for part in text.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
            let wrong = |what: &str| format!("`counters` {what}");
            let end = memchr::memchr(b':', part).ok_or_else(|| wrong("has a variant without a colon"))?;
            let variant = CounterVariant::parse(&part[..end])
                .ok_or_else(|| wrong("has a variant that is not UNIT@CHECKSUM LINE.GRAPH"))?;
            let counted = VariantCounts::parse(&part[end + 1..]).map_err(wrong)?;
            if counters.0.contains_key(&variant) {
                return Err(wrong("has a variant twice"));
            }
            counters.0.insert(variant, counted);
        }
        Ok(counters)
    }
}

impl VariantCounts {
    fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let mut parts = text.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii);
        let mut counted =
            Self { arcs: RunLengthCounts::parse(parts.next().unwrap_or_default())?, ..Self::default() };
        parts.try_for_each(|part| counted.values.parse(part))?;
        Ok(counted)
    }
}

impl CounterVariant {
    /// Makes the variant of a unit from the name of its source file, which may be a path; `None` if a profile cannot
    /// hold the name.
    pub fn new(unit: &[u8], functions: u32, line: u32, graph: u32) -> Option<Self> {
        Some(Self { unit: acceptable(base_name(unit))?.to_owned(), functions, line, graph })
    }

    /// Like [`Self::new`], for counters computed from a recording by early ids.
    pub fn of_early_ids(unit: &[u8], functions: u32, line: u32, graph: u32) -> Option<Self> {
        Some(Self::new(unit, functions, line, graph)?.as_early())
    }

    /// Returns the variant with the prefix of early ids.
    pub fn as_early(&self) -> Self {
        let unit = if self.is_early() { self.unit.clone() } else { format!("{EARLY}{}", self.unit) };
        Self { unit, ..self.clone() }
    }

    /// True if a recording has the counters by early ids.
    pub(crate) fn is_early(&self) -> bool {
        self.unit.starts_with(EARLY)
    }

    /// Makes the variant of a function that LLVM instruments: `kind` is an index in [`LLVM_KINDS`], `file` the source
    /// file of a local function, and `hash` the hash of its control-flow graph. `None` if a profile cannot hold the
    /// name of the file.
    pub fn of_llvm(kind: usize, file: Option<&[u8]>, marks: u32, hash: u64) -> Option<Self> {
        let file = file.map(|file| acceptable(base_name(file))).map_or(Some(None), |file| file.map(Some))?;
        let unit =
            file.map_or_else(|| LLVM_KINDS[kind].to_owned(), |file| format!("{}+{file}", LLVM_KINDS[kind]));
        Some(Self { unit, functions: marks, line: (hash >> 32) as u32, graph: hash as u32 })
    }

    /// Index in [`LLVM_KINDS`] and source file of a local function; `None` for counters of GCC.
    pub fn llvm(&self) -> Option<(usize, Option<&str>)> {
        let (kind, file) =
            self.unit.split_once('+').map_or((&*self.unit, None), |(kind, file)| (kind, Some(file)));
        Some((LLVM_KINDS.iter().position(|known| kind == *known)?, file))
    }

    /// Hash of the control-flow graph of a function that LLVM instruments.
    pub fn hash(&self) -> u64 {
        u64::from(self.line) << 32 | u64::from(self.graph)
    }

    /// The unit as text: its name with bytes escaped, `@` and the checksum of its functions.
    pub fn unit(&self) -> String {
        format!("{}@{:08x}", escaped(&self.unit), self.functions)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (unit, checksums) = text.split_once(' ')?;
        let (unit, functions) = unit.split_once('@')?;
        let (line, graph) = checksums.split_once('.')?;
        let checksum = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(text, 16).ok().filter(|_| digits)
        };
        Self::new(&unescaped(unit)?, checksum(functions)?, checksum(line)?, checksum(graph)?)
    }
}

impl fmt::Display for ArcCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (variant, counted)) in self.variants().into_iter().enumerate() {
            let between = if place > 0 { "; " } else { "" };
            write!(f, "{between}{} {:08x}.{:08x}:", variant.unit(), variant.line, variant.graph)?;
            if !counted.arcs.is_empty() {
                write!(f, " {}", counted.arcs)?;
            }
            write!(f, "{}", counted.values)?;
        }
        Ok(())
    }
}
