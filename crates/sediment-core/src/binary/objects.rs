// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`InputObjects`]: the functions of the files that a linker is given, with the input sections that really contain
//! them.
//!
//! Relocatable ELF objects and archives of them are read. Objects that link-time optimisation compiles again (LLVM's
//! bitcode, GCC's `.gnu.lto_` sections, where its plugin is in use) say nothing about the sections that there will be:
//! they count as `unknown`, as does what cannot be read. Members of thin archives are files of their own, which the
//! caller reads.

use super::archive_walk::{ArchiveWalk, GlobalSymbols};
use super::elf::SymbolUnit;
use super::fixed::{self, CodeSymbol};
use super::{BinaryFunction, file_evidence, names};
use crate::isa::Isa;
use object::read::archive::{ArchiveFile, ArchiveMember};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags, SectionIndex,
    SymbolKind,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A function of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFunction {
    /// Linkage name.
    pub name: String,
    /// Input section.
    pub section: String,
    /// Bytes; 0 if the symbol has no size.
    pub size: u64,
    /// Local to its object.
    pub local: bool,
    /// Source file (base name), for local functions.
    pub file: Option<String>,
    /// Index into [`InputObjects::paths`].
    pub path: usize,
    /// Number of its section in the object, and the offset of its first byte in this section.
    pub place: (usize, u64),
}

/// An object, identified in the way of linkers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectPath {
    /// By the path that the linker is given.
    File(String),
    /// A member of an archive, identified by the archive's base name.
    Member {
        /// Base name of the archive.
        archive: String,
        /// Name of the member.
        member: String,
    },
    /// An object that is not available, identified by the source file that it is named after, in any folder.
    CompiledFrom(String),
}

impl ObjectPath {
    /// Base name of the object.
    fn file_name(&self) -> &str {
        let (Self::File(path) | Self::Member { member: path, .. } | Self::CompiledFrom(path)) = self;
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// The functions of a link's inputs.
#[derive(Debug, Clone, Default)]
pub struct InputObjects {
    /// The objects, in the order of the inputs. The linked members of an archive come first, in the order in which GNU
    /// ld takes them, then the others.
    pub paths: Vec<ObjectPath>,
    /// In the order of the objects.
    pub functions: Vec<ObjectFunction>,
    /// Number of inputs that do not list their functions and sections.
    pub unknown: usize,
    /// Number of linked objects among these that contain only GCC's intermediate code.
    pub gcc_lto: usize,
    /// References from each function's code, in the order of the inputs: indices into [`Self::functions`] and into
    /// [`Self::mentioned`].
    pub references: Vec<(u32, u32)>,
    /// Names that code refers to, each once.
    pub mentioned: Vec<String>,
    /// Functions that no linker may move, because code relies on their place, by path and place: see
    /// [`Binary::fixed`](super::Binary::fixed).
    pub fixed: HashSet<(usize, (usize, u64))>,
    /// Ranges of code that two labels mark.
    pub label_ranges: Vec<ObjectRange>,
    /// Functions that run on into the next one, with that one: indices into [`Self::functions`].
    pub running_on: Vec<(usize, usize)>,
    numbers: HashMap<String, u32>,
    globals: GlobalSymbols,
}

/// How the members of an archive become inputs of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveUse {
    /// Members that define needed symbols.
    Needed,
    /// All members: between `--whole-archive` and `--no-whole-archive`.
    Whole,
}

/// Range of code between two labels of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRange {
    /// Label of the beginning.
    pub begin: String,
    /// Label of the end.
    pub end: String,
    /// The functions between: indices into [`InputObjects::functions`].
    pub functions: Vec<usize>,
}

impl ObjectFunction {
    /// Sort key for the order of addresses of a link without an order. Sections of cold, exit, start-up and hot code
    /// come before the others, as in GNU ld's own script; then the order of the inputs applies.
    #[must_use]
    pub fn unordered_place(&self) -> (usize, usize, usize, u64) {
        const BEFORE: [&str; 4] = [".text.unlikely", ".text.exit", ".text.startup", ".text.hot"];
        let of_kind = |kind: &str| {
            self.section.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let kind = BEFORE.iter().position(|kind| of_kind(kind)).unwrap_or(BEFORE.len());
        (kind, self.path, self.place.0, self.place.1)
    }
}

/// Returns the identity of an archive's member: the path in a thin archive, the byte range in another.
fn identity<'a>(member: &ArchiveMember<'a>) -> (&'a [u8], (u64, u64)) {
    (member.name(), member.file_range())
}

/// True if a section holds code.
fn is_code(flags: SectionFlags) -> bool {
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(object::elf::SHF_EXECINSTR))
}

fn is_code_section(section: &object::Section<'_, '_>) -> bool {
    is_code(section.flags())
}

impl InputObjects {
    /// Adds a symbol that the link needs (`-u`).
    pub fn require(&mut self, symbol: &[u8]) {
        self.globals.require(symbol);
    }

    /// Adds an input, an object or an archive; `path` is its path in the linker's arguments. `lto`: this link compiles
    /// objects with GCC's intermediate code again. Shared libraries add nothing.
    pub fn add(&mut self, path: &str, bytes: &[u8], lto: bool) {
        self.add_with_members(path, bytes, lto, ArchiveUse::Needed, &|_| None);
    }

    /// Adds an input like [`Self::add`]; `member` reads a member of a thin archive, by its path from the archive's
    /// folder. Without it, the functions of such an archive are unknown.
    pub fn add_with_members(
        &mut self,
        path: &str,
        bytes: &[u8],
        lto: bool,
        archive_use: ArchiveUse,
        member: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) {
        let is_thin = bytes.starts_with(b"!<thin>\n");
        if !is_thin && !bytes.starts_with(b"!<arch>\n") {
            self.paths.push(ObjectPath::File(path.to_owned()));
            self.add_object(bytes, lto, true);
            return;
        }
        let Ok(archive) = ArchiveFile::parse(bytes) else {
            self.unknown += 1;
            return;
        };
        let base = path.rsplit('/').next().unwrap_or(path);
        let add = |objects: &mut Self, found: &ArchiveMember<'_>, is_linked: bool| {
            let name = String::from_utf8_lossy(found.name());
            let data = match is_thin {
                true => member(&name).map(Cow::Owned),
                false => found.data(bytes).ok().map(Cow::Borrowed),
            };
            let member = name.rsplit('/').next().unwrap_or(&name).to_owned();
            objects.paths.push(ObjectPath::Member { archive: base.to_owned(), member });
            match data {
                Some(data) => objects.add_object(&data, lto, is_linked),
                None => objects.unknown += 1,
            }
        };
        let is_whole = archive_use == ArchiveUse::Whole;
        let mut taken = HashSet::new();
        let mut walk = (!is_whole).then(|| ArchiveWalk::new(&archive, &mut self.globals));
        while let Some(offset) = walk.as_mut().and_then(|walk| walk.next_member(&mut self.globals)) {
            if let Some(found) = archive.member(offset).ok().filter(|found| taken.insert(identity(found))) {
                add(self, &found, true);
            }
        }
        for found in archive.members() {
            match found {
                Ok(found) if taken.contains(&identity(&found)) => {}
                Ok(found) => add(self, &found, is_whole),
                Err(_) => self.unknown += 1,
            }
        }
    }

    /// Adds the functions of an object under the path that was added last, and its global symbols if it is linked.
    fn add_object(&mut self, bytes: &[u8], lto: bool, is_linked: bool) {
        const BITCODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
        if BITCODE.iter().any(|magic| bytes.starts_with(magic)) {
            self.unknown += 1;
            return;
        }
        let Ok(file) = object::File::parse(bytes) else {
            // A linker script, or text: linkers read these too, and they contain no function.
            self.unknown += usize::from(bytes.starts_with(&object::elf::ELFMAG));
            return;
        };
        if file.kind() != object::ObjectKind::Relocatable {
            return;
        }
        let intermediate = || {
            file.sections().any(|section| {
                section.name_bytes().is_ok_and(|name| name.starts_with(b".gnu.lto_") || name == b".llvm.lto")
            })
        };
        if lto && intermediate() {
            self.unknown += 1;
            let is_slim = || file.symbols().any(|symbol| symbol.name_bytes() == Ok(b"__gnu_lto_slim"));
            self.gcc_lto += usize::from(is_linked && is_slim());
            return;
        }
        let path = self.paths.len().saturating_sub(1);
        // For a unit without a source file, GNU ld uses the name of its object.
        let object = self.paths.last().and_then(|path| file_evidence(path.file_name().as_bytes()));
        let (mut unit, mut has_file) = (SymbolUnit::default(), false);
        let mut starts: HashMap<SectionIndex, BTreeMap<u64, usize>> = HashMap::new();
        for symbol in file.symbols() {
            if is_linked {
                self.globals.add(&symbol);
            }
            let Ok(name) = symbol.name() else { continue };
            if symbol.kind() == SymbolKind::File {
                has_file = true;
                unit.begin(name.as_bytes());
                continue;
            }
            // Assembler code often leaves out the type of its symbols.
            let is_function = match symbol.kind() {
                SymbolKind::Text => true,
                SymbolKind::Unknown | SymbolKind::Label => symbol.is_global(),
                _ => false,
            };
            let Some(index) = symbol.section_index().filter(|_| is_function && !name.is_empty()) else {
                continue;
            };
            let Ok(section) = file.section_by_index(index) else { continue };
            let Some(section_name) = section.name().ok().filter(|_| is_code(section.flags())) else {
                continue;
            };
            let local = symbol.is_local();
            let place = (index.0, symbol.address());
            let file = match has_file {
                _ if !local => None,
                true => unit.file_of(name, place),
                false => object.clone(),
            };
            starts.entry(index).or_default().entry(symbol.address()).or_insert(self.functions.len());
            self.functions.push(ObjectFunction {
                name: name.to_owned(),
                section: section_name.to_owned(),
                size: symbol.size(),
                local,
                file,
                path,
                place,
            });
        }
        self.add_references(&file, &starts);
        self.add_fixed(&file, &starts);
    }

    /// Adds the functions of an object whose position other code relies on. The sections of an object follow each other
    /// in a linked file.
    fn add_fixed(&mut self, file: &object::File<'_>, starts: &HashMap<SectionIndex, BTreeMap<u64, usize>>) {
        let isa = match file.architecture() {
            object::Architecture::X86_64 => Isa::of(Some("x86_64")),
            object::Architecture::Aarch64 if file.is_little_endian() => Isa::of(Some("aarch64")),
            _ => Isa::of(None),
        };
        let path = self.paths.len().saturating_sub(1);
        let mut symbols = Vec::new();
        for symbol in file.symbols() {
            let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
            let section = symbol.section_index().filter(|_| is_code);
            let section = section.and_then(|index| file.section_by_index(index).ok());
            let Some(section) = section.filter(|section| is_code_section(section)) else { continue };
            let Ok(name) = symbol.name() else { continue };
            if name.is_empty() || name.starts_with(['$', '.']) {
                continue;
            }
            let code = section.data().ok().and_then(|data| data.get(symbol.address() as usize..));
            let code = code.map_or(&[][..], |code| &code[..code.len().min(symbol.size() as usize)]);
            let place = (section.index().0, symbol.address());
            symbols.push(CodeSymbol { name, place, size: symbol.size(), code });
        }
        self.fixed.extend(fixed::marked(&symbols, isa).into_iter().map(|place| (path, place)));
        for (begin, end) in fixed::ranges(&symbols, isa) {
            let [begin, end] = [begin, end].map(|index| &symbols[index]);
            let between = |place: &(usize, u64)| (begin.place..end.place).contains(place);
            let places = starts.iter().flat_map(|(section, here)| {
                here.iter().map(|(address, function)| ((section.0, *address), *function))
            });
            let mut functions: Vec<usize> =
                places.filter(|(place, _)| between(place)).map(|(_, function)| function).collect();
            functions.sort_unstable();
            let [begin, end] = [begin, end].map(|label| label.name.to_owned());
            self.label_ranges.push(ObjectRange { begin, end, functions });
        }
        let mut sections: BTreeMap<usize, (SectionIndex, u64)> = BTreeMap::new();
        let of_code = file.sections().filter(is_code_section).filter(|section| section.size() > 0);
        sections.extend(of_code.map(|section| (section.index().0, (section.index(), section.size()))));
        let next_of = |place: (usize, u64), size: u64| {
            // Functions do not move within a section.
            let is_last = place.1.checked_add(size) == sections.get(&place.0).map(|(_, size)| *size);
            let (_, (next, _)) = sections.range(place.0 + 1..).next().filter(|_| is_last)?;
            starts.get(next)?.first_key_value().map(|(first, function)| ((next.0, *first), *function))
        };
        for symbol in symbols.iter().filter(|symbol| symbol.size > 0) {
            let Some((next, after)) = next_of(symbol.place, symbol.size) else { continue };
            if fixed::runs_on(symbol.code, isa) {
                self.fixed.extend([(path, symbol.place), (path, next)]);
                let here = starts.get(&SectionIndex(symbol.place.0));
                let own = here.and_then(|here| here.get(&symbol.place.1));
                self.running_on.extend(own.map(|own| (*own, after)));
            }
        }
    }

    /// Adds the references of the functions that begin at these addresses of an object, by its relocations.
    fn add_references(
        &mut self,
        file: &object::File<'_>,
        starts: &HashMap<SectionIndex, BTreeMap<u64, usize>>,
    ) {
        let mut sections: Vec<&SectionIndex> = starts.keys().collect();
        sections.sort_unstable_by_key(|section| section.0);
        for index in sections {
            let (Ok(section), Some(here)) = (file.section_by_index(*index), starts.get(index)) else {
                continue;
            };
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(target) = relocation.target() else { continue };
                let Some((_, from)) = here.range(..=offset).next_back() else { continue };
                let Ok(symbol) = file.symbol_by_index(target) else { continue };
                // Local functions are referred to by their section, which usually contains no other function.
                let named = match symbol.section_index().filter(|_| symbol.kind() == SymbolKind::Section) {
                    Some(section) => {
                        starts.get(&section).filter(|there| there.len() == 1).and_then(|there| {
                            there.values().next().map(|function| self.functions[*function].name.clone())
                        })
                    }
                    None => symbol.name().ok().filter(|name| !name.is_empty()).map(str::to_owned),
                };
                let Some(name) = named else { continue };
                let next = self.mentioned.len() as u32;
                let number = *self.numbers.entry(name).or_insert_with_key(|name| {
                    self.mentioned.push(name.clone());
                    next
                });
                let reference = (*from as u32, number);
                if self.references.last() != Some(&reference) {
                    self.references.push(reference);
                }
            }
        }
    }

    /// True if every input was read, so that a missing function is nowhere.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.unknown == 0
    }

    /// The names of all functions.
    #[must_use]
    pub fn names(&self) -> HashSet<&str> {
        self.functions.iter().map(|function| function.name.as_str()).collect()
    }
}

/// A function that a name of a profile can mean.
pub trait NamedFunction {
    /// Its linkage name.
    fn linkage_name(&self) -> &str;
    /// Its source file (base name), if it is a local function.
    fn source_file(&self) -> Option<&str>;
}

impl NamedFunction for ObjectFunction {
    fn linkage_name(&self) -> &str {
        &self.name
    }
    fn source_file(&self) -> Option<&str> {
        self.file.as_deref()
    }
}

impl NamedFunction for BinaryFunction {
    fn linkage_name(&self) -> &str {
        &self.name
    }
    fn source_file(&self) -> Option<&str> {
        self.file.as_deref()
    }
}

/// Finds the functions of a profile among the functions of objects or of a linked file.
pub struct Finder<'a, F> {
    functions: &'a [F],
    by_name: HashMap<&'a str, Vec<usize>>,
    /// Functions that the compiler made from another one, by the name of that one.
    by_stem: HashMap<&'a str, Vec<usize>>,
    /// Names of the profile: a symbol with its own name there does not count as a clone.
    wanted: HashSet<&'a str>,
}

impl<'a, F: NamedFunction> Finder<'a, F> {
    /// A finder for functions of these names.
    #[must_use]
    pub fn new(functions: &'a [F], wanted: impl Iterator<Item = &'a str>) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_stem: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, function) in functions.iter().enumerate() {
            let name = function.linkage_name();
            by_name.entry(name).or_default().push(index);
            let stem = names::stem(name);
            if stem != name && names::split_from(name).is_none() {
                by_stem.entry(stem).or_default().push(index);
            }
        }
        Self { functions, by_name, by_stem, wanted: wanted.collect() }
    }

    /// Finds a function: under its own name, with local ones of this source file first; otherwise the function of which
    /// it is a clone; otherwise other clones of that function, unless the profile knows these by their own names.
    #[must_use]
    pub fn find(&self, name: &str, file: Option<&str>) -> Vec<&'a F> {
        if let Some(exact) = self.by_name.get(name) {
            let all: Vec<&F> = exact.iter().map(|index| &self.functions[*index]).collect();
            let of_file: Vec<&F> =
                all.iter().copied().filter(|found| file.is_some() && found.source_file() == file).collect();
            return if of_file.is_empty() { all } else { of_file };
        }
        self.find_clones(name)
    }

    /// Clones that stand in for a function without its own symbol.
    #[must_use]
    pub fn find_clones(&self, name: &str) -> Vec<&'a F> {
        let function = |index: &usize| &self.functions[*index];
        let cold = names::split_from(name);
        let stem = names::stem(cold.unwrap_or(name));
        if let Some(cold) = cold {
            // The cold part of another clone does not belong to this one.
            let part = names::cold_part(cold);
            return self.by_name.get(part.as_str()).into_iter().flatten().map(function).collect();
        }
        let free = |index: &&usize| !self.wanted.contains(function(index).linkage_name());
        let whole = self.by_name.get(stem).filter(|_| stem != name && !self.wanted.contains(stem));
        if let Some(whole) = whole {
            return whole.iter().map(function).collect();
        }
        self.by_stem.get(stem).into_iter().flatten().filter(free).map(function).collect()
    }
}
