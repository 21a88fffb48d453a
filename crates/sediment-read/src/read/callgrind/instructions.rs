// SPDX-License-Identifier: MIT OR Apache-2.0
//! Execution counts of instructions, from files that `--dump-instr=yes` wrote: the first position of a line is an
//! address, whole (`0x…`) or relative to that of the line before (`+3`, `-12`, `*`).

use super::{first_number, number};

/// Function, address and executions of each line, and the address of the last one.
#[derive(Default)]
pub(super) struct Instructions(pub(super) Vec<(u32, u64, u64)>, u64);

impl Instructions {
    /// None where the first position of lines is none of an instruction.
    pub(super) fn of(positions: &[u8]) -> Option<Self> {
        positions.starts_with(b"instr").then(Self::default)
    }

    /// Follows the address of a line.
    pub(super) fn at(&mut self, line: &[u8]) {
        let position = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let step = |digits: &[u8]| number(digits).unwrap_or(0);
        self.1 = match position {
            [b'+', digits @ ..] => self.1.wrapping_add(step(digits)),
            [b'-', digits @ ..] => self.1.wrapping_sub(step(digits)),
            b"*" => self.1,
            whole => number(whole).unwrap_or(self.1),
        };
    }

    /// A line of positions and costs. What is wrong with it, the reader of costs says.
    pub(super) fn executed(&mut self, function: u32, line: &[u8], columns: usize) {
        self.at(line);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(columns);
        if let Some((count @ 1.., _)) = words.next().and_then(first_number) {
            self.0.push((function, self.1, count));
        }
    }
}
