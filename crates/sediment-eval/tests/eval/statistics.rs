// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares every method with scipy's result for the same input. The results are in `tests/golden/compare/scipy`, made
//! by the script in that folder.

use sediment_eval::statistics::{
    Effect, Moments, bootstrap, components, distribution, drift, equivalence, factorial, mann_whitney,
    multiplicity, power, signed_rank, spread, student, welch,
};
use serde_json::Value;

fn cases(name: &str) -> Value {
    let file = support::root().join("tests/golden/compare/scipy/cases.json");
    let mut all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    all[name].take()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn close(actual: f64, expected: &Value, tolerance: f64, what: &str) {
    let expected = number(expected);
    let error = (actual - expected).abs() / expected.abs().max(1e-300);
    assert!(
        error <= tolerance || (actual - expected).abs() < 1e-15,
        "{what}: {actual:e}, scipy {expected:e}, relative error {error:e}"
    );
}

#[track_caller]
fn same_effect(effect: &Effect, expected: &Value, what: &str) {
    close(effect.t, &expected["t"], 1e-10, what);
    close(effect.freedom, &expected["freedom"], 1e-12, what);
    close(effect.p, &expected["p"], 1e-9, what);
    close(effect.interval.lower, &expected["lower"], 1e-9, what);
    close(effect.interval.upper, &expected["upper"], 1e-9, what);
}

#[test]
fn tails_are_right_to_twelve_digits_however_far_out() {
    let all = cases("distributions");
    for point in all["student"].as_array().unwrap() {
        let (t, freedom) = (number(&point["t"]), number(&point["freedom"]));
        let p = distribution::student_two_sided(t, freedom);
        // Rounding of the input changes a tail with many degrees of freedom by more than 1e-12.
        let tolerance = if freedom > 1e5 { 1e-10 } else { 1e-12 };
        close(p, &point["p"], tolerance, &format!("Student {t} {freedom}"));
        assert_eq!(p, distribution::student_two_sided(-t, freedom));
    }
    for point in all["student_quantile"].as_array().unwrap() {
        let (confidence, freedom) = (number(&point["confidence"]), number(&point["freedom"]));
        let t = distribution::student_quantile(confidence, freedom);
        close(t, &point["t"], 1e-11, &format!("quantile {confidence} {freedom}"));
    }
    for point in all["fisher"].as_array().unwrap() {
        let (f, freedom) = (number(&point["f"]), numbers(&point["freedom"]));
        close(
            distribution::fisher_upper(f, freedom[0], freedom[1]),
            &point["p"],
            1e-12,
            &format!("F {point}"),
        );
    }
    for point in all["normal"].as_array().unwrap() {
        close(
            distribution::normal_upper(number(&point["z"])),
            &point["p"],
            1e-12,
            &format!("normal {point}"),
        );
    }
    assert!((distribution::normal_quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-12);
}

#[test]
fn two_groups_are_compared_as_scipy_compares_them() {
    for case in cases("two_groups").as_array().unwrap() {
        let (first, second) = (numbers(&case["first"]), numbers(&case["second"]));
        let what = format!("{} and {} values", first.len(), second.len());
        let (one, other) = (Moments::of(&first).unwrap(), Moments::of(&second).unwrap());
        same_effect(&student::two_groups(&one, &other, 0.95).unwrap(), &case["student"], &what);
        same_effect(&welch::two_groups(&one, &other, 0.95).unwrap(), &case["welch"], &what);
        let ranks = mann_whitney::mann_whitney(&first, &second).unwrap();
        close(ranks.u, &case["mann_whitney"]["u"], 0.0, &what);
        close(ranks.p, &case["mann_whitney"]["p"], 1e-11, &what);
        if !case["brown_forsythe"].is_null() {
            let test = spread::brown_forsythe(&first, &second).unwrap();
            close(test.f, &case["brown_forsythe"]["f"], 1e-9, &what);
            close(test.p, &case["brown_forsythe"]["p"], 1e-9, &what);
        }
    }
}

#[test]
fn paired_differences_are_tested_as_scipy_and_enumeration_do() {
    for case in cases("paired").as_array().unwrap() {
        let differences = numbers(&case["differences"]);
        let what = format!("{} differences", differences.len());
        let effect = student::paired(&differences, 0.95).unwrap();
        same_effect(&effect, &case["t"], &what);
        let ranks = signed_rank::signed_rank(&differences, 0.95).unwrap();
        close(ranks.positive_ranks, &case["signed_rank"]["positive_ranks"], 0.0, &what);
        close(ranks.p, &case["signed_rank"]["p"], 1e-11, &what);
        close(ranks.interval.estimate, &case["hodges_lehmann"], 1e-12, &what);
        assert!(
            ranks.interval.lower <= ranks.interval.estimate
                && ranks.interval.estimate <= ranks.interval.upper
        );
        let margin = number(&case["equivalence"]["margin"]);
        close(equivalence::equivalence_p(&effect, margin), &case["equivalence"]["p"], 1e-9, &what);
    }
}

#[test]
fn the_interval_of_the_rank_estimate_is_that_of_the_tables() {
    // Twelve differences at 95 %: the critical value is 14 (P(W ≤ 13) = 0.0212, P(W ≤ 14) = 0.0261), so the interval runs
    // from the 14th mean to the 65th of 78.
    let differences: Vec<f64> = (1..=12).map(|k| f64::from(k * k)).collect();
    let mut means: Vec<f64> = Vec::new();
    for (i, a) in differences.iter().enumerate() {
        means.extend(differences[i..].iter().map(|b| f64::midpoint(*a, *b)));
    }
    means.sort_by(f64::total_cmp);
    let interval = signed_rank::signed_rank(&differences, 0.95).unwrap().interval;
    assert_eq!((interval.lower, interval.upper), (means[13], means[64]));
}

#[test]
fn several_questions_are_adjusted_for() {
    let all = cases("adjusted");
    let p = numbers(&all["p"]);
    for (actual, expected) in multiplicity::holm(&p).iter().zip(all["holm"].as_array().unwrap()) {
        close(*actual, expected, 1e-14, "Holm");
    }
    let adjusted = multiplicity::benjamini_hochberg(&p);
    for (actual, expected) in adjusted.iter().zip(all["benjamini_hochberg"].as_array().unwrap()) {
        close(*actual, expected, 1e-14, "Benjamini and Hochberg");
    }
}

#[test]
fn variance_is_split_between_links_and_runs() {
    let case = cases("variance_components");
    let builds: Vec<Vec<Vec<f64>>> = case["builds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|build| build.as_array().unwrap().iter().map(numbers).collect())
        .collect();
    let split = components::components(&builds).unwrap();
    close(split.between_links, &case["between_links"], 1e-9, "between links");
    close(split.within_links, &case["within_links"], 1e-9, "within links");
    close(split.p, &case["p"], 1e-9, "F test of links");
    assert!(components::components(&[vec![vec![1.0, 2.0]], vec![vec![1.0, 2.0]]]).is_none(), "one link each");
}

#[test]
fn a_machine_that_drifts_is_noticed() {
    let case = cases("steadiness");
    let runs: Vec<drift::TimedValue> = case["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| drift::TimedValue {
            link: number(&run["link"]) as usize,
            slot: number(&run["slot"]) as u32,
            at: number(&run["at"]),
            value: number(&run["value"]),
        })
        .collect();
    let stability = drift::stability(&runs).unwrap();
    close(stability.drift_per_hour, &case["drift_per_hour"], 1e-8, "drift");
    close(stability.drift_p, &case["drift_p"], 1e-7, "p of drift");
    close(stability.autocorrelation, &case["autocorrelation"], 1e-8, "autocorrelation");
    close(stability.slot_p, &case["slot_p"], 1e-7, "p of slots");
    close(stability.jitter, &case["jitter"], 1e-9, "jitter");
    assert!(stability.slot_effect > 0.03, "{stability:?}");
}

#[test]
fn effects_of_two_factors_and_their_interaction_come_back() {
    // Logarithms: −0.03 for lto, −0.055 for inlining, and 0.035 less gain with both.
    let builds = vec![vec![0, 0], vec![1, 0], vec![0, 1], vec![1, 1]];
    let logs = [4.0, 4.0 - 0.03, 4.0 - 0.055, 4.0 - 0.03 - 0.055 + 0.035];
    let contrasts = factorial::contrasts(&builds).unwrap();
    let value = |index: usize| contrasts[index].weights.iter().zip(logs).map(|(w, y)| w * y).sum::<f64>();
    assert_eq!(contrasts.len(), 3);
    assert!((value(0) - (-0.03 + 0.0175)).abs() < 1e-12, "the first factor, averaged over the second");
    assert!((value(1) - (-0.055 + 0.0175)).abs() < 1e-12);
    assert!((value(2) - 0.035).abs() < 1e-12);

    let mixed: Vec<Vec<usize>> = (0..3).flat_map(|a| (0..2).map(move |b| vec![a, b])).collect();
    let contrasts = factorial::contrasts(&mixed).unwrap();
    assert_eq!(contrasts.len(), 2 + 1 + 2);
    for contrast in &contrasts {
        assert!(contrast.weights.iter().sum::<f64>().abs() < 1e-12);
    }
    assert_eq!(factorial::contrasts(&mixed[..5]), Err(factorial::IncompleteFactorial::Missing(vec![2, 1])));
    assert_eq!(factorial::contrasts(&[vec![0], vec![0]]), Err(factorial::IncompleteFactorial::NoFactor));
    assert_eq!(
        factorial::contrasts(&[vec![0], vec![1], vec![1]]),
        Err(factorial::IncompleteFactorial::Twice(1, 2))
    );
}

#[test]
fn the_bootstrap_follows_its_seed_and_its_levels() {
    let link = |shift: f64| (0..20).map(|k| shift + f64::from(k % 5) * 0.01).collect::<Vec<f64>>();
    let (first, second) = (vec![link(1.10), link(1.12), link(1.08)], vec![link(1.0), link(1.02), link(0.98)]);
    let interval = bootstrap::hierarchical(&first, &second, 0.95, 1).unwrap();
    assert_eq!(Some(interval), bootstrap::hierarchical(&first, &second, 0.95, 1));
    assert!((interval.estimate - 0.1).abs() < 1e-12);
    // Both builds share the blocks, so these cancel out; the luck of the links remains.
    assert!(interval.lower > 0.05 && interval.lower < 0.09, "{interval:?}");
    assert!(interval.upper < 0.15 && interval.upper > 0.11, "{interval:?}");
    assert!(bootstrap::hierarchical(&first, &[vec![1.0]], 0.95, 1).is_none());
}

#[test]
fn effects_beyond_few_runs_are_known() {
    let least: Vec<f64> = (3..=7).map(power::least_signed_rank_p).collect();
    assert_eq!(least, [0.25, 0.125, 0.0625, 0.03125, 0.015_625]);
    let least: Vec<String> = (3..=7).map(|n| format!("{:.4}", power::least_mann_whitney_p(n, n))).collect();
    assert_eq!(least, ["0.1000", "0.0286", "0.0079", "0.0022", "0.0006"]);
    assert_eq!(power::pairs_needed(0.05), 6);
    assert_eq!(power::pairs_needed(0.05 / 3.0), 7);
    assert_eq!(power::runs_needed(0.05), 4);
    // t(34) = 2.032: 2.032 · 1.414 % / √35 = 0.486 %; with one block fewer, 34, the interval is too wide.
    assert_eq!(power::count_for_half_width(0.014_142, 0.005, 0.95), Some(34));
    assert_eq!(power::count_for_half_width(1.0, 1e-9, 0.95), None);
}

#[test]
fn values_that_never_vary_are_certain_and_single_ones_say_nothing() {
    let effect = student::paired(&[0.5, 0.5, 0.5], 0.95).unwrap();
    assert_eq!((effect.p, effect.interval.lower, effect.interval.upper), (0.0, 0.5, 0.5));
    assert_eq!(student::paired(&[0.0, 0.0], 0.95).unwrap().p, 1.0);
    assert!(student::paired(&[1.0], 0.95).is_none());
    assert!(signed_rank::signed_rank(&[], 0.95).is_none());
    assert_eq!(signed_rank::signed_rank(&[0.0, 0.0], 0.95).unwrap().p, 1.0);
    assert!(mann_whitney::mann_whitney(&[], &[1.0]).is_none());
    assert_eq!(mann_whitney::mann_whitney(&[1.0, 1.0], &[1.0]).unwrap().p, 1.0);
    assert!(Moments::of(&[]).is_none());
}
