// SPDX-License-Identifier: MIT OR Apache-2.0
//! Execution counts of instructions, from files written with `--dump-instr=yes`: the first position of a line is an
//! address, absolute (`0x…`) or relative to the address in the previous line (`+3`, `-12`, `*`).

use super::{first_number, number};

/// Function, address and executions of each line, and the address of the last one.
#[derive(Default)]
pub(super) struct Instructions(pub(super) Vec<(u32, u64, u64)>, u64);

impl Instructions {
    /// `None` if the first position of a line is not an instruction.
    pub(super) fn of(positions: &[u8]) -> Option<Self> {
        positions.starts_with(b"instr").then(Self::default)
    }

    /// Updates the address from a line.
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

    /// Reads a line of positions and costs. The reader of costs reports errors in it.
    pub(super) fn executed(&mut self, function: u32, line: &[u8], columns: usize) {
        self.at(line);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(columns);
        if let Some((count @ 1.., _)) = words.next().and_then(first_number) {
            self.0.push((function, self.1, count));
        }
    }
}
