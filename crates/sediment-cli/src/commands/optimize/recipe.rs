// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the lines to add to a project's own build, for its build system and the level, so that it links like the
//! shipped files.
//!
//! Without sediment or the profile, each recipe builds as before. No recipe contains a flag that the project sets
//! itself.

use super::ship::LevelName;
use super::toolbox::LevelCompiler;
use sediment_core::escape;
use serde_json::{Value, json};
use std::path::Path;

/// Folder that `sediment wrapper` writes in the recipes.
const LINKS: &str = ".sediment-links";

/// Build system, which determines the recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BuildSystem {
    /// A Debian source package.
    Debian,
    /// An RPM package, with the name of its spec file.
    Spec(String),
    Cargo,
    CMake,
    Meson,
    Autotools,
    /// A makefile, with its name.
    Make(String),
    /// The project's own script, or a compiler called directly.
    Other,
}

impl BuildSystem {
    /// Finds the build system of a tree; if there are several, the words of the build command decide.
    pub(super) fn of(tree: &Path, build: &str) -> Self {
        let has = |name: &str| tree.join(name).is_file();
        if has("debian/rules") {
            return Self::Debian;
        }
        if let Some(spec) = spec(tree) {
            return Self::Spec(spec);
        }
        let makefile = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| has(name));
        let is_autotools = ["configure", "configure.ac", "configure.in", "autogen.sh"].into_iter().any(has);
        let found = [
            ("cargo", has("Cargo.toml"), Self::Cargo),
            ("cmake", has("CMakeLists.txt"), Self::CMake),
            ("meson", has("meson.build"), Self::Meson),
            ("configure", is_autotools, Self::Autotools),
            ("auto", is_autotools, Self::Autotools),
            ("make", makefile.is_some(), Self::Make(makefile.unwrap_or_default().to_owned())),
        ];
        let is_named = |(word, is_there, _): &&(&str, bool, Self)| *is_there && build.contains(word);
        let chosen = found.iter().find(is_named);
        let only = || found.iter().find(|(_, is_there, _)| *is_there && build.is_empty());
        chosen.or_else(only).map_or(Self::Other, |(_, _, system)| system.clone())
    }

    /// Its name, for people and programs.
    fn name(&self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Spec(_) => "spec",
            Self::Cargo => "cargo",
            Self::CMake => "cmake",
            Self::Meson => "meson",
            Self::Autotools => "autotools",
            Self::Make(_) => "make",
            Self::Other => "shell",
        }
    }

    /// Returns the usual build command for a tree of this kind.
    pub(super) fn usual_build(&self) -> &'static str {
        match self {
            Self::Cargo => "cargo build --release",
            Self::CMake => "cmake -S . -B build && cmake --build build",
            Self::Meson => "test -d build || meson setup build; ninja -C build",
            Self::Autotools => "./configure && make",
            Self::Debian | Self::Spec(_) | Self::Make(_) | Self::Other => "make",
        }
    }
}

/// Returns the spec file of a tree, if there is exactly one.
fn spec(tree: &Path) -> Option<String> {
    let names = std::fs::read_dir(tree).ok()?.flatten().map(|entry| entry.file_name());
    let mut specs: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    specs.retain(|name| name.ends_with(".spec") && escape::file_name(name).is_some());
    <[String; 1]>::try_from(specs).ok().map(|[name]| name)
}

/// The additions to a build.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    system: &'static str,
    /// Commands to run once, in the tree.
    commands: Vec<String>,
    /// The file, and the place in it, for `lines`; None if these are commands of the build itself.
    place: Option<String>,
    lines: Vec<String>,
}

/// A file made from the profile that clang or rustc reads.
struct LlvmFile {
    /// Its name in `sediment export`.
    format: &'static str,
    /// Name of the file, which is next to the profile.
    name: String,
    /// Option of the compiler, to which the path of the file is appended.
    word: &'static str,
}

/// Input of a recipe.
pub(super) struct RecipeNeeds<'a> {
    pub(super) tree: &'a Path,
    /// The build command, for a shell.
    pub(super) build: &'a str,
    pub(super) level: LevelName,
    pub(super) compiler: LevelCompiler,
    /// The profile: its present path, and its name next to the sources.
    pub(super) profile: &'a str,
    pub(super) name: &'a str,
}

impl Recipe {
    /// The recipe for a build.
    pub(super) fn of(wanted: &RecipeNeeds<'_>) -> Self {
        let RecipeNeeds { tree, build, profile, name, .. } = wanted;
        let system = BuildSystem::of(tree, build);
        let package = |tool: &str| format!("sediment package {tool} --profile {profile} --apply");
        let (place, lines) = match &system {
            BuildSystem::Debian => {
                return Self {
                    system: system.name(),
                    commands: vec![package("deb .")],
                    place: None,
                    lines: Vec::new(),
                };
            }
            BuildSystem::Spec(spec) => {
                let commands = vec![package(&format!("rpm {spec}"))];
                return Self { system: system.name(), commands, place: None, lines: Vec::new() };
            }
            BuildSystem::Make(makefile) => (Some(format!("at the end of {makefile}")), wanted.make()),
            BuildSystem::CMake => (Some("below project() in CMakeLists.txt".to_owned()), wanted.cmake()),
            BuildSystem::Meson => (Some("below project() in meson.build".to_owned()), wanted.meson()),
            BuildSystem::Cargo => (None, wanted.cargo()),
            BuildSystem::Autotools | BuildSystem::Other => (None, wanted.shell()),
        };
        let mut commands = Vec::new();
        if profile != name {
            commands.push(format!("cp {profile} {name}"));
        }
        if place.is_some() {
            let export =
                |file: &LlvmFile| format!("sediment export {name} --format {} -o {}", file.format, file.name);
            commands.extend(wanted.of_llvm().iter().map(export));
        }
        Self { system: system.name(), commands, place, lines }
    }

    /// The recipe as text: a line that says where it belongs, and the text to paste.
    pub(super) fn text(&self) -> String {
        let (first, lines) = (self.commands.join("\n"), self.lines.join("\n"));
        match (&self.place, first.is_empty()) {
            _ if lines.is_empty() => format!("for this {} package, run:\n\n{first}\n", self.system),
            (None, _) => {
                let first = if first.is_empty() { first } else { first + "\n" };
                format!("build with these commands:\n\n{first}{lines}\n")
            }
            (Some(place), true) => format!("paste {place}:\n\n{lines}\n"),
            (Some(place), false) => {
                format!("run the first lines, and paste the others {place}:\n\n{first}\n\n{lines}\n")
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({ "build_system": self.system, "commands": self.commands, "place": self.place, "lines": self.lines })
    }
}

impl RecipeNeeds<'_> {
    /// Returns the files that clang and rustc read.
    fn of_llvm(&self) -> Vec<LlvmFile> {
        let (counts, places) = (self.level != LevelName::Blocks, self.level != LevelName::Counters);
        let words = match self.compiler {
            _ if self.level == LevelName::Order => return Vec::new(),
            LevelCompiler::Gcc => return Vec::new(),
            LevelCompiler::Clang => [
                "-mllvm -static-func-full-module-prefix=false -fprofile-use=",
                "-fbasic-block-sections=list=",
            ],
            LevelCompiler::Rustc => ["-Cprofile-use=", "-Cllvm-args=-basic-block-sections="],
        };
        let file = |(format, ending, word): (_, &str, _)| {
            let name = format!("{}.{ending}", self.name.trim_end_matches(".gv"));
            LlvmFile { format, name, word }
        };
        let counters = Some(("profdata", "profdata", words[0])).filter(|_| counts);
        let blocks = Some(("bb-sections", "list", words[1])).filter(|_| places);
        counters.into_iter().chain(blocks).map(file).collect()
    }

    /// Returns the options for clang, each after a blank; `folder` contains the files.
    fn words_of_clang(&self, folder: &str) -> String {
        self.of_llvm().iter().map(|file| format!(" {}{folder}{}", file.word, file.name)).collect()
    }

    /// Lines that make these files in the folder of the links.
    fn exports(&self) -> impl Iterator<Item = String> {
        self.of_llvm().into_iter().map(|file| {
            format!("sediment -q export {} --format {} -o {LINKS}/{}", self.name, file.format, file.name)
        })
    }

    fn wrapper(&self) -> String {
        format!("sediment -q wrapper {LINKS} --profiles {}", self.name)
    }

    fn comment(&self) -> String {
        let what = match self.level {
            LevelName::Order => "Links in the order",
            _ => "Compiles with the counts and links in the order",
        };
        let needs = match (self.level, self.compiler) {
            (LevelName::Order, _) | (_, LevelCompiler::Clang | LevelCompiler::Rustc) => "sediment is",
            _ => "sediment and sediment-gcc-plugin are",
        };
        format!("# {what} of {}, if {needs} installed.", self.name)
    }

    fn make(&self) -> Vec<String> {
        let counted = self.words_of_clang("$(CURDIR)/");
        vec![
            self.comment(),
            format!("ifneq ($(shell command -v sediment >/dev/null && {} && echo done),)", self.wrapper()),
            format!("export COMPILER_PATH := $(CURDIR)/{LINKS}"),
            format!("override CC += -ffunction-sections{counted}"),
            format!("override CXX += -ffunction-sections{counted}"),
            "endif".to_owned(),
        ]
    }

    fn cmake(&self) -> Vec<String> {
        let links = format!("${{CMAKE_BINARY_DIR}}/{LINKS}");
        let profile = format!("${{CMAKE_SOURCE_DIR}}/{}", self.name);
        // The scripts for compilers that use counts are in the same folder as the linkers.
        let compiles = match self.level {
            LevelName::Order => String::new(),
            _ if self.compiler == LevelCompiler::Gcc => format!(" \"-B{links}\""),
            // CMake removes a repeated option, unless it has the prefix SHELL.
            _ => format!(" \"SHELL:{}\"", self.words_of_clang("${CMAKE_SOURCE_DIR}/").trim_start()),
        };
        vec![
            self.comment(),
            "find_program(SEDIMENT sediment)".to_owned(),
            "if(SEDIMENT)".to_owned(),
            format!(
                "  execute_process(COMMAND \"${{SEDIMENT}}\" -q wrapper \"{links}\" --profiles \"{profile}\")"
            ),
            format!("  add_compile_options(-ffunction-sections{compiles})"),
            format!("  add_link_options(-ffunction-sections \"-B{links}\")"),
            "endif()".to_owned(),
        ]
    }

    fn meson(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.tree.join("meson.build")).unwrap_or_default();
        let project = text.split("project(").nth(1).unwrap_or_default().split(')').next().unwrap_or_default();
        let languages: Vec<&str> =
            ["'c'", "'cpp'"].into_iter().filter(|language| project.contains(language)).collect();
        let languages = if languages.is_empty() { "'c'".to_owned() } else { languages.join(", ") };
        let compiles: String = match self.level {
            LevelName::Order => String::new(),
            _ if self.compiler == LevelCompiler::Gcc => ", '-B' + sediment_links".to_owned(),
            _ => {
                let files = self.of_llvm();
                let words = |file: &LlvmFile| {
                    let words: Vec<&str> = file.word.split(' ').collect();
                    let (last, first) =
                        words.split_last().map_or(("", &[][..]), |(last, first)| (*last, first));
                    let first: String = first.iter().map(|word| format!(", '{word}'")).collect();
                    format!("{first}, '{last}' + meson.project_source_root() / '{}'", file.name)
                };
                files.iter().map(words).collect()
            }
        };
        vec![
            self.comment(),
            "sediment = find_program('sediment', required: false)".to_owned(),
            "if sediment.found()".to_owned(),
            format!("  sediment_links = meson.current_build_dir() / '{LINKS}'"),
            format!(
                "  run_command(sediment, '-q', 'wrapper', sediment_links, '--profiles', files('{}'), check: true)",
                self.name
            ),
            format!("  add_project_arguments('-ffunction-sections'{compiles}, language: [{languages}])"),
            format!(
                "  add_project_link_arguments('-ffunction-sections', '-B' + sediment_links, language: [{languages}])"
            ),
            "endif".to_owned(),
        ]
    }

    fn cargo(&self) -> Vec<String> {
        let mut lines = vec![self.wrapper(), format!("export COMPILER_PATH=\"$PWD/{LINKS}\"")];
        lines.extend(self.exports());
        // RUSTFLAGS in the environment would replace the flags of the project's configuration.
        let word = |file: &LlvmFile| format!(" \"{}${{0%/*}}/{}\"", file.word, file.name);
        let words: String = self.of_llvm().iter().map(word).collect();
        if !words.is_empty() {
            let script = format!("{LINKS}/rustc");
            lines.push(format!(
                "printf '%s\\n' '#!/bin/sh' 'exec \"$@\"{words}' >{script} && chmod +x {script}"
            ));
            lines.push(format!("export RUSTC_WRAPPER=\"$PWD/{script}\""));
        }
        lines.push(self.build.to_owned());
        lines
    }

    fn shell(&self) -> Vec<String> {
        let [c, cxx] =
            if self.compiler == LevelCompiler::Clang { ["clang", "clang++"] } else { ["gcc", "g++"] };
        let mut lines = vec![self.wrapper()];
        lines.extend(self.exports());
        let counted = self.words_of_clang(&format!("$PWD/{LINKS}/"));
        lines.push(format!("export COMPILER_PATH=\"$PWD/{LINKS}\""));
        lines.push(format!(
            "export CC=\"${{CC:-{c}}} -ffunction-sections{counted}\" CXX=\"${{CXX:-{cxx}}} -ffunction-sections{counted}\""
        ));
        lines.push(self.build.to_owned());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page has the lines of each build system and level.
    #[test]
    fn the_page_has_every_recipe() {
        let page = std::fs::read_to_string(support::root().join("docs/recipes.md")).unwrap();
        let tree = tempfile::tempdir().unwrap();
        let mut lacks = Vec::new();
        let systems = [
            ("Makefile", "make -j4", "all:\n"),
            ("CMakeLists.txt", "cmake -S . -B build && cmake --build build", "project(prog C)\n"),
            ("meson.build", "test -d build || meson setup build; ninja -C build", "project('prog', 'c')\n"),
            ("Cargo.toml", "cargo build --release", ""),
            ("configure", "./configure && make", ""),
            ("prog.spec", "make", ""),
            ("debian/rules", "make", ""),
        ];
        for (file, build, text) in systems {
            std::fs::create_dir_all(tree.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.path().join(file), text).unwrap();
            let of_cargo = file == "Cargo.toml";
            for compiler in if of_cargo {
                &[LevelCompiler::Rustc][..]
            } else {
                &[LevelCompiler::Gcc, LevelCompiler::Clang]
            } {
                for level in LevelName::ALL {
                    let recipe = Recipe::of(&RecipeNeeds {
                        tree: tree.path(),
                        build,
                        level,
                        compiler: *compiler,
                        profile: ".sediment/result/prog.gv",
                        name: "prog.gv",
                    });
                    let lines = recipe.commands.iter().chain(&recipe.lines).map(|line| line.trim());
                    lacks.extend(lines.filter(|line| !page.contains(line)).map(str::to_owned));
                }
            }
        }
        lacks.dedup();
        assert!(lacks.is_empty(), "docs/recipes.md lacks:\n{}", lacks.join("\n"));
    }

    #[test]
    fn the_build_command_chooses_among_build_systems() {
        let tree = tempfile::tempdir().unwrap();
        let system = |build: &str| BuildSystem::of(tree.path(), build);
        let add = |name: &str| {
            let path = tree.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        assert_eq!(system("cc -o prog prog.c"), BuildSystem::Other);
        ["CMakeLists.txt", "configure", "Makefile", "Cargo.toml"].into_iter().for_each(add);
        let rows = [
            ("cmake -B build && cmake --build build", BuildSystem::CMake),
            ("./configure && make", BuildSystem::Autotools),
            ("make -j4", BuildSystem::Make("Makefile".to_owned())),
            ("cargo build --release", BuildSystem::Cargo),
            ("./build.sh", BuildSystem::Other),
        ];
        for (build, expected) in rows {
            assert_eq!(system(build), expected, "{build}");
        }
        add("prog.spec");
        assert_eq!(system("make"), BuildSystem::Spec("prog.spec".to_owned()));
        add("debian/rules");
        assert_eq!(system("make"), BuildSystem::Debian);
    }
}
