// SPDX-License-Identifier: MIT OR Apache-2.0
//! The DSOs of a recording: their labels, the available binaries, and the meaning of an address or a name in these.

use super::ResolveSettings;
use crate::read::{DsoId, RecordedAddress, RecordedDso, Recording, Spot};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sediment_core::binary::{
    AddressIndex, Binary, BinaryFunction, Files, FilesBeside, SymbolSource, file_evidence, names,
    same_build_id,
};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::isa::{Flow, Isa, LONGEST_CALL};
use sediment_core::matching::printed::{PrintedNames, is_printed};
use sediment_core::profile::acceptable;
use sediment_core::skipped::{Nowhere, Reason, Skipped};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;

/// An available binary.
pub(super) struct Loaded {
    bytes: Vec<u8>,
    binary: Binary,
    /// Base name, if the recording has none.
    name: Option<String>,
}

/// Loads the binaries of the DSOs from `files`, indexed by DSO. A DSO without recorded events is only used for the names it defines, and
/// skipped if it is unusable.
pub(super) fn load(
    recording: &Recording,
    files: &dyn Files,
    settings: ResolveSettings,
    skipped: &mut Skipped,
) -> Result<Vec<Option<Loaded>>> {
    let used = used(recording);
    let nameless = with_nameless(recording);
    let is_from_elsewhere = is_from_elsewhere(recording, files);
    let load_one = |(index, dso): (usize, &RecordedDso)| {
        let build_id = dso.build_id.as_deref();
        let Some(bytes) = files.binary(&dso.path, build_id) else { return Ok(None) };
        let is_chosen = files.is_chosen(&dso.path, build_id);
        // Recordings with names may come from another machine, so the files of this machine are not theirs.
        let can_miss = || !is_chosen && (!nameless[index] || files.names_some());
        match load_one(dso, bytes, files, settings) {
            Ok(loaded) if is_from_elsewhere && !is_chosen && !loaded.has_recorded_id(dso) => {
                if used[index] {
                    skipped.add(Reason::OtherMachineFile, 0, base_name(&dso.path));
                }
                Ok(None)
            }
            Err(error)
                if used[index]
                    && (settings.skip_other_builds
                        || (error.code() == ErrorCode::WrongBinary && can_miss())) =>
            {
                let reason =
                    if files.names_some() && !is_chosen { Reason::UnaskedFile } else { Reason::ReplacedFile };
                skipped.add(reason, 0, base_name(&dso.path));
                Ok(None)
            }
            Err(error) if used[index] => Err(error.with_input(base_name(&dso.path))),
            other => Ok(other.ok()),
        }
    };
    recording.dsos().iter().enumerate().map(load_one).collect()
}

/// True if the recording names another machine than the one whose files are available.
fn is_from_elsewhere(recording: &Recording, files: &dyn Files) -> bool {
    recording.origin.host.as_ref().zip(files.host().as_ref()).is_some_and(|(recorded, here)| recorded != here)
}

/// True for each DSO, by id, for which events were recorded.
fn used(recording: &Recording) -> Vec<bool> {
    with_one(recording, |_| true)
}

/// True for each DSO, by id, that has an address without a name.
fn with_nameless(recording: &Recording) -> Vec<bool> {
    with_one(recording, |spot| !matches!(spot, Spot::Symbol { .. }))
}

/// True for each DSO, by id, that has a spot of this kind.
fn with_one(recording: &Recording, is_meant: impl Fn(&Spot) -> bool) -> Vec<bool> {
    let mut found = vec![false; recording.dsos().len()];
    for dso in
        recording.addresses().iter().filter(|place| is_meant(&place.spot)).filter_map(|place| place.dso)
    {
        found[dso.0 as usize] = true;
    }
    found
}

fn load_one(
    dso: &RecordedDso,
    bytes: Vec<u8>,
    files: &dyn Files,
    settings: ResolveSettings,
) -> Result<Loaded> {
    let binary = Binary::parse(&bytes, &FilesBeside { files, path: &dso.path })?.with_nameless(&bytes);
    if let (Some(recorded), Some(found), false) = (&dso.build_id, &binary.build_id, settings.ignore_build_id)
    {
        if !same_build_id(recorded, found) {
            return Err(Error::new(ErrorCode::WrongBinary, format!(
                "not the recorded file: its build-id is {found}, but the recording has {recorded}"
            ))
            .with_hint(format!(
                "give the recorded build of {} with its debug symbols; to read only one program, name it: --binary PROGRAM; to use this file at the risk of wrong names: --ignore-build-id",
                dso.path
            )));
        }
    }
    // Some tools name a file by its build-id.
    let has_no_name = dso.build_id.as_ref().is_some_and(|id| *id == dso.path);
    let name = if has_no_name { files.file_name(&dso.path, dso.build_id.as_deref()) } else { None };
    Ok(Loaded { bytes, binary, name })
}

impl Loaded {
    /// True if the recording has a build-id, and this file has the same.
    fn has_recorded_id(&self, dso: &RecordedDso) -> bool {
        let both = dso.build_id.as_ref().zip(self.binary.build_id.as_ref());
        both.is_some_and(|(recorded, own)| same_build_id(recorded, own))
    }
}

/// The DSOs of a recording, by id.
pub(super) struct Dsos<'a> {
    recorded: &'a [RecordedDso],
    dsos: Vec<Dso<'a>>,
}

struct Dso<'a> {
    used: bool,
    label: Option<String>,
    view: Option<BinaryView<'a>>,
}

/// Functions of a binary by their names, as indices.
struct FunctionNames {
    hasher: RandomState,
    /// First function of each name.
    first: HashTable<u32>,
    /// By index: the next function of this name; an index of no function after the last.
    next: Vec<u32>,
}

impl FunctionNames {
    fn new(functions: &[BinaryFunction]) -> Self {
        let hasher = RandomState::default();
        let hash = |index: &u32| hasher.hash_one(functions[*index as usize].name.as_str());
        let mut first: HashTable<u32> = HashTable::with_capacity(functions.len());
        let mut next = vec![u32::MAX; functions.len()];
        for index in (0..functions.len() as u32).rev() {
            let name = &functions[index as usize].name;
            let is_same = |other: &u32| functions[*other as usize].name == *name;
            match first.entry(hash(&index), is_same, hash) {
                Entry::Occupied(mut known) => {
                    next[index as usize] = std::mem::replace(known.get_mut(), index)
                }
                Entry::Vacant(free) => drop(free.insert(index)),
            }
        }
        Self { hasher, first, next }
    }

    /// Returns the functions of a name, in their order.
    fn of<'a>(
        &self,
        functions: &'a [BinaryFunction],
        name: &str,
    ) -> impl Iterator<Item = &'a BinaryFunction> + use<'a, '_> {
        let is_same = |index: &u32| functions[*index as usize].name == name;
        let first = self.first.find(self.hasher.hash_one(name), is_same).copied();
        let places = std::iter::successors(first, |index| self.next.get(*index as usize).copied());
        places.map_while(|index| functions.get(index as usize))
    }
}

/// Binary, prepared for many lookups.
pub(super) struct BinaryView<'a> {
    bytes: &'a [u8],
    binary: &'a Binary,
    index: AddressIndex<'a>,
    /// Built lazily, because addresses of exported functions need no names.
    names: OnceCell<FunctionNames>,
    imports: BTreeSet<&'a str>,
    /// Built lazily, for the first name that a tool derived from a symbol (such as a demangled name).
    printed: OnceCell<PrintedNames>,
}

impl<'a> Dsos<'a> {
    pub(super) fn new(recording: &'a Recording, loaded: &'a [Option<Loaded>]) -> Self {
        let dsos = recording
            .dsos()
            .iter()
            .zip(loaded)
            .zip(used(recording))
            .map(|((recorded, loaded), used)| {
                let soname = loaded.as_ref().and_then(|loaded| loaded.binary.soname.as_deref());
                let name = loaded.as_ref().and_then(|loaded| loaded.name.as_deref());
                Dso {
                    used,
                    label: label(name.unwrap_or(&recorded.path), soname),
                    view: loaded.as_ref().map(BinaryView::new),
                }
            })
            .collect();
        Self { recorded: recording.dsos(), dsos }
    }

    /// The label of a DSO; `None` if a profile cannot hold it.
    pub(super) fn label(&self, id: DsoId) -> Option<&str> {
        self.dsos[id.0 as usize].label.as_deref()
    }

    pub(super) fn view(&self, id: DsoId) -> Option<&BinaryView<'a>> {
        self.dsos[id.0 as usize].view.as_ref()
    }

    /// Finds the DSO of an address, if only the exported functions of this DSO are known.
    pub(super) fn stripped(&self, place: &RecordedAddress) -> Option<DsoId> {
        let id = place.dso?;
        self.view(id)?.is_stripped().then_some(id)
    }

    /// Lists the available DSOs whose functions are known only by name, with how many names and whether the binary has
    /// one of them. Names that no linker knows, such as demangled ones, do not count.
    pub(super) fn names_found(&self, recording: &Recording) -> BTreeMap<DsoId, (u64, bool)> {
        let mut found: BTreeMap<DsoId, (u64, bool)> = BTreeMap::new();
        for place in recording.addresses() {
            let (Some(id), Spot::Symbol { name, .. }) = (place.dso, &place.spot) else { continue };
            let symbol = names::symbol(name);
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
            if symbol.plt || symbol.unresolved || is_no_name(symbol.name) || !symbol.name.iter().all(plain) {
                continue;
            }
            let (Some(view), Ok(name)) = (self.view(id), std::str::from_utf8(symbol.name)) else { continue };
            let there = view.by_name(name, None);
            // Many other programs call the same library functions, so these prove nothing.
            if matches!(there, NameMeaning::Import) {
                continue;
            }
            let (names, known) = found.entry(id).or_default();
            *names += 1;
            *known |= !matches!(there, NameMeaning::Unknown);
        }
        found
    }

    /// Lists the labels of the available binaries that export a function of this name.
    pub(super) fn definers(&self, name: &str) -> BTreeSet<&str> {
        let with_label = self.dsos.iter().filter_map(|dso| Some((dso.label.as_deref()?, dso.view.as_ref()?)));
        with_label.filter(|(_, view)| view.global(name).is_some()).map(|(label, _)| label).collect()
    }

    /// The only available DSO that has a function of this name, for addresses without a DSO. This is needed because
    /// Valgrind attributes only `.text` to a program, but an order that is a script for GNU ld puts the hot functions
    /// into another section.
    pub(super) fn owner(&self, name: &str) -> Option<DsoId> {
        let has_it = |dso: &Dso| {
            let view = dso.view.as_ref().filter(|_| dso.label.is_some());
            view.is_some_and(|view| {
                matches!(view.by_name(name, None), NameMeaning::Function { .. } | NameMeaning::Ambiguous)
            })
        };
        let mut owners = self.dsos.iter().zip(0..).filter(|(dso, _)| has_it(dso)).map(|(_, id)| DsoId(id));
        owners.next().filter(|_| owners.next().is_none())
    }

    /// Returns the size of the exported function of this name in the DSO with this label, if the DSO is available.
    pub(super) fn global_size(&self, label: &str, name: &str) -> Option<u64> {
        let labelled = self.dsos.iter().filter(|dso| dso.label.as_deref() == Some(label));
        let functions = labelled.filter_map(|dso| dso.view.as_ref()?.global(name));
        functions
            .filter(|function| !function.ifunc)
            .map(|function| function.size)
            .filter(|size| *size > 0)
            .max()
    }

    /// True for an indirect function in the DSO of this label: the function that runs is a variant with another name.
    pub(super) fn is_indirect(&self, label: &str, name: &str) -> bool {
        let labelled = self.dsos.iter().filter(|dso| dso.label.as_deref() == Some(label));
        let mut functions = labelled.filter_map(|dso| dso.view.as_ref()?.global(name));
        functions.any(|function| function.ifunc)
    }

    /// True if a binary of this label has functions that are addresses.
    pub(super) fn has_nameless(&self, label: &str) -> bool {
        let mut labelled = self.dsos.iter().filter(|dso| dso.label.as_deref() == Some(label));
        labelled.any(|dso| dso.view.as_ref().is_some_and(|view| view.binary.unresolved))
    }

    /// Returns the architecture of the first available binary.
    pub(super) fn arch(&self) -> Option<String> {
        self.dsos.iter().find_map(|dso| dso.view.as_ref()?.binary.arch.clone())
    }

    /// Lists the available DSOs that have unnamed addresses, and no build-id in the recording or none in the file.
    pub(super) fn without_build_id(&self, recording: &Recording) -> Vec<DsoId> {
        let nameless = with_nameless(recording);
        let known = |id: &DsoId| {
            let index = id.0 as usize;
            let own = self.view(*id).and_then(|view| view.binary.build_id.as_ref());
            own.is_some() && self.recorded[index].build_id.is_some()
        };
        let ids = (0..self.dsos.len() as u32).map(DsoId);
        ids.filter(|id| nameless[id.0 as usize] && self.view(*id).is_some() && !known(id)).collect()
    }

    /// The DSO in the form of the recording.
    pub(super) fn recorded(&self, id: DsoId) -> &RecordedDso {
        &self.recorded[id.0 as usize]
    }

    /// All known build-ids of the DSOs with this label. The build-id read from the file comes before the recorded one.
    pub(super) fn build_ids(&self, label: &str) -> BTreeSet<String> {
        let all = self.dsos.iter().zip(self.recorded).filter(|(dso, _)| dso.label.as_deref() == Some(label));
        all.filter_map(|(dso, recorded)| {
            let own = dso.view.as_ref().and_then(|view| view.binary.build_id.clone());
            own.or_else(|| recorded.build_id.clone())
        })
        .filter(|build_id| !build_id.is_empty() && build_id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(|build_id| build_id.to_ascii_lowercase())
        .collect()
    }

    /// Lists the labels of the DSOs that are not available, sorted.
    pub(super) fn missing(&self) -> Vec<&str> {
        let missing: BTreeSet<&str> = self
            .dsos
            .iter()
            .filter(|dso| dso.used && dso.view.is_none())
            .map(|dso| dso.label.as_deref().unwrap_or("(a name that a profile cannot hold)"))
            .collect();
        missing.into_iter().collect()
    }

    /// Flow of control of the instruction at this address.
    pub(super) fn flow(&self, place: &RecordedAddress) -> Flow {
        let Some(view) = place.dso.and_then(|id| self.view(id)) else { return Flow::Other };
        let offset = match &place.spot {
            Spot::FileOffset(offset) => Some(*offset),
            Spot::Address(address) => view.binary.file_offset_of_address(*address),
            Spot::Symbol { .. } => None,
        };
        let code =
            offset.and_then(|offset| view.bytes.get(usize::try_from(offset).ok()?..)).unwrap_or_default();
        (Isa::of(view.binary.arch.as_deref()).flow)(code)
    }

    /// An address as the example of a skipped item.
    pub(super) fn example(&self, place: &RecordedAddress) -> String {
        let dso = place.dso.map_or("?", |id| {
            self.label(id).unwrap_or_else(|| base_name(&self.recorded[id.0 as usize].path))
        });
        match &place.spot {
            Spot::FileOffset(offset) => format!("{dso} + {offset:#x}"),
            Spot::Address(address) => format!("{dso} at {address:#x}"),
            Spot::Symbol { name, .. } => {
                format!("{} of {dso}", String::from_utf8_lossy(&name[..name.len().min(100)]))
            }
        }
    }
}

/// Function or stub at an address.
pub(super) enum At<'a> {
    Function { function: &'a BinaryFunction, file: Option<&'a str>, first_byte: bool },
    Stub { target: &'a str, first_byte: bool },
}

/// Meaning of a name in a binary.
pub(super) enum NameMeaning<'a> {
    Unknown,
    /// The binary does not define a function of this name, but calls one through a stub.
    Import,
    Function {
        function: &'a BinaryFunction,
        file: Option<&'a str>,
    },
    Ambiguous,
}

impl<'a> BinaryView<'a> {
    fn new(loaded: &'a Loaded) -> Self {
        let binary = &loaded.binary;
        Self {
            bytes: &loaded.bytes,
            binary,
            index: binary.address_index(),
            names: OnceCell::new(),
            imports: binary.plt_stubs.iter().map(|stub| stub.target.as_str()).collect(),
            printed: OnceCell::new(),
        }
    }

    pub(super) fn at_file_offset(&self, offset: u64) -> std::result::Result<At<'a>, Nowhere> {
        self.at_address(self.binary.address_of_file_offset(offset).ok_or(Nowhere::NotLoaded)?)
    }

    pub(super) fn at_address(&self, address: u64) -> std::result::Result<At<'a>, Nowhere> {
        if let Some(stub) = self.binary.plt_stub_at(address) {
            return Ok(At::Stub { target: &stub.target, first_byte: stub.address == address });
        }
        match self.index.function_at(address) {
            Some(function) => Ok(At::Function {
                function,
                file: self.telling_file(function),
                first_byte: function.address == address || self.is_local_entry(address - function.address),
            }),
            None if self.binary.in_plt(address) => Err(Nowhere::StubWithoutTarget),
            None => Err(Nowhere::NoFunction),
        }
    }

    /// True if `inside` is the offset of the local entry point, which is the target of calls from the same DSO. On
    /// 64-bit Power they skip the two instructions that find the table of contents.
    fn is_local_entry(&self, inside: u64) -> bool {
        inside == 8 && self.binary.arch.as_deref() == Some("ppc64le")
    }
    /// True if a call ends right before this address. `None` if this is unknown: calls are not known, or the file has
    /// no such code.
    pub(super) fn follows_call(&self, address: u64) -> Option<bool> {
        let call_before = Isa::of(self.binary.arch.as_deref()).call_before?;
        let start = self.binary.file_offset_of_address(address.checked_sub(LONGEST_CALL)?)?;
        let before = self.bytes.get(usize::try_from(start).ok()?..)?.get(..LONGEST_CALL as usize)?;
        Some(call_before(before, address).is_some())
    }

    /// The binary.
    pub(super) fn binary(&self) -> &'a Binary {
        self.binary
    }

    /// True for instruction sets with instructions of many sizes: most addresses are inside an instruction.
    pub(super) fn has_odd_instructions(&self) -> bool {
        self.binary.arch.as_deref().is_some_and(|arch| matches!(arch, "x86_64" | "i686"))
    }

    /// True if an instruction begins at this address, counted from the first byte of its function. `None` if unknown.
    pub(super) fn is_instruction(&self, address: u64) -> Option<bool> {
        /// Largest number of bytes of code that are decoded for one address.
        const LONGEST: u64 = 1 << 14;
        // If all instructions have the same size, every sampled address fits.
        let isa = Isa::of(self.binary.arch.as_deref().filter(|_| self.has_odd_instructions()));
        let function = self.index.function_at(address)?;
        if address - function.address > LONGEST {
            return None;
        }
        let start = usize::try_from(self.binary.file_offset_of_address(function.address)?).ok()?;
        let code = self.bytes.get(start..)?;
        let wanted = (address - function.address) as usize;
        let mut at = 0;
        while at < wanted {
            at += (isa.instruction)(code.get(at..)?)?;
        }
        Some(at == wanted)
    }

    /// True if only its exported functions are known.
    pub(super) fn is_stripped(&self) -> bool {
        self.binary.symbols_from == SymbolSource::DynamicSymbols
    }

    /// True if the address of this function is its only name.
    pub(super) fn is_nameless(&self, function: &BinaryFunction) -> bool {
        self.binary.is_nameless(function)
    }

    /// Returns the file of a local function that shares its name with another function of the binary.
    fn telling_file(&self, function: &'a BinaryFunction) -> Option<&'a str> {
        let differs = |other: &BinaryFunction| other.address != function.address;
        let is_ambiguous = || self.named(&function.name).any(differs);
        function.file.as_deref().filter(|_| function.local && is_ambiguous())
    }

    /// Converts a recorded number to an address of the ELF file.
    pub(super) fn address_of(&self, spot: &Spot) -> Option<u64> {
        match spot {
            Spot::FileOffset(offset) => self.binary.address_of_file_offset(*offset),
            Spot::Address(address) => Some(*address),
            Spot::Symbol { .. } => None,
        }
    }

    /// Returns the number of bytes from an address to the next jump, call or return, or to the end of this many
    /// instructions.
    pub(super) fn straight(&self, address: u64, most: usize) -> u64 {
        let start = self.binary.file_offset_of_address(address).and_then(|start| usize::try_from(start).ok());
        let code = start.and_then(|start| self.bytes.get(start..)).unwrap_or_default();
        (Isa::of(self.binary.arch.as_deref()).straight)(code, most) as u64
    }

    /// The bytes of the file.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The functions, with the file of local functions of the same name.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&'a BinaryFunction, Option<&'a str>)> {
        self.binary.functions.iter().map(|function| (function, self.telling_file(function)))
    }

    /// The only function of this name.
    pub(super) fn only(&self, name: &str) -> Option<&'a BinaryFunction> {
        let mut functions = self.named(name);
        functions.next().filter(|_| functions.next().is_none())
    }

    /// Returns the function of this name. Among local functions of the same name, the one from the recorded source file
    /// is returned.
    pub(super) fn by_name(&self, name: &str, file: Option<&str>) -> NameMeaning<'a> {
        let candidates = || self.named(name);
        if candidates().next().is_none() {
            if self.imports.contains(name) {
                return NameMeaning::Import;
            }
            let found = is_printed(name).then(|| self.printed().find(name)).flatten();
            return found.map_or(NameMeaning::Unknown, |index| {
                let function = &self.binary.functions[index];
                NameMeaning::Function { function, file: self.telling_file(function) }
            });
        }
        let found = |function: &'a BinaryFunction| NameMeaning::Function {
            function,
            file: self.telling_file(function),
        };
        let one_of = |wanted: &dyn Fn(&BinaryFunction) -> bool| {
            let mut matching = candidates().filter(|function| wanted(function));
            let first = matching.next()?;
            matching.all(|other| other.address == first.address).then_some(first)
        };
        if let Some(only) = one_of(&|_| true) {
            return found(only);
        }
        let Some(file) = file else { return NameMeaning::Ambiguous };
        let local_of_file =
            |function: &BinaryFunction| function.local && function.file.as_deref() == Some(file);
        match one_of(&local_of_file) {
            Some(function) => found(function),
            // If no local function of this name is from this file, the global function is meant.
            None if candidates().any(local_of_file) => NameMeaning::Ambiguous,
            None => one_of(&|function| !function.local).map_or(NameMeaning::Ambiguous, found),
        }
    }

    /// Returns the functions of a name, in their order.
    fn named(&self, name: &str) -> impl Iterator<Item = &'a BinaryFunction> + use<'a, '_> {
        let functions = &self.binary.functions;
        self.names.get_or_init(|| FunctionNames::new(functions)).of(functions, name)
    }

    fn printed(&self) -> &PrintedNames {
        self.printed.get_or_init(|| PrintedNames::of(&self.binary.functions))
    }

    fn global(&self, name: &str) -> Option<&'a BinaryFunction> {
        self.named(name).find(|function| !function.local)
    }
}

/// Returns the label of a DSO: its soname, otherwise the base name of the recorded path. A base name with a backslash
/// may be the path of another system, so it is not used.
#[must_use]
pub fn label(path: &str, soname: Option<&str>) -> Option<String> {
    let name = soname.map_or_else(|| base_name(path), base_name);
    let fitting = acceptable(name.as_bytes())?;
    (!fitting.contains('\\')).then(|| fitting.to_owned())
}

/// File name after the last slash, without the kernel's mark of a file that was replaced while in use.
fn base_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the base name of a recorded source file, if it is meaningful.
pub(super) fn source_file(recorded: &[u8]) -> Option<String> {
    file_evidence(recorded).filter(|file| !file.starts_with('?') && acceptable(file.as_bytes()).is_some())
}

/// True for the words that profilers print for a missing name: callgrind's, and perf's bare address.
pub(super) fn is_no_name(name: &[u8]) -> bool {
    matches!(name, b"???" | b"(below main)") || name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_never_a_path() {
        let cases = [
            ("/usr/lib/libc.so.6", None, Some("libc.so.6")),
            ("/usr/lib/libfoo-2.so (deleted)", Some("libfoo.so.2"), Some("libfoo.so.2")),
            ("/home/u/prog (deleted)", None, Some("prog")),
            ("/x/../", None, None),
            ("C:\\Users\\u\\prog", None, None),
            ("/x/y\n", None, None),
            ("/x", Some("../../evil.so"), Some("evil.so")),
        ];
        for (path, soname, expected) in cases {
            assert_eq!(label(path, soname).as_deref(), expected, "{path} {soname:?}");
        }
    }
}
