// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small Debian source packages, one for each build system, and the tools that build them with the debhelper sequence
//! of this checkout.

use crate::projects::ProjectKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::root;

/// An unpacked source package `toy-1.0` in a separate folder, with a profile next to it that is not part of it.
pub struct Toy {
    pub folder: tempfile::TempDir,
}

impl Toy {
    pub fn new(kind: ProjectKind) -> Self {
        let toy = Self { folder: tempfile::tempdir().unwrap() };
        toy.write("toy-1.0/debian/source/format", "3.0 (native)\n");
        toy.write("toy-1.0/debian/changelog", CHANGELOG);
        let tools = match kind {
            ProjectKind::Make | ProjectKind::Autotools => "",
            ProjectKind::CMake => ",\n cmake",
            ProjectKind::Meson => ",\n meson",
        };
        toy.write(
            "toy-1.0/debian/control",
            &format!("{SOURCE}Build-Depends:\n debhelper-compat (= 13){tools},\n{PACKAGE}"),
        );
        toy.rules("");
        for (name, text) in crate::projects::files(kind) {
            toy.write(&format!("toy-1.0/{name}"), &text);
        }
        toy.write("toy.gv", &crate::projects::profile(kind));
        toy.tools();
        toy
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes debian/rules, with more lines at the beginning.
    pub fn rules(&self, more: &str) {
        self.write("toy-1.0/debian/rules", &format!("#!/usr/bin/make -f\n{more}\n%:\n\tdh $@\n"));
        let path = self.path("toy-1.0/debian/rules");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Installs the files of the packages sediment and dh-sequence-sediment.
    fn tools(&self) {
        let from = root().join("dist/debian/dh");
        let sequences = self.path("perl/Debian/Debhelper/Sequence");
        std::fs::create_dir_all(&sequences).unwrap();
        std::fs::create_dir(self.path("bin")).unwrap();
        symlink(from.join("sediment.pm"), sequences.join("sediment.pm")).unwrap();
        for name in ["dh_sediment", "dh_sediment_link", "dh_sediment_check", "dh_sediment_graphs"] {
            symlink(from.join(name), self.path("bin").join(name)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_sediment"), self.path("bin/sediment")).unwrap();
    }

    /// Prepares a program in the folder of the source package, as if sediment were installed.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(std::iter::once(self.path("bin")).chain(std::env::split_paths(&path)));
        command
            .args(arguments)
            .current_dir(self.path("toy-1.0"))
            .stdin(Stdio::null())
            .env("PATH", path.unwrap())
            .env("PERL5LIB", self.path("perl"));
        crate::projects::without_settings(&mut command);
        command
    }

    /// Adds the profile and the sequence to the package.
    pub fn add_sequence(&self) {
        let output = self
            .command("sediment", &["package", "deb", ".", "--profile", "../toy.gv", "--apply"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", words(&output));
    }

    /// Folder of GCC's plugin, which also contains the wrapper scripts for the compilers.
    pub fn plugin(&self) -> PathBuf {
        self.plugin_for("gcc")
    }

    /// The same for another compiler.
    pub fn plugin_for(&self, compiler: &str) -> PathBuf {
        let plugin = self.path(&format!("plugin-{compiler}"));
        std::fs::create_dir(&plugin).unwrap();
        std::fs::copy(support::plugin::built(compiler).join("sediment.so"), plugin.join("sediment.so"))
            .unwrap();
        support::plugin::put_before_compilers(compiler, &plugin.join("compilers"));
        plugin
    }

    /// Removes the packages built before.
    pub fn remove_packages(&self) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "deb") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// Builds the packages; removes earlier ones first.
    pub fn build(&self, arguments: &[&str], options: &str) -> Output {
        self.remove_packages();
        let mut all = vec!["-d", "-b", "-us", "-uc"];
        all.extend(arguments);
        let mut command = self.command("dpkg-buildpackage", &all);
        command.env("DEB_BUILD_OPTIONS", format!("nocheck parallel=2 {options}"));
        command.output().unwrap()
    }

    /// Returns the log of a build that must succeed.
    pub fn built(&self, arguments: &[&str], options: &str) -> String {
        let output = self.build(arguments, options);
        assert!(output.status.success(), "{}", words(&output));
        words(&output)
    }

    /// Returns the built packages with their bytes.
    pub fn packages(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut packages: Vec<(String, Vec<u8>)> = entries
            .filter(|path| path.extension().is_some_and(|ending| ending == "deb"))
            .map(|path| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
            })
            .collect();
        packages.sort();
        packages
    }
}

/// Returns all output of a program.
pub fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const CHANGELOG: &str = "toy (1.0) unstable; urgency=low

  * A package for tests.

 -- Nobody <nobody@example.org>  Mon, 01 Jan 2024 00:00:00 +0000
";
const SOURCE: &str = "Source: toy
Section: misc
Priority: optional
Maintainer: Nobody <nobody@example.org>
Rules-Requires-Root: no
Standards-Version: 4.6.2
";
const PACKAGE: &str = "
Package: toy
Architecture: any
Depends: ${shlibs:Depends}, ${misc:Depends}
Description: program and library of no use
 It is built by tests.
";
