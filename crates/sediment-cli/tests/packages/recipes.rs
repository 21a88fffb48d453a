// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests recipes of other distributions (dist/recipes) with the real tool if it is installed, otherwise by a syntax
//! check.

use crate::running::{done, sediment};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let shell = ["bash", "gcc"].map(Need::Program);
    let arch = ["makepkg", "fakeroot", "bsdtar", "gcc", "setpriv"].map(Need::Program);
    vec![
        case("arch_builds_in_order", &arch, arch_builds_in_order),
        case("shells_read_the_recipes", &[Need::Program("bash")], shells_read_the_recipes),
        case("functions_of_shell_recipes_build_in_order", &shell, functions_of_shell_recipes_build_in_order),
        case("nix_evaluates_its_recipe", &[Need::Program("nix-instantiate")], nix_evaluates_its_recipe),
        case("yocto_assigns_what_it_reads", &[Need::Program("python3")], yocto_assigns_what_it_reads),
    ]
}

fn recipe(name: &str) -> PathBuf {
    support::root().join("dist/recipes").join(name)
}

/// Number of functions in the program; every tenth is called.
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
    // Another user may not be allowed to enter the checkout.
    let program = folder.join("sediment");
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &program).unwrap();
    done(&Command::new(&program).args(["wrapper", "ld"]).current_dir(folder).output().unwrap());
    // As another user if the test runs as root.
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
    // Without dependencies makepkg does not call pacman, which Debian does not install with it.
    makepkg.env("HOME", folder).env("SEDIMENT_LINKERS", folder.join("ld")).env("PACMAN", "true");
    makepkg.env("SEDIMENT", &program).env("CFLAGS", "-O1").env_remove("LDFLAGS");
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

/// Definitions of abuild and Portage that these recipes use.
const DEFINED: &str = r#"
inherit() { :; }
use() { return 0; }
die() { exit 1; }
ewarn() { echo "$@" >&2; }
append-flags() { export CFLAGS="$CFLAGS $*"; }
default() { [ -z "$MAKING" ] || gcc $CFLAGS -o foo foo.c; }
"#;

/// Calls the functions of the recipes for Alpine and Gentoo from a shell, without the distributions' tools.
fn functions_of_shell_recipes_build_in_order() {
    let steps = [
        ("alpine/APKBUILD", "build && check"),
        ("gentoo/foo-1.ebuild", "src_configure && MAKING=1 && src_test"),
    ];
    for (name, calls) in steps {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("foo.c"), source()).unwrap();
        std::fs::write(folder.join("foo.gv"), profile()).unwrap();
        done(&sediment(folder, &["wrapper", "ld"]));
        let ours = folder.join("ld").display().to_string();
        let text = std::fs::read_to_string(recipe(name)).unwrap();
        assert!(text.contains("/usr/libexec/sediment/ld"), "{name}");
        let text = text.replace("${BROOT}", "").replace("/usr/libexec/sediment/ld", &ours);
        let script = format!("set -e\n{DEFINED}\n{text}\n{calls}\n");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(folder).env("CFLAGS", "-O1").env_remove("LDFLAGS");
        let program = Path::new(env!("CARGO_BIN_EXE_sediment")).parent().unwrap();
        bash.env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()));
        bash.env("srcdir", folder)
            .env("T", folder)
            .env("FILESDIR", folder)
            .env("PN", "foo")
            .env("P", "foo-1");
        let made = bash.output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&made.stderr));
        assert!(made.status.success() && said.contains("1 of 1 outputs ordered"), "{name}: {said}");
        let called = called_functions(&folder.join("foo"));
        let span = called[called.len() - 1] - called[0];
        assert!(span < 16 * 3 * FUNCTIONS as u64 / 10, "{name}: side by side: {called:x?}");
    }
}

/// The package's flags stay, and the profiles are in the store.
fn nix_evaluates_its_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::copy(recipe("nix/foo.nix"), folder.join("foo.nix")).unwrap();
    std::fs::create_dir(folder.join("profiles")).unwrap();
    std::fs::write(folder.join("profiles/foo.gv"), profile()).unwrap();
    let expression = r#"
        let package = old: { overrideAttrs = change: old // change old; };
            made = old: import ./foo.nix { pkgs.foo = package old; sediment = "/sediment"; };
            made-old = made { env.NIX_CFLAGS_COMPILE = "-O3"; nativeBuildInputs = [ "cmake" ]; };
        in [ made-old.env.NIX_CFLAGS_COMPILE made-old.nativeBuildInputs made-old.env.PROF_DIR (made { }).env.NIX_CFLAGS_COMPILE ]"#;
    let mut nix = Command::new("nix-instantiate");
    nix.args(["--eval", "--strict", "--json", "--readonly-mode", "-E", expression]).current_dir(folder);
    let dir = |name: &str| folder.join(name);
    nix.env("HOME", folder).env("NIX_STATE_DIR", dir("state")).env("NIX_STORE_DIR", dir("store"));
    let read = nix.output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let values: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(values[0], "-O3 -ffunction-sections -B/sediment/libexec/sediment/ld");
    assert_eq!(values[1], serde_json::json!(["cmake", "/sediment"]));
    assert!(values[2].as_str().unwrap().ends_with("-profiles"), "{values}");
    assert_eq!(values[3].as_str().unwrap().trim(), "-ffunction-sections -B/sediment/libexec/sediment/ld");
}

/// Each line of the append file is an assignment in BitBake's syntax, and its expressions are Python.
fn yocto_assigns_what_it_reads() {
    let text = std::fs::read_to_string(recipe("yocto/foo_1.bbappend")).unwrap();
    let is_name = |name: &str| {
        let mut parts = name.split(':');
        let is_variable = parts
            .next()
            .is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
        is_variable && parts.all(|part| ["append", "prepend"].contains(&part))
    };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (left, value) = line.split_once("= \"").unwrap_or_else(|| panic!("no assignment: {line}"));
        let name = left.trim_start_matches("export ").trim_end_matches(['+', ':', '?', ' ']);
        assert!(is_name(name) && value.ends_with('"'), "{line}");
        for expression in value.split("${@").skip(1) {
            let expression = &expression[..expression.rfind('}').unwrap()];
            let mut python = Command::new("python3");
            python.args(["-c", "import sys; compile(sys.argv[1], '', 'eval')", expression]);
            let read = python.output().unwrap();
            assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        }
    }
}
