// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of queries. It is standard SQL on integers and decimals without rounding, so other engines return the same rows
//! (docs/background/fleet-tables.md). Functions that this program registers in the engine replace joins.

use super::factors::Scale;

/// Sums of every subject: a merge without policy. Both tables have the columns of facts.
pub(crate) const SUMS: &str = "SELECT CAST(subject AS BIGINT) AS slot, SUM(weight) AS weight, MIN(first_use) AS first_use \
     FROM facts GROUP BY subject";

/// The unchanged weight of a row.
pub(crate) const WEIGHT: &str = "weight";

/// The weight of a row multiplied by the factor of its submitter. A function of this program returns the factor.
pub(crate) const WEIGHED: &str = "weighed(weight, subject, submission)";

/// Sums of every subject by weight class, for the submissions that a policy counts; optionally with the bits of their submitters.
///
/// `slot_of` returns a number for subject and class, or null if the row does not count. It looks up a table, and replaces a join with the submissions that
/// count.
pub(crate) fn sums_by_class(weight: &str, with_bits: bool) -> String {
    let bits = if with_bits { ", BIT_OR(submitter_bit) AS submitter_bits" } else { "" };
    format!(
        "SELECT slot_of(subject, submission) AS slot, SUM({weight}) AS weight, MIN(first_use) AS first_use{bits} \
         FROM facts GROUP BY slot_of(subject, submission)"
    )
}

/// Submitters of the subjects for which the bits do not decide whether there are enough, for the submissions that count.
pub(crate) const SUBMITTERS: &str =
    "SELECT subject, submitter FROM facts WHERE is_open(subject, submission) GROUP BY subject, submitter";

/// [`sums_by_class`] for engines that cannot call functions of this program. `counted` contains the submissions that count, with their classes, factors and
/// left-out data. `scales` contains the kind of each subject's numbers, and the bits by which it is left out.
pub(crate) fn joined_sums_by_class(classes: usize, by_submitter: bool) -> String {
    let cases: Vec<String> =
        Scale::ALL.iter().map(|(scale, column)| format!("WHEN {} THEN c.{column}", *scale as i32)).collect();
    let weight = if by_submitter {
        format!("CAST(f.weight AS DECIMAL(38, 0)) * CASE s.scale {} END", cases.join(" "))
    } else {
        "f.weight".to_owned()
    };
    format!(
        "SELECT CAST(f.subject AS BIGINT) * {classes} + c.class AS slot, SUM({weight}) AS weight, MIN(f.first_use) AS first_use, \
         BIT_OR(f.submitter_bit) AS submitter_bits FROM facts f JOIN counted c ON f.submission = c.submission \
         JOIN scales s ON f.subject = s.subject WHERE (c.aside & s.aside) = 0 GROUP BY f.subject, c.class"
    )
}

/// [`SUBMITTERS`] for such engines; `open_subjects` contains the subjects.
pub(crate) const JOINED_SUBMITTERS: &str = "SELECT f.subject, f.submitter FROM facts f JOIN counted c ON f.submission = c.submission \
     JOIN open_subjects o ON f.subject = o.subject GROUP BY f.subject, f.submitter";

/// Weight of calls into each function, and of samples, by submitter.
pub(crate) const BY_SUBMITTER: &str = "SELECT f.submitter, f.subject, SUM(f.weight) AS weight \
     FROM facts f JOIN counted c ON f.submission = c.submission WHERE f.weight IS NOT NULL GROUP BY f.submitter, f.subject";
