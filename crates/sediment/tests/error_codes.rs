// SPDX-License-Identifier: MIT OR Apache-2.0
//! Codes of errors: each has a text of its own and a message that carries it, and the classes that callers tell apart have theirs.

use sediment::ErrorCode;
use sediment::binary::{Binary, NoFiles};
use sediment::order::{Request, Selection, compute};
use sediment::profile::text;
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
    let mut code = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let of_kinds = ["Failed", "Usage", "BelowThreshold", "Unsupported", "Interrupted"];
    for known in ErrorCode::ALL {
        assert!(known.text().chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{known:?}");
        let name = format!("{known:?}");
        let used = code.contains(&format!("ErrorCode::{name}")) || of_kinds.contains(&&*name);
        assert!(used, "no message has the code {name}");
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
        sediment::read::find(&bytes, &sediment::read::Settings::default()).err().map(|error| error.code())
    };
    assert_eq!(recording(b"\x7fELF"), Some(ErrorCode::NotARecording));
    assert_eq!(recording(b"\x00\x01\x02"), Some(ErrorCode::UnknownFormat));
    let empty = text::parse(b"digraph { graph [sediment=2]; }").unwrap().0;
    let error = compute(&empty, &Selection::Everything, &Request::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::EmptyProfile);
}
