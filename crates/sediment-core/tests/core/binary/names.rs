// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spellings of symbols and sections.

use sediment_core::binary::names::{
    PrintedSymbol, SectionGroup, function_of_section, is_clone_of, other_structor, sections, split_from,
    stem, symbol, without_lto_number,
};

#[test]
fn constructors_and_destructors_have_two_names() {
    for (name, other) in [
        ("_ZN4PoolD1Ev", Some("_ZN4PoolD2Ev")),
        ("_ZN4PoolD2Ev", Some("_ZN4PoolD1Ev")),
        (
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1IS3_EEPKcRKS3_",
            Some("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2IS3_EEPKcRKS3_"),
        ),
        // A deleting destructor is a function of its own. The following names and types are not constructors.
        ("_ZN4PoolD0Ev", None),
        ("_ZN6PoolC13runEv", None),
        ("_Z1fI2C1EvT_S1_", None),
        ("_ZNK3FooIXadL_Z3barvEEE3runEDpT_", None),
        ("main", None),
        ("_ZN999999C1Ev", None),
        ("_ZN18446744073709551615C1Ev", None),
        ("_ZN", None),
        ("_ZS", None),
    ] {
        assert_eq!(other_structor(name).as_deref(), other, "{name}");
    }
}

#[test]
fn printed_symbols_are_taken_apart() {
    let rows: &[(&str, &str, bool, bool)] = &[
        ("palloc", "palloc", false, false),
        ("memcpy@plt", "memcpy", true, false),
        ("memcpy@@GLIBC_2.14", "memcpy", false, false),
        ("memcpy@GLIBC_2.2.5", "memcpy", false, false),
        ("memcpy@@GLIBC_2.14@plt", "memcpy", true, false),
        ("f.localalias", "f", false, false),
        ("f.localalias.12", "f", false, false),
        ("f.localalias@plt", "f", true, false),
        ("f.constprop.0", "f.constprop.0", false, false),
        ("f.lto_priv.0", "f.lto_priv.0", false, false),
        ("set_ps.lto_priv.0.lto_priv.0", "set_ps.lto_priv.0.lto_priv.0", false, false),
        (".localalias", ".localalias", false, false),
        ("offset_0x1b2c0@plt", "offset_0x1b2c0", true, true),
        ("*ABS*+0x9f0a0@plt", "*ABS*+0x9f0a0", true, true),
        ("offset_0x1b2c0", "offset_0x1b2c0", false, false),
        ("0x00007f2ac31aeb10", "0x00007f2ac31aeb10", false, true),
        ("[unknown]", "[unknown]", false, true),
        ("@plt", "@plt", true, true),
        ("@odd", "@odd", false, false),
        ("", "", false, true),
        ("operator@", "operator", false, false),
        ("func@0x180008ce8", "func@0x180008ce8", false, false),
        ("func@0x1g", "func", false, false),
    ];
    for (printed, name, plt, unresolved) in rows {
        let expected = PrintedSymbol { name: name.as_bytes(), plt: *plt, unresolved: *unresolved };
        assert_eq!(symbol(printed.as_bytes()), expected, "{printed}");
    }
}

#[test]
fn free_pascal_names_sections_in_small_letters() {
    for (name, section) in [
        ("P$PROG_$$_FIB$LONGINT$$LONGINT", ".text.n_p$prog_$$_fib$longint$$longint"),
        ("P$PROG$_$TSQUARE_$__$$_AREA$$LONGINT", ".text.n_p$prog$_$tsquare_$__$$_area$$longint"),
        ("fpc_initialize", ".text.n_fpc_initialize"),
    ] {
        assert!(sections(name, Some(false)).own.iter().any(|own| own == section), "{name}");
    }
    assert!(!sections("f$x", None).own.iter().any(|own| own.contains(".n_")));
}

#[test]
fn a_function_has_the_sections_that_a_compiler_can_give_it() {
    let unknown = sections("f", None);
    assert_eq!(unknown.own, [".text.f", ".text.hot.f", ".text.startup.f", ".text.exit.f"]);
    assert_eq!(unknown.cold, [".text.unlikely.f"]);

    let whole = sections("f", Some(false));
    assert_eq!(whole.own, [".text.f", ".text.hot.f", ".text.startup.f", ".text.exit.f", ".text.unlikely.f"]);
    assert!(whole.cold.is_empty());

    let split = sections("f", Some(true));
    assert_eq!(split.own, unknown.own);
    assert!(split.cold.is_empty());
}

#[test]
fn a_cold_part_that_ran_is_placed_itself() {
    for name in ["f.constprop.0.cold", "f.constprop.0.cold.3"] {
        let ran = sections(name, Some(true));
        assert_eq!(ran.own, [".text.unlikely.f.constprop.0", ".text.split.f.constprop.0"]);
        assert!(ran.cold.is_empty());
    }
    assert_eq!(split_from(".cold"), None);
    assert_eq!(split_from("f.7"), None);
}

#[test]
fn a_function_named_like_a_group_does_not_drag_the_group_along() {
    for name in ["hot", "startup", "exit", "unlikely"] {
        let group = format!(".text.{name}");
        assert!(!sections(name, Some(false)).own.contains(&group), "{name}");
    }
    // No compiler has a section `.text.split` for the whole group, so this one belongs to the function.
    assert_eq!(sections("split", Some(false)).own[0], ".text.split");
}

#[test]
fn sections_name_their_functions() {
    let rows: &[(&str, Option<(&str, SectionGroup)>)] = &[
        (".text.f", Some(("f", SectionGroup::Plain))),
        (".text.hot.f", Some(("f", SectionGroup::Hot))),
        (".text.startup.main", Some(("main", SectionGroup::Startup))),
        (".text.exit.f", Some(("f", SectionGroup::Exit))),
        (".text.unlikely.f.isra.0", Some(("f.isra.0", SectionGroup::Unlikely))),
        (".text.split.f", Some(("f", SectionGroup::Split))),
        (".text.hotel", Some(("hotel", SectionGroup::Plain))),
        (".text.f.lto_priv.0", Some(("f.lto_priv.0", SectionGroup::Plain))),
        (".text", None),
        (".text.", None),
        (".text.hot", None),
        (".text.hot.", None),
        (".text.unlikely", None),
        (".text.split", Some(("split", SectionGroup::Plain))),
        (".text.split.", None),
        (".text.sorted.42", None),
        (".data.f", None),
    ];
    for (section, expected) in rows {
        assert_eq!(function_of_section(section), *expected, "{section}");
    }
}

#[test]
fn numbers_of_link_time_optimisation_are_no_part_of_a_name() {
    for (name, local) in [
        ("f.lto_priv.3", "f"),
        ("set_ps.lto_priv.0.lto_priv.12", "set_ps"),
        ("f.part.0.lto_priv.0", "f.part.0"),
        ("f.lto_priv.0.part.0", "f.lto_priv.0.part.0"),
        ("f.lto_priv.", "f.lto_priv."),
        (".lto_priv.0", ".lto_priv.0"),
        ("f", "f"),
    ] {
        assert_eq!(without_lto_number(name), local);
    }
}

#[test]
fn a_clone_has_the_stem_of_what_it_was_made_of() {
    let rows = [
        ("f", "f"),
        ("f.constprop.0", "f"),
        ("f.constprop.0.isra.0", "f"),
        ("f.part.0.lto_priv.0", "f"),
        ("set_ps.lto_priv.0.lto_priv.0", "set_ps"),
        ("f.llvm.1234567890123", "f"),
        ("f.__uniq.99.llvm.7", "f"),
        ("f.3", "f"),
        ("f.isra", "f"),
        ("f.cold", "f.cold"),
        ("f.avx2", "f.avx2"),
        (".isra.0", ".isra"),
        ("", ""),
        ("_ZN4main5alpha17h0123456789abcdefE", "_ZN4main5alpha"),
        ("_ZN4main5alpha17h0123456789abcdefE.llvm.77", "_ZN4main5alpha"),
        ("_ZN4main5alphaE", "_ZN4main5alphaE"),
        ("_ZN3a17hE", "_ZN3a17hE"),
        ("_ZNéééééééééééééééééE", "_ZNéééééééééééééééééE"),
    ];
    for (name, expected) in rows {
        assert_eq!(stem(name), expected, "{name}");
    }
}

#[test]
fn clones_are_known_by_their_stem() {
    assert!(is_clone_of("f.constprop.0", "f"));
    assert!(is_clone_of("f.cold", "f"));
    assert!(!is_clone_of("f", "f"));
    assert!(!is_clone_of("f.", "f"));
    assert!(!is_clone_of("fg.part.0", "f"));
    assert!(!is_clone_of(".part.0", ""));
}
