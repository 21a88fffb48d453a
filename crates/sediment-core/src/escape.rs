// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names from strangers, made safe for every language that sediment writes: one function per dialect.
//!
//! Dialects that a machine reads ([`dot`], [`gnu_ld`], [`gold`], [`lld`], [`shell`], [`rpm`], [`make`],
//! [`toml`](fn@toml)) are exact: the reader gets back the very text, or the function returns None and the caller
//! skips and counts the name. Dialects that people look at ([`html`], [`svg`], [`markdown`], [`csv`], [`terminal`])
//! can show any text; invisible characters stand there as `\u{1b}`.
//!
//! Invisible are the control characters and Unicode's format characters, those that turn the direction of writing
//! among them: text may show in another order than a machine reads it (Boucher and Anderson, "Trojan Source", USENIX
//! Security 2023). A dialect without an escape for them refuses them; DOT alone takes format characters unchanged,
//! because a profile must come back from its file unchanged.

use std::fmt::Write as _;

/// True for a character that acts without being seen: controls (Unicode category Cc), format characters (Cf), line
/// and paragraph separators (Zl, Zp). After the Unicode Character Database, version 16; written out, so that the
/// answer does not change with the compiler.
fn invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

fn all_seen(text: &str) -> bool {
    !text.chars().any(invisible)
}

/// Letters, digits, `_`, `.` and `$`: what needs no quoting in any linker's language.
fn is_symbol_like(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

/// A quoted DOT id that reads back as `text`, byte for byte, in Graphviz and here; None for what DOT or a line of a file
/// cannot carry.
///
/// In a quoted id only `\"` and a backslash before the end of a line are escapes, and two backslashes stay two. So a text in
/// which an odd number of backslashes stands before `"` or at the end has no spelling; nor may it hold a control character.
#[must_use]
pub fn dot(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 2);
    let mut odd_backslashes = false;
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' if odd_backslashes => return None,
            '"' => quoted.push('\\'),
            _ if character.is_control() => return None,
            _ => {}
        }
        odd_backslashes = character == '\\' && !odd_backslashes;
        quoted.push(character);
    }
    quoted.push('"');
    (!odd_backslashes).then_some(quoted)
}

/// A quoted label of DOT that shows these lines.
///
/// In a label backslashes begin escapes such as `\n` and `\N` ("escString" in Graphviz' documentation), and `&` an entity of HTML.
#[must_use]
pub fn dot_label(lines: &[&str]) -> String {
    let escaped = lines
        .iter()
        .map(|line| shown(line, |_| None).replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;"));
    format!("\"{}\"", escaped.collect::<Vec<_>>().join("\\n"))
}

/// A section name as a pattern of a GNU ld linker script or section ordering file that matches this name alone.
///
/// Names are quoted unless they consist of letters, digits, `_`, `.` and `$`; a quoted name holds anything but `"` ("Symbol
/// Names" in the manual of GNU ld). Quoting does not switch off wildcards ("Input Section Wildcard Patterns"; matched by
/// `fnmatch`, where a backslash is an escape too), so `*`, `?`, `[` and `\` stand in brackets. Also right for lld's scripts.
#[must_use]
pub fn gnu_ld(text: &str) -> Option<String> {
    if text.is_empty() || text.contains('"') || !all_seen(text) {
        return None;
    }
    // Keywords such as KEEP and SORT are words without a dot: only what begins with one goes unquoted.
    if text.starts_with('.') && text.chars().all(is_symbol_like) {
        return Some(text.to_owned());
    }
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('"');
    for c in text.chars() {
        match c {
            '*' | '?' | '[' => {
                pattern.push('[');
                pattern.push(c);
                pattern.push(']');
            }
            // Twice, as within brackets it escapes the next character for fnmatch, and stands for itself in lld.
            '\\' => pattern.push_str("[\\\\]"),
            _ => pattern.push(c),
        }
    }
    pattern.push('"');
    Some(pattern)
}

/// The section name that a pattern made by [`gnu_ld`] matches, its quotes already taken off; None where the pattern is a
/// real wildcard.
#[must_use]
pub fn gnu_ld_literal(pattern: &str) -> Option<String> {
    unbracketed(pattern, &[("[*]", '*'), ("[?]", '?'), ("[[]", '['), ("[\\\\]", '\\')])
}

/// A wildcard pattern without the brackets around what is meant as it is; None where a wildcard is left.
fn unbracketed(pattern: &str, literals: &[(&str, char)]) -> Option<String> {
    let mut name = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some((bracket, literal)) = literals.iter().find(|(bracket, _)| rest.starts_with(bracket)) {
            name.push(*literal);
            rest = &rest[bracket.len()..];
        } else if matches!(c, '*' | '?' | '[') {
            return None;
        } else {
            name.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(name)
}

/// The path of an input file as a pattern of a GNU ld linker script that matches this file alone: always quoted, else as
/// [`gnu_ld`]. A colon would part an archive from its member.
#[must_use]
pub fn gnu_ld_file(path: &str) -> Option<String> {
    if path.contains(':') {
        return None;
    }
    let pattern = gnu_ld(path)?;
    Some(if pattern.starts_with('"') { pattern } else { format!("\"{pattern}\"") })
}

/// A member of an archive of this base name, in whatever folder, as a file pattern of a GNU ld linker script ("Input Section Basics"
/// in the manual of GNU ld: `archive:file`).
#[must_use]
pub fn gnu_ld_member(archive: &str, member: &str) -> Option<String> {
    let [archive, member] = [gnu_ld_file(archive)?, gnu_ld_file(member)?];
    Some(format!("\"*{}:{}\"", archive.trim_matches('"'), member.trim_matches('"')))
}

/// A section name as a line of gold's section ordering file that matches this name alone.
///
/// gold takes each line whole, blanks included, and as a wildcard pattern if it holds `*`, `?` or `[`, without backslash
/// escapes (binutils, gold/layout.cc): those three stand in brackets.
#[must_use]
pub fn gold(text: &str) -> Option<String> {
    if text.is_empty() || !all_seen(text) {
        return None;
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[') {
            line.push('[');
            line.push(c);
            line.push(']');
        } else {
            line.push(c);
        }
    }
    Some(line)
}

/// The section name that a line made by [`gold`] matches; None where the line is a real wildcard.
#[must_use]
pub fn gold_literal(line: &str) -> Option<String> {
    unbracketed(line, &[("[*]", '*'), ("[?]", '?'), ("[[]", '[')])
}

/// A symbol as a line of lld's symbol ordering file.
///
/// lld trims each line, and drops those that are empty or begin with `#` (LLVM, lld/Common/Args.cpp); there is no escape.
#[must_use]
pub fn lld(text: &str) -> Option<String> {
    let kept = !text.is_empty() && text.trim() == text && !text.starts_with('#') && all_seen(text);
    kept.then(|| text.to_owned())
}

/// A word of the POSIX shell, quoted where it needs to be.
///
/// Within single quotes every character but `'` stands for itself (POSIX.1-2017, XCU 2.2.2). A word that begins with `-`
/// is still an option to the program that gets it.
#[must_use]
pub fn shell(text: &str) -> Option<String> {
    if !all_seen(text) {
        return None;
    }
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '+' | ',' | ':' | '@');
    if !text.is_empty() && text.chars().all(plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Text within a line of an RPM spec, or in the body of one of its macros.
///
/// `%` starts a macro, and how many `%%` would undo it depends on how often the text is expanded: a `%global` expands once
/// when it is read and again where it is used. Macro bodies end at an unbalanced brace, lose their outer blanks, and take
/// `\` as an escape (RPM, "Macro syntax"). All of these are refused. What a shell would make of the text is
/// [`shell`]'s concern.
#[must_use]
pub fn rpm(text: &str) -> Option<String> {
    let refused = text.is_empty()
        || text.trim() != text
        || text.contains(['%', '\\', '{', '}'])
        || text.starts_with('#')
        || !all_seen(text);
    (!refused).then(|| text.to_owned())
}

/// The value of a GNU make variable, on the right of `:=`.
///
/// `$` is doubled, `#` gets a backslash, leading blanks would be lost ("Setting Variables" and "What Makefiles Look Like"
/// in the manual of GNU make). A backslash before `#` or at the end would join with what follows. A blank still separates
/// words where make takes the value for a list.
#[must_use]
pub fn make(text: &str) -> Option<String> {
    let refused = text.is_empty()
        || text.starts_with(' ')
        || text.ends_with('\\')
        || text.contains("\\#")
        || !all_seen(text);
    (!refused).then(|| text.replace('$', "$$").replace('#', "\\#"))
}

/// A basic string of TOML 1.0, quotes included. Every text can be expressed.
#[must_use]
pub fn toml(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            _ if invisible(c) && u32::from(c) <= 0xffff => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            _ if invisible(c) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Text of an HTML element, or of an attribute's value in quotes of either sort.
///
/// Follows "Cross Site Scripting Prevention", rule 1 and 2, of the OWASP cheat sheets: `&`, `<`, `>`, `"` and `'` become
/// character references.
#[must_use]
pub fn html(text: &str) -> String {
    shown(text, |c| match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    })
}

/// Text of an SVG element, or of an attribute's value.
///
/// As [`html`]; of what XML 1.0 excludes (section 2.2) U+FFFE and U+FFFF remain, which become U+FFFD.
#[must_use]
pub fn svg(text: &str) -> String {
    html(&text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
}

/// Text that a Markdown paragraph, heading, list item or table cell begins with or consists of.
///
/// A punctuation mark that would be mark-up gets a backslash (CommonMark 0.31, section 2.4; tables, autolinks and
/// strikethrough of GitHub Flavored Markdown, sections 4.10, 6.9 and 6.5). Other marks stay, so that the text can be
/// read without rendering.
#[must_use]
pub fn markdown(text: &str) -> String {
    let seen = shown(text, |_| None);
    let mut escaped = String::with_capacity(seen.len() + 8);
    for (at, c) in seen.char_indices() {
        let (before, after) = (&seen[..at], &seen[at + c.len_utf8()..]);
        if c == ' ' && (before.is_empty() || after.is_empty()) {
            escaped.push_str("&#32;");
            continue;
        }
        let in_word = before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
        let is_number = || !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit());
        let is_markup = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&' | '~' | '$' | '@' | '#' | '{' | '}'
            | '^' => true,
            '_' => !in_word,
            // An item, a line, the heading above.
            '-' | '+' => before.is_empty() && (after.is_empty() || after.starts_with([' ', c])),
            '=' => before.is_empty(),
            ':' => before.is_empty() || after.starts_with('/'),
            // A numbered item; the beginning of an address.
            ')' => is_number() && (after.is_empty() || after.starts_with(' ')),
            '.' if is_number() => after.is_empty() || after.starts_with(' '),
            '.' => before.len() >= 3 && before.as_bytes()[at - 3..].eq_ignore_ascii_case(b"www"),
            _ => false,
        };
        if is_markup {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A field of a comma-separated table.
///
/// Quoted after RFC 4180. A field that a spreadsheet would take for a formula gets an apostrophe in front ("CSV Injection",
/// OWASP): it is shown as text, and the apostrophe stays where another program reads the table.
#[must_use]
pub fn csv(text: &str) -> String {
    let mut field = shown(text, |_| None);
    if field.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        field.insert(0, '\'');
    }
    if field.chars().all(is_symbol_like) {
        return field;
    }
    format!("\"{}\"", field.replace('"', "\"\""))
}

/// Text for a terminal: nothing in it moves the cursor, changes a colour or turns the direction of writing.
///
/// Control sequences begin with a character of the C0 or C1 set (ECMA-48, section 5); line ends are among them, so the text
/// stays on its line.
#[must_use]
pub fn terminal(text: &str) -> String {
    shown(text, |_| None)
}

/// JSON with every character beyond printable ASCII, which only strings can hold, as `\\uXXXX`: no name in it can speak to a
/// terminal.
#[must_use]
pub fn json(value: &serde_json::Value) -> String {
    ascii(&format!("{value:#}\n"))
}

/// The same for JSON that is written already.
pub(crate) fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii_graphic() || matches!(c, ' ' | '\n') {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// The longest name that [`file_name`] gives, in bytes: room for an ending below the 255 of Linux file systems.
const LONGEST_FILE_NAME: usize = 200;

/// A label as the name of a file in a folder that is already chosen; None where it could be anything but a plain name there.
///
/// Only letters, digits, `_`, `.`, `+` and `-` pass, neither `.` nor `-` leads, and no two dots stand together: a name that
/// means the same to the kernel, the shell, make, RPM and the `-Wl,` of a compiler.
#[must_use]
pub fn file_name(label: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
    let kept = !label.is_empty()
        && label.len() <= LONGEST_FILE_NAME
        && label.chars().all(plain)
        && !label.starts_with(['.', '-'])
        && !label.contains("..");
    kept.then(|| label.to_owned())
}

/// The text with invisible characters shown as `\u{hex}`, and others replaced as `reference` says.
fn shown(text: &str, reference: impl Fn(char) -> Option<&'static str>) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if let Some(written) = reference(c) {
            safe.push_str(written);
        } else if invisible(c) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn json_is_ascii_and_reads_back() {
        let value = serde_json::json!({ "name": "f\u{200b}\u{202e}é\u{1f980}\u{7f}\u{1b}\"\\" });
        let text = json(&value);
        assert!(text.is_ascii(), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
