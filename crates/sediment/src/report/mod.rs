// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of finished values for people and programs: text in, text out, every name through [`crate::escape`].

pub mod call_graph;
pub mod layout;
pub mod page;

/// JSON with every character beyond printable ASCII, which only strings can hold, as `\\uXXXX`: no name in it can speak to a
/// terminal.
#[must_use]
pub fn ascii_json(value: &serde_json::Value) -> String {
    ascii(&format!("{value:#}\n"))
}

fn ascii(json: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::ascii_json;

    #[test]
    fn json_is_ascii_and_reads_back() {
        let value = serde_json::json!({ "name": "f\u{200b}\u{202e}é\u{1f980}\u{7f}\u{1b}\"\\" });
        let text = ascii_json(&value);
        assert!(text.is_ascii(), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
