// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of verification on binaries made by hand, one reason at a time. `toolchain/link.rs` uses real linked files.

use sediment_core::ErrorCode;
use sediment_core::binary::names::SectionGroup;
use sediment_core::binary::objects::{InputObjects, ObjectFunction, ObjectPath};
use sediment_core::binary::{Binary, BinaryFunction, SymbolSource};
use sediment_core::matching::identity::MatchRule;
use sediment_core::profile::{FunctionKey, Heat, Profile};
use sediment_order::link::OrderedName;
use sediment_order::verify::{Basis, InputSection, Misplaced, Reason, VerifyReport, verify};

/// Makes a function of 100 bytes in `.text`, every 128 bytes.
fn function(name: &str, place: usize) -> BinaryFunction {
    BinaryFunction {
        name: name.to_owned(),
        address: 0x1000 + 128 * place as u64,
        size: 100,
        section: ".text".to_owned(),
        file: None,
        local: false,
        ifunc: false,
        untyped: false,
    }
}

/// Makes a binary with these functions by ascending address; `a=b` are two names of one function.
fn binary(names: &str) -> Binary {
    let functions = names
        .split_whitespace()
        .enumerate()
        .flat_map(|(place, names)| names.split('=').map(move |name| function(name, place)))
        .collect();
    Binary { functions, ..Binary::default() }
}

fn order(names: &str) -> Vec<OrderedName> {
    names
        .split_whitespace()
        .zip(2..)
        .map(|(name, line)| OrderedName { name: name.to_owned(), line, file: None })
        .collect()
}

/// Makes a profile of functions of `prog` with the number of calls into them: `name:calls`, or `dso/name:calls` for
/// other files.
fn profile(calls: &str) -> Profile {
    let mut profile = Profile::default();
    let caller = profile.function(FunctionKey::new(Some(b"prog"), b"caller", None).unwrap());
    for entry in calls.split_whitespace() {
        let (path, count) = entry.split_once(':').unwrap();
        let (dso, name) = path.split_once('/').unwrap_or(("prog", path));
        let function =
            profile.function(FunctionKey::new(Some(dso.as_bytes()), name.as_bytes(), None).unwrap());
        profile.edge_mut(caller, function).count = Some(count.parse().unwrap());
    }
    profile
}

fn check(binary: &Binary, asked: &str, calls: Option<&str>) -> VerifyReport {
    let profile = calls.map(profile);
    verify(binary, &order(asked), profile.as_ref(), "prog", &InputObjects::default()).unwrap()
}

fn reasons(report: &VerifyReport) -> Vec<(&str, Reason)> {
    report
        .misplaced
        .iter()
        .filter(|function| function.name != "caller")
        .map(|Misplaced { name, reason, .. }| (name.as_str(), reason.clone()))
        .collect()
}

#[test]
fn all_as_ordered() {
    let report = check(&binary("a b c d x y z"), "a b c d", Some("a:5 b:10 c:20 d:65"));
    assert_eq!((report.asked, report.found, report.placed, report.inversions), (4, 4, 4, 0));
    assert_eq!((report.weight, report.weight_found, report.weight_placed), (100, 100, 100));
    assert_eq!(report.placed_parts_per_million, 1_000_000);
    assert_eq!((report.basis, report.in_force), (Basis::Calls, true));
    assert_eq!(report.cluster.as_ref().map(|found| found.rule), Some(MatchRule::FileName));
    assert!(reasons(&report).is_empty());
    // Four functions of 100 bytes are within the first page.
    assert_eq!((report.hot_bytes, report.hot_pages, report.ideal_pages), (400, 1, 1));
}

#[test]
fn the_heaviest_ascending_run_counts() {
    let report = check(
        &binary("light1 light2 heavy other"),
        "heavy light1 light2 other",
        Some("heavy:90 light1:4 light2:5 other:1"),
    );
    assert_eq!(report.weight_placed, 91);
    assert_eq!(report.placed_parts_per_million, 910_000);
    assert_eq!(report.inversions, 2);
    assert_eq!(reasons(&report), [("light2", Reason::OutOfOrder), ("light1", Reason::OutOfOrder)]);
}

#[test]
fn a_heavy_function_far_off_does_not_put_the_others_out_of_order() {
    let report = check(&binary("a b c d x y heavy z"), "heavy a b c d", Some("heavy:90 a:4 b:3 c:2 d:1"));
    assert_eq!((report.placed, report.weight_placed), (4, 10));
    assert_eq!(reasons(&report), [("heavy", Reason::AmongUnlisted)]);
}

#[test]
fn an_order_of_one_function_is_always_as_ordered() {
    let report = check(&binary("x a y"), "a", None);
    assert_eq!((report.placed, report.in_force), (1, true));
}

#[test]
fn without_a_profile_every_function_weighs_one() {
    let report = check(&binary("a c b d x"), "a b c d", None);
    assert_eq!((report.basis, report.weight, report.weight_placed), (Basis::Functions, 4, 3));
    assert_eq!(report.placed_parts_per_million, 750_000);
}

#[test]
fn samples_where_nobody_counted_calls() {
    let mut profile = profile("a:0 b:0");
    for (name, samples) in [("a", 30), ("b", 70)] {
        let function = profile.function(FunctionKey::new(Some(b"prog"), name.as_bytes(), None).unwrap());
        profile.facts_mut(function).samples = Some(samples);
    }
    let report =
        verify(&binary("a b x"), &order("a b"), Some(&profile), "prog", &InputObjects::default()).unwrap();
    assert_eq!((report.basis, report.weight, report.weight_placed), (Basis::Samples, 100, 100));
}

#[test]
fn an_order_that_was_not_applied_does_not_show() {
    // The functions ascend by chance, but are scattered.
    let report = check(&binary("x0 x1 a x2 x3 b x4 x5 c x6 x7 d x8"), "a b c d", None);
    assert_eq!((report.placed, report.in_force), (0, false));
    assert_eq!(report.misplaced.len(), 4);
    assert!(report.misplaced.iter().all(|function| function.reason == Reason::AmongUnlisted));
}

#[test]
fn pages_are_counted_once_and_across_their_borders() {
    let mut binary = binary("a b c");
    let at = |binary: &mut Binary, place: usize, address, size| {
        binary.functions[place].address = address;
        binary.functions[place].size = size;
    };
    at(&mut binary, 0, 0x1ff0, 0x20); // pages 1 and 2
    at(&mut binary, 1, 0x2100, 0x100); // page 2
    at(&mut binary, 2, 0x9000, 0x2000); // pages 9 and 10
    let report = check(&binary, "a b c", None);
    assert_eq!((report.hot_bytes, report.hot_pages, report.ideal_pages), (0x2120, 4, 3));
}

#[test]
fn each_absent_function_has_its_reason() {
    let binary = binary("a b c x clone.constprop.0 y clone.isra.0 clone.cold split.cold");
    let report = check(
        &binary,
        "a b c clone gone strange split libc_one",
        Some("a:9 b:9 c:9 clone:8 gone:7 libc.so.6/libc_one:50"),
    );
    assert_eq!(
        reasons(&report),
        [
            ("clone", Reason::OnlyAsClone(vec!["clone.constprop.0".into(), "clone.isra.0".into()])),
            ("gone", Reason::InlinedOrRemoved),
            ("strange", Reason::NotInBinary),
            ("split", Reason::NotInBinary),
        ]
    );
    assert_eq!((report.elsewhere, report.asked, report.found), (1, 7, 4));
    assert_eq!((report.weight, report.weight_found, report.weight_placed), (42, 35, 27));
}

/// Sources without files name functions alone.
#[test]
fn functions_without_a_dso_count_if_the_binary_has_them() {
    let mut profile = profile("a:5 b:5");
    let caller = profile.function(FunctionKey::new(Some(b"prog"), b"caller", None).unwrap());
    for name in ["c", "nowhere"] {
        let function = profile.function(FunctionKey::new(None, name.as_bytes(), None).unwrap());
        profile.edge_mut(caller, function).count = Some(10);
    }
    let report =
        verify(&binary("a b c"), &order("a b c"), Some(&profile), "prog", &InputObjects::default()).unwrap();
    assert_eq!((report.weight, report.weight_placed), (20, 20));
}

#[test]
fn a_function_that_is_only_there_as_clone_is_where_its_clone_is() {
    // The order lists the function by its own name, so a wildcard places the clone, or lists the clone by the name that
    // the inputs had.
    let binary = binary("a f.lto_priv.0 b g.constprop.1 c");
    for order in ["a f b g c", "a f.lto_priv.0 b g.constprop.1 c"] {
        let report = check(&binary, order, Some("a:1 f:2 b:3 g:4 c:5"));
        assert_eq!(reasons(&report), [], "{order}");
        assert_eq!((report.weight, report.weight_placed), (15, 15), "{order}");
    }
    // A clone that the profile knows by its own name is not counted for the original.
    let report = check(&binary, "a b g c", Some("a:1 b:3 g:4 c:5 g.constprop.1:7"));
    assert!(reasons(&report).contains(&("g.constprop.1", Reason::NotAsked)));
    assert!(reasons(&report).contains(&("g", Reason::OnlyAsClone(vec!["g.constprop.1".into()]))));
}

#[test]
fn a_stripped_library_hides_its_local_functions() {
    let mut binary = binary("a b c");
    binary.symbols_from = SymbolSource::DynamicSymbols;
    let report = check(&binary, "a b c hidden", Some("a:1 b:1 c:1 hidden:1"));
    assert_eq!(report.symbols_from, SymbolSource::DynamicSymbols);
    assert_eq!(reasons(&report), [("hidden", Reason::NoSymbol)]);
}

#[test]
fn functions_missing_in_the_order_count_against_it() {
    let report = check(&binary("a b x forgotten y"), "a b", Some("a:10 b:10 forgotten:60 gone:20"));
    assert_eq!(reasons(&report), [("forgotten", Reason::NotAsked), ("gone", Reason::InlinedOrRemoved)]);
    assert_eq!(report.misplaced[0].line, None);
    assert_eq!((report.weight, report.weight_found, report.weight_placed), (100, 80, 20));
}

#[test]
fn cold_parts_are_asked_for_in_case_there_are_any() {
    let report = check(&binary("a b a.cold x"), "a b a.cold b.cold", None);
    assert_eq!((report.asked, report.placed), (3, 3));
    assert!(report.misplaced.is_empty());
}

#[test]
fn other_names_of_one_address() {
    // The order lists both names: the position of the first one counts.
    let both = check(&binary("a=alias b c x"), "a b alias c", None);
    assert_eq!((both.asked, both.placed), (4, 4));
    // The order lists the name that the section does not have.
    let one = check(&binary("a b c x ctor1=ctor2 y"), "a b c ctor1", None);
    assert_eq!(reasons(&one), [("ctor1", Reason::NamedAfter(vec!["ctor2".into()]))]);
}

#[test]
fn local_functions_of_one_name() {
    let same_named_locals = |names: &str| {
        let mut binary = binary(names);
        for (file, function) in
            ["a.c", "b.c"].iter().zip(binary.functions.iter_mut().filter(|f| f.name == "twin"))
        {
            function.file = Some((*file).to_owned());
            function.local = true;
        }
        binary
    };
    let together = check(&same_named_locals("a twin twin b x"), "a twin b", None);
    assert_eq!((together.placed, together.misplaced.len()), (3, 0));
    let apart = check(&same_named_locals("a b c x twin y twin z"), "a twin b c", None);
    assert_eq!(reasons(&apart), [("twin", Reason::SameNamedLocal(2))]);

    // The profile says which of them is meant, and only this one counts.
    let mut profile = profile("a:1 b:1");
    let twin = profile.function(FunctionKey::new(Some(b"prog"), b"twin", Some(b"b.c")).unwrap());
    let caller = profile.find(&FunctionKey::new(Some(b"prog"), b"caller", None).unwrap()).unwrap();
    profile.edge_mut(caller, twin).count = Some(8);
    let first = verify(
        &same_named_locals("a twin b x twin y"),
        &order("a twin b"),
        Some(&profile),
        "prog",
        &InputObjects::default(),
    )
    .unwrap();
    assert_eq!(first.weight_placed, 2);
    let second = verify(
        &same_named_locals("x twin y a twin b"),
        &order("a twin b"),
        Some(&profile),
        "prog",
        &InputObjects::default(),
    )
    .unwrap();
    assert_eq!(second.weight_placed, 10);
}

#[test]
fn groups_of_the_linker_are_known_by_their_landmarks() {
    let binary =
        binary("a b c  f.cold cold_one g.cold  setup main hot_one  _start deregister_tm_clones  x plain y");
    let mut profile = profile("a:9 b:9 c:9 cold_one:8 main:7 hot_one:6 setup:5 plain:4");
    let hot = profile.function(FunctionKey::new(Some(b"prog"), b"hot_one", None).unwrap());
    profile.facts_mut(hot).heat = Some(Heat::Hot);
    let report = verify(
        &binary,
        &order("a b c plain hot_one main setup cold_one"),
        Some(&profile),
        "prog",
        &InputObjects::default(),
    )
    .unwrap();
    assert_eq!(
        reasons(&report),
        [
            ("cold_one", Reason::OtherGroup(Some(SectionGroup::Unlikely))),
            ("main", Reason::OtherGroup(Some(SectionGroup::Startup))),
            ("hot_one", Reason::OtherGroup(Some(SectionGroup::Hot))),
            ("setup", Reason::OtherGroup(None)),
            ("plain", Reason::AmongUnlisted),
        ]
    );
}

#[test]
fn output_sections_tell_where_a_function_went() {
    let mut binary = binary("a b c x own group y");
    binary.functions[4].section = ".init.text".to_owned();
    binary.functions[5].section = ".text.unlikely".to_owned();
    binary.functions.push(BinaryFunction { section: ".init.text".to_owned(), ..function("z", 1) });
    binary.functions.push(BinaryFunction { section: ".text.unlikely".to_owned(), ..function("z", 0) });
    let report = check(&binary, "a b c group own", None);
    assert_eq!(
        reasons(&report),
        [
            ("group", Reason::OtherGroup(Some(SectionGroup::Unlikely))),
            ("own", Reason::OtherOutputSection(".init.text".to_owned())),
        ]
    );
}

#[test]
fn unverifiable_files_are_an_error() {
    let stripped =
        verify(&Binary::default(), &order("a"), None, "prog", &InputObjects::default()).unwrap_err();
    assert_eq!(stripped.code(), ErrorCode::Stripped, "{stripped}");

    let other_order =
        verify(&binary("x y"), &order("a b"), None, "prog", &InputObjects::default()).unwrap_err();
    assert!(
        other_order.code() == ErrorCode::NotInProfile && other_order.to_string().contains('2'),
        "{other_order}"
    );
    // A list for GNU ld names several sections for each function.
    let by_section =
        verify(&binary("x y"), &order("a b a b"), None, "prog", &InputObjects::default()).unwrap_err();
    assert_eq!(by_section.to_string(), other_order.to_string());
    let single = verify(&binary("x y"), &order("a a"), None, "prog", &InputObjects::default()).unwrap_err();
    assert!(single.code() == ErrorCode::NotInProfile && !single.to_string().contains('2'), "{single}");

    let mut other = Profile::default();
    for dso in ["libc.so.6", "postgres"] {
        other.function(FunctionKey::new(Some(dso.as_bytes()), b"palloc", None).unwrap());
    }
    let other_profile =
        verify(&binary("x y"), &order("x"), Some(&other), "prog", &InputObjects::default()).unwrap_err();
    assert_eq!(other_profile.code(), ErrorCode::WrongBinary, "{other_profile}");
    assert!(other_profile.hint().unwrap().contains("libc.so.6, postgres"), "{other_profile:?}");
}

#[test]
fn weights_near_the_limit_are_shares_still() {
    let huge = u128::MAX / 2;
    let report = check(&binary("a b x"), "a b", Some(&format!("a:{huge} b:{huge}")));
    assert_eq!(report.placed_parts_per_million, 1_000_000);
}

fn section(name: &str) -> InputSection {
    InputSection { name: name.to_owned(), object: "f.o".to_owned() }
}

/// Makes objects with these functions, `name:section`.
fn objects(functions: &str) -> InputObjects {
    let mut objects = InputObjects::default();
    objects.paths = vec![ObjectPath::File("f.o".to_owned())];
    objects.functions = functions
        .split_whitespace()
        .enumerate()
        .map(|(number, function)| {
            let (name, section) = function.split_once(':').unwrap();
            ObjectFunction {
                name: name.to_owned(),
                section: section.to_owned(),
                size: 100,
                local: false,
                file: None,
                path: 0,
                place: (number, 0),
            }
        })
        .collect();
    objects
}

#[test]
fn objects_show_the_sections_of_functions() {
    let check = |memory: &str, asked: &str, sections: &str| {
        let report = verify(&binary(memory), &order(asked), None, "prog", &objects(sections)).unwrap();
        (
            report.in_force,
            report.misplaced.into_iter().map(|found| (found.name, found.reason)).collect::<Vec<_>>(),
        )
    };
    let reason = |name: &str, reason: Reason| (name.to_owned(), reason);
    // The linker did not get the order; no object has function sections; or only some have.
    let unordered = "x0 a x1 b x2 c x3";
    let own = |name: &str| reason(name, Reason::NotPassed(section(&format!(".text.{name}"))));
    let none = |name: &str| reason(name, Reason::NoOwnSection(section(".text")));
    assert_eq!(
        check(unordered, "a b c", "a:.text.a b:.text.b c:.text.c"),
        (false, vec![own("a"), own("b"), own("c")])
    );
    assert_eq!(
        check(unordered, "a b c", "a:.text b:.text c:.text"),
        (false, vec![none("a"), none("b"), none("c")])
    );
    assert_eq!(check(unordered, "a b", "a:.text b:.text.b"), (false, vec![none("a"), own("b")]));
    // The file follows the order otherwise, so each function gets its own reason. Objects that contradict each other
    // show nothing.
    let ordered = "a b c x d y e z f w";
    assert_eq!(
        check(ordered, "a b c d e f", "d:.text e:.text.e f:.text f:.text.f"),
        (true, vec![none("d"), own("e"), reason("f", Reason::AmongUnlisted)])
    );
    // The section has another name, which the order lists or does not list.
    assert_eq!(
        check("a b c x d=e y", "a b c d", "d:.text.e e:.text.e"),
        (true, vec![reason("d", Reason::NamedAfter(vec!["e".to_owned()]))])
    );
    assert_eq!(
        check("a b c x d y", "a b c d", "d:.text.hot.d"),
        (true, vec![reason("d", Reason::OtherGroup(Some(SectionGroup::Hot)))])
    );
}

#[test]
fn start_files_are_not_the_users_fault() {
    let mut linked = binary("a b x _start y _start_c z frame_dummy");
    let crtbegin = linked.functions.last_mut().unwrap();
    (crtbegin.local, crtbegin.file) = (true, Some("crtstuff.c".to_owned()));
    let asked = "a b _start _start_c frame_dummy";
    let [start, of_musl, of_crtbegin] = ["_start", "_start_c", "frame_dummy"];
    let report = check(&linked, asked, None);
    let expected = [
        (start, Reason::OfStartFiles),
        // musl's function comes right after _start.
        (of_musl, Reason::AmongUnlisted),
        (of_crtbegin, Reason::OfStartFiles),
    ];
    assert_eq!(reasons(&report), expected);
    // `_init` has its own output section, and is local in a library. A profile may contain functions that no order
    // lists.
    let mut library = linked.clone();
    for (name, section) in [("_start", ".fini"), ("_start_c", ".init")] {
        let function = library.functions.iter_mut().find(|function| function.name == name).unwrap();
        function.name = format!("_{}", &section[1..]);
        (function.section, function.local) = (section.to_owned(), true);
    }
    let report = check(&library, "a b _init _fini", Some("a:9 b:9 frame_dummy:1"));
    let of_start_files = |name: &&str| reasons(&report).contains(&(*name, Reason::OfStartFiles));
    assert!(["_init", "_fini", of_crtbegin].iter().all(of_start_files), "{:?}", report.misplaced);
    // A program that is linked without crtbegin.o may define the function itself.
    linked.functions.last_mut().unwrap().file = Some("mine.c".to_owned());
    let own = [start, of_musl, of_crtbegin].map(|name| (name, Reason::AmongUnlisted));
    assert_eq!(reasons(&check(&linked, asked, None)), own);
    // A `_start` of the program itself is in a section, and the reason says what happened to this section.
    let objects = objects("_start:.text._start");
    let report = verify(&binary("a b x _start y"), &order("a b _start"), None, "prog", &objects).unwrap();
    assert_eq!(reasons(&report), [("_start", Reason::NotPassed(section(".text._start")))]);
}

#[test]
fn a_cold_part_between_neighbours_is_the_reason() {
    let report = check(&binary("a b x.cold c d y"), "a b c d", None);
    assert_eq!((report.placed, report.in_force), (4, true));
    let report = check(&binary("a x.cold b y"), "a b", None);
    assert!(report.in_force);
    let parted = Reason::PartedByCold("x.cold".to_owned());
    assert_eq!(reasons(&report), [("a", parted.clone()), ("b", parted)]);
}

/// Returns the next reason after this one, so that the test can list all: a new reason does not compile until it is
/// added here.
fn after(reason: &Reason) -> Option<Reason> {
    Some(match reason {
        Reason::NotInBinary => Reason::InlinedOrRemoved,
        Reason::InlinedOrRemoved => Reason::OnlyAsClone(vec!["f.clone".to_owned()]),
        Reason::OnlyAsClone(_) => Reason::NoSymbol,
        Reason::NoSymbol => Reason::NotAsked,
        Reason::NotAsked => Reason::NamedAfter(vec!["g".to_owned()]),
        Reason::NamedAfter(_) => Reason::SameNamedLocal(2),
        Reason::SameNamedLocal(_) => Reason::OtherOutputSection(".text.other".to_owned()),
        Reason::OtherOutputSection(_) => Reason::OtherGroup(Some(SectionGroup::Hot)),
        Reason::OtherGroup(_) => Reason::NoOwnSection(section(".text")),
        Reason::NoOwnSection(_) => Reason::OfStartFiles,
        Reason::OfStartFiles => Reason::NotPassed(section(".text.f")),
        Reason::NotPassed(_) => Reason::AmongUnlisted,
        Reason::AmongUnlisted => Reason::PartedByCold("g.cold".to_owned()),
        Reason::PartedByCold(_) => Reason::OutOfOrder,
        Reason::OutOfOrder => return None,
    })
}

/// Programs recognise reasons by these codes: if one changes, the changelog must say so.
#[test]
fn every_reason_has_a_code_and_a_text() {
    let all: Vec<Reason> = std::iter::successors(Some(Reason::NotInBinary), after).collect();
    let lines: Vec<String> = all.iter().map(|reason| format!("{}: {reason}\n", reason.code())).collect();
    support::golden("errors/verify-reasons.txt", &lines.concat());
    let codes: std::collections::BTreeSet<&str> = all.iter().map(Reason::code).collect();
    assert!(codes.len() == all.len() && all.iter().all(|reason| !reason.to_string().is_empty()));
}

/// The runtime has 300 functions without sections of their own, and the order lists their names in another sequence.
#[test]
fn a_part_that_follows_the_order_counts_beside_one_that_cannot() {
    let runtime = |number: usize| format!("runtime{}", number * 7919 % 300);
    let own: Vec<String> = (0..40).map(|number| format!("own{number}")).collect();
    let memory: Vec<String> =
        own.iter().cloned().chain((0..300).map(|number| format!("runtime{number}"))).collect();
    // The order alternates one of the program's own functions with seven of the runtime.
    let asked: Vec<String> = (0..300)
        .flat_map(|number| {
            let own = (number % 7 == 0 && number / 7 < 40).then(|| own[number / 7].clone());
            own.into_iter().chain([runtime(number)])
        })
        .collect();
    let report = check(&binary(&memory.join(" ")), &asked.join(" "), None);
    assert_eq!((report.asked, report.placed, report.in_force), (340, 40, true));
    let unordered: Vec<String> = (0..340).map(|place| memory[place * 101 % 340].clone()).collect();
    let report = check(&binary(&unordered.join(" ")), &asked.join(" "), None);
    assert_eq!((report.placed, report.in_force), (0, false));
}
