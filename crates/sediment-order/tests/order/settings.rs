// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the settings of a package: what each key means, and which errors are reported with their line.

use sediment_core::ErrorLocation;
use sediment_order::order::Aim;
use sediment_order::order::versions::LATEST;
use sediment_order::wrapper::settings::{PackageSettings, parse, percent};

fn refused(text: &str) -> (Option<ErrorLocation>, String) {
    let error = parse(text.as_bytes()).expect_err(text);
    assert!(error.hint().is_some() || error.location().is_some(), "{error}");
    (error.location(), error.to_string())
}

#[test]
fn every_key_is_read() {
    let text = "# of the package\nsediment = 1\n\n engine=1\nkeep = prog.order  libx.so.1.order # two\nkeep-below = 0.5\nmin-coverage=97.25\n";
    let PackageSettings { engine, aim, keep, keep_below, min_coverage } = parse(text.as_bytes()).unwrap();
    assert_eq!((engine.number, aim), (1, None));
    assert_eq!(keep, ["prog.order", "libx.so.1.order"]);
    assert_eq!((keep_below, min_coverage), (5_000, Some(972_500)));
    // `serve` is the former name of the key.
    for key in ["optimize-for", "serve"] {
        let aimed = parse(format!("sediment = 1\r\n{key} = startup\r\n").as_bytes()).unwrap();
        assert_eq!((aimed.engine.number, aimed.aim), (LATEST.number, Some(Aim::Startup)));
    }
}

#[test]
fn a_file_without_further_keys_is_the_default() {
    let (read, default) = (parse(b"sediment = 1\n").unwrap(), PackageSettings::default());
    assert_eq!(format!("{read:?}"), format!("{default:?}"));
}

#[test]
fn settings_without_effect_are_refused_with_the_line() {
    for (text, line) in [
        ("sediment = 1\nengines = 2", 2),
        ("sediment = 1\n\nengine 2", 3),
        ("engine = 2\nsediment = 1", 1),
        ("sediment = 1\nengine = 1\nengine = 2", 3),
        ("sediment = 1\nsediment = 1", 2),
        ("sediment = 0", 1),
        ("sediment = 2\nfuture", 1),
        ("sediment = 1\nengine = 99", 2),
        ("sediment = 1\noptimize-for = everybody", 2),
        ("sediment = 1\nserve = both\noptimize-for = both", 3),
        ("sediment = 1\nserve = everybody", 2),
        ("sediment = 1\nserve = both\nengine = 1", 2),
        ("sediment = 1\nkeep =", 2),
        ("sediment = 1\nkeep = prog", 2),
        ("sediment = 1\nkeep = .order", 2),
        ("sediment = 1\nkeep = a.order ../b.order", 2),
        ("sediment = 1\nkeep = /etc/passwd.order", 2),
        ("sediment = 1\nmin-coverage = 101", 2),
        ("sediment = 1\nkeep-below = 2%", 2),
        ("sediment = 1\nengine = \u{202e}2", 2),
    ] {
        let (location, words) = refused(text);
        assert_eq!(location, Some(ErrorLocation::Line(line)), "{text:?}: {words}");
    }
    assert_eq!(refused("# nothing\n\n").0, None);
    assert_eq!(parse(b"sediment = 1\n\xff = 1\n").unwrap_err().location(), Some(ErrorLocation::Line(2)));
}

#[test]
fn percentages_are_exact() {
    let read = ["0", "50", "99.9999", "100", "100.0000", "0.0001"].map(|text| percent(text).unwrap());
    assert_eq!(read, [0, 500_000, 999_999, 1_000_000, 1_000_000, 1]);
    for wrong in ["", ".5", "-1", "1e1", "100.0001", "1.23456", "5 %", "٥"] {
        assert!(percent(wrong).is_err(), "{wrong}");
    }
}
