// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passages of a page, and the summaries at the beginning of proofs.

use super::tree::{read, root};

/// Returns the paragraphs, list items and table rows of a page, each with its lines joined and its first line number,
/// from 1. Code blocks do not count.
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

/// Returns the text of a list item.
fn item(text: &str) -> Option<&str> {
    let (mark, rest) = text.split_once(' ')?;
    let numbered = mark.strip_suffix('.').is_some_and(|digits| digits.parse::<u32>().is_ok());
    (mark == "-" || mark == "*" || numbered).then_some(rest)
}

/// Returns the first paragraph of a script's comment, which `scripts/prove` writes into the page.
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
