// SPDX-License-Identifier: MIT OR Apache-2.0
//! Symbols of a binary with their addresses, and weights of functions from a profile.

use super::Basis;
use sediment_core::binary::{Binary, BinaryFunction, names};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::matching::identity::{self, Match};
use sediment_core::profile::{FunctionIndex, Heat, Profile};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The functions of a binary by name and by address.
pub(super) struct BinarySymbols<'a> {
    pub(super) binary: &'a Binary,
    pub(super) by_name: BTreeMap<&'a str, Vec<&'a BinaryFunction>>,
    /// Functions that the compiler made from another one, by the name of that one; without cold parts.
    by_stem: HashMap<&'a str, Vec<&'a BinaryFunction>>,
    /// Addresses with the functions there, ascending.
    pub(super) by_address: BTreeMap<u64, Vec<&'a BinaryFunction>>,
    /// End of GNU ld's groups of cold, exit, start-up and hot functions, which is the first code of the C run-time's
    /// own objects.
    pub(super) groups_end: Option<u64>,
    /// The last split cold part before that.
    pub(super) last_cold: Option<u64>,
}

impl<'a> BinarySymbols<'a> {
    pub(super) fn of(binary: &'a Binary, file_name: &str) -> Result<Self> {
        if binary.functions.is_empty() {
            return Err(Error::new(
                ErrorCode::Stripped,
                format!("{file_name} is stripped: it has no function names"),
            )
            .with_hint("verify it before stripping, or give its debug file"));
        }
        let mut by_name: BTreeMap<&str, Vec<&BinaryFunction>> = BTreeMap::new();
        let mut by_address: BTreeMap<u64, Vec<&BinaryFunction>> = BTreeMap::new();
        let mut by_stem: HashMap<&str, Vec<&BinaryFunction>> = HashMap::new();
        for function in &binary.functions {
            let stem = names::stem(&function.name);
            if stem != function.name && names::split_from(&function.name).is_none() {
                by_stem.entry(stem).or_default().push(function);
            }
            by_name.entry(function.name.as_str()).or_default().push(function);
            by_address.entry(function.address).or_default().push(function);
        }
        let in_text = |function: &&BinaryFunction| function.section == ".text";
        let groups_end = ["_start", "deregister_tm_clones"]
            .into_iter()
            .flat_map(|name| by_name.get(name).into_iter().flatten())
            .filter(|function| in_text(function))
            .map(|function| function.address)
            .min();
        let last_cold = binary
            .functions
            .iter()
            .filter(|f| in_text(f) && groups_end.is_some_and(|end| f.address < end))
            .filter(|function| names::split_from(&function.name).is_some())
            .map(|function| function.address)
            .max();
        Ok(Self { binary, by_name, by_stem, by_address, groups_end, last_cold })
    }

    pub(super) fn named(&self, name: &str) -> &[&'a BinaryFunction] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn at(&self, address: u64) -> &[&'a BinaryFunction] {
        self.by_address.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Returns the functions to use for a missing one: the function of which it was a clone, otherwise the clones of
    /// that function.
    pub(super) fn made_of(&self, name: &str) -> impl Iterator<Item = &'a BinaryFunction> {
        let stem = names::stem(name);
        let whole: Vec<&BinaryFunction> = if stem == name { Vec::new() } else { self.named(stem).to_vec() };
        let clones = if whole.is_empty() && names::split_from(name).is_none() {
            self.by_stem.get(stem).cloned().unwrap_or_default()
        } else {
            Vec::new()
        };
        whole.into_iter().chain(clones)
    }

    /// Returns the specialised copies of a function, sorted. Its split cold part does not count as a copy.
    pub(super) fn clones(&self, name: &str) -> Vec<String> {
        let stem = format!("{name}.");
        self.by_name
            .range(stem.as_str()..)
            .map(|(candidate, _)| *candidate)
            .take_while(|candidate| candidate.starts_with(&stem))
            .filter(|candidate| {
                names::is_clone_of(candidate, name) && names::split_from(candidate) != Some(name)
            })
            .map(str::to_owned)
            .collect()
    }
}

/// True if all symbols of an address are cold parts that the compiler split off.
pub(super) fn is_cold_part(here: &[&BinaryFunction]) -> bool {
    !here.is_empty() && here.iter().all(|function| names::split_from(&function.name).is_some())
}

/// Weights of the program's functions by name.
pub(super) struct NameWeights<'a> {
    pub(super) basis: Basis,
    pub(super) cluster: Option<Match>,
    pub(super) by_name: BTreeMap<&'a str, NameWeight<'a>>,
    /// Names of other programs.
    pub(super) foreign: HashSet<&'a str>,
}

#[derive(Default)]
pub(super) struct NameWeight<'a> {
    pub(super) weight: u128,
    /// Files of local functions of this name, with the weight of each.
    pub(super) files: BTreeMap<&'a str, u128>,
    pub(super) heat: Option<Heat>,
}

impl<'a> NameWeights<'a> {
    /// The weights without a profile: 1 for each function.
    pub(super) fn uniform() -> Self {
        Self { basis: Basis::Functions, cluster: None, by_name: BTreeMap::new(), foreign: HashSet::new() }
    }

    pub(super) fn of(profile: &'a Profile, symbols: &BinarySymbols<'_>, file_name: &str) -> Result<Self> {
        let cluster = identity::dso_of(profile, symbols.binary, file_name);
        let label = cluster.as_ref().map(|found| found.label.as_str());
        let is_in_program = |function: FunctionIndex| match &profile.key(function).dso {
            Some(dso) => label == Some(dso),
            None => !symbols.named(&profile.key(function).name).is_empty(),
        };
        // No order lists functions that must stay in place.
        let is_ours = |function: FunctionIndex| {
            is_in_program(function) && !names::is_of_ocaml(&profile.key(function).name)
        };
        let (ours, others): (Vec<FunctionIndex>, Vec<FunctionIndex>) =
            profile.functions().into_iter().partition(|function| is_ours(*function));
        if ours.is_empty() {
            return Err(Error::new(
                ErrorCode::WrongBinary,
                format!("no function of the profile is in {file_name}: it is a profile of another program"),
            )
            .with_hint(format!("the profile has functions of: {}", crate::order::held(profile))));
        }
        let mut calls: HashMap<FunctionIndex, u128> = HashMap::new();
        for (_, callee, facts) in profile.edges() {
            let sum = calls.entry(callee).or_default();
            *sum = sum.saturating_add(facts.count.unwrap_or(0));
        }
        let samples = |function: FunctionIndex| profile.facts(function).samples.unwrap_or(0);
        let called = |function: FunctionIndex| calls.get(&function).copied().unwrap_or(0);
        let basis = if ours.iter().any(|function| called(*function) > 0) {
            Basis::Calls
        } else if ours.iter().any(|function| samples(*function) > 0) {
            Basis::Samples
        } else {
            Basis::Functions
        };
        let mut by_name: BTreeMap<&str, NameWeight> = BTreeMap::new();
        for function in ours {
            let key = profile.key(function);
            let weighed = by_name.entry(key.name.as_str()).or_default();
            let own = match basis {
                Basis::Calls => called(function),
                Basis::Samples => samples(function),
                Basis::Functions => 1,
            };
            weighed.weight = match basis {
                Basis::Functions => 1,
                _ => weighed.weight.saturating_add(own),
            };
            weighed.files.extend(key.file.as_deref().map(|file| (file, own)));
            weighed.heat = weighed.heat.or(profile.facts(function).heat);
        }
        let foreign = others.into_iter().map(|function| profile.key(function).name.as_str()).collect();
        Ok(Self { basis, cluster, by_name, foreign })
    }

    /// Returns the weight of the local function of this name and file; if the profile does not distinguish them, of all
    /// functions of this name.
    pub(super) fn of_file(&self, name: &str, file: Option<&str>) -> u128 {
        let weighed = self.by_name.get(name);
        let own = weighed.and_then(|weighed| weighed.files.get(file?)).copied();
        own.unwrap_or_else(|| self.of_name(name))
    }

    pub(super) fn of_name(&self, name: &str) -> u128 {
        let unlisted = u128::from(self.basis == Basis::Functions && self.by_name.is_empty());
        self.by_name.get(name).map_or(unlisted, |weighed| weighed.weight)
    }
}
