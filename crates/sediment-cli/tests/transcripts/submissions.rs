// SPDX-License-Identifier: MIT OR Apache-2.0
//! Merges of users' submissions into a package's profile; comparisons of profiles as text and in git; the pages of the
//! manual.

use crate::running::{code, done, err, sediment};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A recording of one program: functions that main calls, with their numbers of calls.
fn recording(folder: &Path, name: &str, calls: &[(&str, u64)]) {
    let total: u64 = calls.iter().map(|(_, count)| count).sum();
    let mut text = format!(
        "digraph Callgraph {{\n  graph [sediment=2, source=\"test\", unit=calls, total={total}, arch=\"x86_64\"];\n  \
         subgraph cluster0 {{\n    graph [label=\"app\"];\n    \"main\";\n"
    );
    for (function, _) in calls {
        text += &format!("    \"{function}\";\n");
    }
    text += "  }\n";
    for (function, count) in calls {
        text += &format!("  \"main\" -> \"{function}\" [label=0.1, count={count}];\n");
    }
    std::fs::write(folder.join(name), text + "}\n").unwrap();
}

/// The same for a program that also calls a library.
fn of_library(folder: &Path, name: &str, calls: &[(&str, u64)], of_library: u64) {
    recording(folder, name, calls);
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let total: u64 = calls.iter().map(|(_, count)| count).sum();
    let library = format!(
        "  subgraph cluster1 {{\n    graph [label=\"libc.so.6\"];\n    \"printf\";\n  }}\n  \"main\" -> \"printf\" [label=0.1, count={of_library}];\n}}\n"
    );
    let text = text.replace(&format!("total={total}"), &format!("total={}", total + of_library));
    std::fs::write(folder.join(name), text.strip_suffix("}\n").unwrap().to_owned() + &library).unwrap();
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), "one.gv", &[("query", 80), ("sort", 20)]);
    recording(folder.path(), "two.gv", &[("query", 7000), ("sort", 2000), ("vacuum", 1000)]);
    recording(folder.path(), "old.gv", &[("removed", 5), ("query", 1)]);
    folder
}

#[test]
fn a_profile_is_begun_and_grows_as_a_merge_does() {
    let folder = folder();
    let at = folder.path();
    done(&sediment(at, &["merge", "--into", "app.gv", "one.gv"]));
    let said = done(&sediment(at, &["merge", "--into", "app.gv", "two.gv"]));
    for share in [" 50.00 % of 1 recording, 3 functions\n", " 50.00 %: two.gv\n", " 5.00 % ", " 90.00 %\n"] {
        assert!(said.contains(share), "{share}: {said}");
    }
    done(&sediment(at, &["merge", "one.gv", "two.gv", "-o", "at-once.gv"]));
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("app.gv") == read("at-once.gv"));
}

#[test]
fn who_sends_much_counts_no_more_than_the_cap() {
    let folder = folder();
    let at = folder.path();
    for name in ["three.gv", "four.gv"] {
        recording(at, name, &[("query", 1), ("sort", 1)]);
    }
    let arguments = [
        "merge", "--into", "app.gv", "--cap", "40", "--from", "ada", "one.gv", "two.gv", "--from", "ben",
        "three.gv", "--from", "eve", "four.gv",
    ];
    let said = done(&sediment(at, &arguments));
    for name in ["one.gv", "two.gv"] {
        assert!(said.contains(&format!(" 20.00 %: {name} from ada, weight 0.666666666 ")), "{said}");
    }
    assert!(said.contains(" 30.00 %: three.gv from ben\n"), "{said}");
    assert!(said.contains(" 30.00 %: four.gv from eve\n") && said.contains(" 96.00 %\n"), "{said}");
    let refused = sediment(at, &["merge", "--into", "other.gv", "--cap", "40", "one.gv", "two.gv"]);
    assert_eq!(code(&refused), 2);
    assert!(err(&refused).contains(" 40 % "), "{}", err(&refused));
    assert!(!at.join("other.gv").exists());
}

/// With -o these options would have no effect, and -o would write a result that was only to be tried. Sums of rows, as
/// SQL makes them.
const SUMS: &str = "
import json, sqlite3, sys
columns = ['kind', 'dso', 'name', 'file', 'callee_dso', 'callee_name', 'callee_file', 'detail', 'weight', 'first_use']
table = sqlite3.connect(':memory:')
table.execute('CREATE TABLE facts (kind, dso, name, file, callee_dso, callee_name, callee_file, detail, weight, first_use)')
for line in open('rows.json'):
    row = json.loads(line)
    table.execute('INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', [row[column] for column in columns])
subject = ', '.join(columns[:8])
sums = table.execute(f'SELECT {subject}, SUM(CAST(weight AS INTEGER)), MIN(first_use) FROM facts GROUP BY {subject}')
with open('sums.json', 'w') as out:
    for row in sums:
        out.write(json.dumps(dict(zip(columns, row))) + '\\n')
";

#[test]
fn sums_of_a_query_engine_are_the_merged_profile() {
    let folder = folder();
    let at = folder.path();
    let inputs = ["one.gv", "two.gv", "old.gv"];
    done(&sediment(at, &["merge", "one.gv", "two.gv", "old.gv", "-o", "merged.gv"]));
    let merged = std::fs::read_to_string(at.join("merged.gv")).unwrap();
    done(&sediment(at, &["export", "--format", "rows", "old.gv", "one.gv", "two.gv", "-o", "rows.json"]));
    let rows = std::fs::read_to_string(at.join("rows.json")).unwrap();
    let numbers =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["profile"].as_u64().unwrap();
    assert_eq!(rows.lines().map(numbers).max(), Some(inputs.len() as u64 - 1));
    // Rows that were not added up, in another order.
    let reversed: Vec<&str> = rows.lines().rev().collect();
    std::fs::write(at.join("reversed.json"), reversed.join("\n")).unwrap();
    assert_eq!(done(&sediment(at, &["merge", "reversed.json"])), merged);
    let python = Command::new("python3").args(["-c", SUMS]).current_dir(at).output();
    let Ok(python) = python else { return support::skip("python3 is missing") };
    assert!(python.status.success(), "{python:?}");
    assert_eq!(done(&sediment(at, &["merge", "sums.json"])), merged);
    for (line, told) in [
        ("{\"kind\": \"call\"", ":1: "),
        ("{\"kind\": \"often\"}", " `kind`"),
        ("{\"kind\": \"function\", \"name\": \"a\\u0000\"}", ":1: `name` "),
        ("{\"kind\": \"function\", \"name\": \"a\", \"weight\": -1}", ":1: `weight` "),
        ("{\"kind\": \"library\", \"detail\": \"package=\\t../x\"}", " library "),
        ("{\"kind\": \"total\", \"weight\": 1}", " no row "),
    ] {
        std::fs::write(at.join("bad.json"), line).unwrap();
        let refused = sediment(at, &["merge", "bad.json"]);
        assert_eq!(code(&refused), 1, "{line}");
        let said = err(&refused);
        assert!(said.starts_with("sediment: bad.json:") && said.contains(told), "{line}: {said}");
    }
}

#[test]
fn options_of_into_are_refused_without_it() {
    let folder = folder();
    let at = folder.path();
    for option in [
        &["--dry-run"][..],
        &["--cap", "40"],
        &["--from", "ada"],
        &["--against", "app"],
        &["--against", "app", "--min-coverage", "60"],
    ] {
        for rest in [&["one.gv", "-o", "out.gv"][..], &["one.gv", "two.gv"], &["--normalize", "one.gv"]] {
            let refused = sediment(at, &[&["merge"], option, rest].concat());
            assert_eq!(code(&refused), 2, "{option:?} {rest:?}");
            let told = format!("sediment: {} needs --into\n", option[0]);
            assert!(err(&refused).starts_with(&told), "{}", err(&refused));
            assert_eq!(crate::running::out(&refused), "");
            assert!(!at.join("out.gv").exists(), "{option:?} {rest:?}");
        }
    }
}

#[test]
fn submissions_of_another_version_are_skipped() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(
        at.join("app.c"),
        "__attribute__((noinline)) int query(int x) { return x * 3; }\n__attribute__((noinline)) int sort(int x) { return x + 7; }\n\
         __attribute__((noinline)) int vacuum(int x) { return x - 7; }\nint main(int n, char **w) { (void)w; return query(n) + sort(n) + vacuum(n); }\n",
    )
    .unwrap();
    let built = Command::new("cc").args(["-O1", "app.c", "-o", "app"]).current_dir(at).status();
    if !built.is_ok_and(|status| status.success()) {
        return support::skip("cc is missing");
    }
    let arguments =
        ["merge", "--into", "app.gv", "--against", "app", "--min-coverage", "60", "one.gv", "old.gv"];
    let output = sediment(at, &arguments);
    let said = done(&output);
    assert!(said.contains(" 100.00 %: one.gv\n") && !said.contains("old.gv"), "{said}");
    let skipped = err(&output);
    for datum in ["skipped old.gv: ", " 16.66 % ", " 60.00 %\n"] {
        assert!(skipped.contains(datum), "{datum}: {skipped}");
    }
    let arguments = ["merge", "--into", "app.gv", "--against", "app", "--min-coverage", "60", "old.gv"];
    assert_eq!(code(&sediment(at, &arguments)), 5);
    // Functions of libraries are distinguished from functions that the build no longer has; without any function of the
    // build nothing can be judged.
    of_library(at, "mixed.gv", &[("query", 1)], 3);
    of_library(at, "strange.gv", &[], 3);
    let arguments =
        ["merge", "--into", "new.gv", "--against", "app", "--min-coverage", "0", "mixed.gv", "strange.gv"];
    let output = sediment(at, &arguments);
    let said = done(&output);
    assert!(said.contains(" 100.00 %: mixed.gv\n") && !said.contains("strange.gv"), "{said}");
    // Of its own weight, and of the whole profile's.
    assert_eq!(said.matches(" 25.00 % of ").count(), 2, "{said}");
    assert!(err(&output).contains("skipped strange.gv: ") && err(&output).contains(" 0.01 % "), "{output:?}");
    let said = done(&sediment(at, &["merge", "--into", "any.gv", "--against", "app", "strange.gv"]));
    assert_eq!(said.matches("no part of ").count(), 2, "{said}");
    let before = std::fs::read(at.join("app.gv")).unwrap();
    done(&sediment(at, &["merge", "--into", "app.gv", "--dry-run", "two.gv"]));
    assert!(std::fs::read(at.join("app.gv")).unwrap() == before);
}

#[test]
fn a_difference_in_words() {
    let folder = folder();
    let said = done(&sediment(folder.path(), &["diff", "one.gv", "two.gv"]));
    for share in [" 90.00 % ", " 10.00 %  vacuum [app]\n", " 80.00 % -> 70.00 %  query [app]\n"] {
        assert!(said.contains(share), "{share}: {said}");
    }
    assert!(!said.contains("gone"), "{said}");
    let same = done(&sediment(folder.path(), &["diff", "one.gv", "one.gv"]));
    assert!(same.contains("100.00 %") && !same.contains("query"), "{same}");
}

/// git shows the change of a profile as readable lines.
#[test]
fn git_compares_by_lines() {
    let folder = folder();
    let at = folder.path();
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .arg("-c")
            .arg(format!("diff.sediment.textconv={} diff", env!("CARGO_BIN_EXE_sediment")))
            .args(arguments)
            .current_dir(at)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", err(&output));
        crate::running::out(&output)
    };
    std::fs::copy(at.join("one.gv"), at.join("app.gv")).unwrap();
    std::fs::write(at.join(".gitattributes"), "*.gv diff=sediment\n").unwrap();
    git(&["init", "-q"]);
    git(&["add", "app.gv", ".gitattributes"]);
    git(&["commit", "-q", "-m", "profile"]);
    std::fs::copy(at.join("two.gv"), at.join("app.gv")).unwrap();
    let said = git(&["diff"]);
    for line in
        ["-query [app] 80.00 %", "+query [app] 70.00 %", " sort [app] 20.00 %", "+vacuum [app] 10.00 %"]
    {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

/// git stops at a file that cannot be shown.
#[test]
fn other_files_are_compared_as_text() {
    let folder = folder();
    let at = folder.path();
    for (text, shown) in
        [("graph Drawing { a -- b; }\n", "graph Drawing"), ("", ""), ("\u{1b}[31mjunk", "\\u{1b}[31mjunk")]
    {
        std::fs::write(at.join("other.gv"), text).unwrap();
        let said = done(&sediment(at, &["diff", "other.gv"]));
        assert!(said.starts_with("not a profile: ") && said.contains(shown), "{said}");
        assert_ne!(code(&sediment(at, &["diff", "other.gv", "one.gv"])), 0);
    }
    assert_eq!(code(&sediment(at, &["diff", "none.gv"])), 1);
}

/// A compiler's estimates are not shares of a run.
#[test]
fn a_profile_that_counts_nothing_is_shown_without_shares() {
    let folder = folder();
    let at = folder.path();
    let graph = "digraph Callgraph {\n  graph [sediment=2, source=\"gcc\", unit=calls, total=0];\n  \
        \"main\" -> \"work\" [label=0.000000, static=2.500000, kind=direct];\n}\n";
    std::fs::write(at.join("graph.gv"), graph).unwrap();
    let said = done(&sediment(at, &["diff", "graph.gv"]));
    assert!(said.ends_with("\nmain\nwork\nmain -> work estimated 2.50 for each\n"), "{said}");
}

/// As in the page on packaging.
#[test]
fn kept_profile_fades_by_its_own_weight() {
    let folder = folder();
    let at = folder.path();
    let arguments = ["merge", "--dry-run", "-w", "0.5", "--into", "one.gv", "-w", "1", "two.gv"];
    let said = done(&sediment(at, &arguments));
    assert!(said.contains(" 33.33 % of 1 recording") && said.contains(" 66.66 %: two.gv\n"), "{said}");
    let refused = sediment(at, &["merge", "-w", "0", "--into", "one.gv", "two.gv"]);
    assert_eq!(code(&refused), 2);
    let refused = sediment(at, &["merge", "--into", "/dev/zero", "two.gv"]);
    assert_eq!(code(&refused), 1);
    assert!(err(&refused).starts_with("sediment: /dev/zero: "), "{}", err(&refused));
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(&sediment(at, &["manual", "one"]));
    done(&sediment(at, &["manual", "two"]));
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let mut pages: Vec<String> = std::fs::read_dir(at.join("one/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in [
        "sediment.1",
        "sediment-merge.1",
        "sediment-package-deb.1",
        "sediment-eval-quick.1",
        "perf2gv.1",
        "gv2link.1",
        "gen_profiles.1",
        "gen_profile_merge.1",
        "gen_link_order.1",
    ] {
        assert!(pages.iter().any(|found| found == page), "{page} of {pages:?}");
    }
    for page in &pages {
        let text = read(&format!("one/man1/{page}"));
        assert_eq!(text, read(&format!("two/man1/{page}")));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    let help = done(&sediment(at, &["--help"]));
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in listed.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()) {
        assert!(command == "help" || pages.contains(&format!("sediment-{command}.1")), "{command}");
    }
    for file in ["bash/sediment", "zsh/_sediment", "fish/sediment.fish"] {
        assert!(read(&format!("one/{file}")).contains("min-coverage"), "{file}");
    }
}

#[test]
fn names_of_packages_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(&sediment(at, &["manual", "manual"]));
    // A package manager with three packages.
    let bin = at.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("dpkg-query"), "#!/bin/sh\nprintf 'bash\\nbash-doc\\njq\\n'\n").unwrap();
    std::fs::set_permissions(bin.join("dpkg-query"), PermissionsExt::from_mode(0o755)).unwrap();
    let completed = |words: &[&str]| {
        let script = format!(
            "source manual/bash/sediment; COMP_WORDS=({}); COMP_CWORD={}; _sediment_with_packages sediment '{}' '{}'; echo ${{COMPREPLY[*]}}",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1].trim_matches('\''),
            words[words.len() - 2],
        );
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script]).current_dir(at).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let output = bash.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed(&["sediment", "collect", "ba"]), "bash bash-doc");
    assert_eq!(completed(&["sediment", "collect", "bash", "''"]), "bash bash-doc jq");
    // After options without a value, of the command and of the program.
    for words in [
        &["sediment", "collect", "-v", "ba"][..],
        &["sediment", "collect", "--all", "ba"],
        &["sediment", "-v", "collect", "ba"],
    ] {
        assert_eq!(completed(words), "bash bash-doc", "{words:?}");
    }
    // Not at the position of an option's value, an option or a command.
    assert_eq!(completed(&["sediment", "collect", "--show", "--ro"]), "--root");
    for elsewhere in [
        &["sediment", "collect", "--method", "b"][..],
        &["sediment", "-v", "collect", "-o", "ba"],
        &["sediment", "collect", "jq", "--", "ba"],
    ] {
        assert!(!completed(elsewhere).contains("bash"), "{elsewhere:?}");
    }
    assert!(!completed(&["sediment", "show", "ba"]).contains("bash"));
    for (file, action) in
        [("zsh/_sediment", ":_sediment_packages'"), ("fish/sediment.fish", "(__fish_sediment_packages)")]
    {
        let text = std::fs::read_to_string(at.join("manual").join(file)).unwrap();
        assert_eq!(text.matches(action).count(), 1, "{file}");
    }
}
