// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids of functions in a file: as short as possible, but distinct.

use crate::profile::{FunctionIndex, FunctionKey, Profile};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Returns each function with its id, in the order of the ids.
///
/// An id is the name, or `name@dso` if the name occurs more than once in the profile, or `name@dso:file` if that is not
/// enough. If ids would still be equal (a name can contain `@`), the first in the order of (dso, name, file) keeps the
/// id, and the others get `#2`, `#3`, …, skipping numbers that would give another function's id. Without a DSO or file,
/// that part of the id is missing.
pub(super) fn ids(profile: &Profile) -> Vec<(Cow<'_, str>, FunctionIndex)> {
    let functions = profile.functions();
    let mut names: HashMap<&str, u32, RandomState> = HashMap::default();
    let mut names_in_dsos: HashMap<(&str, Option<&str>), u32, RandomState> = HashMap::default();
    for &function in &functions {
        let FunctionKey { dso, name, .. } = profile.key(function);
        *names.entry(name).or_default() += 1;
        *names_in_dsos.entry((name, dso.as_deref())).or_default() += 1;
    }
    let plain = |function: FunctionIndex| {
        let FunctionKey { dso, name, file } = profile.key(function);
        if names[name.as_str()] == 1 {
            return Cow::Borrowed(name.as_str());
        }
        let alone = names_in_dsos[&(name.as_str(), dso.as_deref())] == 1;
        match (dso, file) {
            (None, Some(file)) if !alone => Cow::Owned(format!("{name}@:{file}")),
            (Some(dso), Some(file)) if !alone => Cow::Owned(format!("{name}@{dso}:{file}")),
            (Some(dso), _) => Cow::Owned(format!("{name}@{dso}")),
            (None, _) => Cow::Borrowed(name.as_str()),
        }
    };
    let mut ids: Vec<(Cow<str>, FunctionIndex)> =
        functions.into_iter().map(|function| (plain(function), function)).collect();
    // The sort is stable: equal ids stay in the order of the keys.
    ids.sort_by(|a, b| a.0.cmp(&b.0));
    number_repeats(&mut ids);
    ids
}

fn number_repeats(ids: &mut [(Cow<str>, FunctionIndex)]) {
    let repeated: Vec<usize> = (1..ids.len()).filter(|&at| ids[at].0 == ids[at - 1].0).collect();
    if repeated.is_empty() {
        return;
    }
    let mut taken: HashSet<String> = ids.iter().map(|(id, _)| id.clone().into_owned()).collect();
    let mut last = (String::new(), 1u64);
    for at in repeated {
        let id = ids[at].0.clone().into_owned();
        if last.0 != id {
            last = (id.clone(), 1);
        }
        let numbered = loop {
            last.1 += 1;
            let candidate = format!("{id}#{}", last.1);
            if taken.insert(candidate.clone()) {
                break candidate;
            }
        };
        ids[at].0 = Cow::Owned(numbered);
    }
    ids.sort_by(|a, b| a.0.cmp(&b.0));
}
