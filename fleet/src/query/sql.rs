// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of queries. It is standard SQL on integers and decimals without rounding, so that other engines give the same rows
//! (docs/fleet.md). Functions that this program gives the engine stand for joins.

/// Sums of every subject: a merge without policy. Both tables have the columns of facts.
pub const SUMS: &str = "SELECT subject, SUM(weight) AS weight, MIN(first_use) AS first_use \
     FROM facts GROUP BY subject";

/// Sums of every subject by weight class, of the submissions that a policy lets count; with the bits of their submitters.
///
/// `slot_of` is a number for subject and class, null for a submission that does not count. It stands for a join with the submissions
/// that count, and is a look into a table.
pub const SUMS_BY_CLASS: &str = "SELECT slot_of(subject, submission) AS slot, SUM(weight) AS weight, MIN(first_use) AS first_use, \
     BIT_OR(submitter_bit) AS submitter_bits FROM facts GROUP BY slot_of(subject, submission)";

/// The same where no number of submitters is asked for.
pub const WEIGHTS_BY_CLASS: &str = "SELECT slot_of(subject, submission) AS slot, SUM(weight) AS weight, MIN(first_use) AS first_use \
     FROM facts GROUP BY slot_of(subject, submission)";

/// Submitters of subjects whose bits leave open whether they are enough, of the submissions that count.
pub const SUBMITTERS: &str =
    "SELECT subject, submitter FROM facts WHERE is_open(subject, submission) GROUP BY subject, submitter";

/// [`SUMS_BY_CLASS`] for engines that call no function of this program: `counted` has the submissions that count, with their classes.
pub const JOINED_SUMS_BY_CLASS: &str = "SELECT f.subject, c.class, SUM(f.weight) AS weight, MIN(f.first_use) AS first_use, \
     BIT_OR(f.submitter_bit) AS submitter_bits FROM facts f JOIN counted c ON f.submission = c.submission GROUP BY f.subject, c.class";

/// [`SUBMITTERS`] for such engines: `open_subjects` has the subjects.
pub const JOINED_SUBMITTERS: &str = "SELECT f.subject, f.submitter FROM facts f JOIN counted c ON f.submission = c.submission \
     JOIN open_subjects o ON f.subject = o.subject GROUP BY f.subject, f.submitter";

/// Submissions in the order in which caps let them count: of each submitter and class of hosts the newest first.
pub const CAPPED: &str = "SELECT submission, submitter, host_class, version, day, total, \
     ROW_NUMBER() OVER (PARTITION BY submitter ORDER BY day DESC, submission DESC) AS of_submitter, \
     SUM(total) OVER (PARTITION BY submitter ORDER BY day DESC, submission DESC ROWS UNBOUNDED PRECEDING) AS submitter_total, \
     SUM(total) OVER (PARTITION BY host_class ORDER BY day DESC, submission DESC ROWS UNBOUNDED PRECEDING) AS class_total \
     FROM submissions";

/// Submissions by version and day.
pub const COVERAGE: &str = "SELECT package, version, MIN(day) AS first_day, MAX(day) AS last_day, COUNT(*) AS submissions, \
     COUNT(DISTINCT submitter) AS submitters, COUNT(DISTINCT host_class) AS host_classes, SUM(inputs) AS recordings \
     FROM submissions GROUP BY package, version ORDER BY package, version";

/// Weight of calls into each function by submitter, and of samples.
pub const BY_SUBMITTER: &str = "SELECT f.submitter, f.subject, SUM(f.weight) AS weight \
     FROM facts f JOIN counted c ON f.submission = c.submission WHERE f.weight IS NOT NULL GROUP BY f.submitter, f.subject";
