// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small program for each cell of the table of compilers and linkers in docs/proofs/linkers.md: ordered, verified, and the same.

use crate::build::{BuildFolder, said};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use support::{self, Need, case};

const COMPILERS: [&str; 3] = ["gcc", "gcc-14", "clang-19"];
/// Name, argument of `-fuse-ld`, program, dialect.
const LINKERS: [(&str, &str, &str, &str); 4] = [
    ("ld", "bfd", "ld.bfd", "gnu-ld-script"),
    ("ld_2_44", "bfd", "ld.bfd", "gnu-ld"),
    ("gold", "gold", "ld.gold", "gold"),
    ("lld", "lld", "ld.lld", "lld"),
];
const OPTIMISATIONS: [(&str, Option<&str>); 3] =
    [("plain", None), ("lto", Some("-flto")), ("thin_lto", Some("-flto=thin"))];

#[derive(Debug, Clone, Copy)]
struct Cell {
    compiler: &'static str,
    linker: (&'static str, &'static str, &'static str, &'static str),
    lto: Option<&'static str>,
    cxx: bool,
}

pub fn cases() -> Vec<Trial> {
    let mut cases = Vec::new();
    for compiler in COMPILERS {
        for (word, lto) in
            OPTIMISATIONS.into_iter().filter(|(word, _)| *word != "thin_lto" || compiler == "clang-19")
        {
            for linker in LINKERS {
                for cxx in [false, true] {
                    let cell = Cell { compiler, linker, lto, cxx };
                    let language = if cxx { "cxx" } else { "c" };
                    let name = format!("cell_{}_{language}_{word}_{}", compiler.replace('-', "_"), linker.0);
                    cases.push(case(&name, &cell.needs(), move || cell.check()));
                }
            }
        }
    }
    cases.push(case(
        "mold_links_what_gnu_ld_put_in_order",
        &[Need::Program("gcc"), Need::Program("mold")],
        || joined("mold", "mold"),
    ));
    cases.push(case(
        "wild_links_what_gnu_ld_put_in_order",
        &[Need::Program("gcc"), Need::FurtherReference("wild")],
        || joined("wild", "Wild"),
    ));
    cases
}

impl Cell {
    fn needs(self) -> Vec<Need> {
        let compiler = match (self.compiler, self.cxx) {
            ("gcc-14", _) => Need::LinkerFolder("gcc-14"),
            ("gcc", true) => Need::Program("g++"),
            (compiler, _) => Need::Program(compiler),
        };
        let linker = match self.linker.0 {
            "ld_2_44" => Need::LinkerFolder("gnu-ld-2.44"),
            "lld" => Need::LinkerFolder("lld"),
            _ => Need::Program(self.linker.2),
        };
        vec![compiler, linker]
    }

    fn check(self) {
        let build = if self.cxx { BuildFolder::cxx() } else { BuildFolder::new() };
        let output = self.link(&build);
        if self.compiler != "clang-19" && self.lto.is_some() && self.linker.0 == "lld" {
            // lld does not support the code that GCC leaves to its own plugin.
            assert!(
                !output.status.success() && said(&output).contains("undefined symbol: main"),
                "{}",
                said(&output)
            );
            return;
        }
        assert!(output.status.success(), "{}", said(&output));
        build.runs("prog");
        let last = build.last();
        assert_eq!((&last["outcome"], &last["linker"]), (&"ordered".into(), &self.linker.3.into()), "{last}");
        // Link-time optimisation inlines and clones functions as small as these; the table's own program has at least
        // 95 %.
        let least = if self.lto.is_some() { 75.0 } else { 99.0 };
        assert!(build.placed() >= least, "{} %, {last}", build.placed());
        if self.lto.is_none() {
            std::fs::rename(build.path("prog"), build.path("ordered")).unwrap();
            std::fs::remove_dir_all(build.path("profiles")).unwrap();
            std::fs::create_dir(build.path("profiles")).unwrap();
            assert!(self.link(&build).status.success());
            let same = super::sediment(&build, &["verify", "ordered", "--same-as", "prog"]);
            assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
        }
    }

    fn link(self, build: &BuildFolder) -> Output {
        let in_tree = self.compiler == "gcc-14";
        let program = match (self.compiler, self.cxx) {
            ("gcc", false) => "gcc".to_owned(),
            ("gcc", true) => "g++".to_owned(),
            ("gcc-14", cxx) => {
                let folder = support::linker_folder("gcc-14").unwrap();
                // The tree contains the build's folder, but links must not lead out of it.
                for name in ["ld", "ld.bfd", "ld.gold", "ld.lld"] {
                    let own = build.path("wrapper").join(name);
                    std::fs::remove_file(&own).unwrap();
                    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), own).unwrap();
                }
                folder.join(if cxx { "g++" } else { "gcc" }).display().to_string()
            }
            (compiler, false) => compiler.to_owned(),
            (compiler, true) => compiler.replace("clang", "clang++"),
        };
        let linker = match (self.linker.0, in_tree) {
            ("ld_2_44", true) => "ld.bfd".to_owned(),
            ("ld_2_44", false) => {
                support::linker_folder("gnu-ld-2.44").unwrap().join("ld").display().to_string()
            }
            (name, in_tree) => {
                let path = match name {
                    // It behaves according to the name under which it is called, so links must not be resolved
                    // completely.
                    "lld" => {
                        std::fs::read_link(support::linker_folder("lld").unwrap().join("ld.lld")).unwrap()
                    }
                    _ => support::program(self.linker.2).unwrap(),
                };
                if in_tree {
                    in_the_tree(build, &path.display().to_string())
                } else {
                    path.display().to_string()
                }
            }
        };
        let ending = if self.cxx { "cc" } else { "c" };
        let sources = ["a", "b", "main"].map(|name| format!("{name}.{ending}"));
        let mut command = build.compiler(&program);
        command.env("SEDIMENT_LD", linker).args(self.lto).arg(format!("-fuse-ld={}", self.linker.1));
        command
            .args(["-g", "-ffunction-sections", "-Wl,--build-id", "-o", "prog"])
            .args(sources)
            .output()
            .unwrap()
    }
}

/// A linker of this system that runs with the C library of the tree.
fn in_the_tree(build: &BuildFolder, path: &str) -> String {
    let script = build.path("linker");
    let folders = "/usr/lib/x86_64-linux-gnu:/host/usr/lib/x86_64-linux-gnu:/host/usr/lib/llvm-19/lib";
    let text =
        format!("#!/bin/sh\nexec /lib64/ld-linux-x86-64.so.2 --library-path {folders} /host{path} \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

/// With a linker that cannot order functions, and has this name.
fn joined(linker: &str, name: &str) {
    for cxx in [false, true] {
        let build = if cxx { BuildFolder::cxx() } else { BuildFolder::new() };
        let ending = if cxx { "cc" } else { "c" };
        let program = if cxx { "g++" } else { "gcc" };
        let link = |more: &[&str]| {
            let mut command = build.compiler(program);
            command.env("SEDIMENT_LD", support::program(linker).unwrap()).args(more);
            command
                .args(["-g", "-ffunction-sections", "-o", "prog", "a.o", "b.o", "main.o"])
                .output()
                .unwrap()
        };
        for name in ["a", "b", "main"] {
            let compiled = Command::new(program)
                .current_dir(build.0.path())
                .args(["-O2", "-w", "-g", "-ffunction-sections", "-c", &format!("{name}.{ending}")])
                .status();
            assert!(compiled.unwrap().success());
        }
        let output = link(&[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        assert_eq!(build.last()["outcome"], "ordered");
        build.runs("prog");
        assert!(build.placed() >= 99.0, "{} %", build.placed());
        // If the result might differ, the link is done as usual, and a message reports it.
        let output = link(&["-Wl,--gc-sections"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains(&format!("({name})")), "{}", said(&output));
        build.runs("prog");
    }
}
