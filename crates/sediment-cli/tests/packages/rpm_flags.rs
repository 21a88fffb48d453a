// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags in spec files changed by `sediment package rpm`, expanded by rpmspec: the former flags, and function sections.

use crate::running::{done, err, sediment};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;
use support::{Need, case, golden, root};
use tempfile::TempDir;

const FLAG: &str = " -ffunction-sections";
const PROFILE: &str = "digraph Callgraph {\n  graph [sediment=2, source=\"test\", unit=calls, total=1];\n  \"a\" -> \"b\" [label=1.0, count=1];\n}\n";

pub(crate) fn cases() -> Vec<Trial> {
    let rpm = [Need::Program("rpmspec")];
    vec![
        case("flags_stay_those_that_the_spec_asks_for", &rpm, flags_stay_those_that_the_spec_asks_for),
        case("macros_with_arguments_stay_as_they_are", &rpm, macros_with_arguments_stay_as_they_are),
        case("graphs_leave_flags_as_lazy_as_they_were", &rpm, graphs_leave_flags_as_lazy_as_they_were),
        case("bodies_are_kept_to_the_byte", &rpm, bodies_are_kept_to_the_byte),
        case("the_linkers_follow_the_toolchain", &rpm, the_linkers_follow_the_toolchain),
        case("rpm_says_whether_a_package_is_noarch", &rpm, rpm_says_whether_a_package_is_noarch),
    ]
}

fn case_file(name: &str) -> String {
    root().join("tests/golden/package/flags").join(name).display().to_string()
}

/// Lines with flags in an expanded spec file.
fn said(spec: &Path, more: &[&str]) -> String {
    let mut rpmspec = Command::new("rpmspec");
    rpmspec.args(["--load", &case_file("macros"), "--load"]).arg(root().join("dist/rpm/macros.sediment"));
    let parsed = done(&rpmspec.args(more).arg("-P").arg(spec).output().unwrap());
    parsed.split_inclusive('\n').filter(|line| line.starts_with('@')).collect()
}

/// Returns a changed copy of the spec file in a temporary folder.
fn changed() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    std::fs::copy(case_file("flags.spec"), folder.path().join("flags.spec")).unwrap();
    std::fs::write(folder.path().join("flags.gv"), PROFILE).unwrap();
    let change = ["package", "rpm", "flags.spec", "--profile", "flags.gv", "--apply"];
    done(&sediment(folder.path(), &change));
    let text = std::fs::read_to_string(folder.path().join("flags.spec")).unwrap();
    (folder, text)
}

/// At every point of the spec file, whatever changes it has made before.
fn flags_stay_those_that_the_spec_asks_for() {
    let stock = case_file("flags.spec");
    let (folder, _) = changed();
    let spec = folder.path().join("flags.spec");
    for condition in [&[][..], &["--without", "old_c"]] {
        let before = said(Path::new(&stock), condition);
        let without = said(&spec, &[condition, &["--without", "sediment"]].concat());
        assert_eq!(without, before, "without the condition");
        let after = said(&spec, condition);
        assert_eq!(after.lines().count(), before.lines().count());
        for (after, before) in after.lines().zip(before.lines()) {
            let in_environment = after.starts_with("@ sections'");
            let times = if in_environment { usize::MAX } else { 1 };
            assert!(after == before || after.replacen(FLAG, "", times) == before, "{before}\n{after}");
            let word = after.split(": ").next().unwrap();
            let early = word.starts_with("@ description ") || word.starts_with("@ prep");
            if early || word.ends_with("build_ldflags") || word.ends_with("extension_cflags") {
                assert_eq!(after, before);
            }
        }
        if condition.is_empty() {
            golden("package/flags/expected", &after);
        }
    }
}

/// Their arguments would be lost; the results still get function sections.
fn macros_with_arguments_stay_as_they_are() {
    let (folder, text) = changed();
    let spec = folder.path().join("flags.spec");
    let ours = text.lines().find(|line| line.contains("%sediment_prep")).unwrap();
    let parametric = "%define optflags(x:) -O%{!-x:2}%{-x*}";
    let shown = format!("{parametric}\n{ours}\n@@ %{{optflags -x 3}}|%{{build_cflags}}|");
    std::fs::write(&spec, text.replace(ours, &shown)).unwrap();
    let after = said(&spec, &[]);
    assert!(after.contains("@@ -O3|-O2  -ffunction-sections|\n"), "{after}");
}

/// Blanks at both ends, escapes, several lines, braces.
fn bodies_are_kept_to_the_byte() {
    let folder = TempDir::new().unwrap();
    let macros = folder.path().join("macros");
    let shown = "[%{optflags}][%{build_cflags}][%{build_cxxflags}][%{build_fflags}]";
    let bodies = "%optflags -DA=\\\\\"a b\\\\\" -DB='\\\\\\\\' \\\n  -DC {\n\
        %build_cflags %{nil} -DX%%d %{nil} \\\n\\\n  %{?undefined} \n\
        %build_cxxflags {-DY} %(echo '\\\\t') %[1 + 1]\n\
        %build_fflags %{lua:\n  print(\"-DZ={}\")\n}\n";
    std::fs::write(&macros, bodies).unwrap();
    let expanded = |before: &str| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--load").arg(&macros).arg("--load").arg(root().join("dist/rpm/macros.sediment"));
        // The spec file's own text, with blanks that rpm keeps.
        let spaced = "%global optflags %(echo '  %{optflags} ' | sed 's/$/ /')%{nil}";
        let eval = format!("{spaced}\n{before}\n===\n{shown}");
        let said = done(&rpm.args(["--define", "with_sediment 1", "--eval", &eval]).output().unwrap());
        said.split_once("===\n").unwrap().1.to_owned()
    };
    let (stock, ordered) = (expanded(""), expanded("%{sediment_prep a.gv}"));
    assert_eq!(ordered.replace(FLAG, ""), stock);
    assert_eq!(ordered.matches(FLAG).count(), 4, "{ordered}");
}

/// The macros for static graphs add only the plugin, whatever the spec file changes later.
fn graphs_leave_flags_as_lazy_as_they_were() {
    let stock = said(Path::new(&case_file("flags.spec")), &[]);
    let folder = TempDir::new().unwrap();
    let spec = folder.path().join("flags.spec");
    let text = std::fs::read_to_string(case_file("flags.spec")).unwrap();
    std::fs::write(&spec, text.replace("%build\n", "%{sediment_graphs_begin}\n%build\n")).unwrap();
    let macros = root().join("dist/rpm/macros.sediment-static").display().to_string();
    let with_graphs = said(&spec, &["--load", &macros, "--define", "_sediment_plugin p.so"]);
    assert_eq!(with_graphs.replace(" -fplugin=p.so", ""), stock);
    assert!(
        with_graphs
            .lines()
            .all(|line| line.starts_with("@ sections'") || line.matches("-fplugin=").count() <= 1)
    );
    let of_c =
        with_graphs.lines().filter(|line| line.contains(" build_cflags: ") && !line.starts_with("@ prep"));
    assert!(
        of_c.skip(1).all(|line| line.contains("-fplugin=p.so") || line.contains("sed ")),
        "{with_graphs}"
    );
}

/// GCC and clang search linkers under different names; a section uses the compiler of the last toolchain that the spec
/// file sets.
fn the_linkers_follow_the_toolchain() {
    let (folder, text) = changed();
    let spec = folder.path().join("flags.spec");
    let shown = |text: &str| {
        std::fs::write(&spec, text.replace("%files\n", "@@ %{__spec_build_cmd}\n%files\n")).unwrap();
        said(&spec, &[]).lines().find(|line| line.starts_with("@@")).unwrap().to_owned()
    };
    assert!(
        shown(&text).starts_with(
            "@@ env \"COMPILER_PATH=/usr/libexec/sediment/ld:/usr/libexec/sediment/compilers\" \"PROF_DIR="
        ),
        "{}",
        shown(&text)
    );
    let by_gcc = text.replace("%global toolchain clang\n", "");
    assert!(
        shown(&by_gcc).starts_with(
            "@@ env \"COMPILER_PATH=/usr/libexec/sediment/gcc:/usr/libexec/sediment/compilers\" "
        ),
        "{}",
        shown(&by_gcc)
    );
    assert!(shown(&by_gcc).ends_with("/bin/sh -e"), "{}", shown(&by_gcc));
}

/// With conditions that only rpm can resolve; built as noarch, the changed spec file gives the same result as before.
fn rpm_says_whether_a_package_is_noarch() {
    let (folder, text) = changed();
    let spec = folder.path().join("flags.spec");
    let stock = std::fs::read_to_string(case_file("flags.spec")).unwrap();
    let noarch = "%if %{defined compiled}\nBuildRequires: make\n%else\nBuildArch: noarch\n%endif\nBuildRequires:  gcc\n";
    let under = |text: &str, value: &str| {
        let text = text.replace("BuildRequires:  gcc\n", noarch);
        std::fs::write(&spec, format!("%global compiled{value} 1\n{text}")).unwrap();
    };
    let change = || sediment(folder.path(), &["package", "rpm", "flags.spec", "--profile", "flags.gv"]);
    under(&stock, "");
    let native = change();
    assert!(done(&native).contains("+%{?with_sediment:%sediment_prep %{SOURCE1}}"));
    assert!(err(&native).starts_with("sediment: flags.spec: line 14 "), "{}", err(&native));
    under(&stock, "_not");
    let refused = change();
    assert!(!refused.status.success());
    assert!(err(&refused).starts_with("sediment: flags.spec:14: "), "{}", err(&refused));
    // For users who build the changed package as noarch.
    let before = said(&spec, &[]);
    under(&text, "_not");
    assert_eq!(said(&spec, &[]), before);
    under(&text, "");
    assert_ne!(said(&spec, &[]), before);
}
