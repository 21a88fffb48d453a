// SPDX-License-Identifier: MIT OR Apache-2.0
//! callgrind's files: lines and the numbers and names in them change; calls keep the cost line that belongs to them.

use super::{blur, number, one_of, rearrange};
use sediment_core::random::Generator;

/// Lines that the format has.
const LINES: [&[&str]; 20] = [
    &["fn=(1) f"],
    &["fn=(2)"],
    &["fn=plain"],
    &["cfn=(1)", "calls=3 +1", "1 20"],
    &["cob=(2) lib.so", "cfi=(2) a.c", "cfn=(3) g", "calls=1 0x10", "+1 5"],
    &["ob=(1) /opt/program"],
    &["fl=(1) main.c"],
    &["fi=(2) a.h"],
    &["fe=(1)"],
    &["jump=3 12"],
    &["jcnd=1/2 +4", "*"],
    &["0x10 1 7 1"],
    &["+3 4"],
    &["-1 4"],
    &["* 2"],
    &["events: Ir Dr"],
    &["positions: instr line"],
    &["part: 2", "thread: 2"],
    &["totals: 12", "summary: 12"],
    &["cmd: program", "creator: callgrind-3.19", "# a comment", ""],
];

pub fn mutate(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut blocks = blocks(text);
    match numbers.below(8) {
        0 | 1 => rearrange(&mut blocks, numbers),
        2 | 3 => {
            let at = numbers.below(blocks.len() + 1);
            blocks.insert(at, one_of(&LINES, numbers)?.iter().map(|line| (*line).to_owned()).collect());
        }
        _ => {
            let at = numbers.below(blocks.len());
            let block = blocks.get_mut(at)?;
            let at = numbers.below(block.len());
            change(&mut block[at], numbers);
        }
    }
    let mut mutant: Vec<u8> = blocks.concat().join("\n").into_bytes();
    mutant.push(b'\n');
    Some(mutant)
}

/// Lines that belong together: a call with the line of its cost, else each alone.
fn blocks(text: &str) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match blocks.last_mut() {
            Some(block) if open => block.push(line.to_owned()),
            _ => blocks.push(vec![line.to_owned()]),
        }
        let call = ["cfn=", "cob=", "cfi=", "cfl="].iter().any(|word| line.starts_with(word));
        open = call || line.starts_with("calls=");
    }
    blocks
}

/// Changes a number in a line, a name, or any byte.
fn change(line: &mut String, numbers: &mut Generator) {
    let digits: Vec<(usize, usize)> = {
        let bytes = line.as_bytes();
        let begins =
            |at: &usize| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit());
        let end = |at: usize| at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (0..bytes.len()).filter(begins).map(|at| (at, end(at))).collect()
    };
    match (one_of(&digits, numbers), numbers.below(4)) {
        (Some(&(from, to)), 0..3) => {
            let old = line[from..to].parse().unwrap_or(0);
            line.replace_range(from..to, &number(old, numbers).to_string());
        }
        _ => {
            let mut bytes = std::mem::take(line).into_bytes();
            blur(&mut bytes, numbers);
            *line = String::from_utf8_lossy(&bytes).replace('\n', " ");
        }
    }
}
