// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page faults of a start: on how many pages its functions lie, and how early.
//!
//! A start is the functions that a program first used, in their order. The first use of a function touches two pages, that of its start and
//! that of its middle; more is not known of its inside. Each page is read from the file once.
//!
//! - Without fault-around, each of them is a fault.
//! - With it, as Linux does for files that are in memory already, a fault brings in the aligned 64 KiB around it.
//! - The area under the fault curve adds up, over all first uses, the pages touched by then: of two orders with as many pages in the
//!   end, the one whose early stages touch fewer is the better. It is what LLVM reports of balanced partitioning, with its
//!   own page size.
//!
//! What it cannot see: read-ahead, what else the program reads meanwhile, and the pages of code that only returns lead to.

use super::Geometry;
use super::addresses::FunctionAddresses;
use sediment_core::callgraph::FunctionId;
use std::collections::HashSet;

/// Bytes that Linux brings in around a fault, by default.
const AROUND: u64 = 64 << 10;

/// The page faults of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StartFaults {
    /// First uses of functions of the graph.
    pub uses: u64,
    /// Pages that are touched: faults without fault-around.
    pub pages: u64,
    /// Faults with fault-around.
    pub around: u64,
    /// Pages touched by then, added up over all first uses.
    pub area: u64,
}

impl StartFaults {
    pub(super) fn of(start: &[FunctionId], addresses: &FunctionAddresses, geometry: &Geometry) -> Self {
        let page = geometry.page.max(1);
        let mut seen = HashSet::new();
        let (mut pages, mut around) = (HashSet::new(), HashSet::new());
        let mut faults = Self::default();
        for &function in start.iter().filter(|function| addresses.has(**function)) {
            if !seen.insert(function) {
                continue;
            }
            for address in
                [addresses.start(function), addresses.start(function) + addresses.size(function) / 2]
            {
                pages.insert(address / page);
                around.insert(address / AROUND.max(page));
            }
            faults.uses += 1;
            faults.area += pages.len() as u64;
        }
        Self { pages: pages.len() as u64, around: around.len() as u64, ..faults }
    }
}

#[cfg(test)]
mod tests {
    use super::super::start_faults;
    use super::*;
    use sediment_core::callgraph::CallGraph;

    #[test]
    fn a_start_by_hand() {
        // 0 to 3 on pages 0, 1, 2 and 3; 4 begins on page 4 and has its middle 32 pages on.
        let graph = CallGraph::new(vec![4096, 4096, 4096, 4096, 1 << 18], vec![0; 5], Vec::new()).unwrap();
        let start = [3, 0, 3, 9, 4].map(FunctionId);
        let faults = start_faults(&start, &graph, &[], &Geometry::default());
        // The middle of a page-sized function is on its own page.
        assert_eq!(faults, StartFaults { uses: 3, pages: 4, around: 2, area: 1 + 2 + 4 });
        assert_eq!(start_faults(&[], &graph, &[], &Geometry::default()), StartFaults::default());
    }

    #[test]
    fn start_up_functions_in_front_cost_less_area() {
        let graph = CallGraph::new(vec![1024; 64], vec![0; 64], Vec::new()).unwrap();
        let start: Vec<FunctionId> = (0..64).step_by(4).map(FunctionId).collect();
        let gathered: Vec<FunctionId> = start.clone();
        let [scattered, gathered] =
            [&[][..], &gathered[..]].map(|order| start_faults(&start, &graph, order, &Geometry::default()));
        assert_eq!((scattered.pages, gathered.pages), (16, 4));
        assert!(gathered.area * 3 < scattered.area, "{gathered:?} {scattered:?}");
    }
}
