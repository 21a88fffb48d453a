// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of queries. It is standard SQL on integers and decimals without rounding, so that other engines give the same rows
//! (docs/background/fleet-tables.md). Functions that this program gives the engine stand for joins.

use super::factors::Scale;

/// Sums of every subject: a merge without policy. Both tables have the columns of facts.
pub const SUMS: &str = "SELECT subject, SUM(weight) AS weight, MIN(first_use) AS first_use \
     FROM facts GROUP BY subject";

/// The weight of a row as it is.
pub const WEIGHT: &str = "weight";

/// The weight of a row times the factor of its submitter, which a function of this program knows.
pub const WEIGHED: &str = "weighed(weight, subject, submission)";

/// Sums of every subject by weight class, of the submissions that a policy lets count; where asked for, with the bits of their submitters.
///
/// `slot_of` is a number for subject and class, null for what does not count. It stands for a join with the submissions
/// that count, and is a look into a table.
#[must_use]
pub fn sums_by_class(weight: &str, with_bits: bool) -> String {
    let bits = if with_bits { ", BIT_OR(submitter_bit) AS submitter_bits" } else { "" };
    format!(
        "SELECT slot_of(subject, submission) AS slot, SUM({weight}) AS weight, MIN(first_use) AS first_use{bits} \
         FROM facts GROUP BY slot_of(subject, submission)"
    )
}

/// Submitters of subjects whose bits leave open whether they are enough, of the submissions that count.
pub const SUBMITTERS: &str =
    "SELECT subject, submitter FROM facts WHERE is_open(subject, submission) GROUP BY subject, submitter";

/// [`sums_by_class`] for engines that call no function of this program: `counted` has the submissions that count, with their classes,
/// factors and what is set aside of them; `scales` has the kind of each subject's numbers, and what sets it aside.
#[must_use]
pub fn joined_sums_by_class(by_submitter: bool) -> String {
    let cases: Vec<String> =
        Scale::ALL.iter().map(|(scale, column)| format!("WHEN {} THEN c.{column}", *scale as i32)).collect();
    let weight = if by_submitter {
        format!("CAST(f.weight AS DECIMAL(38, 0)) * CASE s.scale {} END", cases.join(" "))
    } else {
        "f.weight".to_owned()
    };
    format!(
        "SELECT f.subject, c.class, SUM({weight}) AS weight, MIN(f.first_use) AS first_use, \
         BIT_OR(f.submitter_bit) AS submitter_bits FROM facts f JOIN counted c ON f.submission = c.submission \
         JOIN scales s ON f.subject = s.subject WHERE (c.aside & s.aside) = 0 GROUP BY f.subject, c.class"
    )
}

/// [`SUBMITTERS`] for such engines: `open_subjects` has the subjects.
pub const JOINED_SUBMITTERS: &str = "SELECT f.subject, f.submitter FROM facts f JOIN counted c ON f.submission = c.submission \
     JOIN open_subjects o ON f.subject = o.subject GROUP BY f.subject, f.submitter";

/// Weight of calls into each function by submitter, and of samples.
pub const BY_SUBMITTER: &str = "SELECT f.submitter, f.subject, SUM(f.weight) AS weight \
     FROM facts f JOIN counted c ON f.submission = c.submission WHERE f.weight IS NOT NULL GROUP BY f.submitter, f.subject";
