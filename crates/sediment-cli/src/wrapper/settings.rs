// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the settings of a package and its older orders, from the folder of its profiles.

use crate::files;
use crate::kept_order;
use sediment_core::matching::identity;
use sediment_core::{Error, Result};
use sediment_order::order::Older;
use sediment_order::wrapper::settings::{self, ORDER, PackageSettings, share};
use std::path::Path;

/// Limit for the size of the settings, and of an older order.
const LONGEST_SETTINGS: u64 = 1 << 20;
const LONGEST_ORDER: u64 = 256 << 20;

/// Reads a settings file.
pub(crate) fn read(path: &Path) -> Result<PackageSettings> {
    let bytes = files::read_at_most(path, LONGEST_SETTINGS)?;
    settings::parse(&bytes).map_err(|error| error.with_input(files::display(path)))
}

/// Reads the settings in a folder of profiles; the defaults if it has none.
pub(crate) fn of_folder(folder: &Path) -> Result<PackageSettings> {
    let path = folder.join(settings::FILE);
    if path.symlink_metadata().is_err() { Ok(PackageSettings::default()) } else { read(&path) }
}

/// Reads the older order that the settings name for an output, if any: by the names of the output, or by the label of
/// its profile.
pub(crate) fn older_of(
    folder: &Path,
    settings: &PackageSettings,
    [soname, file_name, label]: [Option<&str>; 3],
) -> Result<Option<Older>> {
    let programs: Vec<&str> = settings.keep.iter().filter_map(|name| name.strip_suffix(ORDER)).collect();
    let by_name = identity::by_name(soname, file_name.unwrap_or_default(), &programs);
    let by_label = || label.filter(|label| programs.contains(label)).map(str::to_owned);
    let Some(program) = by_name.map(|found| found.label).or_else(by_label) else { return Ok(None) };
    older_in(folder, &format!("{program}{ORDER}"), share(settings.keep_below))
}

/// Reads every older order that the settings name.
///
/// # Errors
/// For the first file that is missing or is not an ordering file.
pub(crate) fn check_older(folder: &Path, settings: &PackageSettings) -> Result<()> {
    settings.keep.iter().try_for_each(|name| older_in(folder, name, 0.0).map(drop))
}

fn older_in(folder: &Path, name: &str, threshold: f64) -> Result<Option<Older>> {
    let path = folder.join(name);
    let hint = |error: Error| error.with_hint(format!("{} lists this order as one to keep", settings::FILE));
    let bytes = files::read_at_most(&path, LONGEST_ORDER).map_err(hint)?;
    kept_order::read(&path, &bytes, threshold).map_err(hint)
}
