// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `verify`: for a file, for a build, for block counts, and for a comparison with a file linked without the
//! order.

use crate::counter_fit::CountersOutput;
use crate::output::{Digits, Schema};
use sediment_core::binary::SymbolSource;
use sediment_core::binary::gcc_block_map::WhyWhole;
use sediment_core::binary::names::SectionGroup;
use sediment_core::demangle::demangled;
use sediment_order::verify::blocks::{BlockLayout, BlocksReport};
use sediment_order::verify::ranges::DisplacedFunction;
use sediment_order::verify::same::{FileComparison, Sizes};
use sediment_order::verify::{Basis, Reason, VerifyReport};
use serde::Serialize;

/// Largest number of listed functions that are not where other code expects them.
const MOST_DISPLACED: usize = 1000;

/// Output of `verify PROGRAM --order FILE --json`: a linked file against its order.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerifyOutput {
    schema: Schema<1>,
    /// Source of the function symbols.
    #[serde(with = "SymbolSourceOutput")]
    symbols_from: SymbolSource,
    /// Label of the program in the profile; null without a profile, or if the profile lacks the program.
    profile_of: Option<String>,
    #[serde(with = "BasisOutput")]
    weight_is: Basis,
    /// Functions in the order, without those of other programs.
    functions_asked: u64,
    /// Functions in the order that the profile has only in other programs.
    functions_of_other_programs: u64,
    /// Ordered functions that the file defines.
    functions_found: u64,
    /// Functions that are placed as ordered.
    functions_placed: u64,
    /// Weight of all functions.
    weight: Digits,
    /// Weight of the functions that the file defines.
    weight_found: Digits,
    /// Weight of the functions that are placed as ordered.
    weight_placed: Digits,
    weight_placed_percent: f64,
    /// Pairs of ordered functions in reverse order.
    inversions: u64,
    /// Bytes of the executed functions.
    hot_bytes: u64,
    /// Pages of 4 KiB that hold executed functions.
    hot_pages: u64,
    /// Fewest pages that could hold them.
    ideal_pages: u64,
    /// False if the functions are placed as without the order.
    order_in_force: bool,
    /// Functions in places where other code does not find them, so the program may crash: outside the address range of
    /// their OCaml unit, outside the range between two labels, or not directly after the function that runs on into them.
    outside_range: Vec<String>,
    /// Misplaced functions, heaviest first.
    misplaced: Vec<MisplacedFunction>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(remote = "SymbolSource")]
enum SymbolSourceOutput {
    #[serde(rename = "symtab")]
    SymbolTable,
    #[serde(rename = "debug file")]
    DebugFile,
    #[serde(rename = "gnu_debugdata")]
    GnuDebugdata,
    #[serde(rename = "dynsym")]
    DynamicSymbols,
}

/// Weight of a function: its calls, its samples, or 1.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(remote = "Basis", rename_all = "lowercase")]
enum BasisOutput {
    Calls,
    Samples,
    Functions,
}

/// A function that is not placed as ordered.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MisplacedFunction {
    name: String,
    demangled: String,
    /// Line of the ordering file, from 1; null if the order lacks the function.
    line: Option<u64>,
    weight: Digits,
    reason: &'static str,
    /// Names or counts that the reason refers to.
    detail: Option<MisplacedDetail>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum MisplacedDetail {
    /// Clones of the function, or names of its section.
    Names(Vec<String>),
    /// Number of local functions of this name.
    Count(u64),
    /// An output section, a group of functions, or a cold part.
    Name(String),
    /// The function's section in its object.
    InputSection { section: String, object: String },
}

impl VerifyOutput {
    pub(super) fn new(report: &VerifyReport) -> Self {
        let misplaced = report.misplaced.iter().map(|function| MisplacedFunction {
            name: function.name.clone(),
            demangled: demangled(&function.name).into_owned(),
            line: function.line,
            weight: Digits(function.weight),
            reason: function.reason.code(),
            detail: MisplacedDetail::new(&function.reason),
        });
        Self {
            schema: Schema,
            symbols_from: report.symbols_from,
            profile_of: report.cluster.as_ref().map(|cluster| cluster.label.clone()),
            weight_is: report.basis,
            functions_asked: report.asked,
            functions_of_other_programs: report.elsewhere,
            functions_found: report.found,
            functions_placed: report.placed,
            weight: Digits(report.weight),
            weight_found: Digits(report.weight_found),
            weight_placed: Digits(report.weight_placed),
            weight_placed_percent: report.placed_parts_per_million as f64 / 10_000.0,
            inversions: report.inversions,
            hot_bytes: report.hot_bytes,
            hot_pages: report.hot_pages,
            ideal_pages: report.ideal_pages,
            order_in_force: report.in_force,
            outside_range: Vec::new(),
            misplaced: misplaced.collect(),
        }
    }

    pub(super) fn with_displaced(mut self, displaced: &[DisplacedFunction]) -> Self {
        self.outside_range = displaced.iter().take(MOST_DISPLACED).map(|there| there.name.clone()).collect();
        self
    }
}

impl MisplacedDetail {
    fn new(reason: &Reason) -> Option<Self> {
        Some(match reason {
            Reason::OnlyAsClone(names) | Reason::NamedAfter(names) => Self::Names(names.clone()),
            Reason::SameNamedLocal(count) => Self::Count(*count),
            Reason::OtherOutputSection(name) | Reason::PartedByCold(name) => Self::Name(name.clone()),
            Reason::OtherGroup(group) => Self::Name(group.map(SectionGroup::functions)?.to_owned()),
            Reason::NoOwnSection(section) | Reason::NotPassed(section) => {
                Self::InputSection { section: section.name.clone(), object: section.object.clone() }
            }
            _ => return None,
        })
    }
}

/// Output of `verify PROGRAM --blocks --json`: functions with block counts, as the compiler split them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BlocksOutput {
    schema: Schema<1>,
    /// Share of the recorded weight in cold parts; null without a weight.
    cold_parts_per_million: Option<u64>,
    /// Share of the counted executions in functions compiled with their counts; null without executions.
    coverage_per_million: Option<u64>,
    functions: Vec<SplitFunctionOutput>,
}

/// A function whose blocks were counted.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SplitFunctionOutput {
    name: String,
    demangled: String,
    /// How it was compiled.
    layout: &'static str,
    /// Why the compiler did not split a function, although blocks did not run; null for other functions, and if unknown.
    why_whole: Option<&'static str>,
    /// Counted executions of its blocks.
    executions: Digits,
    /// Executions times bytes of its blocks.
    weight: Digits,
    /// Weight in its cold part.
    cold_weight: Digits,
    /// Bytes outside its cold part.
    bytes: u64,
    /// Bytes of its cold part.
    cold_bytes: u64,
}

impl BlocksOutput {
    pub(super) fn new(report: &BlocksReport) -> Self {
        let functions = report.functions.iter().map(|function| SplitFunctionOutput {
            name: function.name.clone(),
            demangled: demangled(&function.name).into_owned(),
            layout: layout_name(function.layout),
            why_whole: function.why_whole.map(why_whole_name),
            executions: Digits(function.executions),
            weight: Digits(function.weight),
            cold_weight: Digits(function.cold_weight),
            bytes: function.bytes,
            cold_bytes: function.cold_bytes,
        });
        Self {
            schema: Schema,
            cold_parts_per_million: report.cold_parts_per_million(),
            coverage_per_million: report.coverage_per_million(),
            functions: functions.collect(),
        }
    }
}

fn layout_name(layout: BlockLayout) -> &'static str {
    BlockLayout::ALL.iter().find(|(row, _)| *row == layout).map_or("", |(_, name)| name)
}

fn why_whole_name(why: WhyWhole) -> &'static str {
    match why {
        WhyWhole::FewExecutions => "few-executions",
        WhyWhole::SmallParts => "small-parts",
        WhyWhole::Kind => "kind",
        WhyWhole::Distances => "distances",
        WhyWhole::Option => "option",
        WhyWhole::Likely => "likely",
        WhyWhole::Uncounted => "uncounted",
    }
}

/// Output of `verify --log DIR --json`: the links of a build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LogOutput<'a> {
    pub(super) schema: Schema<1>,
    pub(super) links: Vec<LinkOutput<'a>>,
    /// Only if units were compiled with counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<CountersOutput>,
}

/// A link of the build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinkOutput<'a> {
    /// Linked file.
    pub(super) output: &'a str,
    pub(super) outcome: VerifiedOutcome,
    /// Why the outcome is not `ordered`, as text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// File of the package; only with `--installed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) installed: Option<String>,
    #[serde(flatten)]
    pub(super) ordered: Option<OrderedLink<'a>>,
    #[serde(flatten)]
    pub(super) unordered: Option<UnorderedLink<'a>>,
}

impl<'a> LinkOutput<'a> {
    pub(super) fn new(output: &'a str, outcome: VerifiedOutcome, why: Option<String>) -> Self {
        Self { output, outcome, why, installed: None, ordered: None, unordered: None }
    }
}

#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum VerifiedOutcome {
    Ordered,
    /// Linked without an order.
    Left,
    /// The linker's own layout is best.
    #[serde(rename = "best as linked")]
    BestAsLinked,
    /// The linker failed with the order.
    Failed,
    #[serde(rename = "not installed")]
    NotInstalled,
    /// The file could not be read.
    #[serde(rename = "not verified")]
    NotVerified,
}

/// An ordered link.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OrderedLink<'a> {
    /// Rule that chose the profile.
    pub(super) rule: &'a str,
    /// Ignored files with a profile of the same program.
    pub(super) also_in: &'a [String],
    /// Share of the profile's calls into existing functions.
    pub(super) coverage_percent: f64,
    /// Pairs of a function's name in the profile and its name in the file.
    pub(super) renamed: &'a [(String, String)],
    pub(super) report: VerifyOutput,
    /// Source of the symbols, as text for people; only with `--installed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seen_in: Option<String>,
    /// Only if the profile has counts of the file's blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) blocks: Option<BlocksOutput>,
}

/// A link without an order whose output has a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UnorderedLink<'a> {
    /// Rule that chose the profile.
    pub(super) rule: &'a str,
    pub(super) profile: &'a str,
    /// Label of the program in the profile.
    pub(super) label: Option<&'a str>,
    /// Ignored files with a profile of the same program.
    pub(super) also_in: &'a [String],
}

/// Output of `verify PROGRAM --same-as PROGRAM --json`: a linked file against the one linked without an order.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SameAsOutput<'a> {
    schema: Schema<1>,
    /// True if all checks found the same.
    same: bool,
    checks: Vec<CheckOutput<'a>>,
    /// Checks that could not be made.
    unchecked: Vec<UncheckedOutput<'a>>,
    sizes: BothSizes,
    /// Link times in the log; null without `--log`.
    link_milliseconds: Option<LinkMilliseconds>,
}

/// A check, with its findings as text for people.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckOutput<'a> {
    what: &'a str,
    same: bool,
    base: &'a str,
    this: &'a str,
}

/// A check that could not be made.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UncheckedOutput<'a> {
    what: &'a str,
    why: &'a str,
}

/// Sizes of both files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BothSizes {
    base: SizesOutput,
    this: SizesOutput,
}

/// Sizes in bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SizesOutput {
    file: u64,
    /// Sections with code.
    code: u64,
    /// Sections with debug information.
    debug: u64,
}

/// Times in milliseconds; null if the log lacks them.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinkMilliseconds {
    pub(super) base: Option<u64>,
    pub(super) this: Option<u64>,
    /// Computing the order.
    pub(super) order: Option<u64>,
}

impl<'a> SameAsOutput<'a> {
    pub(super) fn new(
        comparison: &'a FileComparison,
        unchecked: &'a [(&'static str, String)],
        link_milliseconds: Option<LinkMilliseconds>,
    ) -> Self {
        let sizes = |sizes: Sizes| SizesOutput { file: sizes.file, code: sizes.code, debug: sizes.debug };
        let checks = comparison.checks.iter().map(|check| CheckOutput {
            what: check.what,
            same: check.same,
            base: &check.base,
            this: &check.other,
        });
        Self {
            schema: Schema,
            same: comparison.is_clean(),
            checks: checks.collect(),
            unchecked: unchecked.iter().map(|(what, why)| UncheckedOutput { what, why }).collect(),
            sizes: BothSizes { base: sizes(comparison.base), this: sizes(comparison.other) },
            link_milliseconds,
        }
    }
}

#[cfg(test)]
#[test]
fn outputs_are_documented() {
    support::documented_schema::<VerifyOutput>("verify");
    support::documented_schema::<BlocksOutput>("verify-blocks");
    support::documented_schema::<LogOutput<'_>>("verify-log");
    support::documented_schema::<SameAsOutput<'_>>("verify-same-as");
}
