// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded starts in the form for the algorithms: each function of the graph once, at its first use.

use sediment_core::callgraph::FunctionId;

/// The time of a function that no start used.
pub(super) const NEVER: u32 = u32::MAX;

/// Returns the starts without repeated uses, and without ids of `functions` and above.
pub(super) fn distinct(functions: usize, starts: &[Vec<FunctionId>]) -> Vec<Vec<FunctionId>> {
    let mut seen_in = vec![NEVER; functions];
    (0u32..)
        .zip(starts)
        .map(|(number, start)| {
            let mut first = |function: &FunctionId| match seen_in.get_mut(function.index()) {
                Some(seen) if *seen != number => {
                    *seen = number;
                    true
                }
                _ => false,
            };
            start.iter().copied().filter(|function| first(function)).collect()
        })
        .collect()
}

/// By function: its lowest position in any start, or [`NEVER`].
pub(super) fn times(functions: usize, starts: &[Vec<FunctionId>]) -> Vec<u32> {
    let mut times = vec![NEVER; functions];
    for start in distinct(functions, starts) {
        for (place, function) in (0u32..).zip(start) {
            let time = &mut times[function.index()];
            *time = place.min(*time);
        }
    }
    times
}

/// All functions by their time, then by id.
pub(super) fn by_time(functions: usize, starts: &[Vec<FunctionId>]) -> Vec<FunctionId> {
    let times = times(functions, starts);
    let mut order: Vec<FunctionId> = (0..functions as u32).map(FunctionId).collect();
    order.sort_by_key(|function| times[function.index()]);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_and_missing_functions_do_not_count() {
        let starts =
            [vec![2, 9, 2, 0], vec![0, 0, 1]].map(|start| start.into_iter().map(FunctionId).collect());
        let ids: Vec<Vec<u32>> = distinct(4, &starts)
            .iter()
            .map(|start| start.iter().map(|function| function.0).collect())
            .collect();
        assert_eq!(ids, [vec![2, 0], vec![0, 1]]);
        assert_eq!(times(4, &starts), [0, 1, 0, NEVER]);
    }
}
