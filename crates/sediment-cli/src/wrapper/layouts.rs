// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes further links of an ordered output, without and with the order. Each has an unused function of another size
//! before all others. Their times show the effect of layout luck.
//!
//! `SEDIMENT_LAYOUTS` names a folder with objects `1.o`, `2.o`, …, each with the function [`FUNCTION`] in the section
//! [`SECTION`]. The links are in a folder of their own below it, as `before-1`, `after-1`, `before-2`, …. They are made
//! before the real link, so that files which the linker writes next to its output come from the real link.
//!
//! `SEDIMENT_NOISE` names such a folder for links without an order, with the name of the output in the file [`NAME`]. Only the links
//! `before-N` are made then.

use super::log::{self, OrderFile};
use super::{Ordered, WrappedLink};
use crate::files;
use sediment_order::link::Placement;
use sediment_order::wrapper::plan;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Variable that names the folder.
pub(crate) const LAYOUTS: &str = "SEDIMENT_LAYOUTS";
/// Variable that names the folder for links without an order.
pub(crate) const NOISE: &str = "SEDIMENT_NOISE";
/// File with the name of the output.
pub(crate) const NAME: &str = "name";
/// Section of the unused function. Linkers place unlikely code first.
pub(crate) const SECTION: &str = ".text.unlikely.sediment_padding";
/// Linkage name of the unused function.
const FUNCTION: &str = "sediment_eval_padding";
/// Time limit for the two links with one padding object. If they take longer, no further links are made.
const LONGEST: Duration = Duration::from_secs(60);

/// Makes the links, and returns their folder. Returns `None` if no links are requested, if the linker reads no order,
/// and if a link fails (this function does not report the failure).
pub(super) fn link(link: &WrappedLink<'_>, ordered: &Ordered, file: &OrderFile) -> Option<PathBuf> {
    let asked = PathBuf::from(super::caller::variable(LAYOUTS)?);
    if ordered.joiner.is_some() {
        return None;
    }
    let folder = files::folder(&asked.join(file.path().file_stem()?)).ok()?;
    let order = folder.join("order");
    let padding = Placement {
        name: FUNCTION.to_owned(),
        sections: vec![SECTION.to_owned()],
        cold_sections: Vec::new(),
        cold_name: None,
        files: Vec::new(),
        weight: u64::MAX,
        is_rest: false,
        calls: Vec::new(),
    };
    let padded: Vec<Placement> = std::iter::once(padding).chain(ordered.placements.iter().cloned()).collect();
    files::write_owned(&order, (ordered.dialect.write)(&padded).0.as_bytes()).ok()?;
    let mut in_order = plan::plugin_arguments(link.line);
    in_order.extend(plan::order_arguments(ordered.dialect, order.as_os_str()));
    link_sides(link, &asked, &folder, &[("before", &[], false), ("after", &in_order, true)])?;
    Some(folder)
}

/// Makes the links of an output without an order, and returns their folder; `None` if none are requested, and if a link
/// fails.
pub(super) fn link_unordered(link: &WrappedLink<'_>) -> Option<PathBuf> {
    let asked = PathBuf::from(super::caller::variable(NOISE)?);
    let name = std::fs::read(asked.join(NAME)).ok()?;
    if log::output(link.line).file_name()?.as_bytes() != name {
        return None;
    }
    let folder = files::folder(&asked.join(std::process::id().to_string())).ok()?;
    link_sides(link, &asked, &folder, &[("before", &[], false)])?;
    Some(folder)
}

/// A side of the comparison: its name, its further arguments, and true if it is ordered.
type LinkSide<'a> = (&'a str, &'a [OsString], bool);

/// Links each side with each padding object of one folder, into another folder.
fn link_sides(link: &WrappedLink<'_>, objects: &Path, folder: &Path, sides: &[LinkSide<'_>]) -> Option<()> {
    for number in 1.. {
        let object = objects.join(format!("{number}.o"));
        if !object.is_file() {
            break;
        }
        let began = Instant::now();
        for (side, more, is_ordered) in sides {
            let output = folder.join(format!("{side}-{number}"));
            let mut arguments: Vec<OsString> = vec![object.clone().into()];
            arguments.extend_from_slice(link.arguments);
            arguments.extend_from_slice(more);
            // With `-u`, linkers that drop unreferenced code keep the function. The last `-o` counts.
            arguments.extend(["-u", FUNCTION, "-o"].map(OsString::from));
            arguments.push(output.into());
            if !link.linker.run(&arguments, *is_ordered).ok()?.successful() {
                return None;
            }
        }
        if began.elapsed() > LONGEST {
            break;
        }
    }
    Some(())
}

/// The files of one side in such a folder, in the order of their numbers.
pub(crate) fn of_side(folder: &Path, side: &str) -> Vec<PathBuf> {
    (1..).map(|number| folder.join(format!("{side}-{number}"))).take_while(|path| path.is_file()).collect()
}
