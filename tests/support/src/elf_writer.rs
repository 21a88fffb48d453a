// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(dead_code)] // each test program uses its part
//! Writes small ELF files (64 bit, little-endian) whose every byte a test knows.

/// Offset in the file, and virtual address, of the first byte of `.plt`; `.text` follows it.
pub const CODE_OFFSET: u64 = 0x1000;
pub const CODE_ADDRESS: u64 = 0x40_3000;
/// Bytes of a stub, and of the head of `.plt`.
pub const STUB: u64 = 16;

const GOT: u64 = 0x60_0000;

/// A function symbol; `offset` is from the first byte of `.text`.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    pub offset: u64,
    pub size: u64,
    pub file: Option<String>,
    pub local: bool,
    pub ifunc: bool,
}

impl Function {
    pub fn global(name: &str, offset: u64, size: u64) -> Self {
        Self { name: name.to_owned(), offset, size, file: None, local: false, ifunc: false }
    }

    pub fn local(name: &str, offset: u64, size: u64, file: &str) -> Self {
        Self { file: Some(file.to_owned()), local: true, ..Self::global(name, offset, size) }
    }
}

/// An ELF file to be written.
#[derive(Debug, Clone)]
pub struct Elf {
    pub machine: u16,
    /// ET_*: 2 for a program at a fixed address, 3 for one that can be moved or a library.
    pub kind: u16,
    pub text: Vec<u8>,
    /// Functions of `.symtab`; None leaves the table out.
    pub symbols: Option<Vec<Function>>,
    /// Functions of `.dynsym`.
    pub exported: Vec<Function>,
    /// Functions that have a stub, in the order of the stubs.
    pub imports: Vec<String>,
    pub soname: Option<String>,
    pub build_id: Vec<u8>,
    pub debug_link: Option<(String, u32)>,
    pub debug_data: Option<Vec<u8>>,
    /// Further sections: names, flags and contents.
    pub further: Vec<(&'static str, u64, Vec<u8>)>,
    /// As a separate debug file: sections with code take no bytes.
    pub without_code: bool,
}

impl Default for Elf {
    fn default() -> Self {
        Self {
            machine: 62,
            kind: 3,
            text: vec![0x90; 0x100],
            symbols: Some(Vec::new()),
            exported: Vec::new(),
            imports: Vec::new(),
            soname: None,
            build_id: vec![0xab; 20],
            debug_link: None,
            debug_data: None,
            further: Vec::new(),
            without_code: false,
        }
    }
}

struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    address: u64,
    data: Vec<u8>,
    link: u32,
    info: u32,
    entry_size: u64,
}

impl Section {
    fn new(name: &'static str, kind: u32, data: Vec<u8>) -> Self {
        Self { name, kind, flags: 0, address: 0, data, link: 0, info: 0, entry_size: 0 }
    }
}

const PROGBITS: u32 = 1;
const ALLOC: u64 = 2;
const ALLOC_EXEC: u64 = 6;

impl Elf {
    /// Bytes of `.plt`: a head and a stub per import; none without imports.
    pub fn plt_size(&self) -> u64 {
        if self.imports.is_empty() { 0 } else { STUB * (1 + self.imports.len() as u64) }
    }

    /// Offset in the file of a byte of `.text`.
    pub fn file_offset(&self, text_offset: u64) -> u64 {
        CODE_OFFSET + self.plt_size() + text_offset
    }

    /// Offset in the file of the stub of an import.
    pub fn stub_offset(&self, import: usize) -> u64 {
        CODE_OFFSET + STUB * (1 + import as u64)
    }

    /// Virtual address of a byte of `.text`.
    pub fn address(&self, text_offset: u64) -> u64 {
        CODE_ADDRESS + self.plt_size() + text_offset
    }

    fn plt(&self) -> Vec<u8> {
        let mut code = Vec::new();
        if self.imports.is_empty() {
            return code;
        }
        code.extend([0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0]);
        for index in 0..self.imports.len() as u64 {
            let next = CODE_ADDRESS + STUB * (1 + index) + 6;
            let distance = (GOT + 8 * index).wrapping_sub(next) as u32;
            code.extend([0xff, 0x25]);
            code.extend(distance.to_le_bytes());
            code.push(0x68);
            code.extend((index as u32).to_le_bytes());
            code.extend([0xe9, 0, 0, 0, 0]);
        }
        code
    }

    /// A symbol table and its strings; sections of functions are `text_section`.
    fn symbol_table(
        &self,
        functions: &[Function],
        imports: &[String],
        text_section: u16,
    ) -> (Vec<u8>, Vec<u8>, u32) {
        let mut table = vec![0u8; 24];
        let mut strings = vec![0u8];
        let mut add = |name: &str, info: u8, section: u16, value: u64, size: u64| {
            let at = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            table.extend(at.to_le_bytes());
            table.extend([info, 0]);
            table.extend(section.to_le_bytes());
            table.extend(value.to_le_bytes());
            table.extend(size.to_le_bytes());
        };
        let entry = |function: &Function| {
            let kind = if function.ifunc { 10 } else { 2 };
            let bind = if function.local { 0 } else { 1 };
            (bind << 4 | kind, self.address(function.offset), function.size)
        };
        let mut locals = 1;
        let mut file = None;
        for function in functions.iter().filter(|function| function.local) {
            if function.file != file {
                add(function.file.as_deref().unwrap_or(""), 4, 0xfff1, 0, 0);
                file = function.file.clone();
                locals += 1;
            }
            let (info, value, size) = entry(function);
            add(&function.name, info, text_section, value, size);
            locals += 1;
        }
        for name in imports {
            add(name, 1 << 4 | 2, 0, 0, 0);
        }
        for function in functions.iter().filter(|function| !function.local) {
            let (info, value, size) = entry(function);
            add(&function.name, info, text_section, value, size);
        }
        (table, strings, locals)
    }

    fn relocations(&self) -> Vec<u8> {
        let mut relocations = Vec::new();
        for index in 0..self.imports.len() as u64 {
            relocations.extend((GOT + 8 * index).to_le_bytes());
            relocations.extend(((index + 1) << 32 | 7).to_le_bytes());
            relocations.extend(0u64.to_le_bytes());
        }
        relocations
    }

    fn build_id_note(&self) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [4, self.build_id.len() as u32, 3] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"GNU\0");
        note.extend(&self.build_id);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut sections = vec![Section::new("", 0, Vec::new())];
        let plt = self.plt();
        let mut code_address = CODE_ADDRESS;
        for (name, data, entry_size) in [(".plt", plt, STUB), (".text", self.text.clone(), 0)] {
            if name == ".plt" && data.is_empty() {
                continue;
            }
            let kind = if self.without_code { 8 } else { PROGBITS };
            let size = data.len() as u64;
            sections.push(Section {
                flags: ALLOC_EXEC,
                address: code_address,
                entry_size,
                ..Section::new(name, kind, data)
            });
            code_address += size;
        }
        let text_section = sections.len() as u16 - 1;
        let code_size = code_address - CODE_ADDRESS;

        let (dynsym, mut dynstr, locals) = self.symbol_table(&self.exported, &self.imports, text_section);
        let soname_at = dynstr.len() as u64;
        dynstr.extend(self.soname.as_deref().unwrap_or("").as_bytes());
        dynstr.push(0);
        let dynsym_index = sections.len() as u32;
        sections.push(Section {
            link: dynsym_index + 1,
            info: locals,
            entry_size: 24,
            ..Section::new(".dynsym", 11, dynsym)
        });
        sections.push(Section::new(".dynstr", 3, dynstr));
        sections.push(Section {
            flags: ALLOC,
            link: dynsym_index,
            entry_size: 24,
            ..Section::new(".rela.plt", 4, self.relocations())
        });
        let mut dynamic = Vec::new();
        if self.soname.is_some() {
            dynamic.extend(14u64.to_le_bytes());
            dynamic.extend(soname_at.to_le_bytes());
        }
        dynamic.extend([0; 16]);
        sections.push(Section {
            link: dynsym_index + 1,
            entry_size: 16,
            ..Section::new(".dynamic", 6, dynamic)
        });
        if !self.build_id.is_empty() {
            sections.push(Section::new(".note.gnu.build-id", 7, self.build_id_note()));
        }
        if let Some(symbols) = &self.symbols {
            let (symtab, strtab, locals) = self.symbol_table(symbols, &[], text_section);
            let link = sections.len() as u32 + 1;
            sections.push(Section {
                link,
                info: locals,
                entry_size: 24,
                ..Section::new(".symtab", 2, symtab)
            });
            sections.push(Section::new(".strtab", 3, strtab));
        }
        if let Some((name, crc)) = &self.debug_link {
            let mut link = name.clone().into_bytes();
            link.push(0);
            link.resize(link.len().next_multiple_of(4), 0);
            link.extend(crc.to_le_bytes());
            sections.push(Section::new(".gnu_debuglink", PROGBITS, link));
        }
        if let Some(data) = &self.debug_data {
            sections.push(Section::new(".gnu_debugdata", PROGBITS, data.clone()));
        }
        for (name, flags, data) in &self.further {
            sections.push(Section { flags: *flags, ..Section::new(name, PROGBITS, data.clone()) });
        }
        self.assemble(sections, code_size)
    }

    fn assemble(&self, mut sections: Vec<Section>, code_size: u64) -> Vec<u8> {
        sections.push(Section::new(".shstrtab", 3, Vec::new()));
        let mut names = Vec::new();
        let mut name_offsets = Vec::new();
        for section in &sections {
            name_offsets.push(names.len() as u32);
            names.extend(section.name.as_bytes());
            names.push(0);
        }
        let last = sections.len() - 1;
        sections[last].data = names;

        let mut file = vec![0u8; CODE_OFFSET as usize];
        let mut headers = Vec::new();
        for (section, name) in sections.iter().zip(&name_offsets) {
            if section.flags != ALLOC_EXEC {
                file.resize(file.len().next_multiple_of(8), 0);
            }
            let offset = file.len() as u64;
            if section.kind != 8 {
                file.extend(&section.data);
            }
            headers.extend(name.to_le_bytes());
            headers.extend(section.kind.to_le_bytes());
            for word in [section.flags, section.address, offset, section.data.len() as u64] {
                headers.extend(word.to_le_bytes());
            }
            headers.extend(section.link.to_le_bytes());
            headers.extend(section.info.to_le_bytes());
            headers.extend(8u64.to_le_bytes());
            headers.extend(section.entry_size.to_le_bytes());
        }
        file.resize(file.len().next_multiple_of(8), 0);
        let headers_at = file.len() as u64;
        file.extend(headers);

        let mut head = Vec::new();
        head.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        head.extend(self.kind.to_le_bytes());
        head.extend(self.machine.to_le_bytes());
        head.extend(1u32.to_le_bytes());
        for word in [0, 64, headers_at] {
            head.extend(u64::to_le_bytes(word));
        }
        head.extend(0u32.to_le_bytes());
        for half in [64, 56, 1, 64, sections.len() as u16, last as u16] {
            head.extend(u16::to_le_bytes(half));
        }
        // PT_LOAD, readable and executable.
        head.extend(1u32.to_le_bytes());
        head.extend(5u32.to_le_bytes());
        let file_size = if self.without_code { 0 } else { code_size };
        for word in [CODE_OFFSET, CODE_ADDRESS, CODE_ADDRESS, file_size, code_size, 0x1000] {
            head.extend(word.to_le_bytes());
        }
        file[..head.len()].copy_from_slice(&head);
        file
    }
}
