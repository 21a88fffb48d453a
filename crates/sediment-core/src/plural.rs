// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats counts with their nouns for messages: "1 page", "2 pages"; large numbers have groups of digits.

use std::fmt::Display;

/// Formats a count and its noun, in the plural unless the count is 1.
///
/// ```
/// use sediment_core::plural::counted;
/// assert_eq!(counted(1, "page"), "1 page");
/// assert_eq!(counted(2, "library"), "2 libraries");
/// ```
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { noun.to_owned() } else { plural(noun) };
    format!("{count} {plural}")
}

/// Formats an integer with commas between groups of three digits.
///
/// ```
/// assert_eq!(sediment_core::plural::grouped(1234567u64), "1,234,567");
/// ```
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the plural of a noun phrase: the last word gets the ending.
fn plural(noun: &str) -> String {
    if ["s", "x", "ch", "sh"].iter().any(|ending| noun.ends_with(ending)) {
        return format!("{noun}es");
    }
    let mut letters = noun.chars().rev();
    match (letters.next(), letters.next()) {
        (Some('y'), Some(before)) if !"aeiou".contains(before) => format!("{}ies", &noun[..noun.len() - 1]),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_are_in_the_plural_but_after_one() {
        let nouns = ["page", "miss", "branch", "entry", "day", "call site", "suffix"];
        let counts: Vec<String> = nouns.iter().map(|noun| counted(0, noun)).collect();
        let expected =
            ["0 pages", "0 misses", "0 branches", "0 entries", "0 days", "0 call sites", "0 suffixes"];
        assert_eq!(counts, expected);
        assert_eq!(counted(1u64, "miss"), "1 miss");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        let shown: Vec<String> = [0, 12, 999, 1000, 1_234_567, 12_345_678].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "12", "999", "1,000", "1,234,567", "12,345,678"]);
    }
}
