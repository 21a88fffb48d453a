// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readable names of functions: C++ (Itanium ABI) and Rust names as in the source code. Files keep linkage names.

use cpp_demangle::{BorrowedSymbol, DemangleOptions};
use std::borrow::Cow;
use std::fmt::Write;

/// Longest demangled name in bytes: a short mangled name in an untrusted file may expand without limit.
const LONGEST: usize = 4096;

/// Returns a function's readable name. A name that is not mangled stays as it is.
///
/// ```
/// use sediment_core::demangle::demangled;
/// assert_eq!(demangled("_ZN3sat6solver9propagateEb"), "sat::solver::propagate(bool)");
/// assert_eq!(demangled("main"), "main");
/// ```
#[must_use]
pub fn demangled(name: &str) -> Cow<'_, str> {
    match rust(name).or_else(|| cpp(name, DemangleOptions::new())) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(name),
    }
}

/// Returns the forms in which tools print a linkage name; none for a name that is not mangled.
#[must_use]
pub fn forms(linkage: &str) -> Vec<String> {
    if !linkage.starts_with('_') {
        return Vec::new();
    }
    if let Some(short) = rust(linkage) {
        return vec![short];
    }
    let short = DemangleOptions::new().no_params().no_return_type();
    let forms = [DemangleOptions::new(), DemangleOptions::new().no_return_type(), short];
    forms.into_iter().filter_map(|options| cpp(linkage, options)).collect()
}

/// True if `typed` denotes the function with this linkage name: in full, demangled, or demangled without parameters.
#[must_use]
pub fn is_meant(linkage: &str, typed: &str) -> bool {
    if linkage == typed {
        return true;
    }
    // Only mangled names have another form.
    if !linkage.starts_with('_') {
        return false;
    }
    demangled(linkage) == typed
        || cpp(linkage, DemangleOptions::new().no_params().no_return_type())
            .is_some_and(|short| short == typed)
}

/// Demangles a Rust name without its hash.
fn rust(name: &str) -> Option<String> {
    let found = rustc_demangle::try_demangle(name).ok()?;
    // Older Rust names are also C++ names; Rust's end in a hash.
    if name.starts_with("_ZN") && !has_hash(name) {
        return None;
    }
    let mut text = Bounded::default();
    write!(text, "{found:#}").ok()?;
    Some(text.0)
}

/// True if the last part is `17h` and 16 hexadecimal digits, as in older Rust names.
fn has_hash(name: &str) -> bool {
    let Some((_, hash)) = name.rsplit_once("17h") else { return false };
    let digits = hash.bytes().take_while(u8::is_ascii_hexdigit).count();
    // The name ends in E, which is a hexadecimal digit only in lower case.
    digits >= 16 && hash[16..].starts_with('E')
}

fn cpp(name: &str, options: DemangleOptions) -> Option<String> {
    // Other words, such as a plain `i`, would be demangled as types.
    if !["_Z", "___Z"].iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    // Compilers append suffixes to the name: `.isra.0`, `.cold`, `.llvm.123`.
    let (stem, tail) = name.split_at(name.find('.').unwrap_or(name.len()));
    let (symbol, []) = BorrowedSymbol::with_tail(stem.as_bytes()).ok()? else { return None };
    let mut text = Bounded::default();
    symbol.structured_demangle(&mut text, &options).ok()?;
    if !tail.is_empty() {
        write!(text, " [{tail}]").ok()?;
    }
    Some(text.0)
}

/// Text of at most [`LONGEST`] bytes.
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_authors_wrote_them() {
        let cases = [
            ("_ZN3sat6solver9propagateEb", "sat::solver::propagate(bool)"),
            ("_Z3addIiET_S0_S0_", "int add<int>(int, int)"),
            ("_ZN1a1bEv.isra.0", "a::b() [.isra.0]"),
            ("_ZN1a1bEv.cold", "a::b() [.cold]"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("main", "main"),
            ("i", "i"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("", ""),
            ("f.cold", "f.cold"),
        ];
        for (name, expected) in cases {
            assert_eq!(demangled(name), expected, "{name}");
        }
    }

    #[test]
    fn every_form_of_a_name_is_understood() {
        let name = "_ZN3sat6solver9propagateEb";
        for typed in [name, "sat::solver::propagate(bool)", "sat::solver::propagate"] {
            assert!(is_meant(name, typed), "{typed}");
        }
        for typed in ["propagate", "sat::solver::propagate(int)", ""] {
            assert!(!is_meant(name, typed), "{typed}");
        }
        assert!(is_meant("_Z3addIiET_S0_S0_", "add<int>"));
        assert!(is_meant("main", "main") && !is_meant("main", "main()"));
    }

    /// A text that doubles with each of these letters must still end, and so must a deeply nested one.
    #[test]
    fn hostile_names_end() {
        let mut doubling = "_Z1fI1AIS_S_E".to_owned();
        for index in 0..60 {
            doubling += &format!("1AIS{index}_S{index}_E");
        }
        doubling += "Evv";
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        let nested = format!("_Z1f{}", "1AI".repeat(2000));
        for name in [doubling, deep, nested, format!("_R{}", "NvC".repeat(5000))] {
            assert!(demangled(&name).len() <= LONGEST.max(name.len()));
        }
    }
}
