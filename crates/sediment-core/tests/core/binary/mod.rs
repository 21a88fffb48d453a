// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading ELF files: functions, sources of symbols, linkage stubs, and damaged files.

mod names;

use proptest::prelude::*;
use sediment_core::ErrorCode;
use sediment_core::binary::{Binary, Files, NoFiles, SymbolSource};
use std::ops::Range;
use support::elf_writer::{CODE_ADDRESS, CODE_OFFSET, Elf, Function, STUB};

#[derive(Default)]
struct TestDebugFiles {
    by_build_id: Option<Vec<u8>>,
    by_link: Option<Vec<u8>>,
}

impl Files for TestDebugFiles {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        self.by_build_id.clone()
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        self.by_link.clone()
    }
    fn binary(&self, _: &str, _: Option<&str>) -> Option<Vec<u8>> {
        None
    }
}

fn parse(elf: &Elf) -> Binary {
    Binary::parse(&elf.bytes(), &NoFiles).unwrap()
}

/// Returns the name, address and file of each function.
fn functions(binary: &Binary) -> Vec<(&str, u64, Option<&str>)> {
    binary.functions.iter().map(|f| (f.name.as_str(), f.address, f.file.as_deref())).collect()
}

fn stripped() -> Elf {
    Elf { symbols: None, exported: vec![Function::global("exported", 0, 8)], ..Elf::default() }
}

fn debug_file() -> Elf {
    Elf { symbols: Some(vec![Function::local("all", 16, 8, "a.c")]), without_code: true, ..Elf::default() }
}

#[test]
fn functions_have_their_files_sections_and_plain_names() {
    let resolver = Function { ifunc: true, ..Function::global("chosen", 0x30, 4) };
    let elf = Elf {
        symbols: Some(vec![
            Function::local("twin", 0, 16, "src/a.c"),
            Function::local("twin", 16, 16, "b.c"),
            Function::local("lto", 32, 4, "/tmp/ccQ1x9Zb.ltrans0.ltrans.o"),
            Function::local("lto2", 36, 4, "<artificial>"),
            Function::global("versioned@@V_2", 40, 4),
            Function::global("versioned@V_1", 44, 4),
            resolver,
        ]),
        soname: Some("libx.so.1".to_owned()),
        ..Elf::default()
    };
    let binary = parse(&elf);
    let at = |offset| CODE_ADDRESS + offset;
    assert_eq!(
        functions(&binary),
        [
            ("twin", at(0), Some("a.c")),
            ("twin", at(16), Some("b.c")),
            ("lto", at(32), None),
            ("lto2", at(36), None),
            ("versioned", at(40), None),
            ("versioned", at(44), None),
            ("chosen", at(48), None),
        ]
    );
    assert_eq!(binary.symbols_from, SymbolSource::SymbolTable);
    assert_eq!(binary.soname.as_deref(), Some("libx.so.1"));
    assert_eq!(binary.build_id, Some("ab".repeat(20)));
    assert_eq!(binary.arch.as_deref(), Some("x86_64"));
    assert!(binary.functions.iter().all(|function| function.section == ".text"));
    assert!(binary.functions[6].ifunc && !binary.functions[5].ifunc);
    assert_eq!(binary.same_named_locals().into_iter().collect::<Vec<_>>(), ["twin", "versioned"]);
    assert_eq!(binary.address_of_file_offset(CODE_OFFSET + 5), Some(at(5)));
    assert_eq!(binary.address_of_file_offset(CODE_OFFSET - 1), None);
    assert_eq!(binary.address_of_file_offset(CODE_OFFSET + 0x100), None);
    let index = binary.address_index();
    assert_eq!(index.function_at(at(17)).map(|f| f.file.as_deref()), Some(Some("b.c")));
}

/// Returns the range of bytes of a file that holds the entries of the symbol table.
fn symbol_entries(bytes: &[u8]) -> Range<usize> {
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    let mut heads = (word(40)..bytes.len()).step_by(64);
    let symbols = heads.find(|at| bytes[at + 4..at + 8] == 2u32.to_le_bytes()).unwrap();
    let (table, size) = (word(symbols + 24), word(symbols + 32));
    table..table + size
}

#[test]
fn the_first_entry_of_a_symbol_table_is_reserved() {
    let main = vec![Function::global("main", 0, 32)];
    let mut bytes = Elf { symbols: Some(main), ..Elf::default() }.bytes();
    let entries = symbol_entries(&bytes);
    bytes.copy_within(entries.end - 24..entries.end, entries.start);
    bytes[entries.start + 8] += 4;
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    assert_eq!(functions(&binary).len(), 1, "{:?}", binary.functions);
}

#[test]
fn data_and_plain_labels_are_no_functions() {
    let symbols = vec![
        Function::local("label", 0, 0, "a.s"),
        Function::local("sized", 16, 8, "a.s"),
        Function::global("global", 32, 0),
    ];
    let of_type = |kind: u8| -> Vec<String> {
        let mut bytes = Elf { symbols: Some(symbols.clone()), ..Elf::default() }.bytes();
        for info in symbol_entries(&bytes).skip(4).step_by(24) {
            bytes[info] = if bytes[info] & 15 == 2 { bytes[info] & !15 | kind } else { bytes[info] };
        }
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        binary.functions.into_iter().map(|function| function.name).collect()
    };
    let [untyped, object, function] = [0, 1, 2];
    assert_eq!(of_type(function), ["label", "sized", "global"]);
    assert_eq!(of_type(untyped), ["sized", "global"]);
    assert_eq!(of_type(object), [""; 0]);
}

#[test]
fn a_build_id_is_a_note_of_that_type() {
    let mut bytes = Elf::default().bytes();
    assert_eq!(Binary::parse(&bytes, &NoFiles).unwrap().build_id, Some("ab".repeat(20)));
    let name = bytes.windows(5).position(|text| text == b"GNU\0\xab").unwrap();
    bytes[name - 4] = 5;
    assert_eq!(Binary::parse(&bytes, &NoFiles).unwrap().build_id, None, "properties of the program");
}

#[test]
fn a_stripped_file_finds_its_symbols_where_the_debugger_does() {
    let debug = debug_file().bytes();
    let by_build_id = TestDebugFiles { by_build_id: Some(debug.clone()), ..TestDebugFiles::default() };
    let found = Binary::parse(&stripped().bytes(), &by_build_id).unwrap();
    assert_eq!(found.symbols_from, SymbolSource::DebugFile);
    assert_eq!(functions(&found), [("all", CODE_ADDRESS + 16, Some("a.c"))]);
    assert_eq!(found.address_of_file_offset(CODE_OFFSET), Some(CODE_ADDRESS), "segments are the program's");

    // The debug file of another build is not used.
    let other = Elf { build_id: vec![1; 20], ..debug_file() };
    let files = TestDebugFiles { by_build_id: Some(other.bytes()), ..TestDebugFiles::default() };
    let found = Binary::parse(&stripped().bytes(), &files).unwrap();
    assert_eq!(found.symbols_from, SymbolSource::DynamicSymbols);
    assert_eq!(functions(&found), [("exported", CODE_ADDRESS, None)]);

    // A debug link is accepted by its checksum. This one is the checksum of nine digits, which are not an ELF file.
    let linked = Elf { debug_link: Some(("x.debug".to_owned(), 0xcbf4_3926)), ..stripped() };
    let files = TestDebugFiles { by_link: Some(b"123456789".to_vec()), ..TestDebugFiles::default() };
    let error = Binary::parse(&linked.bytes(), &files).unwrap_err();
    assert!(error.code() == ErrorCode::NotElf && error.to_string().contains("123456789"), "{error}");
    let files = TestDebugFiles { by_link: Some(debug), ..TestDebugFiles::default() };
    let found = Binary::parse(&linked.bytes(), &files).unwrap();
    assert_eq!(found.symbols_from, SymbolSource::DynamicSymbols, "its checksum is another");

    let broken = Elf { debug_data: Some(b"\xfd7zXZ\0 is not all".to_vec()), ..stripped() };
    let error = Binary::parse(&broken.bytes(), &NoFiles).unwrap_err();
    assert!(error.code() == ErrorCode::Damaged && error.to_string().contains(".gnu_debugdata"), "{error}");

    let nothing = Elf { exported: Vec::new(), ..stripped() };
    assert_eq!(parse(&nothing).functions, []);
}

#[test]
fn stubs_lead_to_the_functions_they_are_for() {
    let elf = Elf { imports: vec!["first".to_owned(), "second@GLIBC_2.2.5".to_owned()], ..Elf::default() };
    let binary = parse(&elf);
    let stub = |n: u64| CODE_ADDRESS + STUB * n;
    assert_eq!(binary.plt_target(stub(0)), None, "the head of the table is no stub");
    assert_eq!(binary.plt_target(stub(1)), Some("first"));
    assert_eq!(binary.plt_target(stub(2) + 6), Some("second"));
    assert_eq!(binary.plt_target(stub(3)), None);
    let other_machine = Elf { machine: 183, ..elf };
    assert_eq!(parse(&other_machine).plt_target(stub(1)), None);
    assert_eq!(parse(&other_machine).arch.as_deref(), Some("aarch64"));
}

#[test]
fn other_file_kinds_are_named() {
    let cases: [(&[u8], ErrorCode, &str); 6] = [
        (b"", ErrorCode::EmptyInput, ""),
        (b"!<arch>\nfoo.o/", ErrorCode::NotElf, "static library"),
        (b"#!/bin/sh\n", ErrorCode::NotElf, "script"),
        (b"PERFILE2....", ErrorCode::NotElf, "perf"),
        (b"hello, world, said the file", ErrorCode::NotElf, "hello, world, sa"),
        (b"\x7fELF\x02", ErrorCode::Damaged, ""),
    ];
    for (bytes, code, named) in cases {
        let error = Binary::parse(bytes, &NoFiles).unwrap_err();
        assert!(error.code() == code && error.to_string().contains(named), "{error}");
        assert!(bytes.is_empty() || error.hint().is_some(), "{error}");
    }
    let object = Elf { kind: 1, ..Elf::default() };
    let error = Binary::parse(&object.bytes(), &NoFiles).unwrap_err();
    assert!(error.code() == ErrorCode::NotElf && error.to_string().contains("object file"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_survived(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let elf = Elf {
            symbols: Some(vec![Function::local("a", 0, 16, "a.c"), Function::global("b", 16, 16)]),
            exported: vec![Function::global("b", 16, 16)],
            imports: vec!["first".to_owned(), "second".to_owned()],
            soname: Some("libx.so.1".to_owned()),
            debug_link: Some(("x.debug".to_owned(), 1)),
            ..Elf::default()
        };
        let mut bytes = elf.bytes();
        for (at, value, in_head) in changes {
            // Damage in headers and tables has effects; the code is not read.
            let at = if in_head { at.index(120) } else { 0x1000 + at.index(bytes.len() - 0x1000) };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(binary) = Binary::parse(&bytes, &NoFiles) {
            let index = binary.address_index();
            for offset in (0..0x1200).step_by(7) {
                if let Some(address) = binary.address_of_file_offset(offset) {
                    let _ = (index.function_at(address), binary.plt_target(address));
                }
            }
        }
    }
}
