// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that documents quote from proofs: each stands in the proof that is linked beside it, whole and with the same unit.

use super::tree::{files, read, relative, root};
use std::collections::{BTreeMap, BTreeSet};

/// Units as documents and proofs write them, the longer before those that they begin with.
const UNITS: [&str; 13] = ["MB/s", "GB/s", "KiB", "MiB", "GiB", "kB", "MB", "GB", "ms", "µs", "ns", "%", "s"];

/// A figure: its digits without separators of thousands, and its unit, if one follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Figure<'a> {
    number: String,
    unit: Option<&'a str>,
    /// A sign before it: then a change in per cent may stand for a ratio of the same line.
    sign: Option<char>,
}

impl Figure<'_> {
    /// Worth a proof: with a unit of its own, a decimal point, or three digits and more.
    fn is_quoted(&self) -> bool {
        self.unit == Some("%") || self.number.contains('.') || self.number.len() >= 3
    }

    /// Looks it up among the figures of a proof. In tables the unit may stand in the heading of the column.
    fn stands_in(&self, proven: &BTreeSet<Figure>) -> bool {
        let has = |unit| proven.iter().any(|figure| figure.number == self.number && figure.unit == unit);
        has(self.unit) || has(None)
    }

    /// A signed change in per cent (`-70 %`) that follows from a ratio (`0.301`), rounded as it is written.
    fn follows_from(&self, ratio: &Figure) -> bool {
        let (Ok(change), Ok(value)) = (self.number.parse::<f64>(), ratio.number.parse::<f64>()) else {
            return false;
        };
        let decimals = self.number.split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
        let signed = if self.sign == Some('+') { change } else { -change };
        let is_ratio = ratio.unit.is_none() && ratio.number.contains('.');
        self.unit == Some("%")
            && self.sign.is_some()
            && is_ratio
            && ((value - 1.0) * 100.0 - signed).abs() <= 0.5 * 10_f64.powi(-decimals) + 1e-9
    }
}

/// The figures of a text. What is a part of a name, a date or a hash (`x86-64`, `2026-11-21`, `ec9481cb`) is none.
fn figures(text: &str) -> Vec<Figure<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let before = &rest[..start];
        let tail = &rest[start..];
        let mut end =
            tail.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(tail.len());
        // A list without blanks, or the end of a sentence, is no part of the number.
        let token = tail[..end].trim_end_matches(['.', ',']);
        let groups: Vec<&str> = token.split(',').collect();
        let whole = groups.iter().skip(1).all(|group| group.split('.').next().is_some_and(|g| g.len() == 3));
        let token = if whole { token } else { groups[0] };
        end = token.len();
        let behind = &tail[end..];
        // Times ten to the power of: p-values.
        let power = behind
            .strip_prefix("e-")
            .map_or(0, |digits| 2 + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len()));
        end += power;
        let behind = &tail[end..];
        let unit = UNITS.into_iter().find(|unit| {
            let after = behind.strip_prefix([' ', '\u{a0}']).unwrap_or(behind).strip_prefix(unit);
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
        });
        let mut last = before.chars().rev();
        let is_name = match last.next() {
            Some('-') => last.next().is_some_and(char::is_alphanumeric),
            Some(c) => c.is_alphanumeric() || c == '_',
            None => false,
        };
        let goes_on = unit.is_none() && behind.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            || behind.strip_prefix('-').is_some_and(|b| b.starts_with(|c: char| c.is_alphanumeric()));
        if is_name || goes_on {
            end += behind.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c))).unwrap_or(behind.len());
        } else {
            let sign = before.chars().next_back().filter(|c| "+-−".contains(*c));
            found.push(Figure { number: tail[..end].replace(',', ""), unit, sign });
        }
        rest = &tail[end..];
    }
    found
}

/// The figures of a proof. Versions of tools and hashes of inputs are none.
fn proven(proof: &str) -> BTreeSet<Figure<'_>> {
    figures(proof.split("\n## Made with").next().unwrap_or_default()).into_iter().collect()
}

/// Figures of a line that stand in neither of the proofs that are linked next before and behind them.
fn unproven<'a>(line: &'a str, proofs: &BTreeMap<String, String>) -> Vec<(Figure<'a>, String)> {
    let mut parts: Vec<(Vec<Figure>, Option<&str>)> = Vec::new();
    let mut figures_before = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        figures_before.extend(figures(before));
        let (target, tail) = after.split_once(')').unwrap_or((after, ""));
        let proof = target.split_once("proofs/").and_then(|(_, name)| name.split(".md").next());
        if let Some(name) = proof.filter(|name| proofs.contains_key(*name)) {
            parts.push((std::mem::take(&mut figures_before), Some(name)));
        }
        rest = tail;
    }
    figures_before.extend(figures(rest));
    parts.push((figures_before, None));
    let mut last = None;
    let mut found = Vec::new();
    for (quoted, next) in parts {
        let beside: Vec<&str> = last.into_iter().chain(next).collect();
        if !beside.is_empty() {
            let stands =
                |figure: &Figure| beside.iter().any(|name| figure.stands_in(&proven(&proofs[*name])));
            let ratios: Vec<Figure> = quoted.iter().filter(|figure| stands(figure)).cloned().collect();
            let missing = quoted.into_iter().filter(|figure| {
                let derived = || ratios.iter().any(|ratio| figure.follows_from(ratio));
                figure.is_quoted() && !stands(figure) && !derived()
            });
            found.extend(missing.map(|figure| (figure, beside.join(" and "))));
        }
        last = next.or(last);
    }
    found
}

#[test]
fn quoted_figures_stand_in_their_proofs() {
    // Reports within proofs are Markdown, with signs escaped.
    let folder = root().join("docs/proofs");
    let documents: Vec<_> =
        files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    let (proofs, documents): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|path| path.starts_with(&folder));
    let name = |path: &std::path::Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let proofs = proofs.iter().map(|path| (name(path), read(path).replace('\\', ""))).collect();
    let mut wrong = Vec::new();
    for path in documents {
        for (number, line) in read(&path).lines().enumerate() {
            for (figure, beside) in unproven(line, &proofs) {
                let unit = figure.unit.map_or_else(String::new, |unit| format!(" {unit}"));
                wrong.push(format!(
                    "{}:{}: {}{unit} is not in {beside}",
                    relative(&path),
                    number + 1,
                    figure.number
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "figures that their proofs do not have:\n{}", wrong.join("\n"));
}

#[test]
fn wrong_figures_are_found() {
    let proof = "| a | 11.5 | 0.301 | 1,079,742 | 99.55 % | 12 ms | 2.3e-8 |\n\non 2026-11-21 from ec948112, x86-64\n\n## Made with\n\n| 512 |";
    let proofs =
        BTreeMap::from([("one".to_owned(), proof.to_owned()), ("two".to_owned(), "7.25".to_owned())]);
    let cases: &[(&str, &[&str])] = &[
        ("it is 0.301 of 1,079,742, 99.55 %, in 12 ms, p = 2.3e-8 ([one](proofs/one.md)).", &[]),
        ("0.301, 11.5 % ([one](proofs/one.md))", &[]),
        ("1.5 ([one](proofs/one.md))", &["1.5"]),
        ("0.30 and 11.50 ([one](proofs/one.md))", &["0.30", "11.50"]),
        ("99.55 ms or 99.55 ([one](proofs/one.md))", &["99.55", "99.55"]),
        ("79,742 and 1079 ([one](proofs/one.md))", &["79742", "1079"]),
        ("70 % ([one](proofs/one.md))", &["70"]),
        ("512, 2026, 948 ([one](proofs/one.md))", &["512", "2026", "948"]),
        ("7.25 ([one](proofs/one.md))", &["7.25"]),
        ("0.301 ([one](proofs/one.md)), 7.25 ([two](proofs/two.md))", &[]),
        ("7.24 ([one](proofs/one.md)), 7.25, 11.5 ([two](proofs/two.md)), 0.301", &["7.24", "0.301"]),
        ("x86-64 of 2025-12-01, 4 of 12 ([one](proofs/one.md))", &[]),
        ("-70 % (0.301), -69.9 % ([one](proofs/one.md))", &[]),
        ("-70 % without its ratio ([one](proofs/one.md))", &["70"]),
        ("-71 % (0.301), +70 %, -69.8 %, 70 % ([one](proofs/one.md))", &["71", "70", "69.8", "70"]),
        ("-50 % (0.500; [one](proofs/one.md))", &["50", "0.500"]),
        ("0.999 without a proof", &[]),
    ];
    for (line, expected) in cases {
        let found: Vec<String> =
            unproven(line, &proofs).into_iter().map(|(figure, _)| figure.number).collect();
        assert_eq!(found, *expected, "{line}");
    }
}
