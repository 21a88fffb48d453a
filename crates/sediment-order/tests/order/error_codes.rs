// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of error codes: each has its own text and occurs in a message, and each class that callers distinguish has
//! codes.

use sediment_core::binary::{Binary, NoFiles};
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode};
use sediment_order::order::{OrderRequest, Selection, compute};
use std::collections::BTreeSet;
use std::path::Path;

fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            *found += &std::fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn every_code_has_a_text_and_a_message() {
    let texts: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.text()).collect();
    assert_eq!(texts.len(), ErrorCode::ALL.len(), "{texts:?}");
    // Programs recognise errors by these codes: if one changes, the changelog must say so.
    let lines: Vec<String> =
        ErrorCode::ALL.iter().map(|code| format!("{} {:?}\n", code.text(), code.kind())).collect();
    support::golden("errors/codes.txt", &lines.concat());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut code = String::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut code);
    }
    for known in ErrorCode::ALL {
        assert!(known.text().chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{known:?}");
        let name = format!("{known:?}");
        let is_name =
            |rest: &str| rest.starts_with(&name) && !rest[name.len()..].starts_with(char::is_alphanumeric);
        assert!(code.split("ErrorCode::").skip(1).any(is_name), "no message has the code {name}");
    }
}

/// A code decides the class: a message without a code does not compile.
#[test]
fn the_code_decides_the_class() {
    for code in ErrorCode::ALL {
        let error = Error::new(*code, "message").with_hint("hint").with_input("file");
        assert_eq!((error.code(), error.kind()), (*code, code.kind()));
    }
}

#[test]
fn callers_tell_errors_apart() {
    let of_profile = |bytes: &[u8]| text::parse(bytes).unwrap_err().code();
    assert_eq!(of_profile(b""), ErrorCode::EmptyInput);
    assert_eq!(of_profile(b"digraph { graph [sediment=77]; a -> b [count=1]; }"), ErrorCode::NewerVersion);
    assert_eq!(of_profile(b"digraph { graph [sediment=2]; a -> b [count=-1]; }"), ErrorCode::Damaged);
    assert_eq!(Binary::parse(b"", &NoFiles).unwrap_err().code(), ErrorCode::EmptyInput);
    assert_eq!(Binary::parse(b"text", &NoFiles).unwrap_err().code(), ErrorCode::NotElf);
    let recording = |bytes: &[u8]| {
        sediment_read::read::find(&bytes, &sediment_read::read::ReadSettings::default())
            .err()
            .map(|error| error.code())
    };
    assert_eq!(recording(b"\x7fELF"), Some(ErrorCode::NotARecording));
    assert_eq!(recording(b"\x00\x01\x02"), Some(ErrorCode::UnknownFormat));
    let empty = text::parse(b"digraph { graph [sediment=2]; }").unwrap().0;
    let error = compute(&empty, &Selection::Everything, &OrderRequest::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::EmptyProfile);
    let needs_binary =
        sediment_read::read::read(&&b"gmon\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], &Default::default());
    assert_eq!(needs_binary.unwrap_err().code(), ErrorCode::NeedsBinary);
    let read = |text: &'static str| {
        sediment_read::read::read(&text.as_bytes(), &Default::default()).unwrap_err().code()
    };
    assert_eq!(read("mode: count\n"), ErrorCode::UnknownFormat);
    assert_eq!(sediment_order::link::read("").unwrap_err().code(), ErrorCode::UnknownFormat);
}
