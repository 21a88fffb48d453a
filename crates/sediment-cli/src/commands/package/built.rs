// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the names of programs and libraries that a package builds, from its recipe, its built tree, and its installed
//! packages. A profile keeps only these, because activity of the maintainer's shell does not belong to the package.

use crate::files;
use crate::packages::Package;
use crate::values::{self, Glob};
use sediment_core::profile::{Profile, split};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Largest number of files that are inspected in a tree: a kernel's has fewer.
const MOST_FILES: usize = 200_000;
/// Extensions of files that describe a build, and their largest size in bytes. Makefiles have all kinds of extensions,
/// such as `Makefile-libbz2_so`.
const DESCRIPTIONS: &[&str] = &[
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
    "Cargo.toml",
    "SConstruct",
    ".cmake",
    ".mk",
    ".pro",
    ".bazel",
    ".gyp",
];
const MAKEFILE: &str = "akefile";
const LONGEST_DESCRIPTION: u64 = 4 << 20;
/// Folders of the system's programs and libraries.
const OF_SYSTEM: &[&str] =
    &["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib64", "/lib64", "/usr/lib", "/lib", "/usr/libexec"];
/// Smallest number of literal characters in a pattern: `usr/bin/*` is not specific enough.
const LEAST_LITERAL: usize = 2;

/// Names of a package's outputs.
#[derive(Debug, Default)]
pub(super) struct BuiltNames {
    /// Names of binary packages, without `-`, `.` and `_`.
    packages: BTreeSet<String>,
    /// Base names of installed or built files.
    files: BTreeSet<String>,
    patterns: Vec<Glob>,
    /// Words in the files that describe the build.
    words: BTreeSet<String>,
    /// True if a tree has too many files to inspect, so that its outputs are not completely known.
    is_cut: bool,
}

impl BuiltNames {
    /// Adds a package of the recipe, and its files if it is installed.
    pub(super) fn add_package(&mut self, name: &str) {
        if self.packages.insert(plain(name)) {
            if let Ok(installed) = Package::find(name, None) {
                self.files.extend(installed.file_names());
            }
        }
    }

    /// Adds a path or pattern of files to install.
    pub(super) fn add_installed(&mut self, pattern: &str) {
        let name = pattern.rsplit('/').next().unwrap_or_default();
        // Every library is called lib*.so.*.
        let own = name.strip_prefix("lib").unwrap_or(name).replace(".so", "");
        let literal = own.chars().filter(|character| !matches!(character, '*' | '?' | '.')).count();
        if literal >= LEAST_LITERAL {
            self.patterns.extend(values::glob(name).ok());
        }
    }

    /// Adds the labels of a map.
    pub(super) fn add_mapped(&mut self, map: &[(String, String)]) {
        self.files.extend(map.iter().map(|(_, label)| label.clone()));
    }

    /// Adds the programs and libraries in a tree.
    pub(super) fn add_tree(&mut self, folder: &Path) {
        let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > MOST_FILES {
                    self.is_cut = true;
                    return;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => self.add_file(&entry.path()),
                    _ => {}
                }
            }
        }
    }

    /// Adds a file of the tree if it is a program or library, or describes the build.
    fn add_file(&mut self, path: &Path) {
        let name = files::base_name(path);
        if files::is_linked(path) {
            self.files.insert(name.strip_prefix("lt-").unwrap_or(&name).to_owned());
        } else if name.contains(MAKEFILE) || DESCRIPTIONS.iter().any(|end| name.ends_with(end)) {
            let text = files::read_at_most(path, LONGEST_DESCRIPTION).unwrap_or_default();
            self.add_words(&String::from_utf8_lossy(&text));
        }
    }

    /// Adds the words of a text that describes the build.
    pub(super) fn add_words(&mut self, text: &str) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_+.-".contains(c);
        self.words.extend(text.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_owned));
        // CMake's OUTPUT_NAME NAME and add_library(NAME …), and Meson's library('NAME', …), but not find_library.
        let small = text.to_ascii_lowercase();
        for (at, called) in small.match_indices("library") {
            let part = text[at + called.len()..].trim_start_matches([' ', '\t']);
            let Some(part) = part.strip_prefix('(') else { continue };
            let name = part.split(|c| !is_part(c)).find(|word| !word.is_empty());
            if let Some(name) = name.filter(|_| !small[..at].ends_with("find_")) {
                self.words.insert(format!("lib{name}.so"));
            }
        }
        for part in text.split("OUTPUT_NAME").skip(1) {
            let name = part.split(|c| !is_part(c)).find(|word| !word.is_empty());
            self.words.extend(name.map(|name| format!("lib{name}.so")));
        }
    }

    /// True if the description of the build names a program or library that this system does not have. Its tree need
    /// not be built yet.
    fn describes(&self, label: &str) -> bool {
        let stem = label.split(".so").next().unwrap_or(label);
        let has = |word: &str| self.words.contains(word);
        // Makefiles contain libx.so.1.2.3, or libx.so.$(VERSION), of which libx.so. is a word.
        let versioned = format!("{stem}.so.");
        let is_versioned =
            || self.words.range(versioned.clone()..).next().is_some_and(|word| word.starts_with(&versioned));
        let is_named = if stem == label {
            has(label)
        } else {
            // The plain name of a library also occurs if a build only uses it.
            [".la", ".so"].iter().any(|end| has(&format!("{stem}{end}"))) || is_versioned()
        };
        is_named && !is_of_system(label)
    }

    /// True if the package builds the program or library with this label.
    fn has(&self, label: &str) -> bool {
        // The soname of libx.so.1.0.4 is libx.so.1.
        let versions = format!("{label}.");
        let of_library = |name: &String| label.contains(".so") && name.starts_with(&versions);
        let name = label.strip_suffix(".so").unwrap_or(label).replace(".so.", "");
        self.packages.contains(&plain(&name))
            || self.files.contains(label)
            || self.files.range(versions.clone()..).next().is_some_and(of_library)
            || self.patterns.iter().any(|pattern| pattern.matches(label))
            || self.describes(label)
    }

    /// True if there is no evidence that the package builds the only program of a profile.
    pub(super) fn is_doubtful(&self, profile: &Profile) -> bool {
        let dsos = profile.dsos();
        dsos.len() == 1 && dsos.keys().all(|label| !self.has(label))
    }

    /// Returns the package's part of a profile, and the labels of the rest; `None` if the whole profile belongs to it.
    ///
    /// # Errors
    /// If none of several programs is known to belong to the package, or if the tree is too large to decide that for
    /// some.
    pub(super) fn part_of(&self, profile: &Profile, only: &[Glob]) -> Result<Option<(Profile, Vec<String>)>> {
        let labels: BTreeSet<&str> = profile.dsos().keys().map(String::as_str).collect();
        // A profile of one program is accepted if nothing is known about the package's outputs.
        if only.is_empty()
            && (labels.is_empty() || labels.len() == 1 && (self.is_cut || self.files.is_empty()))
        {
            return Ok(None);
        }
        let is_own = |label: &&str| match only {
            [] => self.has(label),
            only => only.iter().any(|glob| glob.matches(label)),
        };
        let (own, others): (BTreeSet<&str>, BTreeSet<&str>) = labels.into_iter().partition(is_own);
        let rest: Vec<String> = others.into_iter().map(str::to_owned).collect();
        if self.is_cut && only.is_empty() && !rest.is_empty() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the tree is too large to find out what the package builds",
            )
            .with_hint(format!("name what to keep: --only GLOB; unknown: {}", rest.join(", "))));
        }
        if own.is_empty() {
            let what = if only.is_empty() {
                "nothing shows that the package builds a program of this profile"
            } else {
                "--only matches no program of this profile"
            };
            return Err(Error::new(ErrorCode::Unsupported, what)
                .with_hint(format!("name those to keep: --only GLOB; in the profile: {}", rest.join(", "))));
        }
        Ok((!rest.is_empty()).then(|| (split::only(profile, &own), rest)))
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|character| !matches!(character, '-' | '.' | '_')).collect()
}

/// True if a file with this name is in the folders of the system's programs and libraries.
fn is_of_system(label: &str) -> bool {
    let below =
        |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = OF_SYSTEM.iter().map(PathBuf::from).chain(below("/usr/lib").filter(|path| path.is_dir()));
    folders.into_iter().any(|folder| folder.join(label).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(labels: &[&str]) -> Profile {
        let mut profile = Profile::default();
        for label in labels {
            let key = sediment_core::profile::FunctionKey {
                dso: Some((*label).to_owned()),
                name: "f".to_owned(),
                file: None,
            };
            profile.function(key);
        }
        profile
    }

    fn kept(built: &BuiltNames, labels: &[&str], only: &[Glob]) -> Option<Vec<String>> {
        let part = built.part_of(&profile(labels), only).unwrap();
        part.map(|(kept, _)| kept.dsos().keys().cloned().collect())
    }

    #[test]
    fn a_profile_keeps_what_its_package_builds() {
        let tree = tempfile::tempdir().unwrap();
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        elf.extend([3, 0]);
        std::fs::create_dir(tree.path().join(".libs")).unwrap();
        std::fs::write(tree.path().join(".libs/lt-made"), &elf).unwrap();
        std::fs::write(tree.path().join(".libs/libmade.so.2.0.4"), &elf).unwrap();
        std::fs::write(tree.path().join("bash"), "#!/bin/sh").unwrap();
        let make =
            "all: described libdrawn.la libnumbered.so.1.0.2 libvariable.so.$(VERSION)\n\tsh -c 'cp a b'\n";
        std::fs::write(tree.path().join("Makefile"), make).unwrap();
        std::fs::write(tree.path().join("Makefile-libshared_so"), "$(CC) -o libshared.so.3.1\n").unwrap();
        let mut built = BuiltNames::default();
        built.add_tree(tree.path());
        built.add_package("sediment-none");
        built.add_package("libsediment-none-1.0-3");
        for installed in
            ["usr/bin/*", "usr/lib/*/libfour.so.*", "usr/sbin/fived", "usr/lib/*.so.*", "usr/lib/*/lib*.so.*"]
        {
            built.add_installed(installed);
        }
        let all = [
            "bash",
            "described",
            "fived",
            "libc.so.6",
            "libdrawn.so.3",
            "libfour.so.1",
            "libmade.so.2",
            "libnumbered.so.1",
            "libsediment-none-1.0.so.3",
            "libshared.so.3",
            "libvariable.so.2",
            "made",
            "sediment-none",
            "sh",
        ];
        let own: Vec<&str> =
            all.iter().copied().filter(|label| !["bash", "libc.so.6", "sh"].contains(label)).collect();
        assert_eq!(kept(&built, &all, &[]).unwrap(), own);
        assert_eq!(kept(&built, &own, &[]), None);
        let other = built.part_of(&profile(&["other"]), &[]);
        assert_eq!(other.unwrap_err().code(), ErrorCode::Unsupported);
        assert_eq!(kept(&BuiltNames::default(), &["other"], &[]), None);
        assert_eq!(kept(&built, &["other"], &[values::glob("other").unwrap()]), None);
        assert_eq!(kept(&built, &["bash", "made"], &[values::glob("ba*").unwrap()]).unwrap(), ["bash"]);
        let none = built.part_of(&profile(&["bash", "libc.so.6"]), &[]);
        assert_eq!(none.unwrap_err().code(), ErrorCode::Unsupported);
        // Nothing is guessed for a tree that was not read completely.
        built.is_cut = true;
        assert_eq!(kept(&built, &own, &[]), None);
        let unknown = built.part_of(&profile(&["bash", "made"]), &[]);
        assert_eq!(unknown.unwrap_err().code(), ErrorCode::Unsupported);
    }

    #[test]
    fn libraries_are_found_in_descriptions_of_builds() {
        let mut built = BuiltNames::default();
        built.add_words(
            "ADD_LIBRARY(one SHARED a.c)\nadd_library (two b.c)\nshared_library('three', 'c.c')\n",
        );
        built.add_words(
            "set_target_properties(x PROPERTIES OUTPUT_NAME four)\nFIND_LIBRARY(five)\nfind_library (six)",
        );
        let found = |name: &str| built.words.contains(&format!("lib{name}.so"));
        assert!(["one", "two", "three", "four"].iter().all(|name| found(name)));
        assert!(["five", "six"].iter().all(|name| !found(name)));
    }
}
