// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of renamed functions.

use sediment_core::binary::code::BuildCode;
use sediment_core::binary::objects::{InputObjects, ObjectFunction, ObjectPath};
use sediment_core::matching::renamed::renamings;
use sediment_core::profile::{FunctionKey, Profile};

/// Returns the functions of two objects, each with its size and its references.
fn objects(functions: &[(&str, usize, u64, &[&str])]) -> InputObjects {
    let mut objects = InputObjects::default();
    objects.paths = ["a.o", "b.o"].map(|path| ObjectPath::File(path.to_owned())).to_vec();
    for (from, (name, path, size, mentions)) in functions.iter().enumerate() {
        objects.functions.push(ObjectFunction {
            name: (*name).to_owned(),
            section: format!(".text.{name}"),
            size: *size,
            local: false,
            file: None,
            path: *path,
            place: (from, 0),
        });
        for mentioned in *mentions {
            let known = objects.mentioned.iter().position(|known| known == mentioned);
            let number = known.unwrap_or_else(|| {
                objects.mentioned.push((*mentioned).to_owned());
                objects.mentioned.len() - 1
            });
            objects.references.push((from as u32, number as u32));
        }
    }
    objects
}

fn profile(calls: &[(&str, &str)]) -> Profile {
    let mut profile = Profile::default();
    for (caller, callee) in calls {
        let [caller, callee] = [caller, callee].map(|name| {
            let index = profile.function(FunctionKey::new(None, name.as_bytes(), None).unwrap());
            profile.facts_mut(index).size = Some(100);
            index
        });
        profile.edge_mut(caller, callee).count = Some(1);
    }
    profile
}

fn found(calls: &[(&str, &str)], functions: &[(&str, usize, u64, &[&str])]) -> Vec<(String, String)> {
    let objects = objects(functions);
    let renamings = renamings(&profile(calls), None, &BuildCode::of_objects(&objects).unwrap());
    renamings.into_iter().map(|renaming| (renaming.old, renaming.new)).collect()
}

const CALLS: &[(&str, &str)] = &[
    ("main", "scan"),
    ("main", "stop"),
    ("scan", "page_read"),
    ("page_read", "seek"),
    ("page_read", "check"),
];

#[test]
fn a_function_is_followed_by_its_callers_and_callees() {
    let build: &[(&str, usize, u64, &[&str])] = &[
        ("main", 0, 100, &["scan", "stop"]),
        ("scan", 0, 100, &["read_pages"]),
        ("stop", 0, 100, &[]),
        ("read_pages", 0, 110, &["seek", "check"]),
        ("seek", 0, 100, &[]),
        ("check", 1, 100, &[]),
        ("other", 1, 100, &["check"]),
    ];
    assert_eq!(found(CALLS, build), [("page_read".to_owned(), "read_pages".to_owned())]);
}

#[test]
fn functions_that_were_renamed_together_are_followed_one_by_the_other() {
    let build: &[(&str, usize, u64, &[&str])] = &[
        ("main", 0, 100, &["scan_pages", "stop"]),
        ("scan_pages", 0, 100, &["read_pages"]),
        ("stop", 0, 100, &[]),
        ("read_pages", 0, 110, &["seek", "check"]),
        ("seek", 0, 100, &[]),
        ("check", 0, 100, &[]),
    ];
    let expected = [("page_read", "read_pages"), ("scan", "scan_pages")];
    assert_eq!(found(CALLS, build), expected.map(|(old, new)| (old.to_owned(), new.to_owned())));
}

#[test]
fn weak_evidence_moves_nothing() {
    // Another function, which nobody calls, calls one of the two callees.
    let build: &[(&str, usize, u64, &[&str])] = &[
        ("main", 0, 100, &["scan", "stop"]),
        ("scan", 0, 100, &[]),
        ("stop", 0, 100, &[]),
        ("seek", 0, 100, &[]),
        ("check", 1, 100, &[]),
        ("other", 1, 300, &["check"]),
    ];
    assert!(found(CALLS, build).is_empty());
    // Two candidates are equally close.
    let build: &[(&str, usize, u64, &[&str])] = &[
        ("main", 0, 100, &["scan", "stop"]),
        ("scan", 0, 100, &["read_one", "read_two"]),
        ("stop", 0, 100, &[]),
        ("read_one", 0, 100, &["seek", "check"]),
        ("read_two", 0, 100, &["seek", "check"]),
        ("seek", 0, 100, &[]),
        ("check", 0, 100, &[]),
    ];
    assert!(found(CALLS, build).is_empty());
    // A function that the profile knows is never the new name of another. And inputs that do not show their code reveal
    // nothing.
    let mut lto = objects(&[("main", 0, 100, &["x"]), ("x", 0, 100, &["seek", "check"])]);
    lto.unknown = 1;
    assert!(BuildCode::of_objects(&lto).is_none());
}
