// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives names to functions without names, from the debug file of the build that their addresses belong to.
//!
//! A function takes the name that a recording of the unstripped file would have given it: the name of the function that
//! contains its address. Two addresses in one function become one, and their numbers are added.

use sediment_core::binary::{AddressIndex, Binary, Files, NoFiles, SymbolSource, same_build_id};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::profile::{FunctionKey, Profile, address_of_nameless};
use std::collections::{BTreeMap, BTreeSet};

/// Outcome of one DSO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamingOutcome {
    /// Its label in the profile.
    pub label: String,
    /// The build that its addresses belong to.
    pub build_id: String,
    /// True if its debug file was found.
    pub found: bool,
    /// Number of functions that have names now.
    pub named: usize,
    /// Number of functions without a name, because the debug file names nothing there, or was not found.
    pub left: usize,
}

/// Gives names to the functions for which `files` has debug files. Returns the outcome for each DSO that had functions
/// without names, by label.
///
/// # Errors
/// If a debug file is damaged, belongs to another build or has no symbols, or if an address is outside the code of the
/// file.
pub fn name(profile: &Profile, files: &dyn Files) -> Result<(Profile, Vec<NamingOutcome>)> {
    let mut outcomes = Vec::new();
    let mut names: BTreeMap<FunctionKey, FunctionKey> = BTreeMap::new();
    let unresolved = profile.dsos().iter().filter(|(_, facts)| facts.unresolved);
    for (label, build_id) in unresolved.filter_map(|(label, facts)| Some((label, facts.build_id.as_ref()?))) {
        let nameless: Vec<(&FunctionKey, u64)> = profile
            .functions()
            .into_iter()
            .map(|function| profile.key(function))
            .filter(|key| key.dso.as_ref() == Some(label))
            .filter_map(|key| Some((key, address_of_nameless(&key.name)?)))
            .collect();
        let mut outcome = NamingOutcome {
            label: label.clone(),
            build_id: build_id.clone(),
            found: false,
            named: 0,
            left: 0,
        };
        if let Some(bytes) = files.debug_file_by_build_id(build_id) {
            let binary = debug_file(&bytes, label, build_id)?;
            let symbols = DebugFileSymbols::of(&binary, label);
            outcome.found = true;
            for (key, address) in &nameless {
                if let Some(named) = symbols.name(key, *address)? {
                    names.insert((*key).clone(), named);
                }
            }
        }
        outcome.named = nameless.iter().filter(|(key, _)| names.contains_key(key)).count();
        outcome.left = nameless.len() - outcome.named;
        outcomes.push(outcome);
    }
    let renamed = profile.renamed(|key| names.get(key).unwrap_or(key).clone());
    let mut renamed = renamed
        .ok_or_else(|| Error::new(ErrorCode::Overflow, "the numbers of the profile exceed 128 bits"))?;
    renamed.keep_unresolved_where_nameless();
    Ok((renamed, outcomes))
}

/// The debug file of a build.
fn debug_file(bytes: &[u8], label: &str, build_id: &str) -> Result<Binary> {
    let of_file = |error: Error| error.with_input(format!("the debug file of {label}"));
    let binary = Binary::parse(bytes, &NoFiles).map_err(of_file)?;
    let found = binary.build_id.as_deref().unwrap_or("none");
    if !same_build_id(found, build_id) {
        return Err(of_file(
            Error::new(
                ErrorCode::WrongBinary,
                format!(
                    "debug file of another build: its build-id is {found}, but the profile has {build_id}"
                ),
            )
            .with_hint("addresses differ between builds: give the debug file of the recorded build"),
        ));
    }
    if binary.symbols_from == SymbolSource::DynamicSymbols {
        return Err(of_file(
            Error::new(ErrorCode::Stripped, "it has only exported symbols").with_hint(
                "give the unstripped file, or the debug file of its -dbgsym or -debuginfo package",
            ),
        ));
    }
    Ok(binary)
}

/// The symbols of a debug file, for many addresses.
struct DebugFileSymbols<'a> {
    label: &'a str,
    binary: &'a Binary,
    index: AddressIndex<'a>,
    same_named: BTreeSet<&'a str>,
}

impl<'a> DebugFileSymbols<'a> {
    fn of(binary: &'a Binary, label: &'a str) -> Self {
        Self { label, binary, index: binary.address_index(), same_named: binary.same_named_locals() }
    }

    /// Finds the function at an address, with the name that a recording would have; `None` if there is none.
    fn name(&self, key: &FunctionKey, address: u64) -> Result<Option<FunctionKey>> {
        let in_code =
            self.binary.code_sections.iter().any(|section| {
                address.checked_sub(section.address).is_some_and(|inside| inside < section.size)
            });
        if !in_code {
            return Err(Error::new(
                ErrorCode::Damaged,
                format!("the function {address:#x} of {} lies outside the code of that file", self.label),
            )
            .with_hint("the profile was damaged or made up: discard it"));
        }
        let Some(function) = self.index.function_at(address) else { return Ok(None) };
        let file = function
            .file
            .as_ref()
            .filter(|_| function.local && self.same_named.contains(function.name.as_str()));
        let bytes = |part: &Option<String>| part.as_ref().map(|text| text.clone().into_bytes());
        Ok(FunctionKey::new(
            bytes(&key.dso).as_deref(),
            function.name.as_bytes(),
            file.map(|file| file.as_bytes()),
        ))
    }
}
