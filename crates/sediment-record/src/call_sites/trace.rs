// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace: parts of a run as calls in their order, for short windows of time.
//!
//! During a window, the hook of each stub calls code that notes the call in the block of its thread. A window opens and closes by one aligned
//! store of 8 bytes for each hook, in memory that the programs share: none of them stops, and no code of a file changes. The hook is one
//! instruction of 5 bytes at any time, so that no thread is ever between its old and its new bytes. Windows are rarer the longer the
//! recording takes, and there is none while a burst is over.

use super::counters::KEPT_EVENTS;
use super::image::{CommonParts, ProgramImage};
use super::modules::PlannedModules;
use super::tally::CallTally;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time of a window, and least time from one to the next.
const WINDOW: Duration = Duration::from_micros(200);
const PERIOD: Duration = Duration::from_millis(2);
/// Number of windows until their number doubles with the time.
const WINDOWS: u32 = 512;
/// Calls of a window that a thread may still overwrite, and calls kept of all windows.
const MARGIN: u32 = 32;
const MOST_CALLS: usize = 1 << 20;

/// Windows of a recording.
#[derive(Debug)]
pub(super) struct CallTrace {
    is_open: bool,
    begun: Instant,
    turned: Instant,
    /// Number of calls that a block had noted as the window opened, by image and block.
    noted: HashMap<(usize, u32), u32>,
    windows: Vec<TracedWindow>,
    calls: usize,
}

/// Calls of a thread in a window.
#[derive(Debug)]
struct TracedWindow {
    image: usize,
    block: u32,
    calls: Vec<u64>,
}

impl CallTrace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            is_open: false,
            begun: now,
            turned: now.checked_sub(PERIOD).unwrap_or(now),
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
        let period = PERIOD.max((now - self.begun) / WINDOWS);
        if !is_counting || passed < period || self.calls >= MOST_CALLS {
            return;
        }
        for (number, image) in numbered(images) {
            let noted = image.noted(&common.shared).into_iter();
            self.noted.extend(noted.map(|(block, count)| ((number, block), count)));
        }
        // Without a mapping there is no trace.
        self.is_open = common.rooms.switch_hooks(true, &common.shared).is_ok();
        self.turned = now;
    }

    fn close(&mut self, images: &[Option<ProgramImage>], common: &CommonParts) {
        let _ = common.rooms.switch_hooks(false, &common.shared);
        for (number, image) in numbered(images) {
            self.keep(number, image, common);
        }
        self.noted.clear();
        self.is_open = false;
        self.turned = Instant::now();
    }

    /// Keeps what the threads of a program have noted since the window opened.
    pub(super) fn keep(&mut self, number: usize, image: &ProgramImage, common: &CommonParts) {
        for (block, count) in image.noted(&common.shared) {
            let before = self.noted.insert((number, block), count).unwrap_or(0);
            let kept = count.wrapping_sub(before).min(KEPT_EVENTS as u32 - MARGIN);
            if kept < 2 || self.calls >= MOST_CALLS {
                continue;
            }
            let ring = image.noted_calls(block, &common.shared);
            let place = |back: u32| count.wrapping_sub(back) as usize % ring.len();
            let calls: Vec<u64> = (1..=kept).rev().map(|back| ring[place(back)]).collect();
            self.calls += calls.len();
            self.windows.push(TracedWindow { image: number, block, calls });
        }
    }

    /// Adds the windows of a program that ends to what was counted.
    pub(super) fn retire(
        &mut self,
        number: usize,
        image: &ProgramImage,
        modules: &PlannedModules,
        tally: &mut CallTally,
    ) {
        let (own, others) =
            std::mem::take(&mut self.windows).into_iter().partition(|window| window.image == number);
        self.windows = others;
        let own: Vec<TracedWindow> = own;
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
