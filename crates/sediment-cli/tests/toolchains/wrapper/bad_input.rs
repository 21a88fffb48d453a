// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong profiles, and builds in which no order applies: each link succeeds, without an order if necessary, and
//! standard error or the log has the reason.

use super::sediment;
use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Output};
use support::{self, Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let linkers = [gcc, Need::Program("ld.gold"), Need::LinkerFolder("lld")];
    let all = [&linkers[..], &[Need::LinkerFolder("gnu-ld-2.44")]].concat();
    vec![
        case("wrong_profiles_harm_no_link", &[gcc], wrong_profiles),
        case("folders_that_cannot_be_read_harm_no_link", &[gcc, Need::Program("setpriv")], unreadable),
        case("a_profile_of_versions_ago_orders_what_is_left", &[gcc], versions_ago),
        case("options_that_move_code_do_no_harm", &linkers, options_that_move_code),
        case("an_order_of_the_build_wins_over_the_wrapper", &all, two_orders),
        case("orders_that_are_removed_are_made_again", &[gcc], removed),
        case("objects_of_lto_that_lld_cannot_link", &[gcc, Need::LinkerFolder("lld")], lto_by_lld),
    ]
}

/// The program's bytes without the wrapper.
fn unordered(build: &BuildFolder) -> Vec<u8> {
    let output = build.link(
        Command::new("gcc")
            .current_dir(build.0.path())
            .args(["-O2", "-w", "-o", "prog"])
            .env_remove("PROF_DIR"),
    );
    assert!(output.status.success(), "{}", said(&output));
    std::fs::read(build.path("prog")).unwrap()
}

/// Checks that the link equals one without the wrapper, and that its output contains this.
fn left(build: &BuildFolder, output: &Output, expected: &[u8], word: &str) {
    let said = said(output);
    assert!(output.status.success(), "{word}: {said}");
    assert!(said.contains(word), "{word}: {said}");
    let last = build.last();
    assert_eq!(last["outcome"], "left", "{word}");
    assert!(said.contains(last["why"].as_str().unwrap()), "{said}: {last}");
    assert!(std::fs::read(build.path("prog")).unwrap() == expected, "{word}: another link");
}

fn wrong_profiles() {
    let build = BuildFolder::new();
    let expected = unordered(&build);
    let wrong: &[(&str, &str)] = &[
        ("digraph {", "prog.prof"),
        ("", "prog"),
        ("digraph Callgraph { graph [sediment=99]; }", "version"),
        (
            "digraph Callgraph { subgraph cluster0 { graph [label=\"prog\"]; \"strange\"; } \"strange\" -> \"strange\" [label=1.0]; }",
            "none of the functions",
        ),
    ];
    for (text, word) in wrong {
        std::fs::write(build.path("profiles/prog.prof"), text).unwrap();
        left(&build, &build.link_prog(), &expected, word);
    }
    // Names with blanks, quotes and the syntax of linkers; wrong versions.
    std::fs::remove_file(build.path("profiles/prog.prof")).unwrap();
    build.profile(
        "prog-3.2.1.prof",
        "prog-3.2.1",
        "  \"all_a\" -> \"x y\" [label=0.1, count=5];\n  \"all_a\" -> \"q\\\"); EVIL(\" [label=0.1, count=5];\n  \"all_a\" -> \"*\" [label=0.1, count=5];\n",
    );
    let output = build.link_prog();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let last = build.last();
    assert_eq!(last["rule"], "name without version");
    let left_out = last["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|skipped| skipped["code"] == "not-in-inputs"), "{last}");
    let order = std::fs::read_to_string(last["order"].as_str().unwrap()).unwrap();
    assert!(!order.contains("x y") && !order.contains("EVIL"), "{order}");
    assert!(build.placed() >= 98.0);
}

/// By a user other than root, who could read everything.
fn unreadable() {
    let build = BuildFolder::new();
    let expected = unordered(&build);
    // Other users may not enter folders that root builds in.
    for name in ["ld", "ld.bfd"] {
        std::fs::remove_file(build.path("wrapper").join(name)).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_sediment"), build.path("wrapper").join(name)).unwrap();
    }
    std::fs::write(build.path("file"), "").unwrap();
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let done = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    if root {
        done(Command::new("chown").args(["-R", "65534:65534"]).arg(build.0.path()));
    }
    let link = |folder: &str| {
        let mut command = Command::new(if root { "setpriv" } else { "env" });
        if root {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.args(["gcc", "-O2", "-w", "-ffunction-sections", "a.c", "b.c", "main.c", "-o", "prog"]);
        command
            .arg(format!("-B{}", build.path("wrapper").display()))
            .current_dir(build.0.path())
            .env("PROF_DIR", build.path(folder))
            .env("SEDIMENT_LOG", build.path("log"))
            .env("TMPDIR", build.0.path())
            .env_remove("SEDIMENT_LD")
            .output()
            .unwrap()
    };
    assert!(link("profiles").status.success());
    assert_eq!(build.last()["outcome"], "ordered");
    left(&build, &link("nowhere"), &expected, "PROF_DIR");
    left(&build, &link("file"), &expected, "PROF_DIR");
    let close = |name: &str, mode: &str| done(Command::new("chmod").arg(mode).arg(build.path(name)));
    close("profiles/prog.prof", "000");
    left(&build, &link("profiles"), &expected, "prog.prof");
    close("profiles", "000");
    left(&build, &link("profiles"), &expected, "PROF_DIR");
    close("profiles", "755");
    // A log that cannot be written is reported, too.
    close("profiles/prog.prof", "644");
    std::fs::remove_dir_all(build.path("log")).unwrap();
    std::fs::create_dir(build.path("log")).unwrap();
    close("log", "555");
    let output = link("profiles");
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains(".order: ") && said(&output).contains("SEDIMENT_LOG"),
        "{}",
        said(&output)
    );
    assert!(std::fs::read(build.path("prog")).unwrap() == expected);
}

fn versions_ago() {
    let build = BuildFolder::new();
    let path = build.path("profiles/prog.prof");
    let mut text = std::fs::read_to_string(&path).unwrap();
    for (turn, (name, _, _)) in crate::build::hot().into_iter().enumerate() {
        if name.len() == 3 || name == "twin" {
            for place in ['"', '@'] {
                text = text.replace(&format!("\"{name}{place}"), &format!("\"former{turn}{place}"));
            }
        }
    }
    std::fs::write(&path, &text).unwrap();
    let output = build.link_prog();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let last = build.last();
    assert_eq!(last["outcome"], "ordered");
    assert!(last["coverage_percent"].as_f64().unwrap() < 5.0, "{last}");
    let order = std::fs::read_to_string(last["order"].as_str().unwrap()).unwrap();
    assert!(order.contains("*(.text.all_a)") && !order.contains("former"), "{order}");
    build.runs("prog");
    // The rest as well, so that nothing is left to order.
    for name in ["all_a", "all_b", "main"] {
        text = text.replace(&format!("\"{name}\""), &format!("\"formerly_{name}\""));
    }
    std::fs::write(&path, &text).unwrap();
    left(&build, &build.link_prog(), &unordered(&build), "prog.prof");
}

fn options_that_move_code() {
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    let rows: &[&[&str]] = &[
        &["-Wl,--gc-sections"],
        &["-static"],
        &["-no-pie"],
        &["-Wl,-z,noseparate-code"],
        &["-fuse-ld=gold", "-Wl,--gc-sections"],
        &["-fuse-ld=gold", "-Wl,--icf=all", "-Wl,--gc-sections"],
        &["-fuse-ld=gold", "-Wl,-z,keep-text-section-prefix"],
        &[&lld, "-fuse-ld=lld", "-Wl,--gc-sections"],
        &[&lld, "-fuse-ld=lld", "-Wl,--icf=all", "-Wl,--gc-sections"],
        &[&lld, "-fuse-ld=lld", "-Wl,-z,keep-text-section-prefix"],
    ];
    let build = BuildFolder::new();
    for options in rows {
        let output = build.link(build.compiler("gcc").args(*options).args(["-o", "prog"]));
        assert!(output.status.success() && output.stderr.is_empty(), "{options:?}: {}", said(&output));
        assert_eq!(build.last()["outcome"], "ordered", "{options:?}");
        build.runs("prog");
        assert!(build.placed() >= 90.0, "{options:?}: {} %", build.placed());
    }
}

/// The build's own order in the language of each linker, once and twice: the linker gets exactly this order.
fn two_orders() {
    let gnu_ld = support::linker_folder("gnu-ld-2.44").unwrap();
    let lld = support::linker_folder("lld").unwrap();
    let in_folder = |folder: &Path| format!("-B{}", folder.display());
    let rows = [
        (
            "-fuse-ld=bfd".to_owned(),
            None,
            "-T",
            "SECTIONS { .text.own : { *(.text.a03) *(.text.b03) } } INSERT BEFORE .text;",
        ),
        (
            "-fuse-ld=bfd".to_owned(),
            Some(gnu_ld.join("ld")),
            "--section-ordering-file",
            ".text : { *(.text.a03) *(.text.b03) }",
        ),
        ("-fuse-ld=gold".to_owned(), None, "--section-ordering-file", ".text.a03\n.text.b03\n"),
        (format!("{} -fuse-ld=lld", in_folder(&lld)), None, "--symbol-ordering-file", "a03\nb03\n"),
    ];
    for (words, linker, option, text) in rows {
        let build = BuildFolder::new();
        for name in ["own", "other"] {
            std::fs::write(build.path(name), text).unwrap();
        }
        let own = if option == "-T" { "-Wl,-T,own".to_owned() } else { format!("-Wl,{option}=own") };
        for orders in [vec![own.clone()], vec![own.clone(), own.replace("own", "other")]] {
            let run = |wrapped: bool| {
                let mut compiler = build.compiler("gcc");
                if let Some(linker) = &linker {
                    compiler.env("SEDIMENT_LD", linker);
                }
                if !wrapped {
                    compiler.env_remove("PROF_DIR");
                }
                let output = build.link(compiler.args(words.split(' ')).args(&orders).args(["-o", "prog"]));
                assert!(output.status.success(), "{words} {orders:?}: {}", said(&output));
                (std::fs::read(build.path("prog")).unwrap(), said(&output))
            };
            assert!(run(true) == run(false), "{words} {orders:?}: not what the build asks for");
            let last = build.last();
            assert_eq!(last["outcome"], "left", "{words} {orders:?}");
            let why = last["why"].as_str().unwrap();
            assert!(why.contains(option), "{words}: {why}");
        }
        // A missing file: the linker reports it, as without the wrapper.
        std::fs::remove_file(build.path("own")).unwrap();
        let mut compiler = build.compiler("gcc");
        if let Some(linker) = &linker {
            compiler.env("SEDIMENT_LD", linker);
        }
        let output = build.link(compiler.args(words.split(' ')).arg(&own).args(["-o", "prog"]));
        assert!(!output.status.success() && said(&output).contains("own"), "{words}: {}", said(&output));
    }
}

/// Between configure, which also links, and the real link.
fn removed() {
    let build = BuildFolder::new();
    assert!(build.link_prog().status.success());
    let expected = std::fs::read(build.path("prog")).unwrap();
    std::fs::remove_dir_all(build.path("log")).unwrap();
    let output = build.link_prog();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert_eq!(build.log().len(), 1);
    assert!(std::fs::read(build.path("prog")).unwrap() == expected);
    assert!(build.placed() >= 99.0);
    // A file that a build passes itself: the linker reports that it is missing, and repeating the request creates it
    // again.
    let link = || {
        let order = sediment(&build, &["gen_link_order", "-l", "gnu-ld-script", "prog"]);
        assert!(order.status.success(), "{}", said(&order));
        let option = format!("-Wl,-T,{}", String::from_utf8(order.stdout).unwrap().trim_end());
        move |build: &BuildFolder| {
            let mut compiler = Command::new("gcc");
            compiler.current_dir(build.0.path()).args(["-O2", "-w", "-fuse-ld=bfd", "-o", "prog", &option]);
            build.link(&mut compiler)
        }
    };
    let configured = link();
    std::fs::remove_file(build.path("prog.order")).unwrap();
    let output = configured(&build);
    assert!(!output.status.success() && said(&output).contains("prog.order"), "{}", said(&output));
    assert!(link()(&build).status.success());
}

/// Promise to users: where lld cannot link GCC's LTO objects, with or without a profile and a log, one line names the
/// linkers that can.
fn lto_by_lld() {
    let build = BuildFolder::new();
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    let link = |more: &[&str], is_logged: bool| {
        let mut compiler = build.compiler("gcc");
        compiler.args(["-flto", &lld, "-o", "prog"]).args(more);
        if !is_logged {
            compiler.env_remove("SEDIMENT_LOG");
        }
        build.link(&mut compiler)
    };
    let advice = "-fuse-ld=bfd, gold, mold";
    for has_profile in [true, false] {
        for is_logged in [true, false] {
            let output = link(&["-fuse-ld=lld"], is_logged);
            let said = said(&output);
            assert!(!output.status.success(), "{said}");
            assert_eq!(said.matches(advice).count(), 1, "{said}");
        }
        // What helps, as the line says.
        for more in ["-fuse-ld=bfd", "-fuse-ld=lld -ffat-lto-objects"] {
            let output = link(&more.split(' ').collect::<Vec<_>>(), true);
            let said = said(&output);
            assert!(output.status.success() && !said.contains(advice), "{more}: {said}");
            build.runs("prog");
        }
        if has_profile {
            std::fs::remove_file(build.path("profiles/prog.prof")).unwrap();
        }
    }
    build.profile("prog.prof", "prog", "");
    assert!(link(&["-g", "-fuse-ld=bfd"], true).status.success());
    for (linker, is_warned) in [("lld", true), ("gnu-ld-script", false)] {
        let arguments = ["order", "profiles/prog.prof", "--binary", "prog", "--linker", linker];
        let output = sediment(&build, &[&arguments[..], &["--min-coverage", "0"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output).contains(advice), is_warned, "{linker}: {}", said(&output));
    }
}
