// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the rules that find the cluster of a profile for a file, and names that real packages produce.

use sediment_core::binary::{Binary, BinaryFunction, SymbolSource};
use sediment_core::matching::identity::MatchRule::{self, FileName, Functions, NameWithoutVersion, Soname};
use sediment_core::matching::identity::{Match, by_map, by_name, dso_of, read_map};
use sediment_core::profile::{FunctionKey, Profile};

fn binary(soname: Option<&str>, build_id: Option<&str>, functions: &[&str]) -> Binary {
    let function = |(i, name): (usize, &&str)| BinaryFunction {
        name: (*name).to_owned(),
        address: 0x1000 + 16 * i as u64,
        size: 16,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    };
    Binary {
        functions: functions.iter().enumerate().map(function).collect(),
        symbols_from: SymbolSource::SymbolTable,
        build_id: build_id.map(str::to_owned),
        soname: soname.map(str::to_owned),
        arch: None,
        segments: Vec::new(),
        code_sections: Vec::new(),
        plt_stubs: Vec::new(),
        unresolved: false,
        fixed: Vec::new(),
        label_ranges: Vec::new(),
    }
}

fn profile(clusters: &[(&str, &[&str])]) -> Profile {
    let mut profile = Profile::default();
    for (label, names) in clusters {
        profile.dso_mut(label);
        for name in *names {
            let key = FunctionKey::new(Some(label.as_bytes()), name.as_bytes(), None).unwrap();
            profile.function(key);
        }
    }
    profile
}

/// A case: description, soname, file name and functions of the file; the DSOs of the profile with their functions; and
/// the expected match.
type MatchCase = (
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static [&'static str])],
    Option<(&'static str, MatchRule)>,
);

const CASES: &[MatchCase] = &[
    (
        "soname before file name",
        Some("libpq.so.5"),
        "libpq.so.5.16",
        &[],
        &[("libpq.so.5", &[]), ("libpq.so.5.16", &[])],
        Some(("libpq.so.5", Soname)),
    ),
    (
        "file name",
        None,
        "postgres",
        &[],
        &[("libc.so.6", &[]), ("postgres", &[])],
        Some(("postgres", FileName)),
    ),
    (
        "file name of a library with an unknown soname",
        Some("libx.so.2"),
        "libx.so",
        &[],
        &[("libx.so", &[])],
        Some(("libx.so", FileName)),
    ),
    (
        "another version of a library",
        Some("libpq.so.6"),
        "libpq.so.6.0",
        &[],
        &[("libpq.so.5", &[])],
        Some(("libpq.so.5", NameWithoutVersion)),
    ),
    (
        "the old way to put a version",
        None,
        "libc-2.31.so",
        &[],
        &[("libc.so.6", &[]), ("libcrypt.so.1", &[])],
        Some(("libc.so.6", NameWithoutVersion)),
    ),
    (
        "another version of a program",
        None,
        "python3.13",
        &[],
        &[("python3.11", &[])],
        Some(("python3.11", NameWithoutVersion)),
    ),
    ("digits that are no version", None, "bzip3", &[], &[("bzip2", &["a"])], None),
    (
        "a debug file",
        None,
        "postgres.debug",
        &[],
        &[("postgres", &[])],
        Some(("postgres", NameWithoutVersion)),
    ),
    ("two versions in one profile", None, "gcc-12", &["x"], &[("gcc-11", &["a"]), ("gcc-13", &["b"])], None),
    (
        "most functions",
        None,
        "a.out",
        &["a", "b", "c"],
        &[("libc.so.6", &["read"]), ("prog", &["a", "b", "c", "d", "e"])],
        Some(("prog", Functions)),
    ),
    ("too few functions", None, "a.out", &["a", "b"], &[("prog", &["a", "b", "c", "d"])], None),
    (
        "only functions that every program has",
        None,
        "a.out",
        &["main", "_start"],
        &[("prog", &["main", "_start"])],
        None,
    ),
    ("main and functions of its own", None, "a.out", &["main", "a"], &[("prog", &["main", "b"])], None),
    (
        "two clusters with the same functions",
        None,
        "a.out",
        &["a", "b"],
        &[("prog", &["a", "b"]), ("prog-new", &["a", "b"])],
        None,
    ),
    ("a profile of another program", None, "a.out", &["a"], &[("postgres", &["palloc", "pfree"])], None),
    ("an empty profile", None, "a.out", &["a"], &[], None),
    ("clusters without functions", None, "a.out", &["a"], &[("prog", &[])], None),
];

#[test]
fn each_rule_finds_its_cluster() {
    for (what, soname, file_name, functions, clusters, expected) in CASES {
        let found = dso_of(&profile(clusters), &binary(*soname, None, functions), file_name);
        let expected = expected.map(|(label, rule)| Match { label: label.to_owned(), rule });
        assert_eq!(found, expected, "{what}");
    }
}

/// A case: soname and name of the linked file, labels of the profiles, and the expected match.
type PackageCase =
    (Option<&'static str>, &'static str, &'static [&'static str], Option<(&'static str, MatchRule)>);

const PACKAGES: &[PackageCase] = &[
    // PostgreSQL 15 and 17
    (Some("libpq.so.5"), "libpq.so.5.15", &["libpq.so.5", "postgres"], Some(("libpq.so.5", Soname))),
    (None, "libpq.so.5.17", &["libpq.so.5.15"], Some(("libpq.so.5.15", NameWithoutVersion))),
    (None, "postgres", &["libpq.so.5", "postgres"], Some(("postgres", FileName))),
    (Some("plpgsql.so"), "plpgsql.so", &["plpgsql.so"], Some(("plpgsql.so", Soname))),
    (None, "dict_snowball.so", &["dict_snowball.so"], Some(("dict_snowball.so", FileName))),
    (
        None,
        "libecpg_compat.so.3.15",
        &["libecpg.so.6", "libecpg_compat.so.3"],
        Some(("libecpg_compat.so.3", NameWithoutVersion)),
    ),
    // CPython 3.11 and 3.13
    (None, "python", &["python3.11"], Some(("python3.11", NameWithoutVersion))),
    (None, "python3.13", &["python3.11"], Some(("python3.11", NameWithoutVersion))),
    (None, "python3.13", &["python2.7", "python3.11"], Some(("python3.11", NameWithoutVersion))),
    (None, "python3.13", &["python3.11", "python3.12"], None),
    (None, "python3", &["python3.11"], Some(("python3.11", NameWithoutVersion))),
    (None, "python3.7m", &["python3.6m"], Some(("python3.6m", NameWithoutVersion))),
    (
        Some("libpython3.13.so.1.0"),
        "libpython3.13.so.1.0",
        &["libpython3.11.so.1.0"],
        Some(("libpython3.11.so.1.0", NameWithoutVersion)),
    ),
    (
        None,
        "_ssl.cpython-313-x86_64-linux-gnu.so",
        &["_socket.cpython-311-x86_64-linux-gnu.so", "_ssl.cpython-311-x86_64-linux-gnu.so"],
        Some(("_ssl.cpython-311-x86_64-linux-gnu.so", NameWithoutVersion)),
    ),
    (
        None,
        "_ssl.cpython-311-aarch64-linux-gnu.so",
        &["_ssl.cpython-311-x86_64-linux-gnu.so"],
        Some(("_ssl.cpython-311-x86_64-linux-gnu.so", NameWithoutVersion)),
    ),
    (
        None,
        "_rust.abi3.so",
        &["_rust.cpython-311-x86_64-linux-gnu.so"],
        Some(("_rust.cpython-311-x86_64-linux-gnu.so", NameWithoutVersion)),
    ),
    (None, "math.so", &["mmap.so"], None),
    // compilers, native and cross
    (None, "x86_64-linux-gnu-gcc-12", &["gcc-13"], Some(("gcc-13", NameWithoutVersion))),
    (
        None,
        "aarch64-linux-gnu-ld.bfd",
        &["x86_64-linux-gnu-ld.bfd"],
        Some(("x86_64-linux-gnu-ld.bfd", NameWithoutVersion)),
    ),
    (None, "x86_64-redhat-linux-gcc", &["gcc"], Some(("gcc", NameWithoutVersion))),
    (None, "cc1plus", &["cc1"], None),
    (None, "clang-19", &["clang-14"], Some(("clang-14", NameWithoutVersion))),
    (
        Some("libLLVM.so.19.1"),
        "libLLVM.so.19.1",
        &["libLLVM-14.so.1"],
        Some(("libLLVM-14.so.1", NameWithoutVersion)),
    ),
    (
        Some("libbfd-2.44-system.so"),
        "libbfd-2.44-system.so",
        &["libbfd-2.40-system.so", "libopcodes-2.40-system.so"],
        Some(("libbfd-2.40-system.so", NameWithoutVersion)),
    ),
    // libraries of many kinds
    (
        Some("libc.so.6"),
        "libc.so",
        &["libc-2.31.so", "libcrypt.so.1"],
        Some(("libc-2.31.so", NameWithoutVersion)),
    ),
    (
        Some("ld-linux-x86-64.so.2"),
        "ld.so",
        &["ld-linux-x86-64.so.2"],
        Some(("ld-linux-x86-64.so.2", Soname)),
    ),
    (
        Some("libstdc++.so.6"),
        "libstdc++.so.6.0.30",
        &["libstdc++.so.6.0.33"],
        Some(("libstdc++.so.6.0.33", NameWithoutVersion)),
    ),
    (
        Some("libssl.so.3"),
        "libssl.so.3",
        &["libcrypto.so.1.1", "libssl.so.1.1"],
        Some(("libssl.so.1.1", NameWithoutVersion)),
    ),
    (
        Some("libglib-2.0.so.0"),
        "libglib-2.0.so.0.7400.6",
        &["libglib-2.0.so.0", "libgio-2.0.so.0"],
        Some(("libglib-2.0.so.0", Soname)),
    ),
    (
        None,
        "libglib-2.0.so.0.7400.6",
        &["libgio-2.0.so.0", "libglib-2.0.so.0"],
        Some(("libglib-2.0.so.0", NameWithoutVersion)),
    ),
    (
        Some("libicui18n.so.72"),
        "libicui18n.so.72.1",
        &["libicui18n.so.67", "libicuuc.so.67"],
        Some(("libicui18n.so.67", NameWithoutVersion)),
    ),
    (None, "lua5.4", &["lua"], Some(("lua", NameWithoutVersion))),
    (None, "perl", &["perl5.36.0"], Some(("perl5.36.0", NameWithoutVersion))),
    (None, "sqlite3", &["sqlite3"], Some(("sqlite3", FileName))),
    (None, "bzip3", &["bzip2"], None),
    (None, "libx.so", &["libx"], None),
    // libtool
    (None, "lt-curl", &["curl"], Some(("curl", FileName))),
    (None, "lt-comp", &["lt-comp", "comp"], Some(("lt-comp", FileName))),
    (Some("libcurl.so.4"), "libcurl.so.4.8.0T", &["libcurl.so.4.8.0"], Some(("libcurl.so.4.8.0", FileName))),
    (None, "libcurl.so.4.8.0U", &["libcurl.so.4"], Some(("libcurl.so.4", NameWithoutVersion))),
    (None, "module.soT", &["module.so"], Some(("module.so", FileName))),
    (None, "MAKET", &["MAKE"], None),
    // cargo
    (None, "ripgrep_all-0f3a9b1c2d4e5f60", &["ripgrep-all", "ripgrep"], Some(("ripgrep-all", FileName))),
    (None, "rg-0f3a9b1c2d4e5f60", &["rg"], Some(("rg", FileName))),
    (None, "rg-0f3a9b1c2d4e5f6", &["rga"], None),
    (None, "a_b-0f3a9b1c2d4e5f60", &["a-b", "a_b"], None),
    (None, "-0f3a9b1c2d4e5f60", &["rg"], None),
    // tests of configure
    (None, "conftest", &["postgres", "python3.11"], None),
    (None, "a.out", &["postgres"], None),
    (None, "", &["postgres"], None),
    (None, "-12", &["-13"], None),
    (None, "lt-", &["postgres"], None),
];

#[test]
fn names_that_real_packages_produce() {
    for (soname, file_name, labels, expected) in PACKAGES {
        let found = by_name(*soname, file_name, labels);
        let expected = expected.map(|(label, rule)| Match { label: label.to_owned(), rule });
        assert_eq!(found, expected, "{file_name} among {labels:?}");
    }
}

#[test]
fn a_map_tells_the_rest() {
    let (map, wrong) =
        read_map("# files and labels\n\n a.out  postgres\nname with blanks\tits label\nlost\n");
    assert_eq!(wrong, 1);
    assert_eq!(by_map(None, "a.out", &map), Some("postgres"));
    assert_eq!(by_map(None, "name with blanks", &map), Some("its label"));
    assert_eq!(by_map(Some("a.out"), "x", &map), Some("postgres"));
    assert_eq!(by_map(None, "lt-a.out", &map), Some("postgres"));
    assert_eq!(by_map(None, "b.out", &map), None);
}

#[test]
fn the_very_file_is_known_by_its_build_id() {
    let mut profile = profile(&[("a.out", &[]), ("prog", &["a"])]);
    profile.dso_mut("prog").build_id = Some("4c0f".to_owned());
    let found = dso_of(&profile, &binary(None, Some("4c0f"), &[]), "a.out");
    assert_eq!(found, Some(Match { label: "prog".to_owned(), rule: MatchRule::BuildId }));
    let other = dso_of(&profile, &binary(None, Some("77"), &[]), "a.out");
    assert_eq!(other, Some(Match { label: "a.out".to_owned(), rule: FileName }));
}
