// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of `doctor`.

use super::RecordingMethod;
use super::goals::{Goal, GoalMethod, MethodReason};
use super::machine::{Fact, InstalledLinker, PageSizes};
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
    pub(super) linkers: &'a [InstalledLinker],
    /// Tools and symbols.
    pub(super) tools: &'a [Fact],
    pub(super) memory: &'a PageSizes,
}

/// A recording method.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RecorderOutput<'a> {
    name: &'a str,
    works: bool,
    /// True for the method of `record` without options.
    default: bool,
    /// Why it does not work, as text for people; null if it works.
    reason: Option<&'a str>,
    /// Change that would make it work, as text for people.
    fix: Option<&'a str>,
}

impl<'a> RecorderOutput<'a> {
    pub(super) fn new(method: &'a RecordingMethod) -> Self {
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

/// The method for a goal; null if none works here.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GoalOutput {
    goal: Goal,
    method: Option<&'static str>,
    reason: Option<MethodReason>,
}

impl GoalOutput {
    pub(super) fn new(choice: &GoalMethod) -> Self {
        let (method, reason) = choice.method.unzip();
        Self { goal: choice.goal, method, reason }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<DoctorOutput<'_>>("doctor");
}
