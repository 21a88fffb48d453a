// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the functions of an order come to lie.

use crate::callgraph::{CallGraph, FunctionId};

/// Addresses of all functions, from 0.
#[derive(Debug, Clone)]
pub(crate) struct FunctionAddresses {
    addresses: Vec<u64>,
    sizes: Vec<u64>,
    order: Vec<FunctionId>,
}

impl FunctionAddresses {
    /// Lays the functions out in this order, and behind them the others by id.
    pub(crate) fn new(graph: &CallGraph, order: &[FunctionId], alignment: u64) -> Self {
        Self::of_sizes(clamp_sizes(graph.sizes()), order, alignment)
    }

    /// The same of functions of these sizes, which together stay at or below 2^62 bytes.
    pub(crate) fn of_sizes(sizes: Vec<u64>, order: &[FunctionId], alignment: u64) -> Self {
        let mut addresses = vec![None; sizes.len()];
        let mut placed = Vec::with_capacity(sizes.len());
        let mut end = 0u64;
        for function in order.iter().copied().chain((0..sizes.len() as u32).map(FunctionId)) {
            if let Some(address @ None) = addresses.get_mut(function.index()) {
                let start = end.next_multiple_of(alignment.clamp(1, 1 << 20));
                *address = Some(start);
                end = start + sizes[function.index()];
                placed.push(function);
            }
        }
        let addresses = addresses.into_iter().flatten().collect();
        Self { addresses, sizes, order: placed }
    }

    /// All functions by address.
    pub(super) fn order(&self) -> &[FunctionId] {
        &self.order
    }

    /// Where the function starts.
    pub(crate) fn start(&self, function: FunctionId) -> u64 {
        self.addresses[function.index()]
    }

    /// Where the function is thought to call others from: nothing is known of its inside.
    pub(crate) fn middle(&self, function: FunctionId) -> u64 {
        self.start(function) + self.size(function).div_ceil(2)
    }

    /// Bytes of the function.
    pub(super) fn size(&self, function: FunctionId) -> u64 {
        self.sizes[function.index()]
    }

    /// Where the last function ends.
    pub(super) fn end(&self) -> u64 {
        self.order.last().map_or(0, |&last| self.start(last) + self.size(last))
    }

    /// True if the layout has this function.
    pub(super) fn has(&self, function: FunctionId) -> bool {
        function.index() < self.sizes.len()
    }
}

/// The sizes, each cut so that together they stay at or below 2^62 bytes: a damaged symbol table can claim any size,
/// and nothing that is real comes near the limit.
pub(crate) fn clamp_sizes(sizes: &[u64]) -> Vec<u64> {
    let limit = (1u64 << 62) / (sizes.len() as u64).max(1);
    sizes.iter().map(|&size| size.min(limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_lie_aligned_and_the_unlisted_last() {
        let graph = CallGraph::new(vec![10, 20, 0, 40], vec![0; 4], Vec::new()).unwrap();
        let order = [3, 1, 3, 99].map(FunctionId);
        let addresses = FunctionAddresses::new(&graph, &order, 16);
        let starts: Vec<u64> = graph.ids().map(|function| addresses.start(function)).collect();
        assert_eq!(starts, [80, 48, 96, 0], "the repeated and the unknown id count for nothing");
        assert_eq!(addresses.middle(FunctionId(3)), 20);
        assert_eq!(addresses.order(), [3, 1, 0, 2].map(FunctionId));
        assert_eq!(FunctionAddresses::new(&graph, &order, 0).start(FunctionId(1)), 40, "no alignment is 1");
    }

    #[test]
    fn sizes_beyond_any_memory_are_cut() {
        let sizes = clamp_sizes(&[u64::MAX, 5, u64::MAX]);
        assert_eq!(sizes[1], 5);
        assert!(sizes.iter().sum::<u64>() <= 1 << 62);
        assert!(clamp_sizes(&[]).is_empty());
    }
}
