// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a unified diff of a recipe.

use similar::TextDiff;

/// Returns the diff of a file, with its name in the form that `patch -p1` needs; empty if nothing differs. `before` is
/// `None` for a new file.
pub(super) fn unified(name: &str, before: Option<&str>, after: &str) -> String {
    // `patch` does not accept a path such as `a/./debian/control`.
    let name: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let name = name.join("/");
    let old_name = if before.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after);
    diff.unified_diff().header(&old_name, &format!("b/{name}")).to_string()
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
        assert_eq!(unified("./b//x", None, "a\n"), "--- /dev/null\n+++ b/b/x\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("x", None, "a\n"), "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n");
        let diff = unified("x", Some("a"), "a\nb\n");
        assert_eq!(diff, "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n");
    }
}
