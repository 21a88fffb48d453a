// SPDX-License-Identifier: MIT OR Apache-2.0
//! Infers the counts of a control-flow graph's edges from the counts of some of its blocks.
//!
//! Each block is entered as often as it is left. Among all such flows, [`infer`] finds one closest to the counts: each
//! execution by which a block differs from its count has a cost. Each passage of an edge also has a cost, so that paths
//! without counts stay short. Costs and network are from He, Mestre, Pupyrev, Wang and Yu, "Profile inference
//! revisited" (POPL 2022), as in gcc-plugin/flow.cc. The flow is computed with the primal-dual method: Dijkstra's
//! algorithm with potentials gives distances, then Dinic's algorithm a maximum flow along shortest paths. The order of
//! blocks and edges decides ties.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Block through which control enters a function; it has no code.
pub const ENTRY: usize = 0;
/// Block through which control leaves a function; it has no code.
pub const EXIT: usize = 1;

/// Costs of one execution below the count, above it, and above a count of 0.
const LESS: i64 = 20;
const MORE: i64 = 10;
const MORE_OF_ZERO: i64 = 11;
/// Costs of passing an edge.
const EDGE: i64 = 1;
const FAKE: i64 = 50;
const UNLIMITED: u64 = u64::MAX / 4;
/// Largest count: sums of counts are below [`UNLIMITED`].
const LARGEST: u64 = 1 << 40;
/// Limit of visits to arcs, which take some seconds. Typical functions need a small part of it.
const MOST_VISITS: usize = 1 << 30;

/// An edge of a control-flow graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEdge {
    /// Number of its source block, or [`ENTRY`].
    pub from: usize,
    /// Number of its target block, or [`EXIT`].
    pub to: usize,
    /// True for a rare exit or entry: a call that does not return, or a jump from another function.
    pub is_rare: bool,
}

/// Infers the counts of edges from the counts of blocks, which are `None` if unknown, and for [`ENTRY`] and [`EXIT`].
/// Returns `None` if the search takes too long.
pub fn infer(counts: &[Option<u64>], edges: &[FlowEdge]) -> Option<Vec<u64>> {
    let (source, sink) = (2 * counts.len(), 2 * counts.len() + 1);
    let enters = |block: usize| 2 * block;
    let leaves = |block: usize| 2 * block + 1;
    let mut network = Network::new(sink + 1);
    for (block, count) in counts.iter().enumerate() {
        let known = count.unwrap_or(0).min(LARGEST);
        let more = match count {
            None => 0,
            Some(0) => MORE_OF_ZERO,
            Some(_) => MORE,
        };
        network.add(enters(block), leaves(block), UNLIMITED, more);
        if known > 0 {
            network.add(leaves(block), enters(block), known, LESS);
            network.add(source, leaves(block), known, 0);
            network.add(enters(block), sink, known, 0);
        }
    }
    let arcs: Vec<usize> = edges
        .iter()
        .map(|edge| {
            let cost = if edge.is_rare { FAKE } else { EDGE };
            network.add(leaves(edge.from), enters(edge.to), UNLIMITED, cost)
        })
        .collect();
    network.add(leaves(EXIT), enters(ENTRY), UNLIMITED, 0);
    network.run(source, sink)?;
    let mut flow: Vec<u64> = arcs.iter().map(|arc| network.through(*arc)).collect();
    join_parts(counts.len(), edges, &mut flow);
    Some(flow)
}

/// An arc of the network. Arc and reverse arc are neighbours in the table.
struct Arc {
    to: usize,
    left: u64,
    cost: i64,
}

struct Network {
    arcs: Vec<Arc>,
    of: Vec<Vec<usize>>,
    potential: Vec<i64>,
    visits: usize,
}

impl Network {
    fn new(nodes: usize) -> Self {
        Self { arcs: Vec::new(), of: vec![Vec::new(); nodes], potential: vec![0; nodes], visits: 0 }
    }

    /// Adds an arc, and returns its number.
    fn add(&mut self, from: usize, to: usize, capacity: u64, cost: i64) -> usize {
        let arc = self.arcs.len();
        self.arcs.push(Arc { to, left: capacity, cost });
        self.arcs.push(Arc { to: from, left: 0, cost: -cost });
        self.of[from].push(arc);
        self.of[to].push(arc + 1);
        arc
    }

    /// Flow through an arc.
    fn through(&self, arc: usize) -> u64 {
        self.arcs[arc + 1].left
    }

    /// Finds the flow; None if that takes too long.
    fn run(&mut self, source: usize, sink: usize) -> Option<()> {
        while self.find_distances(source, sink) {
            loop {
                let levels = self.levels(source);
                if levels[sink].is_none() {
                    break;
                }
                self.augment(source, sink, &levels);
                if self.visits > MOST_VISITS {
                    return None;
                }
            }
        }
        Some(())
    }

    fn reduced(&self, from: usize, arc: &Arc) -> i64 {
        arc.cost + self.potential[from] - self.potential[arc.to]
    }

    /// Sets the potentials to the distances of shortest paths; false if no path is left.
    fn find_distances(&mut self, source: usize, sink: usize) -> bool {
        let mut distance = vec![i64::MAX; self.of.len()];
        let mut heap = BinaryHeap::from([Reverse((0, source))]);
        distance[source] = 0;
        while let Some(Reverse((far, node))) = heap.pop() {
            if far > distance[node] {
                continue;
            }
            self.visits += self.of[node].len();
            for arc in self.of[node].iter().map(|arc| &self.arcs[*arc]).filter(|arc| arc.left > 0) {
                let next = far + self.reduced(node, arc);
                if next < distance[arc.to] {
                    distance[arc.to] = next;
                    heap.push(Reverse((next, arc.to)));
                }
            }
        }
        let farthest = distance[sink];
        if farthest == i64::MAX {
            return false;
        }
        for (potential, distance) in self.potential.iter_mut().zip(distance) {
            *potential += distance.min(farthest);
        }
        true
    }

    /// Number of arcs on a shortest path from the source to each node.
    fn levels(&mut self, source: usize) -> Vec<Option<u32>> {
        let mut levels = vec![None; self.of.len()];
        levels[source] = Some(0);
        let mut queue = VecDeque::from([(source, 0)]);
        while let Some((node, level)) = queue.pop_front() {
            self.visits += self.of[node].len();
            for arc in self.of[node].iter().map(|arc| &self.arcs[*arc]) {
                if arc.left > 0 && levels[arc.to].is_none() && self.reduced(node, arc) == 0 {
                    levels[arc.to] = Some(level + 1);
                    queue.push_back((arc.to, level + 1));
                }
            }
        }
        levels
    }

    /// Adds flow along shortest paths until each has a saturated arc.
    fn augment(&mut self, source: usize, sink: usize, levels: &[Option<u32>]) {
        let mut next = vec![0; self.of.len()];
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        loop {
            if node == sink {
                let amount = path.iter().map(|arc| self.arcs[*arc].left).min().unwrap_or(0);
                for arc in &path {
                    self.arcs[*arc].left -= amount;
                    self.arcs[arc ^ 1].left += amount;
                }
                let full = path.iter().position(|arc| self.arcs[*arc].left == 0).unwrap_or(0);
                node = self.arcs[path[full] ^ 1].to;
                path.truncate(full);
                continue;
            }
            let found = self.of[node][next[node]..].iter().position(|arc| {
                let arc = &self.arcs[*arc];
                let is_next = levels[arc.to].is_some_and(|level| levels[node] == level.checked_sub(1));
                is_next && arc.left > 0 && self.reduced(node, arc) == 0
            });
            self.visits += 1 + found.unwrap_or(self.of[node].len() - next[node]);
            if let Some(skipped) = found {
                next[node] += skipped;
                let arc = self.of[node][next[node]];
                path.push(arc);
                node = self.arcs[arc].to;
            } else if let Some(arc) = path.pop() {
                node = self.arcs[arc ^ 1].to;
                next[node] += 1;
            } else {
                return;
            }
        }
    }
}

/// Joins parts of the graph whose flow is not connected with the entry, such as a sampled loop: each gets one execution
/// from the entry, and on to the exit.
fn join_parts(blocks: usize, edges: &[FlowEdge], flow: &mut [u64]) {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); blocks];
    for (at, edge) in edges.iter().enumerate() {
        out[edge.from].push(at);
    }
    // Edges of a shortest path from one of these blocks to a wanted one.
    let path = |from: &[usize], is_wanted: &dyn Fn(usize) -> bool, may_pass: &dyn Fn(usize) -> bool| {
        let mut incoming: Vec<Option<usize>> = vec![None; blocks];
        let mut queue: VecDeque<usize> = from.iter().copied().collect();
        while let Some(block) = queue.pop_front() {
            for at in out[block].iter().copied().filter(|at| may_pass(*at)) {
                let to = edges[at].to;
                if incoming[to].is_some() || from.contains(&to) {
                    continue;
                }
                incoming[to] = Some(at);
                if is_wanted(to) {
                    let back =
                        |at: &usize| incoming[edges[*at].from].filter(|_| !from.contains(&edges[*at].from));
                    return Some(std::iter::successors(Some(at), back).collect::<Vec<usize>>());
                }
                queue.push_back(to);
            }
        }
        None
    };
    loop {
        let mut is_reached = vec![false; blocks];
        let mut waiting = vec![ENTRY];
        is_reached[ENTRY] = true;
        while let Some(block) = waiting.pop() {
            for at in out[block].iter().filter(|at| flow[**at] > 0) {
                if !std::mem::replace(&mut is_reached[edges[*at].to], true) {
                    waiting.push(edges[*at].to);
                }
            }
        }
        let runs: Vec<bool> = (0..blocks)
            .map(|block| !is_reached[block] && out[block].iter().any(|at| flow[*at] > 0))
            .collect();
        let reached: Vec<usize> = (0..blocks).filter(|block| is_reached[*block]).collect();
        if !runs.contains(&true) {
            return;
        }
        let Some(inward) = path(&reached, &|block| runs[block], &|at| !is_reached[edges[at].to]) else {
            return;
        };
        let found = edges[inward[0]].to;
        let Some(outward) = path(&[found], &|block| block == EXIT, &|_| true) else { return };
        // From the start of the path back to the entry.
        let begin = edges[*inward.last().unwrap_or(&inward[0])].from;
        let before = if begin == ENTRY {
            Vec::new()
        } else {
            path(&[ENTRY], &|block| block == begin, &|_| true).unwrap_or_default()
        };
        for at in inward.into_iter().chain(outward).chain(before) {
            flow[at] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(usize, usize)]) -> Vec<FlowEdge> {
        pairs.iter().map(|(from, to)| FlowEdge { from: *from, to: *to, is_rare: false }).collect()
    }

    #[test]
    fn unknown_blocks_get_the_rest() {
        // 2 goes to 3 or 4, then to 5.
        let edges = edges(&[(0, 2), (2, 3), (2, 4), (3, 5), (4, 5), (5, 1)]);
        let flow = infer(&[None, None, Some(100), Some(30), None, None], &edges);
        assert_eq!(flow, Some(vec![100, 30, 70, 30, 70, 100]));
    }

    #[test]
    fn a_loop_without_an_entry_gets_one() {
        let edges = edges(&[(0, 2), (2, 3), (3, 3), (3, 4), (4, 1), (2, 4)]);
        let flow = infer(&[None, None, None, Some(50), None], &edges).unwrap_or_default();
        // Any number of passages is equally close to the count; one passage takes the fewest edges.
        assert_eq!(flow, [1, 1, 50, 1, 1, 0]);
    }

    #[test]
    fn a_wrong_count_gives_way() {
        let edges = edges(&[(0, 2), (2, 3), (3, 4), (4, 1)]);
        let flow = infer(&[None, None, Some(10), Some(12), Some(10)], &edges);
        assert_eq!(flow, Some(vec![10; 4]));
    }

    #[test]
    fn rare_paths_are_the_last_choice() {
        let mut edges = edges(&[(0, 2), (2, 3), (3, 1), (2, 1)]);
        edges[3].is_rare = true;
        assert_eq!(infer(&[None, None, Some(10), Some(9)], &edges), Some(vec![10, 10, 10, 0]));
    }
}
