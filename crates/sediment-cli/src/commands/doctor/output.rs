// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `doctor`.

use super::Method;
use super::goals::{Choice, Goal, Why};
use super::machine::{Fact, Linker, Memory};
use crate::output::Schema;
use serde::Serialize;

/// Output of `doctor --json`: what a machine can record, link and measure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoctorOutput<'a> {
    pub(super) schema: Schema<1>,
    /// Recording methods, best first.
    pub(super) recorders: Vec<RecorderOutput<'a>>,
    /// Method for each goal of a recording.
    pub(super) goals: Vec<GoalOutput>,
    pub(super) linkers: Vec<LinkerOutput<'a>>,
    /// Tools and symbols.
    pub(super) tools: &'a [Fact],
    pub(super) memory: MemoryOutput<'a>,
}

/// A recording method.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RecorderOutput<'a> {
    name: &'a str,
    works: bool,
    /// True for the method of `record` without options.
    default: bool,
    /// Reason why it does not work, for people; null if it works.
    reason: Option<&'a str>,
    /// What would make it work.
    fix: Option<&'a str>,
}

impl<'a> RecorderOutput<'a> {
    pub(super) fn new(method: &'a Method) -> Self {
        let obstacle = method.obstacle.as_ref();
        Self {
            name: method.name,
            works: obstacle.is_none(),
            default: method.is_default,
            reason: obstacle.map(|(why, _)| why.as_str()),
            fix: obstacle.and_then(|(_, fix)| fix.as_deref()),
        }
    }
}

/// The method for a goal; null without one that works here.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GoalOutput {
    goal: Goal,
    method: Option<&'static str>,
    reason: Option<Why>,
}

impl GoalOutput {
    pub(super) fn new(choice: &Choice) -> Self {
        let (method, reason) = choice.method.unzip();
        Self { goal: choice.goal, method, reason }
    }
}

/// A linker.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LinkerOutput<'a> {
    name: &'a str,
    version: &'a str,
    /// Value of `order --linker`; null where the wrapper orders for it.
    linker: Option<&'a str>,
    /// Flag by which the compiler calls it, or `none`.
    flag: &'a str,
    /// True for the linker that the compiler calls without a flag.
    default: bool,
}

impl<'a> LinkerOutput<'a> {
    pub(super) fn new(linker: &'a Linker) -> Self {
        Self {
            name: &linker.name,
            version: &linker.version,
            linker: linker.dialect,
            flag: &linker.flag,
            default: linker.is_default,
        }
    }
}

/// Page sizes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MemoryOutput<'a> {
    page_bytes: u64,
    /// Null where the kernel has no transparent huge pages.
    huge_page_bytes: Option<u64>,
    /// Use of transparent huge pages: `always`, `madvise` or `never`.
    transparent_huge_pages: Option<&'a str>,
    /// Command that allows huge pages.
    fix: Option<&'a str>,
}

impl<'a> MemoryOutput<'a> {
    pub(super) fn new(memory: &'a Memory) -> Self {
        Self {
            page_bytes: memory.page,
            huge_page_bytes: memory.huge,
            transparent_huge_pages: memory.transparent.as_deref(),
            fix: memory.fix(),
        }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<DoctorOutput<'_>>("doctor");
}
