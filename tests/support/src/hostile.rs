// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that try to change the meaning of what they are written into, and the dialects that must not let them.

use sediment_core::escape;

/// Hostile names, each with its target.
pub fn names() -> Vec<(&'static str, String)> {
    let mut names: Vec<(&'static str, String)> = [
        ("nothing: the plain case", "AllocSetAlloc"),
        ("nothing: a clone's name", "heap_getattr.lto_priv.0"),
        ("nothing: a mangled name with $", "_ZN4core3ptr$u20$drop17h0123456789abcdefE"),
        ("nothing: another script than ASCII", "größe_計算"),
        ("the pattern's parenthesis", "a) *(.evil"),
        ("the quotes of a script or an id", "x\"; include"),
        ("the quotes of a script, to close the section", "x\") } evil"),
        ("a wildcard alone", "*"),
        ("wildcards within", "a*b?c[d]e"),
        ("a negated set", "[!a]"),
        ("a comment of a linker script", "a/*b*/c"),
        ("a keyword of a linker script", "KEEP"),
        ("RPM: a shell expansion", "%(id)"),
        ("RPM: a Lua expansion", "%{lua:os.execute('id')}"),
        ("RPM: an expansion after unescaping", "%%(id)"),
        ("RPM: the end of a macro's body", "a}b{"),
        ("the folder above", "../../x"),
        ("the folder above, alone", ".."),
        ("a hidden file", ".profile"),
        ("an absolute path", "/etc/passwd"),
        ("an option", "-rf"),
        ("the home folder", "~root"),
        ("a new line", "a\nevil"),
        ("a carriage return", "a\revil"),
        ("a tab", "a\tb"),
        ("the end of a C string", "a\0b"),
        ("a terminal: clear the screen", "\u{1b}[2Ja"),
        ("a terminal: one-byte control sequence", "\u{9b}2Ja"),
        ("a terminal: the direction of writing", "a\u{202e}b"),
        ("a reader: a character without width", "a\u{200b}b"),
        ("a list separated by blanks", "a b"),
        ("a reader that trims, in front", " a"),
        ("a reader that trims, behind", "a "),
        ("a list separated by commas", "a,b"),
        ("a comment", "a#b"),
        ("a comment line", "#a"),
        ("the end of a statement", "a;b"),
        ("a set, never closed", "a[b"),
        ("an escape", "a\\b"),
        ("an escape of a quote", "a\\\"b"),
        ("an escape of a comment sign", "a\\#b"),
        ("an escape at the end", "a\\"),
        ("an escape and a wildcard", "a\\*b"),
        ("a shell: command substitution", "$(id)"),
        ("a shell: command substitution, old style", "`id`"),
        ("a shell: the end of a single-quoted word", "a'; id; '"),
        ("a shell: a background command", "a & id"),
        ("a shell: a pipe; Markdown: a cell", "a|b"),
        ("make: a variable", "$(shell id)"),
        ("make: a rule", "a: b"),
        ("HTML: an element", "<script>alert(1)</script>"),
        ("HTML: an attribute", "\" onload=\"alert(1)"),
        ("HTML: a character reference", "&lt;b&gt;"),
        ("Markdown: emphasis and a link", "*a* _b_ [c](d) `e`"),
        ("Markdown: a heading", "# a"),
        ("Markdown: an item", "- a"),
        ("Markdown: a numbered item", "12. a"),
        ("Markdown: a numbered item, with a parenthesis", "1) a"),
        ("Markdown: a line", "---"),
        ("Markdown: a heading by the line below", "==="),
        ("Markdown: an image", "![a](b)"),
        ("Markdown: an address", "https://a.b/c www.a.b"),
        ("Markdown: text that is struck out", "~~a~~"),
        ("a spreadsheet: a formula", "=cmd()"),
        ("a spreadsheet: a formula by its sign", "@SUM(A1)"),
        ("nothing there", ""),
    ]
    .into_iter()
    .map(|(attacks, name)| (attacks, name.to_owned()))
    .collect();
    names.push(("limits of length", format!("long_{}", "x".repeat(5000))));
    names
}

/// A dialect's name and its function.
pub type Dialect = (&'static str, fn(&str) -> Option<String>);

/// Every dialect of [`escape`].
pub const DIALECTS: &[Dialect] = &[
    ("dot", escape::dot),
    ("dot-label", |text| Some(escape::dot_label(&[text]))),
    ("gnu-ld", escape::gnu_ld),
    ("gold", escape::gold),
    ("lld", escape::lld),
    ("shell", escape::shell),
    ("rpm", escape::rpm),
    ("make", escape::make),
    ("toml", |text| Some(escape::toml(text))),
    ("html", |text| Some(escape::html(text))),
    ("svg", |text| Some(escape::svg(text))),
    ("markdown", |text| Some(escape::markdown(text))),
    ("csv", |text| Some(escape::csv(text))),
    ("terminal", |text| Some(escape::terminal(text))),
    ("file-name", escape::file_name),
];
