// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reasons for skipped items: each has its own code and text, and the program uses their types.

use sediment_core::Skipped;
use sediment_core::skipped::{Amount, NoCall, Nowhere, Reason, Side};
use std::collections::BTreeSet;
use support::{self, read};

fn all() -> Vec<Reason> {
    let mut all = Reason::ALL.to_vec();
    all.extend(NoCall::ALL.iter().map(|why| Reason::NoCall(*why)));
    for (amount, why) in
        Amount::ALL.iter().flat_map(|amount| Nowhere::ALL.iter().map(move |why| (amount, why)))
    {
        all.extend(Side::ALL.iter().map(|side| Reason::Nowhere(*amount, *why, *side)));
    }
    all
}

#[test]
fn codes_and_texts_tell_reasons_apart() {
    let reasons = all();
    let codes: BTreeSet<String> = reasons.iter().map(|reason| reason.code()).collect();
    let texts: BTreeSet<String> = reasons.iter().map(Reason::to_string).collect();
    assert_eq!((codes.len(), texts.len()), (reasons.len(), reasons.len()));
    // Programs recognise reasons by these codes: if one changes, the changelog must say so.
    let mut parts: Vec<String> = Reason::ALL.iter().map(|reason| reason.code()).collect();
    parts.extend(Amount::ALL.iter().map(|amount| amount.code()));
    parts.extend(Nowhere::ALL.iter().map(|why| why.code()));
    parts.extend(NoCall::ALL.iter().map(|why| why.code()));
    support::golden("skipped/codes.txt", &(parts.join("\n") + "\n"));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    for code in codes {
        assert!(code.split('-').all(is_word), "{code}");
    }
}

#[test]
fn a_reason_with_parts_is_told_by_all_of_them() {
    let there = Reason::Nowhere(Amount::Branches, Nowhere::Unmapped, Side::To);
    assert_eq!(there.code(), "branches-unmapped-to");
    assert_eq!(Nowhere::Kernel.of(Amount::Calls).code(), "calls-kernel");
    assert_eq!(Reason::NoCall(NoCall::Return).code(), "no-call-return");
}

#[test]
fn reasons_come_in_the_order_of_their_texts() {
    let mut skipped = Skipped::default();
    all().into_iter().for_each(|reason| skipped.add(reason, 1, ""));
    assert!(skipped.iter().map(|(reason, _)| reason.to_string()).is_sorted());
}

/// In each text, main calls f, and f calls code that was compiled while the program ran. So half of the calls, and all
/// of the own cost, belong to this code.
#[test]
fn code_that_was_compiled_while_running_is_told_by_type() {
    let chain = "a 1/1 5.000001:  3 cycles:u: \n\t 10 jitted (/tmp/perf-1.map)\n\t 20 f (/opt/tool)\n\t 30 main (/opt/tool)\n\n";
    let heads =
        "# Samples: 3  of event 'cpu-clock:u'\n# Overhead  Shared Object  Symbol\n# ........  ........\n";
    let stacks = format!("{heads}   100.00%  perf-1.map  [.] jitted\n3 main;f;jitted\n\n");
    for text in ["main;f;jitted_[j] 3\n", chain, &stacks] {
        let skipped = read(text.as_bytes()).unwrap().skipped;
        let of = |cost: bool| skipped.weight(|why| why.is_compiled_code() && why.is_own_cost() == cost);
        assert_eq!((of(true), of(false)), (3, 3), "{text}: {skipped:?}");
        assert_eq!(skipped.weight(|_| true), 6, "{text}: {skipped:?}");
    }
    let report = support::root().join("tests/golden/read/perf-report/old-perf-marks-the-sample/input");
    let skipped = read(&std::fs::read(report).unwrap()).unwrap().skipped;
    assert_eq!(skipped.weight(Reason::is_compiled_code), 1, "{skipped:?}");
}
