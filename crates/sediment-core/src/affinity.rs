// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temporal affinity: the window of recently executed functions, shared by all code that counts affinity edges.
//!
//! When a function begins to run, it gets an affinity edge from each of the last [`Window::LENGTH`] distinct functions
//! executed before it. If it is itself one of them, it gets edges only from the functions executed since.
//!
//! **Source.** N. Gloy, M. Smith: Procedure Placement Using Temporal-Ordering Information, TOPLAS 21(5), 1999. Their
//! window is limited by bytes of code, this one by the number of functions, so that a profile does not depend on sizes.

/// Number that denotes no function.
const NONE: u32 = u32::MAX;

/// Numbers of the last executed functions, the latest first. [`u32::MAX`] denotes no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window([u32; Window::LENGTH]);

impl Window {
    /// Number of distinct functions in the window.
    pub const LENGTH: usize = 8;

    /// Records that a function begins to run: calls `affinity` with each function that it has affinity to, the latest
    /// first. Returns false if the function was the last one executed: it continues, and there is no call.
    #[inline]
    pub fn enter(&mut self, function: u32, mut affinity: impl FnMut(u32)) -> bool {
        let last = &mut self.0;
        if last[0] == function {
            return false;
        }
        let mut depth = 0;
        while depth < Self::LENGTH && last[depth] != function && last[depth] != NONE {
            affinity(last[depth]);
            depth += 1;
        }
        last.copy_within(..depth.min(Self::LENGTH - 1), 1);
        last[0] = function;
        true
    }
}

impl Default for Window {
    fn default() -> Self {
        Self([NONE; Self::LENGTH])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists, for each function of a run, the functions that it has affinity to.
    fn affinity(run: &[u32]) -> Vec<Vec<u32>> {
        let mut window = Window::default();
        let enter = |function: &u32| {
            let mut told = Vec::new();
            window.enter(*function, |other| told.push(other));
            told
        };
        run.iter().map(enter).collect()
    }

    #[test]
    fn each_is_near_to_those_since_it_ran_last() {
        assert_eq!(
            affinity(&[1, 2, 2, 3, 1, 2]),
            [vec![], vec![1], vec![], vec![2, 1], vec![3, 2], vec![1, 3]]
        );
    }

    #[test]
    fn eight_are_remembered() {
        let run: Vec<u32> = (0..10).chain([0, 1]).collect();
        let told = affinity(&run);
        assert_eq!(told[9], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(told[10], [9, 8, 7, 6, 5, 4, 3, 2], "it is forgotten itself");
    }
}
