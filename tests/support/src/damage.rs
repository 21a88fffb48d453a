// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files with a few blows to them, for tests that no damage does harm.

use proptest::prelude::*;

/// One of these files with a few blows to it: bytes changed, lost, repeated, cut off, and signs of the format put in.
pub fn damaged(whole: Vec<Vec<u8>>, signs: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let blow = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5u8, any::<u8>());
    (prop::sample::select(whole), prop::collection::vec(blow, 1..6)).prop_map(move |(mut bytes, blows)| {
        for (first, second, what, byte) in blows {
            if bytes.is_empty() {
                break;
            }
            let at = first.index(bytes.len());
            let end = (at + second.index(bytes.len()) % 200).min(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => bytes.insert(at, signs[byte as usize % signs.len()]),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}
