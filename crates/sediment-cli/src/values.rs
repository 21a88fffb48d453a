// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses times, percentages, sizes and names on the command line, and words in environment variables.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sediment_order::wrapper::settings;
use std::time::Duration;

type ParsedValue<T> = Result<T, String>;

/// Parser for an option with one of these names. Names of earlier releases have a replacement, which the error
/// suggests.
pub(crate) fn names(
    known: impl IntoIterator<Item = PossibleValue>,
    former: &'static [(&'static str, &'static str)],
) -> impl TypedValueParser<Value = String> {
    let gone = former.iter().map(|(name, _)| PossibleValue::new(*name).hide(true));
    PossibleValuesParser::new(known.into_iter().chain(gone)).try_map(|name| {
        match former.iter().find(|(gone, _)| *gone == name) {
            Some((_, instead)) => Err(format!("it was removed; use {instead}")),
            None => Ok(name),
        }
    })
}

/// Sample profiles of earlier releases, and their replacements.
pub(crate) const FORMER_SAMPLES: &[(&str, &str)] = &[("gcc-sample-2", FOR_GCC), ("gcc-sample-3", FOR_GCC)];
const FOR_GCC: &str = "`export --format counters`, for sediment's GCC plugin (docs/beyond-functions.md)";

/// Parses a number with one of these unit letters; without a letter, the number itself.
fn with_unit<N: std::str::FromStr>(
    text: &str,
    units: &[(char, N)],
    times: impl Fn(N, &N) -> Option<N>,
) -> Option<N> {
    for (letter, scale) in units {
        if let Some(number) = text.strip_suffix([*letter, letter.to_ascii_uppercase()]) {
            return times(number.parse().ok()?, scale);
        }
    }
    text.parse().ok()
}

/// Parses a time in seconds, or with the suffix s, m or h.
fn time(text: &str) -> ParsedValue<Duration> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    with_unit(text, &units, |number: f64, scale| Some(number * scale))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text} is not a time; use 90, 90s, 10m or 2h"))
}

/// Parses a time above 0.
pub(crate) fn duration(text: &str) -> ParsedValue<Duration> {
    let time = time(text)?;
    if time.is_zero() { Err("must be above 0".to_owned()) } else { Ok(time) }
}

/// Parses the time of an experiment, in seconds.
pub(crate) fn seconds(text: &str) -> ParsedValue<f64> {
    let seconds = time(text)?.as_secs_f64();
    if seconds < 1e7 { Ok(seconds) } else { Err(format!("{text} is too long")) }
}

/// Parses a number of bytes, with a suffix for powers of 1024.
pub(crate) fn bytes(text: &str) -> ParsedValue<u64> {
    let units = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];
    with_unit(text, &units, |number: u64, scale| number.checked_mul(*scale))
        .ok_or_else(|| "expected a number of bytes, for example 33554432 or 32M".to_owned())
}

/// Parses a power of two for an alignment.
pub(crate) fn alignment(text: &str) -> ParsedValue<u64> {
    bytes(text)
        .ok()
        .filter(|bytes| bytes.is_power_of_two() && (16..=1 << 30).contains(bytes))
        .ok_or_else(|| "expected a power of two from 16 to 1G, for example 4K or 2M".to_owned())
}

/// Parses a number of variants of a function, above 0.
pub(crate) fn number_of_variants(text: &str) -> ParsedValue<usize> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Removes the sign of a percentage, which is optional.
fn unsigned(text: &str) -> &str {
    text.strip_suffix('%').unwrap_or(text).trim_end()
}

/// Parses a percentage from 0 to 100 with up to four decimal places; returns parts per million.
pub(crate) fn percent(text: &str) -> ParsedValue<u64> {
    settings::percent(unsigned(text))
}

/// Parses a percentage from 0 to 100; returns a share of one.
pub(crate) fn least(text: &str) -> ParsedValue<f64> {
    percent(text).map(settings::share)
}

/// Parses a whole percentage from 0 to 100.
pub(crate) fn whole_percent(text: &str) -> ParsedValue<u8> {
    let percent = unsigned(text).parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| format!("{text} is not a whole percentage from 0 to 100"))
}

/// Parses a share in per cent, above 0 and below 100.
pub(crate) fn share(text: &str) -> ParsedValue<f64> {
    let share = unsigned(text).parse().unwrap_or(f64::NAN) / 100.0;
    let fits = share > 0.0 && share < 1.0;
    fits.then_some(share).ok_or_else(|| format!("{text} is not a percentage above 0 and below 100"))
}

/// Parses the share of time for recording, in per cent.
pub(crate) fn overhead(text: &str) -> ParsedValue<f64> {
    let share = share(text).ok().filter(|share| *share <= 0.9);
    share.ok_or_else(|| "expected a percentage above 0 and up to 90".to_owned())
}

/// Pattern of names, as in a shell: `*` matches any text, `?` one character.
#[derive(Debug, Clone)]
pub(crate) struct Glob(String);

impl Glob {
    /// True if the pattern matches the whole name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        let (mut at, mut from) = (0, 0);
        // Position of the last `*`, and of the first character after its current match.
        let mut star = None;
        while from < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, from));
                    at += 1;
                }
                Some(&expected) if expected == '?' || expected == name[from] => {
                    at += 1;
                    from += 1;
                }
                _ => {
                    let Some((last, covered)) = star else { return false };
                    star = Some((last, covered + 1));
                    (at, from) = (last + 1, covered + 1);
                }
            }
        }
        pattern[at..].iter().all(|rest| *rest == '*')
    }
}

/// Parses a pattern that can match a name.
pub(crate) fn glob(text: &str) -> ParsedValue<Glob> {
    if text.is_empty() || text.contains('/') {
        return Err("expected a name without folders; * and ? are wildcards".to_owned());
    }
    Ok(Glob(text.to_owned()))
}

/// Splits a value such as `CC` or `LDFLAGS` into words like a shell, without expansions. `Err` if a quote is not
/// closed, with the words as if there were no quotes.
pub(crate) fn shell_words(text: &str) -> std::result::Result<Vec<String>, Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') => match characters.next() {
                Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => word.get_or_insert_default().push('\\'),
            },
            // Within double quotes, a backslash is literal unless one of these follows.
            (Some('"'), '\\') => {
                let next = characters.clone().next().filter(|next| "$`\"\\\n".contains(*next));
                let kept = next.map_or('\\', |next| {
                    characters.next();
                    next
                });
                word.get_or_insert_default().extend(Some(kept).filter(|kept| *kept != '\n'));
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    if quote.is_none() {
        return Ok(words);
    }
    let plain = text.replace(['\'', '"'], " ");
    Err(plain.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_people_write_them() {
        assert_eq!((seconds("90"), seconds("1.5m"), seconds("2h")), (Ok(90.0), Ok(90.0), Ok(7200.0)));
        assert_eq!(duration("0.25s"), Ok(Duration::from_millis(250)));
        assert_eq!((bytes("33554432"), bytes("32M"), bytes("1g")), (Ok(32 << 20), Ok(32 << 20), Ok(1 << 30)));
        assert_eq!((alignment("4K"), alignment("2m")), (Ok(4096), Ok(2 << 20)));
        assert_eq!((share("0.5"), share("2%"), overhead("90%")), (Ok(0.005), Ok(0.02), Ok(0.9)));
        assert_eq!((percent("2"), percent("2.5%"), percent("5 %")), (Ok(20_000), Ok(25_000), Ok(50_000)));
        assert_eq!((least("16"), whole_percent("90%"), whole_percent("0")), (Ok(0.16), Ok(90), Ok(0)));
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in
            [("jq*", "jq"), ("*jq.so*", "libjq.so.1"), ("?q", "jq"), ("a*b*c", "abbxc"), ("*", "")]
        {
            assert!(glob(pattern).is_ok_and(|glob| glob.matches(name)), "{pattern} {name}");
        }
        for (pattern, name) in [("jq", "jqx"), ("jq?", "jq"), ("a*b", "abc"), ("J*", "jq"), ("[j]q", "jq")] {
            assert!(glob(pattern).is_ok_and(|glob| !glob.matches(name)), "{pattern} {name}");
        }
        assert!(glob("").is_err() && glob("/usr/bin/jq").is_err());
        // A pattern with many stars must be fast.
        let stars = "*a".repeat(40) + "b";
        assert!(glob(&stars).is_ok_and(|glob| !glob.matches(&"a".repeat(5000))));
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in ["", "-1s", "nan", "inf", "x", "1d", "s"] {
            assert!(seconds(text).is_err() && duration(text).is_err(), "{text}");
        }
        assert!(
            duration("0").is_err()
                && bytes("-1").is_err()
                && bytes("99999999999g").is_err()
                && bytes("1.5m").is_err()
        );
        assert!(alignment("3K").is_err() && alignment("8").is_err() && alignment("2G").is_err());
        for text in ["0", "100", "101", "nan", "x", "", "-3"] {
            assert!(share(text).is_err() && overhead(text).is_err(), "{text}");
        }
        assert!(overhead("90.1").is_err());
        for text in ["", "%", "-1", "101", "1%%", "x", "nan"] {
            assert!(percent(text).is_err() && least(text).is_err() && whole_percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |text| shell_words(text).unwrap();
        assert_eq!(words("ccache  clang -m32"), ["ccache", "clang", "-m32"]);
        assert_eq!(
            words(r#""my cc" '-B/a b' -DX=\"y\" a\ b "" "#),
            ["my cc", "-B/a b", "-DX=\"y\"", "a b", ""]
        );
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("\"-DX=\\d\\$\" end\\"), ["-DX=\\d$", "end\\"]);
        assert_eq!(shell_words("gcc 'a b").unwrap_err(), ["gcc", "a", "b"]);
    }
}
