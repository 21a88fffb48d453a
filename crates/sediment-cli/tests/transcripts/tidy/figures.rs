// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks figures that the page of results quotes from proofs: each must be in the row of the proof named by the link
//! next to it, with all digits and the same unit. Every paragraph, list item or table row with a measured figure must
//! have such a link. README's figures must be on the page of results.

use super::pages::passages;
use super::tree::{files, files_below, read, relative, root};
use std::collections::{BTreeMap, BTreeSet};

/// Units in documents and proofs; a unit comes before its prefixes.
const UNITS: [&str; 13] = ["MB/s", "GB/s", "KiB", "MiB", "GiB", "kB", "MB", "GB", "ms", "µs", "ns", "%", "s"];

/// A figure: its digits without thousands separators, and its unit if there is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Figure {
    number: String,
    unit: Option<&'static str>,
    /// A sign before it: then a change in per cent may correspond to a ratio in the same line.
    sign: Option<char>,
}

impl Figure {
    /// True if it needs a proof: it has a unit, a decimal point, or at least three digits.
    fn is_quoted(&self) -> bool {
        self.unit == Some("%") || self.number.contains('.') || self.number.len() >= 3
    }

    /// True for a change or ratio that can only be measured: `-70 %`, `0.301`.
    fn is_measured(&self) -> bool {
        let decimals = self.number.split_once('.').map_or("", |(_, digits)| digits);
        // Versions contain two points.
        let is_ratio = decimals.len() >= 3 && !decimals.contains('.');
        self.unit == Some("%") && self.sign.is_some() || self.unit.is_none() && is_ratio
    }

    /// Formats it as in a document.
    fn written(&self) -> String {
        self.unit.map_or_else(|| self.number.clone(), |unit| format!("{} {unit}", self.number))
    }

    /// True if it is among the figures of rows. In tables the unit may be in the heading of the column.
    fn stands_in(&self, proven: &BTreeSet<Figure>) -> bool {
        let has = |unit| proven.iter().any(|figure| figure.number == self.number && figure.unit == unit);
        has(self.unit) || has(None)
    }

    /// True for a signed change in per cent (`-70 %`) that follows from a ratio (`0.301`), rounded to its number of
    /// digits.
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

/// Returns the figures in a text. A part of a name, a date or a hash (`x86-64`, `2026-11-21`, `ec9481cb`) is not a
/// figure.
fn figures(text: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let before = &rest[..start];
        let tail = &rest[start..];
        let mut end =
            tail.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(tail.len());
        // A comma in a list without blanks, or the end of a sentence, is not part of the number.
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

/// A table row, a list item, a paragraph or a terminal line in a proof.
struct ProofEntry<'a> {
    /// The headings above it; the page's title only above the first section.
    headings: Vec<&'a str>,
    /// Cells of a table row.
    cells: Option<Vec<String>>,
    text: String,
}

impl ProofEntry<'_> {
    /// True if a word is a heading above the row, a cell of it, or occurs in its text between characters that do not
    /// belong to names.
    fn has(&self, word: &str) -> bool {
        self.headings.contains(&word)
            || match &self.cells {
                Some(cells) => cells.iter().any(|cell| cell == word),
                None => self.text.match_indices(word).any(|(at, _)| {
                    let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
                    !self.text[..at].ends_with(is_part) && !self.text[at + word.len()..].starts_with(is_part)
                }),
            }
    }
}

/// Returns the rows of a proof. Versions of tools and hashes of inputs do not count.
fn rows(proof: &str) -> Vec<ProofEntry<'_>> {
    let mut rows: Vec<ProofEntry> = Vec::new();
    let mut headings: Vec<(usize, &str)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for line in proof.split("\n## Made with").next().unwrap_or_default().lines() {
        let text = line.trim();
        let level = text.chars().take_while(|c| *c == '#' && !fenced).count();
        // A benchmark's second line contains its throughput.
        let is_item =
            (fenced || text.starts_with("- ") || line.starts_with("    ")) && !text.starts_with('│');
        if text.starts_with("```") {
            fenced = !fenced;
            open = false;
        } else if text.is_empty() || level > 0 {
            open = false;
            if level > 0 {
                headings.retain(|(above, _)| *above < level && *above > 1);
                headings.push((level, text[level..].trim()));
            }
        } else if open && !is_item && !text.starts_with('|') {
            rows.last_mut().into_iter().for_each(|row| row.text += &format!(" {text}"));
        } else {
            let text = text.replace(['*', '`'], "");
            let cells = text.strip_prefix('|').map(|row| row.split('|').map(|cell| cell.trim().to_owned()));
            let cells = cells.map(Iterator::collect::<Vec<_>>);
            open = cells.is_none();
            let headings = headings.iter().map(|(_, text)| *text).collect();
            rows.push(ProofEntry { headings, cells, text });
        }
    }
    rows
}

/// A link to a proof. Its title has the rows of the figures next to it: words of a row are separated by ` + `, rows by
/// `;`.
#[derive(Clone)]
struct Quote<'a> {
    name: &'a str,
    figures: BTreeSet<Figure>,
    /// Keys that match no row, or several.
    wrong: Vec<String>,
}

impl<'a> Quote<'a> {
    fn read(target: &'a str, proofs: &'a BTreeMap<String, String>) -> Option<Self> {
        let name = target.split_once("proofs/")?.1.split(".md").next()?;
        let all = rows(proofs.get(name)?);
        let title = target.split('"').nth(1).unwrap_or_default();
        let mut quote = Self { name, figures: BTreeSet::new(), wrong: Vec::new() };
        for key in title.split(';').map(str::trim).filter(|key| !key.is_empty()) {
            let words: Vec<&str> = key.split(" + ").map(str::trim).collect();
            let fitting: Vec<&ProofEntry> =
                all.iter().filter(|row| words.iter().all(|word| row.has(word))).collect();
            if fitting.len() != 1 {
                quote.wrong.push(format!("{} rows of {name} are \"{key}\"", fitting.len()));
            }
            for row in fitting {
                quote.figures.extend(figures(&row.text));
            }
        }
        Some(quote)
    }
}

/// Returns the faults of a passage: figures that are not in the rows named by the previous and next links.
fn unproven(line: &str, proofs: &BTreeMap<String, String>) -> Vec<String> {
    let mut parts: Vec<(Vec<Figure>, Option<Quote>)> = Vec::new();
    let mut figures_before = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        figures_before.extend(figures(before));
        // The title may contain brackets.
        let title = after.find('"').filter(|at| !after[..*at].contains(')')).map_or(0, |at| at + 1);
        let end =
            title + after[title..].find(if title > 0 { "\"" } else { ")" }).unwrap_or(after.len() - title);
        let (target, tail) = after.split_at(end);
        if let Some(quote) = Quote::read(target, proofs) {
            parts.push((std::mem::take(&mut figures_before), Some(quote)));
        }
        rest = tail;
    }
    figures_before.extend(figures(rest));
    parts.push((figures_before, None));
    let mut last: Option<Quote> = None;
    let mut found = Vec::new();
    for (quoted, next) in parts {
        found.extend(next.iter().flat_map(|quote| quote.wrong.clone()));
        let beside: Vec<&Quote> = last.iter().chain(&next).collect();
        if !beside.is_empty() {
            let stands = |figure: &Figure| beside.iter().any(|quote| figure.stands_in(&quote.figures));
            let ratios: Vec<Figure> = quoted.iter().filter(|figure| stands(figure)).cloned().collect();
            let missing = quoted.iter().filter(|figure| {
                let derived = || ratios.iter().any(|ratio| figure.follows_from(ratio));
                figure.is_quoted() && !stands(figure) && !derived()
            });
            let names: Vec<&str> = beside.iter().map(|quote| quote.name).collect();
            found.extend(missing.map(|figure| {
                let elsewhere = names.iter().flat_map(|name| rows(&proofs[*name]));
                let elsewhere =
                    elsewhere.filter(|row| figure.stands_in(&figures(&row.text).into_iter().collect()));
                let beginnings: String =
                    elsewhere.take(3).map(|row| format!("\n    it is in: {:.80}", row.text)).collect();
                format!("{} is not in the row of {}{beginnings}", figure.written(), names.join(" and "))
            }));
        }
        last = next.or(last);
    }
    if last.is_none() {
        let measured = figures(&without_code(line)).into_iter().filter(Figure::is_measured);
        let measured = measured.filter(|figure| !GIVEN.contains(&&*figure.number));
        found.extend(measured.map(|figure| {
            format!("{} is not in the row of any proof: its paragraph has no link to one", figure.written())
        }));
    }
    found
}

/// Returns a passage without text between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Numbers that look measured but are settings or examples.
const GIVEN: &[&str] = &["0.000000", "0.005"];

#[test]
fn quoted_figures_stand_in_the_rows_of_their_proofs() {
    // Reports within proofs are Markdown, with escaped characters.
    let folder = root().join("docs/proofs");
    let documents = ["docs/results.md"].map(|page| root().join(page));
    let proofs = files_below(&folder, "md");
    let name = |path: &std::path::Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let proofs = proofs.iter().map(|path| (name(path), read(path).replace('\\', ""))).collect();
    let mut wrong = Vec::new();
    for path in documents {
        for (number, passage) in passages(&read(&path)) {
            let told = unproven(&passage, &proofs);
            wrong.extend(told.iter().map(|what| format!("{}:{number}: {what}", relative(&path))));
        }
    }
    assert!(
        wrong.is_empty(),
        "figures that their proofs do not have, or not in the rows that the titles of their links name (CONTRIBUTING.md):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn figures_of_the_readme_stand_in_the_results() {
    let results: BTreeSet<Figure> = figures(&read(&root().join("docs/results.md"))).into_iter().collect();
    let readme = figures(&without_code(&read(&root().join("README.md"))));
    let measured: Vec<&Figure> = readme.iter().filter(|figure| figure.is_measured()).collect();
    assert!(measured.len() > 4, "{measured:?}");
    let missing: Vec<&&Figure> = measured.iter().filter(|figure| !figure.stands_in(&results)).collect();
    assert!(missing.is_empty(), "not in docs/results.md: {missing:?}");
}

/// Returns lines with pictures but without a link, in their passage or the next, to an explanation.
fn without_caption(page: &str) -> Vec<usize> {
    let passages = passages(page);
    let pictures =
        passages.iter().enumerate().filter(|(_, (_, text))| text.contains("<img ") || text.contains("!["));
    let has_link =
        |at: usize| passages.get(at).is_some_and(|(_, text)| text.replace("![", "").contains("]("));
    pictures.filter(|(at, _)| !has_link(*at) && !has_link(at + 1)).map(|(_, (line, _))| *line).collect()
}

#[test]
fn pictures_have_captions_that_lead_to_their_making() {
    let mut wrong = Vec::new();
    for path in files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        wrong.extend(without_caption(&read(&path)).iter().map(|line| format!("{}:{line}", relative(&path))));
    }
    assert!(wrong.is_empty(), "pictures whose caption has no link: {wrong:?}");
    let page = "<img src=\"a\">\n\nWords.\n\n<img src=\"b\">\n\nHow [it](b.md) was made.\n\n<img src=\"c\">\n[made](c.md)\n";
    assert_eq!(without_caption(page), [1]);
}

#[test]
fn figures_of_other_rows_are_found() {
    let proof = "# one\n\n| program | ratio | misses | placed |\n|---|--:|--:|--:|\n| **a** | 11.5 | 0.301 | 1,079,742 | 99.55 % | 12 ms | 2.3e-8 |\n\
                 | a-b, `c` | 0.302 | 13 ms |\n\n## In short\n\n- a: 0.501 of\n  it, and 44 %.\n- a-b: 0.502.\n\n## lua\n\n    iTLB 0.601\n    L1I  0.602\n\n\
                 on 2026-11-21 from ec948112, x86-64: 0.701\n\n## Made with\n\n| a | 512 |";
    let proofs =
        BTreeMap::from([("one".to_owned(), proof.to_owned()), ("two".to_owned(), "b: 7.25".to_owned())]);
    let cases: &[(&str, &[&str])] = &[
        ("0.301 of 1,079,742, 99.55 %, in 12 ms, p = 2.3e-8 ([one](proofs/one.md \"99.55 % + a\"))", &[]),
        ("0.301, 11.5 % ([one](proofs/one.md \"11.5\"))", &[]),
        // It is in another row, or no row is named.
        ("0.302 ([one](proofs/one.md \"a + 11.5\"))", &["0.302"]),
        ("0.301 ([one](proofs/one.md \"a-b, `c`\"))", &["key", "0.301"]),
        ("0.301 ([one](proofs/one.md \"a-b, c\"))", &["0.301"]),
        ("0.301 ([one](proofs/one.md))", &["0.301"]),
        ("0.301 and 0.302 ([one](proofs/one.md \"a + 11.5; a-b, c\"))", &[]),
        // A key that matches two rows, or none.
        ("0.301 ([one](proofs/one.md \"a\"))", &["key"]),
        ("0.301 ([one](proofs/one.md \"a + b\"))", &["key", "0.301"]),
        (
            "0.501, 44 % ([one](proofs/one.md#in-short \"In short + a\")), 0.502 ([one](proofs/one.md \"In short + a-b\"))",
            &[],
        ),
        ("0.502 ([one](proofs/one.md \"In short + a\"))", &["0.502"]),
        ("0.601 ([one](proofs/one.md \"lua + iTLB\"))", &[]),
        ("0.602 ([one](proofs/one.md \"lua + iTLB\"))", &["0.602"]),
        ("1.5 ([one](proofs/one.md \"a + 11.5\"))", &["1.5"]),
        ("0.30 and 11.50 ([one](proofs/one.md \"a + 11.5\"))", &["0.30", "11.50"]),
        ("99.55 ms or 99.55 ([one](proofs/one.md \"a + 11.5\"))", &["99.55 ms", "99.55"]),
        ("79,742 and 1079 ([one](proofs/one.md \"a + 11.5\"))", &["79742", "1079"]),
        ("512, 2026, 948, 0.701 ([one](proofs/one.md \"x86-64\"))", &["512", "2026", "948"]),
        ("0.301 ([one](proofs/one.md \"a + 11.5\")), 7.25 ([two](proofs/two.md \"b\"))", &[]),
        (
            "7.24 ([one](proofs/one.md \"a + 11.5\")), 7.25, 11.5 ([two](proofs/two.md \"b\")), 0.301",
            &["7.24", "0.301"],
        ),
        ("x86-64 of 2025-12-01, 4 of 12 ([one](proofs/one.md))", &[]),
        ("-70 % (0.301), -69.9 % ([one](proofs/one.md \"a + 11.5\"))", &[]),
        ("-70 % without its ratio ([one](proofs/one.md \"a + 11.5\"))", &["70 %"]),
        ("-71 % (0.301), +70 %, 70 % ([one](proofs/one.md \"a + 11.5\"))", &["71 %", "70 %", "70 %"]),
        ("-50 % (0.500; [one](proofs/one.md \"a + 11.5\"))", &["50 %", "0.500"]),
        ("0.999 without a proof", &["0.999"]),
        ("-7 % in `-8 %`, of 1,079,742 or 0.25, 12 ms", &["7 %"]),
    ];
    for (line, expected) in cases {
        let found = unproven(line, &proofs);
        let found: Vec<&str> = found
            .iter()
            .map(|what| what.split_once(" is not in").map_or("key", |(figure, _)| figure))
            .collect();
        assert_eq!(found, *expected, "{line}");
    }
}
