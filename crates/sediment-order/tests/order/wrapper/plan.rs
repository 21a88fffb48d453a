// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of which links are left alone, and which dialect a linker reads.

use sediment_order::link::{gnu_ld, gnu_ld_script, gold, lld};
use sediment_order::wrapper::command_line::{self, Response};
use sediment_order::wrapper::plan::{
    PassThrough, dialect, is_order, joinable, left_alone, order_arguments, plugin_arguments,
    with_function_sections,
};
use std::ffi::{OsStr, OsString};

fn left(words: &[&str], folder: &str) -> Option<PassThrough> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    left_alone(&command_line::read(&words, &|_, _| Response::Missing), OsStr::new(folder))
}

#[test]
fn unordered_links_are_passed_through() {
    let rows: &[(&[&str], &str, Option<PassThrough>)] = &[
        (&["-o", "postgres", "a.o"], "/build", None),
        (&["a.o"], "/build", None),
        (&["--version"], "/build", Some(PassThrough::Question)),
        (&["-v"], "/build", Some(PassThrough::Question)),
        (&["-r", "-o", "SUBSYS.o", "a.o"], "/build", Some(PassThrough::Relocatable)),
        (&["-o", "conftest", "/tmp/cc1.o"], "/build", Some(PassThrough::Test)),
        (&["-o", "conftest.so", "/tmp/cc1.o"], "/build", Some(PassThrough::Test)),
        (&["-o", "a.out", "conftest.o"], "/build", Some(PassThrough::Test)),
        (&["-o", "cmTC_4d2a1", "a.o"], "/build", Some(PassThrough::Test)),
        (&["-o", "x", "a.o"], "/b/CMakeFiles/CMakeScratch/TryCompile-x", Some(PassThrough::Test)),
        (&["-o", "a.out", "a.o"], "/b/CMakeFiles/3.25.1/CompilerIdC", Some(PassThrough::Test)),
        (&["-o", "meson-private/tmp1/output.exe", "a.o"], "/b", Some(PassThrough::Test)),
        (&["-o", "/b/meson-private/sanitycheckc.exe", "a.o"], "/b", Some(PassThrough::Test)),
        (
            &["--section-ordering-file=x", "a.o"],
            "/b",
            Some(PassThrough::OwnOrder("--section-ordering-file".to_owned())),
        ),
    ];
    for (words, folder, expected) in rows {
        assert_eq!(left(words, folder), *expected, "{words:?} in {folder}");
    }
}

#[test]
fn a_script_that_lists_functions_is_an_order() {
    let listing = "SECTIONS { .text.sediment : { *(.text.a) *(.text.b) } } INSERT BEFORE .text;";
    assert!(is_order(listing));
    for script in [
        "",
        "SECTIONS { .text : { *(.text.unlikely .text.unlikely.*) *(.text.a) *(.text .text.*) } }",
        "SECTIONS { .text.sediment : { } } INSERT BEFORE .text;",
        "SECTIONS { .mine : { *(.data.mine) } } INSERT AFTER .data;",
        ".text : { *(.text.a) }",
    ] {
        assert!(!is_order(script), "{script}");
    }
}

#[test]
fn a_linker_is_known_by_what_it_says() {
    let cases = [
        ("GNU ld (GNU Binutils for Debian) 2.40", "  -T FILE", Some("gnu-ld-script")),
        ("GNU ld version 2.43.1-5.fc42", "  --section-ordering-file FILE", Some("gnu-ld")),
        ("Debian LLD 19.1.7 (compatible with GNU linkers)", "", Some("lld")),
        ("LLD 17.0.6 (compatible with GNU linkers)", "", Some("lld")),
        ("GNU gold (GNU Binutils for Debian 2.40) 1.16", "  --section-ordering-file", Some("gold")),
        ("mold 1.10.1 (compatible with GNU ld)", "", None),
        ("Wild version 0.8.0 (compatible with GNU linkers)", "", None),
        ("", "", None),
    ];
    for (version, help, expected) in cases {
        let found = dialect(version, help).map(|linker| linker.name);
        assert_eq!(found.as_ref().ok(), expected.as_ref(), "{version}");
        if let Err(why) = found {
            assert!(why.contains(version.split(' ').next().unwrap()), "{why}");
        }
    }
}

#[test]
fn objects_are_made_into_one_where_that_means_the_same() {
    let positions = |words: &[&str], complete| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        joinable(&command_line::read(&words, &|_, _| Response::Missing), &words, complete)
    };
    let plain = ["-o", "prog", "/lib/Scrt1.o", "crti.o", "a.o", "-lx", "b.o", "libc.a", "crtn.o"];
    assert_eq!(positions(&plain, true), Ok(vec![4, 6]));
    assert_eq!(positions(&plain, false), Err("link-time optimisation".to_owned()));
    for option in ["--gc-sections", "--icf=all", "--start-lib", "--emit-relocs", "--format=binary", "-q"] {
        assert!(positions(&[option, "a.o"], true).is_err(), "{option}");
    }
    assert_eq!(positions(&["--gc-sections", "--no-gc-sections", "--icf=none", "a.o"], true), Ok(vec![3]));
    assert!(positions(&["libx.a"], true).is_err() && positions(&["@words", "a.o"], true).is_err());
    assert!(positions(&["-o", "a.o", "a.o"], true).is_err());
}

#[test]
fn arguments_for_the_linker_itself() {
    let words = |linker| order_arguments(linker, OsStr::new("/o, p"));
    assert_eq!(words(&gnu_ld::LINKER), ["--section-ordering-file", "/o, p"]);
    assert_eq!(words(&gnu_ld_script::LINKER), ["-T", "/o, p"]);
    assert_eq!(words(&lld::LINKER), ["--symbol-ordering-file", "/o, p", "--no-warn-symbol-ordering"]);
    assert_eq!(words(&gold::LINKER), ["--section-ordering-file", "/o, p"]);
}

#[test]
fn link_time_optimisation_is_told_of_sections() {
    let with = with_function_sections(OsStr::new("'-O2' '-flto'"));
    assert_eq!(with.as_deref(), Some(OsStr::new("'-O2' '-flto' '-ffunction-sections'")));
    assert_eq!(with_function_sections(&with.unwrap()), None);
    let line =
        command_line::read(&["-plugin".into(), "/usr/lib/LLVMgold.so".into()], &|_, _| Response::Missing);
    assert_eq!(plugin_arguments(&line), ["-plugin-opt=-function-sections=1"]);
    let line = command_line::read(&["-plugin".into(), "/usr/lib/liblto_plugin.so".into()], &|_, _| {
        Response::Missing
    });
    assert!(plugin_arguments(&line).is_empty());
}
