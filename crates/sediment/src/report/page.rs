// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of a self-contained HTML file: no script, no network. Elements and tables are templates of maud, which escapes by
//! type; drawings are SVG by hand.

use crate::escape;
use maud::{DOCTYPE, PreEscaped, Render, html};

/// Any text, such as a stranger's name: escaped by [`escape::html`] wherever a template shows it.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a str);

impl Render for Text<'_> {
    fn render_to(&self, page: &mut String) {
        page.push_str(&escape::html(self.0));
    }
}

/// A whole page. The title is any text; style and body are ready to stand in the file.
#[must_use]
pub fn page(title: &str, style: &str, body: &str) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" { "\n"
            head { "\n"
                meta charset="utf-8"; "\n"
                meta name="viewport" content="width=device-width, initial-scale=1"; "\n"
                meta http-equiv="Content-Security-Policy" content=(policy); "\n"
                title { (Text(title)) } "\n"
                style { "\n" (PreEscaped(style)) } "\n"
            } "\n"
            body { "\n" (PreEscaped(body)) } "\n"
        } "\n"
    };
    page.into_string()
}
