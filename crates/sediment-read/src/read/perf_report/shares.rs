// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts rounded percentages back to counts.
//!
//! perf prints a share with two decimals. Each row gets its printed share of the total. Rows printed as 0.00 % were
//! also counted, so together they get the rest of 100 %: each at least one count, and at most half the smallest share
//! that can be printed. Fractions are assigned by largest remainder; ties go to the earlier row.

/// 100 % in the printed unit.
const WHOLE: u128 = 10_000;

/// Returns the counts of rows that are printed as these hundredths of a percent of `total`.
///
/// Their sum is `total` if the shares add up to 100 %. It is less if rows are missing, or if there are too few rows of
/// 0.00 % to fill the gap. It is more only if there are more rows than counts.
pub(super) fn counts(total: u64, hundredths: &[u32]) -> Vec<u128> {
    let total = u128::from(total);
    let printed: u128 = hundredths.iter().map(|share| u128::from(*share)).sum();
    let zeros = hundredths.iter().filter(|share| **share == 0).count() as u128;
    let left = WHOLE.saturating_sub(printed);

    // Both kinds of share with one denominator: a row of 0.00 % has left/zeros hundredths, but at most 1/2.
    let scale = 2 * zeros.max(1);
    let of_zero = (2 * left).min(zeros);
    let ones = zeros > 0 && total * of_zero < WHOLE * scale;
    let (numerator, denominator, of_zero) = if ones || printed > WHOLE {
        // One count for each row of 0.00 %; the others share the rest as far as possible.
        let rest = total.saturating_sub(zeros);
        if total * printed <= rest * WHOLE { (total, WHOLE, 0) } else { (rest, printed, 0) }
    } else {
        (total * scale, WHOLE * scale, total * of_zero)
    };

    let quota = |share: u32| if share == 0 { of_zero } else { numerator * u128::from(share) };
    let mut counts: Vec<u128> = hundredths.iter().map(|share| quota(*share) / denominator).collect();
    let mut by_remainder: Vec<usize> = (0..counts.len()).collect();
    by_remainder.sort_by_key(|row| std::cmp::Reverse(quota(hundredths[*row]) % denominator));
    let all: u128 = hundredths.iter().map(|share| quota(*share)).sum();
    let whole: u128 = counts.iter().sum();
    let seats = (2 * all + denominator) / (2 * denominator) - whole;
    for row in by_remainder.into_iter().take(seats as usize) {
        counts[row] += 1;
    }
    for count in &mut counts {
        *count = (*count).max(1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_that_make_up_the_whole_add_up_to_the_total() {
        assert_eq!(counts(3, &[3333, 3333, 3333]), [1, 1, 1]);
        assert_eq!(counts(1000, &[5000, 3000, 2000]), [500, 300, 200]);
        // 0.5, 0.5: the earlier row gets the odd count.
        assert_eq!(counts(7, &[5000, 5000]), [4, 3]);
        // 1 % remains for two rows of 0.00 %, but each takes at most 0.005 %.
        assert_eq!(counts(1_000_000, &[9900, 0, 0]), [990_000, 50, 50]);
        // 0.01 % remains for four rows.
        assert_eq!(counts(1_000_000, &[9999, 0, 0, 0, 0]), [999_900, 25, 25, 25, 25]);
        // Nothing remains: one count each, taken from the others.
        assert_eq!(counts(1000, &[6000, 4000, 0]), [599, 400, 1]);
        // The shares were rounded up to more than 100 %.
        assert_eq!(counts(1000, &[5001, 5001]), [500, 500]);
        assert_eq!(counts(1000, &[]), Vec::<u128>::new());
    }

    #[test]
    fn every_row_happened_even_where_the_total_denies_it() {
        assert_eq!(counts(0, &[10_000, 0]), [1, 1]);
        assert_eq!(counts(1, &[1, 0, 0]), [1, 1, 1]);
    }

    proptest! {
        #[test]
        fn counts_stay_close_to_the_truth_and_within_the_total(truth in prop::collection::vec(1u64..1_000_000, 1..200)) {
            let total: u64 = truth.iter().sum();
            let share = |count: u64| ((u128::from(count) * 20_000 + u128::from(total)) / (2 * u128::from(total))) as u32;
            let hundredths: Vec<u32> = truth.iter().map(|count| share(*count)).collect();
            let counts = counts(total, &hundredths);
            prop_assert!(counts.iter().sum::<u128>() <= u128::from(total));
            // A row may also lose counts because other rows were rounded up, at most half a hundredth per row.
            let near = total as f64 * (0.5 + 0.5 * truth.len() as f64) / 10_000.0 + 1.0;
            for (count, truth) in counts.iter().zip(&truth) {
                prop_assert!((*count as f64 - *truth as f64).abs() <= near, "{count} for {truth} of {total}");
            }
        }

        #[test]
        fn any_shares_are_counted_without_overflow(total in any::<u64>(), hundredths in prop::collection::vec(any::<u32>(), 0..50)) {
            let counts = counts(total, &hundredths);
            prop_assert!(counts.iter().sum::<u128>() <= u128::from(total).max(1) + counts.len() as u128);
        }
    }
}
