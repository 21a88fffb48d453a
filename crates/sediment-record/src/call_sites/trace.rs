// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace contains parts of a run as calls in their order, from short windows of time.
//!
//! During a window, the hook of each stub calls code that notes the call in the block of its thread. A window opens and
//! closes by one aligned store of 8 bytes for each hook, in memory that the programs share. No program stops, and no
//! code of a file changes. The hook is always a single instruction of 5 bytes, so no thread is ever between its old and
//! its new bytes. The longer the recording takes, the rarer are the windows; there are none between bursts.

use super::counters::KEPT_EVENTS;
use super::image::{CommonParts, ProgramImage};
use super::modules::PlannedModules;
use super::tally::CallTally;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Length of a window, and initial time from the end of one to the beginning of the next.
const WINDOW: Duration = Duration::from_millis(1);
const GAP: Duration = Duration::from_millis(2);
/// Number of calls in a window that its thread may overwrite while they are read; and number of calls kept from all
/// windows.
const MARGIN: u32 = 32;
const MOST_CALLS: usize = 1 << 21;

/// Windows of a recording.
#[derive(Debug)]
pub(super) struct CallTrace {
    is_open: bool,
    turned: Instant,
    /// Time between two windows.
    gap: Duration,
    /// Number of windows.
    number: u32,
    /// Number of calls that a block had noted when the window opened, by image and block.
    noted: HashMap<(usize, u32), u32>,
    windows: Vec<TracedWindow>,
    calls: usize,
}

/// Calls of a thread in a window.
#[derive(Debug)]
struct TracedWindow {
    number: u32,
    image: usize,
    block: u32,
    calls: Vec<u64>,
}

impl CallTrace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            is_open: false,
            turned: now.checked_sub(GAP).unwrap_or(now),
            gap: GAP,
            number: 0,
            noted: HashMap::new(),
            windows: Vec::new(),
            calls: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Opens or closes a window if it is time.
    pub(super) fn take_turn(
        &mut self,
        images: &[Option<ProgramImage>],
        common: &CommonParts,
        is_counting: bool,
    ) {
        let now = Instant::now();
        let passed = now - self.turned;
        if self.is_open {
            if passed >= WINDOW {
                self.close(images, common);
            }
            return;
        }
        if !is_counting || passed < self.gap {
            return;
        }
        if self.calls >= MOST_CALLS {
            self.thin();
        }
        for (number, image) in numbered(images) {
            let noted = image.noted(&common.shared).into_iter();
            self.noted.extend(noted.map(|(block, count)| ((number, block), count)));
        }
        // Without a mapping, nothing is traced.
        self.is_open = common.rooms.switch_hooks(true, &common.shared).is_ok();
        self.turned = now;
    }

    /// Closes an open window, so that programs which continue note nothing more.
    pub(super) fn end(&mut self, images: &[Option<ProgramImage>], common: &CommonParts) {
        if self.is_open {
            self.close(images, common);
        }
    }

    fn close(&mut self, images: &[Option<ProgramImage>], common: &CommonParts) {
        let _ = common.rooms.switch_hooks(false, &common.shared);
        for (number, image) in numbered(images) {
            self.keep(number, image, common);
        }
        self.noted.clear();
        self.number += 1;
        self.is_open = false;
        self.turned = Instant::now();
    }

    /// Drops every other window, and halves the rate of windows from now on, so that all parts of a run count alike.
    fn thin(&mut self) {
        let (mut last, mut stays) = (None, false);
        self.windows.retain(|window| {
            stays ^= last.replace(window.number) != Some(window.number);
            if !stays {
                self.calls -= window.calls.len();
            }
            stays
        });
        self.gap *= 2;
    }

    /// Stores the calls that the threads of a program have noted since the window opened.
    pub(super) fn keep(&mut self, number: usize, image: &ProgramImage, common: &CommonParts) {
        for (block, count) in image.noted(&common.shared) {
            let before = self.noted.insert((number, block), count).unwrap_or(0);
            let kept = count.wrapping_sub(before).min(KEPT_EVENTS as u32 - MARGIN);
            if kept < 2 || self.calls >= 2 * MOST_CALLS {
                continue;
            }
            let ring = image.noted_calls(block, &common.shared);
            let place = |back: u32| count.wrapping_sub(back) as usize % ring.len();
            let calls: Vec<u64> = (1..=kept).rev().map(|back| ring[place(back)]).collect();
            self.calls += calls.len();
            self.windows.push(TracedWindow { number: self.number, image: number, block, calls });
        }
    }

    /// Adds the windows of a program that ends to the counts.
    pub(super) fn retire(
        &mut self,
        number: usize,
        image: &ProgramImage,
        modules: &PlannedModules,
        tally: &mut CallTally,
    ) {
        let windows = std::mem::take(&mut self.windows).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = windows.partition(|window| window.image == number);
        self.windows = others;
        for TracedWindow { block, calls, .. } in own {
            let thread = (number as u64) << 32 | u64::from(block);
            let places = calls.iter().filter_map(|call| image.noted_call(*call, modules, tally)).flatten();
            let places = places.collect();
            tally.trace.push((thread, places));
        }
    }
}

fn numbered(images: &[Option<ProgramImage>]) -> impl Iterator<Item = (usize, &ProgramImage)> {
    images.iter().enumerate().filter_map(|(number, image)| Some((number, image.as_ref()?)))
}
