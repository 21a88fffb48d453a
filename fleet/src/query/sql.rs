// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of queries. It is standard SQL on integers and decimals without rounding, so that other engines give the same rows
//! (docs/fleet.md).

/// Sums of every subject: a merge without policy. Both tables have the columns of facts.
pub const SUMS: &str = "SELECT subject, SUM(weight) AS weight, MIN(first_use) AS first_use \
     FROM facts GROUP BY subject";

/// Sums of every subject by weight class, of the submissions that a policy lets count; with the bits of their submitters.
pub const SUMS_BY_CLASS: &str = "SELECT f.subject, c.class, SUM(f.weight) AS weight, MIN(f.first_use) AS first_use, \
     BIT_OR(f.submitter_bit) AS submitter_bits \
     FROM facts f JOIN counted c ON f.submission = c.submission GROUP BY f.subject, c.class";

/// Submitters of subjects whose bits leave open whether they are enough.
pub const SUBMITTERS: &str = "SELECT f.subject, f.submitter \
     FROM facts f JOIN counted c ON f.submission = c.submission JOIN rare r ON f.subject = r.subject \
     GROUP BY f.subject, f.submitter";

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
