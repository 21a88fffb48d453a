// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--keep OLD`: an ordering file of before, changed only where that gains.

use crate::files;
use crate::ui::Ui;
use sediment::callgraph::FunctionId;
use sediment::order::{Older, Ordering};
use sediment::{Error, ErrorKind, Result, link};
use std::collections::HashSet;
use std::path::Path;

/// An ordering file of before.
pub(super) struct Old {
    file: String,
    names: Vec<String>,
    threshold: f64,
}

impl Old {
    pub(super) fn read(path: &Path, threshold: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&threshold) {
            return Err(Error::new(ErrorKind::Usage, "--keep-below is a share in per cent, from 0 to 100"));
        }
        let file = files::display(path);
        let bytes = files::read(path)?;
        let (_, asked) =
            link::read(&String::from_utf8_lossy(&bytes)).map_err(|error| error.with_input(file.clone()))?;
        let names = asked.into_iter().map(|asked| asked.name).collect();
        Ok(Self { file, names, threshold })
    }

    pub(super) fn older(&self) -> Older<'_> {
        Older { file: &self.file, names: &self.names, threshold: self.threshold }
    }
}

/// Two lines: what moved, and what that gains.
pub(super) fn say_what_moved(made: &Ordering, old: &Old, ui: &Ui) {
    let Some(older) = &made.kept else { return };
    let (graph, kept) = (&made.built.graph, &older.kept);
    let name_of = |function: FunctionId| made.built.table.keys[function.index()].name.as_str();
    let (moved, moved_bytes) = kept.sum(graph, &kept.moved);
    let named: HashSet<&str> = older.known.iter().map(|id| name_of(*id)).collect();
    let added: Vec<bool> =
        graph.ids().map(|id| kept.added[id.index()] && !named.contains(name_of(id))).collect();
    let (added, added_bytes) = kept.sum(graph, &added);
    let bytes: u64 = graph.sizes().iter().fold(0, |sum, size| sum.saturating_add(*size));
    // Only for the eye: the quotient of two floats is near enough.
    let share = 100.0 * moved_bytes as f64 / bytes.max(1) as f64;
    ui.note(&format!(
        "keep: {}: {moved} functions moved, {moved_bytes} of {bytes} bytes ({share:.1}%); {added} added, {added_bytes} bytes; {} left out, as the profile does not have them",
        old.file, older.gone
    ));
    let above = |cost: f64| (100.0 * (cost - 1.0)).max(0.0);
    ui.note(&format!(
        "keep: predicted misses are {:.1}% above those of an order from scratch, {:.1}% before; --keep-below {} decides",
        above(kept.cost),
        above(kept.cost_of_old),
        100.0 * old.threshold
    ));
}
