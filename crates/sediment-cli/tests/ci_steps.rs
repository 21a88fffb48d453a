// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dist/ci`: the step that users' CI runs, on a program linked in order and on one that is not; the jobs call that step.

#[path = "../../sediment/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ci")
}

/// Runs the step in a folder; its exit code.
fn step(folder: &Path, program: &str) -> Option<i32> {
    let own = Path::new(env!("CARGO_BIN_EXE_sediment")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let mut step = Command::new(dist().join("layout-check"));
    step.args([program, "order.ld", "p.gv", "out"]).env("PATH", path).env("SEDIMENT_BEFORE", "plain");
    step.current_dir(folder).output().unwrap().status.code()
}

#[test]
fn the_step_passes_an_ordered_program_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut code = String::from("volatile int sink;\n");
    for function in 0..40 {
        code += &format!("__attribute__((noinline)) void f{function}(void) {{ sink += {function}; }}\n");
    }
    code += "int main(void) { f3(); f30(); f11(); f22(); return 0; }\n";
    let calls: String =
        ["f30", "f22", "f11", "f3"].map(|name| format!("main -> {name} [count=9, label=0.25];\n")).concat();
    let profile = format!(
        "digraph p {{ graph [sediment=2, unit=calls, total=36]; subgraph cluster0 {{ graph [label=ordered]; main; f30; f22; f11; f3; }}\n{calls}}}\n"
    );
    std::fs::write(folder.path().join("p.c"), code).unwrap();
    std::fs::write(folder.path().join("p.gv"), profile).unwrap();
    let cc = |name: &str, more: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-ffunction-sections", "p.c", "-o", name]).args(more).current_dir(folder.path());
        cc.status().is_ok_and(|status| status.success())
    };
    if !cc("plain", &[]) {
        return support::skip("cc is missing");
    }
    let order = ["order", "p.gv", "--binary", "plain", "--linker", "gnu-ld-script", "-o", "order.ld"];
    let ordered =
        Command::new(env!("CARGO_BIN_EXE_sediment")).args(order).current_dir(folder.path()).output().unwrap();
    assert!(ordered.status.success(), "{}", String::from_utf8_lossy(&ordered.stderr));
    assert!(cc("ordered", &["-Wl,-T,order.ld"]));
    let comment = || std::fs::read_to_string(folder.path().join("out/comment.md")).unwrap();
    assert_eq!(step(folder.path(), "ordered"), Some(0));
    assert!(comment().contains("99 %") && !comment().contains("**"), "{}", comment());
    assert!(folder.path().join("out/layout.html").is_file());
    assert_eq!(step(folder.path(), "plain"), Some(5));
    assert!(comment().contains("**"), "{}", comment());
}

#[test]
fn the_jobs_call_the_step() {
    for job in ["github/action.yml", "gitlab.yml"] {
        let text = std::fs::read_to_string(dist().join(job)).unwrap();
        assert!(text.contains("layout-check"), "{job}");
    }
}
