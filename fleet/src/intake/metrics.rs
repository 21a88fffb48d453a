// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of the intake, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! metrics {
    ($($name:ident $kind:literal $help:literal,)*) => {
        /// Counters of an intake since its start.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(#[doc = $help] pub $name: AtomicU64,)*
        }

        impl Metrics {
            /// All counters, in the format of Prometheus.
            pub(crate) fn text(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("sediment_fleet_", stringify!($name));
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}\n{name} {}", $help, $kind, self.$name.load(Ordering::Relaxed));
                )*
                text
            }
        }
    };
}

metrics! {
    accepted_total "counter" "Submissions that were acknowledged as new.",
    duplicates_total "counter" "Submissions that the dataset already contained.",
    refused_invalid_total "counter" "Submissions that are not a profile, or do not name a package.",
    refused_token_total "counter" "Requests without a known token.",
    refused_size_total "counter" "Submissions above the size limit.",
    refused_wrong_total "counter" "Requests without a known token above the limit per minute.",
    refused_rate_total "counter" "Submissions above the rate limit of their submitter.",
    refused_at_once_total "counter" "Submissions above the limit of simultaneous submissions of their submitter.",
    refused_packing_total "counter" "Submissions with another Content-Encoding than gzip or zstd, or with damaged contents.",
    refused_late_total "counter" "Requests that took too long.",
    imported_total "counter" "Accepted submissions that were recordings of continuous profilers.",
    refused_slow_total "counter" "Submissions that did not arrive completely in time.",
    refused_busy_total "counter" "Submissions rejected because the queue was full.",
    failed_total "counter" "Submissions that could not be stored because the disk or the store failed.",
    bytes_total "counter" "Bytes of acknowledged submissions.",
    compactions_total "counter" "Segments of the log that became partitions.",
    compaction_failures_total "counter" "Failed attempts to make partitions; they are repeated.",
    joined_files_total "counter" "Small files that were combined.",
    removed_files_total "counter" "Files of earlier snapshots that were removed.",
    made_room_total "counter" "Connections that waited for their client, and were closed to make room for others.",
    connections "gauge" "Open connections.",
    queue "gauge" "Submissions that are being received or written.",
}

impl Metrics {
    /// Increments a counter.
    pub(crate) fn count(number: &AtomicU64) {
        number.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_text() {
        let metrics = Metrics::default();
        Metrics::count(&metrics.accepted_total);
        let text = metrics.text();
        assert!(
            text.contains(
                "\n# TYPE sediment_fleet_accepted_total counter\nsediment_fleet_accepted_total 1\n"
            )
        );
        assert!(text.lines().all(|line| line.starts_with("# ") || line.split(' ').count() == 2));
    }
}
