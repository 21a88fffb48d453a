// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict on a measurement, and its reason. CPU time decides, with an interval that includes the luck of layout.
//! Simulated misses can only show that there is nothing to measure. Saved pages are reported separately.

use super::measure::OTHER_OUTPUT;
use sediment_measure::judge;
use serde_json::Value;
use std::fmt;

/// Saved pages are mentioned if the executed functions need at least this many fewer.
const LEAST_PAGES: u64 = 16;

/// Simulated meters: key and name.
pub(super) const METERS: [(&str, &str); 2] = [("itlb", "iTLB"), ("l1i", "L1I")];

/// Misses of a simulated cache or TLB before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Misses {
    pub(super) name: &'static str,
    pub(super) before: u128,
    pub(super) after: u128,
}

/// Result for one command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Finding {
    /// The judge's answer with its code, and its sentence.
    Judged { code: String, sentence: String },
    /// Largest possible worth of misses, in per cent of CPU time. No run was needed.
    TooFewMisses(f64),
    /// It was not judged, for this reason.
    Open(String),
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LevelVerdict {
    Gain,
    Nothing,
    Loss,
    Mixed,
    Unknown,
}

impl LevelVerdict {
    /// The verdict's code for programs.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Gain => "gain",
            Self::Nothing => "nothing-to-gain",
            Self::Loss => "loss",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for LevelVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.code().replace('-', " "))
    }
}

/// Returns the verdict on the findings of all commands, and its reason. `pages`: pages of the executed functions before
/// and after.
pub(super) fn verdict(findings: &[Finding], pages: [u64; 2]) -> (LevelVerdict, String) {
    let is = |finding: &Finding, wanted: judge::Answer| matches!(finding, Finding::Judged { code, .. } if code == wanted.code());
    let has = |wanted| findings.iter().any(|finding| is(finding, wanted));
    let said = |wanted: &dyn Fn(&Finding) -> bool| {
        let mut sentences: Vec<String> =
            findings.iter().filter(|finding| wanted(finding)).map(Finding::in_words).collect();
        sentences.dedup();
        sentences.join("; ")
    };
    let of = |wanted| said(&|finding| is(finding, wanted));
    let is_nothing = |finding: &Finding| {
        is(finding, judge::Answer::Nothing) || matches!(finding, Finding::TooFewMisses(_))
    };
    let (verdict, why) = match (has(judge::Answer::Saves), has(judge::Answer::Costs)) {
        (true, false) => (LevelVerdict::Gain, of(judge::Answer::Saves)),
        (false, true) => {
            (LevelVerdict::Loss, format!("{}; keep the program as it was", of(judge::Answer::Costs)))
        }
        (true, true) => {
            (LevelVerdict::Mixed, format!("{}; {}", of(judge::Answer::Saves), of(judge::Answer::Costs)))
        }
        (false, false) if !findings.is_empty() && findings.iter().all(is_nothing) => {
            (LevelVerdict::Nothing, said(&is_nothing))
        }
        (false, false) if findings.is_empty() => (LevelVerdict::Unknown, "nothing was measured".to_owned()),
        (false, false) => (LevelVerdict::Unknown, said(&|finding| !is_nothing(finding))),
    };
    let [before, after] = pages;
    let fewer = if before.saturating_sub(after) >= LEAST_PAGES {
        format!("; executed functions on {after} pages instead of {before}")
    } else {
        String::new()
    };
    (verdict, why + &fewer)
}

impl Finding {
    /// Reads the finding from the figures of a measured command.
    pub(super) fn of(measured: &Value) -> Self {
        let cpu = &measured["cpu_time"];
        let worth = ["gained", "lost"].map(|key| measured["worth_percent"][key].as_f64());
        match (cpu["answer"].as_str(), cpu["in_words"].as_str(), worth) {
            (Some(code), Some(sentence), _) => {
                Self::Judged { code: code.to_owned(), sentence: sentence.to_owned() }
            }
            (_, _, [Some(gained), Some(lost)])
                if gained.max(lost) < 100.0 * judge::WORTH && measured[OTHER_OUTPUT] != true =>
            {
                Self::TooFewMisses(gained.max(lost))
            }
            _ => Self::Open(cpu["not_judged"].as_str().unwrap_or("it was not measured").to_owned()),
        }
    }

    fn in_words(&self) -> String {
        match self {
            // The verdict itself contains this.
            Self::Judged { sentence, .. } => {
                sentence.strip_prefix("nothing to gain: ").unwrap_or(sentence).to_owned()
            }
            Self::TooFewMisses(percent) => {
                format!("the simulated misses are {}", judge::worth_in_words(percent / 100.0))
            }
            Self::Open(why) => format!("CPU time was not judged: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(answer: judge::Answer, sentence: &str) -> Finding {
        Finding::Judged { code: answer.code().to_owned(), sentence: sentence.to_owned() }
    }

    #[test]
    fn time_decides() {
        let saves = || judged(judge::Answer::Saves, "saves 4.1 % of CPU time (95 %: 2.9 to 5.2 %)");
        let costs = || judged(judge::Answer::Costs, "costs 2.0 % more CPU time (95 %: 1.0 to 3.0 %)");
        let nothing = || judged(judge::Answer::Nothing, "nothing to gain: at most 0.4 %");
        let unknown = || judged(judge::Answer::Unknown, "cannot detect a change below 1.5 % in 2m");
        let open = || Finding::Open("the work changes".to_owned());
        let few = || Finding::TooFewMisses(0.2);
        let rows = [
            (vec![saves()], LevelVerdict::Gain),
            (vec![saves(), nothing(), unknown()], LevelVerdict::Gain),
            (vec![costs(), nothing()], LevelVerdict::Loss),
            (vec![costs(), saves()], LevelVerdict::Mixed),
            (vec![nothing(), few()], LevelVerdict::Nothing),
            (vec![nothing(), unknown()], LevelVerdict::Unknown),
            (vec![open(), few()], LevelVerdict::Unknown),
            (Vec::new(), LevelVerdict::Unknown),
        ];
        for (findings, expected) in rows {
            assert_eq!(verdict(&findings, [9, 3]).0, expected, "{findings:?}");
        }
        assert_eq!(verdict(&[nothing()], [9, 3]).1, "at most 0.4 %");
        assert_eq!(verdict(&[few()], [9, 3]).1, "the simulated misses are worth at most 0.2 % of CPU time");
    }

    #[test]
    fn pages_are_a_result_of_their_own() {
        let (is, why) = verdict(&[Finding::TooFewMisses(0.1)], [40, 4]);
        assert_eq!(is, LevelVerdict::Nothing);
        assert!(why.ends_with("; executed functions on 4 pages instead of 40"), "{why}");
    }
}
