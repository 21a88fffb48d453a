// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compilers for testing the plugin: this system's, a cross compiler, and compilers in trees of Debian.

use crate::running::err;
use libtest_mimic::Trial;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock};
use support::{self, DEBIAN_13, DEBIAN_SID, Need};
use tempfile::TempDir;

/// A GCC, and the system that it runs on.
#[derive(Debug)]
pub struct Compiler {
    pub name: &'static str,
    pub c: &'static str,
    pub cxx: &'static str,
    /// Compiler for its plugins, which run on the same machine as the GCC.
    builder: &'static str,
    pub runs: CompilerHost,
    pub needs: &'static [Need],
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum CompilerHost {
    /// It runs here, and so do its programs.
    Here,
    /// It runs here; its programs run on another machine.
    ForOthers,
    /// It runs in a tree of Debian.
    InTree(&'static str),
}

const HEADERS_13: &str = "usr/lib/gcc/x86_64-linux-gnu/13/plugin/include/gcc-plugin.h";
const HEADERS_14: &str = "usr/lib/gcc/x86_64-linux-gnu/14/plugin/include/gcc-plugin.h";
const HEADERS_15: &str = "usr/lib/gcc/x86_64-linux-gnu/15/plugin/include/gcc-plugin.h";
const HEADERS_16: &str = "usr/lib/gcc/x86_64-linux-gnu/16/plugin/include/gcc-plugin.h";
const HEADERS_14_AARCH64: &str = "usr/lib/gcc-cross/aarch64-linux-gnu/14/plugin/include/gcc-plugin.h";

pub static COMPILERS: &[Compiler] = &[
    Compiler {
        name: "gcc",
        c: "gcc",
        cxx: "g++",
        builder: "g++",
        runs: CompilerHost::Here,
        needs: &[Need::Program("make"), Need::Program("g++"), Need::GccPluginHeaders("gcc")],
    },
    Compiler {
        name: "aarch64-gcc",
        c: "aarch64-linux-gnu-gcc",
        cxx: "aarch64-linux-gnu-g++",
        builder: "g++",
        runs: CompilerHost::ForOthers,
        needs: &[
            Need::Program("make"),
            Need::Program("g++"),
            Need::Program("aarch64-linux-gnu-g++"),
            Need::GccPluginHeaders("aarch64-linux-gnu-gcc"),
        ],
    },
    Compiler {
        name: "gcc-14",
        c: "gcc-14",
        cxx: "g++-14",
        builder: "g++-14",
        runs: CompilerHost::InTree(DEBIAN_13),
        needs: &[Need::Program("unshare"), Need::Debian13(HEADERS_14), Need::Debian13("usr/bin/make")],
    },
    Compiler {
        name: "aarch64-gcc-14",
        c: "aarch64-linux-gnu-gcc-14",
        cxx: "aarch64-linux-gnu-g++-14",
        builder: "g++-14",
        runs: CompilerHost::InTree(DEBIAN_13),
        needs: &[
            Need::Program("unshare"),
            Need::Debian13(HEADERS_14_AARCH64),
            Need::Debian13("usr/bin/aarch64-linux-gnu-g++-14"),
        ],
    },
    Compiler {
        name: "gcc-13",
        c: "gcc-13",
        cxx: "g++-13",
        builder: "g++-13",
        runs: CompilerHost::InTree(DEBIAN_13),
        needs: &[Need::Program("unshare"), Need::Debian13(HEADERS_13), Need::Debian13("usr/bin/g++-13")],
    },
    Compiler {
        name: "gcc-15",
        c: "gcc-15",
        cxx: "g++-15",
        builder: "g++-15",
        runs: CompilerHost::InTree(DEBIAN_SID),
        needs: &[Need::Program("unshare"), Need::DebianSid(HEADERS_15), Need::DebianSid("usr/bin/g++-15")],
    },
    Compiler {
        name: "gcc-16",
        c: "gcc-16",
        cxx: "g++-16",
        builder: "g++-16",
        runs: CompilerHost::InTree(DEBIAN_SID),
        needs: &[Need::Program("unshare"), Need::DebianSid(HEADERS_16), Need::DebianSid("usr/bin/g++-16")],
    },
];

/// Folder of a plugin in a tree, once it is built.
type PluginFolder = Arc<OnceLock<TempDir>>;

impl Compiler {
    pub fn folder(&self) -> TempDir {
        match self.runs {
            CompilerHost::Here | CompilerHost::ForOthers => TempDir::new().unwrap(),
            CompilerHost::InTree(tree) => TempDir::new_in(support::tree(tree).join("tmp")).unwrap(),
        }
    }

    /// Prepares a program on this compiler's system, to be started in a folder of [`Self::folder`].
    pub fn command(&self, folder: &Path, program: &str) -> Command {
        let CompilerHost::InTree(tree) = self.runs else {
            let mut command = Command::new(program);
            command.current_dir(folder);
            return command;
        };
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "chroot"]).arg(support::tree(tree));
        command.arg("env").arg("-C").arg(self.inside(folder)).arg(program);
        command
    }

    pub fn run(&self, folder: &Path, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(folder, program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", err(&output));
        output
    }

    /// Returns a path as this compiler sees it.
    fn inside(&self, path: &Path) -> PathBuf {
        let CompilerHost::InTree(tree) = self.runs else { return path.to_owned() };
        path.strip_prefix(support::tree(tree))
            .map_or_else(|_| path.to_owned(), |path| Path::new("/").join(path))
    }

    /// Returns the option that loads the plugin, which is built once.
    pub fn plugin(&self) -> String {
        static BUILT: OnceLock<Mutex<HashMap<&str, PluginFolder>>> = OnceLock::new();
        let CompilerHost::InTree(_) = self.runs else {
            return format!("-fplugin={}", support::plugin::built(self.c).join("sediment.so").display());
        };
        let built = BUILT.get_or_init(Mutex::default).lock().unwrap().entry(self.name).or_default().clone();
        let folder = built.get_or_init(|| self.build_plugin());
        format!("-fplugin={}", self.inside(&folder.path().join("sediment.so")).display())
    }

    fn build_plugin(&self) -> TempDir {
        let folder = self.folder();
        let source = support::root().join("gcc-plugin");
        for entry in std::fs::read_dir(source).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() && entry.file_name() != "LICENSE" {
                std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        let [cc, cxx] =
            [("CC", self.c), ("CXX", self.builder)].map(|(name, value)| format!("{name}={value}"));
        self.run(folder.path(), "make", &["-s", "-B", &cc, &cxx, "CXXFLAGS=-O1 -Werror"]);
        folder
    }
}
