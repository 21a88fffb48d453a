// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files whose code processes run, and the functions that may have a breakpoint.

use super::detours::{JumpPlace, plan};
use super::heard::{
    CHANGES, HANDLE_SIGNALS, MAKE_WRITABLE, addresses_of, has_runtime_of_go, has_text_relocations,
    looks_for_leaks,
};
use super::needed::libraries;
use super::pairing::TELL_PROCESSORS;
use super::unmapped;
use crate::FileFilter;
use crate::tracing::machine::{ARCH, ISA, SYSTEM_CALL, TRAP};
use crate::tracing::mappings::{LARGEST_FILE, ProcessMapping};
use sediment_core::binary::gcc_block_map::Stretch;
use sediment_core::binary::gcc_early_map::EarlyMap;
use sediment_core::binary::inlined::InlineFrames;
use sediment_core::binary::{Binary, Files, FilesBeside, block_map, unwind};
use sediment_core::isa::{CodeReference, Flow, LONGEST_CALL};
use sediment_core::skipped::{Reason, Skipped};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One function, or block, of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Site {
    /// Index in [`Modules`].
    pub(super) module: u32,
    /// Index in the module's entries.
    pub(super) entry: u32,
}

/// A file with executed code.
#[derive(Debug)]
pub(super) struct Module {
    /// Path as the processes see it.
    pub(super) path: String,
    pub(super) build_id: Option<String>,
    /// False if breakpoints are set only at the functions whose calls the recorder must see.
    pub(super) is_recorded: bool,
    /// First bytes of functions, and of their blocks, that may have a breakpoint, by address.
    pub(super) entries: Vec<CodeEntry>,
    /// Functions with a map of their blocks.
    pub(super) mapped: Vec<FunctionWithBlocks>,
    segments: Vec<CodeSegment>,
    stubs: Vec<(u64, u64)>,
    debug_state: Option<u64>,
    /// Addresses of functions that exec another program, or change who may read the process.
    changes: Vec<u64>,
    /// Addresses of functions that report the processors of a thread, or change them.
    tell_processors: Vec<u64>,
    /// Addresses of functions that may make code writable.
    make_writable: Vec<u64>,
    /// Addresses of functions that set signal handlers.
    handle_signals: Vec<u64>,
    /// True if its code may make system calls without the C library, as Go does.
    calls_kernel: bool,
    /// True if it searches for memory leaks when it ends.
    looks_for_leaks: bool,
    /// By entry: the place for a jump to a trampoline.
    jumps: Vec<Option<JumpPlace>>,
}

/// A function with a map of its blocks.
#[derive(Debug, Default)]
pub(super) struct FunctionWithBlocks {
    /// Entries of the module at which its blocks begin, including the function's first byte.
    pub(super) blocks: Vec<u32>,
    /// Addresses of its blocks that can have no breakpoint.
    pub(super) unwatched: Vec<u64>,
    /// Its first byte.
    pub(super) begin: u64,
}

impl FunctionWithBlocks {
    /// Index of the entry of its first byte.
    pub(super) fn begin(&self, module: &Module) -> usize {
        module.entry_at(self.begin).unwrap_or(usize::MAX)
    }
}

/// First byte of a function, or of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeEntry {
    /// Virtual address in the file.
    pub(super) address: u64,
    /// Original bytes under a breakpoint.
    pub(super) original: [u8; TRAP.len()],
    /// True if it is the first byte of a function.
    pub(super) is_function: bool,
    /// Function of [`Module::mapped`] whose block begins there.
    pub(super) owner: Option<u32>,
}

/// A loaded segment with code.
#[derive(Debug)]
struct CodeSegment {
    address: u64,
    file_offset: u64,
    bytes: Vec<u8>,
}

/// Answer to the question whether the code before a return address calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallAnswer {
    /// It calls.
    There,
    /// It calls the function at this address, which jumped on.
    Jumped(u64),
    /// It does not call.
    Not,
}

impl Module {
    /// Reads a file. A file that is excluded, or holds code of another architecture, gets no entries.
    fn new(
        path: &str,
        bytes: &[u8],
        files: &dyn Files,
        wanted: &ModuleLimits<'_>,
        skipped: &mut Skipped,
    ) -> Option<Self> {
        let binary = Binary::parse(bytes, files).ok()?.with_nameless(bytes);
        let soname = binary.soname.as_deref();
        let is_excluded = |name: &str| wanted.excluded.contains(name);
        let armed = !is_excluded(base_name(path)) && !soname.is_some_and(is_excluded);
        let segments: Vec<CodeSegment> = binary
            .segments
            .iter()
            .filter(|segment| segment.executable)
            .filter_map(|segment| {
                let start = usize::try_from(segment.file_offset).ok()?;
                let end = start.checked_add(usize::try_from(segment.file_size).ok()?)?;
                let bytes = bytes.get(start..end)?.to_vec();
                Some(CodeSegment { address: segment.address, file_offset: segment.file_offset, bytes })
            })
            .collect();
        let stubs = binary
            .code_sections
            .iter()
            .filter(|section| binary.in_plt(section.address))
            .map(|section| (section.address, section.size))
            .collect();
        let debug_state = binary.functions.iter().find(|function| function.name == "_dl_debug_state");
        let debug_state = debug_state.map(|function| function.address);
        let mut module = Self {
            path: path.to_owned(),
            build_id: binary.build_id.clone(),
            is_recorded: wanted.recorded.passes(path, soname),
            entries: Vec::new(),
            mapped: Vec::new(),
            changes: addresses_of(&binary, &CHANGES),
            tell_processors: addresses_of(&binary, &TELL_PROCESSORS),
            make_writable: addresses_of(&binary, &MAKE_WRITABLE),
            handle_signals: addresses_of(&binary, &HANDLE_SIGNALS),
            calls_kernel: has_runtime_of_go(bytes),
            looks_for_leaks: looks_for_leaks(bytes, &binary),
            jumps: Vec::new(),
            segments,
            stubs,
            debug_state: None,
        };
        module.debug_state = debug_state.filter(|address| module.only_returns(*address));
        if binary.arch.as_deref() != Some(ARCH) {
            skipped.add(Reason::OtherArchitecture, 0, path);
        } else if armed && !module.is_recorded {
            module.find_heard(&binary);
        } else if armed {
            module.find_entries(&binary, skipped);
            module.find_blocks(bytes, &binary, (files, wanted.blocks), skipped);
            // The dynamic linker changes such code while the jumps are there.
            let trampolines = wanted.trampolines && !has_text_relocations(bytes);
            if let (true, Some(detour)) = (trampolines, &ISA.detour) {
                let entries: Vec<u64> = module.entries.iter().map(|entry| entry.address).collect();
                let code_at = |address| module.bytes_at(address);
                let mut rows = unwind::Rows::of(bytes);
                let mut row = |address| rows.as_mut()?.at(address);
                let found = plan(&code_at, &mut row, &entries, &binary, (detour, ISA.landing_pad));
                module.jumps = found;
            }
        }
        Some(module)
    }

    /// Makes a module of this code at address 0, with functions of one instruction at these addresses.
    #[cfg(test)]
    pub(super) fn of_code(path: &str, code: &[u8], functions: &[u64], debug_state: Option<u64>) -> Self {
        let entry = |address: &u64| {
            let original = *code[*address as usize..].first_chunk().expect("a function lies in the code");
            CodeEntry { address: *address, original, is_function: true, owner: None }
        };
        Self {
            path: path.to_owned(),
            build_id: None,
            is_recorded: true,
            entries: functions.iter().map(entry).collect(),
            mapped: Vec::new(),
            segments: vec![CodeSegment { address: 0, file_offset: 0, bytes: code.to_vec() }],
            stubs: Vec::new(),
            debug_state,
            changes: Vec::new(),
            tell_processors: Vec::new(),
            make_writable: Vec::new(),
            handle_signals: Vec::new(),
            calls_kernel: false,
            looks_for_leaks: false,
            jumps: Vec::new(),
        }
    }

    /// In a file that is not recorded, finds the functions whose calls the recorder must see.
    fn find_heard(&mut self, binary: &Binary) {
        let known = [&self.changes, &self.tell_processors, &self.make_writable, &self.handle_signals];
        if known.iter().all(|known| known.is_empty()) {
            return;
        }
        self.find_entries(binary, &mut Skipped::default());
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| self.must_be_heard_of(entry.address));
        self.entries = entries;
    }

    fn find_entries(&mut self, binary: &Binary, skipped: &mut Skipped) {
        let mut last = None;
        let (mut sizeless, mut data, mut inside) = ((0, ""), (0, ""), (0, ""));
        let mut around = Around::default();
        // A symbol without the type of a function may be data.
        for function in binary.functions.iter().filter(|function| !function.untyped) {
            let address = function.address;
            let begins = around.begins_instruction(self, address);
            around.reaches(address..address.saturating_add(function.size));
            // The function that the dynamic linker calls for debuggers is watched in another way.
            if last == Some(address) || self.debug_state == Some(address) || self.is_stub(address) {
                continue;
            }
            if function.size == 0 {
                sizeless = (sizeless.0 + 1, function.name.as_str());
                continue;
            }
            let code = self.bytes_at(address).unwrap_or_default();
            let code = &code[..code.len().min(usize::try_from(function.size).unwrap_or(usize::MAX))];
            match code.first_chunk::<{ TRAP.len() }>() {
                Some(_) if !begins => {
                    inside = (inside.0 + 1, function.name.as_str());
                }
                Some(&original) if ISA.may_begin_at(address) && (ISA.begins_with_code)(code) => {
                    self.entries.push(CodeEntry { address, original, is_function: true, owner: None });
                    last = Some(address);
                }
                _ => data = (data.0 + 1, function.name.as_str()),
            }
        }
        let base = |name: &str| format!("{name} of {}", base_name(&self.path));
        skipped.add_many(Reason::SizelessFunction, sizeless.0, 0, base(sizeless.1));
        skipped.add_many(Reason::FunctionOutsideCode, data.0, 0, base(data.1));
        skipped.add_many(Reason::FunctionInsideInstruction, inside.0, 0, base(inside.1));
    }

    /// Adds the wanted blocks. An unreadable map counts as a missing one.
    fn find_blocks(
        &mut self,
        bytes: &[u8],
        binary: &Binary,
        (files, known): (&dyn Files, KnownBlocks),
        skipped: &mut Skipped,
    ) {
        let functions = match known {
            KnownBlocks::None => return,
            KnownBlocks::Mapped => self.mapped_blocks(bytes, binary, files),
            KnownBlocks::Lines => InlineFrames::read(bytes, files).map(|frames| {
                let rows = |from, to| frames.as_ref().map_or_else(Vec::new, |frames| frames.rows(from, to));
                frames.as_ref().map_or_else(Vec::new, |_| self.unmapped_blocks(binary, &rows))
            }),
        };
        match functions {
            Ok(functions) => {
                let unwatched = self.add_blocks(functions);
                skipped.add_many(Reason::UnwatchedBlock, unwatched, 0, base_name(&self.path));
            }
            Err(_) => skipped.add(Reason::UnsupportedBlockMap, 0, base_name(&self.path)),
        }
    }

    /// Returns code by function and block: from the compiler's map of blocks, or else from its map of statements.
    fn mapped_blocks(
        &self,
        bytes: &[u8],
        binary: &Binary,
        files: &dyn Files,
    ) -> sediment_core::Result<Vec<Vec<Stretch>>> {
        let mapped = block_map::code_by_function(bytes, files)?;
        if !mapped.is_empty() {
            return Ok(mapped);
        }
        let Some(early) = EarlyMap::read(bytes, files)? else { return Ok(Vec::new()) };
        let begins = |from, to| {
            let first = early.code.partition_point(|code| code.address < from);
            early.code[first..].iter().map(|code| code.address).take_while(|address| *address < to).collect()
        };
        Ok(self.unmapped_blocks(binary, &begins))
    }

    fn unmapped_blocks(&self, binary: &Binary, begins: &dyn Fn(u64, u64) -> Vec<u64>) -> Vec<Vec<Stretch>> {
        unmapped::code_by_function(&ISA, binary, &|address| self.bytes_at(address), begins)
    }

    /// True if a function does nothing but return.
    fn only_returns(&self, address: u64) -> bool {
        let code = self.bytes_at(address).unwrap_or_default();
        (ISA.flow)(code.strip_prefix(ISA.landing_pad).unwrap_or(code)) == Flow::Return
    }

    /// Returns the address after the landing pad for indirect calls at the beginning of a function; `None` if the
    /// function does not begin with one.
    pub(super) fn behind_landing(&self, address: u64) -> Option<u64> {
        let pad = ISA.landing_pad;
        self.bytes_at(address)?.starts_with(pad).then_some(address + pad.len() as u64)
    }

    /// True if the first instruction of an entry can be executed by single-stepping the thread.
    pub(super) fn steps(&self, entry: u32) -> bool {
        self.bytes_at(self.entries[entry as usize].address).is_some_and(ISA.steps)
    }

    /// Address of the function that the dynamic linker calls for debuggers, if this module has it.
    pub(super) fn debug_state(&self) -> Option<u64> {
        self.debug_state
    }

    /// True if this function execs another program, or changes who may read the process.
    pub(super) fn changes_process(&self, entry: u32) -> bool {
        self.changes.contains(&self.entries[entry as usize].address)
    }

    /// True if this function reports the processors of a thread, or changes them.
    pub(super) fn tells_processors(&self, entry: u32) -> bool {
        self.tell_processors.contains(&self.entries[entry as usize].address)
    }

    /// True if every call of this function must be seen, not only the first.
    pub(super) fn is_watched(&self, entry: u32) -> bool {
        self.makes_writable(entry) || self.handles_signals(entry)
    }

    /// True if the program may make its code writable with this function.
    pub(super) fn makes_writable(&self, entry: u32) -> bool {
        self.make_writable().contains(&self.entries[entry as usize].address)
    }

    /// True if the program may set a signal handler with this function.
    pub(super) fn handles_signals(&self, entry: u32) -> bool {
        self.handle_signals.contains(&self.entries[entry as usize].address)
    }

    /// Addresses of functions that may make code writable. The dynamic linker's own functions only make data read-only,
    /// unless the dynamic linker is also the C library, as in musl.
    fn make_writable(&self) -> &[u64] {
        let links_alone = self.debug_state.is_some() && self.changes.is_empty();
        if links_alone { &[] } else { &self.make_writable }
    }

    /// True if the recorder must see a call of this function at once.
    fn must_be_heard_of(&self, address: u64) -> bool {
        let known = [&self.changes[..], &self.tell_processors, self.make_writable(), &self.handle_signals];
        known.iter().any(|known| known.contains(&address))
    }

    /// Entries of functions that may make code writable; `None` for a function that can have no breakpoint.
    pub(super) fn make_writable_entries(&self) -> impl Iterator<Item = Option<usize>> {
        self.make_writable().iter().map(|address| self.entry_at(*address))
    }

    /// Entries of functions that report processors; `None` for a function that can have no breakpoint.
    pub(super) fn tell_processors(&self) -> impl Iterator<Item = Option<usize>> {
        self.tell_processors.iter().map(|address| self.entry_at(*address))
    }

    /// Place for a jump to a trampoline at an entry. A function whose calls must be seen at once has a breakpoint
    /// instead, and so has code whose blocks are recorded.
    pub(super) fn place(&self, entry: usize) -> Option<JumpPlace> {
        let place = self.jumps.get(entry).copied().flatten()?;
        let CodeEntry { address, owner, .. } = self.entries[entry];
        (!self.must_be_heard_of(address) && owner.is_none()).then_some(place)
    }

    /// Number of entries that can have a jump.
    pub(super) fn count_jumps(&self) -> u64 {
        self.jumps.iter().flatten().count() as u64
    }

    /// Address of a system call in its code.
    pub(super) fn system_call(&self) -> Option<u64> {
        self.find_code(&SYSTEM_CALL).next()
    }

    /// Finds the addresses of these bytes in its code.
    pub(super) fn find_code<'a>(&'a self, code: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        self.segments.iter().flat_map(move |segment| {
            let windows = segment.bytes.windows(code.len()).enumerate();
            windows.filter(move |(_, bytes)| *bytes == code).map(|(at, _)| segment.address + at as u64)
        })
    }

    /// True if no breakpoint or jump at a function reaches into this many bytes of code at the address.
    pub(super) fn has_no_entry_near(&self, address: u64, length: usize) -> bool {
        let behind = self.entries.partition_point(|entry| entry.address < address + length as u64);
        let Some(last) = behind.checked_sub(1) else { return true };
        let reaches = self.jumps.get(last).copied().flatten();
        let reaches = reaches.map_or(TRAP.len(), |place| usize::from(place.inside + place.length));
        self.entries[last].address + reaches as u64 <= address
    }

    /// True if its code may make system calls without the C library.
    pub(super) fn calls_kernel(&self) -> bool {
        self.calls_kernel
    }

    /// True if it searches for memory leaks when it ends, by tracing its own threads.
    pub(super) fn looks_for_leaks(&self) -> bool {
        self.looks_for_leaks
    }

    /// Returns the same module with a function at this address that reports processors.
    #[cfg(test)]
    pub(super) fn telling_processors_at(mut self, address: u64) -> Self {
        self.tell_processors.push(address);
        self
    }

    /// The code from this address to the end of its segment.
    pub(super) fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            segment.bytes.get(usize::try_from(address.checked_sub(segment.address)?).ok()?..)
        })
    }

    /// Returns the address of a file offset, in the segment of code that a mapping at this offset belongs to.
    pub(super) fn address_of_mapping(&self, file_offset: u64, length: u64) -> Option<u64> {
        let overlaps = |segment: &&CodeSegment| {
            segment.file_offset < file_offset.saturating_add(length)
                && file_offset < segment.file_offset + segment.bytes.len() as u64
        };
        let segment = self.segments.iter().find(overlaps)?;
        Some(segment.address.wrapping_add(file_offset).wrapping_sub(segment.file_offset))
    }

    fn is_stub(&self, address: u64) -> bool {
        self.stubs
            .iter()
            .any(|(start, size)| address.checked_sub(*start).is_some_and(|inside| inside < *size))
    }

    pub(super) fn entry_at(&self, address: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&address, |entry| entry.address).ok()
    }

    /// The entry of the function that begins at this address.
    pub(super) fn function_at(&self, address: u64) -> Option<usize> {
        self.entry_at(address).filter(|entry| self.entries[*entry].is_function)
    }

    /// The function whose block begins at an entry.
    pub(super) fn owner(&self, entry: usize) -> Option<&FunctionWithBlocks> {
        self.entries[entry].owner.map(|owner| &self.mapped[owner as usize])
    }

    /// Finds the caller of a function that returns to `return_address` in this module. `callee` is the function's
    /// address if it is in this module too.
    pub(super) fn calls_before(&self, return_address: u64, callee: Option<u64>) -> CallAnswer {
        let start = return_address.saturating_sub(LONGEST_CALL);
        let Some(code) = self.bytes_at(start) else { return CallAnswer::Not };
        let length = (return_address - start) as usize;
        let before = &code[..length.min(code.len())];
        match ISA.call_before.and_then(|call_before| call_before(before, return_address)) {
            Some(CodeReference::IndirectCall) => CallAnswer::There,
            Some(CodeReference::Call(target)) if Some(target) == callee || self.is_stub(target) => {
                CallAnswer::There
            }
            Some(CodeReference::Call(target)) if self.function_at(target).is_some() => {
                CallAnswer::Jumped(target)
            }
            Some(CodeReference::Call(target)) if self.bytes_at(target).is_some() => CallAnswer::There,
            _ => CallAnswer::Not,
        }
    }
}

/// The function that reaches furthest of all functions so far: others may lie inside it.
#[derive(Debug, Default)]
struct Around {
    end: u64,
    /// Address of its last known instruction; `None` after bytes that are not an instruction.
    instruction: Option<u64>,
}

impl Around {
    /// True if an instruction begins at this address, or if no function surrounds the address. Addresses must ascend.
    fn begins_instruction(&mut self, module: &Module, address: u64) -> bool {
        if address >= self.end {
            return true;
        }
        let known = self.instruction.and_then(|start| {
            let inside = usize::try_from(address.checked_sub(start)?).ok()?;
            Some(start + ISA.whole_instructions(module.bytes_at(start)?, inside)? as u64)
        });
        self.instruction = known;
        known == Some(address)
    }

    fn reaches(&mut self, function: Range<u64>) {
        if function.end > self.end {
            *self = Self { end: function.end, instruction: Some(function.start) };
        }
    }
}

fn begins_as_elf(path: &Path) -> bool {
    let mut first = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"\x7fELF"
}

/// File name after the last slash.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A file by its path and inode.
type PathAndInode = (String, u64);

/// Source of the blocks of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownBlocks {
    /// No blocks are recorded.
    None,
    /// Blocks of files with a compiler's map of blocks or of statements.
    Mapped,
    /// Code between rows of a line table, and between jumps.
    Lines,
}

/// Settings for reading files.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModuleLimits<'a> {
    /// Files that get no breakpoints.
    pub(super) excluded: &'a BTreeSet<String>,
    /// Files that are recorded.
    pub(super) recorded: &'a FileFilter,
    /// Blocks that may have breakpoints.
    pub(super) blocks: KnownBlocks,
    /// True if functions may have trampolines.
    pub(super) trampolines: bool,
}

/// Files that were found, each read once.
pub(super) struct Modules<'a> {
    files: &'a dyn Files,
    wanted: ModuleLimits<'a>,
    all: Vec<Module>,
    by_file: HashMap<PathAndInode, Option<u32>>,
    /// Files read in advance, and their lost data.
    beforehand: HashMap<PathAndInode, (Module, Skipped)>,
    pub(super) skipped: Skipped,
}

impl<'a> Modules<'a> {
    pub(super) fn new(files: &'a dyn Files, wanted: ModuleLimits<'a>) -> Self {
        Self {
            files,
            wanted,
            all: Vec::new(),
            by_file: HashMap::new(),
            beforehand: HashMap::new(),
            skipped: Skipped::default(),
        }
    }

    /// Returns the module of a mapped file. `read` returns its content, or nothing if it must not be read. Returns
    /// `None` if the file is missing, is not an ELF file, or has no code mapped yet.
    pub(super) fn of(
        &mut self,
        mapping: &ProcessMapping,
        read: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<u32> {
        // The path of a deleted or replaced file is the path under which it was read before.
        let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path);
        let known = [path, &mapping.path]
            .into_iter()
            .find_map(|path| self.by_file.get(&(path.to_owned(), mapping.inode)));
        if let Some(known) = known {
            return *known;
        }
        if !mapping.executable {
            return None;
        }
        let file = (mapping.path.clone(), mapping.inode);
        let mut is_served = false;
        let found = match self.beforehand.remove(&file) {
            Some(found) => Some(found),
            None => {
                let bytes = read()?;
                is_served = bytes.is_empty();
                self.read(&mapping.path, &bytes)
            }
        };
        let id = found.map(|(module, skipped)| {
            self.skipped.append(&skipped);
            self.all.push(module);
            (self.all.len() - 1) as u32
        });
        if id.is_none() {
            let reason = if is_served { Reason::ServedFile } else { Reason::UnreadableMapping };
            self.skipped.add(reason, 0, &mapping.path);
        }
        self.by_file.insert(file, id);
        id
    }

    /// True if a module was read from the file with this inode, even if the file's name has changed since.
    pub(super) fn is_of_inode(&self, module: u32, inode: u64) -> bool {
        self.by_file.iter().any(|((_, of), known)| *of == inode && *known == Some(module))
    }

    /// Reads a file that may be mapped soon, if it is a program or library. Returns the libraries that it needs, looked
    /// for in these folders.
    pub(super) fn read_beforehand(&mut self, path: &Path, folders: &[PathBuf]) -> Vec<PathBuf> {
        let (Some(name), Ok(about)) = (path.to_str(), std::fs::metadata(path)) else { return Vec::new() };
        let may_run = about.is_file() && about.len() <= LARGEST_FILE;
        let file = (name.to_owned(), about.ino());
        if !may_run || self.beforehand.contains_key(&file) || !begins_as_elf(path) {
            return Vec::new();
        }
        let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
        if let Some(found) = self.read(name, &bytes) {
            self.beforehand.insert(file, found);
        }
        libraries(&bytes, path, folders)
    }

    /// Adds a module as if it had been read from this file.
    #[cfg(test)]
    pub(super) fn put(&mut self, path: &str, inode: u64, module: Module) {
        self.all.push(module);
        self.by_file.insert((path.to_owned(), inode), Some((self.all.len() - 1) as u32));
    }

    fn read(&self, path: &str, bytes: &[u8]) -> Option<(Module, Skipped)> {
        let beside = FilesBeside { files: self.files, path };
        let mut skipped = Skipped::default();
        Some((Module::new(path, bytes, &beside, &self.wanted, &mut skipped)?, skipped))
    }

    pub(super) fn get(&self, id: u32) -> &Module {
        &self.all[id as usize]
    }

    /// True if functions may have trampolines.
    pub(super) fn want_trampolines(&self) -> bool {
        self.wanted.trampolines
    }

    /// Number of jumps that this file can have, and the number for all other known files.
    pub(super) fn count_jumps(&self, own: u32) -> (u64, u64) {
        let here = self.get(own).count_jumps();
        let all = self.all.iter().chain(self.beforehand.values().map(|(module, _)| module));
        (here, all.map(Module::count_jumps).sum::<u64>() - here)
    }

    pub(super) fn all(&self) -> &[Module] {
        &self.all
    }
}
