// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that files and headings in links of documents exist.

use super::tree::{files, read, relative};
use std::collections::BTreeSet;
use std::path::Path;

/// Anchors of a page's headings in forges and mdBook: letters, digits, `-` and `_`, with `-` for blanks.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        if fenced || text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let text = text.trim().to_lowercase();
        let anchor: String = text
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let second = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(second).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

/// Returns broken links of a page. Ignores code, and links to other places than files.
fn broken(path: &Path, page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = page.lines().filter(|line| !line.starts_with("    "));
    let text = lines.flat_map(|line| line.split('`').step_by(2)).collect::<Vec<_>>().join("\n");
    for (at, _) in text.match_indices("](") {
        let link = text[at + 2..].split(')').next().unwrap_or_default();
        let link = link.split_whitespace().next().unwrap_or_default();
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        if link.is_empty() || file.contains("://") || file.starts_with("mailto:") {
            continue;
        }
        let there = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        if !there.exists() {
            found.push(format!("the link to {link} leads nowhere"));
        } else if !anchor.is_empty() {
            let target = if file.is_empty() { page.to_owned() } else { read(&there) };
            if !anchors(&target).contains(anchor) {
                found.push(format!("the link to {link} has no such heading"));
            }
        }
    }
    found
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")) {
        wrong.extend(
            broken(&path, &read(&path)).into_iter().map(|what| format!("{}: {what}", relative(&path))),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.md"), "# B\n\n## The `x` of it, again\n\n## B\n").unwrap();
    let page = "# A\n[1](b.md) [2](b.md#the-x-of-it-again \"title\") [3](#a) [4](https://example.org/x) [5](b.md#b-1) `a[7](8)`\n\n    a[7](8)\n\n\
                [6](c.md) [7](b.md#the-y) [8](#b) [9](b.md#b-2)";
    std::fs::write(folder.path().join("a.md"), page).unwrap();
    let found = broken(&folder.path().join("a.md"), page);
    let links: Vec<&str> = found.iter().filter_map(|what| what.split(' ').nth(3)).collect();
    assert_eq!(links, ["c.md", "b.md#the-y", "#b", "b.md#b-2"]);
}
