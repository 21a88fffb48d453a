// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of the functions in a layout.

use sediment_core::callgraph::{CallGraph, FunctionId};

/// Assumed addresses of a graph's functions.
#[derive(Debug, Clone, Copy)]
pub enum AssumedLayout<'a> {
    /// One after the other in this order; missing functions follow by id.
    Packed(&'a [FunctionId]),
    /// At these addresses of a file, by id.
    Linked(&'a [u64]),
}

impl<'a> From<&'a [FunctionId]> for AssumedLayout<'a> {
    fn from(order: &'a [FunctionId]) -> Self {
        Self::Packed(order)
    }
}

impl<'a, const LENGTH: usize> From<&'a [FunctionId; LENGTH]> for AssumedLayout<'a> {
    fn from(order: &'a [FunctionId; LENGTH]) -> Self {
        Self::Packed(order)
    }
}

impl<'a> From<&'a Vec<FunctionId>> for AssumedLayout<'a> {
    fn from(order: &'a Vec<FunctionId>) -> Self {
        Self::Packed(order)
    }
}

/// Highest address of a layout.
const HIGHEST: u64 = 1 << 62;

/// Base of the addresses, chosen so that none is above [`HIGHEST`] if the functions are close enough together: a
/// multiple of the largest page size.
fn base(starts: impl Iterator<Item = u64> + Clone) -> u64 {
    const LARGEST_PAGE: u64 = 1 << 30;
    let lowest = starts.clone().min().unwrap_or(0);
    if starts.max().unwrap_or(0) > HIGHEST { lowest / LARGEST_PAGE * LARGEST_PAGE } else { 0 }
}

/// Addresses of all functions, from 0 if they are packed.
#[derive(Debug, Clone)]
pub(crate) struct FunctionAddresses {
    addresses: Vec<u64>,
    sizes: Vec<u64>,
    order: Vec<FunctionId>,
}

impl FunctionAddresses {
    /// Places the functions in this order, followed by the others by id.
    pub(crate) fn new(graph: &CallGraph, order: &[FunctionId], alignment: u64) -> Self {
        Self::of_sizes(clamp_sizes(graph.sizes()), order, alignment)
    }

    /// Uses existing addresses; functions without one are at 0. Addresses above 2^62, as in a kernel, are counted from
    /// the beginning of the code; any that are still above 2^62 are clamped.
    pub(crate) fn of(graph: &CallGraph, layout: AssumedLayout<'_>, alignment: u64) -> Self {
        let starts = match layout {
            AssumedLayout::Packed(order) => return Self::new(graph, order, alignment),
            AssumedLayout::Linked(starts) => starts,
        };
        let sizes = clamp_sizes(graph.sizes());
        let base = base(starts.iter().copied());
        let at = |id: usize| starts.get(id).map_or(0, |start| (start - base).min(HIGHEST));
        let addresses: Vec<u64> = (0..sizes.len()).map(at).collect();
        let mut order: Vec<FunctionId> = graph.ids().collect();
        order.sort_by_key(|function| (addresses[function.index()], *function));
        Self { addresses, sizes, order }
    }

    /// Uses these addresses, by id; each function without one gets a page of its own after the others.
    pub(super) fn partly_known(graph: &CallGraph, starts: &[Option<u64>], page: u64) -> Self {
        let mut sizes = clamp_sizes(graph.sizes());
        let base = base(starts.iter().copied().flatten());
        let known = |id: usize| starts.get(id).copied().flatten().map(|start| (start - base).min(HIGHEST));
        let end = (0..sizes.len()).filter_map(|id| Some(known(id)? + sizes[id])).max().unwrap_or(0);
        let mut next = (end / page + 1) * page;
        let mut addresses = Vec::with_capacity(sizes.len());
        for (id, size) in sizes.iter_mut().enumerate() {
            addresses.push(known(id).unwrap_or(next));
            if known(id).is_none() {
                *size = 0;
                next = next.saturating_add(page);
            }
        }
        let mut order: Vec<FunctionId> = graph.ids().collect();
        order.sort_by_key(|function| (addresses[function.index()], *function));
        Self { addresses, sizes, order }
    }

    /// As [`Self::new`], for functions of these sizes, whose sum is at most 2^62 bytes.
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

    /// Returns all functions by address.
    pub(super) fn order(&self) -> &[FunctionId] {
        &self.order
    }

    /// Address of the function's first byte.
    pub(crate) fn start(&self, function: FunctionId) -> u64 {
        self.addresses[function.index()]
    }

    /// Address from which the function is assumed to make its calls, because nothing is known about its inside.
    pub(crate) fn middle(&self, function: FunctionId) -> u64 {
        self.start(function) + self.size(function).div_ceil(2)
    }

    /// Size of the function in bytes.
    pub(super) fn size(&self, function: FunctionId) -> u64 {
        self.sizes[function.index()]
    }

    /// End of the last function.
    pub(super) fn end(&self) -> u64 {
        self.order.iter().map(|&function| self.start(function) + self.size(function)).max().unwrap_or(0)
    }

    /// True if the layout has an address for this function.
    pub(super) fn has(&self, function: FunctionId) -> bool {
        function.index() < self.sizes.len()
    }
}

/// Returns the sizes, cut so that their sum is at most 2^62 bytes: a damaged symbol table can contain any size, and no
/// real size is near the limit.
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
    fn linked_functions_lie_where_the_file_has_them() {
        let graph = CallGraph::new(vec![10, 20, 30], vec![0; 3], Vec::new()).unwrap();
        let addresses = FunctionAddresses::of(&graph, AssumedLayout::Linked(&[0x5000, 0x1000]), 16);
        assert_eq!(addresses.order(), [2, 1, 0].map(FunctionId), "without an address at 0");
        assert_eq!((addresses.start(FunctionId(1)), addresses.end()), (0x1000, 0x500a));
    }

    #[test]
    fn sizes_beyond_any_memory_are_cut() {
        let sizes = clamp_sizes(&[u64::MAX, 5, u64::MAX]);
        assert_eq!(sizes[1], 5);
        assert!(sizes.iter().sum::<u64>() <= 1 << 62);
        assert!(clamp_sizes(&[]).is_empty());
    }
}
