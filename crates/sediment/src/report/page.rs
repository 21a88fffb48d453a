// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of an HTML file that needs nothing else: no script, no network.

use crate::escape;

/// A whole page. The title is any text, style and body are ready to stand in the file.
#[must_use]
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape::html(title)
    )
}
