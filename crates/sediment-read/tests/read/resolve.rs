// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the rules of a function's identity, by name and by address.

use sediment_core::binary::{Files, NoFiles};
use sediment_core::profile::{FunctionKey, Profile};
use sediment_core::skipped::{Amount, Nowhere, Reason};
use sediment_core::{ErrorCode, Skipped};
use sediment_read::read::{AddressId, RecordedAddress, RecordedDso, Recording, Spot, TransferKind};
use sediment_read::resolve::{ResolveSettings, resolve, resolve_with};
use support::elf_writer::{Elf, Function};

struct BinaryList(Vec<(&'static str, Elf)>);

/// The same binaries, found only by their paths.
struct BinariesByPath(BinaryList);

impl Files for BinariesByPath {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, build_id: Option<&str>) -> Option<Vec<u8>> {
        self.0.binary(path, build_id)
    }
    fn is_chosen(&self, _: &str, _: Option<&str>) -> bool {
        false
    }
}

impl Files for BinaryList {
    fn debug_file_by_build_id(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn debug_file_by_link(&self, _: &[u8], _: u32) -> Option<Vec<u8>> {
        None
    }
    fn binary(&self, path: &str, _: Option<&str>) -> Option<Vec<u8>> {
        self.0.iter().find(|(known, _)| *known == path).map(|(_, elf)| elf.bytes())
    }
}

fn place(recording: &mut Recording, dso: Option<&str>, spot: Spot) -> AddressId {
    let dso = dso.map(|path| recording.dso(RecordedDso { path: path.to_owned(), build_id: None }));
    recording.place(RecordedAddress { dso, spot })
}

/// Adds a function given as `dso:name` or `dso:name:file`; the DSO `?` means none.
fn named(recording: &mut Recording, text: &str) -> AddressId {
    let mut parts = text.splitn(3, ':');
    let dso = parts.next().filter(|dso| *dso != "?");
    let name = parts.next().unwrap().as_bytes().to_vec();
    let file = parts.next().map(|file| file.as_bytes().to_vec());
    place(recording, dso, Spot::Symbol { name, file })
}

/// Makes a recording of the listed calls by name: `from`, `to` and their number.
fn calls(list: &[(&str, &str, u128)]) -> Recording {
    let mut recording = Recording::default();
    recording.source = "test".into();
    for (from, to, count) in list {
        let (from, to) = (named(&mut recording, from), named(&mut recording, to));
        recording.add_transfer(from, to, TransferKind::Call, *count);
        recording.total += count;
    }
    recording
}

fn show(key: &FunctionKey) -> String {
    let file = key.file.as_ref().map(|file| format!(":{file}")).unwrap_or_default();
    format!("{}:{}{file}", key.dso.as_deref().unwrap_or("?"), key.name)
}

fn functions(profile: &Profile) -> Vec<String> {
    profile.functions().into_iter().map(|function| show(profile.key(function))).collect()
}

fn edges(profile: &Profile) -> Vec<String> {
    let edges = profile.edges().into_iter();
    edges
        .map(|(from, to, facts)| {
            let affinity = facts.affinity.map(|affinity| format!(" near {affinity}")).unwrap_or_default();
            let count = facts.count.map(|count| format!(" {count}")).unwrap_or_default();
            format!("{} -> {}{count}{affinity}", show(profile.key(from)), show(profile.key(to)))
        })
        .collect()
}

fn skip_report(skipped: &Skipped) -> Vec<(Reason, u64, u128)> {
    skipped.iter().map(|(reason, entry)| (reason, entry.items, entry.weight)).collect()
}

#[test]
fn names_lose_versions_and_dsos_their_paths() {
    let recording = calls(&[
        ("/usr/bin/prog (deleted):main", "/lib/libc.so.6:memcpy@@GLIBC_2.14", 3),
        ("/usr/bin/prog:main", "/lib/libc.so.6:memcpy@GLIBC_2.2.5", 4),
        ("?:start", "/usr/bin/prog:main", 1),
    ]);
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(edges(&profile), ["?:start -> prog:main 1", "prog:main -> libc.so.6:memcpy 7"]);
    assert_eq!((profile.total, skipped.is_empty()), (8, true), "{skipped:?}");
}

#[test]
fn a_stub_is_the_function_in_the_one_dso_that_defines_it() {
    let recording = calls(&[
        ("/bin/p:main", "/bin/p:puts@plt", 5),
        ("/bin/p:puts@plt", "/lib/libc.so.6:puts", 5),
        ("/bin/p:main", "/bin/p:twice@plt", 2),
        ("/bin/p:twice@plt", "/lib/a.so:twice", 1),
        ("/bin/p:twice@plt", "/lib/b.so:twice", 1),
        ("/bin/p:main", "/bin/p:nowhere@plt", 7),
        ("/bin/p:main", "/bin/p:chosen@plt", 3),
        ("/bin/p:chosen@plt", "/lib/libc.so.6:chosen_avx2", 3),
        ("/bin/p:main", "/bin/p:offset_0x2f0@plt", 11),
    ]);
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(
        edges(&profile),
        [
            "p:main -> ?:nowhere 7",
            "p:main -> ?:twice 2",
            "p:main -> libc.so.6:chosen_avx2 3",
            "p:main -> libc.so.6:puts 5",
        ]
    );
    assert_eq!(
        skip_report(&skipped),
        [(Nowhere::StubWithoutTarget.of(Amount::Calls), 1, 11), (Reason::StubPassage, 4, 10),]
    );
    assert_eq!(profile.total, 38, "all that was seen");
    let imported = resolve_with(&recording, &NoFiles, ResolveSettings::default()).unwrap().imported;
    assert_eq!((imported.kept, imported.of), (27, 38));
    assert_eq!(imported.losses, [(Nowhere::StubWithoutTarget.of(Amount::Calls), 11)]);
}

/// A dynamic linker has local functions with names of the C library.
#[test]
fn a_same_named_local_of_another_dso_is_not_called_through_a_stub() {
    let own = |function| Elf { symbols: Some(vec![function]), ..Elf::default() };
    let files = BinaryList(vec![
        ("/lib/libc.so.6", own(Function::global("copy", 0, 32))),
        ("/lib/ld.so", own(Function::local("copy", 0, 16, "copy.c"))),
        ("/lib/quiet.so", own(Function::global("quiet", 0, 16))),
    ]);
    let recording = calls(&[
        ("/bin/p:main", "/bin/p:copy@plt", 5),
        ("/bin/p:main", "/lib/libc.so.6:copy", 1),
        ("/lib/ld.so:copy", "/lib/ld.so:copy", 1),
        // Never seen itself, but one file has it.
        ("/bin/p:main", "/bin/p:quiet@plt", 3),
        ("/lib/quiet.so:other", "/bin/p:main", 1),
    ]);
    let (profile, _) = resolve(&recording, &files).unwrap();
    let expected = [
        "ld.so:copy -> ld.so:copy 1",
        "p:main -> libc.so.6:copy 6",
        "p:main -> quiet.so:quiet 3",
        "quiet.so:other -> p:main 1",
    ];
    assert_eq!(edges(&profile), expected);
}

#[test]
fn a_stub_that_led_to_several_variants_stays_the_function_of_its_name() {
    let recording = calls(&[
        ("/bin/p:main", "/bin/p:copy@plt", 4),
        ("/bin/p:copy@plt", "/lib/libc.so.6:copy_sse2", 1),
        ("/bin/p:copy@plt", "/lib/libc.so.6:copy_avx2", 3),
    ]);
    let (profile, _) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(edges(&profile), ["p:main -> ?:copy 4"]);
}

#[test]
fn names_of_another_program_are_refused() {
    let recording = calls(&[("/bin/p:begin", "/bin/p:work", 2)]);
    let error = resolve(&recording, &BinaryList(vec![("/bin/p", program())])).unwrap_err();
    assert!(error.code() == ErrorCode::WrongBinary && !error.to_string().contains("stripped"), "{error}");
    let bare = Elf { symbols: None, ..Elf::default() };
    let error = resolve(&recording, &BinaryList(vec![("/bin/p", bare)])).unwrap_err();
    assert!(error.code() == ErrorCode::WrongBinary && error.to_string().contains("stripped"), "{error}");
    // Demangled names are not in any symbol table.
    let demangled = calls(&[("/bin/p:begin()", "/bin/p:work(int)", 2)]);
    assert!(resolve(&demangled, &BinaryList(vec![("/bin/p", program())])).is_ok());
    // Every program has a main, so this name alone proves nothing, but the other names are counted.
    let of_another = calls(&[("/bin/p:main", "/bin/p:work", 2)]);
    let (_, skipped) = resolve(&of_another, &BinaryList(vec![("/bin/p", program())])).unwrap();
    let unknown = Reason::UnknownSize;
    assert_eq!(skip_report(&skipped), [(unknown, 1, 0)]);
}

#[test]
fn addresses_of_no_program_ask_for_it() {
    let mut recording = Recording::default();
    let from = place(&mut recording, None, Spot::Address(0x1000));
    recording.add_transfer(from, from, TransferKind::Branch, 1);
    let error = resolve(&recording, &NoFiles).unwrap_err();
    assert!(error.hint().unwrap().contains("--binary"), "{error}");
}

#[test]
fn recursion_is_a_call_but_a_stub_of_its_own_function_is_not() {
    let recording = calls(&[("/bin/p:f", "/bin/p:f", 3), ("/bin/p:f", "/bin/p:f@plt", 4)]);
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(edges(&profile), ["p:f -> p:f 3"]);
    assert_eq!(skipped.items(Reason::StubPassage), 1);
}

#[test]
fn the_named_end_of_a_call_stays() {
    let recording = calls(&[
        ("/bin/p:main", "/bin/p:0x00007f0011223344", 4),
        ("/bin/p:[unknown]", "/bin/p:alone", 2),
        ("/bin/p:???", "/bin/p:(below main)", 1),
    ]);
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(
        (functions(&profile), edges(&profile).len()),
        (vec!["p:alone".to_owned(), "p:main".to_owned()], 0)
    );
    assert_eq!(skip_report(&skipped), [(Nowhere::NoName.of(Amount::Calls), 3, 7)]);
}

#[test]
fn source_files_of_the_recording_tell_local_functions_of_one_name_apart() {
    let recording = calls(&[
        ("/bin/p:main:/src/main.c", "/bin/p:helper:/src/a.c", 1),
        ("/bin/p:main:/src/main.c", "/bin/p:helper:/src/b.c", 2),
        ("/bin/p:main:/src/main.c", "/bin/p:helper:???", 4),
        ("/bin/p:main:/src/main.c", "/bin/q:helper:/src/a.c", 8),
    ]);
    let (profile, _) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(
        edges(&profile),
        [
            "p:main -> p:helper 4",
            "p:main -> p:helper:a.c 1",
            "p:main -> p:helper:b.c 2",
            "p:main -> q:helper 8"
        ]
    );
}

/// Makes a program with two local functions and a global one of the same name, and one without namesakes.
fn program() -> Elf {
    Elf {
        symbols: Some(vec![
            Function::local("helper", 0, 10, "a.c"),
            Function::local("helper", 16, 20, "b.c"),
            Function::local("only", 48, 30, "b.c"),
            Function::global("main", 96, 40),
            Function::local("mixed", 144, 8, "a.c"),
            Function::global("mixed", 160, 9),
        ]),
        ..Elf::default()
    }
}

#[test]
fn the_symbol_table_has_same_named_locals_and_all_sizes() {
    let recording = calls(&[
        ("/bin/p:main:/x/main.c", "/bin/p:helper:/x/b.c", 1),
        ("/bin/p:main", "/bin/p:helper:/x/inline.h", 2),
        ("/bin/p:main", "/bin/p:only:/x/b.c", 4),
        ("/bin/p:main", "/bin/p:mixed:/x/other.c", 8),
        ("/bin/p:main", "/bin/p:mixed:/x/a.c", 16),
        ("/bin/p:main", "/bin/p:not_there", 32),
    ]);
    let (profile, skipped) = resolve(&recording, &BinaryList(vec![("/bin/p", program())])).unwrap();
    assert_eq!(
        edges(&profile),
        [
            "p:main -> p:helper 2",
            "p:main -> p:helper:b.c 1",
            "p:main -> p:mixed 8",
            "p:main -> p:mixed:a.c 16",
            "p:main -> p:not_there 32",
            "p:main -> p:only 4",
        ]
    );
    let sizes: Vec<Option<u64>> = profile.functions().into_iter().map(|f| profile.facts(f).size).collect();
    assert_eq!(sizes, [None, Some(20), Some(40), Some(9), Some(8), None, Some(30)]);
    assert_eq!(skipped.items(Reason::AmbiguousName), 1);
    assert_eq!(profile.dsos()["p"].build_id, Some("ab".repeat(20)));
}

#[test]
fn names_without_a_dso_resolve_to_the_dso_that_defines_them() {
    let recording =
        calls(&[("/bin/p:main", "?:only", 1), ("?:only", "?:elsewhere", 2), ("/bin/q:main", "?:mixed", 4)]);
    let one = BinaryList(vec![("/bin/p", program())]);
    let (profile, _) = resolve(&recording, &one).unwrap();
    assert_eq!(edges(&profile), ["p:main -> p:only 1", "p:only -> ?:elsewhere 2", "q:main -> p:mixed 4"]);
    // If two files have it, it stays open.
    let both = BinaryList(vec![("/bin/p", program()), ("/bin/q", program())]);
    let (profile, _) = resolve(&recording, &both).unwrap();
    assert_eq!(edges(&profile), ["?:only -> ?:elsewhere 2", "p:main -> ?:only 1", "q:main -> ?:mixed 4"]);
}

#[test]
fn names_that_a_profile_cannot_hold_are_left_out_with_their_calls() {
    let recording = calls(&[
        ("/bin/p:main", "/bin/p:bad\"name", 3),
        ("/bin/p:main", "/bin/p:bad\nname", 4),
        ("/bin/p:main", "C\\evil:f", 5),
    ]);
    let (profile, skipped) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(functions(&profile), ["p:main"]);
    assert_eq!(skip_report(&skipped), [(Nowhere::Unacceptable.of(Amount::Calls), 3, 12)]);
}

#[test]
fn labels_that_look_like_one_library_are_kept_apart() {
    let recording =
        calls(&[("/bin/p:main", "/lib/libc.so.6:f", 1), ("/bin/p:main", "/lib/libc-2.36.so:f", 1)]);
    let (profile, _) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(edges(&profile).len(), 2);
    let pair = ("libc-2.36.so".to_owned(), "libc.so.6".to_owned());
    assert_eq!(sediment_core::profile::similar_labels::similar_labels(&profile), [pair]);
}

#[test]
fn affinity_edges_first_uses_and_own_cost_come_along() {
    let mut recording = calls(&[("/bin/p:a", "/bin/p:b", 1)]);
    let (a, b) = (named(&mut recording, "/bin/p:a"), named(&mut recording, "/bin/p:b"));
    let b_again = named(&mut recording, "/bin/p:b@V");
    recording.add_transfer(a, b, TransferKind::Affinity, 6);
    recording.add_transfer(b, a, TransferKind::Affinity, 7);
    recording.add_samples(b, 10);
    recording.add_samples(b_again, 5);
    recording.set_first(b, 9);
    recording.set_first(b_again, 4);
    let (profile, _) = resolve(&recording, &NoFiles).unwrap();
    assert_eq!(edges(&profile), ["p:a -> p:b 1 near 6", "p:b -> p:a near 7"]);
    let b = profile.functions()[1];
    assert_eq!((profile.facts(b).samples, profile.facts(b).first), (Some(15), Some(4)));
}

#[test]
fn a_binary_of_another_build_is_refused_by_name() {
    let mut recording = Recording::default();
    let recorded = RecordedDso { path: "/bin/p".to_owned(), build_id: Some("cd".repeat(20)) };
    let dso = Some(recording.dso(recorded));
    let from = recording.place(RecordedAddress { dso, spot: Spot::FileOffset(program().file_offset(100)) });
    let to = recording.place(RecordedAddress { dso, spot: Spot::FileOffset(program().file_offset(0)) });
    recording.add_transfer(from, to, TransferKind::Branch, 1);
    recording.total = 1;
    let files = BinaryList(vec![("/bin/p", program())]);
    let error = resolve(&recording, &files).unwrap_err().to_string();
    assert!(error.starts_with("p: "), "{error}");
    assert!(error.contains(&"cd".repeat(20)) && error.contains(&"ab".repeat(20)), "{error}");
    let profile = resolve_with(
        &recording,
        &files,
        ResolveSettings { ignore_build_id: true, ..ResolveSettings::default() },
    )
    .unwrap()
    .profile;
    assert_eq!(edges(&profile), ["p:main -> p:helper:a.c 1"]);
}

/// The instructions have five bytes each. An address within one of them does not fit; code that jumps over a prefix
/// gives such addresses.
#[test]
fn one_odd_address_among_sound_ones_refuses_no_file() {
    const LENGTH: u64 = 5;
    let file = Elf {
        text: [0xb8, 1, 2, 3, 4].repeat(64),
        symbols: Some(vec![Function::global("work", 0, 64 * LENGTH)]),
        ..Elf::default()
    };
    let of = |sound: u64, odd: u64| {
        let mut recording = Recording::default();
        recording.source = "test".into();
        let mut sample = |place_in_code: u64, cost: u128| {
            let spot = Spot::FileOffset(file.file_offset(place_in_code));
            let place = place(&mut recording, Some("/bin/p"), spot);
            recording.add_samples(place, cost);
        };
        (0..sound).for_each(|number| sample(number * LENGTH, 10));
        (0..odd).for_each(|number| sample(number * LENGTH + 2, 1));
        let files = BinaryList(vec![("/bin/p", file.clone())]);
        let settings = ResolveSettings { ignore_build_id: true, ..ResolveSettings::default() };
        assert!(resolve_with(&recording, &files, settings).is_ok(), "at the user's risk");
        resolve(&recording, &files)
    };
    for (sound, odd) in [(0, 1), (1, 1), (3, 1), (16, 2), (60, 8)] {
        let (profile, _) = of(sound, odd).unwrap_or_else(|error| panic!("{sound} {odd}: {error}"));
        let work = profile.functions()[0];
        assert_eq!(profile.facts(work).samples, Some(u128::from(10 * sound + odd)));
    }
    for (sound, odd) in [(0, 2), (3, 2), (13, 2), (50, 8)] {
        let error = of(sound, odd).unwrap_err();
        assert_eq!(error.code(), ErrorCode::WrongBinary, "{error}");
        assert!(
            error.to_string().contains(&format!(" {odd} of {} recorded addresses ", sound + odd)),
            "{error}"
        );
    }
}

#[test]
fn names_of_another_machine_stay_where_this_one_has_another_build_under_the_path() {
    let mut recording = Recording::default();
    let recorded = RecordedDso { path: "/bin/p".to_owned(), build_id: Some("cd".repeat(20)) };
    let dso = Some(recording.dso(recorded));
    let mut symbol = |name: &str| {
        let spot = Spot::Symbol { name: name.as_bytes().to_vec(), file: None };
        recording.place(RecordedAddress { dso, spot })
    };
    let (from, to) = (symbol("main"), symbol("elsewhere"));
    recording.add_transfer(from, to, TransferKind::Call, 1);
    recording.total = 1;
    let found = BinariesByPath(BinaryList(vec![("/bin/p", program())]));
    let resolved = resolve(&recording, &found).unwrap();
    assert_eq!(edges(&resolved.0), ["p:main -> p:elsewhere 1"]);
    assert_eq!(resolved.0.dsos()["p"].build_id.as_deref(), Some("cd".repeat(20).as_str()));
    assert_eq!(resolved.1.items(Reason::ReplacedFile), 1);
    // If a file was chosen explicitly, or is needed for a name, it is refused.
    assert!(resolve(&recording, &found.0).is_err());
    let nameless = RecordedAddress { dso, spot: Spot::FileOffset(program().file_offset(0)) };
    let nameless = recording.place(nameless);
    recording.add_transfer(from, nameless, TransferKind::Call, 1);
    assert!(resolve(&recording, &found).is_err());
}

#[test]
fn nothing_resolved_is_an_error_that_says_what_is_missing() {
    let mut recording = Recording::default();
    for path in ["/bin/p", "/lib/libz.so.1"] {
        let from = place(&mut recording, Some(path), Spot::FileOffset(0x1000));
        recording.add_transfer(from, from, TransferKind::Call, 1);
    }
    let error = resolve(&recording, &NoFiles).unwrap_err();
    assert!(error.code() == ErrorCode::Unresolved && error.to_string().contains("libz.so.1, p"), "{error}");
    assert!(error.hint().unwrap().contains("--symfs"), "{error:?}");

    let bare = || Elf { symbols: None, ..Elf::default() };
    let files = BinaryList(vec![("/bin/p", bare()), ("/lib/libz.so.1", bare())]);
    let error = resolve(&recording, &files).unwrap_err();
    assert!(error.code() == ErrorCode::Unresolved && !error.to_string().contains("libz"), "{error}");
    assert!(error.hint().unwrap().contains("stripped"));
    assert!(resolve(&Recording::default(), &NoFiles).is_err());
}
