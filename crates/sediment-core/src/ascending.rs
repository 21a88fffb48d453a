// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order of a sequence of addresses: its heaviest ascending subsequence, and its inversions.
//!
//! Problem: given different addresses a₀ … aₙ₋₁ with weights wᵢ, find indices i₁ < i₂ < … with ascending addresses and
//! the largest sum of weights; among equal sums, the longest sequence.
//!
//! The best subsequence that ends at i is i alone, or i after the best one that ends at an earlier j with a smaller
//! address. A binary indexed tree over the ranks of the addresses (Fenwick, "A new data structure for cumulative
//! frequency tables", 1994) keeps the best subsequence of each prefix, so the search takes O(n log n). Ties go to the
//! subsequence found first.

/// Returns the indices of the heaviest ascending subsequence, in ascending order.
pub fn heaviest(sequence: &[(u64, u128)]) -> Vec<usize> {
    let ranks = ranks(sequence);
    let mut best: Vec<Option<Best>> = vec![None; sequence.len() + 1];
    let mut previous: Vec<Option<usize>> = vec![None; sequence.len()];
    let mut whole: Option<Best> = None;
    for (index, (_, weight)) in sequence.iter().enumerate() {
        let before = prefix(&best, ranks[index]);
        previous[index] = before.map(|before| before.last);
        let here = Best {
            weight: before.map_or(0, |before| before.weight).saturating_add(*weight),
            members: before.map_or(0, |before| before.members) + 1,
            last: index,
        };
        let mut node = ranks[index] + 1;
        while node < best.len() {
            better(&mut best[node], here);
            node += node & node.wrapping_neg();
        }
        better(&mut whole, here);
    }
    let mut members = Vec::new();
    let mut last = whole.map(|best| best.last);
    while let Some(index) = last {
        members.push(index);
        last = previous[index];
    }
    members.reverse();
    members
}

/// Number of inversions: pairs in which the later address is smaller.
pub fn inversions(sequence: &[(u64, u128)]) -> u64 {
    let mut seen = vec![0u64; sequence.len() + 1];
    let mut inversions = 0;
    for (before, rank) in ranks(sequence).into_iter().enumerate() {
        let (mut smaller, mut node) = (0, rank);
        while node > 0 {
            smaller += seen[node];
            node -= node & node.wrapping_neg();
        }
        inversions += before as u64 - smaller;
        node = rank + 1;
        while node < seen.len() {
            seen[node] += 1;
            node += node & node.wrapping_neg();
        }
    }
    inversions
}

/// Best subsequence with a given last member.
#[derive(Debug, Clone, Copy)]
struct Best {
    weight: u128,
    members: usize,
    last: usize,
}

fn better(kept: &mut Option<Best>, new: Best) {
    if kept.is_none_or(|kept| (new.weight, new.members) > (kept.weight, kept.members)) {
        *kept = Some(new);
    }
}

/// Best subsequence whose last member has a rank below `rank`.
fn prefix(best: &[Option<Best>], rank: usize) -> Option<Best> {
    let mut found = None;
    let mut node = rank;
    while node > 0 {
        if let Some(here) = best[node] {
            better(&mut found, here);
        }
        node -= node & node.wrapping_neg();
    }
    found
}

/// Rank of each address, from 0.
fn ranks(sequence: &[(u64, u128)]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..sequence.len()).collect();
    sorted.sort_by_key(|index| (sequence[*index].0, *index));
    let mut ranks = vec![0; sequence.len()];
    for (rank, index) in sorted.into_iter().enumerate() {
        ranks[index] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_hand(sequence: &[(u64, u128)]) -> (u128, usize) {
        (0u32..1 << sequence.len())
            .map(|chosen| {
                let members: Vec<_> =
                    (0..sequence.len()).filter(|i| chosen & (1 << i) != 0).map(|i| sequence[i]).collect();
                if members.is_sorted_by(|a, b| a.0 < b.0) {
                    (members.iter().map(|member| member.1).sum(), members.len())
                } else {
                    (0, 0)
                }
            })
            .max()
            .unwrap()
    }

    #[test]
    fn weight_counts_before_length() {
        assert_eq!(heaviest(&[(5, 1), (9, 100), (1, 1), (2, 1), (3, 1), (4, 1)]), [0, 1]);
        assert_eq!(heaviest(&[(5, 1), (1, 1), (2, 1)]), [1, 2]);
        assert_eq!(heaviest(&[(5, 0), (1, 0), (2, 0)]), [1, 2]);
        assert_eq!(heaviest(&[(2, 1), (1, 1)]), [0]);
        assert!(heaviest(&[]).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_other_subsequence_is_heavier(
            addresses in proptest::collection::btree_set(0u64..1000, 0..12).prop_map(|set| set.into_iter().collect::<Vec<_>>())
                .prop_shuffle(),
            weights in proptest::collection::vec(0u128..5, 12),
        ) {
            let sequence: Vec<(u64, u128)> = addresses.into_iter().zip(weights).collect();
            let found = heaviest(&sequence);
            prop_assert!(found.is_sorted_by(|a, b| a < b && sequence[*a].0 < sequence[*b].0));
            let weight: u128 = found.iter().map(|index| sequence[*index].1).sum();
            prop_assert_eq!((weight, found.len()), by_hand(&sequence));
            let pairs = (0..sequence.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
            let expected = pairs.filter(|(i, j)| sequence[*i].0 > sequence[*j].0).count() as u64;
            prop_assert_eq!(inversions(&sequence), expected);
        }
    }
}
