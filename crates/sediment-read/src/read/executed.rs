// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executed code inside functions: single instructions, and stretches without a jump.

use super::AddressId;

/// Executions of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExecutedInstruction {
    /// Function to which the profiler assigns it.
    pub function: AddressId,
    /// Its address in memory; the recording does not have the bias.
    pub address: u64,
    /// Number of executions.
    pub count: u64,
}

/// Executions of the code between two jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StraightRun {
    /// First instruction.
    pub from: AddressId,
    /// Last instruction, in the same DSO; `None`: up to the next jump, call or return, or up to `MOST_INSTRUCTIONS`.
    pub to: Option<AddressId>,
    /// Number of executions.
    pub count: u64,
}

impl StraightRun {
    /// Number of instructions that valgrind translates at once (`--vex-guest-max-insns`).
    pub(crate) const MOST_INSTRUCTIONS: usize = 60;
}
