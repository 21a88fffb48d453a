// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links of the outputs that differ only by padding. The wrapper makes them during the build with the order.

use super::links::{self, LinkedOutput};
use super::measure::LAYOUTS;
use crate::files;
use crate::padding_object;
use crate::ui::Ui;
use crate::wrapper::layouts::{SECTION, of_side};
use sediment_core::random::Generator;
use sediment_core::{ErrorKind, Result};
use sediment_measure::{judge, padding};
use sediment_process::Stop;
use std::path::{Path, PathBuf};

/// Folder of the padding objects and of the links, in the working folder.
pub(super) const FOLDER: &str = "layouts";

/// Makes the padding objects. If `cc` fails, there are no layouts, and the measurement reports that.
pub(super) fn make_objects(folder: &Path, stop: &Stop, ui: &Ui) -> Result<()> {
    let _ = std::fs::remove_dir_all(folder);
    files::folder(folder)?;
    let mut luck = Generator::new(1);
    for number in 1..=judge::LEAST_LAYOUTS {
        let object = folder.join(format!("{number}.o"));
        match padding_object::make(&object, SECTION, padding::draw(&mut luck), stop) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                ui.note(&format!("no layouts to compare: {error}"));
                return Ok(());
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Puts the layouts of one side next to its files, by number. `linked` has each output as the build linked it. An
/// output without layouts is used unchanged in every layout.
pub(super) fn collect(
    outputs: &[LinkedOutput],
    linked: &[Option<&LinkedOutput>],
    log: &Path,
    side: &str,
    folder: &Path,
) -> Result<()> {
    let log = links::read(log);
    let made = |output: &&LinkedOutput| {
        let made = links::of_output(&log, output)?["layouts"].as_str()?;
        Some(of_side(Path::new(made), side))
    };
    let made: Vec<Option<Vec<PathBuf>>> =
        linked.iter().map(|output| output.as_ref().and_then(made)).collect();
    let count = made.iter().flatten().map(Vec::len).min().unwrap_or(0);
    let _ = std::fs::remove_dir_all(folder.join(LAYOUTS));
    for number in 0..count {
        for (index, output) in outputs.iter().enumerate() {
            let inside = Path::new(&index.to_string()).join(output.name());
            let layout = folder.join(LAYOUTS).join((number + 1).to_string()).join(&inside);
            if let Some(parent) = layout.parent() {
                files::folder(parent)?;
            }
            match &made[index] {
                // A link is enough, because each run makes a copy.
                Some(made) => files::link_or_copy(&made[number], &layout)?,
                None => files::link_or_copy(&folder.join(&inside), &layout)?,
            }
        }
    }
    Ok(())
}
