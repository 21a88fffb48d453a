// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of perf report: each says what the folded form of the same stacks says.

use sediment_core::skipped::Reason;
use sediment_core::{ErrorCode, Location};
use sediment_read::read::{self, Recording, Settings, StackOrder};
use std::time::Instant;
use support::describe::place;
use support::perf_script_text::{Program, Truth};
use support::perf_tree_text::{Report, Shape, Stacks, print_report};
use support::read;

const FOLDED: Report = Report {
    shape: Shape::Folded,
    callers_first: true,
    separator: None,
    samples: true,
    period: false,
    in_periods: false,
    limit: 0,
    carriage_returns: false,
};
const LEFT_OUT: Reason = Reason::UnprintedStack;
const PERHAPS_CUT: Reason = Reason::CutStack;

/// Stacks of few functions, so that many end within others and many call themselves.
fn stacks(functions: usize, samples: usize, seed: u64) -> Stacks {
    let program = Program::generate(functions, samples, seed);
    let mut stacks = Stacks::new();
    for (_, period, stack) in &program.stacks {
        let stack = stack.iter().map(|function| program.functions[*function].name.clone()).collect();
        *stacks.entry(stack).or_default() += 1 + period % 90;
    }
    stacks
}

fn truth(recording: &Recording) -> Truth {
    let mut truth = Truth::default();
    for (from, to, _, count) in recording.transfers() {
        *truth.calls.entry((place(recording, from), place(recording, to))).or_default() += count;
    }
    for (id, cost) in recording.samples() {
        *truth.costs.entry(place(recording, id)).or_default() += cost;
    }
    truth
}

fn weight(recording: &Recording, reason: Reason) -> u128 {
    recording.skipped.weight(|why| why == reason)
}

fn forms() -> Vec<Report> {
    let mut forms = Vec::new();
    for shape in [Shape::Tree, Shape::Flat] {
        for callers_first in [true, false] {
            for separator in [None, Some('|')] {
                for (samples, period) in [(true, false), (true, true)] {
                    for in_periods in [false, period] {
                        let carriage_returns = separator.is_some() && period;
                        let form = Report { shape, callers_first, separator, ..FOLDED };
                        forms.push(Report { samples, period, in_periods, carriage_returns, ..form });
                    }
                }
            }
        }
    }
    forms
}

#[test]
fn trees_say_what_folded_stacks_say() {
    for (functions, samples, seed) in [(40, 200, 5), (4, 120, 6), (3, 60, 7), (12, 400, 8), (30, 3, 9)] {
        let stacks = stacks(functions, samples, seed);
        for form in forms() {
            if form.in_periods && form.shape == Shape::Tree && stacks.len() < 4 {
                // Where no count is printed, samples are as good as periods.
                continue;
            }
            let folded = print_report(&stacks, Report { shape: Shape::Folded, ..form });
            let folded = read(folded.as_bytes()).unwrap();
            let text = print_report(&stacks, form);
            let tree = read(text.as_bytes()).unwrap_or_else(|error| panic!("{form:?}: {error}\n{text}"));
            assert_eq!(truth(&tree), truth(&folded), "{form:?}\n{text}");
            assert_eq!((tree.total, &tree.source), (folded.total, &folded.source), "{form:?}");
            assert_eq!(tree.seen, folded.seen, "{form:?}");
            assert_eq!(tree.skipped.items(LEFT_OUT), 0, "{form:?}");
            let of_callers = form.callers_first || form.shape == Shape::Flat;
            assert!(!of_callers || tree.skipped.items(PERHAPS_CUT) == 0, "{form:?}");
        }
    }
}

#[test]
fn stacks_cut_by_the_limit_are_counted() {
    let stacks = stacks(8, 300, 11);
    let all = u128::from(stacks.values().sum::<u64>());
    let whole = truth(&read(print_report(&stacks, FOLDED).as_bytes()).unwrap());
    let mut cut = 0;
    for limit in [20, 60, 90, 150] {
        for form in forms().into_iter().filter(|form| !form.in_periods) {
            let text = print_report(&stacks, Report { limit, ..form });
            let printed = text.lines().any(|line| line.starts_with("           "));
            let order = if form.callers_first { StackOrder::CallerFirst } else { StackOrder::CalleeFirst };
            let told = Settings { stacks: Some(order), ..Settings::default() };
            let tree = match read(text.as_bytes()) {
                Ok(tree) => tree,
                // Where most ends are cut, nothing shows the direction.
                Err(error) if error.to_string().contains("which end") => {
                    read::read(&text.as_bytes(), &told).unwrap()
                }
                Err(error) => {
                    assert!(!printed, "{form:?}: {error}\n{text}");
                    continue;
                }
            };
            let known = truth(&tree);
            for (call, count) in &known.calls {
                assert!(whole.calls.get(call).is_some_and(|all| all >= count), "{form:?}: {call:?}\n{text}");
            }
            for (name, cost) in &known.costs {
                assert!(whole.costs[name] >= *cost, "{form:?}: {name}\n{text}");
            }
            let left_out = weight(&tree, LEFT_OUT);
            assert_eq!(known.costs.values().sum::<u128>() + left_out, all, "{form:?}\n{text}");
            cut += left_out;
        }
    }
    assert!(cut > 0);
}

#[test]
fn without_a_number_of_samples_printed_counts_alone_are_read() {
    let stacks = stacks(12, 400, 8);
    let counted = truth(&read(print_report(&stacks, FOLDED).as_bytes()).unwrap());
    for callers_first in [true, false] {
        // With and without periods, which are no numbers of samples.
        for period in [false, true] {
            let form = Report { shape: Shape::Tree, callers_first, samples: false, period, ..FOLDED };
            let text = print_report(&stacks, form);
            let outcome = read(text.as_bytes());
            // Towards callers, each tree has one root.
            assert!(callers_first || text.contains("---"));
            if text.contains("---") {
                let error = outcome.map(|_| ()).unwrap_err();
                assert_eq!(error.location(), Some(Location::Line(6)), "{error}");
            } else {
                assert_eq!(truth(&outcome.unwrap()), counted);
            }
        }
        let form = Report { shape: Shape::Tree, callers_first, samples: false, period: true, ..FOLDED };
        let form = Report { in_periods: true, ..form };
        let periods = truth(&read(print_report(&stacks, form).as_bytes()).unwrap());
        let folded = Report { shape: Shape::Folded, ..form };
        assert_eq!(periods, truth(&read(print_report(&stacks, folded).as_bytes()).unwrap()));
        // The flat form prints every count.
        let form = Report { shape: Shape::Flat, period: false, in_periods: false, ..form };
        assert_eq!(truth(&read(print_report(&stacks, form).as_bytes()).unwrap()), counted);
    }
}

#[test]
fn trees_that_show_no_direction_need_to_be_told() {
    let text = "# Samples: 9  of event 'cycles:u'\n#\n# Overhead       Samples  Command\n   100.00%             9  \
         prog\n            |\n            ---a\n               b\n               |          \n                \
         --4--c\n";
    let error = read(text.as_bytes()).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Ambiguous, "{error}");
    assert!(error.hint().unwrap().contains("--stacks callee-first"), "{error:?}");
    let text = text.as_bytes();
    for (stacks, own) in
        [(StackOrder::CallerFirst, ["-:b 5", "-:c 4"]), (StackOrder::CalleeFirst, ["-:a 9", ""])]
    {
        let settings = Settings { stacks: Some(stacks), ..Settings::default() };
        let recording = read::read(&text, &settings).unwrap();
        let costs: Vec<String> =
            truth(&recording).costs.iter().map(|(name, cost)| format!("{name} {cost}")).collect();
        assert_eq!(costs, own.into_iter().filter(|own| !own.is_empty()).collect::<Vec<_>>());
        assert_eq!(weight(&recording, PERHAPS_CUT), 5, "b ended there, or what followed was cut");
    }
}

#[test]
fn trees_made_to_take_time_take_none() {
    let head = format!(
        "# Samples: 9  of event 'cycles:u'\n#\n# Overhead       Samples  Shared Object  Symbol\n   100.00%{:>14}  \
         prog           [.] z\n",
        9_000_000_000u64
    );
    let chain =
        |deep: usize| format!("            |\n            ---a\n{}", "               b\n".repeat(deep));
    let leaf = "               |--1--z\n";
    // All stacks together would be 10^10 frames.
    let text = format!("{head}{}{}", chain(100_000), leaf.repeat(100_000));
    let began = Instant::now();
    let error = read(text.as_bytes()).map(|_| ()).unwrap_err();
    assert_eq!(error.location(), Some(Location::Line(6)), "{error}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    // As deep as perf goes unless told otherwise, and far deeper.
    for (deep, wide) in [(126, 2000), (200_000, 1)] {
        let text = format!("{head}{}{}", chain(deep), leaf.repeat(wide));
        let recording = read(text.as_bytes()).unwrap();
        assert_eq!(truth(&recording).calls[&("-:b".to_owned(), "prog:z".to_owned())], wide as u128);
    }
    // Levels that only get deeper, a line each.
    let mut text = head;
    for depth in 0..1000 {
        text += &format!("{}--{}--z\n", " ".repeat(13 + 11 * depth), 2000 - depth);
    }
    assert_eq!(truth(&read(text.as_bytes()).unwrap()).calls.values().sum::<u128>(), 1999);
}
