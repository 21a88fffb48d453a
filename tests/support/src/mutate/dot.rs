// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles, in DOT: statements and their attributes change; brackets and quotes stay in pairs.

use super::{blur, number, one_of, rearrange};
use sediment_core::random::Generator;

const ATTRIBUTES: [&str; 26] = [
    "label=\"0.5\"",
    "label=0.000000000000001",
    "label=l",
    "name=f",
    "dso=\"a.so\"",
    "dso=\"/x/b.so\"",
    "file=\"a.c\"",
    "size=16",
    "samples=3",
    "first=0",
    "static=0.25",
    "heat=hot",
    "heat=cold",
    "alias=g",
    "taken=1",
    "entry=0",
    "count=7",
    "near=9",
    "kind=indirect",
    "kind=uncertain",
    "build_id=ab01",
    "package=\"p 1\"",
    "color=red",
    "key=k",
    "label=<a<b>&amp;c>",
    "label=\"7×\"",
];
const STATEMENTS: [&str; 14] = [
    "a",
    "a -> b",
    "a -> b -> c",
    "\"f@plt\" -> g",
    "{ a b } -> { c }",
    "subgraph cluster1 { label=l; a }",
    "subgraph s { a -> b }",
    "graph [sediment=2,total=9,unit=share,source=\"perf, x\",arch=\"x86_64\",inputs=2]",
    "total = 99",
    "node [size=1]",
    "edge [count=1]",
    "// words\n",
    "/* words */",
    "a:n -> b:s",
];

pub fn mutate(bytes: &[u8], numbers: &mut Generator) -> Option<Vec<u8>> {
    let mut tokens = tokens(bytes)?;
    match numbers.below(10) {
        0 | 1 => {
            // Statements: what stands between two ends of statements on one level.
            let mut statements = statements(&tokens);
            let last = statements.len().checked_sub(1)?;
            let (first, mut inner) = (statements[0].clone(), statements.drain(1..last.max(1)).collect());
            rearrange(&mut inner, numbers);
            let closing = if last > 0 { statements.pop()? } else { Vec::new() };
            tokens = [vec![first], inner, vec![closing]].concat().concat();
        }
        2 | 3 => {
            let statement = *one_of(&STATEMENTS, numbers)?;
            insert(&mut tokens, statement.into(), |token| matches!(token, b"{" | b";"), numbers)?;
        }
        4 | 5 => {
            let attribute = *one_of(&ATTRIBUTES, numbers)?;
            insert(&mut tokens, format!(" {attribute},").into(), |token| token == b"[", numbers)
                .or_else(|| insert(&mut tokens, format!(" [{attribute}];").into(), is_word, numbers))?;
        }
        6 => {
            let words: Vec<usize> = (0..tokens.len()).filter(|at| is_word(&tokens[*at])).collect();
            let (one, other) = (*one_of(&words, numbers)?, *one_of(&words, numbers)?);
            tokens[one] = tokens[other].clone();
        }
        7 => {
            // Other graphs: strict ones, and those of another kind.
            let word = *one_of(&["digraph", "strict digraph", "DiGraph", "graph"], numbers)?;
            *tokens.iter_mut().find(|token| token.eq_ignore_ascii_case(b"digraph"))? = word.into();
        }
        _ => {
            let words: Vec<usize> = (0..tokens.len()).filter(|at| is_word(&tokens[*at])).collect();
            let token = &mut tokens[*one_of(&words, numbers)?];
            change(token, numbers);
        }
    }
    Some(tokens.concat())
}

fn is_word(token: &[u8]) -> bool {
    token
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'_') || *byte >= 0x80)
}

fn insert(
    tokens: &mut Vec<Vec<u8>>,
    new: Vec<u8>,
    behind: impl Fn(&[u8]) -> bool,
    numbers: &mut Generator,
) -> Option<()> {
    let places: Vec<usize> = (0..tokens.len()).filter(|at| behind(&tokens[*at])).collect();
    let at = *one_of(&places, numbers)?;
    tokens.insert(at + 1, [b" ", &new[..], b" "].concat());
    Some(())
}

/// Another number, or another text between the same quotes.
fn change(token: &mut Vec<u8>, numbers: &mut Generator) {
    let quoted = token.len() >= 2 && token.starts_with(b"\"");
    let inner = if quoted { token[1..token.len() - 1].to_vec() } else { token.clone() };
    let old = std::str::from_utf8(&inner).ok().and_then(|text| text.parse::<u64>().ok());
    let mut inner = match old {
        Some(old) => number(old, numbers).to_string().into_bytes(),
        None => {
            let mut inner = inner;
            blur(&mut inner, numbers);
            inner
        }
    };
    if quoted {
        inner.retain(|byte| *byte != b'"');
        if inner.ends_with(b"\\") {
            inner.push(b'\\');
        }
        inner = [b"\"", &inner[..], b"\""].concat();
    }
    *token = inner;
}

/// Words, texts in quotes, marks, and what is between them.
fn tokens(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut tokens = Vec::new();
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || *byte >= 0x80;
        let length = match first {
            b'"' => {
                let mut end = 1;
                while *rest.get(end)? != b'"' {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'-' if rest.starts_with(b"->") => 2,
            _ if word(&first) => rest.iter().take_while(|byte| word(byte)).count(),
            _ if first.is_ascii_whitespace() => {
                rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
            }
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token.to_vec());
        rest = after;
    }
    Some(tokens)
}

/// The head with the opening brace, the statements of the outermost level with their ends, and the closing brace.
fn statements(tokens: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut statements = vec![Vec::new()];
    let mut depth = 0;
    for token in tokens {
        match token.as_slice() {
            b"{" => depth += 1,
            b"}" => depth -= 1,
            _ => {}
        }
        if token == b"}" && depth == 0 {
            statements.push(Vec::new());
        }
        if let Some(last) = statements.last_mut() {
            last.push(token.clone());
        }
        let ends = matches!(token.as_slice(), b";" | b"}") || (token == b"{" && statements.len() == 1);
        if depth == 1 && ends {
            statements.push(Vec::new());
        }
    }
    statements
}
