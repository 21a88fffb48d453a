// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the contents of a collected file in at most ten lines, and where to send it.

use crate::distribution::Owner;
use crate::files::SystemFiles;
use crate::packages::{self, Package};
use crate::ui::Ui;
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::Profile;
use sediment_read::read::Recording;
use std::collections::BTreeSet;
use std::path::Path;

/// Prints a short description of the data that would be sent.
pub(super) fn tell_contents(profile: &Profile, package: &Package, files: &SystemFiles, ui: &Ui) {
    const TOLD: usize = 4;
    let functions = profile.functions();
    let labels = profile.dsos();
    ui.note(&format!("the file about {} contains:", package.version));
    for (label, facts) in labels.iter().take(TOLD) {
        let of_label = functions
            .iter()
            .filter(|function| profile.key(**function).dso.as_deref() == Some(label.as_str()));
        let build = facts.build_id.as_ref().map_or_else(String::new, |id| format!(", build-id {id}"));
        ui.note(&format!("  {} of {label}{build}", counted(of_label.count(), "function")));
    }
    if labels.len() > TOLD {
        ui.note(&format!("  and functions of {} more programs and libraries", labels.len() - TOLD));
    }
    let nameless = functions.iter().filter(|function| profile.is_nameless(**function)).count();
    if nameless > 0 {
        ui.note(&format!(
            "  addresses in place of names for {} of them, because the file is stripped (the maintainer's debug file has the names)",
            grouped(nameless)
        ));
        tell_symbols(profile, package, files, ui);
    }
    ui.note(&format!(
        "  the order of first use, and {} between functions",
        counted(profile.edge_count(), "edge")
    ));
    ui.note("  nothing about you, this machine, other programs, your files, arguments, data or times");
}

/// Prints a line on how to get symbols for a package's stripped files, for users who want to see names.
fn tell_symbols(profile: &Profile, package: &Package, files: &SystemFiles, ui: &Ui) {
    let nameless = |facts: &&sediment_core::profile::DsoFacts| facts.unresolved;
    let Some(build_id) = profile.dsos().values().find(nameless).and_then(|facts| facts.build_id.as_deref())
    else {
        return;
    };
    let os_release = files.os_release();
    let owner = Some(&package.owner);
    let policy = packages::apt_policy(owner, Some(package.root()));
    let symbols = packages::debug_symbols(os_release.as_deref(), owner, "", Some(build_id), &policy);
    let how = match symbols.package {
        Some(package) if !ui.is_verbose() => format!("install {package} (-v prints how)"),
        _ => symbols.command,
    };
    ui.note(&format!("  to see their names (not needed to send the file): {how}"));
}

/// Prints the path of the file written for these packages.
pub(super) fn tell_written(profile: &Profile, packages: &[Package], to: &str, is_shown: bool, ui: &Ui) {
    ui.note(&format!(
        "wrote {} of {} to {to}",
        counted(profile.function_count(), "function"),
        packages.iter().map(|package| package.version.as_str()).collect::<Vec<_>>().join(", ")
    ));
    if !is_shown {
        ui.note("to see its contents: --show, or any editor");
    }
}

/// Prints packages of the same source that were also loaded but are in no file.
pub(super) fn tell_left_out(recording: &Recording, packages: &[Package], ui: &Ui) {
    let sources: BTreeSet<&str> =
        packages.iter().filter_map(|package| package.owner.source.as_deref()).collect();
    let Some(root) = packages.first().map(Package::root).filter(|_| !sources.is_empty()) else { return };
    let paths = recording.dsos().iter().map(|dso| dso.path.as_str());
    let others = paths.filter(|path| !packages.iter().any(|package| package.has(path))).map(Path::new);
    let owners = others.filter_map(|path| {
        let inside = Path::new("/").join(path.strip_prefix(root).unwrap_or(path));
        packages::owner(&inside, Some(root))
    });
    let is_sibling = |owner: &Owner| owner.source.as_deref().is_some_and(|source| sources.contains(source));
    let siblings: BTreeSet<String> = owners.filter(is_sibling).map(|owner| owner.name).collect();
    if siblings.is_empty() {
        return;
    }
    let left_out: Vec<&str> = siblings.iter().map(String::as_str).collect();
    let named: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    ui.note(&format!(
        "left out {}, from the same source package; for one file about all: sediment collect {} {} -o FILE",
        left_out.join(", "),
        named.join(" "),
        left_out.join(" ")
    ));
}

/// Prints where the package accepts profiles, if it does.
pub(super) fn tell_where_to_send(package: &Package, ui: &Ui) {
    if let Some(place) = &package.takes_profiles {
        return ui.note(&format!("nothing was sent; {} takes profiles: {place}", package.name));
    }
    if package.contacts.is_empty() {
        return ui.note(&format!(
            "nothing was sent; {} does not ask for profiles: keep it for your own builds",
            package.name
        ));
    }
    ui.note(&format!("nothing was sent; {} ships profiles, and may take yours:", package.name));
    for line in &package.contacts {
        ui.note(&format!("  {line}"));
    }
}
