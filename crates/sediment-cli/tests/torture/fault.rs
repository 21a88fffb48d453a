// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of a run.

/// Kinds of faults, in the order of the table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// Another output, exit code or signal than without a recorder.
    Changed,
    /// Did not end in limited time, or left something stopped or traced.
    Hung,
    /// A process of the program was killed.
    Killed,
    /// Code in memory differs from the file after the recorder detached.
    LeftChanged,
    /// The recording began, but there is no profile; or the recorder failed although it should have recorded.
    Lost,
}

pub(crate) const KINDS: [FaultKind; 5] =
    [FaultKind::Changed, FaultKind::Hung, FaultKind::Killed, FaultKind::LeftChanged, FaultKind::Lost];

impl FaultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Hung => "hung",
            Self::Killed => "killed",
            Self::LeftChanged => "left changed",
            Self::Lost => "no profile",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// Adds a text to the fault.
    pub(crate) fn and(self, said: &str) -> Self {
        Self { detail: format!("{}; {said}", self.detail), ..self }
    }
}
