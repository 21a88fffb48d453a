// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of a link through the wrapper: it never waits, never reads input that the linker cannot read again, and writes only where
//! it should.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let guarded = [gcc, Need::Program("timeout"), Need::Program("mkfifo")];
    vec![
        case("pipes_and_devices_among_profiles_stop_no_link", &guarded, pipes_among_profiles),
        case("pipes_in_the_log_stop_no_link", &guarded, pipes_in_the_log),
        case("temporary_folders_are_for_their_owner_alone", &[gcc], private_folders),
        case("pipes_and_devices_are_left_to_the_linker", &guarded, read_once),
        case("objects_may_be_descriptors", &[gcc], objects_by_descriptor),
        case("objects_from_a_pipe_are_left_to_lld", &[gcc, Need::LinkerFolder("lld")], object_from_a_pipe),
        case("response_files_without_an_end_are_left_to_the_linker", &guarded, endless_response_files),
        case("a_log_is_whole_or_not_at_all", &[gcc], whole_log),
        case("links_in_the_log_are_not_followed", &[gcc], links_in_the_log),
        case("names_of_files_stay_in_their_line", &[gcc], newlines),
    ]
}

/// Longer than any link takes, so that a link that blocks forever is noticed.
pub const LONGEST: &str = "120";

pub fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub fn done(command: &mut Command) {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

fn fifo(path: &Path) {
    done(Command::new("mkfifo").arg(path));
}

/// Links the program through the wrapper, with a time limit.
fn guarded_link(build: &BuildFolder) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", LONGEST, "gcc", "-O2", "-w", "-ffunction-sections", "-o", "prog"]);
    command.args(["a.c", "b.c", "main.c"]).arg(format!("-B{}", build.path("wrapper").display()));
    command.current_dir(build.0.path()).env("PROF_DIR", build.path("profiles"));
    let output = run(command.env("SEDIMENT_LOG", build.path("log")).env_remove("SEDIMENT_LD"));
    assert!(output.status.success(), "{:?} {}", output.status, said(&output));
    build.runs("prog");
    output
}

fn pipes_among_profiles() {
    for name in ["another.gv", "another.prof", "map"] {
        let build = BuildFolder::new();
        fifo(&build.path("profiles").join(name));
        let output = guarded_link(&build);
        assert_eq!(build.last()["outcome"], "ordered", "{name}");
        let told = said(&output).contains(&format!("/{name}"));
        // A profile of another program is not read.
        assert_eq!(told, name != "another.prof", "{name}: {}", said(&output));
        let mut show = Command::new("timeout");
        show.args([LONGEST, env!("CARGO_BIN_EXE_sediment"), "show", "profiles"]).current_dir(build.0.path());
        let text = said(&run(&mut show));
        assert!(
            text.starts_with("sediment: warning: ") && text.contains(&format!("profiles/{name}: ")),
            "{text}"
        );
    }
    for target in ["/dev/zero", "/dev/tty", "/proc/kmsg"] {
        let build = BuildFolder::new();
        symlink(target, build.path("profiles/another.gv")).unwrap();
        guarded_link(&build);
        assert_eq!(build.last()["outcome"], "ordered", "{target}");
    }
    let build = BuildFolder::new();
    std::fs::remove_file(build.path("profiles/prog.prof")).unwrap();
    fifo(&build.path("profiles/prog.prof"));
    let output = guarded_link(&build);
    assert_eq!(build.last()["outcome"], "left");
    assert!(said(&output).contains("/prog.prof: "), "{}", said(&output));
    // Longer than the limit for each link, without using disk space.
    let build = BuildFolder::new();
    let file = std::fs::File::create(build.path("profiles/another.gv")).unwrap();
    file.set_len(1 << 40).unwrap();
    let output = guarded_link(&build);
    assert_eq!(build.last()["outcome"], "ordered");
    assert!(
        said(&output).contains("/another.gv: ") && said(&output).contains("268435456"),
        "{}",
        said(&output)
    );
}

fn pipes_in_the_log() {
    let build = BuildFolder::new();
    fifo(&build.path("log/links.jsonl"));
    let output = guarded_link(&build);
    assert!(said(&output).contains("SEDIMENT_LOG: "), "{}", said(&output));
    std::fs::remove_file(build.path("log/links.jsonl")).unwrap();
    guarded_link(&build);
    let order = build.last()["order"].as_str().unwrap().to_owned();
    std::fs::remove_file(&order).unwrap();
    fifo(Path::new(&order));
    assert!(said(&guarded_link(&build)).is_empty());
    assert!(std::fs::symlink_metadata(&order).unwrap().is_file());
    std::fs::remove_dir_all(build.path("log")).unwrap();
    fifo(&build.path("log"));
    let output = guarded_link(&build);
    assert!(said(&output).contains("SEDIMENT_LOG: "), "{}", said(&output));
}

/// A linker at the path in SEDIMENT_LD that disappears before the link itself.
fn linker(build: &BuildFolder, text: &str) -> std::path::PathBuf {
    let path = build.path("linker");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn private_folders() {
    let look = "for word; do case $word in */sediment-*) [ -d \"${word%/*}\" ] && \
        stat -c %a \"${word%/*}\" >>modes && for file in \"${word%/*}\"/*; do [ -e \"$file\" ] && [ \"${file##*/}\" = order ] && \
        stat -c %a \"$file\" >>modes; done;; esac; done";
    let wild = "[ \"$1\" = --version ] && { echo 'Wild version 0.8.0'; exit; }";
    for (before, expected) in [("", "700\n600\n"), (wild, "700\n")] {
        for umask in ["000", "002", "022", "077"] {
            let build = BuildFolder::new();
            std::fs::create_dir(build.path("temporary")).unwrap();
            let path = linker(&build, &format!("{before}\n{look}\nexec ld.bfd \"$@\""));
            let script = "umask $1; shift; exec \"$@\"";
            let mut command = Command::new("sh");
            command.args([
                "-c",
                script,
                "sh",
                umask,
                "gcc",
                "-O2",
                "-w",
                "-ffunction-sections",
                "-o",
                "prog",
            ]);
            command.args(["a.c", "b.c", "main.c"]).arg(format!("-B{}", build.path("wrapper").display()));
            command.current_dir(build.0.path()).env("PROF_DIR", build.path("profiles"));
            command
                .env("SEDIMENT_LD", path)
                .env("TMPDIR", build.path("temporary"))
                .env_remove("SEDIMENT_LOG");
            done(&mut command);
            let modes = std::fs::read_to_string(build.path("modes")).unwrap();
            assert_eq!(modes, expected, "{umask} {before}");
            assert!(
                std::fs::read_dir(build.path("temporary")).unwrap().next().is_none(),
                "something is left"
            );
        }
    }
    // What strips copies for `verify --same-as`.
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    std::fs::create_dir(build.path("tools")).unwrap();
    let tool = build.path("tools/objcopy");
    std::fs::write(
        &tool,
        format!(
            "#!/bin/sh\nstat -c %a . linked >>{}/modes\nexec /usr/bin/objcopy \"$@\"\n",
            build.0.path().display()
        ),
    )
    .unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "umask 000; PATH=$PWD/tools:$PATH; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_sediment"), "verify", "prog", "--same-as", "prog"]);
    done(command.current_dir(build.0.path()));
    let modes = std::fs::read_to_string(build.path("modes")).unwrap();
    assert!(
        modes.starts_with("700\n600\n") && modes.lines().all(|mode| mode == "700" || mode == "600"),
        "{modes}"
    );
}

/// Links the program's objects directly, with a linker that fails with an order.
fn direct(build: &BuildFolder, before: &str, words: &str) -> Output {
    let path = linker(build, "case \" $* \" in *sediment-*) exit 3;; esac; exec ld.bfd \"$@\"");
    let script = format!(
        "{before}timeout -k 1 {LONGEST} wrapper/ld.bfd -e main --unresolved-symbols=ignore-all -o prog a.o b.o main.o {words}"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(build.0.path()).env("SEDIMENT_LD", path);
    run(command.env("PROF_DIR", build.path("profiles")).env_remove("SEDIMENT_LOG"))
}

pub fn with_objects() -> BuildFolder {
    let build = BuildFolder::new();
    let mut compiler = build.compiler("gcc");
    done(compiler.args(["-ffunction-sections", "-c", "a.c", "b.c", "main.c"]));
    build
}

fn read_once() {
    let build = with_objects();
    std::fs::write(build.path("versions"), "{ global: main; local: *; };\n").unwrap();
    std::fs::write(build.path("words"), "-z now\n").unwrap();
    let rows = [
        "-shared --version-script=fifo",
        "-shared --version-script fifo",
        "-shared --version-script=/dev/stdin",
        "-Tfifo",
        "-T fifo",
        "@fifo",
    ];
    for words in rows {
        let _ = std::fs::remove_file(build.path("fifo"));
        fifo(&build.path("fifo"));
        let content = match words {
            "@fifo" => "cat words",
            words if words.contains("-T") => "echo 'SECTIONS { .more : { *(.more) } } INSERT AFTER .data;'",
            _ => "cat versions",
        };
        let (writer, before) = match words.contains("stdin") {
            true => ("true".to_owned(), format!("{content} | ")),
            false => (format!("{{ {content}; }} >fifo"), String::new()),
        };
        let mut command = Command::new("timeout");
        let mut writer =
            command.args([LONGEST, "sh", "-c", &writer]).current_dir(build.0.path()).spawn().unwrap();
        let output = direct(&build, &before, words);
        let _ = writer.kill();
        let _ = writer.wait();
        let text = said(&output);
        let file = if words.contains("stdin") { "/dev/stdin" } else { "fifo" };
        let ours: Vec<&str> = text.lines().filter(|line| line.contains("sediment: ")).collect();
        assert!(ours.len() == 1 && ours[0].contains(&format!(" {file} ")), "{words}: {text}");
        // GNU ld treats a response file that is a pipe as an input, and finds nothing there.
        assert_eq!(output.status.success(), words != "@fifo", "{words}: {text}");
    }
    // Regular files can be read again under any name, and nobody needs the contents of /dev/null.
    for words in ["-T /dev/stdin <script", "-Map=/dev/null"] {
        std::fs::write(build.path("script"), "SECTIONS { .more : { *(.more) } } INSERT AFTER .data;")
            .unwrap();
        let output = direct(&build, "", words);
        assert!(output.status.success(), "{words}: {}", said(&output));
        assert_eq!(
            said(&output).matches("sediment: prog: warning: ").count(),
            1,
            "{words}: {}",
            said(&output)
        );
    }
}

/// Devices that read as files, including inputs. /dev/null is an empty linker script.
fn objects_by_descriptor() {
    for words in ["a.o b.o /dev/null", "a.o /dev/fd/3 3<b.o", "a.o /dev/stdin <b.o"] {
        let build = with_objects();
        let script = format!("gcc -B\"$0\" main.o -o prog {words}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .arg(build.path("wrapper"))
            .current_dir(build.0.path())
            .env_remove("SEDIMENT_LD");
        done(command.env("PROF_DIR", build.path("profiles")).env("SEDIMENT_LOG", build.path("log")));
        let last = build.last();
        assert_eq!(last["outcome"], "ordered", "{words}: {last}");
        assert!(build.placed() > 99.9, "{words}: {}", build.placed());
        build.runs("prog");
    }
}

fn object_from_a_pipe() {
    let build = with_objects();
    let lld = support::linker_folder("lld").unwrap().join("ld.lld");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "cat b.o | wrapper/ld.lld -e main --unresolved-symbols=ignore-all -o prog a.o main.o /dev/stdin",
    ]);
    command.current_dir(build.0.path()).env("SEDIMENT_LD", lld).env("PROF_DIR", build.path("profiles"));
    let output = run(&mut command);
    assert!(output.status.success() && said(&output).contains(" /dev/stdin "), "{}", said(&output));
    let names = run(Command::new("nm").arg(build.path("prog")));
    assert!(String::from_utf8_lossy(&names.stdout).contains(" T all_b"));
}

fn endless_response_files() {
    let build = with_objects();
    for depth in 0..10 {
        let text = if depth == 9 { "-z now ".repeat(10) } else { format!("@words{} ", depth + 1).repeat(10) };
        std::fs::write(build.path(&format!("words{depth}")), text).unwrap();
    }
    let link = |program: &str| {
        // In memory that cannot hold a billion words.
        let script =
            format!("ulimit -v 2000000; exec timeout -k 1 {LONGEST} {program} @words0 -o prog main.o");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(build.0.path()).env_remove("SEDIMENT_LOG");
        run(command.env("PROF_DIR", build.path("profiles")).env_remove("SEDIMENT_LD"))
    };
    let (plain, wrapped) = (link("ld.bfd"), link("wrapper/ld.bfd"));
    assert_eq!(plain.status.code(), wrapped.status.code(), "{}", said(&wrapped));
    let text = said(&wrapped);
    let (ours, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("sediment: "));
    assert_eq!(rest, said(&plain).lines().collect::<Vec<_>>());
    assert!(ours.len() == 1 && ours[0].starts_with("sediment: a.out: "), "{text}");
}

fn whole_log() {
    let build = with_objects();
    // An order that is longer than the limit.
    let path = build.path("profiles/prog.prof");
    let (mut nodes, mut edges) = (String::new(), String::new());
    for number in 0..24 {
        nodes += &format!("    \"a{number:02}\"; \"b{number:02}\";\n");
        edges += &format!("  \"a{number:02}\" -> \"b{number:02}\" [label=0.01, count=7];\n");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let end = text.rfind('}').unwrap();
    std::fs::write(&path, text[..end].replace("    \"gone\";\n", &nodes) + &edges + "}\n").unwrap();
    // A linker that writes nothing, so that the limit affects only the log.
    let path = linker(&build, "[ \"$1\" = --version ] && echo 'GNU ld 2.40'; exit 0");
    let link = |limit: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec wrapper/ld.bfd -o prog a.o b.o main.o");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(build.0.path()).env("SEDIMENT_LD", &path);
        run(command.env("PROF_DIR", build.path("profiles")).env("SEDIMENT_LOG", build.path("log")))
    };
    let output = link("unlimited");
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    let order = build.last()["order"].as_str().unwrap().to_owned();
    let [kept, links] = [&order, &build.path("log/links.jsonl").display().to_string()]
        .map(|path| std::fs::read(path).unwrap());
    assert!(kept.len() > 600 && links.len() > 300, "too short for the limit: {} {}", kept.len(), links.len());
    let output = link("1");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("SEDIMENT_LOG: "), "{}", said(&output));
    assert!(std::fs::read(&order).unwrap() == kept, "another order");
    assert!(std::fs::read(build.path("log/links.jsonl")).unwrap() == links, "half a line");
    assert_eq!(std::fs::read_dir(build.path("log")).unwrap().count(), 2, "something is left");
    // The incomplete line of another process is not part of the next line.
    std::fs::write(build.path("log/links.jsonl"), b"{\"outcome\": \"le").unwrap();
    assert!(link("unlimited").status.success());
    let text = std::fs::read_to_string(build.path("log/links.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 2 && serde_json::from_str::<serde_json::Value>(lines[1]).is_ok(), "{text}");
}

fn links_in_the_log() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    let order = build.last()["order"].as_str().unwrap().to_owned();
    for name in [order.as_str(), "log/links.jsonl"] {
        let path = build.path(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(build.path("elsewhere"), "kept").unwrap();
        symlink(build.path("elsewhere"), &path).unwrap();
        let output = build.link_prog();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(std::fs::read(build.path("elsewhere")).unwrap(), b"kept", "{name}");
        if name == order {
            assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(said(&output).is_empty() && text.contains("(.text.a07)"), "{}{text}", said(&output));
        } else {
            assert!(said(&output).contains("SEDIMENT_LOG: "), "{}", said(&output));
        }
    }
}

/// A name that would become a line of its own: of a profile, of an output, and of a verified file.
fn newlines() {
    const NAME: &str = "nl\nforged: 100.00 % of the calls in the profile placed as ordered";
    let build = BuildFolder::new();
    let profile = format!("profiles/{NAME}.prof");
    std::fs::copy(build.path("profiles/prog.prof"), build.path(&profile)).unwrap();
    std::fs::copy(build.path("profiles/prog.prof"), build.path("profiles/again.gv")).unwrap();
    std::fs::write(build.path("profiles").join("nl\nforged.gv"), "digraph {").unwrap();
    let output = build.link(build.compiler("gcc").args(["-o", NAME]));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(build.last()["outcome"], "ordered", "{}", build.last());
    let order = build.last()["order"].as_str().unwrap().to_owned();
    let missing = format!("{NAME}.gv");
    let rows: &[&[&str]] = &[
        &["verify", NAME, "--order", &order],
        &["verify", NAME, "--same-as", NAME],
        &["verify", "--log", "log"],
        &["verify", "--log", "log", "--installed", "."],
        &["show", "profiles"],
        &["show", &profile],
        &["show", &missing],
        &["order", &profile, "--binary", NAME],
        &["report", "--binary", NAME, "--output", "page", &profile],
        &["show", &profile, NAME],
        &["advise", "inline", &profile, "--binary", NAME],
        &["doctor", "--build-log", &order, "--log", "log"],
        &["gen_link_order", NAME, &profile],
    ];
    for row in rows {
        let output = sediment(&build, row);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{row:?}: {text}");
    }
}
