// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the packages of sediment itself with real rpmbuild and dpkg-buildpackage from dist/: they are built, installed
//! below an empty root, tried, and removed. They contain the program and the plugin built for the tests;
//! `scripts/prove rpm` and `scripts/prove deb` compile them in the package.

use crate::build;
use crate::projects::settings;

use crate::running::{err, out};
use build::BuildFolder;
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Need, case, long, root};

pub(crate) fn cases() -> Vec<Trial> {
    let both = [Need::Program("git"), Need::Program("make"), Need::GccPluginHeaders("gcc")];
    let more = |needs: &[Need]| [&both[..], needs].concat();
    let debian = [Need::Program("git"), Need::Program("dpkg-buildpackage"), Need::Program("dh")];
    vec![
        case("spec_under_its_conditions", &[Need::Program("rpmspec")], spec_under_its_conditions),
        long("debian_packages_without_plugin", &debian, debian_packages_without_plugin),
        case("workflow_calls_scripts", &[], workflow_calls_scripts),
        long("rpm_packages", &more(&[Need::Program("rpmbuild")]), rpm_packages),
        long(
            "debian_packages",
            &more(&[Need::Program("dpkg-buildpackage"), Need::Program("dh")]),
            debian_packages,
        ),
    ]
}

const LEGACY: [&str; 6] =
    ["perf2gv", "gv2link", "gen_profiles", "gen_profile_merge", "gen_link_order", "make_sediment_rpmmacros"];

/// A folder with the sources of packages, and a `cargo` that is found before the real one and returns the compiled
/// program.
struct PackageSources(tempfile::TempDir);

/// A compiler that returns the plugin's objects built for the tests, and links like the real one.
fn compiler_of_built_plugin() -> String {
    let (built, real) = (support::plugin::built("gcc"), support::program("g++").unwrap());
    format!(
        "#!/bin/sh\ncase \" $* \" in\n*' -c '*) for word; do case $word in *.o) exec cp {}/\"${{word##*/}}\" \"$word\" ;; esac; done ;;\nesac\nexec {} \"$@\"\n",
        built.display(),
        real.display()
    )
}

impl PackageSources {
    fn new() -> Self {
        let sources = Self(tempfile::tempdir().unwrap());
        let (tree, bin) = (sources.path("sediment-0.1.0"), sources.path("bin"));
        for folder in [&tree, &bin, &sources.path("vendor"), &sources.path("root")] {
            std::fs::create_dir(folder).unwrap();
        }
        let copied = format!("git ls-files -z | tar --null -cf - -T - | tar -xf - -C {}", tree.display());
        sources.run(Command::new("sh").args(["-ec", &copied]).current_dir(root()));
        let home = std::env::var("HOME").unwrap_or_default();
        let cargo_home = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
        let cargo = format!(
            "#!/bin/sh\ncase $1 in\nbuild) for folder in release debug; do install -D {} target/$folder/sediment; done ;;\n\
             *) cd {} && HOME={home} CARGO_HOME={cargo_home} exec {} \"$@\" ;;\nesac\n",
            env!("CARGO_BIN_EXE_sediment"),
            root().display(),
            env!("CARGO")
        );
        sources.script("cargo", &cargo);
        if support::has_gcc_plugin_headers("gcc") {
            sources.script("g++", &compiler_of_built_plugin());
        }
        sources
    }

    fn script(&self, name: &str, text: &str) {
        let script = self.path("bin").join(name);
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command.args(arguments).current_dir(self.0.path()).env("PATH", path);
        settings::without_settings(&mut command);
        // Most of the time would be spent on compression, although nobody downloads these packages.
        command.env("DPKG_DEB_COMPRESSOR_TYPE", "none").env("DEB_BUILD_OPTIONS", "noautodbgsym");
        command
    }

    /// Runs a program as root or fakeroot.
    fn as_root(&self, program: &str, arguments: &[&str]) -> String {
        let is_root = out(&Command::new("id").arg("-u").output().unwrap()).trim() == "0";
        let mut command = if is_root {
            self.command(program, arguments)
        } else {
            self.command("unshare", &[&["--user", "--map-root-user", program], arguments].concat())
        };
        self.run(&mut command)
    }

    fn run(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}\n{}{}", out(&output), err(&output));
        out(&output)
    }

    /// Files with this extension below a folder.
    fn files(&self, folder: &str, ending: &str) -> Vec<String> {
        let found =
            self.run(&mut self.command("find", &[folder, "-name", &format!("*{ending}"), "-type", "f"]));
        let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
        files.sort();
        files
    }
}

/// The packages for rpm. Worth its time: only this test shows that users install a complete and working program, and
/// can remove it without a trace.
fn rpm_packages() {
    let sources = PackageSources::new();
    sources.run(&mut sources.command("tar", &["-czf", "sediment-0.1.0.tar.gz", "sediment-0.1.0"]));
    sources.run(&mut sources.command("tar", &["-czf", "sediment-0.1.0-vendor.tar.gz", "vendor"]));
    let folder = sources.0.path().display().to_string();
    let defined = [format!("_topdir {folder}/top"), format!("_sourcedir {folder}")];
    let mut build =
        sources.command("rpmbuild", &["-ba", "--nodeps", "--define", &defined[0], "--define", &defined[1]]);
    build.args(["--define", "debug_package %{nil}", "sediment-0.1.0/dist/rpm/sediment.spec"]);
    sources.run(&mut build);
    let packages = sources.files("top/RPMS", ".rpm");
    assert_eq!(packages.len(), 3, "{packages:?}");
    let at = format!("{folder}/root");
    let rpm = |arguments: &[&str], files: &[String]| {
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        sources.as_root("rpm", &[&["--root", &at], arguments, &files].concat())
    };
    rpm(&["--install", "--nodeps"], &packages);
    rpm(&["--verify", "--nodeps", "sediment", "sediment-rpm-macros", "sediment-gcc-plugin"], &[]);
    installed_completely(&sources, "usr/share/zsh/site-functions", "LICENSE.dependencies");
    let macros = sources.files("root", "macros.sediment");
    let ask = ["--load", &macros[0], "--eval", "%__sediment %_sediment_linkers"];
    let paths = sources.run(&mut sources.command("rpm", &ask));
    assert_eq!(paths.trim(), "/usr/bin/sediment /usr/libexec/sediment/gcc");
    ordered_by(&sources, "usr/libexec/sediment/gcc");
    rpm(&["--erase", "--nodeps", "sediment", "sediment-rpm-macros", "sediment-gcc-plugin"], &[]);
    nothing_is_left(&sources);
}

/// The packages for Debian. Worth its time, like the test above.
fn debian_packages() {
    let sources = PackageSources::new();
    let tree = sources.path("sediment-0.1.0");
    sources.run(&mut sources.command("cp", &["-a", "sediment-0.1.0/dist/debian", "sediment-0.1.0/debian"]));
    let mut build = sources.command("dpkg-buildpackage", &["-d", "-b", "-us", "-uc"]);
    sources.run(build.current_dir(&tree));
    let packages: Vec<String> =
        sources.files(".", ".deb").into_iter().filter(|file| !file.contains("dbgsym")).collect();
    assert_eq!(packages.len(), 3, "{packages:?}");
    for folder in ["info", "updates"] {
        std::fs::create_dir_all(sources.path("root/var/lib/dpkg").join(folder)).unwrap();
    }
    for file in ["status", "available"] {
        std::fs::write(sources.path("root/var/lib/dpkg").join(file), "").unwrap();
    }
    let at = format!("--root={}", sources.path("root").display());
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    sources.as_root("dpkg", &[&[&at, "--force-depends", "--install"], &packages[..]].concat());
    installed_completely(&sources, "usr/share/zsh/vendor-completions", "THIRD-PARTY-NOTICES");
    let perl = sources.files("root/usr/share/perl5", "Sequence/sediment.pm").len()
        + sources.files("root/usr/share/perl5", "sediment.pm").len();
    assert_eq!(perl, 1, "the sequence");
    for name in ["dh_sediment", "dh_sediment_link", "dh_sediment_check", "dh_sediment_graphs"] {
        assert!(sources.path("root/usr/bin").join(name).is_file(), "{name}");
        assert!(has_page(&sources, name), "{name}");
    }
    ordered_by(&sources, "usr/libexec/sediment/ld");
    let names = ["sediment", "dh-sequence-sediment", "sediment-gcc-plugin"];
    sources.as_root("dpkg", &[&[at.as_str(), "--force-depends", "--purge"], &names[..]].concat());
    nothing_is_left(&sources);
}

/// The conditions omit a package, and requirements of the build.
fn spec_under_its_conditions() {
    let asked = |query: &str, conditions: &[&str]| {
        let mut rpmspec = Command::new("rpmspec");
        rpmspec.args(["--query", query]).args(conditions).arg(root().join("dist/rpm/sediment.spec"));
        settings::without_settings(&mut rpmspec);
        let output = rpmspec.output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    let names = |conditions: &[&str]| asked("--queryformat=%{name} ", conditions);
    assert_eq!(names(&[]), "sediment sediment-rpm-macros sediment-gcc-plugin ");
    assert_eq!(names(&["--without", "plugin"]), "sediment sediment-rpm-macros ");
    let wanted = |conditions: &[&str]| {
        let wanted = asked("--buildrequires", conditions);
        ["cargo", "rust", "gcc-plugin-devel", "gcc-c++"]
            .map(|name| wanted.lines().any(|line| line.split(' ').next() == Some(name)))
    };
    assert_eq!(wanted(&[]), [true; 4]);
    assert_eq!(wanted(&["--without", "plugin"]), [true, true, false, true]);
    assert_eq!(wanted(&["--without", "distribution_rust"]), [false, false, true, true]);
}

/// The source package, and packages on a machine without headers for plugins and without the distribution's Rust.
fn debian_packages_without_plugin() {
    let sources = PackageSources::new();
    let tree = sources.path("sediment-0.1.0");
    for (archive, folder) in [("orig", "sediment-0.1.0"), ("orig-vendor", "vendor")] {
        let archive = format!("sediment_0.1.0.{archive}.tar.gz");
        sources.run(&mut sources.command("tar", &["-czf", &archive, folder]));
    }
    sources.run(&mut sources.command("cp", &["-a", "sediment-0.1.0/dist/debian", "sediment-0.1.0/debian"]));
    sources.run(&mut sources.command("cp", &["-a", "vendor", "sediment-0.1.0/vendor"]));
    sources.run(&mut sources.command("dpkg-source", &["-Zgzip", "-z1", "--build", "sediment-0.1.0"]));
    assert_eq!(sources.files(".", ".dsc").len(), 1);
    let profiles = "-Ppkg.sediment.noplugin,pkg.sediment.rustup";
    // Without -d: nothing else is missing.
    let mut build = sources.command("dpkg-buildpackage", &["-b", "-us", "-uc", profiles]);
    sources.run(build.current_dir(&tree));
    let packages = sources.files(".", ".deb");
    let names = ["dh-sequence-sediment_0.1.0-1_all.deb", "/sediment_0.1.0-1_"];
    assert_eq!(packages.iter().filter(|file| !file.contains("dbgsym")).count(), names.len(), "{packages:?}");
    assert!(names.iter().all(|name| packages.iter().any(|file| file.contains(name))), "{packages:?}");
}

/// Every step of a workflow is a script of this project, or sets up the machine. Both workflows run CI's own script,
/// which reports every skipped test, and keep the screenshots.
fn workflow_calls_scripts() {
    let expected: [(&str, &[&str]); 2] = [
        ("checks.yml", &[".ci/run"]),
        ("release.yml", &[".ci/run", "scripts/release release", "scripts/check-release release"]),
    ];
    for (name, expected) in expected {
        let workflow = std::fs::read_to_string(root().join(".github/workflows").join(name)).unwrap();
        let steps: Vec<&str> =
            workflow.lines().filter_map(|line| line.trim().strip_prefix("- run: ")).collect();
        let is_script = |step: &&str| step.starts_with("scripts/") || step.starts_with(".ci/");
        let (scripts, others): (Vec<&str>, Vec<&str>) = steps.into_iter().partition(is_script);
        assert_eq!(scripts, expected, "{name}");
        for script in scripts {
            let path = root().join(script.split(' ').next().unwrap());
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert!(mode & 0o100 != 0, "{}", path.display());
        }
        for step in others {
            let known = ["apt-get ", "git config ", "gh release ", "mkdir "];
            assert!(known.iter().any(|word| step.starts_with(word)), "{name}: {step}");
        }
        let kept = workflow.lines().any(|line| line.trim() == "path: /tmp/screenshots");
        assert!(kept && workflow.contains("SEDIMENT_SCREENSHOTS: /tmp/screenshots"), "{name}");
    }
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(ci.contains(concat!("export SEDIMENT_REQUIRE", "_ALL=1")), "{ci}");
}

fn has_page(sources: &PackageSources, name: &str) -> bool {
    let pages = sources.path("root/usr/share/man/man1");
    ["", ".gz", ".bz2", ".xz"].iter().any(|ending| pages.join(format!("{name}.1{ending}")).is_file())
}

/// Checks the program under each of its names, a page for each command, completions, notices, and the plugin.
fn installed_completely(sources: &PackageSources, zsh: &str, notices: &str) {
    let below = |path: &str| sources.path("root").join(path);
    let program = below("usr/bin/sediment");
    let version = sources.run(Command::new(&program).arg("--version"));
    assert!(version.starts_with("sediment "), "{version}");
    let links = LEGACY.map(|name| format!("usr/bin/{name}"));
    let linkers =
        ["ld/ld", "ld/ld.bfd", "ld/ld.gold", "ld/ld.lld", "ld/ld.mold", "ld/ld.wild", "gcc/real-ld"];
    let linkers = linkers.map(|name| format!("usr/libexec/sediment/{name}"));
    for link in links.iter().chain(&linkers) {
        assert_eq!(below(link).canonicalize().unwrap(), program.canonicalize().unwrap(), "{link}");
    }
    sources.run(&mut sources.command(&program.display().to_string(), &["manual", "manual"]));
    let pages = sources.files("manual/man1", ".1");
    assert!(pages.len() > LEGACY.len(), "{pages:?}");
    for page in &pages {
        let name = Path::new(page).file_stem().unwrap().to_str().unwrap();
        assert!(has_page(sources, name), "{name}");
    }
    for file in [
        "usr/share/bash-completion/completions/sediment",
        "usr/share/fish/vendor_completions.d/sediment.fish",
    ] {
        assert!(below(file).is_file(), "{file}");
    }
    assert!(below(zsh).join("_sediment").is_file());
    let found =
        sources.run(&mut sources.command("find", &["root/usr/share", "-name", &format!("{notices}*")]));
    // Plain or compressed.
    let notices = sources.run(&mut sources.command("gzip", &["-dcf", found.trim()]));
    assert!(notices.contains("\nclap "), "{notices}");
    std::fs::write(sources.path("unit.c"), "int main(void) { return 0; }\n").unwrap();
    let plugin = format!("-fplugin={}", below("usr/libexec/sediment/sediment.so").display());
    sources.run(&mut sources.command("gcc", &[&plugin, "-c", "unit.c"]));
    assert!(sources.path("unit.c.gv").is_file());
}

/// Checks that the installed files link a program in its order.
fn ordered_by(sources: &PackageSources, linkers: &str) {
    let build = BuildFolder::new();
    let mut gcc = Command::new("gcc");
    gcc.current_dir(build.0.path()).args(["-O2", "-w", "-o", "prog"]);
    gcc.env("PROF_DIR", build.path("profiles")).env("SEDIMENT_LOG", build.path("log"));
    let output = build.link(gcc.env("COMPILER_PATH", sources.path("root").join(linkers)));
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(build.last()["outcome"], "ordered", "{}", build.last());
    build.runs("prog");
}

fn nothing_is_left(sources: &PackageSources) {
    let found = sources.run(
        &mut sources
            .command("find", &["root", "-path", "root/var", "-prune", "-o", "-name", "*sediment*", "-print"]),
    );
    assert_eq!(found, "");
}
