// SPDX-License-Identifier: MIT OR Apache-2.0
//! A unified diff of two texts, by the shortest edit script.
//!
//! E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986): time and memory grow with the number of
//! changed lines, of which a recipe's change has few.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

/// A step from one text to the other, by the numbers of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Keep(usize, usize),
    Remove(usize),
    Add(usize),
}

/// The diff of a file, with its name as `patch -p1` takes it; empty where nothing differs. `before` is None for a new file.
pub(super) fn unified(name: &str, before: Option<&str>, after: &str) -> String {
    let (old, new) = (lines(before.unwrap_or_default()), lines(after));
    let steps = script(&old, &new);
    let changed: Vec<usize> =
        (0..steps.len()).filter(|index| !matches!(steps[*index], Step::Keep(..))).collect();
    let mut text = String::new();
    let mut next = 0;
    while next < changed.len() {
        // Changes whose context would touch share a hunk.
        let first = next;
        while next + 1 < changed.len() && changed[next + 1] - changed[next] <= 2 * CONTEXT + 1 {
            next += 1;
        }
        let from = changed[first].saturating_sub(CONTEXT);
        let to = (changed[next] + 1 + CONTEXT).min(steps.len());
        if text.is_empty() {
            let name = name.trim_start_matches('/');
            let old_name = if before.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
            let _ = write!(text, "--- {old_name}\n+++ b/{name}\n");
        }
        hunk(&mut text, &steps[..from], &steps[from..to], &old, &new);
        next += 1;
    }
    text
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn hunk(text: &mut String, passed: &[Step], steps: &[Step], old: &[&str], new: &[&str]) {
    let count =
        |steps: &[Step], counted: fn(&Step) -> bool| steps.iter().filter(|step| counted(step)).count();
    let is_old: fn(&Step) -> bool = |step| !matches!(step, Step::Add(_));
    let is_new: fn(&Step) -> bool = |step| !matches!(step, Step::Remove(_));
    // A range without lines is named after the line in front of it.
    let range = |counted: fn(&Step) -> bool| {
        let (before, length) = (count(passed, counted), count(steps, counted));
        format!("{},{length}", if length == 0 { before } else { before + 1 })
    };
    let _ = writeln!(text, "@@ -{} +{} @@", range(is_old), range(is_new));
    for step in steps {
        let (sign, line) = match *step {
            Step::Keep(index, _) => (' ', old[index]),
            Step::Remove(index) => ('-', old[index]),
            Step::Add(index) => ('+', new[index]),
        };
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The shortest way from one text to the other.
fn script(old: &[&str], new: &[&str]) -> Vec<Step> {
    let most = old.len() + new.len();
    // `furthest[most + k]`: how far into the old text a path on diagonal k (old less new) came.
    let mut furthest = vec![0_usize; 2 * most + 2];
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    'search: for edits in 0..=most {
        rounds.push(furthest[most - edits..=most + edits].to_vec());
        for step in 0..=edits {
            let diagonal = most + 2 * step - edits;
            let down = step == 0 || (step < edits && furthest[diagonal - 1] < furthest[diagonal + 1]);
            let mut x = if down { furthest[diagonal + 1] } else { furthest[diagonal - 1] + 1 };
            let mut y = x + most - diagonal;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[diagonal] = x;
            if x >= old.len() && y >= new.len() {
                break 'search;
            }
        }
    }
    back(old.len(), new.len(), most, &rounds)
}

/// Follows the rounds of the search back from the end.
fn back(mut x: usize, mut y: usize, most: usize, rounds: &[Vec<usize>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for edits in (0..rounds.len()).rev() {
        let at = |diagonal: usize| rounds[edits].get(diagonal + edits - most).copied().unwrap_or(0);
        let diagonal = most + x - y;
        if edits == 0 {
            while x > 0 && y > 0 {
                (x, y) = (x - 1, y - 1);
                steps.push(Step::Keep(x, y));
            }
            break;
        }
        let lowest = diagonal == most - edits;
        let highest = diagonal == most + edits;
        let down = lowest || (!highest && at(diagonal - 1) < at(diagonal + 1));
        let before = if down { diagonal + 1 } else { diagonal - 1 };
        let from_x = at(before);
        let from_y = from_x + most - before;
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            steps.push(Step::Keep(x, y));
        }
        if down {
            y -= 1;
            steps.push(Step::Add(y));
        } else {
            x -= 1;
            steps.push(Step::Remove(x));
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_stand_between_their_neighbours() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nd\nnew\ne\nf\ng\nh\n";
        assert_eq!(
            unified("recipe", Some(before), after),
            "--- a/recipe\n+++ b/recipe\n@@ -2,6 +2,7 @@\n b\n c\n d\n+new\n e\n f\n g\n"
        );
    }

    #[test]
    fn far_changes_are_hunks_of_their_own_and_equal_texts_none() {
        let before: String = (0..40).map(|line| format!("{line}\n")).collect();
        let after = before.replace("5\n", "five\n").replace("39\n", "39\n40\n");
        let diff = unified("x", Some(&before), &after);
        assert!(diff.matches("@@ -").count() >= 2, "{diff}");
        assert_eq!(unified("x", Some(&before), &before), "");
    }

    #[test]
    fn a_new_file_and_a_missing_end_of_line() {
        assert_eq!(unified("x", None, "a\n"), "--- /dev/null\n+++ b/x\n@@ -0,0 +1,1 @@\n+a\n");
        let diff = unified("x", Some("a"), "a\nb\n");
        assert_eq!(diff, "--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n");
    }

    #[test]
    fn every_script_leads_from_one_text_to_the_other() {
        let mut numbers = sediment::random::Generator::new(7);
        for _ in 0..500 {
            let mut text = || -> Vec<String> {
                (0..numbers.below(12)).map(|_| format!("{}\n", numbers.below(4))).collect()
            };
            let (old, new) = (text(), text());
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            let (mut from, mut to) = (Vec::new(), Vec::new());
            for step in script(&old, &new) {
                match step {
                    Step::Keep(x, y) => {
                        assert_eq!(old[x], new[y]);
                        from.push(x);
                        to.push(y);
                    }
                    Step::Remove(x) => from.push(x),
                    Step::Add(y) => to.push(y),
                }
            }
            assert_eq!(from, (0..old.len()).collect::<Vec<_>>());
            assert_eq!(to, (0..new.len()).collect::<Vec<_>>());
        }
    }
}
