// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment doctor`: what this machine can record, and what would allow more.

use crate::ui::Ui;
use clap::Args;
use sediment::Result;
use sediment::record::RECORDERS;
use std::fmt::Write as _;

/// Say what this machine can record, and what would allow more
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments, ui: &Ui) -> Result<()> {
    let mut text = String::from("Recording, the best first:\n");
    let mut chosen = false;
    for recorder in RECORDERS {
        let works = (recorder.available)();
        let mark = match &works {
            Ok(()) if !chosen => "works, and is what `sediment record` takes",
            Ok(()) => "works",
            Err(_) => "does not work",
        };
        chosen |= works.is_ok();
        let _ = writeln!(
            text,
            "\n  {}: {mark}\n    {}; without {}",
            recorder.name, recorder.summary, recorder.lacks
        );
        if let Err(why) = works {
            let _ = writeln!(text, "    why: {why}");
            for line in why.hint().into_iter().flat_map(str::lines) {
                let _ = writeln!(text, "    to allow it: {line}");
            }
        }
    }
    ui.result(&text)
}
