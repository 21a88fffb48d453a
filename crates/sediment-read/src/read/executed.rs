// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executed code inside functions: single instructions, and stretches without a jump.

use super::AddressId;

/// Executions of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutedInstruction {
    /// The function that the profiler counts it to.
    pub function: AddressId,
    /// Its address as the DSO was loaded, at a bias that the recording lacks.
    pub address: u64,
    /// Number of executions.
    pub count: u64,
}

/// Executions of the code between two jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StraightRun {
    /// First instruction.
    pub from: AddressId,
    /// Last instruction, of the same DSO; None: the next jump, call or return, or the last of `MOST_INSTRUCTIONS`.
    pub to: Option<AddressId>,
    /// Number of executions.
    pub count: u64,
}

impl StraightRun {
    /// Instructions that valgrind translates at once (`--vex-guest-max-insns`).
    pub(crate) const MOST_INSTRUCTIONS: usize = 60;
}
