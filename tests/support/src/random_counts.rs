// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random block counts and counters for GCC's plugin. Whatever they say, the compiled program must behave as without
//! them.
//!
//! Counts contradict each other and the graph. Of eight functions, about one has no counts, and one has the counts of
//! another graph, whose blocks the plugin matches by their signatures.

use sediment_core::binary::{Binary, NoFiles, gcc_block_map};
use sediment_core::random::Generator;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Shares of blocks or arcs without executions, in eighths.
const SHARES_OF_ZEROS: [usize; 4] = [1, 4, 6, 7];

/// Makes the file of block counts for the functions of a program with numbered blocks; `None` if it has none.
pub fn blocks(program: &[u8], seed: u64) -> Option<String> {
    let map = gcc_block_map::read(program).ok()??;
    let binary = Binary::parse(program, &NoFiles).ok()?;
    let mut names: HashMap<u64, Vec<&str>> = HashMap::new();
    for function in &binary.functions {
        names.entry(function.address).or_default().push(&function.name);
    }
    let mut numbers = Generator::new(seed);
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for function in &map {
        let form = numbers.below(8);
        let line = match form {
            0 => continue,
            1 => {
                format!("{:08x}\t{}", function.graph ^ 1, of_graph(&function.signatures, true, &mut numbers))
            }
            _ => format!("{:08x}\t{}", function.graph, of_graph(&function.signatures, false, &mut numbers)),
        };
        for name in function.code.first().and_then(|code| names.get(&code.address)).into_iter().flatten() {
            lines.insert(format!("{name}\t\t"), line.clone());
        }
    }
    let all: String = lines.iter().map(|(key, line)| format!("{key}{line}\n")).collect();
    let executions = 1u64 << numbers.below(40);
    (!lines.is_empty()).then(|| format!("sediment-blocks 2\n\t\t00000000\t1={executions}\n{all}"))
}

/// Counts of one graph. Those of another graph have signatures, and their blocks are in another order.
fn of_graph(signatures: &[u16], is_other: bool, numbers: &mut Generator) -> String {
    let mut signatures: Vec<u16> = signatures.to_vec();
    if is_other {
        let place = numbers.below(signatures.len());
        signatures.rotate_left(place);
    }
    let zeros = SHARES_OF_ZEROS[numbers.below(SHARES_OF_ZEROS.len())];
    let bits = 1 + numbers.below(40);
    let mut text = String::new();
    for (place, signature) in signatures.iter().enumerate() {
        let is_zero = numbers.below(8) < zeros;
        let count = numbers.draw() >> (64 - bits);
        let _ = write!(text, "{}{}=", if place > 0 { " " } else { "" }, place + 1);
        let _ = match (place, numbers.below(32)) {
            // A function that was not executed stays as it is, which is rare here.
            (0, 1..) => write!(text, "{}", count.max(100)),
            (1.., 0) => write!(text, "?"),
            _ if is_zero => write!(text, "0"),
            _ => write!(text, "{count}"),
        };
        if is_other {
            let _ = write!(text, "@{signature:04x}");
        }
    }
    text
}

/// Replaces the counts of a file of counters. Values of statements (`top`, `average`, …) get other counts, too.
pub fn counters(text: &str, seed: u64) -> String {
    let mut numbers = Generator::new(seed);
    let mut largest = 1;
    let mut lines = String::new();
    for line in text.lines().skip(1) {
        let Some((front, counts)) = line.rsplit_once('\t') else { continue };
        if numbers.below(8) == 0 {
            continue;
        }
        let zeros = SHARES_OF_ZEROS[numbers.below(SHARES_OF_ZEROS.len())];
        let bits = 1 + numbers.below(31);
        let mut random = || {
            let count = if numbers.below(8) < zeros { 0 } else { numbers.draw() >> (64 - bits) };
            largest = largest.max(count);
            count
        };
        let (mut kind, mut before) = ("", "");
        let mut items = Vec::new();
        for item in counts.split(' ') {
            let is_number_of_statements = before == "top";
            if before == "|" {
                kind = item;
            }
            items.push(match kind {
                _ if item == "|" || before == "|" || is_number_of_statements => item.to_owned(),
                "top" => of_statement(item, &mut random),
                _ => of_arcs(item, &mut random),
            });
            before = item;
        }
        let _ = writeln!(lines, "{front}\t{}", items.join(" "));
    }
    format!("sediment-counters 1 {largest}\n{lines}")
}

/// `COUNT` or `COUNT*ARCS`.
fn of_arcs(item: &str, random: &mut impl FnMut() -> u64) -> String {
    let arcs = item.split_once('*').map_or(Ok(1), |(_, arcs)| arcs.parse::<u32>());
    let counts: Vec<String> = (0..arcs.unwrap_or(1)).map(|_| random().to_string()).collect();
    counts.join(" ")
}

/// `PLACE=TOTAL:VALUE=COUNT,VALUE=COUNT`.
fn of_statement(item: &str, random: &mut impl FnMut() -> u64) -> String {
    let Some((place, rest)) = item.split_once('=') else { return item.to_owned() };
    let values = rest.split_once(':').map_or("", |(_, values)| values);
    let values: Vec<String> = values
        .split(',')
        .filter_map(|value| value.split_once('='))
        .map(|(value, _)| format!("{value}={}", random()))
        .collect();
    let total = random().max(1);
    if values.is_empty() {
        format!("{place}={total}")
    } else {
        format!("{place}={total}:{}", values.join(","))
    }
}
