// SPDX-License-Identifier: MIT OR Apache-2.0
//! Balanced partitioning puts functions with the same utility nodes into the same half, then continues in each half.
//!
//! **Problem.** Place functions so that each stage of a program's start touches few pages, over several recorded
//! starts; or so that functions with equal bytes are side by side, for programs that compress the file.
//!
//! **Definitions.** A utility node is a set of functions that should be together.
//! - Starts: in each start, utility nodes begin at the positions 0, 1, 2, 4, 8 and so on. A function belongs to the
//!   last utility node that begins at or before its position, and to all later ones of that start. So functions
//!   executed early share more utilities.
//! - Code: every 4-byte shingle of a function's code is a utility node.
//!
//! Utility nodes of one function, or of more than half of all, do not count. The cost of one with L functions on the
//! left and R on the right is −(L · log2(L + 1) + R · log2(R + 1)), which is lowest if all are on one side. log2 is
//! exact to 2^-20, in integers.
//!
//! **Steps.** Functions in the order of [`super::first_use`] (for code: of their ids), no more than 2^18 parts:
//! 1. The first half is left, the other right.
//! 2. Repeat at most 40 times: compute what moving each function to the other side would save. Sort the left functions
//!    by that, largest first, and the right ones too. Exchange the first functions of both lists, then the second, and
//!    so on while the sum of both savings is positive. Each single move is skipped with a chance of a tenth, which
//!    helps out of dead ends. Stop when nothing moves.
//! 3. The same in each half, down to single functions, without utility nodes of all or only one of its functions.
//!
//! Functions of starts come first; the others follow, by code if it is known, otherwise by id.
//!
//! O(e · log² n) for e pairs of function and utility node.
//!
//! **Ties.** With equal savings, and in parts that are not divided further, the given order stays. Random numbers
//! depend on the number of the part.
//!
//! **Source.** J. Hoag, K. Lee, J. Mestre, S. Pupyrev: Optimizing Function Layout for Mobile Applications, LCTES 2023; as in LLVM's
//! `llvm-profdata order`, and lld's `--bp-startup-sort` and `--bp-compression-sort`.
//!
//! **Where it differs.** LLVM computes savings in 32-bit floating point, its ties depend on how its library splits a
//! range, and its random numbers come from the Mersenne Twister. So orders are not equal; tests/toolchain/starts.rs
//! compares their quality. lld also begins a utility node wherever the bytes used so far have doubled, and splits code
//! by the linker's relocations.

use super::{AlgorithmOptions, starts};
use sediment_core::callgraph::{CallGraph, FunctionId};
use sediment_core::random::Generator;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Number of rounds that improve a part.
const ROUNDS: u32 = 40;
/// Number of times that the whole is halved.
const DEPTH: u32 = 18;
/// One move in this number is skipped.
const LEFT_OUT: u64 = 10;

/// Orders all functions of the graph.
#[must_use]
pub(super) fn order(graph: &CallGraph, options: &AlgorithmOptions<'_>) -> Vec<FunctionId> {
    let times = starts::times(graph.len(), options.starts);
    let by_first_use = starts::by_time(graph.len(), options.starts);
    let (early, others): (Vec<FunctionId>, Vec<FunctionId>) =
        by_first_use.into_iter().partition(|function| times[function.index()] != starts::NEVER);
    let mut order = partitioned(early, &utilities_of_starts(graph.len(), options.starts));
    order.extend(partitioned(others, options.code_shingles));
    order
}

/// By function: the utility nodes of its starts.
fn utilities_of_starts(functions: usize, recorded: &[Vec<FunctionId>]) -> Vec<Vec<u64>> {
    let mut utilities = vec![Vec::new(); functions];
    let mut next = 0u64;
    for start in starts::distinct(functions, recorded) {
        // A utility node begins at 0, one at 1, and one more at each doubling.
        let begun =
            |place: usize| u64::from((place as u64).checked_ilog2().map_or(0, |doublings| doublings + 1));
        let last = next + begun(start.len().saturating_sub(1));
        for (place, function) in start.into_iter().enumerate() {
            utilities[function.index()].extend(next + begun(place)..=last);
        }
        next = last + 1;
    }
    utilities
}

/// Returns the functions in an order that keeps functions with the same utilities close together.
fn partitioned(functions: Vec<FunctionId>, utilities: &[Vec<u64>]) -> Vec<FunctionId> {
    let none: &[u64] = &[];
    let of = |function: &FunctionId| utilities.get(function.index()).map_or(none, Vec::as_slice);
    let mut having: HashMap<u64, u32> = HashMap::new();
    for function in &functions {
        for utility in of(function) {
            *having.entry(*utility).or_default() += 1;
        }
    }
    let counts = |utility: &&u64| (2..=functions.len() as u32 / 2).contains(&having[*utility]);
    let mut members: Vec<PartitionMember> = functions
        .iter()
        .map(|function| PartitionMember {
            function: *function,
            left: false,
            saving: 0,
            utilities: of(function).iter().filter(counts).copied().collect(),
        })
        .collect();
    if members.iter().all(|member| member.utilities.is_empty()) {
        return functions;
    }
    let logarithms = Logarithms::up_to(functions.len() + 1);
    divide(&mut members, 0, 1, &logarithms);
    members.into_iter().map(|member| member.function).collect()
}

struct PartitionMember {
    function: FunctionId,
    left: bool,
    saving: i64,
    utilities: Vec<u64>,
}

/// Number of functions of a part with a utility, on each side.
#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    left: usize,
    right: usize,
}

/// Puts the members of a part into their final order. They come in the given order.
fn divide(members: &mut [PartitionMember], depth: u32, part: u64, logarithms: &Logarithms) {
    if members.len() <= 1 || depth >= DEPTH {
        return;
    }
    let middle = members.len().div_ceil(2);
    for (place, member) in members.iter_mut().enumerate() {
        member.left = place < middle;
    }
    let mut utilities = number_utilities(members);
    let mut chance = Generator::new(part);
    for _ in 0..ROUNDS {
        if exchange(members, &mut utilities, &mut chance, logarithms) == 0 {
            break;
        }
    }
    // The sort is stable, so the given order stays within each half.
    members.sort_by_key(|member| !member.left);
    let (left, right) = members.split_at_mut(members.partition_point(|member| member.left));
    divide(left, depth + 1, 2 * part, logarithms);
    divide(right, depth + 1, 2 * part + 1, logarithms);
}

/// Drops utility nodes that one or all of the members have, numbers the others, and counts their members.
fn number_utilities(members: &mut [PartitionMember]) -> Vec<Sides> {
    let mut having: HashMap<u64, usize> = HashMap::new();
    for member in members.iter() {
        for utility in &member.utilities {
            *having.entry(*utility).or_default() += 1;
        }
    }
    let all = members.len();
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let mut sides: Vec<Sides> = Vec::new();
    for member in members {
        member.utilities.retain(|utility| (2..all).contains(&having[utility]));
        for utility in &mut member.utilities {
            let next = numbers.len() as u64;
            *utility = *numbers.entry(*utility).or_insert(next);
            if *utility == sides.len() as u64 {
                sides.push(Sides::default());
            }
            let side = &mut sides[*utility as usize];
            if member.left { side.left += 1 } else { side.right += 1 }
        }
    }
    sides
}

/// Performs a round, and returns the number of members that changed sides.
fn exchange(
    members: &mut [PartitionMember],
    utilities: &mut [Sides],
    chance: &mut Generator,
    logarithms: &Logarithms,
) -> usize {
    let savings: Vec<[i64; 2]> = utilities.iter().map(|sides| logarithms.savings(sides)).collect();
    for member in members.iter_mut() {
        let direction = usize::from(!member.left);
        member.saving = member.utilities.iter().map(|utility| savings[*utility as usize][direction]).sum();
    }
    let (mut left, mut right): (Vec<usize>, Vec<usize>) =
        (0..members.len()).partition(|&at| members[at].left);
    left.sort_by_key(|&at| Reverse(members[at].saving));
    right.sort_by_key(|&at| Reverse(members[at].saving));
    let mut moved = 0;
    for (left, right) in left.into_iter().zip(right) {
        if members[left].saving + members[right].saving <= 0 {
            break;
        }
        for at in [left, right] {
            if chance.scaled(LEFT_OUT) == 0 {
                continue;
            }
            let member = &mut members[at];
            for utility in &member.utilities {
                let sides = &mut utilities[*utility as usize];
                if member.left {
                    *sides = Sides { left: sides.left - 1, right: sides.right + 1 };
                } else {
                    *sides = Sides { left: sides.left + 1, right: sides.right - 1 };
                }
            }
            member.left = !member.left;
            moved += 1;
        }
    }
    moved
}

/// log2 of whole numbers, in 2^-20.
struct Logarithms(Vec<i64>);

impl Logarithms {
    fn up_to(last: usize) -> Self {
        Self((0..=last as u64).map(|number| logarithm(number.max(1))).collect())
    }

    /// Savings of moving one function with a utility: from left to right, and from right to left.
    fn savings(&self, sides: &Sides) -> [i64; 2] {
        let value =
            |left: usize, right: usize| left as i64 * self.0[left + 1] + right as i64 * self.0[right + 1];
        let now = value(sides.left, sides.right);
        let to_right = if sides.left > 0 { value(sides.left - 1, sides.right + 1) - now } else { 0 };
        let to_left = if sides.right > 0 { value(sides.left + 1, sides.right - 1) - now } else { 0 };
        [to_right, to_left]
    }
}

/// Returns log2 in units of 2^-20, rounded down. Squaring gives the fraction bit by bit.
fn logarithm(number: u64) -> i64 {
    const FRACTION: u32 = 20;
    let whole = number.ilog2();
    // A number from 1 to below 2, in units of 2^-31.
    let mut rest = if whole <= 31 { number << (31 - whole) } else { number >> (whole - 31) };
    let mut logarithm = i64::from(whole);
    for _ in 0..FRACTION {
        rest = (rest * rest) >> 31;
        logarithm <<= 1;
        if rest >> 32 != 0 {
            rest >>= 1;
            logarithm |= 1;
        }
    }
    logarithm
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(functions: usize, starts: &[Vec<u32>], code_shingles: &[Vec<u64>]) -> Vec<u32> {
        let starts: Vec<Vec<FunctionId>> =
            starts.iter().map(|start| start.iter().copied().map(FunctionId).collect()).collect();
        let graph = CallGraph::new(vec![16; functions], vec![0; functions], Vec::new()).unwrap();
        let options = AlgorithmOptions { starts: &starts, code_shingles, ..AlgorithmOptions::default() };
        order(&graph, &options).iter().map(|function| function.0).collect()
    }

    #[test]
    fn logarithms_are_what_they_are_called() {
        for number in [1u64, 2, 3, 5, 7, 64, 1000, 65_537, 3_000_000_000] {
            let (ours, real) = (logarithm(number) as f64 / f64::from(1 << 20), (number as f64).log2());
            assert!((ours - real).abs() < 3e-6 && ours <= real + 1e-6, "{number}: {ours} {real}");
        }
    }

    #[test]
    fn utilities_begin_at_doublings() {
        let start: Vec<FunctionId> = (0..9).map(FunctionId).collect();
        let utilities = utilities_of_starts(10, &[start.clone(), start[..2].to_vec()]);
        assert_eq!(utilities[0], [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(utilities[1], [1, 2, 3, 4, 6]);
        assert_eq!(utilities[5], [3, 4]);
        assert_eq!(utilities[8], [4]);
        assert!(utilities[9].is_empty());
    }

    #[test]
    fn two_kinds_of_start_are_parted() {
        // Even functions are used by one kind of start, odd ones by the other.
        let kind = |odd: u32| (0..64).map(|place| 2 * place + odd).collect::<Vec<u32>>();
        let order = ordered(130, &[kind(0), kind(1), kind(0), kind(1)], &[]);
        let changes = order[..128].windows(2).filter(|pair| pair[0] % 2 != pair[1] % 2).count();
        // More than 1 is possible, because stages of both kinds are also near each other.
        assert!(changes <= 12, "{changes} changes between the kinds: {order:?}");
        assert_eq!(order[128..], [128, 129]);
    }

    #[test]
    fn equal_contents_meet() {
        let code_shingles: Vec<Vec<u64>> =
            (0..60).map(|id| (0..5).map(|word| 100 * (id % 3) + word).collect()).collect();
        let order = ordered(60, &[], &code_shingles);
        let changes = order.windows(2).filter(|pair| pair[0] % 3 != pair[1] % 3).count();
        assert!(changes <= 8, "{changes} changes between the kinds: {order:?}");
    }

    #[test]
    fn nothing_known_is_the_order_as_given() {
        assert_eq!(ordered(5, &[], &[]), [0, 1, 2, 3, 4]);
        assert_eq!(ordered(0, &[vec![3]], &[vec![1]]), [0u32; 0]);
    }
}
