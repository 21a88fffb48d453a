// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dist/ci`: the step for users' CI, on a program linked with an order and on one without, with its gate; and the
//! shell steps of the action and the job.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/ci")
}

/// A command with the program on its PATH and a program linked without an order to compare with.
fn with_sediment(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let own = Path::new(env!("CARGO_BIN_EXE_sediment")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    command.env("PATH", path).env("SEDIMENT_BEFORE", "plain").current_dir(folder);
    command
}

/// A program that writes its arguments and standard input to files, in a folder for the PATH. It prints the contents of
/// `NAME.answer`, and fails once if there is a file `NAME.fails`.
fn stand_in(folder: &Path, name: &str) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let text = format!(
        "#!/bin/sh\ncat >>{name}.input\nprintf '%s\\n' \"$@\" >>{name}.arguments\n\
         for file; do case $file in *posted.md) cat \"${{file#body@}}\" >{name}.posted ;; esac; done\n\
         rm {name}.fails 2>/dev/null && exit 1\n[ ! -e {name}.answer ] || cat {name}.answer\n"
    );
    std::fs::write(bin.join(name), text).unwrap();
    std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// Runs the step in a folder, with or without an experiment; returns its exit code.
fn step(folder: &Path, program: &str, experiment: &str) -> Option<i32> {
    let mut step = with_sediment(dist().join("layout-check"), folder);
    step.args([program, "order.ld", "p.gv", "out"]).env("SEDIMENT_EXPERIMENT", experiment);
    step.output().unwrap().status.code()
}

/// The step of the action or job in this file: the words of its key, as a shell command.
fn commands(file: &str, key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(dist().join(file)).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(key));
    lines.map(|line| line.trim_matches('\'').to_owned()).collect()
}

/// A program linked without and with an order, its profile and order; false without a compiler.
fn programs(folder: &Path) -> bool {
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
    std::fs::write(folder.join("p.c"), code).unwrap();
    std::fs::write(folder.join("p.gv"), profile).unwrap();
    let cc = |name: &str, more: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-ffunction-sections", "p.c", "-o", name]).args(more).current_dir(folder);
        cc.status().is_ok_and(|status| status.success())
    };
    if !cc("plain", &[]) {
        return false;
    }
    let order = ["order", "p.gv", "--binary", "plain", "--linker", "gnu-ld-script", "-o", "order.ld"];
    let ordered =
        Command::new(env!("CARGO_BIN_EXE_sediment")).args(order).current_dir(folder).output().unwrap();
    assert!(ordered.status.success(), "{}", String::from_utf8_lossy(&ordered.stderr));
    assert!(cc("ordered", &["-Wl,-T,order.ld"]));
    true
}

/// Experiments with times of two builds: `slower.jsonl` is a regression, `faster.jsonl` is not.
fn experiments(folder: &Path) {
    for (name, first) in [("short", 20), ("long", 60)] {
        let times: Vec<String> = (0..8).map(|run| format!("0.0{}", first + run % 3)).collect();
        std::fs::write(folder.join(name), times.join("\n")).unwrap();
    }
    for (before, after, file) in [("short", "long", "slower.jsonl"), ("long", "short", "faster.jsonl")] {
        let (before, after) = (format!("before={before}"), format!("after={after}"));
        let mut eval = Command::new(env!("CARGO_BIN_EXE_sediment"));
        eval.args(["eval", "import", &before, &after, "-o", file]).current_dir(folder);
        assert!(eval.status().unwrap().success(), "{file}");
    }
}

#[test]
fn the_step_passes_an_ordered_program_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    if !programs(folder.path()) {
        return support::skip("cc is missing");
    }
    let comment = || std::fs::read_to_string(folder.path().join("out/comment.md")).unwrap();
    assert_eq!(step(folder.path(), "ordered", ""), Some(0));
    assert!(comment().contains("99 %") && !comment().contains("**"), "{}", comment());
    assert!(comment().contains("before\n") && comment().contains('█'), "{}", comment());
    assert!(comment().contains(" → ") && comment().contains("Placed as ordered: 100.00 %"), "{}", comment());
    assert!(folder.path().join("out/layout.html").is_file());
    assert_eq!(step(folder.path(), "plain", ""), Some(5));
    assert!(comment().contains("**"), "{}", comment());
    assert!(comment().contains("Placed as ordered: 0.00 %"), "{}", comment());
    assert!(comment().contains("sediment: plain:"), "{}", comment());
}

/// There is nothing to compare with: no change is claimed, and the only map is of the linked file.
#[test]
fn a_comment_without_a_program_before() {
    let folder = tempfile::tempdir().unwrap();
    if !programs(folder.path()) {
        return support::skip("cc is missing");
    }
    let mut step = with_sediment(dist().join("layout-check"), folder.path());
    step.args(["ordered", "order.ld", "p.gv", "out"]).env_remove("SEDIMENT_BEFORE");
    assert_eq!(step.output().unwrap().status.code(), Some(0));
    let comment = std::fs::read_to_string(folder.path().join("out/comment.md")).unwrap();
    for word in ["→", "predicted", "before", "after"] {
        assert!(!comment.contains(word), "{word}: {comment}");
    }
    let expected = ["Pages that hold 99 % of the calls: 1\n", "Placed as ordered: 100.00 %", "█"];
    expected.iter().for_each(|text| assert!(comment.contains(text), "{text}: {comment}"));
    let left = std::fs::read_dir(folder.path().join("out")).unwrap().count();
    assert_eq!(left, 3, "verify.json, layout.html and comment.md alone are left, and no picture of a change");
}

#[test]
fn the_gate_stops_a_regression() {
    let folder = tempfile::tempdir().unwrap();
    if !programs(folder.path()) {
        return support::skip("cc is missing");
    }
    experiments(folder.path());
    let comment = || std::fs::read_to_string(folder.path().join("out/comment.md")).unwrap();
    assert_eq!(step(folder.path(), "ordered", "slower.jsonl"), Some(3), "{}", comment());
    // The maps of pages and the gate's output are between fences.
    assert!(comment().contains("Slower") && comment().matches("```").count() >= 4, "{}", comment());
    assert_eq!(step(folder.path(), "ordered", "faster.jsonl"), Some(0), "{}", comment());
    assert!(!comment().contains("**") && comment().matches("```").count() == 4, "{}", comment());
    // The first failure is the exit code; a missing experiment does not count as passed.
    assert_eq!(step(folder.path(), "plain", "slower.jsonl"), Some(5), "{}", comment());
    assert_eq!(step(folder.path(), "ordered", "missing.jsonl"), Some(1), "{}", comment());
    assert!(comment().contains("**") && comment().contains("missing.jsonl:"), "{}", comment());
}

/// The steps of the composite action, as in a runner: its folder and the file of the summary are variables.
#[test]
fn the_steps_of_the_action() {
    let folder = tempfile::tempdir().unwrap();
    if !programs(folder.path()) {
        return support::skip("cc is missing");
    }
    let steps = commands("github/action.yml", "run: ");
    assert_eq!(steps.len(), 3, "{steps:?}");
    let bin = stand_in(folder.path(), "gh");
    let run = |step: &str, program: &str, branch: &str| {
        let mut shell = with_sediment("sh", folder.path());
        shell.args(["-ec", step]).env("GITHUB_ACTION_PATH", dist().join("github"));
        shell.env("GITHUB_STEP_SUMMARY", folder.path().join("summary.md"));
        let own = Path::new(env!("CARGO_BIN_EXE_sediment")).parent().unwrap();
        let path = format!("{}:{}:{}", bin.display(), own.display(), std::env::var("PATH").unwrap());
        shell.env("PATH", path);
        for (name, value) in [
            ("PROGRAM", program),
            ("ORDER", "order.ld"),
            ("PROFILE", "p.gv"),
            ("FOLDER", "out"),
            ("PULL_REQUEST", "7"),
            ("GITHUB_REPOSITORY", "a/b"),
            ("GITHUB_RUN_ID", "55"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("SEDIMENT_PICTURES_BRANCH", branch),
        ] {
            shell.env(name, value);
        }
        shell.output().unwrap().status.code()
    };
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    for (program, code) in [("ordered", 0), ("plain", 5)] {
        assert_eq!(run(&steps[0], program, ""), Some(code));
        assert_eq!(run(&steps[1], program, ""), Some(0));
        assert_eq!(run(&steps[2], program, ""), Some(0));
        assert_eq!(file("gh.posted"), file("out/comment.md"));
    }
    let comment = "pr\ncomment\n7\n--repo\na/b\n--body-file\nout/posted.md\n";
    assert_eq!(file("gh.arguments"), comment.repeat(2));
    assert_eq!(file("summary.md").matches("### Layout of").count(), 2, "{}", file("summary.md"));

    // With a branch for pictures, the comment shows the picture that was committed there.
    std::fs::remove_file(folder.path().join("gh.arguments")).unwrap();
    std::fs::write(folder.path().join("gh.answer"), "https://forge.example/a/b/blob/pictures/x.svg\n")
        .unwrap();
    assert_eq!(run(&steps[2], "ordered", "pictures"), Some(0));
    let put =
        "api\n--method\nPUT\nrepos/a/b/contents/pull-7/55-1-out.svg\n--input\n-\n--jq\n.content.html_url\n";
    assert_eq!(file("gh.arguments"), format!("{put}{comment}"));
    let sent: serde_json::Value = serde_json::from_str(&file("gh.input")).unwrap();
    assert_eq!(sent["branch"], "pictures");
    let mut decode = Command::new("base64");
    decode.arg("-d").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut decode = decode.spawn().unwrap();
    std::io::Write::write_all(
        &mut decode.stdin.take().unwrap(),
        sent["content"].as_str().unwrap().as_bytes(),
    )
    .unwrap();
    let decoded = decode.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(decoded).unwrap(), file("out/layout.svg"));
    let shown = "](https://forge.example/a/b/blob/pictures/x.svg?raw=true)\n";
    assert!(file("gh.posted").contains(shown) && !file("gh.posted").contains('█'), "{}", file("gh.posted"));
    // A branch that does not exist or is not writable: the maps stay text.
    std::fs::write(folder.path().join("gh.fails"), "").unwrap();
    assert_eq!(run(&steps[2], "ordered", "pictures"), Some(0));
    assert_eq!(file("gh.posted"), file("out/comment.md"));
}

/// The script of the job, in a project with sediment's checkout as a folder.
#[test]
fn the_script_of_the_job() {
    let folder = tempfile::tempdir().unwrap();
    if !programs(folder.path()) {
        return support::skip("cc is missing");
    }
    std::os::unix::fs::symlink(support::root(), folder.path().join("sediment")).unwrap();
    let script = commands("gitlab.yml", "- ");
    assert_eq!(script.len(), 2, "{script:?}");
    let mut shell = with_sediment("sh", folder.path());
    shell.args(["-ec", &script[0]]).env("PROGRAM", "ordered").env("ORDER", "order.ld").env("PROFILE", "p.gv");
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // The comment is posted only with a token, in a pipeline of a merge request.
    let bin = stand_in(folder.path(), "curl");
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let post = |token: &str, request: &str| {
        let _ = std::fs::remove_file(folder.path().join("curl.arguments"));
        let mut shell = Command::new("sh");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        shell.args(["-ec", &script[1]]).env("PATH", path).current_dir(folder.path());
        shell.env("SEDIMENT_GITLAB_TOKEN", token).env("CI_MERGE_REQUEST_IID", request);
        shell.env("CI_API_V4_URL", "https://forge.example/api/v4").env("CI_PROJECT_ID", "12");
        assert!(shell.status().unwrap().success(), "{token} {request}");
        file("curl.arguments")
    };
    assert_eq!(post("", "3"), "");
    assert_eq!(post("secret", ""), "");
    let answer = r#"{"id":5,"alt":"layout","url":"/uploads/66dbc/layout.svg","full_path":"/-/project/12/uploads/66dbc/layout.svg"}"#;
    std::fs::write(folder.path().join("curl.answer"), answer).unwrap();
    let asked = post("secret", "3");
    let project = "https://forge.example/api/v4/projects/12";
    assert!(asked.contains(&format!("--form\nfile=@layout/layout.svg\n{project}/uploads\n")), "{asked}");
    assert!(asked.contains("body@layout/posted.md\n"), "{asked}");
    assert!(asked.ends_with(&format!("{project}/merge_requests/3/notes\n")), "{asked}");
    assert!(!asked.contains("secret"), "{asked}");
    assert_eq!(file("curl.input"), "header = \"PRIVATE-TOKEN: secret\"\n".repeat(2));
    let posted = file("curl.posted");
    assert!(posted.contains("](/uploads/66dbc/layout.svg)\n") && !posted.contains('█'), "{posted}");
    // Without the upload the maps stay text.
    std::fs::write(folder.path().join("curl.fails"), "").unwrap();
    post("secret", "3");
    assert_eq!(file("curl.posted"), file("layout/comment.md"));
}

/// The floor next to the change of a benchmark, and the shell steps of its action.
#[test]
fn the_floor_is_printed_beside_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let source = support::root().join("tests/golden/noise/steps.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-c", "-o", "steps.o"]).arg(source).current_dir(folder.path());
    if !cc.status().is_ok_and(|status| status.success()) {
        return support::skip("cc is missing");
    }
    let step = |change: &str, link: &str, limit: &str| {
        let steps = commands("github-noise/action.yml", "run: ");
        assert_eq!(steps.len(), 3, "{steps:?}");
        let mut shell = with_sediment("sh", folder.path());
        shell.args(["-ec", &steps[0]]).env("GITHUB_ACTION_PATH", dist().join("github-noise"));
        shell.envs([("CHANGE", change), ("LINK", link), ("FAIL_ABOVE", limit), ("BENCHMARK", "{program}")]);
        shell.envs([("FOLDER", "noise"), ("LAYOUTS", "5"), ("BLOCKS", "2"), ("METRIC", "minor-faults")]);
        let done = shell.output().unwrap();
        let comment = std::fs::read_to_string(folder.path().join("noise/comment.md")).unwrap_or_default();
        (done.status.code(), comment, String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let link = "cc {padding_object} steps.o -o {output}";
    let (code, comment, said) = step("-0.001", link, "");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        comment.contains("Change of the benchmark: -0.001 %") && comment.contains("5 layouts"),
        "{comment}"
    );
    assert!(comment.contains("within"), "{comment}");
    let (code, comment, _) = step("", link, "0.0001");
    assert!(
        code == Some(5) && comment.contains("above the limit") && !comment.contains("Change"),
        "{comment}"
    );
    let (code, comment, _) = step("1", "cc steps.o -o {output}", "");
    assert!(code == Some(2) && comment.contains("{padding_object}"), "{comment}");
    assert_eq!(step("fast", link, "").0, Some(2));
}
