// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses sections, conditions and the first tags of a spec file, line by line.
//!
//! A spec file is a program: macros may generate any of its lines. This module reads only literal lines; an ambiguous
//! line is an error.

use sediment_core::{Error, ErrorCode, Result};

/// Lines that begin a section of a spec file (RPM's reference manual, "Spec file format").
pub(super) const SECTIONS: &[&str] = &[
    "package",
    "description",
    "prep",
    "generate_buildrequires",
    "conf",
    "build",
    "install",
    "check",
    "clean",
    "pre",
    "post",
    "preun",
    "postun",
    "pretrans",
    "posttrans",
    "preuntrans",
    "postuntrans",
    "verify",
    "verifyscript",
    "triggerprein",
    "triggerin",
    "triggerun",
    "triggerpostun",
    "filetriggerin",
    "filetriggerun",
    "filetriggerpostun",
    "transfiletriggerin",
    "transfiletriggerun",
    "transfiletriggerpostun",
    "sepolicy",
    "files",
    "changelog",
    "patchlist",
    "sourcelist",
];

/// A section: its name, its first line, and the line after its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecSection<'a> {
    pub(super) name: &'a str,
    pub(super) first: usize,
    pub(super) end: usize,
}

/// A tag in the first part, such as `Name: foo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) line: usize,
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    /// Byte offset of its value in the line.
    pub(super) column: usize,
    /// Text between its colon and its value.
    pub(super) gap: &'a str,
}

/// A spec file; lines are numbered from 0.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    /// Lines with their ends.
    pub(super) lines: Vec<&'a str>,
    /// Number of open conditions before each line, and at the end.
    depth: Vec<usize>,
    pub(super) sections: Vec<SpecSection<'a>>,
    pub(super) tags: Vec<Tag<'a>>,
    /// Lines in the first part with a macro whose text contains a source: only rpm knows the sources of such a spec
    /// file.
    pub(super) sources_by_macros: Vec<usize>,
}

impl<'a> Spec<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self> {
        if text.contains('\r') {
            return Err(Error::new(ErrorCode::Damaged, "Windows line endings, which make rpmbuild fail"));
        }
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut spec = Self {
            depth: vec![0],
            sections: Vec::new(),
            tags: Vec::new(),
            sources_by_macros: Vec::new(),
            lines,
        };
        // Number of braces that a macro definition opened in earlier lines, and whether the last line is continued.
        let mut braces = 0_usize;
        let mut continued = false;
        // True if that macro is called, not defined.
        let mut called = false;
        for line in 0..spec.lines.len() {
            let text = spec.lines[line];
            let word = first_word(text);
            let mut depth = *spec.depth.last().unwrap_or(&0);
            let in_macro = braces > 0 || continued;
            let defined = matches!(word, "%define" | "%global");
            continued = (in_macro || defined) && text.trim_end().ends_with('\\');
            let in_first_part = spec.sections.is_empty();
            if in_first_part {
                if !in_macro {
                    called = !defined && word.starts_with("%{");
                }
                if called && names_a_source(text) {
                    spec.sources_by_macros.push(line);
                }
                braces = after_braces(text, braces);
            }
            match word {
                _ if in_macro => {}
                "%if" | "%ifarch" | "%ifnarch" | "%ifos" | "%ifnos" => depth += 1,
                // Conditions of ALT Linux's rpm.
                "%if_with" | "%if_without" | "%if_enabled" | "%if_disabled" => depth += 1,
                "%endif" => {
                    depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| Error::at_line(line as u64 + 1, "%endif without %if"))?;
                }
                _ => {
                    // rpm interprets an expanded line, and `%%check` expands to `%check`.
                    let named = word.strip_prefix("%%").or_else(|| word.strip_prefix('%'));
                    if let Some(name) = named.and_then(|name| known(SECTIONS, name)) {
                        if let Some(last) = spec.sections.last_mut() {
                            last.end = line;
                        }
                        spec.sections.push(SpecSection { name, first: line, end: spec.lines.len() });
                    } else if in_first_part {
                        spec.tags.extend(tag(text, line));
                    }
                }
            }
            spec.depth.push(depth);
        }
        if *spec.depth.last().unwrap_or(&0) > 0 {
            return Err(Error::new(ErrorCode::Damaged, "%if without %endif"));
        }
        Ok(spec)
    }

    /// Returns the lines that affect rpm: no comments, changelog or descriptions.
    pub(super) fn effective(&self) -> impl Iterator<Item = (usize, &'a str)> + '_ {
        let words = |section: &SpecSection<'_>| matches!(section.name, "changelog" | "description");
        let in_words = move |line: usize| {
            self.sections.iter().any(|section| words(section) && (section.first..section.end).contains(&line))
        };
        let lines = self.lines.iter().copied().enumerate();
        lines.filter(move |(line, text)| !text.trim_start().starts_with('#') && !in_words(*line))
    }

    /// Number of conditions that are open before a line.
    pub(super) fn depth(&self, line: usize) -> usize {
        self.depth.get(line).copied().unwrap_or(0)
    }

    /// Returns the first line after `line` that is not inside a condition.
    pub(super) fn behind(&self, line: usize) -> usize {
        (line + 1..self.lines.len()).find(|next| self.depth(*next) == 0).unwrap_or(self.lines.len())
    }

    /// Returns the only section with this name; an error if there are several.
    pub(super) fn section(&self, name: &str) -> Result<Option<SpecSection<'a>>> {
        let mut all = self.sections.iter().filter(|section| section.name == name);
        match (all.next(), all.next()) {
            (_, Some(second)) => {
                Err(Error::at_line(second.first as u64 + 1, format!("two sections %{name}")))
            }
            (found, None) => Ok(found.copied()),
        }
    }

    /// Returns the line after the last non-empty line of a section, and before a condition around the next section.
    pub(super) fn end_of_text(&self, section: SpecSection<'_>) -> usize {
        let ends = |line: &usize| self.depth(line + 1) == 0 && !self.lines[*line].trim().is_empty();
        (section.first..section.end).rev().find(ends).map_or(section.end, |line| line + 1)
    }

    /// Line after a section where another section can be inserted: before comments and the condition of the next section.
    pub(super) fn behind_section(&self, section: SpecSection<'_>) -> usize {
        let leads = |line: usize| {
            let text = self.lines[line].trim();
            text.is_empty() || text.starts_with('#') || text.starts_with("%if")
        };
        let mut at = section.end;
        while at > section.first + 1 && leads(at - 1) {
            at -= 1;
        }
        // Blank lines belong to the end of the section, not to the beginning of the next.
        while at < section.end && (self.depth(at) > 0 || self.lines[at].trim().is_empty()) {
            at += 1;
        }
        at
    }
}

/// Returns the word of the table that equals this one.
fn known(table: &[&'static str], word: &str) -> Option<&'static str> {
    table.iter().find(|known| **known == word).copied()
}

/// True if a line contains `Source:`, or `Source` with a number.
fn names_a_source(line: &str) -> bool {
    line.to_ascii_lowercase().split("source").skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '%' | '{' | '}')).starts_with(':')
    })
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// Number of braces that are open after a line, from macros that it defines or calls, and from earlier lines.
fn after_braces(line: &str, before: usize) -> usize {
    if before == 0 && !line.trim_start().starts_with('%') {
        return 0;
    }
    line.bytes().fold(before, |open, byte| match byte {
        b'{' => open + 1,
        b'}' => open.saturating_sub(1),
        _ => open,
    })
}

fn tag(text: &str, line: usize) -> Option<Tag<'_>> {
    let (name, value) = text.split_once(':')?;
    let is_name = |name: &str| {
        let (word, qualifier) = name.split_once('(').unwrap_or((name, ""));
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'{' | b'}' | b'_'))
            && word.starts_with(|c: char| c.is_ascii_alphabetic())
            && (qualifier.is_empty() || qualifier.ends_with(')'))
    };
    let name = name.trim();
    let column = text.len() - value.trim_start().len();
    let gap = &value[..value.len() - value.trim_start().len()];
    is_name(name).then_some(Tag { line, name, value: value.trim(), column, gap })
}
