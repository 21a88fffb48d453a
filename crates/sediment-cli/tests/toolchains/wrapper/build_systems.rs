// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of build systems in docs/linkers.md: a small project for each, built and installed through the wrapper
//! only with the steps in that table. Every linked file is in its order.

use super::sediment;
use crate::build::{BuildFolder, said};
use crate::projects::ProjectKind;
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let gcc = Need::Program("gcc");
    let make = [gcc, Need::Program("make")];
    let autotools =
        [&make[..], &[Need::Program("autoreconf"), Need::Program("automake"), Need::Program("libtoolize")]]
            .concat();
    let cmake = [&make[..], &[Need::Program("cmake"), Need::Program("g++")]].concat();
    let meson = [gcc, Need::Program("meson"), Need::Program("ninja")];
    vec![
        case("build_system_make", &make, plain_make),
        case("build_system_make_that_calls_ld", &make, make_that_calls_ld),
        case("build_system_autotools_and_libtool", &autotools, autotools_and_libtool),
        case("build_system_cmake", &cmake, by_cmake),
        case("build_system_meson", &meson, by_meson),
        case("cmake_module", &cmake, by_cmake_module),
        case("meson_dependency", &meson, by_meson_dependency),
        case("build_system_cargo", &[gcc, Need::Program("cargo")], by_cargo),
    ]
}

/// A project in its own folder, with the wrapper, the profile and the log next to it.
struct BuildSystemProject {
    build: BuildFolder,
    files: Vec<(String, String)>,
}

impl BuildSystemProject {
    fn new(files: Vec<(String, String)>, profile: &str) -> Self {
        let build = BuildFolder::new();
        std::fs::remove_file(build.path("profiles/prog.prof")).unwrap();
        std::fs::write(build.path("profiles/toy.gv"), profile).unwrap();
        for (name, text) in &files {
            let path = build.path("project").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { build, files }
    }

    fn of(kind: ProjectKind) -> Self {
        Self::new(crate::projects::files(kind), &crate::projects::profile(kind))
    }

    /// The compiler option with which it finds the wrapper.
    fn wrapper(&self) -> String {
        format!("-B{}", self.build.path("wrapper").display())
    }

    fn installed(&self) -> PathBuf {
        self.build.path("installed")
    }

    /// Runs a step of the build with additional environment variables.
    fn try_step(
        &self,
        program: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> std::process::Output {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.build.path("project"));
        crate::projects::without_settings(&mut command);
        command
            .env("PROF_DIR", self.build.path("profiles"))
            .env("SEDIMENT_LOG", self.build.path("log"))
            .env("DESTDIR", self.installed())
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    fn step(&self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) {
        let output = self.try_step(program, arguments, environment);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{program} {arguments:?}: {text}{}", said(&output));
        assert!(!said(&output).contains("sediment:"), "{program} {arguments:?}: {}", said(&output));
    }

    /// Checks in the log of all links that exactly these outputs are ordered, and that the project's own files are
    /// unchanged.
    fn is_ordered(&self, outputs: &[&str]) {
        let name = |link: &serde_json::Value| {
            link["output"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        let mut links = self.build.log();
        // autoconf and Meson compile this first, to see the name of the output.
        links.retain(|link| name(link) != "a.out");
        let mut linked: Vec<String> = links
            .iter()
            .map(|link| {
                assert_eq!(link["outcome"], "ordered", "{link}");
                name(link)
            })
            .collect();
        linked.sort();
        linked.dedup();
        assert_eq!(linked, outputs);
        let verified = sediment(&self.build, &["verify", "--log", "log", "--min-coverage", "99"]);
        let text = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success(), "{text}{}", said(&verified));
        let placed = text.lines().filter(|line| line.contains(": 100.00 % ")).count();
        assert!(placed >= outputs.len(), "{text}");
        for (name, text) in &self.files {
            let now = std::fs::read_to_string(self.build.path("project").join(name)).unwrap();
            assert!(now == *text, "{name} was changed");
        }
    }

    /// Checks that the installed files are ordered too, and run.
    fn is_installed(&self, program: &str) {
        let log = ["verify", "--log", "log", "--installed", "installed", "--min-coverage", "99", "--json"];
        let verified = sediment(&self.build, &log);
        let text = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status.success(), "{text}{}", said(&verified));
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        for link in report["links"].as_array().unwrap() {
            assert!(link["outcome"] != "not installed", "{text}");
        }
        let libraries = self.installed().join(program).parent().unwrap().join("../lib");
        let ran =
            Command::new(self.installed().join(program)).env("LD_LIBRARY_PATH", libraries).output().unwrap();
        assert!(ran.status.success(), "{}", said(&ran));
    }
}

const FLAGS: &str = "-O2 -ffunction-sections";

fn plain_make() {
    let project = BuildSystemProject::of(ProjectKind::Make);
    let compiler = format!("CC=gcc {}", project.wrapper());
    let flags = format!("CFLAGS={FLAGS}");
    project.step("make", &["install", &compiler, &flags], &[]);
    project.is_ordered(&["toy"]);
    project.is_installed("usr/bin/toy");
}

fn make_that_calls_ld() {
    let makefile = "libtoy.so.1: library.o\n\t$(LD) -shared -soname libtoy.so.1 -o $@ library.o\n\
        library.o: library.c\n\t$(CC) $(CFLAGS) -fPIC -c -o $@ library.c\n";
    let mut files = crate::projects::files(ProjectKind::Autotools);
    files.retain(|(name, _)| name == "library.c");
    files.push(("Makefile".to_owned(), makefile.to_owned()));
    let project = BuildSystemProject::new(files, &crate::projects::profile(ProjectKind::Autotools));
    let linker = format!("LD={}", project.build.path("wrapper/ld").display());
    project.step("make", &[&linker, &format!("CFLAGS={FLAGS}")], &[]);
    project.is_ordered(&["libtoy.so.1"]);
}

fn autotools_and_libtool() {
    let project = BuildSystemProject::of(ProjectKind::Autotools);
    project.step("autoreconf", &["-fi"], &[]);
    let compiler = format!("CC=gcc {}", project.wrapper());
    project.step("./configure", &["--prefix=/usr", &compiler, &format!("CFLAGS={FLAGS}")], &[]);
    project.step("make", &["-j2"], &[]);
    project.step("make", &["install"], &[]);
    // libtool links the program again for installation, because it uses a library in its own build folder.
    project.is_ordered(&["libtoy.so.1.0.0", "toy"]);
    project.is_installed("usr/bin/toy");
}

fn by_cmake() {
    let flags = |project: &BuildSystemProject| format!("{} {FLAGS}", project.wrapper());
    for by_environment in [false, true] {
        let project = BuildSystemProject::of(ProjectKind::CMake);
        let prepare = ["-S", ".", "-B", "build", "-DCMAKE_INSTALL_PREFIX=/usr", "-DCMAKE_INSTALL_LIBDIR=lib"];
        if by_environment {
            let flags = flags(&project);
            project.step("cmake", &prepare, &[("CFLAGS", flags.as_str()), ("CXXFLAGS", flags.as_str())]);
        } else {
            let [c, cxx] = ["C", "CXX"].map(|name| format!("-DCMAKE_{name}_FLAGS={}", flags(&project)));
            project.step("cmake", &[&prepare[..], &[&c, &cxx]].concat(), &[]);
        }
        project.step("cmake", &["--build", "build"], &[]);
        project.step("cmake", &["--install", "build"], &[]);
        project.is_ordered(&["libtoy.so.1.0", "toy"]);
        project.is_installed("usr/bin/toy");
    }
}

fn by_meson() {
    for by_environment in [true, false] {
        let project = BuildSystemProject::of(ProjectKind::Meson);
        let prepare = ["setup", "--prefix=/usr", "--libdir=lib", "build"];
        if by_environment {
            let compiler = format!("gcc {}", project.wrapper());
            project.step("meson", &prepare, &[("CC", compiler.as_str()), ("CFLAGS", FLAGS)]);
        } else {
            let link = format!("-Dc_link_args={}", project.wrapper());
            let compile = format!("-Dc_args={FLAGS}");
            project.step("meson", &[&prepare[..], &[&link, &compile]].concat(), &[]);
        }
        project.step("ninja", &["-C", "build", "install"], &[]);
        project.is_ordered(&["libtoy.so.1", "toy"]);
        project.is_installed("usr/bin/toy");
    }
}

/// Variables with which a build finds only sediment: the profile is in the project.
fn with_sediment_on_path() -> [(&'static str, String); 2] {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_sediment"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    [("PATH", path), ("PROF_DIR", String::new())]
}

/// The function in dist/cmake orders the targets in its arguments, and links again when the profile changes.
fn by_cmake_module() {
    let mut files = crate::projects::files(ProjectKind::CMake);
    let module = std::fs::read_to_string(support::root().join("dist/cmake/Sediment.cmake")).unwrap();
    for (name, text) in &mut files {
        if name == "CMakeLists.txt" {
            *text += "include(Sediment.cmake)\nsediment_order(toy toy.gv)\nsediment_order(library toy.gv)\nsediment_order(toy no.gv)\n";
        }
    }
    files.push(("Sediment.cmake".to_owned(), module));
    files.push(("toy.gv".to_owned(), crate::projects::profile(ProjectKind::CMake)));
    let project = BuildSystemProject::new(files, &crate::projects::profile(ProjectKind::CMake));
    let variables = with_sediment_on_path();
    let variables = [0, 1].map(|index| (variables[index].0, variables[index].1.as_str()));
    let prepare = ["-S", ".", "-B", "build", "-DCMAKE_INSTALL_PREFIX=/usr", "-DCMAKE_INSTALL_LIBDIR=lib"];
    project.step("cmake", &prepare, &variables);
    project.step("cmake", &["--build", "build"], &variables);
    project.is_ordered(&["libtoy.so.1.0", "toy"]);
    let links = project.build.log().len();
    project.step("cmake", &["--build", "build"], &variables);
    assert_eq!(project.build.log().len(), links, "nothing changed");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    let profile = std::fs::File::options().append(true).open(project.build.path("project/toy.gv")).unwrap();
    profile.set_modified(later).unwrap();
    project.step("cmake", &["--build", "build"], &variables);
    assert!(project.build.log().len() > links, "the profile changed");
    project.step("cmake", &["--install", "build"], &variables);
    project.is_installed("usr/bin/toy");
}

/// The dependency in dist/meson orders the targets that use it.
fn by_meson_dependency() {
    let mut files = crate::projects::files(ProjectKind::Meson);
    let snippet = std::fs::read_to_string(support::root().join("dist/meson/meson.build")).unwrap();
    for (name, text) in &mut files {
        if name == "meson.build" {
            *text = "project('toy', 'c', version: '1.0')\nsediment_profile = files('toy.gv')\nsubdir('sediment')\n\
                library = shared_library('toy', 'library.c', soversion: '1', install: true, dependencies: sediment_order)\n\
                executable('toy', 'program.c', link_with: library, install: true, dependencies: sediment_order)\n"
                .to_owned();
        }
    }
    files.push(("sediment/meson.build".to_owned(), snippet));
    files.push(("toy.gv".to_owned(), crate::projects::profile(ProjectKind::Meson)));
    let project = BuildSystemProject::new(files, &crate::projects::profile(ProjectKind::Meson));
    let variables = with_sediment_on_path();
    let variables = [0, 1].map(|index| (variables[index].0, variables[index].1.as_str()));
    project.step("meson", &["setup", "--prefix=/usr", "--libdir=lib", "build"], &variables);
    project.step("ninja", &["-C", "build", "install"], &variables);
    project.is_ordered(&["libtoy.so.1", "toy"]);
    project.is_installed("usr/bin/toy");
    // With several profiles, only one would be used.
    let build = project.build.path("project/meson.build");
    let text = std::fs::read_to_string(&build).unwrap().replace("'toy.gv'", "'toy.gv', 'program.c'");
    std::fs::write(&build, text).unwrap();
    let mut setup = std::process::Command::new("meson");
    setup.args(["setup", "again"]).current_dir(project.build.path("project"));
    let refused = setup.output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("several profiles"), "{refused:?}");
}

fn by_cargo() {
    // The program of the profile, in Rust.
    let mut text = "use std::hint::black_box;\n".to_owned();
    let mut sum = String::new();
    for number in 0..crate::projects::FUNCTIONS {
        let _ = writeln!(
            text,
            "#[unsafe(no_mangle)]\n#[inline(never)]\nextern \"C\" fn program_{number}(x: i32) -> i32 {{ black_box(x) * {} }}",
            number + 3
        );
        let _ = write!(sum, " + program_{number}(black_box(1))");
    }
    let _ = writeln!(text, "fn main() {{ println!(\"{{}}\", 0{sum}); }}");
    let manifest = "[package]\nname = \"toy\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
    let files = [("Cargo.toml", manifest), ("src/main.rs", &text)];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    let project = BuildSystemProject::new(files, &crate::projects::profile(ProjectKind::Make));
    let target = project.build.path("project/target").display().to_string();
    let flags = format!("-Clinker-features=-lld -Clink-arg={}", project.wrapper());
    let build = ["build", "--release", "--offline"];
    let environment = [("CARGO_TARGET_DIR", target.as_str()), ("RUSTFLAGS", flags.as_str())];
    if !project.try_step("cargo", &build, &environment).status.success() {
        // Older versions always link with the system's linker, and do not support the option.
        let flags = format!("-Clink-arg={}", project.wrapper());
        project.step("cargo", &build, &[environment[0], ("RUSTFLAGS", flags.as_str())]);
    }
    let links = project.build.log();
    let [link] = links.as_slice() else { panic!("{links:?}") };
    assert_eq!((&link["outcome"], &link["rule"]), (&"ordered".into(), &"file name".into()), "{link}");
    let output = link["output"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    project.is_ordered(&[&output]);
    project.build.runs("project/target/release/toy");
}
