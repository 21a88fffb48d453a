// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts addresses and printed symbols to functions, once.
//!
//! Steps: load the available binaries (`dsos`), find the meaning of every recorded address (`AddressMeanings`), replace stubs of the
//! procedure linkage table by the functions they lead to, and add up the transfers between functions.
//!
//! The identity of a function is the same everywhere (docs/profile-format.md): the label of its DSO, its name, and its
//! file if the DSO has several local functions of this name. Everything else of the recording (addresses, paths) is not
//! used after this step.

mod blocks;
mod dsos;
mod early;
mod executions;
mod identity;
mod imported;
pub mod lines;
pub mod nameless;
mod return_addresses;
mod stripped;

pub use dsos::label;
pub use identity::{Doubt, Unproven};
use sediment_core::skipped::{Amount, NoCall, Nowhere, Reason, Skipped};
pub use stripped::{Stripped, stripped};

use crate::read::{AddressId, RecordedAddress, Recording, Spot, TransferKind};
use dsos::Dsos;
pub use imported::ImportedShare;
use sediment_core::binary::{Files, names};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::isa::Flow;
use sediment_core::profile::{CallKind, FunctionIndex, FunctionKey, Profile, WeightUnit, acceptable};
use std::collections::{BTreeSet, HashMap};

/// Settings of [`resolve_with`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ResolveSettings {
    /// Uses a binary even if its build-id is not the recorded one, or the recorded addresses do not fit it. Functions
    /// may then get wrong names.
    pub ignore_build_id: bool,
    /// Skips the events in a binary that is damaged or is another build now, instead of failing.
    pub skip_other_builds: bool,
}

/// Turns addresses into functions: symbols are parsed, addresses looked up in the binaries that `files` has. See
/// [`resolve_with`].
///
/// # Errors
/// The errors of [`resolve_with`].
pub fn resolve(recording: &Recording, files: &dyn Files) -> Result<(Profile, Skipped)> {
    let Resolved { profile, skipped, .. } = resolve_with(recording, files, ResolveSettings::default())?;
    Ok((profile, skipped))
}

/// Profile made from a recording.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The profile.
    pub profile: Profile,
    /// The function of each address, by [`AddressId`]; None for addresses outside of functions.
    pub functions: Vec<Option<FunctionIndex>>,
    /// Items skipped here, not those that the reader skipped; weights are calls.
    pub skipped: Skipped,
    /// The stripped DSOs in which something was lost.
    pub stripped: Vec<Stripped>,
    /// Calls or own cost of the recording that came into the profile.
    pub imported: ImportedShare,
    /// The files that were used although nothing shows that they are the recorded ones.
    pub unproven: Vec<Unproven>,
}

/// Turns addresses into functions: symbols are parsed, addresses looked up in the binaries that `files` has.
///
/// A [`TransferKind::Branch`] is a call if it leads from one function to the first byte of another, and its source is
/// neither a return nor a jump (known on x86, AArch64, RISC-V, s390x and POWER). If only the names of both ends are
/// known, it is a call if these differ. Transfers that are not calls are subtracted from the total: the profile's total
/// is the number of all counted calls, including those with an unresolved end. If one end of a transfer is unresolved,
/// the function at the other end is kept.
///
/// # Errors
/// If an available binary is damaged, is not the recorded one or has none of the recorded names; and if nothing in the
/// recording can be resolved, with a list of what is missing.
pub fn resolve_with(recording: &Recording, files: &dyn Files, settings: ResolveSettings) -> Result<Resolved> {
    let mut skipped = Skipped::default();
    let mut loaded = dsos::load(recording, files, settings, &mut skipped)?;
    let mut unproven = Vec::new();
    if !settings.ignore_build_id && !recording.return_addresses {
        let found = identity::check(recording, &Dsos::new(recording, &loaded), files)?;
        unproven = found.unproven;
        for id in found.others {
            loaded[id.0 as usize] = None;
            skipped.add(Reason::UnaskedFile, 0, &recording.dsos()[id.0 as usize].path);
        }
    }
    let dsos = Dsos::new(recording, &loaded);
    if recording.return_addresses && !settings.ignore_build_id {
        return_addresses::check(recording, &dsos)?;
    }
    if !settings.ignore_build_id {
        check_names(recording, &dsos)?;
    }
    let ends = AddressMeanings::new(recording, &dsos, &mut skipped);
    let mut profile = begin(recording, &dsos, &mut skipped);
    let functions = add_functions(&mut profile, &ends, &mut skipped);
    blocks::add(&mut profile, recording, &dsos, files, &mut skipped)?;
    let (no_calls, through_stubs) =
        add_transfers(&mut profile, recording, &dsos, &ends, &functions, &mut skipped);
    profile.total = recording.total.saturating_sub(no_calls);
    add_samples(&mut profile, recording, &ends, &functions, &mut skipped);
    if profile.function_count() == 0 {
        return Err(nothing_resolved(recording, &dsos, &skipped));
    }
    describe_dsos(&mut profile, &dsos, &mut skipped);
    refuse_beyond_unit(&profile)?;
    let stripped = stripped::lost_in(recording, &dsos, &ends);
    let imported = ImportedShare::of(recording, &profile, through_stubs, &skipped);
    Ok(Resolved { profile, functions, skipped, stripped, imported, unproven })
}

/// Meaning of an address.
#[derive(Debug)]
enum AddressMeaning {
    /// A function. `first_byte`: true if the address is its first byte, `None` if only the name is known. `local`:
    /// true if no other DSO can call it by its name. `nameless`: its name is its address.
    Function { key: FunctionKey, size: Option<u64>, first_byte: Option<bool>, local: bool, nameless: bool },
    /// A stub that leads to the function of this name.
    Stub { name: String, first_byte: Option<bool> },
    /// Nothing that can be named.
    Lost(Nowhere),
}

impl AddressMeaning {
    fn first_byte(&self) -> Option<bool> {
        match self {
            AddressMeaning::Function { first_byte, .. } | AddressMeaning::Stub { first_byte, .. } => {
                *first_byte
            }
            AddressMeaning::Lost(_) => None,
        }
    }
}

/// Meaning of each address, by its id, and the targets of stubs.
struct AddressMeanings {
    ends: Vec<AddressMeaning>,
    stub_targets: HashMap<String, (FunctionKey, Option<u64>)>,
}

impl AddressMeanings {
    fn new(recording: &Recording, dsos: &Dsos, skipped: &mut Skipped) -> Self {
        let source_files = SourceFilesByName::of(recording, dsos);
        let ends: Vec<AddressMeaning> =
            recording.addresses().iter().map(|place| end_of(place, dsos, &source_files, skipped)).collect();
        let mut seen: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for end in &ends {
            if let AddressMeaning::Function { key, local: false, .. } = end {
                let labels = seen.entry(&key.name).or_default();
                labels.extend(key.dso.as_deref());
            }
        }
        let led_to = led_to(recording, &ends);
        let mut stub_targets = HashMap::new();
        for end in &ends {
            let AddressMeaning::Stub { name, .. } = end else { continue };
            if stub_targets.contains_key(name) {
                continue;
            }
            if let Some(Some((key, size))) = led_to.get(name.as_str()) {
                stub_targets.insert(name.clone(), ((*key).clone(), *size));
                continue;
            }
            let mut definers: BTreeSet<&str> = seen.get(name.as_str()).cloned().unwrap_or_default();
            if definers.is_empty() {
                definers = dsos.definers(name);
            }
            // If two files define it, it is unclear which one was called.
            let dso =
                if definers.len() == 1 { definers.first().map(|label| (*label).to_owned()) } else { None };
            let size = dso.as_ref().and_then(|label| dsos.global_size(label, name));
            if dso.as_ref().is_some_and(|label| dsos.is_indirect(label, name)) {
                skipped.add(Reason::IndirectVariant, 0, name);
            }
            let key = FunctionKey { dso, name: name.clone(), file: None };
            stub_targets.insert(name.clone(), (key, size));
        }
        Self { ends, stub_targets }
    }

    fn of(&self, place: AddressId) -> &AddressMeaning {
        &self.ends[place.0 as usize]
    }

    fn function<'a>(&'a self, end: &'a AddressMeaning) -> Option<(&'a FunctionKey, Option<u64>)> {
        match end {
            AddressMeaning::Function { key, size, .. } => Some((key, *size)),
            AddressMeaning::Stub { name, .. } => self.stub_targets.get(name).map(|(key, size)| (key, *size)),
            AddressMeaning::Lost(_) => None,
        }
    }
}

/// The function to which all stubs of a name led, by its own name: the executed variant of an indirect function, or
/// another name of the same code. `None` if they led to several functions.
fn led_to<'a>(
    recording: &Recording,
    ends: &'a [AddressMeaning],
) -> HashMap<&'a str, Option<(&'a FunctionKey, Option<u64>)>> {
    let mut led_to: HashMap<&str, Option<(&FunctionKey, Option<u64>)>> = HashMap::new();
    for (from, to, kind, _) in recording.transfers() {
        let (AddressMeaning::Stub { name, .. }, AddressMeaning::Function { key, size, first_byte, .. }) =
            (&ends[from.0 as usize], &ends[to.0 as usize])
        else {
            continue;
        };
        if kind == TransferKind::Affinity || *first_byte == Some(false) || binds_stubs(&key.name) {
            continue;
        }
        let one = led_to.entry(name).or_insert(Some((key, *size)));
        if one.is_some_and(|(known, _)| known != key) {
            *one = None;
        }
    }
    led_to
}

/// True for the dynamic linker's function that a stub calls the first time.
fn binds_stubs(name: &str) -> bool {
    name.starts_with("_dl_runtime_resolve")
}

/// The files that the recording itself gives for functions of one name, if no symbol table is available.
struct SourceFilesByName(HashMap<(Option<String>, String), BTreeSet<String>>);

impl SourceFilesByName {
    fn of(recording: &Recording, dsos: &Dsos) -> Self {
        let mut files: HashMap<(Option<String>, String), BTreeSet<String>> = HashMap::new();
        for place in recording.addresses() {
            let Spot::Symbol { name, file: Some(file) } = &place.spot else { continue };
            let (Some(name), Some(file)) = (acceptable(names::symbol(name).name), dsos::source_file(file))
            else {
                continue;
            };
            let label = place.dso.and_then(|id| dsos.label(id)).map(str::to_owned);
            files.entry((label, name.to_owned())).or_default().insert(file);
        }
        Self(files)
    }

    fn several(&self, key: &FunctionKey) -> bool {
        self.0.get(&(key.dso.clone(), key.name.clone())).is_some_and(|files| files.len() > 1)
    }
}

fn end_of(
    place: &RecordedAddress,
    dsos: &Dsos,
    source_files: &SourceFilesByName,
    skipped: &mut Skipped,
) -> AddressMeaning {
    let label = match place.dso.map(|id| dsos.label(id)) {
        None => None,
        Some(Some(label)) => Some(label.to_owned()),
        Some(None) => return AddressMeaning::Lost(Nowhere::Unacceptable),
    };
    match &place.spot {
        Spot::FileOffset(_) | Spot::Address(_) => end_at_address(place, label.as_deref(), dsos),
        Spot::Symbol { name, file } => {
            end_of_symbol(place, (name, file.as_deref()), label.as_deref(), dsos, source_files, skipped)
        }
    }
}

fn end_at_address(place: &RecordedAddress, label: Option<&str>, dsos: &Dsos) -> AddressMeaning {
    let Some(view) = place.dso.and_then(|id| dsos.view(id)) else {
        return AddressMeaning::Lost(Nowhere::NotAtHand);
    };
    let found = match place.spot {
        Spot::Address(number) => view.at_address(number),
        Spot::FileOffset(number) => view.at_file_offset(number),
        Spot::Symbol { .. } => return AddressMeaning::Lost(Nowhere::NoName),
    };
    match found {
        Err(lost) => AddressMeaning::Lost(lost),
        Ok(dsos::At::Stub { target, first_byte }) => match acceptable(target.as_bytes()) {
            Some(name) => AddressMeaning::Stub { name: name.to_owned(), first_byte: Some(first_byte) },
            None => AddressMeaning::Lost(Nowhere::Unacceptable),
        },
        // If two builds have this label, the build of an address is unknown.
        Ok(dsos::At::Function { function, .. })
            if view.is_nameless(function) && label.is_none_or(|label| dsos.build_ids(label).len() != 1) =>
        {
            AddressMeaning::Lost(Nowhere::NoFunction)
        }
        Ok(dsos::At::Function { function, file, first_byte }) => {
            let name = function.name.as_bytes();
            match FunctionKey::new(label.map(str::as_bytes), name, file.map(str::as_bytes)) {
                Some(key) => AddressMeaning::Function {
                    key,
                    size: (function.size > 0).then_some(function.size),
                    first_byte: Some(first_byte),
                    local: function.local,
                    nameless: view.is_nameless(function),
                },
                None => AddressMeaning::Lost(Nowhere::Unacceptable),
            }
        }
    }
}

fn end_of_symbol(
    place: &RecordedAddress,
    (printed, file): (&[u8], Option<&[u8]>),
    label: Option<&str>,
    dsos: &Dsos,
    source_files: &SourceFilesByName,
    skipped: &mut Skipped,
) -> AddressMeaning {
    let symbol = names::symbol(printed);
    if symbol.unresolved && symbol.plt {
        return AddressMeaning::Lost(Nowhere::StubWithoutTarget);
    }
    if symbol.unresolved || dsos::is_no_name(symbol.name) {
        return AddressMeaning::Lost(Nowhere::NoName);
    }
    let Some(mut key) = FunctionKey::new(label.map(str::as_bytes), symbol.name, None) else {
        return AddressMeaning::Lost(Nowhere::Unacceptable);
    };
    if symbol.plt {
        return AddressMeaning::Stub { name: key.name, first_byte: None };
    }
    let source_file = file.and_then(dsos::source_file);
    let (mut size, mut local) = (None, false);
    let dso = place.dso.or_else(|| dsos.owner(&key.name));
    if place.dso.is_none() {
        key.dso = dso.and_then(|id| dsos.label(id)).map(str::to_owned);
    }
    if let Some(view) = dso.and_then(|id| dsos.view(id)) {
        match view.by_name(&key.name, source_file.as_deref()) {
            dsos::NameMeaning::Unknown if view.is_stripped() => {
                skipped.add(Reason::StrippedSize, 0, &key.name);
            }
            dsos::NameMeaning::Unknown => {
                skipped.add(Reason::UnknownSize, 0, &key.name);
            }
            // Tracers give a called function the name of the stub in the program.
            dsos::NameMeaning::Import => return AddressMeaning::Stub { name: key.name, first_byte: None },
            dsos::NameMeaning::Function { function, file } => {
                key.file = file.map(str::to_owned);
                // A tool may have printed this name in another form.
                if key.name != function.name && acceptable(function.name.as_bytes()).is_some() {
                    key.name.clone_from(&function.name);
                }
                size = (function.size > 0).then_some(function.size);
                local = function.local;
            }
            dsos::NameMeaning::Ambiguous => skipped.add(Reason::AmbiguousName, 0, &key.name),
        }
    } else if source_files.several(&key) {
        key.file = source_file;
    }
    AddressMeaning::Function { key, size, first_byte: None, local, nameless: false }
}

fn begin(recording: &Recording, dsos: &Dsos, skipped: &mut Skipped) -> Profile {
    let mut profile = Profile::default();
    profile.unit = WeightUnit::Calls;
    let source = recording.source.to_string();
    match acceptable(source.as_bytes()) {
        Some(_) => drop(profile.source.insert(source)),
        None => skipped.add(Reason::UnacceptableSource, 0, &source),
    }
    let recorded_arch =
        recording.arch.as_deref().and_then(|arch| acceptable(arch.as_bytes())).map(str::to_owned);
    profile.arch.extend(recorded_arch.or_else(|| dsos.arch()));
    profile.quality = recording.quality;
    profile
}

/// Adds every function, by address; None for addresses outside of functions.
fn add_functions(
    profile: &mut Profile,
    ends: &AddressMeanings,
    skipped: &mut Skipped,
) -> Vec<Option<FunctionIndex>> {
    let mut functions = Vec::with_capacity(ends.ends.len());
    for end in &ends.ends {
        let Some((key, size)) = ends.function(end) else {
            functions.push(None);
            continue;
        };
        let function = profile.function(key.clone());
        let known = &mut profile.facts_mut(function).size;
        if known.is_some() && size.is_some() && *known != size {
            skipped.add(Reason::SmallerSize, 0, &key.name);
        }
        *known = (*known).max(size);
        functions.push(Some(function));
    }
    functions
}

/// Adds the transfers. Returns the weight of the transfers that are not calls, and the weight of the calls made by
/// stubs.
fn add_transfers(
    profile: &mut Profile,
    recording: &Recording,
    dsos: &Dsos,
    ends: &AddressMeanings,
    functions: &[Option<FunctionIndex>],
    skipped: &mut Skipped,
) -> (u128, u128) {
    let (mut no_calls, mut through_stubs): (u128, u128) = (0, 0);
    for (from, to, kind, count) in recording.transfers() {
        let (source, target) = (ends.of(from), ends.of(to));
        let (caller, callee) = (functions[from.0 as usize], functions[to.0 as usize]);
        let same = caller.is_some() && caller == callee;
        if kind == TransferKind::Branch {
            let flow = dsos.flow(&recording.addresses()[from.0 as usize]);
            // The caller of a linkage stub called the function that the stub jumps to.
            let through_stub = matches!(source, AddressMeaning::Stub { .. });
            let why = if flow == Flow::Return {
                Some(NoCall::Return)
            } else if same {
                Some(NoCall::Inside)
            } else if target.first_byte() == Some(false) {
                Some(NoCall::IntoTheMiddle)
            } else if flow == Flow::Jump && !through_stub {
                Some(NoCall::TailJump)
            } else {
                None
            };
            if let Some(why) = why {
                no_calls = no_calls.saturating_add(count);
                skipped.add(Reason::NoCall(why), count, "");
                continue;
            }
        }
        let (Some(caller), Some(callee)) = (caller, callee) else {
            let (why, place) = match (source, target) {
                (AddressMeaning::Lost(why), _) => (why, from),
                (_, AddressMeaning::Lost(why)) => (why, to),
                _ => continue,
            };
            let amount = if kind == TransferKind::Affinity { Amount::AffinityEdges } else { Amount::Calls };
            skipped.add(why.of(amount), count, dsos.example(&recording.addresses()[place.0 as usize]));
            continue;
        };
        // The caller of the stub called the stub's target, so the step from the stub to its target is not a second
        // call.
        let from_stub =
            matches!(source, AddressMeaning::Stub { .. }) && !binds_stubs(&profile.key(callee).name);
        let one_function = same || profile.key(caller).name == profile.key(callee).name;
        if from_stub || matches!(target, AddressMeaning::Stub { .. }) && one_function {
            match kind {
                TransferKind::Branch => no_calls = no_calls.saturating_add(count),
                TransferKind::Affinity => {}
                TransferKind::Call | TransferKind::Uncertain => {
                    through_stubs = through_stubs.saturating_add(count);
                }
            }
            skipped.add(Reason::StubPassage, count, &profile.key(callee).name);
            continue;
        }
        let facts = profile.edge_mut(caller, callee);
        match kind {
            TransferKind::Uncertain if facts.count.is_none() => facts.kind = Some(CallKind::Uncertain),
            TransferKind::Call | TransferKind::Branch => facts.kind = None,
            TransferKind::Uncertain | TransferKind::Affinity => {}
        }
        let sum = match kind {
            TransferKind::Affinity if same => continue,
            TransferKind::Affinity => &mut facts.affinity,
            TransferKind::Call | TransferKind::Branch | TransferKind::Uncertain => &mut facts.count,
        };
        *sum = Some(sum.unwrap_or(0).saturating_add(count));
    }
    (no_calls, through_stubs)
}

fn add_samples(
    profile: &mut Profile,
    recording: &Recording,
    ends: &AddressMeanings,
    functions: &[Option<FunctionIndex>],
    skipped: &mut Skipped,
) {
    for (place, cost) in recording.samples() {
        match (functions[place.0 as usize], ends.of(place)) {
            (Some(function), _) => {
                let samples = &mut profile.facts_mut(function).samples;
                *samples = Some(samples.unwrap_or(0).saturating_add(cost));
            }
            (None, AddressMeaning::Lost(why)) => skipped.add(why.of(Amount::OwnCost), cost, ""),
            (None, _) => {}
        }
    }
    for (place, rank) in recording.first_uses() {
        if let Some(function) = functions[place.0 as usize] {
            let first = &mut profile.facts_mut(function).first;
            *first = Some(first.map_or(rank, |known| known.min(rank)));
        }
    }
}

/// Refuses sums that the profile's file could not hold, before anything is written.
fn refuse_beyond_unit(profile: &Profile) -> Result<()> {
    let what = match profile.first_beyond_unit() {
        Some(function) => format!("the counts of `{}` add up to {}", function.name, profile.unit.beyond()),
        None if profile.unit.holds([Some(profile.total)]) => return Ok(()),
        None => format!("the counts add up to {}", profile.unit.beyond()),
    };
    Err(Error::new(ErrorCode::Overflow, what)
        .with_hint("is the recording damaged, or are its numbers not counts?"))
}

/// Sets the build-id of each cluster, because the addresses of unnamed functions are valid for this build only.
fn describe_dsos(profile: &mut Profile, dsos: &Dsos, skipped: &mut Skipped) {
    let labels: Vec<String> = profile.dsos().keys().cloned().collect();
    for label in &labels {
        let build_ids = dsos.build_ids(label);
        if build_ids.len() > 1 {
            skipped.add(Reason::SeveralBuildIds, 0, label);
        } else if let Some(build_id) = build_ids.into_iter().next() {
            let facts = profile.dso_mut(label);
            facts.build_id = Some(build_id);
            facts.unresolved = dsos.has_nameless(label);
        }
    }
    profile.keep_unresolved_where_nameless();
}

/// Refuses a recording of names if no available binary has any of these names.
fn check_names(recording: &Recording, dsos: &Dsos) -> Result<()> {
    let found = dsos.names_found(recording);
    if found.values().any(|(_, known)| *known) {
        return Ok(());
    }
    let is_stripped = |id: &crate::read::DsoId| dsos.view(*id).is_some_and(dsos::BinaryView::is_stripped);
    let label = |id: &crate::read::DsoId| dsos.label(*id).unwrap_or("the binary").to_owned();
    if let Some((id, (names, _))) = found.iter().find(|(id, _)| !is_stripped(id)) {
        return Err(Error::new(
            ErrorCode::WrongBinary,
            format!(
                "none of the {names} recorded functions is in {}: it is a profile of another program",
                label(id)
            ),
        )
        .with_hint("give the recorded program with --binary; --ignore-build-id continues anyway"));
    }
    // If there are several DSOs, the recording itself says where each function is. It was made with symbols that are
    // not available here.
    let everywhere: BTreeSet<_> = recording.addresses().iter().map(|place| place.dso).collect();
    match found.first_key_value() {
        Some((id, (names, _))) if everywhere.len() == 1 => Err(Error::new(ErrorCode::WrongBinary,format!(
            "none of the {names} recorded functions is in {}: it is stripped, or not the recorded program",
            label(id)
        ))
        .with_hint(
            "give the recorded program with its symbols (--binary), or install its debug symbols (-dbgsym, -debuginfo, or debuginfod); --ignore-build-id continues anyway",
        )),
        _ => Ok(()),
    }
}

fn nothing_resolved(recording: &Recording, dsos: &Dsos, skipped: &Skipped) -> Error {
    if recording.addresses().is_empty() {
        let reasons: Vec<String> =
            recording.skipped.iter().map(|(reason, entry)| format!("{} {reason}", entry.items)).collect();
        let error = Error::new(
            ErrorCode::Unresolved,
            "the recording has no calls and no cost in a program or library",
        );
        return if reasons.is_empty() {
            error
        } else {
            error.with_hint(format!("skipped: {}", reasons.join("; ")))
        };
    }
    let of_no_program =
        |place: &RecordedAddress| place.dso.is_none() && !matches!(place.spot, Spot::Symbol { .. });
    if recording.addresses().iter().all(of_no_program) {
        return Error::new(
            ErrorCode::NeedsBinary,
            "the recording has addresses, but not the name of the program",
        )
        .with_hint("name the recorded program: --binary PROGRAM");
    }
    let missing = dsos.missing();
    let count = recording.addresses().len();
    if missing.is_empty() {
        let reasons: Vec<String> = skipped.iter().map(|(reason, _)| reason.to_string()).collect();
        return Error::new(
            ErrorCode::Unresolved,
            format!("none of the {count} recorded addresses is in a known function"),
        )
        .with_found(reasons.join("; ").as_bytes())
        .with_hint(
            "are the programs stripped? install their debug symbols (-dbgsym, -debuginfo, or debuginfod)",
        );
    }
    const LISTED: usize = 8;
    let mut list = missing[..missing.len().min(LISTED)].join(", ");
    if missing.len() > LISTED {
        list.push_str(&format!(" and {} more", missing.len() - LISTED));
    }
    Error::new(ErrorCode::Unresolved,format!("none of the {count} recorded addresses could be resolved; missing files: {list}")).with_hint(
        "give the recorded programs (--binary, or --symfs with the recorded machine's files), and install debug symbols of stripped ones (-dbgsym, -debuginfo, or debuginfod)",
    )
}
