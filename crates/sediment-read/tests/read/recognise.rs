// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the kind of a file is found by its content: no reader accepts another reader's files.

use sediment_core::ErrorCode;
use sediment_read::read::{FORMER_FORMATS, READERS, ReadSettings, find};

#[test]
fn every_golden_input_is_recognised_by_its_own_reader_first() {
    for reader in READERS {
        for case in support::golden_cases(&format!("read/{}", reader.name)) {
            let Ok(bytes) = std::fs::read(case.join("input")) else { continue };
            let name = case.file_name().unwrap().to_string_lossy().into_owned();
            let found = find(&bytes, &ReadSettings::default()).map(|reader| reader.name);
            match found {
                Ok(first) => {
                    assert_eq!(first, reader.name, "{}/{name} is taken by another reader", reader.name)
                }
                // A file that is too damaged to be recognised must at least not be accepted by another reader.
                Err(error) => assert!(name.starts_with("error-"), "{}/{name}: {error}", reader.name),
            }
        }
    }
}

#[test]
fn other_files_are_recognised_by_no_reader() {
    let strangers: [(&str, &[u8]); 12] = [
        ("an ELF file", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0"),
        (
            "prose",
            b"The quick brown fox jumps over the lazy dog.\nIt does so again and again, all day long.\n",
        ),
        ("C", b"#include <stdio.h>\nint main(void) {\n    return 0;\n}\n"),
        ("JSON", b"{\n  \"a\": [1, 2, 3],\n  \"b\": null\n}\n"),
        ("HTML", b"<!DOCTYPE html>\n<html><body>12</body></html>\n"),
        ("a shell script", b"#!/bin/sh\nset -e\nexec \"$@\" 1\n"),
        ("a .gitignore", b"target\n.cache\nCargo.lock\n"),
        ("compiler's places", b"main.c:12:5\nother.c:7:1\n"),
        ("a log", b"Started at 12:30:45\nadd more (really)\n deadbeef 1234: no\n"),
        ("zeros", &[0; 512]),
        ("all bytes at the top", &[0xff; 512]),
        ("an archive", b"!<arch>\nfoo.o/          0           0     0     644     12        `\n"),
    ];
    for (what, bytes) in strangers {
        let takers: Vec<&str> = READERS.iter().filter(|r| (r.recognises)(bytes)).map(|r| r.name).collect();
        assert!(takers.is_empty(), "{what} is taken for {takers:?}");
    }
}

/// Inputs that are not profiles are refused with a specific hint.
#[test]
fn containers_and_companions_of_profiles_are_refused_with_a_hint() {
    let mistakes: [(&[u8], &str); 9] = [
        (b"\x7fELF\x02\x01\x01\0", "--binary"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gzip -dc"),
        (b"\xfd7zXZ\0\0\x04", "xz -dc"),
        (b"\x28\xb5\x2f\xfd\x04\x58", "zstd -dc"),
        (b"BZh91AY&SY", "bzip2 -dc"),
        (b"digraph Callgraph {}", "sediment show"),
        (b"digraph \"prog\" {\nsubgraph cluster_L { \"File: prog\" }\n}\n", "pprof -proto"),
        (b"PERFFILE\x68\0\0\0\0\0\0\0", "perf script"),
        (b"line1\nline2\nline3\n", "--format entry-trace"),
    ];
    for (bytes, advice) in mistakes {
        let error = find(&bytes, &ReadSettings::default()).unwrap_err();
        assert!(error.hint().unwrap().contains(advice), "{error:?}");
    }
}

#[test]
fn a_reader_can_be_asked_for_by_name() {
    for reader in READERS {
        let settings = ReadSettings { format: Some(reader.name.to_owned()), ..ReadSettings::default() };
        assert_eq!(find(&&b"anything"[..], &settings).unwrap().name, reader.name);
    }
    let settings = ReadSettings { format: Some("no-such".to_owned()), ..ReadSettings::default() };
    let error = find(&&b"anything"[..], &settings).unwrap_err();
    assert!(error.hint().unwrap().contains(READERS[0].name));
}

/// Formats of former releases are refused with a hint at their replacement, whether they are recognised or requested.
#[test]
fn former_formats_are_refused_with_their_replacement() {
    let flat = "Each sample counts as 0.01 seconds.\n  %   cumulative   self              self     total\n time   seconds   seconds    calls  ms/call  ms/call  name\n";
    let graph = "index % time    self  children    called     name\n[1]    100.0    0.15    0.00       1         main [1]\n";
    let bsd = "index  %time    self descendents  called+self    name           index\n";
    let explained = "Call graph (explanation follows)\n\n\n";
    for text in [flat, graph, bsd, explained] {
        let error = find(&text.as_bytes(), &ReadSettings::default()).unwrap_err();
        assert!(error.hint().unwrap().contains("gmon.out --binary"), "{text}: {error:?}");
    }
    for former in FORMER_FORMATS {
        let settings = ReadSettings { format: Some(former.name.to_owned()), ..ReadSettings::default() };
        let error = find(&&b"anything"[..], &settings).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UnsupportedVariant);
        assert!(error.hint().is_some());
    }
}
