// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes and reads input statements, one for each section; shared by the dialects of GNU ld.
//!
//! The reader supports the part of the linker script language ("SECTIONS" in the manual of GNU ld) that ordering files
//! use: input statements with file patterns, KEEP, EXCLUDE_FILE and SORT_…, assignments, PROVIDE and other calls,
//! comments. A pattern with a real wildcard is ignored because it does not name a function, such as the `*(.text.*)` at
//! the end of upstream sediment's files.

use super::{CLONES, OrderedName, Placement, ordered, repeated};
use sediment_core::binary::names::{self, SectionGroup};
use sediment_core::binary::objects::ObjectPath;
use sediment_core::error::{Error, Result};
use sediment_core::escape;
use sediment_core::skipped::{Reason, Skipped};
use std::collections::HashSet;

/// Writes one statement for each section: first for the functions, then for their possible cold parts. A section that
/// is needed only from some files gets a statement for each file.
pub(super) fn write(placements: &[Placement], indent: &str) -> (String, Skipped) {
    let mut skipped = Skipped::default();
    let mut text = String::new();
    let mut functions: HashSet<(&str, &[ObjectPath])> = HashSet::new();
    let mut statements: HashSet<String> = HashSet::new();
    let mut cold = Vec::new();
    let mut push = |statement: String| {
        if !statements.contains(&statement) {
            text.push_str(indent);
            text.push_str(&statement);
            text.push('\n');
            statements.insert(statement);
        }
    };
    for placement in placements {
        if !functions.insert((placement.name.as_str(), placement.files.as_slice())) {
            repeated(placement, &mut skipped);
            continue;
        }
        let Some(wanted) =
            statements_of(&placement.sections, &placement.files).filter(|_| !placement.name.is_empty())
        else {
            skipped.add(Reason::UnwritableName, 0, &placement.name);
            continue;
        };
        wanted.into_iter().for_each(&mut push);
        cold.push(placement);
    }
    for placement in cold {
        statements_of(&placement.cold_sections, &placement.files).into_iter().flatten().for_each(&mut push);
    }
    (text, skipped)
}

/// Returns statements for these sections, from all files or from some.
pub(super) fn statements_of(sections: &[String], files: &[ObjectPath]) -> Option<Vec<String>> {
    let mut statements = Vec::new();
    for section in sections {
        let pattern = match section.strip_suffix(CLONES) {
            Some(stem) => escape::gnu_ld(stem).map(|stem| match stem.strip_suffix('"') {
                Some(quoted) => format!("{quoted}.*\""),
                None => format!("{stem}.*"),
            }),
            None => escape::gnu_ld(section),
        }?;
        if files.is_empty() {
            statements.push(format!("*({pattern})"));
        }
        for file in files {
            let files = match file {
                ObjectPath::File(path) => vec![escape::gnu_ld_file(path)?],
                ObjectPath::Member { archive, member } => vec![escape::gnu_ld_member(archive, member)?],
                ObjectPath::CompiledFrom(source) => compiled_from(source)?,
            };
            statements.extend(files.iter().map(|file| format!("{file}({pattern})")));
        }
    }
    Some(statements)
}

/// Returns patterns for the objects named after a source file, in any folder: `a.o`, automake's `libx_la-a.o`, CMake's
/// `a.c.o`. All contain a wildcard, because the linker would open a file with a complete name, whether it exists or
/// not.
fn compiled_from(source: &str) -> Option<Vec<String>> {
    let stem = source.rsplit_once('.').map_or(source, |(stem, _)| stem);
    // The first character must not already be a bracket, and some characters have another meaning within brackets.
    source.chars().next().filter(|first| first.is_ascii_alphanumeric() || *first == '_')?;
    let mut patterns = Vec::new();
    for object in [format!("{stem}.o"), format!("{source}.o")] {
        let quoted = escape::gnu_ld_file(&object)?;
        let (first, rest) = quoted.get(1..2).zip(quoted.get(2..))?;
        patterns.push(format!("\"[{first}]{rest}"));
        patterns.push(format!("\"{ANY_FOLDER}{first}{rest}"));
    }
    Some(patterns)
}

/// Pattern for the folder, or prefix, before an object's own name.
const ANY_FOLDER: &str = "*[-/]";

/// Kind of file with input statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `OUTPUT : { … }`.
    OrderingFile,
    /// `SECTIONS { OUTPUT : { … } } INSERT …`.
    Script,
}

/// Determines the kind of a file from its beginning.
pub(super) fn dialect(text: &str) -> Option<Dialect> {
    let mut tokens = Tokens::new(text);
    let mut next = || tokens.next().and_then(Result::ok).map(|token| token.kind);
    match next()? {
        ScriptTokenKind::Word("SECTIONS") => {
            (next()? == ScriptTokenKind::Sign('{')).then_some(Dialect::Script)
        }
        ScriptTokenKind::Word(output) if output.ends_with(':') => {
            (next()? == ScriptTokenKind::Sign('{')).then_some(Dialect::OrderingFile)
        }
        ScriptTokenKind::Word(_) | ScriptTokenKind::Quoted(_) => (next()? == ScriptTokenKind::Word(":")
            && next()? == ScriptTokenKind::Sign('{'))
        .then_some(Dialect::OrderingFile),
        ScriptTokenKind::Sign(_) => None,
    }
}

/// Returns the functions of input statements in order, by their sections.
pub(super) fn read(text: &str) -> Result<Vec<OrderedName>> {
    Ok(functions(&sections_of(text)?))
}

/// Returns the functions of a list of sections with their lines; each function of a file once.
pub(super) fn functions(sections: &[AskedSection]) -> Vec<OrderedName> {
    let mut asked: Vec<OrderedName> = Vec::new();
    let mut seen: HashSet<(String, Option<String>)> = HashSet::new();
    let mut latest: Option<String> = None;
    for (place, AskedSection { section, line, file }) in sections.iter().enumerate() {
        let follower = sections.get(place + 1).map(|next| next.section.as_str());
        let Some((name, group)) = function_named(section, follower) else { continue };
        let mut function = ordered(name, *line);
        let is_cold_part = match group {
            SectionGroup::Split => true,
            // Directly after the function's other sections, it is another place where the function itself may be.
            SectionGroup::Unlikely => latest.as_ref() != Some(&function.name),
            _ => false,
        };
        if is_cold_part {
            function.name = names::cold_part(&function.name);
        }
        function.file.clone_from(file);
        latest = Some(function.name.clone());
        if seen.insert((function.name.clone(), file.clone())) {
            asked.push(function);
        }
    }
    asked
}

/// A section in an ordering file.
pub(super) struct AskedSection {
    pub(super) section: String,
    /// Line of the file, from 1.
    pub(super) line: u64,
    /// Base name of its object file, if there is one.
    pub(super) file: Option<String>,
}

/// Returns the function after which a section was named. A function may be named like a section group followed by a dot
/// (`exit.part.0`); in our files the next section decides.
fn function_named<'a>(section: &'a str, follower: Option<&str>) -> Option<(&'a str, SectionGroup)> {
    let (name, group) = names::function_of_section(section)?;
    let whole = section.strip_prefix(".text.").filter(|whole| {
        let next = follower.and_then(names::function_of_section);
        group != SectionGroup::Plain && next == Some((whole, SectionGroup::Hot))
    });
    Some(whole.map_or((name, group), |whole| (whole, SectionGroup::Plain)))
}

/// Returns the sections in input statements, without wildcards, with their lines.
fn sections_of(text: &str) -> Result<Vec<AskedSection>> {
    let mut found = Vec::new();
    let mut file: Option<String> = None;
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut before: Option<ScriptTokenKind<'_>> = None;
    let mut line = 1;
    for token in Tokens::new(text) {
        let token = token?;
        line = token.line;
        let within = open.last().copied();
        match token.kind {
            ScriptTokenKind::Sign(sign @ ('{' | '(')) => {
                if within == Some(OpenBracket::Block) {
                    file = match before {
                        Some(ScriptTokenKind::Word(pattern) | ScriptTokenKind::Quoted(pattern)) => {
                            object_named(pattern)
                        }
                        _ => None,
                    };
                }
                open.push(match (sign, within, before) {
                    ('{', _, _) => OpenBracket::Block,
                    (_, Some(OpenBracket::Skipped | OpenBracket::Value), _) => OpenBracket::Skipped,
                    // The content of SORT_BY_NAME(…) within a list, and of KEEP(…) around a statement, counts.
                    (_, Some(OpenBracket::Patterns), Some(ScriptTokenKind::Word(word)))
                        if word.starts_with("EXCLUDE_FILE") =>
                    {
                        OpenBracket::Skipped
                    }
                    (_, Some(OpenBracket::Patterns), _) => OpenBracket::Patterns,
                    (_, _, Some(ScriptTokenKind::Word("KEEP"))) => OpenBracket::Kept,
                    (_, _, Some(ScriptTokenKind::Word(word))) if is_call(word) => OpenBracket::Skipped,
                    _ => OpenBracket::Patterns,
                });
            }
            ScriptTokenKind::Sign(sign) if sign != ';' => {
                // An assignment without a semicolon ends with its block.
                while open.last() == Some(&OpenBracket::Value) {
                    open.pop();
                }
                let closed = open.pop();
                if closed.is_none_or(|open| (open == OpenBracket::Block) != (sign == '}')) {
                    return Err(Error::at_line(line, format!("unmatched `{sign}`")));
                }
            }
            ScriptTokenKind::Sign(_) => {
                if within == Some(OpenBracket::Value) {
                    open.pop();
                }
            }
            ScriptTokenKind::Word("=" | "+=" | "-=" | "*=" | "/=" | "|=" | "&=" | "<<=" | ">>=")
                if within == Some(OpenBracket::Block) =>
            {
                open.push(OpenBracket::Value);
            }
            ScriptTokenKind::Word(pattern) | ScriptTokenKind::Quoted(pattern)
                if within == Some(OpenBracket::Patterns) =>
            {
                if let Some(section) = escape::gnu_ld_literal(pattern) {
                    found.push(AskedSection { section, line, file: file.clone() });
                }
            }
            ScriptTokenKind::Word(_) | ScriptTokenKind::Quoted(_) => {}
        }
        before = Some(token.kind);
    }
    if open.iter().any(|open| *open != OpenBracket::Value) {
        return Err(Error::at_line(line, "the file ends inside braces or parentheses")
            .with_hint("is the file cut off?"));
    }
    Ok(found)
}

/// Returns the base name of the object that a file pattern matches; `None` if it matches several.
fn object_named(pattern: &str) -> Option<String> {
    let pattern = pattern.strip_prefix(ANY_FOLDER).unwrap_or(pattern).trim_start_matches('*');
    // A single character in brackets is this character.
    let unbracketed = match pattern.as_bytes() {
        [b'[', first, b']', ..] if first.is_ascii_alphanumeric() || *first == b'_' => {
            format!("{}{}", char::from(*first), &pattern[3..])
        }
        _ => pattern.to_owned(),
    };
    let file = escape::gnu_ld_literal(&unbracketed).filter(|file| !file.is_empty())?;
    let member = file.rsplit_once(':').map_or(file.as_str(), |(_, member)| member);
    member.rsplit('/').next().map(str::to_owned)
}

/// Content of an open brace or parenthesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBracket {
    /// Statements, within braces.
    Block,
    /// Section patterns.
    Patterns,
    /// A statement within KEEP.
    Kept,
    /// Arguments that are not sections.
    Skipped,
    /// The rest of an assignment, up to its semicolon.
    Value,
}

/// True for words before a parenthesis that are not file patterns.
fn is_call(word: &str) -> bool {
    matches!(
        word,
        "PROVIDE"
            | "PROVIDE_HIDDEN"
            | "HIDDEN"
            | "ASSERT"
            | "EXCLUDE_FILE"
            | "INPUT_SECTION_FLAGS"
            | "BYTE"
            | "SHORT"
            | "LONG"
            | "QUAD"
            | "SQUAD"
            | "ASCIZ"
            | "FILL"
            | "INCLUDE"
            | "ALIGN"
            | "SUBALIGN"
            | "AT"
            | "ONLY_IF_RO"
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptTokenKind<'a> {
    Word(&'a str),
    Quoted(&'a str),
    /// One of `{ } ( ) ;`.
    Sign(char),
}

#[derive(Debug, Clone, Copy)]
struct ScriptToken<'a> {
    kind: ScriptTokenKind<'a>,
    line: u64,
}

/// Words of a linker script, without comments and commas.
struct Tokens<'a> {
    rest: &'a str,
    line: u64,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|b| *b == b'\n').count() as u64;
        self.rest = rest;
        taken
    }

    /// Returns an error at the current line, and ends the words.
    fn broken(&mut self, message: &str) -> Option<Result<ScriptToken<'a>>> {
        let error = Error::at_line(self.line, message).with_found(self.rest.as_bytes());
        self.rest = "";
        Some(Err(error))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<ScriptToken<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let blanks =
                self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
            self.take(blanks);
            if !self.rest.starts_with("/*") {
                break;
            }
            match self.rest.find("*/") {
                Some(end) => self.take(end + 2),
                None => return self.broken("unterminated comment"),
            };
        }
        let line = self.line;
        let first = self.rest.chars().next()?;
        let kind = match first {
            '{' | '}' | '(' | ')' | ';' => {
                self.take(1);
                ScriptTokenKind::Sign(first)
            }
            '"' => match self.rest[1..].find('"') {
                Some(end) => ScriptTokenKind::Quoted(&self.take(end + 2)[1..=end]),
                None => return self.broken("unterminated quoted name"),
            },
            c if c.is_control() => return self.broken("a control character"),
            _ => {
                let ends = |c: char| {
                    c.is_whitespace() || c.is_control() || matches!(c, '{' | '}' | '(' | ')' | ';' | '"')
                };
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                ScriptTokenKind::Word(self.take(end))
            }
        };
        Some(Ok(ScriptToken { kind, line }))
    }
}
