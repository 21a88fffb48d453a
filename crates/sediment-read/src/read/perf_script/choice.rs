// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the event to read in a text, and its kind of samples: branch stacks before call chains before addresses.

use super::branches::Rest;
use super::lines::ScriptLine;
use crate::read::input::{Input, InputLines};
use sediment_core::error::Result;
use sediment_core::profile::source::{
    ProfileSource,
    Unknown::{CallCounts, Callers, TimeOrder},
};

/// Number of bytes that are searched for this choice.
const FIRST_LOOK: u64 = 4 << 20;

/// Kind of the samples to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SampleKind {
    #[default]
    Nothing,
    Samples,
    Chains,
    Branches,
}

/// The event to read, and its content.
#[derive(Debug, Default)]
pub(super) struct EventChoice {
    pub(super) what: SampleKind,
    pub(super) event: Vec<u8>,
}

impl EventChoice {
    pub(super) fn of(input: &dyn Input) -> Result<Self> {
        let mut best = Self::default();
        let mut lines = InputLines::of(input);
        let mut looked_at = 0;
        let mut event = Vec::new();
        // True if a sample has begun whose address has not come yet.
        let mut open = false;
        while let Some(line) = lines.next()? {
            looked_at += line.len() as u64 + 1;
            let what = match ScriptLine::of(line) {
                ScriptLine::Sample(sample) => {
                    if !sample.has_no_fields() {
                        event.clear();
                        event.extend_from_slice(sample.event);
                    }
                    let in_chain = open && sample.has_no_fields();
                    let rest = Rest::of(sample.rest);
                    open = rest.place.is_none() || in_chain;
                    if rest.branches().next().is_some() {
                        SampleKind::Branches
                    } else if in_chain && rest.place.is_some() {
                        SampleKind::Chains
                    } else if rest.place.is_some() {
                        SampleKind::Samples
                    } else {
                        SampleKind::Nothing
                    }
                }
                ScriptLine::Frame(_) => SampleKind::Chains,
                _ => SampleKind::Nothing,
            };
            if what > best.what {
                best = Self { what, event: event.clone() };
            }
            if best.what == SampleKind::Branches || looked_at > FIRST_LOOK && best.what != SampleKind::Nothing
            {
                break;
            }
        }
        Ok(best)
    }

    pub(super) fn source(&self) -> ProfileSource {
        let event = String::from_utf8_lossy(&self.event);
        match self.what {
            SampleKind::Branches => ProfileSource::new("perf branch records", &event, &[]),
            SampleKind::Chains => ProfileSource::new("perf call stacks", &event, &[CallCounts, TimeOrder]),
            _ => ProfileSource::new("perf samples", &event, &[Callers, CallCounts, TimeOrder]),
        }
    }
}
