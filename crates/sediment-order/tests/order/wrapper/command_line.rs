// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading the parts of a linker's command line that an order needs.

use sediment_order::wrapper::command_line::{
    IncompleteLine, LinkInput, LinkLine, MOST_RESPONSE_FILES, Response, read,
};
use std::ffi::{OsStr, OsString};

fn line(words: &[&str]) -> LinkLine {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    read(&words, &|name, most| match name.to_str().unwrap() {
        "two" => Response::Text(b"b.o 'c d.o' \"e\\\"f.o\"\n-o\tout\\ put @three".to_vec()),
        "three" => Response::Text(b"-shared @gone".to_vec()),
        "itself" => Response::Text(b"@itself @itself".to_vec()),
        "pipe" => Response::ReadOnce,
        // The limit for several files together.
        "many" if most < 5 << 20 => Response::TooLong,
        "many" => Response::Text(vec![b' '; 5 << 20]),
        "words" => Response::Text(b"a ".repeat(200_000)),
        _ => Response::Missing,
    })
}

fn paths(line: &LinkLine) -> Vec<String> {
    line.inputs
        .iter()
        .map(|input| match input {
            LinkInput::Path(path) => path.to_string_lossy().into_owned(),
            LinkInput::Library(name) => format!("-l{}", name.to_string_lossy()),
        })
        .collect()
}

#[test]
fn arguments_of_gcc_to_collect2_are_read() {
    let line = line(&[
        "-plugin",
        "/usr/lib/gcc/liblto_plugin.so",
        "-plugin-opt=/usr/lib/gcc/lto-wrapper",
        "-plugin-opt=-pass-through=-lgcc",
        "--build-id",
        "--eh-frame-hdr",
        "-m",
        "elf_x86_64",
        "--hash-style=gnu",
        "--as-needed",
        "-dynamic-linker",
        "/lib64/ld.so",
        "-pie",
        "-z",
        "now",
        "-z",
        "relro",
        "-o",
        ".libs/prog",
        "Scrt1.o",
        "-L/usr/lib",
        "-L",
        "x",
        "a.o",
        "-lc",
        "-l",
        "m",
        "--version-script",
        "v.map",
        "-soname",
        "libx.so.1",
        "--gc-sections",
        "-O1",
        "--push-state",
        "-rpath",
        "/r",
        "-e",
        "start",
        "-Map=x.map",
        "-no-pie",
        "--start-group",
        "crtn.o",
    ]);
    assert_eq!(line.output.as_deref(), Some(OsStr::new(".libs/prog")));
    assert_eq!(line.output_name(), "prog");
    assert_eq!(line.emulation.as_deref(), Some("elf_x86_64"));
    assert_eq!(line.soname.as_deref(), Some("libx.so.1"));
    assert_eq!(paths(&line), ["Scrt1.o", "a.o", "-lc", "-lm", "crtn.o"]);
    assert_eq!(line.search, ["/usr/lib", "x"]);
    assert!(!line.relocatable && !line.shared && !line.question && line.own_order.is_none());
    assert!(line.plugin.is_some());
}

#[test]
fn every_way_to_spell_an_option() {
    for words in [
        &["-olib.so", "-hlibx.so.1", "-melf_i386", "-shared"][..],
        &["--output=lib.so", "--soname=libx.so.1", "-m", "elf_i386", "--shared"],
        &["-o", "lib.so", "-soname=libx.so.1", "-melf_i386", "-Bshareable"],
    ] {
        let line = line(words);
        assert_eq!(line.output_name(), "lib.so", "{words:?}");
        assert_eq!(line.soname.as_deref(), Some("libx.so.1"), "{words:?}");
        assert_eq!(line.emulation.as_deref(), Some("elf_i386"), "{words:?}");
        assert!(line.shared && line.inputs.is_empty(), "{words:?}");
    }
    assert!(line(&["-r", "a.o"]).relocatable);
    assert!(line(&["--relocatable", "a.o"]).relocatable);
    assert!(!line(&["-rpath", "/x", "a.o"]).relocatable);
    assert_eq!(line(&["a.o"]).output_name(), "a.out");
    assert!(line(&["--version"]).question);
    assert!(!line(&["-v", "a.o"]).question);
    // A compiler passes on a build system's question like this.
    assert!(line(&["-o", "a.out", "crt1.o", "--version", "-lc"]).question);
    assert_eq!(
        line(&["--symbol-ordering-file=x", "a.o"]).own_order.as_deref(),
        Some("--symbol-ordering-file")
    );
    assert_eq!(line(&["--section-ordering-file", "x", "a.o"]).inputs.len(), 1);
    let scripts = line(&["-T", "a", "-Tb", "--script=c", "-script", "d", "-Ttext", "0", "-dT", "e", "a.o"]);
    assert_eq!(scripts.scripts, ["a", "b", "c", "d"]);
    assert_eq!(line(&[]).output_name(), "a.out");
    assert_eq!(line(&["-o"]).output_name(), "");
}

#[test]
fn response_files() {
    let line = line(&["a.o", "@two", "@gone"]);
    assert_eq!(paths(&line), ["a.o", "b.o", "c d.o", "e\"f.o", "@gone", "@gone"]);
    assert_eq!(line.output_name(), "out put");
    assert!(line.shared && line.incomplete.is_none());
}

#[test]
fn response_files_without_an_end() {
    let rows = [
        ("@itself", 1, Some(IncompleteLine::TooLong)),
        ("@many", 12, None),
        ("@many", 13, Some(IncompleteLine::TooLong)),
        ("@words", 5, None),
        ("@words", 6, Some(IncompleteLine::TooLong)),
        ("@gone", MOST_RESPONSE_FILES + 1, None),
        ("@pipe", 1, Some(IncompleteLine::ReadOnce("pipe".into()))),
    ];
    for (word, times, expected) in rows {
        assert_eq!(line(&vec![word; times]).incomplete, expected, "{word} {times} times");
    }
}

#[test]
fn values_that_may_name_files() {
    let line = line(&["-T", "a", "-Tb", "--version-script=c", "-R", "d", "--no-such-option=e", "f.o", "-Lg"]);
    assert_eq!(line.values, ["a", "b", "c", "d", "e", "g"]);
}
