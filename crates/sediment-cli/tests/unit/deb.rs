// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of `package deb` to Debian source packages: `control` and `rules`.

use super::*;

fn changed(control: &str) -> String {
    SourceParagraph::read(control).unwrap().with_sequence().unwrap()
}

/// The list of build dependencies keeps its style.
#[test]
fn the_list_keeps_its_style() {
    let new = "dh-sequence-sediment <!pkg.toy.nosediment>";
    for (before, after) in [
        ("debhelper-compat (= 13)", format!("debhelper-compat (= 13), {new}")),
        ("debhelper-compat (= 13), cmake", format!("debhelper-compat (= 13), {new}, cmake")),
        ("cmake, debhelper-compat (= 13)", format!("cmake, debhelper-compat (= 13), {new}")),
        (
            "\n cmake,\n debhelper-compat (= 13),\n zlib1g-dev,",
            format!("\n cmake,\n debhelper-compat (= 13),\n {new},\n zlib1g-dev,"),
        ),
        ("debhelper-compat (= 13),\n cmake,", format!("debhelper-compat (= 13),\n {new},\n cmake,")),
        ("\n debhelper-compat (= 13),", format!("\n debhelper-compat (= 13),\n {new},")),
        (
            "cmake\n , debhelper-compat (= 13)\n , flex",
            format!("cmake\n , debhelper-compat (= 13)\n , {new}\n , flex"),
        ),
        (
            "\n cmake,\n debhelper-compat (= 13),\n# for tests\n flex",
            format!("\n cmake,\n debhelper-compat (= 13),\n {new},\n# for tests\n flex"),
        ),
    ] {
        let control = |list: &str| {
            format!("Source: toy\nBuild-Depends: {list}\nSection: misc\n\nPackage: toy\nArchitecture: any\n")
        };
        assert_eq!(changed(&control(before)), control(&after));
        assert_eq!(changed(&control(&after)), control(&after), "a second time changes nothing");
    }
}

/// Packages for all architectures are built without the sequence.
#[test]
fn the_sequence_is_for_architectures_where_other_packages_are_not() {
    let new = "dh-sequence-sediment <!pkg.toy.nosediment>";
    let packages = "\nPackage: toy\nArchitecture: any\n\nPackage: toy-doc\nArchitecture: all\n";
    for (before, after) in [
        ("Section: misc\n", format!("Build-Depends-Arch: {new}\nSection: misc\n")),
        ("Build-Depends-Arch: cmake\n", format!("Build-Depends-Arch: cmake, {new}\n")),
        (
            "Build-Depends-Arch:\n cmake,\n flex,\nSection: misc\n",
            format!("Build-Depends-Arch:\n cmake,\n flex,\n {new},\nSection: misc\n"),
        ),
    ] {
        let control =
            |fields: &str| format!("Source: toy\nBuild-Depends: debhelper-compat (= 13)\n{fields}{packages}");
        assert_eq!(changed(&control(before)), control(&after));
        assert_eq!(changed(&control(&after)), control(&after), "a second time changes nothing");
    }
}

#[test]
fn an_entry_that_is_not_released_gets_the_change() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("changelog");
    let ui = crate::ui::Ui::new();
    let entry = |suite: &str, items: &str| {
        format!(
            "toy (1.0-2) {suite}; urgency=low\n\n{items}\n -- A B <a@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n"
        )
    };
    std::fs::write(&path, entry("UNRELEASED", "  * First.\n")).unwrap();
    let change = with_entry(&path, &ui).unwrap().unwrap();
    assert_eq!(change.after, entry("UNRELEASED", &format!("  * First.\n{ENTRY}")));
    std::fs::write(&path, &change.after).unwrap();
    assert!(with_entry(&path, &ui).unwrap().is_none(), "a second time changes nothing");
    std::fs::write(&path, entry("unstable", "  * First.\n")).unwrap();
    assert!(with_entry(&path, &ui).unwrap().is_none());
}

#[test]
fn packages_that_go_builds_are_refused() {
    let path = Path::new("debian/rules");
    let control = "Source: toy\nBuild-Depends: debhelper-compat (= 13), dh-sequence-golang\n";
    for (rules, control, is_refused) in [
        ("%:\n\tdh $@ --buildsystem=golang --with=golang\n", "", true),
        ("%:\n\tdh $@\n", control, true),
        ("%:\n\tdh $@\n", "Source: toy\nBuild-Depends: golang-any\n", false),
    ] {
        assert_eq!(must_not_be_of_go(path, rules, control).is_err(), is_refused, "{rules}");
    }
}

#[test]
fn without_debhelper_there_is_no_place_for_it() {
    let control = "Source: toy\nBuild-Depends: cmake\n\nPackage: toy\nArchitecture: any\n";
    let error = SourceParagraph::read(control).unwrap().with_sequence().unwrap_err();
    assert!(error.to_string().contains("debhelper"), "{error}");
}

/// On several lines, and in a separate file of the package.
#[test]
fn dh_is_found_where_it_is_called() {
    let folder = tempfile::TempDir::new().unwrap();
    let debian = folder.path().join("debian");
    std::fs::create_dir(&debian).unwrap();
    std::fs::write(debian.join("main.mk"), "%:\n\tdh \\\n\t  $@\n").unwrap();
    std::fs::write(debian.join("own.mk"), "export PROF_DIR = x\n").unwrap();
    let asked = |rules: &str| must_use_sequences(&debian.join("rules"), rules);
    asked("include debian/main.mk\n").unwrap();
    asked("  include $(CURDIR)/debian/main.mk # the build\n").unwrap();
    std::fs::write(debian.join("around.mk"), "sinclude debian/around.mk \\\n debian/main.mk\n").unwrap();
    asked("include debian/around.mk\n").unwrap();
    asked("%:\n\tdh --with x \\\n\t  $@\n").unwrap();
    assert!(asked("include debian/none.mk\n").is_err());
    let error = asked("-include debian/own.mk debian/main.mk\n").unwrap_err();
    assert!(error.to_string().contains("PROF_DIR"), "{error}");
}

#[test]
fn dh_is_found_in_rules() {
    let calls = |line: &str| {
        let rules = "DH = dh\nexport OTHER := /usr/bin/dh --with x\nDEB = dpkg\n".to_owned();
        calls_dh(line, &[rules])
    };
    for line in [
        "\tdh $@",
        "\t@dh $@ --with python3",
        "\t-dh $@",
        "\t+dh $@",
        "\tdh ${@}",
        "\tdh \"$@\"",
        "\tdh build-arch",
        "\t/usr/bin/dh $@",
        "\t$(DH) $@",
        "\t@${OTHER} $@",
        "%: ; dh $@",
        "%:; dh $@",
        "%:;dh $@",
        "build binary clean:;@dh $@",
        "\tPATH=x:$$PATH dh $@",
        "\tset -e; cd x && dh $@",
    ] {
        assert!(calls(line), "{line}");
    }
    for line in [
        "\tdh_auto_build $@",
        "# dh $@",
        "export DH_VERBOSE = 1",
        "\tdh_testdir",
        "\t@echo dh $@",
        "\t$(DEB) $@",
        "\t$(NONE) $@",
        "X = a:b; dh $@",
        "\tdebian/dh $@",
    ] {
        assert!(!calls(line), "{line}");
    }
}

/// debhelper loads a sequence only once from all fields with build dependencies.
#[test]
fn a_sequence_that_is_there_is_not_added() {
    let control = |field: &str| {
        format!(
            "Source: toy\nBuild-Depends: debhelper-compat (= 13)\n{field}: cmake,\n dh-sequence-sediment <!nocheck>,\nSection: misc\n\n\
             Package: toy\nArchitecture: any\n"
        )
    };
    let there = control("Build-Depends-Arch");
    assert_eq!(changed(&there), there);
    let error = SourceParagraph::read(&control("build-depends-indep")).unwrap().with_sequence().unwrap_err();
    assert!(error.to_string().contains("Build-Depends-Indep"), "{error}");
    let another = there.replace("dh-sequence-sediment ", "dh-sequence-sediment-graphs ");
    assert!(changed(&another).contains("(= 13), dh-sequence-sediment <!pkg.toy.nosediment>\n"));
}
