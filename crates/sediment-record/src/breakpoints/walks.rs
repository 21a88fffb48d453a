// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks through functions: the third kind of window, for the rates of blocks.
//!
//! The executed blocks of some functions are armed. A block that is hit is armed again as soon as another block of its
//! function is hit, up to a number of steps. So the visits of blocks are counted in the right proportion, independently
//! of the function's rate. The other windows show how often the function is called and which calls it makes.
//! Repetitions of a block with no other block in between are one step.
//!
//! Functions are drawn as for rates, and by the number of calls that they make, because functions that run long make
//! many calls. Functions with many visits are drawn less often. Many short walks give a better sample than a few long
//! ones, because consecutive blocks show a single moment of the program.

use super::log::Log;
use super::modules::Modules;
use super::modules::Site;
use super::space::AddressSpace;
use sediment_core::random::Generator;
use std::collections::{BTreeMap, BTreeSet};

/// Number of functions in one walk.
const FUNCTIONS: usize = 16;
/// Number of draws for them, because not all functions have blocks.
const DRAWS: usize = 4 * FUNCTIONS;
/// Steps of a function for each executed block, and limits of their number.
const STEPS_OF_A_BLOCK: usize = 2;
const FEWEST_STEPS: usize = 16;
const MOST_STEPS: usize = 256;
/// A function has enough visits if the mean number per block is at least this.
const ENOUGH: u64 = 8;
/// Share of draws that are used for a function with enough visits.
const SELDOM: f64 = 1.0 / 8.0;

/// A function: its module, and its number among the module's functions with blocks.
type ModuleFunction = (u32, u32);

/// The functions of an open walk.
#[derive(Debug, Default)]
pub(super) struct BlockWalk {
    functions: BTreeMap<ModuleFunction, Walked>,
}

/// A function that is walked through.
#[derive(Debug)]
struct Walked {
    left: usize,
    /// Last executed block, which is not armed.
    last: Option<Site>,
}

impl BlockWalk {
    /// Draws functions and arms their executed blocks. Returns the armed blocks.
    pub(super) fn begin(
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        log: &Log,
        random: &mut Generator,
        mut draw: impl FnMut(&mut Generator) -> Site,
    ) -> (Self, BTreeSet<Site>) {
        let (mut walk, mut blocks) = (Self::default(), BTreeSet::new());
        for _ in 0..DRAWS {
            let site = draw(random);
            let module = modules.get(site.module);
            let Some(owner) = module.entries[site.entry as usize].owner else { continue };
            let of_function = module.mapped[owner as usize].blocks.iter();
            let executed: Vec<Site> = of_function
                .map(|entry| Site { entry: *entry, ..site })
                .filter(|block| log.has_block(*block))
                .collect();
            let visits: u64 = executed.iter().map(|block| log.visits(*block)).sum();
            let enough = visits > ENOUGH * executed.len() as u64;
            if executed.len() < 2 || enough && random.unit() > SELDOM {
                continue;
            }
            let left = (executed.len() * STEPS_OF_A_BLOCK).clamp(FEWEST_STEPS, MOST_STEPS);
            if walk.functions.insert((site.module, owner), Walked { left, last: None }).is_none() {
                blocks.extend(executed);
            }
            if walk.functions.len() == FUNCTIONS {
                break;
            }
        }
        let armed = space.arm_again(modules, &blocks);
        (walk, armed)
    }

    /// Handles a hit of a waiting block, or of a block inside a function that had not run before. False if the block
    /// belongs to no function of this walk.
    pub(super) fn hit(
        &mut self,
        space: &mut AddressSpace,
        modules: &Modules<'_>,
        waiting: &mut BTreeSet<Site>,
        site: Site,
    ) -> bool {
        let module = modules.get(site.module);
        let entry = module.entries[site.entry as usize];
        let Some(owner) = entry.owner else { return false };
        let Some(walked) = self.functions.get_mut(&(site.module, owner)) else { return false };
        if !waiting.contains(&site) {
            if entry.is_function {
                return false;
            }
            waiting.insert(site);
        }
        walked.left = walked.left.saturating_sub(1);
        let last = walked.last.replace(site);
        if walked.left > 0 {
            if let Some(last) = last.filter(|last| *last != site) {
                space.arm_again(modules, &BTreeSet::from([last]));
            }
            return true;
        }
        self.functions.remove(&(site.module, owner));
        let of_function = module.mapped[owner as usize].blocks.iter();
        let done: BTreeSet<Site> = of_function
            .map(|entry| Site { entry: *entry, ..site })
            .filter(|block| waiting.remove(block))
            .collect();
        space.disarm(modules, &done);
        true
    }

    /// True once every function has made all its steps.
    pub(super) fn is_over(&self) -> bool {
        self.functions.is_empty()
    }
}
