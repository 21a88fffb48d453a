// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits bytes into DOT tokens: ids of every form, punctuation and keywords. Skips blanks and comments.

use super::error_at;
use crate::error::{Error, Result};
use memchr::memmem;
use std::borrow::Cow;

/// A word that is an id only in quotes, in upper or lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Strict,
    Graph,
    Digraph,
    Subgraph,
    Node,
    Edge,
}

/// An id, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// True if it was between `<` and `>`.
    pub(super) html: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DotToken<'a> {
    /// One of `{ } [ ] = ; , :`.
    Mark(u8),
    /// `->`.
    Arrow,
    Keyword(Keyword),
    Id(Id<'a>),
    /// The end of the input.
    End,
}

pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const KEYWORDS: [(&str, Keyword); 6] = [
    ("strict", Keyword::Strict),
    ("graph", Keyword::Graph),
    ("digraph", Keyword::Digraph),
    ("subgraph", Keyword::Subgraph),
    ("node", Keyword::Node),
    ("edge", Keyword::Edge),
];

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 } }
    }

    /// Continues at an offset after a complete statement.
    pub(super) fn go_to(&mut self, offset: usize) {
        self.at = offset;
    }

    /// Returns the next token and the offset of its first byte.
    pub(super) fn next(&mut self) -> Result<(usize, DotToken<'a>)> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.peek(0) else { return Ok((start, DotToken::End)) };
        let token = match first {
            b'{' | b'}' | b'[' | b']' | b'=' | b';' | b',' | b':' => {
                self.at += 1;
                DotToken::Mark(first)
            }
            b'"' => DotToken::Id(Id { text: self.quoted()?, html: false }),
            b'<' => DotToken::Id(Id { text: Cow::Borrowed(self.html()?), html: true }),
            b'-' if self.peek(1) == Some(b'>') => {
                self.at += 2;
                DotToken::Arrow
            }
            b'-' if self.peek(1) == Some(b'-') => {
                return Err(undirected(self.error(start, "an undirected edge in a call graph")));
            }
            b'-' | b'.' | b'0'..=b'9' => {
                DotToken::Id(Id { text: Cow::Borrowed(self.number()?), html: false })
            }
            _ if is_letter(first) => self.word(),
            _ => return Err(self.error(start, "a byte that is not part of the DOT language")),
        };
        Ok((start, token))
    }

    /// Makes an error at the line of `offset`.
    pub(super) fn error(&self, offset: usize, message: impl Into<String>) -> Error {
        error_at(self.bytes, offset, message)
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn skip_blanks(&mut self) -> Result<()> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                // Output of a preprocessor has such lines; Graphviz skips them wherever they begin.
                b'#' => self.skip_line(),
                b'/' if self.peek(1) == Some(b'/') => self.skip_line(),
                b'/' if self.peek(1) == Some(b'*') => {
                    let start = self.at;
                    self.at += 2;
                    match memmem::find(self.rest(), b"*/") {
                        Some(length) => self.at += length + 2,
                        None => return Err(self.error(start, "unterminated comment")),
                    }
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_line(&mut self) {
        self.at += memchr::memchr(b'\n', self.rest()).unwrap_or(self.rest().len());
    }

    /// Reads quoted pieces joined by `+`.
    fn quoted(&mut self) -> Result<Cow<'a, [u8]>> {
        let mut text = self.quoted_piece()?;
        loop {
            self.skip_blanks()?;
            if self.peek(0) != Some(b'+') {
                return Ok(text);
            }
            self.at += 1;
            self.skip_blanks()?;
            if self.peek(0) != Some(b'"') {
                return Err(self.error(self.at, "expected a quoted text after `+`"));
            }
            let more = self.quoted_piece()?;
            text.to_mut().extend_from_slice(&more);
        }
    }

    /// Reads one quoted text. `\"` is a quote, and a backslash before the end of a line joins the lines. Every other
    /// backslash is literal, and two remain two.
    fn quoted_piece(&mut self) -> Result<Cow<'a, [u8]>> {
        let opening = self.at;
        self.at += 1;
        let mut text: Cow<'a, [u8]> = Cow::Borrowed(&[]);
        let mut from = self.at;
        loop {
            let Some(length) = memchr::memchr2(b'"', b'\\', self.rest()) else {
                return Err(self
                    .error(opening, "unterminated quoted text")
                    .with_hint("is the file cut off?"));
            };
            self.at += length;
            let (dropped, passed) = match (self.peek(0), self.peek(1), self.peek(2)) {
                (Some(b'"'), _, _) => {
                    push(&mut text, &self.bytes[from..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                (_, Some(b'"'), _) => (1, 2),
                (_, Some(b'\n'), _) => (2, 2),
                (_, Some(b'\r'), Some(b'\n')) => (3, 3),
                (_, Some(b'\\'), _) => (0, 2),
                _ => (0, 1),
            };
            if dropped > 0 {
                push(&mut text, &self.bytes[from..self.at]);
                from = self.at + dropped;
            }
            self.at += passed;
        }
    }

    /// Reads an HTML string up to the `>` that closes its `<`.
    fn html(&mut self) -> Result<&'a [u8]> {
        let opening = self.at;
        self.at += 1;
        let start = self.at;
        let mut depth = 1usize;
        for position in memchr::memchr2_iter(b'<', b'>', &self.bytes[start..]) {
            if self.bytes[start + position] == b'<' {
                depth += 1;
            } else {
                depth -= 1;
            }
            if depth == 0 {
                self.at = start + position + 1;
                return Ok(&self.bytes[start..start + position]);
            }
        }
        Err(self.error(opening, "an HTML text with unbalanced `<` and `>`"))
    }

    /// Reads `-`, digits, and at most one point.
    fn number(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        self.at += usize::from(self.peek(0) == Some(b'-'));
        let whole = self.skip_digits();
        let mut fraction = 0;
        if self.peek(0) == Some(b'.') {
            self.at += 1;
            fraction = self.skip_digits();
        }
        if whole + fraction == 0 {
            return Err(self.error(start, "expected a number"));
        }
        Ok(&self.bytes[start..self.at])
    }

    fn skip_digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn word(&mut self) -> DotToken<'a> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| is_letter(**byte) || byte.is_ascii_digit()).count();
        self.at += length;
        let word = &rest[..length];
        keyword(word).map_or(DotToken::Id(Id { text: Cow::Borrowed(word), html: false }), DotToken::Keyword)
    }
}

fn keyword(word: &[u8]) -> Option<Keyword> {
    // Most words are attributes, which differ in length or letters.
    if !(4..=8).contains(&word.len()) {
        return None;
    }
    let is_word = |(spelling, _): &&(&str, Keyword)| word.eq_ignore_ascii_case(spelling.as_bytes());
    KEYWORDS.iter().find(is_word).map(|(_, keyword)| *keyword)
}

/// True for a word that is an id only in quotes.
pub(super) fn is_keyword(word: &[u8]) -> bool {
    keyword(word).is_some()
}

/// Adds the hint for errors that an undirected graph causes.
pub(super) fn undirected(error: Error) -> Error {
    error.with_hint("a profile is a `digraph` with edges `->`: the caller must be known")
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Appends; does not copy if the text is empty.
fn push<'a>(text: &mut Cow<'a, [u8]>, piece: &'a [u8]) {
    if text.is_empty() {
        *text = Cow::Borrowed(piece);
    } else if !piece.is_empty() {
        text.to_mut().extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut found = Vec::new();
        loop {
            match lexer.next().unwrap().1 {
                DotToken::Id(id) => found.push(String::from_utf8(id.text.into_owned()).unwrap()),
                DotToken::End => return found,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn bare_words_and_numbers_end_where_graphviz_ends_them() {
        assert_eq!(
            ids("a1.5 1e5 1.2.3 -.5 -3 4. été_x"),
            ["a1", ".5", "1", "e5", "1.2", ".3", "-.5", "-3", "4.", "été_x"]
        );
    }

    #[test]
    fn only_a_quote_and_the_end_of_a_line_can_be_escaped() {
        assert_eq!(
            ids(r#""a\"b" "x\q" "two\\" "b\\\"c" "\"" "#),
            ["a\"b", r"x\q", r"two\\", r#"b\\"c"#, "\""]
        );
        assert_eq!(ids("\"one\\\ntwo\" \"one\\\r\ntwo\" \"\\\n\""), ["onetwo", "onetwo", ""]);
    }

    #[test]
    fn quoted_pieces_are_joined() {
        assert_eq!(ids("\"a\" + \"b\" /* c */ +\n# d\n\"c\" \"d\""), ["abc", "d"]);
    }

    #[test]
    fn html_nests() {
        assert_eq!(ids("<a<b>c<d<e>>> <> f"), ["a<b>c<d<e>>", "", "f"]);
    }

    #[test]
    fn comments_and_a_byte_order_mark_are_skipped() {
        assert_eq!(ids("\u{feff}# line\n a // b\n /* c \n */ d # e"), ["a", "d"]);
    }

    #[test]
    fn unterminated_parts_name_the_line_of_their_start() {
        for text in [
            "\n\"a\nb",
            "\n<a\n<b>",
            "\n/* a\n",
            "\n\"a\" + b",
            "\n\0",
            "\n-",
            "\n-x",
            "\n/",
            "\n+",
            "\na--b",
        ] {
            let mut lexer = Lexer::new(text.as_bytes());
            let error = loop {
                match lexer.next() {
                    Ok((_, DotToken::End)) => panic!("{text:?} was read"),
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().starts_with("line 2: "), "{text:?}: {error}");
        }
    }
}
