// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small project for each build system with a program and (except for plain make) a shared library; and their
//! profile.

#![allow(dead_code)] // each test program uses its part

pub mod settings;

pub use settings::without_settings;
use std::fmt::Write as _;

/// Build system of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectKind {
    Make,
    Autotools,
    CMake,
    Meson,
}

/// Number of functions in the program, and in the library. Functions with an odd number are hot, the last one first.
pub const FUNCTIONS: usize = 12;

/// The project's files, each with its text.
pub fn files(kind: ProjectKind) -> Vec<(String, String)> {
    let suffix = if kind == ProjectKind::CMake { "cc" } else { "c" };
    let build: &[(&str, &str)] = match kind {
        ProjectKind::Make => &[("Makefile", MAKEFILE)],
        ProjectKind::Autotools => &[("configure.ac", CONFIGURE), ("Makefile.am", AUTOMAKE)],
        ProjectKind::CMake => &[("CMakeLists.txt", CMAKE)],
        ProjectKind::Meson => &[("meson.build", MESON)],
    };
    let mut files: Vec<(String, String)> =
        build.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    files.push((format!("program.{suffix}"), program(kind)));
    files.push((format!("library.{suffix}"), functions("library", kind)));
    files
}

fn functions(of: &str, kind: ProjectKind) -> String {
    let mut text = String::new();
    for number in 0..FUNCTIONS {
        let c = if kind == ProjectKind::CMake { "extern \"C\" " } else { "" };
        let _ = writeln!(text, "{c}int {of}_{number}(int);");
        let _ = writeln!(
            text,
            "{c}__attribute__((noinline)) int {of}_{number}(int x) {{ return x * {} + (x >> 1); }}",
            number + 3
        );
    }
    text
}

fn program(kind: ProjectKind) -> String {
    let mut text = String::from("#include <stdio.h>\n") + &functions("program", kind);
    let library = !matches!(kind, ProjectKind::Make);
    let mut sum = String::new();
    for number in 0..FUNCTIONS {
        let c = if kind == ProjectKind::CMake { "extern \"C\" " } else { "" };
        let _ = write!(sum, " + program_{number}(count)");
        if library {
            let _ = writeln!(text, "{c}int library_{number}(int);");
            let _ = write!(sum, " + library_{number}(count)");
        }
    }
    let _ = writeln!(
        text,
        "int main(int count, char **words) {{ (void)words; printf(\"%d\\n\", 0{sum}); return 0; }}"
    );
    text
}

/// A profile in which the odd functions call each other, the last first.
pub fn profile(kind: ProjectKind) -> String {
    let mut text = String::from(
        "digraph Callgraph {\n  graph [sediment=2, source=\"test\", unit=calls, total=2400, arch=\"x86_64\"];\n",
    );
    let mut edges = String::new();
    let mut parts = vec![("program", "toy")];
    if kind != ProjectKind::Make {
        parts.push(("library", "libtoy.so.1"));
    }
    for (index, (of, label)) in parts.into_iter().enumerate() {
        let _ = writeln!(text, "  subgraph cluster{index} {{\n    graph [label=\"{label}\"];");
        for number in (1..FUNCTIONS).step_by(2) {
            let _ = writeln!(text, "    \"{of}_{number}\";");
            if number > 1 {
                let _ = writeln!(
                    edges,
                    "  \"{of}_{number}\" -> \"{of}_{}\" [label=0.1, count={}];",
                    number - 2,
                    100 * number
                );
            }
        }
        text += "  }\n";
    }
    text + &edges + "}\n"
}

const MAKEFILE: &str = "toy: program.o
\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ program.o
program.o: program.c
\t$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ program.c
install: toy
\tinstall -D toy $(DESTDIR)/usr/bin/toy
clean:
\trm -f toy program.o
";
const CONFIGURE: &str = "AC_INIT([toy], [1.0])
AM_INIT_AUTOMAKE([foreign])
AM_PROG_AR
LT_INIT([disable-static])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
";
const AUTOMAKE: &str = "bin_PROGRAMS = toy
lib_LTLIBRARIES = libtoy.la
libtoy_la_SOURCES = library.c
libtoy_la_LDFLAGS = -version-info 1:0:0
toy_SOURCES = program.c
toy_LDADD = libtoy.la
";
const CMAKE: &str = "cmake_minimum_required(VERSION 3.18)
project(toy CXX)
include(GNUInstallDirs)
add_library(library SHARED library.cc)
set_target_properties(library PROPERTIES OUTPUT_NAME toy VERSION 1.0 SOVERSION 1)
add_executable(toy program.cc)
target_link_libraries(toy library)
install(TARGETS toy library)
";
const MESON: &str = "project('toy', 'c', version: '1.0')
library = shared_library('toy', 'library.c', soversion: '1', install: true)
executable('toy', 'program.c', link_with: library, install: true)
";

/// Number of functions that the program of [`start`] calls.
pub const CALLED: usize = 600;

/// A program that calls its functions `f0`, `f1`, … once each in the order of their definition, with this number of
/// other bytes in between. Each has 17 bytes, so that without alignment no order could place them closer together.
pub fn start(between: usize) -> String {
    let (mut text, mut calls) = (String::new(), String::new());
    for number in 0..CALLED {
        let _ = writeln!(
            text,
            "__attribute__((noinline)) void f{number}(void) {{ __asm__(\".skip 16, 0x90\"); }}"
        );
        if between > 0 {
            let _ = writeln!(text, "void cold{number}(void) {{ __asm__(\".skip {between}, 0x90\"); }}");
        }
        let _ = writeln!(calls, "f{number}();");
    }
    let _ = writeln!(text, "int main(void) {{ {calls} return 0; }}");
    text
}
