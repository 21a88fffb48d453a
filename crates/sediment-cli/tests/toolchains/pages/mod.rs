// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the commands in the README and all pages. Each block of commands has a mark. Blocks marked to be run are run as
//! written, one after the other in one shell. All pages except the tutorials continue in the folder of the tutorial for
//! C.

mod blocks;
mod place;

use blocks::{Mark, PageBlock, blocks, commands};
use libtest_mimic::Trial;
use place::PageFolder;
use std::sync::{Arc, OnceLock};
use support::{Need, case, long, root};

const C_TUTORIAL: &str = "tutorial/c-program.md";
const VALGRIND: Need = Need::Program("valgrind");
const PLUGIN: Need = Need::GccPluginHeaders("gcc");
const C: &[Need] = &[Need::Program("cc"), Need::Program("awk")];

/// Requirements of pages other than the compiler.
const NEEDS: &[(&str, &[Need])] = &[
    ("../README.md", &[VALGRIND]),
    ("../examples/postgresql/README.md", &[VALGRIND]),
    ("../gcc-plugin/README.md", &[PLUGIN]),
    ("background/algorithms.md", &[VALGRIND]),
    ("tutorial/debian-package.md", &[Need::Program("dh"), Need::Program("dpkg-buildpackage")]),
    ("tutorial/rpm-package.md", &[Need::Program("rpmbuild"), Need::Program("rpm")]),
    ("tutorial/rust-program.md", &[Need::Program("cargo"), VALGRIND]),
    ("beyond-functions.md", &[PLUGIN, VALGRIND, Need::Program("clang-19"), Need::Program("rustc")]),
    ("formats/bolt.md", &[Need::Program("llvm-bolt-19")]),
    ("formats/callgrind.md", &[VALGRIND]),
    ("formats/entry-trace.md", &[Need::Program("gdb")]),
    ("formats/gmon.md", &[Need::Program("gcc")]),
    ("formats/lackey.md", &[VALGRIND]),
    ("formats/perf-data.md", &[Need::Program("perf")]),
    ("formats/perf-script.md", &[Need::Program("perf")]),
    ("formats/perf-stacks.md", &[Need::Program("perf")]),
    ("formats/temporal-profile.md", &[Need::Program("clang-19"), Need::Program("llvm-profdata-19")]),
    ("formats/uftrace.md", &[Need::Program("uftrace")]),
    ("measuring.md", &[VALGRIND]),
    ("optimize.md", &[VALGRIND]),
    ("packaging.md", &[Need::Program("git")]),
    ("recording.md", &[PLUGIN]),
    ("report.md", &[Need::Program("dot")]),
    ("rows.md", &[Need::Program("python3")]),
    ("static-graphs.md", &[PLUGIN]),
    ("trace-format.md", &[VALGRIND]),
];

/// Pages whose commands take long, and whose claims are covered by other tests: of the plugin and clang, of packages,
/// of the algorithms, of `eval`, and of `optimize`.
const LONG: [&str; 9] = [
    "../gcc-plugin/README.md",
    "background/algorithms.md",
    "beyond-functions.md",
    "formats/entry-trace.md",
    "measuring.md",
    "optimize.md",
    "tutorial/debian-package.md",
    "tutorial/rust-program.md",
    "tutorial/server.md",
];

pub(crate) fn cases() -> Vec<Trial> {
    let pages = pages();
    let shared = Arc::new(SharedFolders::default());
    let to_run = |page: &&String| blocks_of(page).iter().any(|block| block.mark == Mark::Run);
    let mut cases: Vec<Trial> = pages
        .iter()
        .filter(to_run)
        .map(|page| {
            let needs = NEEDS.iter().find(|(of, _)| of == page).map_or(&[][..], |(_, needs)| *needs);
            let (name, shared) = (page.clone(), Arc::clone(&shared));
            let case = if LONG.contains(&page.as_str()) { long } else { case };
            case(page, &[C, needs].concat(), move || is_run_as_written(&name, &shared))
        })
        .collect();
    cases.push(case("few_blocks_are_only_shown", &[], move || few_blocks_are_only_shown(&pages)));
    cases.push(case("marks_are_read", &[], blocks::marks_are_read));
    cases
}

/// All pages of the site except the proofs, which scripts write, and the pages of the crates and the plugin, as paths
/// below docs.
fn pages() -> Vec<String> {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut pages: Vec<String> = links.map(str::to_owned).collect();
    pages.push("../gcc-plugin/README.md".to_owned());
    for (folder, suffix) in [("docs/formats", ""), ("crates", "/README.md")] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let page =
                format!("{}{name}{suffix}", folder.replace("docs/", "").replace("crates", "../crates") + "/");
            pages.extend((!pages.contains(&page)).then_some(page));
        }
    }
    assert!(pages.len() > 60, "{pages:?}");
    pages.sort();
    pages
}

fn blocks_of(page: &str) -> Vec<PageBlock> {
    let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
    blocks(&text).unwrap_or_else(|why| panic!("docs/{page}: {why}"))
}

/// Folders that are made once for all pages.
#[derive(Default)]
struct SharedFolders {
    /// The folder of the tutorial for C, without the experiment at its end.
    tutorial: OnceLock<PageFolder>,
    plugin: OnceLock<tempfile::TempDir>,
}

impl SharedFolders {
    fn after_the_c_tutorial(&self) -> &PageFolder {
        self.tutorial.get_or_init(|| {
            let place = PageFolder::new();
            let mut blocks = blocks_of(C_TUTORIAL);
            blocks.retain(|block| !is_experiment(block));
            place.run(C_TUTORIAL, &blocks, &[]);
            place
        })
    }
}

fn is_experiment(block: &PageBlock) -> bool {
    block.text.starts_with("sediment eval")
}

/// Worth its time: the commands in the pages are a promise of this project.
fn is_run_as_written(page: &str, shared: &SharedFolders) {
    let place = PageFolder::new();
    let mut blocks = blocks_of(page);
    if page == C_TUTORIAL {
        blocks.retain(is_experiment);
    }
    if blocks.iter().any(|block| block.text.contains("rpm")) {
        place.install_for_rpm();
    }
    if page == C_TUTORIAL || !page.starts_with("tutorial/") {
        place.go_on_from(shared.after_the_c_tutorial());
    }
    let go_profile = root().join("tests/golden/read/pprof/go-processor-time/input");
    let mut settings = vec![("GO_PROFILE", go_profile.as_path())];
    if blocks.iter().any(|block| block.text.contains("$PLUGIN")) {
        let plugin = shared.plugin.get_or_init(place::built_plugin);
        settings.push(("PLUGIN", plugin.path()));
    }
    place.run(page, &blocks, &settings);
}

/// Blocks that only another system can run count as run if a proof runs them.
fn few_blocks_are_only_shown(pages: &[String]) {
    let (mut shown, mut all, mut wrong) = (0, 0, Vec::new());
    for page in pages {
        for block in blocks_of(page) {
            match &block.mark {
                Mark::Run => all += 1,
                Mark::InTree(script) => {
                    all += 1;
                    let text = std::fs::read_to_string(root().join(script)).unwrap_or_default();
                    if !text.contains(&format!("docs/{page}")) {
                        wrong.push(format!("docs/{page}:{}: {script} does not read this page", block.line));
                    }
                }
                Mark::Elsewhere(files) => {
                    all += 1;
                    let read = |file| std::fs::read_to_string(root().join(file)).unwrap_or_default();
                    let texts: String = files.iter().map(read).collect();
                    let missing = commands(&block.text).filter(|command| !texts.contains(command));
                    wrong.extend(missing.map(|command| {
                        format!("docs/{page}:{}: \"{command}\" is not in {files:?}", block.line)
                    }));
                }
                Mark::Shown => {
                    all += 1;
                    shown += 1;
                }
                Mark::File(_) | Mark::Text | Mark::Before => {}
            }
        }
    }
    println!("{all} blocks of commands on {} pages, {shown} of them only shown", pages.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all > 50 && shown * 10 <= all, "{shown} of {all} blocks are only shown: at most a tenth may be");
}
