// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace contains parts of a run as calls in their order, from short windows of time.
//!
//! In a window, each thread notes its calls in its block of counters, up to a number. The stubs compare this number with
//! 0, so a window opens and closes by one store for each block: no program stops, and no code changes. If the recorder is
//! killed in a window, the threads stop after that number. The longer the recording takes, the rarer are the windows;
//! there are none between bursts.

use super::image::{CommonParts, ProgramImage};
use super::sequence::{CallEvent, sequence};
use super::tally::CallTally;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Length of a window, and initial time from the end of one to the beginning of the next.
const WINDOW: Duration = Duration::from_millis(1);
const GAP: Duration = Duration::from_micros(200);
/// Number of calls kept from all windows.
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
    /// Image and block of the threads that note calls.
    noting: BTreeSet<(usize, u32)>,
    windows: Vec<TracedWindow>,
    calls: usize,
}

/// Calls of a thread in a window.
#[derive(Debug)]
struct TracedWindow {
    number: u32,
    image: usize,
    block: u32,
    calls: Vec<CallEvent>,
}

impl CallTrace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            is_open: false,
            turned: now.checked_sub(GAP).unwrap_or(now),
            gap: GAP,
            number: 0,
            noting: BTreeSet::new(),
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
            let blocks = image.begin_noting(&common.shared).into_iter();
            self.noting.extend(blocks.map(|block| (number, block)));
        }
        self.is_open = true;
        self.turned = now;
    }

    /// Closes an open window, so that programs which continue note nothing more.
    pub(super) fn end(&mut self, images: &[Option<ProgramImage>], common: &CommonParts) {
        if self.is_open {
            self.close(images, common);
        }
    }

    fn close(&mut self, images: &[Option<ProgramImage>], common: &CommonParts) {
        for (number, image) in numbered(images) {
            self.keep(number, image, common);
        }
        self.noting.clear();
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

    /// Stores the calls that the threads of a program have noted in the open window.
    fn keep(&mut self, number: usize, image: &ProgramImage, common: &CommonParts) {
        let own: Vec<(usize, u32)> = self.noting.range((number, 0)..=(number, u32::MAX)).copied().collect();
        for (image_number, block) in own {
            self.noting.remove(&(image_number, block));
            let calls = image.end_noting(block, &common.shared);
            if calls.len() < 2 || self.calls >= 2 * MOST_CALLS {
                continue;
            }
            self.calls += calls.len();
            self.windows.push(TracedWindow { number: self.number, image: number, block, calls });
        }
    }

    /// Adds the windows of a program that ends to the counts.
    pub(super) fn retire(
        &mut self,
        number: usize,
        image: &ProgramImage,
        common: &CommonParts,
        tally: &mut CallTally,
    ) {
        self.keep(number, image, common);
        let windows = std::mem::take(&mut self.windows).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = windows.partition(|window| window.image == number);
        self.windows = others;
        let mut known = HashMap::new();
        for TracedWindow { block, calls, .. } in own {
            let thread = (number as u64) << 32 | u64::from(block);
            let ran = sequence(&calls, |event| {
                let find = || image.noted_call(event, &common.modules, tally);
                *known.entry((event.stub, event.target)).or_insert_with(find)
            });
            tally.trace.push((thread, ran));
        }
    }
}

fn numbered(images: &[Option<ProgramImage>]) -> impl Iterator<Item = (usize, &ProgramImage)> {
    images.iter().enumerate().filter_map(|(number, image)| Some((number, image.as_ref()?)))
}
