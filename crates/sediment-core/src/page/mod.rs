// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame of a self-contained HTML file. It uses no network and no script except our own, which a policy in the file
//! allows by its hash. Elements and tables are templates of maud, which escapes by type; drawings are hand-written SVG.

use crate::escape;
use maud::{DOCTYPE, PreEscaped, Render, html};
use sha2::{Digest, Sha256};

/// Colours for light and dark mode, as custom properties.
pub const PALETTE: &str = include_str!("palette.css");
/// Typography and tables of all pages.
const HOUSE: &str = include_str!("house.css");

/// Untrusted text: [`escape::html`] escapes it wherever a template shows it.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a str);

impl Render for Text<'_> {
    fn render_to(&self, page: &mut String) {
        page.push_str(&escape::html(self.0));
    }
}

/// A whole page.
#[derive(Debug, Clone, Copy)]
pub struct HtmlPage<'a> {
    /// Title, not escaped yet.
    pub title: &'a str,
    /// CSS rules after the common ones.
    pub style: &'a str,
    /// The only script of the page; empty for none.
    pub script: &'a str,
    /// HTML.
    pub body: &'a str,
}

impl HtmlPage<'_> {
    /// Returns the text of the file.
    #[must_use]
    pub fn html(&self) -> String {
        let style = format!("\n{PALETTE}{HOUSE}{}\n", self.style);
        let script = format!("\n{}", self.script);
        let script_source = if self.script.is_empty() { "'none'".to_owned() } else { source(&script) };
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {script_source}; base-uri 'none'; form-action 'none'",
            source(&style)
        );
        let page = html! {
            (DOCTYPE) "\n"
            html lang="en" { "\n"
                head { "\n"
                    meta charset="utf-8"; "\n"
                    meta name="viewport" content="width=device-width, initial-scale=1"; "\n"
                    meta http-equiv="Content-Security-Policy" content=(policy); "\n"
                    meta name="color-scheme" content="light dark"; "\n"
                    title { (Text(self.title)) } "\n"
                    style { (PreEscaped(&style)) } "\n"
                } "\n"
                body { "\n" (PreEscaped(self.body)) "\n"
                    @if !self.script.is_empty() {
                        script { (PreEscaped(&script)) } "\n"
                    }
                } "\n"
            } "\n"
        };
        page.into_string()
    }
}

/// Returns data for the script of a page as an inert element: JSON in ASCII without `<`, so that no text in it can end
/// the element.
#[must_use]
pub fn data(class: &str, value: &serde_json::Value) -> String {
    let json = escape::ascii(&value.to_string()).replace('<', "\\u003c");
    format!("<script type=\"application/json\" class=\"{class}\">{json}</script>\n")
}

/// Returns a hash in the form of the policy (Content Security Policy Level 3, section 2.3.1): SHA-256 in base64.
fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// Base64 of RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for digit in 0..4 {
            if digit <= three.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64, data, source};

    #[test]
    fn hashes_are_those_of_browsers() {
        // From RFC 4648, section 10, and the example of Content Security Policy Level 3.
        assert_eq!(
            ["f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        assert_eq!(
            source("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        );
    }

    #[test]
    fn data_cannot_end_its_element() {
        let value = serde_json::json!({ "n": ["</script><script>", "<!--", "\u{202e}"] });
        let text = data("d", &value);
        assert_eq!(text.matches('<').count(), 2, "{text}");
        let json = text.split_once('>').unwrap().1.rsplit_once('<').unwrap().0;
        assert_eq!(serde_json::from_str::<serde_json::Value>(json).unwrap(), value);
    }
}
