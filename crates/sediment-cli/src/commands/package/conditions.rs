// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluates conditions of a spec file without rpm: build conditions (`%bcond`) with their defaults, and constants.

use super::spec::Spec;

/// Evaluates the conditions around a line, with the defaults of a build: true if the line counts; `None` if they need rpm.
pub(super) fn counts(spec: &Spec<'_>, line: usize) -> Option<bool> {
    let mut open: Vec<IfBranch> = Vec::new();
    for at in 0..line {
        let (word, rest) = words(spec.lines[at]);
        if spec.depth(at + 1) > spec.depth(at) {
            let holds = if word == "%if" { value(spec, rest, at) } else { None };
            open.push(IfBranch { counts: holds, before: holds });
        } else if spec.depth(at + 1) < spec.depth(at) {
            open.pop();
        } else if let Some(branch) = open.last_mut() {
            match word {
                "%else" => branch.follow(Some(true)),
                "%elif" => branch.follow(value(spec, rest, at)),
                "%elifarch" | "%elifos" => branch.follow(None),
                _ => {}
            }
        }
    }
    open.iter().map(|branch| branch.counts).fold(Some(true), and)
}

/// A branch of an `%if`.
struct IfBranch {
    counts: Option<bool>,
    /// True if this branch or an earlier one applies.
    before: Option<bool>,
}

impl IfBranch {
    /// Continues with the next branch, which has this condition.
    fn follow(&mut self, holds: Option<bool>) {
        self.counts = and(self.before.map(|before| !before), holds);
        self.before = match (self.before, holds) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
    }
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Evaluates a condition in this line: 0, 1, `%{with NAME}`, `%{without NAME}`, or the negation of one.
fn value(spec: &Spec<'_>, condition: &str, line: usize) -> Option<bool> {
    let condition = condition.trim();
    if let Some(contrary) = condition.strip_prefix('!') {
        return value(spec, contrary, line).map(|value| !value);
    }
    match condition {
        "0" => return Some(false),
        "1" => return Some(true),
        _ => {}
    }
    let (word, name) = words(condition.strip_prefix("%{")?.strip_suffix('}')?);
    match word {
        "with" => default_of(spec, name.trim(), line),
        "without" => default_of(spec, name.trim(), line).map(|with| !with),
        _ => None,
    }
}

/// Default of a build condition, from the last earlier line that sets it; off without one.
fn default_of(spec: &Spec<'_>, name: &str, line: usize) -> Option<bool> {
    for at in (0..line).rev() {
        let (word, rest) = words(spec.lines[at]);
        let (set, default) = words(rest);
        if !word.starts_with("%bcond") || set != name {
            continue;
        }
        let default = match word {
            "%bcond" => value(spec, default, at),
            "%bcond_with" => Some(false),
            "%bcond_without" => Some(true),
            _ => None,
        };
        match counts(spec, at) {
            Some(true) => return default,
            Some(false) => {}
            None => return None,
        }
    }
    Some(false)
}

/// Splits a line into the first word and the rest.
fn words(line: &str) -> (&str, &str) {
    let line = line.trim();
    line.split_once(char::is_whitespace).unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Option<bool> {
        let spec = Spec::read(text).unwrap();
        let line = spec.lines.iter().position(|line| line.starts_with("BuildArch")).unwrap();
        counts(&spec, line)
    }

    #[test]
    fn conditions_at_their_defaults() {
        let cases = [
            ("#", Some(true)),
            ("%bcond x 1\n%if %{with x}", Some(true)),
            ("%bcond x 0\n%if %{with x}", Some(false)),
            ("%bcond x 1\n%if %{with x}\n%else", Some(false)),
            ("%bcond_with x\n%if %{without x}", Some(true)),
            ("%bcond_without x\n%if ! %{with x}", Some(false)),
            ("%if 0\n%bcond_without x\n%endif\n%if %{with x}", Some(false)),
            (
                "%bcond y 1\n%if %{with y}\n%bcond_without x\n%else\n%bcond_with x\n%endif\n%if %{with x}",
                Some(true),
            ),
            ("%bcond y 1\n%bcond x %{with y}\n%if %{with x}", Some(true)),
            ("%bcond x %{defined rhel}\n%if %{with x}", None),
            ("%if 0%{?rhel}", None),
            ("%if 0%{?rhel}\n%else", None),
            ("%if 0%{?rhel}\n%elif 0", Some(false)),
            ("%if 0\n%elif 1", Some(true)),
            ("%if 1\n%elif 0%{?rhel}", Some(false)),
            ("%if 0%{?rhel}\n%if 0", Some(false)),
            ("%ifarch x86_64", None),
            ("%if 0\n%endif", Some(true)),
            ("%if %{with unheard_of}", Some(false)),
        ];
        for (before, expected) in cases {
            let ends = before.matches("%if").count() - before.matches("%endif").count();
            let text = format!("{before}\nBuildArch: noarch\n{}", "%endif\n".repeat(ends));
            assert_eq!(asked(&text), expected, "{text}");
        }
    }
}
