// SPDX-License-Identifier: MIT OR Apache-2.0
//! The language of pages: short sentences, in the words of the field. Code, tables of figures and headings are no sentences.

use super::tree::{files, read, relative, root};

/// The longest sentence, in words.
const LONGEST: usize = 25;

/// Words and phrases of pages that have a better one.
pub const REPLACED: &[(&str, &str)] = &[
    ("bonds", "call edges, affinity edges"),
    ("drowned", "underserved"),
    ("floor", "threshold"),
    ("judged", "compared, tested"),
    ("leaves out", "skips"),
    ("ledger", "skip report"),
    ("left out", "skipped"),
    ("namesake", "local symbol of the same name"),
    ("namesakes", "local symbols of the same name"),
    ("near pair", "affinity edge"),
    ("near pairs", "affinity edges"),
    ("no run saw", "unprofiled"),
    ("not to be passed on", "private"),
    ("patience", "a time"),
    ("so many", "the number"),
    ("the engine", "the affinity layout, the default order"),
    ("the original", "upstream sediment"),
    ("the original's", "upstream sediment's"),
    ("the program that ran", "the recorded program"),
    ("traps", "breakpoints"),
    ("twin", "local symbol of the same name"),
    ("twins", "local symbols of the same name"),
    ("unseen", "unprofiled, held-out"),
    ("what ran", "profiled functions, hot code"),
];

/// Terms of the field that hold one of the words above.
const TERMS: &[&str] = &["decimal places", "noise floor"];

/// A paragraph, list item or row of a table as it is written, its lines joined, and the line it starts on, from 1. Code in blocks is none.
pub fn passages(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced, mut indented, mut after_blank) = (false, false, false, true);
    for (number, line) in page.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let text = line.trim();
        let is_item = item(text).is_some();
        fenced ^= text.starts_with("```");
        indented = line.starts_with("    ") && !is_item && (indented || after_blank);
        after_blank = text.is_empty() || text.ends_with("-->");
        let is_code = fenced || indented || text.starts_with("```");
        if is_code || text.is_empty() || text.starts_with('#') || text.starts_with("<!--") {
            open = false;
        } else if text.starts_with('|') {
            open = false;
            found.push((number, text.to_owned()));
        } else if open && !is_item {
            let last = found.last_mut().map(|(_, passage)| passage);
            last.into_iter().for_each(|passage| *passage += &format!(" {text}"));
        } else {
            open = true;
            found.push((number, item(text).unwrap_or(text).to_owned()));
        }
    }
    found
}

/// A paragraph, list item or cell of a table, and the line it starts on, from 1. Code becomes one word, a link its text.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, text) in passages(page) {
        match text.strip_prefix('|') {
            Some(row) => found.extend(row.split('|').map(|cell| (number, cell.trim().to_owned()))),
            None => found.push((number, text)),
        }
    }
    found.into_iter().map(|(number, text)| (number, without_links(&without_code(&text)))).collect()
}

/// The text of a list item.
fn item(text: &str) -> Option<&str> {
    let (mark, rest) = text.split_once(' ')?;
    let numbered = mark.strip_suffix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    (mark == "-" || mark == "*" || numbered).then_some(rest)
}

fn without_code(text: &str) -> String {
    let text: String =
        text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "X" }).collect();
    // Pictures: their description is no sentence of the page.
    let mut parts = text.split("<img ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| before + part.split_once('>').map_or("", |(_, after)| after))
}

fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .fold(first, |before, part| before + part.split_once(')').map_or("", |(_, after)| after))
        .replace('[', "")
}

/// The sentences of a paragraph, as words.
fn sentences(paragraph: &str) -> Vec<Vec<&str>> {
    let mut found = vec![Vec::new()];
    for word in paragraph.split_whitespace() {
        if word.contains(char::is_alphanumeric) {
            found.last_mut().into_iter().for_each(|sentence: &mut Vec<&str>| sentence.push(word));
        }
        if word.trim_end_matches(['"', '*', ')']).ends_with(['.', '?', '!']) {
            found.push(Vec::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// The words of a paragraph in lower case between single blanks, without the terms of the field.
pub fn plain(paragraph: &str) -> String {
    let words = paragraph.to_lowercase().replace(|c: char| !(c.is_alphanumeric() || "'-".contains(c)), " ");
    let text = format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "));
    TERMS.iter().fold(text, |text, term| text.replace(&format!(" {term} "), " "))
}

/// Faults of a page: line and words.
fn wrong(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, paragraph) in paragraphs(page) {
        for sentence in sentences(&paragraph).iter().filter(|sentence| sentence.len() > LONGEST) {
            let start = sentence[..8].join(" ");
            found.push(format!(
                "{number}: a sentence of {} words (at most {LONGEST}): {start} …",
                sentence.len()
            ));
        }
        let text = plain(&paragraph);
        for (word, better) in REPLACED.iter().filter(|(word, _)| text.contains(&format!(" {word} "))) {
            found.push(format!("{number}: \"{word}\": write {better}"));
        }
    }
    found
}

/// Pages that people read. Goldens are inputs.
fn pages() -> Vec<std::path::PathBuf> {
    let pages = files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let is_read = |name: &str| !["tests/", "fuzz/"].iter().any(|folder| name.starts_with(folder));
    pages.filter(|path| is_read(&relative(path))).collect()
}

#[test]
fn pages_are_short_sentences_in_the_words_of_the_field() {
    let pages = pages();
    assert!(pages.len() > 30, "{} has few pages", root().display());
    let told = |path: &std::path::PathBuf| {
        wrong(&read(path)).into_iter().map(|what| format!("{}:{what}", relative(path))).collect::<Vec<_>>()
    };
    let found: Vec<String> = pages.iter().flat_map(told).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The first paragraph of a script's comment, as `scripts/prove` writes it into the page.
fn summary(script: &str) -> String {
    let comment = script.lines().skip(3).map_while(|line| line.strip_prefix("# "));
    comment.collect::<Vec<_>>().join(" ")
}

#[test]
fn proofs_begin_with_the_words_of_their_scripts() {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(root().join("proofs/scripts")).unwrap() {
        let script = entry.unwrap().path();
        let name = script.file_name().unwrap().to_string_lossy().into_owned();
        let page = root().join(format!("docs/proofs/{name}.md"));
        if page.is_file() && read(&page).lines().nth(2) != Some(&*summary(&read(&script))) {
            wrong.push(name);
        }
    }
    assert!(
        wrong.is_empty(),
        "the third line of these pages is not what scripts/prove would write: {wrong:?}"
    );
}

#[test]
fn long_sentences_and_replaced_words_are_found() {
    let long = "word ".repeat(LONGEST + 1);
    let short = "word ".repeat(LONGEST);
    let cases = [
        (format!("{long}.\n"), 1),
        (format!("<img src=\"a.svg\" alt=\"{long}\">\n"), 0),
        (format!("{short}.\n{short}.\n"), 0),
        (format!("- {short}\n- {short}\n"), 0),
        (format!("    {long}\n\n```\n{long}\n```\n# {long}\n"), 0),
        (format!("{short}\n\n    {long}\n"), 0),
        (format!("- {short}\n    {long}\n"), 1),
        (format!("| {short} | {short} |\n"), 0),
        (format!("`{long}` [{short}]({long})\n"), 1),
        ("What ran, by\nthe `engine` of `unseen`.\n".to_owned(), 1),
        ("Near\npairs below a floor, above the noise floor.\n".to_owned(), 2),
    ];
    for (page, expected) in cases {
        let found = wrong(&page);
        assert_eq!(found.len(), expected, "{page}: {found:?}");
    }
}
