// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `escape`: hostile names in every dialect. `toolchain/link.rs` tests the real readers of these dialects.

use proptest::prelude::*;
use sediment_core::escape;
use std::fmt::Write as _;
use support::hostile::{DIALECTS, names};

/// Returns a line of text that shows exactly what `text` contains, and is itself harmless.
fn visible(text: &str) -> String {
    let shown: String = text
        .chars()
        .map(
            |c| if c == ' ' || c.is_ascii_graphic() { c.to_string() } else { c.escape_unicode().to_string() },
        )
        .collect();
    if shown.len() > 200 { format!("{}… ({} bytes)", &shown[..60], text.len()) } else { shown }
}

#[test]
fn every_hostile_name_in_every_dialect() {
    let mut table =
        String::from("What each dialect makes of each name; left out: the dialect cannot express it.\n");
    for (attacks, name) in names() {
        let _ = writeln!(table, "\n{attacks}\n  {:<10} {}", "(name)", visible(&name));
        for (dialect, escape) in DIALECTS {
            let cell =
                escape(&name).map_or_else(|| "left out".to_owned(), |text| format!("|{}|", visible(&text)));
            let _ = writeln!(table, "  {dialect:<10} {cell}");
        }
    }
    support::golden("escape/hostile-names/expected.txt", &table);
}

#[test]
fn no_dialect_lets_a_control_or_direction_character_through() {
    let invisible = |c: &char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(c) || *c == '\u{200b}';
    for (_, name) in names() {
        for (dialect, escape) in DIALECTS {
            let found = escape(&name).and_then(|text| text.chars().find(invisible));
            // The text of a profile must survive this; its language has a single escape.
            let allowed = *dialect == "dot" && found.is_some_and(|c| !c.is_control());
            assert!(found.is_none() || allowed, "{dialect} lets {found:?} through in {name:?}");
        }
    }
}

#[test]
fn no_name_becomes_a_path() {
    for (_, name) in names() {
        if let Some(file) = escape::file_name(&name) {
            assert!(!file.contains('/') && !file.contains("..") && !file.starts_with(['.', '-']), "{file}");
        }
    }
    assert_eq!(escape::file_name("libstdc++.so.6").as_deref(), Some("libstdc++.so.6"));
    assert_eq!(escape::file_name(&"a".repeat(201)), None);
}

#[test]
fn a_pattern_of_gnu_ld_reads_back_as_the_name() {
    for (_, name) in names() {
        if let Some(pattern) = escape::gnu_ld(&format!(".text.{name}")) {
            let bare = pattern.strip_prefix('"').and_then(|p| p.strip_suffix('"')).unwrap_or(&pattern);
            assert_eq!(escape::gnu_ld_literal(bare), Some(format!(".text.{name}")));
        }
    }
    for wildcard in [".text.*", ".text.a?", ".text.[ab]", "[!a]"] {
        assert_eq!(escape::gnu_ld_literal(wildcard), None, "{wildcard}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_a_dialect(text in any::<String>()) {
        for (dialect, escape) in DIALECTS {
            let written = escape(&text).unwrap_or_default();
            prop_assert!(!written.contains(char::is_control), "{} lets a control character through", dialect);
        }
        if let Some(pattern) = escape::gnu_ld(&text) {
            let bare = pattern.strip_prefix('"').and_then(|p| p.strip_suffix('"')).unwrap_or(&pattern);
            prop_assert!(!bare.contains('"'));
            prop_assert_eq!(escape::gnu_ld_literal(bare), Some(text.clone()));
        }
        if let Some(word) = escape::shell(&text) {
            // Outside single quotes there are only harmless characters and \'.
            let outside: String = word.replace("'\\''", "").split('\'').step_by(2).collect();
            prop_assert!(outside.chars().all(|c| c.is_ascii_alphanumeric() || "_./-+,:@".contains(c)), "{}", word);
        }
        for shown in [escape::html(&text), escape::svg(&text)] {
            prop_assert!(!shown.contains(['<', '>', '"', '\'']));
        }
        let csv = escape::csv(&text);
        prop_assert_eq!(csv.matches('"').count() % 2, 0);
        prop_assert!(!csv.strip_prefix('"').unwrap_or(&csv).starts_with(['=', '+', '-', '@']));
    }
}

/// Returns the text and the elements that a reader of Markdown shows for a document.
fn rendered(document: &str) -> (String, Vec<String>) {
    use pulldown_cmark::{Event, Options, Parser};
    let (mut text, mut elements) = (String::new(), Vec::new());
    for event in Parser::new_ext(document, Options::all()) {
        match event {
            Event::Text(part) => text.push_str(&part),
            Event::Start(tag) => {
                elements.push(format!("{tag:?}").split(['(', ' ']).next().unwrap().to_owned())
            }
            Event::End(_) => {}
            other => elements.push(format!("{other:?}")),
        }
    }
    (text, elements)
}

proptest! {
    #[test]
    fn markdown_is_read_as_the_text_that_it_was(text in "[ -~]{1,12}|[#>|*_+=:.)(0-9w -]{1,6}|[a-z*_~`]{1,9}") {
        // Typesetting readers turn two dashes into one, and change quotation marks.
        let plain = |text: &str| -> String {
            text.chars().map(|c| match c { '–' | '—' => '-', '“' | '”' => '"', '‘' | '’' => '\'', '…' => '.', c => c }).collect()
        };
        let squeezed = |text: &str| plain(text).replace(['-', '.'], "").trim().to_owned();
        let escaped = escape::markdown(&text);
        for (document, elements) in [
            (format!("{escaped}\n"), vec!["Paragraph"]),
            (format!("## {escaped}\n"), vec!["Heading"]),
            (format!("- {escaped}\n"), vec!["List", "Item"]),
            (format!("| a |\n|---|\n| {escaped} |\n"), vec!["Table", "TableHead", "TableCell", "TableRow", "TableCell"]),
        ] {
            let (shown, found) = rendered(&document);
            prop_assert_eq!(&found, &elements, "{:?}", document);
            let shown = if elements[0] == "Table" { shown.strip_prefix('a').unwrap() } else { &shown };
            prop_assert_eq!(squeezed(shown), squeezed(&text), "{:?}", document);
        }
    }
}
