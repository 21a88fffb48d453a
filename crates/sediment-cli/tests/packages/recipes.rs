// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recipes of other distributions (dist/recipes): run by the real tool where there is one, else checked for their syntax.

use crate::running::{done, sediment};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let arch = ["makepkg", "fakeroot", "bsdtar", "gcc", "setpriv"].map(Need::Program);
    vec![
        case("arch_builds_in_order", &arch, arch_builds_in_order),
        case("shells_read_the_recipes", &[Need::Program("bash")], shells_read_the_recipes),
    ]
}

fn recipe(name: &str) -> PathBuf {
    support::root().join("dist/recipes").join(name)
}

/// Functions of the program, of which every tenth is called.
const FUNCTIONS: usize = 60;

fn source() -> String {
    let mut text = String::from("#include <stdio.h>\nstatic volatile unsigned sum;\n");
    for f in 0..FUNCTIONS {
        let _ = writeln!(text, "__attribute__((noinline)) void work_{f}(unsigned x) {{ sum += x ^ {f}u; }}");
    }
    text += "int main(void) {\n";
    for f in (0..FUNCTIONS).step_by(10) {
        let _ = writeln!(text, "  work_{f}({f});");
    }
    text + "  printf(\"%u\\n\", sum);\n}\n"
}

fn profile() -> String {
    let hot = || (0..FUNCTIONS).step_by(10).rev();
    let nodes: String = hot().map(|f| format!("    \"work_{f}\";\n")).collect();
    let edges: String =
        hot().map(|f| format!("  \"main\" -> \"work_{f}\" [count={}];\n", 1000 + f)).collect();
    format!(
        "digraph Callgraph {{\n  graph [sediment=2, unit=calls, total=10000];\n  subgraph cluster0 {{\n    graph [label=\"foo\"];\n    \"main\";\n{nodes}  }}\n{edges}}}\n"
    )
}

/// makepkg refuses to run as root.
const NOBODY: &str = "65534";

fn arch_builds_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::copy(recipe("arch/PKGBUILD"), folder.join("PKGBUILD")).unwrap();
    std::fs::write(folder.join("foo.c"), source()).unwrap();
    std::fs::write(folder.join("foo.gv"), profile()).unwrap();
    done(&sediment(folder, &["wrapper", "ld"]));
    // As a user of its own, where the test runs as root.
    let is_root = user() == "0";
    if is_root {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut makepkg = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "makepkg"]);
        command
    } else {
        Command::new("makepkg")
    };
    makepkg.args(["--nodeps", "--nosign", "--skippgpcheck"]).current_dir(folder);
    // Without dependencies to look up it asks pacman nothing, which Debian does not install with it.
    makepkg.env("HOME", folder).env("SEDIMENT_LINKERS", folder.join("ld")).env("PACMAN", "true");
    makepkg.env("SEDIMENT", env!("CARGO_BIN_EXE_sediment")).env("CFLAGS", "-O1").env_remove("LDFLAGS");
    let made = makepkg.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&made.stderr));
    assert!(made.status.success(), "{said}");
    assert!(said.contains("1 of 1 outputs ordered"), "{said}");
    let packages = std::fs::read_dir(folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".pkg.tar"));
    assert!(packages.count() >= 1, "{said}");
    let called = called_functions(&folder.join("src/foo"));
    let span = called[called.len() - 1] - called[0];
    assert!(span < 16 * 3 * FUNCTIONS as u64 / 10, "side by side: {called:x?}");
}

fn user() -> String {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().to_owned()
}

/// Addresses of the called functions, ascending.
fn called_functions(program: &Path) -> Vec<u64> {
    let bytes = std::fs::read(program).unwrap();
    let binary = sediment_core::binary::Binary::parse(&bytes, &sediment_core::binary::NoFiles).unwrap();
    let address = |f: usize| {
        let name = format!("work_{f}");
        binary.functions.iter().find(|function| function.name == name).unwrap().address
    };
    let mut called: Vec<u64> = (0..FUNCTIONS).step_by(10).map(address).collect();
    called.sort_unstable();
    called
}

fn shells_read_the_recipes() {
    for name in ["arch/PKGBUILD", "alpine/APKBUILD", "gentoo/foo-1.ebuild"] {
        let read = Command::new("bash").arg("-n").arg(recipe(name)).output().unwrap();
        assert!(read.status.success(), "{name}: {}", String::from_utf8_lossy(&read.stderr));
    }
}
