// SPDX-License-Identifier: MIT OR Apache-2.0
//! A folder that looks as if sediment's packages were installed: a home, and the databases of the package managers.

use super::blocks::{Mark, PageBlock};
use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{program, root};

/// Programs of the packages, and their files in the project.
const DEBHELPER: [&str; 4] = ["dh_sediment", "dh_sediment_link", "dh_sediment_check", "dh_sediment_graphs"];
/// Environment variables of the user that would change the commands.
const SETTINGS: [&str; 6] = ["CC", "CFLAGS", "LDFLAGS", "PROF_DIR", "SEDIMENT_LOG", "RUSTFLAGS"];

/// A copy of the plugin's folder with the built plugin, so that pages need not build it.
pub fn built_plugin() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copied =
        Command::new("cp").arg("-a").arg(support::plugin::built("gcc").join(".")).arg(folder.path()).status();
    assert!(copied.unwrap().success());
    folder
}

pub struct PageFolder(tempfile::TempDir);

impl PageFolder {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for folder in ["bin", "home/work", "perl/Debian/Debhelper/Sequence", "gcc"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        let own = env!("CARGO_BIN_EXE_sediment");
        for name in ["bin/sediment", "bin/cargo-sediment", "bin/gen_link_order", "gcc/real-ld"] {
            symlink(own, place.path(name)).unwrap();
        }
        // Without a version in the name: a program of another version would not read clang's output. BOLT searches its
        // library next to the folder from which it is called.
        for (of, name) in
            [("clang", "clang"), ("ld.lld", "ld.lld"), ("clang", "llvm-profdata"), ("llvm-bolt", "llvm-bolt")]
        {
            if let (None, Some(file)) = (program(of), program(&format!("{name}-19"))) {
                let file = if of == "llvm-bolt" { file.canonicalize().unwrap() } else { file };
                place.script(name, &format!("#!/bin/sh\nexec {} \"$@\"\n", file.display()));
            }
        }
        place.install_for_debian();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let file = self.path("bin").join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds debhelper's sequence, and a database in which its package is installed in addition to this machine's.
    fn install_for_debian(&self) {
        let from = root().join("dist/debian/dh");
        symlink(from.join("sediment.pm"), self.path("perl/Debian/Debhelper/Sequence/sediment.pm")).unwrap();
        for name in DEBHELPER {
            symlink(from.join(name), self.path("bin").join(name)).unwrap();
        }
        let Some(check) = program("dpkg-checkbuilddeps") else { return };
        let database = self.path("dpkg");
        std::fs::create_dir(&database).unwrap();
        let mut status = std::fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
        status +=
            "\nPackage: dh-sequence-sediment\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n";
        std::fs::write(database.join("status"), status).unwrap();
        let text = format!("#!/bin/sh\nexec {} --admindir={} \"$@\"\n", check.display(), database.display());
        self.script("dpkg-checkbuilddeps", &text);
    }

    /// Adds the macros, and a database in which the packages required by the tutorial's spec file are installed.
    pub fn install_for_rpm(&self) {
        if program("rpmbuild").is_none() {
            return;
        }
        let macros = std::fs::read_to_string(root().join("dist/rpm/macros.sediment")).unwrap();
        let more = format!(
            "\n%_dbpath {0}/rpm\n%__sediment {0}/bin/sediment\n%_sediment_linkers {0}/gcc\n",
            self.0.path().display()
        );
        std::fs::write(self.path("home/.rpmmacros"), macros + &more).unwrap();
        let spec = "Name: installed\nVersion: 1\nRelease: 1\nSummary: What the tutorial needs\nLicense: MIT\nBuildArch: noarch\n\
                    Provides: gcc make sediment-rpm-macros\n%description\nNothing.\n%files\n";
        std::fs::write(self.path("installed.spec"), spec).unwrap();
        let commands = "rpmbuild --quiet --define \"_topdir $PWD/installed\" -bb installed.spec && rpm --justdb --nodeps -i installed/RPMS/noarch/*.rpm";
        let output = self.shell("sh").args(["-c", commands]).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Copies the files in another place's working folder.
    pub fn go_on_from(&self, other: &PageFolder) {
        let from = other.path("home/work/.");
        let copied = Command::new("cp").arg("-a").args([from, self.path("home/work")]).status().unwrap();
        assert!(copied.success());
    }

    /// Prepares a program with the home of this place.
    fn shell(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = [self.path("bin")].into_iter().chain(std::env::split_paths(&path));
        let cargo = |name: &str, folder: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(folder)))
        };
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.envs(cargo(name, folder).map(|value| (name, value)));
        }
        SETTINGS.iter().for_each(|name| {
            command.env_remove(name);
        });
        command
            .env("PATH", std::env::join_paths(first).unwrap())
            .env("PERL5LIB", self.path("perl"))
            .env("HOME", self.path("home"))
            .env("CHECKOUT", root())
            .env_remove("CARGO_TARGET_DIR")
            .current_dir(self.path("home/work"));
        command
    }

    /// Runs the blocks of a page in one shell, with variables for earlier commands; an error names the block.
    pub fn run(&self, page: &str, blocks: &[PageBlock], variables: &[(&str, &Path)]) {
        let mut script = String::from("set -eu\n");
        for PageBlock { mark, line, text } in blocks {
            let _ = writeln!(script, "echo '== docs/{page}:{line}' >&2");
            match mark {
                Mark::Run | Mark::Before => script += text,
                Mark::File(name) => {
                    let _ = writeln!(script, "cat >{name} <<'END_OF_THE_BLOCK'\n{text}END_OF_THE_BLOCK");
                }
                Mark::InTree(_) | Mark::Elsewhere(_) | Mark::Shown | Mark::Text => {}
            }
        }
        let output =
            self.shell("bash").args(["-c", &script]).envs(variables.iter().copied()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let last = err.rfind("\n== docs/").unwrap_or_default();
        let (_, out) = out.split_at(out.char_indices().rev().nth(2000).map_or(0, |(at, _)| at));
        assert!(output.status.success(), "{out}\n{}", &err[last..]);
    }
}
