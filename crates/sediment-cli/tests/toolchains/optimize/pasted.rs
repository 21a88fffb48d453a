// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recipe of `optimize` for each build system and level, pasted into a copy of the project, whose own build then
//! makes the shipped code.

use super::levels::WORK;
use super::project::{OptimizedProject, code, err};
use super::recipes::paste_text;
use libtest_mimic::Trial;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Need, case, long, root};

pub fn cases() -> Vec<Trial> {
    let gcc = [
        Need::Program("gcc"),
        Need::Program("g++"),
        Need::Program("make"),
        Need::Program("valgrind"),
        Need::GccPluginHeaders("gcc"),
    ];
    let with = |more: &[Need]| [&gcc[..], more].concat();
    let autotools = with(&[Need::Program("autoreconf"), Need::Program("automake")]);
    let debian = with(&[Need::Program("dpkg-buildpackage"), Need::Program("dh")]);
    let lld = [Need::Program("ld.lld-19"), Need::Program("valgrind")];
    let cargo = [Need::Program("cargo"), Need::Program("llvm-profdata-19")];
    let clang = [Need::Program("clang-19"), Need::Program("llvm-profdata-19"), Need::Program("make")];
    vec![
        long("recipe_of_cmake", &with(&[Need::Program("cmake")]), || pasted(&CMAKE)),
        long("recipe_of_meson", &with(&[Need::Program("meson"), Need::Program("ninja")]), || pasted(&MESON)),
        long("recipe_of_autotools", &autotools, || pasted(&AUTOTOOLS)),
        long("recipe_of_debian", &debian, || pasted(&DEBIAN)),
        long("recipe_of_spec", &with(&[Need::Program("rpmbuild"), Need::Program("tar")]), || pasted(&SPEC)),
        long("recipe_of_make_with_clang", &clang, || pasted(&CLANG)),
        long("recipe_of_make_with_lld", &[&clang[..], &lld].concat(), || pasted(&LLD)),
        case("recipe_of_cargo_with_c", &with(&cargo), || pasted(&CARGO)),
        long("recipe_of_cargo_with_lld", &[&with(&cargo)[..], &lld].concat(), || pasted(&CARGO_LLD)),
    ]
}

/// A project of a build system.
struct BuildFiles {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    build: &'static str,
    /// Path of the program in the tree.
    program: &'static str,
    levels: &'static [&'static str],
}

const ALL: &[&str] = &["order", "blocks", "counters", "both"];

const MAKE: BuildFiles = BuildFiles {
    name: "make",
    files: &[("Makefile", MAKEFILE)],
    build: "make",
    program: "work",
    levels: ALL,
};
const MAKEFILE: &str = "CFLAGS ?= -O2 -g
work: work.o
\t$(CC) $(LDFLAGS) -o $@ work.o
work.o: work.c
\t$(CC) $(CFLAGS) -c work.c
install: work
\tinstall -D work $(DESTDIR)/usr/bin/work
clean:
\trm -f work work.o
";
/// Levels with clang, whose blocks need lld.
const CLANG: BuildFiles = BuildFiles { build: "make CC=clang-19", levels: &["order", "counters"], ..MAKE };
const LLD: BuildFiles = BuildFiles {
    build: "make CC=clang-19 LDFLAGS=-fuse-ld=lld",
    levels: &["order", "blocks", "counters", "both"],
    ..MAKE
};
/// A program of Rust and C.
const CARGO: BuildFiles = BuildFiles {
    name: "cargo",
    files: &[("Cargo.toml", MANIFEST), ("build.rs", BUILD_SCRIPT), ("src/main.rs", RUST_WORK)],
    build: "cargo build --release --offline",
    program: "target/release/work",
    levels: &["order", "counters"],
};
const CARGO_LLD: BuildFiles = BuildFiles {
    files: &[
        ("Cargo.toml", MANIFEST),
        ("build.rs", BUILD_SCRIPT),
        ("src/main.rs", RUST_WORK),
        // The recipe leaves the flags of the project in place.
        (".cargo/config.toml", "[build]\nrustflags = [\"-Clink-arg=-fuse-ld=lld\"]\n"),
    ],
    levels: &["blocks", "both"],
    ..CARGO
};
const MANIFEST: &str = "[package]\nname = \"work\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[profile.release]\ndebug = true\n\n[workspace]\n";
const BUILD_SCRIPT: &str = r#"use std::process::Command;
fn main() {
    let folder = std::env::var("OUT_DIR").unwrap();
    let object = format!("{folder}/work.o");
    let archive = format!("{folder}/libwork.a");
    let compile = ["cc", "-O2", "-g", "-ffunction-sections", "-Dmain=work_main", "-c", "work.c", "-o", &object];
    for words in [&compile[..], &["ar", "crs", &archive, &object]] {
        assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success());
    }
    println!("cargo:rustc-link-lib=static=work");
    println!("cargo:rustc-link-search={folder}");
}
"#;
const RUST_WORK: &str = r#"extern "C" {
    fn work_main(count: i32, words: *const *const u8) -> i32;
}
#[inline(never)]
fn often(x: u64) -> u64 {
    if x % 1000 == 999 { std::hint::black_box(x) * 7 } else { x / 2 + 1 }
}
fn main() {
    let count = std::env::args().count();
    let sum = (0..200_000 * count as u64).map(often).fold(0u64, |sum, x| sum.rotate_left(3) ^ x);
    println!("{sum}");
    let words = [std::ptr::null()];
    unsafe { work_main(count as i32, words.as_ptr()) };
}
"#;
const CMAKE: BuildFiles = BuildFiles {
    name: "cmake",
    files: &[(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.18)\nproject(work C)\nadd_executable(work work.c)\n",
    )],
    build: "cmake -DCMAKE_BUILD_TYPE=RelWithDebInfo -S . -B build && cmake --build build",
    program: "build/work",
    levels: ALL,
};
const MESON: BuildFiles = BuildFiles {
    name: "meson",
    files: &[(
        "meson.build",
        "project('work', 'c', default_options: ['buildtype=debugoptimized'])\nexecutable('work', 'work.c')\n",
    )],
    build: "test -d build || meson setup build; ninja -C build",
    program: "build/work",
    levels: ALL,
};
const AUTOTOOLS: BuildFiles = BuildFiles {
    name: "autotools",
    files: &[
        (
            "configure.ac",
            "AC_INIT([work], [1.0])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
        ),
        ("Makefile.am", "bin_PROGRAMS = work\nwork_SOURCES = work.c\n"),
    ],
    build: "autoreconf -fi && ./configure && make",
    program: "work",
    levels: ALL,
};
const DEBIAN: BuildFiles = BuildFiles {
    name: "debian",
    files: &[
        ("Makefile", MAKEFILE),
        ("debian/rules", "#!/usr/bin/make -f\n%:\n\tdh $@\n"),
        (
            "debian/control",
            "Source: work\nSection: misc\nPriority: optional\nMaintainer: Nobody <nobody@example.org>\nRules-Requires-Root: no\n\
             Build-Depends:\n debhelper-compat (= 13),\n\nPackage: work\nArchitecture: any\nDepends: ${shlibs:Depends}\nDescription: work\n It is built by tests.\n",
        ),
        ("debian/source/format", "3.0 (native)\n"),
        (
            "debian/changelog",
            "work (1.0) unstable; urgency=low\n\n  * A package for tests.\n\n -- Nobody <nobody@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n",
        ),
    ],
    build: "make",
    program: "work",
    levels: ALL,
};
const SPEC: BuildFiles = BuildFiles {
    name: "spec",
    files: &[
        ("Makefile", MAKEFILE),
        (
            "work.spec",
            "Name: work\nVersion: 1.0\nRelease: 1\nSummary: Work\nLicense: MIT\nSource0: work-1.0.tar.gz\nBuildRequires: gcc\n\n\
             %description\nWork.\n\n%prep\n%setup -q\n\n%build\n%set_build_flags\nmake\n\n%install\nmake install DESTDIR=%{buildroot}\n\n%files\n/usr/bin/work\n",
        ),
    ],
    build: "make",
    program: "work",
    levels: ALL,
};

/// Optimizes a project, and pastes the recipe of each level into a copy.
fn pasted(of: &BuildFiles) {
    let files = of.files.iter().chain(&[("work.c", WORK)]);
    let project = OptimizedProject::new(
        &files.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Vec<_>>(),
    )
    .with_valgrind();
    project.shell("test ! -f debian/rules || chmod +x debian/rules");
    let by_gcc = !of.build.contains("clang");
    let outside = tools(&project, by_gcc);
    if of.name == "cargo" && of.levels.contains(&"blocks") {
        symlink("/usr/bin/ld.lld-19", project.path("../bin/ld.lld")).unwrap();
    }
    let plugin = by_gcc.then(|| support::plugin::built("gcc").join("sediment.so"));
    let train = format!("./{}", of.program);
    let levels = of.levels.join(",");
    let work = outside.join("optimized");
    let work = work.to_str().unwrap();
    for level in of.levels {
        // rustc splits LLVM's options at blanks.
        let mut words =
            vec!["--level", &levels, "--ship", level, "--train", &train, "--json", "--work", work];
        let plugin = plugin.as_ref().map(|path| path.to_str().unwrap());
        words.extend(plugin.iter().flat_map(|path| ["--gcc-plugin", *path]));
        let output = project.run(&words, &[of.build]);
        assert_eq!(code(&output), 0, "{}: {}", of.name, err(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["ship"]["level"], *level, "{report}");
        let recipe = &report["recipe"];
        assert_eq!(recipe["build_system"], of.name, "{report}");
        // If the linker is in a folder with a blank, libtool does not link.
        let copy = outside.join(format!("pasted-{level}"));
        copy_project(&project.path(""), &copy);
        match of.name {
            "debian" => is_packaged(&copy, recipe, level, "dpkg-buildpackage -d -b -us -uc", false),
            "spec" => is_packaged(&copy, recipe, level, RPMBUILD, true),
            _ => {
                makes(&copy, recipe, of.build, of.program, &outside.join("optimized/result/work"));
                if of.name == "cargo" {
                    counts_of_both_languages(&outside.join("optimized/result/work.gv"), level);
                }
            }
        }
    }
}

/// Puts the programs that recipes call next to the project, and returns this folder, whose name has no blank.
pub fn tools(project: &OptimizedProject, by_gcc: bool) -> PathBuf {
    symlink(env!("CARGO_BIN_EXE_sediment"), project.path("../bin/sediment")).unwrap();
    let outside = project.path("..").canonicalize().unwrap();
    if by_gcc {
        support::plugin::put_before_compilers("gcc", &outside.join("compilers"));
    }
    outside
}

/// Pastes a recipe into a copy of the project: its build makes the shipped code.
pub fn makes(copy: &Path, recipe: &Value, build: &str, program: &str, shipped: &Path) {
    paste_text(copy, recipe, build);
    assert!(
        code_of(&copy.join(program)) == code_of(shipped),
        "{}: not the shipped code: {recipe}",
        copy.display()
    );
}

/// The profile of a level has the counts that it needs, of C and of Rust.
fn counts_of_both_languages(profile: &Path, level: &str) {
    let profile = std::fs::read_to_string(profile).unwrap();
    let has = |function: &str, attribute: &str| {
        profile.lines().any(|line| line.contains(function) && line.contains(attribute))
    };
    assert!(!has("+build_script", ""), "the build script was counted: {profile}");
    for (attribute, levels) in [("counters=", ["counters", "both"]), ("blocks=", ["blocks", "both"])] {
        for function in ["5often", "work_main"] {
            let wanted = levels.contains(&level);
            assert_eq!(has(function, attribute), wanted, "{level}: {function} {attribute}");
        }
    }
}

/// Copies the project with its results: recipes refer to the profile there.
pub fn copy_project(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

/// Returns the bytes of a program's code.
fn code_of(program: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("code");
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["-O", "binary", "--only-section=.text"]).arg(program).arg(&bare);
    assert!(objcopy.status().unwrap().success(), "{}", program.display());
    std::fs::read(bare).unwrap()
}

/// rpmbuild called as on a system with sediment's packages.
const RPMBUILD: &str = "mkdir -p ../linkers && ln -sf \"$PWD/../bin/sediment\" ../linkers/real-ld && \
    tar -czf work-1.0.tar.gz --exclude=.sediment --exclude='*.tar.gz' --transform 's,^\\.,work-1.0,' . && \
    rpmbuild --load \"$MACROS\" --define \"_topdir $PWD/top\" --define \"_sourcedir $PWD\" \
    --define \"__sediment $PWD/../bin/sediment\" --define \"_sediment_linkers $PWD/../linkers\" \
    --define \"_sediment_compilers $PWD/../compilers\" --define 'optflags -O2 -g' -bb --nodeps work.spec";

/// Changes the package according to the recipe, and builds it; checks that the log has the level's additions.
fn is_packaged(copy: &Path, recipe: &Value, level: &str, build: &str, is_rpm: bool) {
    let tools = copy.join("../sequence");
    if !is_rpm && !tools.exists() {
        let from = root().join("dist/debian/dh");
        let sequences = tools.join("Debian/Debhelper/Sequence");
        std::fs::create_dir_all(&sequences).unwrap();
        symlink(from.join("sediment.pm"), sequences.join("sediment.pm")).unwrap();
        for name in ["dh_sediment", "dh_sediment_link", "dh_sediment_check", "dh_sediment_graphs"] {
            symlink(from.join(name), copy.join("../bin").join(name)).unwrap();
        }
    }
    let commands = recipe["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let commands: Vec<&str> = commands.collect();
    let lines = format!("set -e; {}\n{build} 2>&1", commands.join("\n"));
    let mut shell = super::recipes::shell(copy, &lines);
    shell.env("PERL5LIB", &tools).env("DEB_BUILD_OPTIONS", "nocheck");
    shell.env("MACROS", root().join("dist/rpm/macros.sediment"));
    let output = shell.output().unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{level}: {log}");
    assert!(log.contains("1 of 1 outputs ordered"), "{level}: {log}");
    let needed: &[&str] = match level {
        "order" => &[],
        "blocks" => &["split by their block counts"],
        "counters" => &["counters: 100.00 % "],
        _ => &["counters: 100.00 % ", "split by their block counts"],
    };
    for words in needed {
        assert!(log.contains(words), "{level}: no {words}: {log}");
    }
}
