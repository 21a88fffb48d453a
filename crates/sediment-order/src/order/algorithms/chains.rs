// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains are runs of functions that will be neighbours. The clustering algorithms share this code.
//!
//! At first every function is a chain of its own; [`Chains::join`] puts one chain after another. A chain knows its
//! bytes, weight, length and first function; a function knows its chain and its position in it. The time of a join is
//! in proportion to the length of the shorter chain, so any sequence of joins over n functions takes O(n log n).
//!
//! A [`ChainId`] is only a handle; after a join, the handle of the longer chain stays valid. The chain's first function
//! is stable, and breaks ties.

use sediment_core::callgraph::FunctionId;

/// No function: the end of a chain.
const NONE: u32 = u32::MAX;

/// Handle of a chain; valid until the chain is joined to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainId(u32);

impl ChainId {
    /// The initial handle of this function's chain.
    pub(super) fn of_single(function: FunctionId) -> Self {
        Self(function.0)
    }

    /// The handle as an index into tables with one row per function.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone)]
struct ChainMember {
    chain: ChainId,
    next: u32,
    /// Position of the function, on a scale that has the chain's beginning at its `start`.
    place: i64,
}

#[derive(Debug, Clone)]
struct Chain {
    first: u32,
    last: u32,
    length: u32,
    size: u64,
    weight: u64,
    start: i64,
}

/// All functions of a graph, each in exactly one chain.
#[derive(Debug, Clone)]
pub(super) struct Chains {
    members: Vec<ChainMember>,
    chains: Vec<Chain>,
}

impl Chains {
    /// One chain for each function, of these sizes in bytes and weights.
    ///
    /// The sizes together must stay below 2^62 and the weights below 2^64 (see [`crate::model::addresses::clamp_sizes`]).
    pub(super) fn singletons(sizes: &[u64], weights: &[u64]) -> Self {
        let members = (0..sizes.len() as u32)
            .map(|id| ChainMember { chain: ChainId(id), next: NONE, place: 0 })
            .collect();
        let chains = (0u32..)
            .zip(sizes.iter().zip(weights))
            .map(|(id, (&size, &weight))| Chain { first: id, last: id, length: 1, size, weight, start: 0 })
            .collect();
        Self { members, chains }
    }

    /// The chain that this function is in.
    pub(super) fn chain_of(&self, function: FunctionId) -> ChainId {
        self.members[function.index()].chain
    }

    /// Bytes from the start of its chain to the start of this function.
    pub(super) fn position(&self, function: FunctionId) -> u64 {
        let member = &self.members[function.index()];
        (member.place - self.chains[member.chain.index()].start) as u64
    }

    /// Bytes of all functions of the chain.
    pub(super) fn size(&self, chain: ChainId) -> u64 {
        self.chains[chain.index()].size
    }

    /// Weights of all functions of the chain.
    pub(super) fn weight(&self, chain: ChainId) -> u64 {
        self.chains[chain.index()].weight
    }

    /// Number of functions in the chain.
    pub(super) fn length(&self, chain: ChainId) -> u32 {
        self.chains[chain.index()].length
    }

    /// The first function of the chain, which breaks ties between chains.
    pub(super) fn first(&self, chain: ChainId) -> FunctionId {
        FunctionId(self.chains[chain.index()].first)
    }

    /// The last function of the chain.
    pub(super) fn last(&self, chain: ChainId) -> FunctionId {
        FunctionId(self.chains[chain.index()].last)
    }

    /// The functions of the chain in their order.
    pub(super) fn functions(&self, chain: ChainId) -> impl Iterator<Item = FunctionId> + '_ {
        let mut at = self.chains[chain.index()].first;
        std::iter::from_fn(move || {
            let here = (at != NONE).then_some(FunctionId(at))?;
            at = self.members[at as usize].next;
            Some(here)
        })
    }

    /// Puts `back` after `front`, and returns the handle of the result; only this handle stays valid.
    pub(super) fn join(&mut self, front: ChainId, back: ChainId) -> ChainId {
        debug_assert_ne!(front, back, "a chain cannot be joined to itself");
        let (ahead, behind) = (self.chains[front.index()].clone(), self.chains[back.index()].clone());
        let end_of_front = ahead.start + ahead.size as i64;
        let (kept, moved, start, shift) = if ahead.length >= behind.length {
            (front, behind.first, ahead.start, end_of_front - behind.start)
        } else {
            (back, ahead.first, behind.start - ahead.size as i64, behind.start - end_of_front)
        };
        let mut at = moved;
        while at != NONE {
            let member = &mut self.members[at as usize];
            member.chain = kept;
            member.place += shift;
            at = member.next;
        }
        self.members[ahead.last as usize].next = behind.first;
        self.chains[kept.index()] = Chain {
            first: ahead.first,
            last: behind.last,
            length: ahead.length + behind.length,
            size: ahead.size + behind.size,
            weight: ahead.weight + behind.weight,
            start,
        };
        kept
    }

    /// Reverses a chain. `sizes` are the sizes of all functions. Takes time in proportion to the chain's length.
    pub(super) fn reverse(&mut self, id: ChainId, sizes: &[u64]) {
        let mut functions: Vec<FunctionId> = self.functions(id).collect();
        functions.reverse();
        let mut place = 0;
        for (function, next) in functions.iter().zip(functions[1..].iter().map(|next| next.0).chain([NONE])) {
            self.members[function.index()] = ChainMember { chain: id, next, place };
            place += sizes[function.index()] as i64;
        }
        let chain = &mut self.chains[id.index()];
        chain.start = 0;
        chain.first = functions[0].0;
        chain.last = functions[functions.len() - 1].0;
    }

    /// All current chains, by their first functions.
    pub(super) fn ids(&self) -> impl Iterator<Item = ChainId> + '_ {
        (0u32..).zip(&self.members).filter_map(|(id, member)| {
            (self.chains[member.chain.index()].first == id).then_some(member.chain)
        })
    }

    /// Returns the functions of these chains, chain after chain, densest first; a tie goes to the lower first function.
    pub(super) fn densest_first(
        &self,
        chains: impl Iterator<Item = ChainId>,
        density: impl Fn(ChainId) -> f64,
    ) -> Vec<FunctionId> {
        let mut ranked: Vec<(f64, FunctionId, ChainId)> =
            chains.map(|chain| (density(chain), self.first(chain), chain)).collect();
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.iter().flat_map(|&(_, _, chain)| self.functions(chain)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(chains: &Chains, chain: ChainId) -> Vec<u32> {
        chains.functions(chain).map(|function| function.0).collect()
    }

    #[test]
    fn a_chain_turned_round() {
        let sizes = [10, 20, 30, 40];
        let mut chains = Chains::singletons(&sizes, &[1; 4]);
        for id in 1..4 {
            chains.join(chains.chain_of(FunctionId(0)), ChainId::of_single(FunctionId(id)));
        }
        let whole = chains.chain_of(FunctionId(0));
        chains.reverse(whole, &sizes);
        assert_eq!(names(&chains, whole), [3, 2, 1, 0]);
        let positions: Vec<u64> = (0..4).map(|id| chains.position(FunctionId(id))).collect();
        assert_eq!(positions, [90, 70, 40, 0]);
        assert_eq!((chains.first(whole), chains.last(whole)), (FunctionId(3), FunctionId(0)));
    }

    #[test]
    fn joins_keep_order_positions_and_sums() {
        let mut chains = Chains::singletons(&[10, 20, 30, 40], &[1, 2, 3, 4]);
        let of = |chains: &Chains, id| chains.chain_of(FunctionId(id));
        let chain = chains.join(of(&chains, 2), of(&chains, 0));
        assert_eq!(names(&chains, chain), [2, 0]);
        let chain = chains.join(of(&chains, 3), chain);
        assert_eq!(names(&chains, chain), [3, 2, 0], "the longer chain lives on, behind the shorter");
        let chain = chains.join(chain, of(&chains, 1));
        assert_eq!(names(&chains, chain), [3, 2, 0, 1]);
        assert_eq!(chains.size(chain), 100);
        assert_eq!(chains.weight(chain), 10);
        assert_eq!(chains.length(chain), 4);
        assert_eq!(chains.first(chain), FunctionId(3));
        let positions: Vec<u64> = (0..4).map(|id| chains.position(FunctionId(id))).collect();
        assert_eq!(positions, [70, 80, 40, 0]);
        assert_eq!(chains.ids().count(), 1);
    }
}
