// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers that depend only on a seed and are the same on every machine. They are used for shuffles and moves of
//! a layout, windows of a recording, the order within a block, the bootstrap, and generated programs.
//!
//! The generator is SplitMix64 (G. Steele, D. Lea, C. Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
//! 2014), with 64 bits of state; every seed is suitable.

/// A stream of random numbers from a seed.
#[derive(Debug, Clone)]
pub struct Generator(u64);

impl Generator {
    /// Makes a different stream for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Makes a stream for one purpose under a common seed, such as the block with that number.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut outer = Self(seed);
        let first = outer.draw();
        Self(first ^ Self(purpose).draw())
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, each with the same probability; 0 if `bound` is 0 or 1.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound < 2 {
            return 0;
        }
        let bound = bound as u64;
        // Numbers beyond the last whole multiple of the bound would favour small results, so they are drawn again.
        let rest = (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.draw();
            if drawn <= u64::MAX - rest {
                return (drawn % bound) as usize;
            }
        }
    }

    /// Returns a number below `bound` from a single draw: the high half of a product, whose bias is at most bound /
    /// 2⁶⁴; 0 if `bound` is 0. It is for inner loops. It exists in addition to [`Generator::below`] because orders
    /// depend on its numbers.
    pub fn scaled(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in [0, 1), a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws from the standard normal distribution (G. Box, M. Muller: A Note on the Generation of Random Normal
    /// Deviates, 1958). Only the first number of each pair is used, so every draw takes two numbers.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Shuffles the items; every order has the same probability (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Generator;

    #[test]
    fn the_stream_is_that_of_the_paper() {
        let mut numbers = Generator::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| numbers.draw()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn bounds_hold_and_normal_draws_have_mean_nought_and_deviation_one() {
        let mut numbers = Generator::new(7);
        assert!((0..1000).all(|_| numbers.below(3) < 3));
        assert_eq!(numbers.below(0), 0);
        assert!((0..1000).all(|_| numbers.scaled(3) < 3));
        assert_eq!(numbers.scaled(0), 0);
        let draws: Vec<f64> = (0..20_000).map(|_| numbers.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 19_999.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first: Vec<u64> = (0..50).map(|purpose| Generator::stream(1, purpose).draw()).collect();
        let mut distinct = first.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), first.len());
    }
}
