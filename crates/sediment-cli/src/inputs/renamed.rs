// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions of a profile that have other names in a linked file, for commands that use both.

use crate::files::{self, SystemFiles};
use crate::ui::Ui;
use sediment_core::Result;
use sediment_core::binary::Binary;
use sediment_core::binary::code::BuildCode;
use sediment_core::matching::identity;
use sediment_core::matching::printed::{self, PrintedNames};
use sediment_core::matching::renamed::{self, Renaming};
use sediment_core::plural::counted;
use sediment_core::profile::{FunctionIndex, FunctionKey, Profile, acceptable};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Number of renamed functions that are printed.
const SHOWN: usize = 3;

/// Replaces names that a tool printed by the names of matching symbols.
fn follow_printed(profile: &mut Profile, binary: &Binary, label: Option<&str>, file_name: &str, ui: &Ui) {
    let defined: HashSet<&str> = binary.functions.iter().map(|function| function.name.as_str()).collect();
    let is_meant = |key: &FunctionKey| {
        // Functions without a DSO belong to this program if it has them.
        (key.dso.is_none() || key.dso.as_deref() == label)
            && !defined.contains(key.name.as_str())
            && printed::is_printed(&key.name)
    };
    let meant: Vec<FunctionIndex> =
        profile.functions().into_iter().filter(|function| is_meant(profile.key(*function))).collect();
    if meant.is_empty() {
        return;
    }
    let names = PrintedNames::of(&binary.functions);
    let there = |key: &FunctionKey| {
        Some(&binary.functions[names.find(&key.name)?].name)
            .filter(|name| acceptable(name.as_bytes()).is_some())
    };
    let found: HashMap<FunctionKey, FunctionKey> = meant
        .into_iter()
        .filter_map(|function| {
            let key = profile.key(function);
            let symbol = FunctionKey { name: there(key)?.clone(), ..key.clone() };
            Some((key.clone(), symbol))
        })
        .collect();
    // Several printed names may denote the same function.
    let Some(joined) = profile.renamed(|key| found.get(key).unwrap_or(key).clone()) else { return };
    *profile = joined;
    let found = found.len();
    if found > 0 {
        ui.detail(&format!("{} of {file_name} found by demangled names", counted(found, "function")));
    }
}

/// Renames the functions in the profile and prints them; `root` is the system's root if it is not this system.
pub(crate) fn follow(
    profile: &mut Profile,
    binary: &Binary,
    path: &Path,
    root: Option<&Path>,
    ui: &Ui,
) -> Result<()> {
    let file_name = files::base_name(path);
    let label = identity::dso_of(profile, binary, &file_name).map(|found| found.label);
    follow_printed(profile, binary, label.as_deref(), &file_name, ui);
    let defined = binary.functions.iter().map(|function| function.name.as_str());
    if !renamed::lacks_any(profile, label.as_deref(), defined) {
        return Ok(());
    }
    let further = SystemFiles::new(root.map(Path::to_path_buf), &[])?;
    let Some(code) = BuildCode::of_binary(&files::read(path)?, binary, &further) else { return Ok(()) };
    let mut found = renamed::renamings(profile, label.as_deref(), &code);
    found.retain(|renaming| profile.rename(renaming.function, &renaming.new));
    if let [first, ..] = found.as_slice() {
        let named = |renaming: &Renaming| format!("{} is {}", renaming.old, renaming.new);
        let shown: Vec<String> = found.iter().take(SHOWN).map(named).collect();
        let more = if found.len() > shown.len() { ", …" } else { "" };
        ui.note(&match found.len() {
            1 => format!("renamed in {file_name}: {}", named(first)),
            count => {
                format!("{count} functions renamed in {file_name}: {}{more}", shown.join(", "))
            }
        });
    }
    Ok(())
}
