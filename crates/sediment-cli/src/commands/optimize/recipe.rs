// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to add to a project's own build, by its build system and the level, so that it links as the shipped files were linked.
//!
//! Each recipe builds as before where sediment or the profile is missing, and names no flag that the project sets itself.

use super::ship::LevelName;
use super::toolbox::Compiler;
use sediment_core::escape;
use serde_json::{Value, json};
use std::path::Path;

/// Folder that the recipes have `sediment wrapper` write.
const LINKS: &str = ".sediment-links";

/// Build system, by which a recipe differs.
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
    /// A script of the project's own, or a compiler that is called by hand.
    Other,
}

impl BuildSystem {
    /// The build system of a tree; the words of the build command choose among several.
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

    /// The usual command that builds a tree of this kind.
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

/// The spec file of a tree, if there is one alone.
fn spec(tree: &Path) -> Option<String> {
    let names = std::fs::read_dir(tree).ok()?.flatten().map(|entry| entry.file_name());
    let mut specs: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    specs.retain(|name| name.ends_with(".spec") && escape::file_name(name).is_some());
    <[String; 1]>::try_from(specs).ok().map(|[name]| name)
}

/// What to add to a build.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    system: &'static str,
    /// Commands to run once, in the tree.
    commands: Vec<String>,
    /// File and place in it where `lines` belong; None if these are commands of the build itself.
    place: Option<String>,
    lines: Vec<String>,
}

/// What a recipe is made for.
pub(super) struct RecipeNeeds<'a> {
    pub(super) tree: &'a Path,
    /// The build command, as for a shell.
    pub(super) build: &'a str,
    pub(super) level: LevelName,
    pub(super) compiler: Compiler,
    /// The profile: where it is now, and its name beside the sources.
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
        if place.is_some() && wanted.by_llvm() {
            commands.push(format!("sediment export {name} --format profdata -o {}", wanted.counters()));
        }
        Self { system: system.name(), commands, place, lines }
    }

    /// The recipe, for people: a line that says where it belongs, and the text to paste.
    pub(super) fn text(&self) -> String {
        let (first, lines) = (self.commands.join("\n"), self.lines.join("\n"));
        match (&self.place, first.is_empty()) {
            _ if lines.is_empty() => format!("for this {} package, run:\n\n{first}\n", self.system),
            (None, _) => {
                let first = if first.is_empty() { first } else { first + "\n" };
                format!("build by these commands:\n\n{first}{lines}\n")
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
    /// True if clang or rustc compiles by counters, which they read from a file of their own.
    fn by_llvm(&self) -> bool {
        self.compiler != Compiler::Gcc && self.level != LevelName::Order
    }

    /// Name of the counters for clang and rustc, beside the profile.
    fn counters(&self) -> String {
        format!("{}.profdata", self.name.trim_end_matches(".gv"))
    }

    fn wrapper(&self) -> String {
        format!("sediment -q wrapper {LINKS} --profiles {}", self.name)
    }

    fn comment(&self) -> String {
        let what = match self.level {
            LevelName::Order => "Links in the order",
            _ => "Compiles by the counts, and links in the order,",
        };
        let needs = match (self.level, self.compiler) {
            (LevelName::Order, _) | (_, Compiler::Clang | Compiler::Rustc) => "sediment is",
            _ => "sediment and sediment-gcc-plugin are",
        };
        format!("# {what} of {}, where {needs} installed.", self.name)
    }

    fn make(&self) -> Vec<String> {
        let counted = if self.by_llvm() {
            format!(" '-fprofile-use=$(CURDIR)/{}'", self.counters())
        } else {
            String::new()
        };
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
        // The compilers that use counts lie beside the linkers.
        let compiles = match (self.level, self.by_llvm()) {
            (LevelName::Order, _) => String::new(),
            (_, true) => format!(" \"-fprofile-use=${{CMAKE_SOURCE_DIR}}/{}\"", self.counters()),
            (_, false) => format!(" \"-B{links}\""),
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
        let compiles = match (self.level, self.by_llvm()) {
            (LevelName::Order, _) => String::new(),
            (_, true) => format!(", '-fprofile-use=' + meson.project_source_root() / '{}'", self.counters()),
            (_, false) => ", '-B' + sediment_links".to_owned(),
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
        if self.by_llvm() {
            let counters = format!("{LINKS}/{}", self.counters());
            lines.push(format!("sediment -q export {} --format profdata -o {counters}", self.name));
            lines.push(format!("export CARGO_ENCODED_RUSTFLAGS=\"-Cprofile-use=$PWD/{counters}\""));
        }
        lines.push(self.build.to_owned());
        lines
    }

    fn shell(&self) -> Vec<String> {
        let [c, cxx] = if self.compiler == Compiler::Clang { ["clang", "clang++"] } else { ["gcc", "g++"] };
        let mut lines = vec![self.wrapper()];
        let mut counted = String::new();
        if self.by_llvm() {
            let counters = format!("{LINKS}/{}", self.counters());
            lines.push(format!("sediment -q export {} --format profdata -o {counters}", self.name));
            counted = format!(" -fprofile-use=$PWD/{counters}");
        }
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
