// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants that are built, combinations of factors, and links that differ only in their random layouts.

use super::{code, err, eval, fails, lines};
use libtest_mimic::Trial;
use sediment_core::binary::{Binary, NoFiles};
use std::path::Path;
use support::{Need, case, ignored, linker_folder};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc"), Need::Program("ld")];
    let lld = [Need::Program("cc"), Need::LinkerFolder("lld")];
    let packages = [Need::Program("rpmbuild"), Need::Program("rpm2archive")];
    let compiled = [Need::Program("cc"), Need::Program("rpmbuild"), Need::Program("rpm2archive")];
    vec![
        case("factors_are_combined_and_built", &compiler, factors_are_combined_and_built),
        case("replicas_differ_in_place_and_not_in_order", &compiler, || replicas_keep_the_order(None)),
        case("replicas_differ_in_place_and_not_in_order_with_lld", &lld, || {
            replicas_keep_the_order(Some(linker_folder("lld").unwrap().display().to_string()));
        }),
        seeded_by_the_linker(&lld),
        case(
            "packages_of_a_spec_are_built_and_unpacked",
            &packages,
            packages_of_a_spec_are_built_and_unpacked,
        ),
        case(
            "a_spec_is_compiled_with_each_variants_options",
            &compiled,
            a_spec_is_compiled_with_each_variants_options,
        ),
    ]
}

const PROGRAM: &str = "#include <stdio.h>
__attribute__((noinline)) int third(int x) { return x * 3; }
__attribute__((noinline)) int first(int x) { return x + 1; }
__attribute__((noinline)) int second(int x) { return first(x) ^ 5; }
int main(void) { printf(\"%d\\n\", third(second(LEVEL))); return 0; }
";

/// Names and addresses of the program's own functions, by address.
fn functions(path: &Path) -> Vec<(u64, String)> {
    let binary = Binary::parse(&std::fs::read(path).unwrap(), &NoFiles).unwrap();
    let own = ["first", "second", "third", "main"];
    let mut found: Vec<(u64, String)> = binary
        .functions
        .into_iter()
        .filter(|function| own.contains(&function.name.as_str()))
        .map(|function| (function.address, function.name))
        .collect();
    found.sort();
    found
}

fn factors_are_combined_and_built() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("p.c"), PROGRAM).unwrap();
    std::fs::write(
        here.join("plan.toml"),
        "sediment-eval = 1\n[run]\nblocks = 2\npilot = 2\ncounters = []\n[build]\nflags = \"-w\"\n\
         command = [\"cc\", \"{flags}\", \"-o\", \"{output}\", \"p.c\"]\n\
         [[factor]]\nname = \"optimise\"\nlevels = [\"O1\", \"O2\"]\nflags = [\"-O1\", \"-O2\"]\n\
         [[factor]]\nname = \"level\"\nlevels = [\"one\", \"two\"]\nflags = [\"-DLEVEL=1\", \"-DLEVEL=2\"]\n\
         [[workload]]\nname = \"print\"\ncommand = [\"{program}\"]\n[[metric]]\nname = \"printed\"\nregex = '([0-9]+)'\n",
    )
    .unwrap();
    let done = eval(here, &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(here, "plan.jsonl", "run");
    // Four combinations and the baseline's file once more.
    assert_eq!(runs.iter().filter(|run| run["phase"] == "measured").count(), 2 * 5);
    for run in &runs {
        let second_level = run["variant"].as_u64().is_some_and(|variant| variant % 2 == 1 && variant < 4);
        let expected = if second_level { 3 * ((2 + 1) ^ 5) } else { 3 * ((1 + 1) ^ 5) };
        assert_eq!(run["values"]["printed"], f64::from(expected), "{run}");
    }
    let programs = lines(here, "plan.jsonl", "program");
    assert_eq!(programs[0]["sha256"], programs[4]["sha256"], "A/A is the baseline's own file");
}

/// Three links with padding objects: functions keep their order, but have other addresses.
fn replicas_keep_the_order(linker: Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("p.c"), PROGRAM.replace("LEVEL", "1")).unwrap();
    // An order under test that begins with the padding.
    std::fs::write(here.join("order"), "sediment_eval_padding\nsecond\nmain\nthird\nfirst\n").unwrap();
    let choose = linker.map_or_else(String::new, |folder| {
        format!(
            "\"-B{folder}\", \"-fuse-ld=lld\", \"-Wl,--symbol-ordering-file={}\", ",
            here.join("order").display()
        )
    });
    let ordered = !choose.is_empty();
    std::fs::write(
        here.join("plan.toml"),
        format!(
            "sediment-eval = 1\n[run]\nblocks = 2\npilot = 2\ncounters = []\nseed = 11\n[build]\nreplicas = 3\n\
             command = [\"cc\", \"-O2\", \"-ffunction-sections\", \"{{flags}}\", \"-c\", \"-o\", \"{{objects}}/p.o\", \"p.c\"]\n\
             link = [\"cc\", {choose}\"-o\", \"{{output}}\", \"{{padding_object}}\", \"{{objects}}/p.o\"]\n\
             [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nflags = \"-fno-inline\"\n\
             [[workload]]\nname = \"w\"\ncommand = [\"{{program}}\"]\n"
        ),
    )
    .unwrap();
    let done = eval(here, &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let links: Vec<_> = (0..4)
        .map(|replica| functions(&here.join(format!("plan.jsonl.build/variant-000/program-{replica:03}"))))
        .collect();
    let names = |link: &[(u64, String)]| link.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
    let addresses =
        |link: &[(u64, String)]| link.iter().map(|(address, _)| address % 4096).collect::<Vec<_>>();
    for link in &links {
        assert_eq!(names(link), names(&links[0]), "the order under test is the same");
    }
    if ordered {
        assert_eq!(names(&links[0]), ["second", "main", "third", "first"]);
    }
    let distinct: std::collections::BTreeSet<_> = links.iter().map(|link| addresses(link)).collect();
    assert!(distinct.len() >= 3, "links lie differently: {distinct:?}");
    // Three links of each variant, the baseline's file again, and the baseline relinked.
    let runs = lines(here, "plan.jsonl", "run");
    assert_eq!(runs.iter().filter(|run| run["phase"] == "measured").count(), 2 * (3 + 3 + 1 + 1));
}

/// The case for an lld with `--randomize-section-padding`; ignored, not passed, without it.
fn seeded_by_the_linker(needs: &[Need]) -> Trial {
    let name = "replicas_by_a_linkers_own_seed_keep_the_order";
    let help = linker_folder("lld")
        .and_then(|folder| std::process::Command::new(folder.join("ld.lld")).arg("--help").output().ok());
    let knows = |output: &std::process::Output| {
        String::from_utf8_lossy(&output.stdout).contains("--randomize-section-padding")
    };
    if help.as_ref().is_some_and(|output| !knows(output)) {
        return ignored(name, "this lld has no --randomize-section-padding");
    }
    case(name, needs, replicas_by_a_linkers_own_seed_keep_the_order)
}

fn replicas_by_a_linkers_own_seed_keep_the_order() {
    let lld = linker_folder("lld").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("p.c"), PROGRAM.replace("LEVEL", "1")).unwrap();
    std::fs::write(here.join("order"), "second\nmain\nthird\nfirst\n").unwrap();
    std::fs::write(
        here.join("plan.toml"),
        format!(
            "sediment-eval = 1\n[run]\nblocks = 1\npilot = 1\ncounters = []\nseed = 11\n[build]\nreplicas = 3\n\
             command = [\"cc\", \"-O2\", \"-ffunction-sections\", \"-c\", \"-o\", \"{{objects}}/p.o\", \"p.c\"]\n\
             link = [\"cc\", \"-B{}\", \"-fuse-ld=lld\", \"-o\", \"{{output}}\", \"{{objects}}/p.o\", \
             \"-Wl,--symbol-ordering-file=order,--randomize-section-padding={{seed}}\"]\n\
             [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n[[workload]]\nname = \"w\"\ncommand = [\"{{program}}\"]\n",
            lld.display()
        ),
    )
    .unwrap();
    let done = eval(here, &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let mut places = std::collections::BTreeSet::new();
    for replica in 0..4 {
        let link = functions(&here.join(format!("plan.jsonl.build/variant-000/program-{replica:03}")));
        assert_eq!(
            link.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
            ["second", "main", "third", "first"]
        );
        places.insert(link[0].0);
    }
    assert!(places.len() > 1, "links lie differently");
}

fn packages_of_a_spec_are_built_and_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(
        here.join("tool.spec"),
        "Name: tool\nVersion: 1\nRelease: 1\nSummary: A tool\nLicense: MIT\nBuildArch: noarch\n%description\nA tool.\n\
         %install\nmkdir -p %{buildroot}/opt\necho 'echo speed: %{?speed}' >%{buildroot}/opt/tool\nchmod 755 %{buildroot}/opt/tool\n\
         %files\n/opt/tool\n",
    )
    .unwrap();
    std::fs::write(
        here.join("plan.toml"),
        "sediment-eval = 1\nnoise-floor = false\n[run]\nblocks = 1\npilot = 1\ncounters = []\n[build]\nspec = \"tool.spec\"\nprogram = \"/opt/tool\"\n\
         [[variant]]\nname = \"plain\"\nflags = \"--undefine=speed\"\n[[variant]]\nname = \"other\"\n\
         [[workload]]\nname = \"w\"\ncommand = [\"sh\", \"{program}\"]\n[[metric]]\nname = \"speed\"\nregex = 'speed: ([0-9]+)'\n",
    )
    .unwrap();
    let done = eval(here, &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!(lines(here, "plan.jsonl", "run").len(), 4);
    assert!(here.join("plan.jsonl.build/variant-001/root/opt/tool").is_file());
}

/// A package as in distributions: a source next to the spec file, compiled, with a choice made by `--with`.
fn a_spec_is_compiled_with_each_variants_options() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(
        here.join("tool.c"),
        "#include <stdio.h>\n#ifdef __OPTIMIZE_SIZE__\n#define SMALL 1\n#else\n#define SMALL 0\n#endif\n\
         int main(void) { printf(\"small: %d\\n\", SMALL); return 0; }\n",
    )
    .unwrap();
    std::fs::write(
        here.join("tool.spec"),
        "%bcond_with small\n%global debug_package %{nil}\nName: tool\nVersion: 1\nRelease: 1\nSummary: A tool\nLicense: MIT\n\
         Source0: tool.c\n%description\nA tool.\n%package other\nSummary: Another\n%description other\nAnother.\n\
         %build\ncc %{?with_small:-Os}%{!?with_small:-O2} -o tool %{SOURCE0}\n\
         %install\ninstall -D tool %{buildroot}/usr/bin/tool\ninstall -D tool %{buildroot}/usr/bin/other\n\
         %files\n/usr/bin/tool\n%files other\n/usr/bin/other\n",
    )
    .unwrap();
    std::fs::write(
        here.join("plan.toml"),
        "sediment-eval = 1\nnoise-floor = false\n[run]\nblocks = 1\npilot = 1\ncounters = []\n\
         [build]\nspec = \"tool.spec\"\nprogram = \"/usr/bin/tool\"\n\
         [[variant]]\nname = \"O2\"\n[[variant]]\nname = \"Os\"\nflags = \"--with small\"\n\
         [[workload]]\nname = \"w\"\ncommand = [\"{program}\"]\n[[metric]]\nname = \"small\"\nregex = 'small: ([0-9]+)'\n",
    )
    .unwrap();
    let done = eval(here, &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    for run in lines(here, "plan.jsonl", "run") {
        assert_eq!(run["values"]["small"].as_f64(), run["variant"].as_f64(), "{run}");
    }
    // If a spec file fails, the error contains rpmbuild's output.
    std::fs::write(here.join("tool.c"), "no C\n").unwrap();
    let failed = eval(here, &["run", "plan.toml", "-o", "failed.jsonl"]);
    fails(&failed, 1, &["O2", "exit code", "%build"]);
}
