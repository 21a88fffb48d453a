// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the documentation site: `scripts/site` builds it with the program's own help, and finds broken links.

use libtest_mimic::Trial;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{Need, case, root};

pub(crate) fn cases() -> Vec<Trial> {
    let built = [Need::Program("python3"), Need::CachedProgram("mdbook")];
    vec![
        case("it_is_built_within_a_minute_and_has_all_commands_and_schemas", &built, it_is_built),
        case("faults_of_a_site_are_found", &[Need::Program("python3")], faults_of_a_site_are_found),
    ]
}

/// Search words of readers, and the page that explains each.
const SEARCHES: &[(&str, &str)] = &[
    ("PGO", "docs/beyond-functions.html"),
    ("BOLT", "docs/background/neighbours.html"),
    ("huge pages", "docs/ordering.html"),
    ("memory", "docs/ordering.html"),
    ("reproducible", "docs/packaging.html"),
    ("record", "docs/recording.html"),
    ("privacy", "docs/privacy.html"),
];

/// Searches like the site's own script. Arguments are the folder of the site, then words; prints the first page for
/// each.
const SEARCH: &str = r"
const [folder, ...words] = process.argv.slice(1);
const read = name => require('fs').readFileSync(folder + '/' + name, 'utf8');
const elasticlunr = require(folder + '/elasticlunr.min.js');
const window = { search: {} };
eval(read('searchindex.js'));
const index = elasticlunr.Index.load(window.search.index);
for (const word of words) console.log(window.search.doc_urls[index.search(word, window.search.search_options)[0].ref]);
";

fn script() -> PathBuf {
    root().join("scripts/site")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn names(folder: PathBuf, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            entry.unwrap().file_name().to_string_lossy().strip_suffix(ending).map(str::to_owned)
        })
        .collect();
    found.sort();
    found
}

fn it_is_built() {
    let folder = tempfile::tempdir().unwrap();
    // Processor time, because the machine may be busy.
    let mut timed = Command::new("bash");
    timed.args(["-c", "TIMEFORMAT='%U %S'; time \"$@\"", "site"]).arg(script()).arg(folder.path());
    let output = timed.env("SEDIMENT", env!("CARGO_BIN_EXE_sediment")).output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let said = words(&output);
    let seconds = said.lines().last().unwrap_or_default().split(' ').map(|part| part.parse::<f64>().unwrap());
    assert!(seconds.sum::<f64>() < 60.0, "{said}");
    let manual = folder.path().join("manual");
    let written = Command::new(env!("CARGO_BIN_EXE_sediment")).arg("manual").arg(&manual).output().unwrap();
    assert!(written.status.success(), "{}", words(&written));
    let reference = folder.path().join("docs/reference");
    assert_eq!(names(reference.join("commands"), ".html"), names(manual.join("man1"), ".1"));
    assert_eq!(names(reference.join("json"), ".html"), names(root().join("docs/json"), ".schema.json"));
    let order = std::fs::read_to_string(reference.join("commands/sediment-order.html")).unwrap();
    assert!(order.contains("<h3 id=\"optimize-for\">"), "options have headings, which the search prefers");
    let eval = std::fs::read_to_string(reference.join("commands/sediment-eval.html")).unwrap();
    assert!(eval.contains("<dt><a href=\"sediment-eval-run.html\">"), "commands lead to their pages");
    if support::program("node").is_some() {
        let mut search = Command::new("node");
        search.args(["-e", SEARCH]).arg(folder.path()).args(SEARCHES.iter().map(|(word, _)| word));
        let output = search.output().unwrap();
        let found = words(&output);
        assert_eq!(found.lines().count(), SEARCHES.len(), "{found}");
        for ((word, page), first) in SEARCHES.iter().zip(found.lines()) {
            assert!(first.starts_with(page), "the search for {word} finds {first} first, not {page}");
        }
    }
    let tutorials = names(root().join("docs/tutorial"), ".md");
    assert_eq!(names(folder.path().join("docs/tutorial"), ".html"), tutorials);
}

fn faults_of_a_site_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    page("b.html", "<h1 id='b'>B</h1>");
    page(
        "a.html",
        "<p id='a'><a href='b.html#b'>1</a> <a href='#a'>2</a> <a href='https://example.org'>3</a></p>",
    );
    let check = || {
        let output = Command::new(script()).arg("--check").arg(folder.path()).output().unwrap();
        (output.status.success(), words(&output))
    };
    let (passes, said) = check();
    assert!(passes, "{said}");
    let faults = [
        ("<a href='c.html'>", "leads nowhere"),
        ("<img src='c.png'>", "leads nowhere"),
        ("<a href='b.html#c'>", "has no such anchor"),
        ("<p id='a'><p id='a'>", "occurs twice"),
        ("<script src='https://example.org/x.js'></script>", "not a file of the site"),
        ("<link href='//example.org/font.css'>", "not a file of the site"),
    ];
    for (text, fault) in faults {
        page("a.html", text);
        let (passes, said) = check();
        assert!(!passes && said.contains(fault), "{text}: {said}");
    }
    page("a.html", "");
    page("a.css", "@import url(https://example.org/font.css);");
    let (passes, said) = check();
    assert!(!passes && said.contains("a.css"), "{said}");
}
