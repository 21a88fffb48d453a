// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page faults of a program start: the number of pages with its functions, and how early they are touched.
//!
//! A start is the sequence of functions that a program used first. The first use of a function touches the page of its
//! start and the page of its middle; nothing else is known about its inside. Each page is read from the file once.
//!
//! - Without fault-around, each touched page is a fault.
//! - With fault-around, which Linux uses for files that are already in memory, a fault maps the aligned 64 KiB around
//!   it.
//! - The area under the fault curve is the sum, over all first uses, of the number of pages touched by then. Of two
//!   orders with the same number of pages, the one with fewer pages in the early stages is better. LLVM reports the
//!   same value for balanced partitioning, with its own page size.
//!
//! The model ignores read-ahead, other reads of the program, and pages of code that are reached only by returns.

use super::Geometry;
use super::addresses::FunctionAddresses;
use sediment_core::callgraph::FunctionId;
use std::collections::HashSet;

/// Number of bytes that Linux maps around a fault by default.
const AROUND: u64 = 64 << 10;

/// The page faults of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StartFaults {
    /// Number of first uses of functions in the graph.
    pub uses: u64,
    /// Number of touched pages, which are the faults without fault-around.
    pub pages: u64,
    /// Number of faults with fault-around.
    pub around: u64,
    /// Sum over all first uses of the number of pages touched by then.
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
        // 0 to 3 are on pages 0, 1, 2 and 3; 4 begins on page 4, and its middle is 32 pages later.
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
