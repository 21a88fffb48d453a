// SPDX-License-Identifier: MIT OR Apache-2.0
//! Escapes untrusted names for every language that sediment writes, with one function per dialect.
//!
//! Dialects for machines ([`dot`], [`gnu_ld`], [`gold`], [`lld`], [`shell`], [`rpm`], [`make`], [`toml`](fn@toml)) are
//! exact: the reader gets exactly the same text, or the function returns `None` and the caller skips and counts the
//! name. Dialects for people ([`html`], [`svg`], [`markdown`], [`csv`], [`terminal`]) can show any text; they show
//! invisible characters as `\u{1b}`.
//!
//! Invisible characters are control characters and Unicode's format characters. The latter include characters that
//! change the direction of writing, so that text may be shown in another order than a machine reads it (Boucher and
//! Anderson, "Trojan Source", USENIX Security 2023). A dialect without an escape for invisible characters refuses them.
//! Only DOT keeps format characters, because a profile must be read from its file unchanged.

use std::fmt::Write as _;

/// True for a character that has an effect but no glyph: controls (Unicode category Cc), format characters (Cf), line
/// and paragraph separators (Zl, Zp). From the Unicode Character Database, version 16; listed here, so that the answer
/// does not depend on the compiler.
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

/// True for characters that need no quoting in any linker's language: letters, digits, `_`, `.` and `$`.
fn is_symbol_like(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

/// Returns a quoted DOT id that Graphviz and sediment read as exactly `text`; `None` if DOT or a line of a file cannot
/// hold the text.
///
/// In a quoted id only `\"` and a backslash before the end of a line are escapes; two backslashes remain two. Therefore
/// a text with an odd number of backslashes before `"` or at its end cannot be written, nor can a text with a control
/// character.
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

/// Returns a quoted DOT label that shows these lines.
///
/// In a label, a backslash begins an escape such as `\n` or `\N` ("escString" in Graphviz' documentation), and `&`
/// begins an HTML entity.
#[must_use]
pub fn dot_label(lines: &[&str]) -> String {
    let escaped = lines
        .iter()
        .map(|line| shown(line, |_| None).replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;"));
    format!("\"{}\"", escaped.collect::<Vec<_>>().join("\\n"))
}

/// Returns a pattern for a GNU ld linker script or section ordering file that matches only this section name.
///
/// Names are quoted unless they consist of letters, digits, `_`, `.` and `$`; a quoted name holds anything but `"` ("Symbol
/// Names" in the manual of GNU ld). Quoting does not switch off wildcards ("Input Section Wildcard Patterns"; matched by
/// `fnmatch`, where a backslash is an escape too), so `*`, `?`, `[` and `\` stand in brackets. Also right for lld's scripts.
#[must_use]
pub fn gnu_ld(text: &str) -> Option<String> {
    if text.is_empty() || text.contains('"') || !all_seen(text) {
        return None;
    }
    // Keywords such as KEEP and SORT have no dot: only names that begin with a dot are written without quotes.
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
            // Twice, because within brackets it escapes the next character in fnmatch, and is a plain character in lld.
            '\\' => pattern.push_str("[\\\\]"),
            _ => pattern.push(c),
        }
    }
    pattern.push('"');
    Some(pattern)
}

/// Returns the section name that a pattern made by [`gnu_ld`] matches, its quotes already removed; `None` if the
/// pattern is a real wildcard.
#[must_use]
pub fn gnu_ld_literal(pattern: &str) -> Option<String> {
    unbracketed(pattern, &[("[*]", '*'), ("[?]", '?'), ("[[]", '['), ("[\\\\]", '\\')])
}

/// Returns a wildcard pattern without the brackets around literal characters; `None` if a wildcard remains.
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

/// Returns a pattern for a GNU ld linker script that matches only this input file's path: always quoted, otherwise as
/// [`gnu_ld`]. A colon would separate an archive from its member.
#[must_use]
pub fn gnu_ld_file(path: &str) -> Option<String> {
    if path.contains(':') {
        return None;
    }
    let pattern = gnu_ld(path)?;
    Some(if pattern.starts_with('"') { pattern } else { format!("\"{pattern}\"") })
}

/// Returns a file pattern of a GNU ld linker script for a member of an archive with this base name in any folder
/// ("Input Section Basics" in the manual of GNU ld: `archive:file`).
#[must_use]
pub fn gnu_ld_member(archive: &str, member: &str) -> Option<String> {
    let [archive, member] = [gnu_ld_file(archive)?, gnu_ld_file(member)?];
    Some(format!("\"*{}:{}\"", archive.trim_matches('"'), member.trim_matches('"')))
}

/// Returns a line for gold's section ordering file that matches only this section name.
///
/// gold uses each line as a whole, including blanks, and as a wildcard pattern without backslash escapes if it contains
/// `*`, `?` or `[` (binutils, gold/layout.cc). Therefore these three are put in brackets.
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

/// Returns the section name that a line made by [`gold`] matches; `None` if the line is a real wildcard.
#[must_use]
pub fn gold_literal(line: &str) -> Option<String> {
    unbracketed(line, &[("[*]", '*'), ("[?]", '?'), ("[[]", '[')])
}

/// Returns a line for lld's symbol ordering file.
///
/// lld trims each line and ignores lines that are empty or begin with `#` (LLVM, lld/Common/Args.cpp); there is no
/// escape.
#[must_use]
pub fn lld(text: &str) -> Option<String> {
    let kept = !text.is_empty() && text.trim() == text && !text.starts_with('#') && all_seen(text);
    kept.then(|| text.to_owned())
}

/// Returns a word for a POSIX shell, quoted if necessary.
///
/// Within single quotes every character except `'` is literal (POSIX.1-2017, XCU 2.2.2). A word that begins with `-` is
/// still an option for the program that receives it.
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

/// Returns text for a line of an RPM spec, or for the body of one of its macros.
///
/// `%` starts a macro, and the number of `%%` that would escape it depends on how often the text is expanded: a
/// `%global` is expanded once when it is read and again when it is used. Macro bodies end at an unbalanced brace, lose
/// their outer blanks, and use `\` as an escape (RPM, "Macro syntax"). Texts with any of these are refused. Quoting for
/// the shell is left to [`shell`].
#[must_use]
pub fn rpm(text: &str) -> Option<String> {
    let refused = text.is_empty()
        || text.trim() != text
        || text.contains(['%', '\\', '{', '}'])
        || text.starts_with('#')
        || !all_seen(text);
    (!refused).then(|| text.to_owned())
}

/// Returns the value of a GNU make variable, for the right side of `:=`.
///
/// `$` is doubled and `#` gets a backslash ("Setting Variables" and "What Makefiles Look Like" in the manual of GNU
/// make). Leading blanks are refused, because they would be lost. A backslash before `#` or at the end is refused,
/// because it would apply to the next character. A blank still separates words if make uses the value as a list.
#[must_use]
pub fn make(text: &str) -> Option<String> {
    let refused = text.is_empty()
        || text.starts_with(' ')
        || text.ends_with('\\')
        || text.contains("\\#")
        || !all_seen(text);
    (!refused).then(|| text.replace('$', "$$").replace('#', "\\#"))
}

/// Returns a basic string of TOML 1.0, including its quotes. Every text can be written.
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

/// Returns text for an HTML element, or for an attribute's value in quotes of either kind.
///
/// Follows rules 1 and 2 of OWASP's cheat sheet "Cross Site Scripting Prevention": `&`, `<`, `>`, `"` and `'` become
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

/// Returns text for an SVG element, or for an attribute's value.
///
/// As [`html`], but U+FFFE and U+FFFF, which XML 1.0 also excludes (section 2.2), become U+FFFD.
#[must_use]
pub fn svg(text: &str) -> String {
    html(&text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
}

/// Returns text for the beginning or the whole of a Markdown paragraph, heading, list item or table cell.
///
/// A punctuation character that would be mark-up gets a backslash (CommonMark 0.31, section 2.4; tables, autolinks and
/// strikethrough of GitHub Flavored Markdown, sections 4.10, 6.9 and 6.5). Other characters stay, so that the text can
/// be read without rendering.
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
            // A list item, a line, the heading of the line above.
            '-' | '+' => before.is_empty() && (after.is_empty() || after.starts_with([' ', c])),
            '=' => before.is_empty(),
            ':' => before.is_empty() || after.starts_with('/'),
            // A numbered item, or the beginning of a link.
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

/// Returns a field of a comma-separated table.
///
/// Quoted as in RFC 4180. A field that a spreadsheet would read as a formula gets an apostrophe in front ("CSV
/// Injection", OWASP), so that it is shown as text. Other programs that read the table see the apostrophe.
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

/// Returns text for a terminal that cannot move the cursor, change a colour or change the direction of writing.
///
/// Control sequences begin with a character of the C0 or C1 set (ECMA-48, section 5). These sets include line ends, so
/// the text stays on its line.
#[must_use]
pub fn terminal(text: &str) -> String {
    shown(text, |_| None)
}

/// Returns JSON with every non-ASCII or control character, which can occur only in strings, as `\\uXXXX`: no name in it
/// can control a terminal.
#[must_use]
pub fn json(value: &serde_json::Value) -> String {
    ascii(&format!("{value:#}\n"))
}

/// As [`json`], for JSON text.
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

/// Longest name that [`file_name`] returns, in bytes: leaves room for an extension below the 255 of Linux file systems.
const LONGEST_FILE_NAME: usize = 200;

/// Returns a label as the name of a file in a given folder; `None` if it could be anything but a plain name there.
///
/// Only letters, digits, `_`, `.`, `+` and `-` are allowed; the name must not begin with `.` or `-`, and must not
/// contain two consecutive dots. Such a name means the same to the kernel, the shell, make, RPM and a compiler's
/// `-Wl,`.
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

/// Shows invisible characters as `\u{hex}`, and replaces others by `reference`.
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
