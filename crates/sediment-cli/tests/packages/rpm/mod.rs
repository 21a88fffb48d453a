// SPDX-License-Identifier: MIT OR Apache-2.0
//! RPM packages built in the order of a profile with real rpmbuild: with the macros and the change by
//! `sediment package rpm`, with upstream sediment's spellings, and with the output of `make_sediment_rpmmacros`.

mod blocks;
use crate::build;

use crate::running::{done, err, out, sediment};
use build::BuildFolder;
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let rpm = [Need::Program("rpmbuild"), Need::Program("gcc"), Need::Program("make"), Need::Program("tar")];
    let mut with_ordering_file = rpm.to_vec();
    with_ordering_file.push(Need::LinkerFolder("gnu-ld-2.44"));
    vec![
        case("from_a_stock_spec_to_a_verified_package", &rpm, from_a_stock_spec_to_a_verified_package),
        case("without_it_the_build_is_the_stock_one", &rpm, without_it_the_build_is_the_stock_one),
        case(
            "a_profile_that_does_not_fit_fails_the_check",
            &rpm,
            a_profile_that_does_not_fit_fails_the_check,
        ),
        case(
            "packages_without_sections_or_with_renamed_functions_are_checked",
            &rpm,
            packages_without_sections_or_with_renamed_functions_are_checked,
        ),
        case("flags_have_sections_once", &rpm, flags_have_sections_once),
        case(
            "programs_in_every_language_with_link_time_optimisation_or_not",
            &[&rpm[..], &[Need::Program("g++"), Need::Program("gfortran")]].concat(),
            programs_in_every_language_with_link_time_optimisation_or_not,
        ),
        case("a_change_is_shown_before_it_is_made", &rpm, a_change_is_shown_before_it_is_made),
        case(
            "the_linker_that_was_chosen",
            &[Need::Program("gcc"), Need::Program("ld.gold")],
            the_linker_that_was_chosen,
        ),
        case(
            "functions_are_compiled_by_the_counts_of_their_blocks",
            &[
                &rpm[..],
                &[
                    Need::Program("make"),
                    Need::Program("g++"),
                    Need::Program("valgrind"),
                    Need::GccPluginHeaders("gcc"),
                ],
            ]
            .concat(),
            blocks::functions_are_compiled_by_counts,
        ),
        case(
            "units_are_compiled_by_counters",
            &[&rpm[..], &[Need::Program("make"), Need::Program("g++"), Need::GccPluginHeaders("gcc")]]
                .concat(),
            blocks::units_are_compiled_by_counters,
        ),
        case(
            "graphs_of_the_compiler_are_kept",
            &[&rpm[..], &[Need::Program("g++"), Need::GccPluginHeaders("gcc")]].concat(),
            graphs_of_the_compiler_are_kept,
        ),
        case(
            "profiles_of_every_kind_are_rebuilt_elsewhere",
            &rpm,
            profiles_of_every_kind_are_rebuilt_elsewhere,
        ),
        case("settings_are_sources_and_count", &rpm, settings_are_sources_and_count),
        case("sources_are_found_as_rpmbuild_finds_them", &rpm, sources_are_found_as_rpmbuild_finds_them),
        case("the_originals_spec_as_written", &with_ordering_file, the_originals_spec_as_written),
        case("the_originals_rpmmacros", &with_ordering_file, the_originals_rpmmacros),
    ]
}

/// A package of the wrapper's program, in a folder that is also the user's home.
struct RpmPackage(BuildFolder);

const SPEC: &str = "Name:           prog
Version:        1.0
Release:        1%{?dist}
Summary:        A program
License:        MIT
Source0:        %{name}-%{version}.tar.gz
BuildRequires:  gcc

%description
A program.

%prep
%setup -q

%build
%set_build_flags
./configure
make

%install
install -D -m 755 prog %{buildroot}%{_bindir}/prog

%files
%{_bindir}/prog
";

/// Like autoconf's configure, it first tries to link a program.
const CONFIGURE: &str = "#!/bin/sh
set -e
echo 'int main(void) { return 0; }' >conftest.c
${CC:-gcc} $CFLAGS $LDFLAGS conftest.c -o conftest
./conftest
echo \"CC = ${CC:-gcc}\" >config.mk
echo \"CFLAGS = $CFLAGS\" >>config.mk
echo \"LDFLAGS = $LDFLAGS\" >>config.mk
echo \"the linker is $(${CC:-gcc} -print-prog-name=ld)\"
";
const MAKEFILE: &str = "include config.mk\nprog: a.o b.o main.o\n\t$(CC) $(CFLAGS) -w -o $@ $^ $(LDFLAGS)\n";

impl RpmPackage {
    fn new() -> Self {
        let package = Self(BuildFolder::new());
        let source = package.0.path("prog-1.0");
        std::fs::create_dir(&source).unwrap();
        for file in ["a.c", "b.c", "main.c"] {
            std::fs::copy(package.0.path(file), source.join(file)).unwrap();
        }
        std::fs::write(source.join("Makefile"), MAKEFILE).unwrap();
        std::fs::write(source.join("configure"), CONFIGURE).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(source.join("configure"), executable).unwrap();
        package.tar();
        for folder in ["bin", "gcc"] {
            std::fs::create_dir(package.0.path(folder)).unwrap();
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), package.0.path("gcc/real-ld")).unwrap();
        for name in ["sediment", "gv2link"] {
            let link = package.0.path("bin").join(name);
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), link).unwrap();
        }
        std::fs::rename(package.0.path("profiles/prog.prof"), package.0.path("prog.gv")).unwrap();
        package.spec(SPEC);
        package
    }

    /// Packs the sources.
    fn tar(&self) {
        let mut tar = Command::new("tar");
        tar.current_dir(self.0.0.path()).args(["-czf", "prog-1.0.tar.gz", "prog-1.0"]);
        assert!(tar.status().unwrap().success());
    }

    fn spec(&self, text: &str) {
        std::fs::write(self.0.path("prog.spec"), text).unwrap();
    }

    fn rpm(&self, program: &str, arguments: &[&str]) -> Command {
        let folder = self.0.0.path().display();
        let path = format!("{folder}/bin:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command
            .current_dir(self.0.0.path())
            .env("HOME", self.0.0.path())
            .env("PATH", path)
            .env("SOURCE_DATE_EPOCH", "1000000000")
            .arg("--load")
            .arg(support::root().join("dist/rpm/macros.sediment"))
            .args(["--define", &format!("_topdir {folder}/top"), "--define", &format!("_sourcedir {folder}")])
            .args(["--define", &format!("__sediment {folder}/bin/sediment")])
            .args(["--define", &format!("_sediment_linkers {folder}/gcc")])
            .args(["--define", "clamp_mtime_to_source_date_epoch 1"])
            .args(["--define", "build_mtime_policy clamp_to_source_date_epoch"])
            .args(arguments);
        command
    }

    fn build(&self, arguments: &[&str]) -> Output {
        self.rpm("rpmbuild", arguments).args(["-bb", "--nodeps", "prog.spec"]).output().unwrap()
    }

    fn built(&self, arguments: &[&str]) -> String {
        said_when_done(&self.build(arguments))
    }

    /// Makes the source package, and builds it elsewhere.
    fn built_as_source(&self) -> String {
        let _ = std::fs::remove_dir_all(self.0.path("top"));
        let source = self.rpm("rpmbuild", &["-bs", "--nodeps", "prog.spec"]).output().unwrap();
        said_when_done(&source);
        let folder = std::fs::read_dir(self.0.path("top/SRPMS")).unwrap();
        let packed: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
        let elsewhere = self.0.path("elsewhere");
        let _ = std::fs::remove_dir_all(&elsewhere);
        let defined = ["_topdir", "_sourcedir"].map(|name| format!("{name} {}", elsewhere.display()));
        let mut build = self.rpm("rpmbuild", &["--define", &defined[0], "--define", &defined[1]]);
        said_when_done(&build.args(["--rebuild", "--nodeps"]).args(&packed).output().unwrap())
    }

    /// With a GNU ld that supports `--section-ordering-file`, and with rpmbuild called as in upstream sediment's
    /// documentation.
    fn built_with_newer_linker(&self, arguments: &[&str]) -> String {
        let mut build = self.rpm("rpmbuild", arguments);
        build.env("COMPILER_PATH", newer_linker()).args(["-ba", "--nodeps", "prog.spec"]);
        said_when_done(&build.output().unwrap())
    }

    /// Digest of the package's contents, and the data on files and dependencies in its header.
    fn digest(&self) -> (String, String) {
        let ask = |format: &str| {
            let found: Vec<PathBuf> = ["x86_64", "aarch64"]
                .iter()
                .filter_map(|arch| std::fs::read_dir(self.0.path(&format!("top/RPMS/{arch}"))).ok())
                .flat_map(|folder| folder.map(|entry| entry.unwrap().path()))
                .collect();
            assert_eq!(found.len(), 1, "{found:?}");
            let output = Command::new("rpm").args(["-qp", "--qf", format]).args(&found).output().unwrap();
            done(&output)
        };
        // Names that contain a build-id change with the contents.
        let about: String = ask("[%{FILENAMES} %{FILEMODES}\\n][%{REQUIRES}\\n][%{PROVIDES}\\n]")
            .lines()
            .filter(|line| !line.contains(".build-id/"))
            .collect::<Vec<_>>()
            .join("\n");
        let digest = ask("[%{PAYLOADDIGEST}]");
        std::fs::remove_dir_all(self.0.path("top/RPMS")).unwrap();
        (digest, about)
    }

    fn change(&self, more: &[&str]) -> Output {
        let mut arguments =
            vec!["package", "rpm", "prog.spec", "--profile", "prog.gv", "--min-coverage", "95"];
        arguments.extend(more);
        sediment(self.0.0.path(), &arguments)
    }
}

fn said_when_done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", out(output), err(output));
    out(output) + &err(output)
}

/// True if a line on standard error has this beginning and contains this text.
fn has_line(output: &Output, beginning: &str, datum: &str) -> bool {
    err(output).lines().any(|line| line.starts_with(beginning) && line.contains(datum))
}

fn from_a_stock_spec_to_a_verified_package() {
    let package = RpmPackage::new();
    done(&package.change(&["--apply"]));
    let said = package.built(&[]);
    // The share of the package's program that is placed, and the source of its symbols.
    let all_placed = |said: &str, symbols: &str| {
        let line = said.lines().find(|line| line.starts_with("/usr/bin/prog: ")).unwrap_or(said);
        assert!(line.contains(": 100.00 % ") && line.contains(symbols), "{symbols}: {line}");
    };
    all_placed(&said, " symbol table");
    assert!(said.contains("1 of 1 outputs ordered"), "{said}");
    assert!(said.contains("the linker is ld\n"), "{said}");
    let first = package.digest();
    package.built(&[]);
    assert_eq!(package.digest(), first, "a rebuild differs");
    package.built(&["--without", "sediment"]);
    let without = package.digest();
    assert_ne!(without.0, first.0);
    assert_eq!(without.1, first.1, "files or dependencies differ");
    // A stripped file is checked in its linked form.
    let strip = "__os_install_post strip %{buildroot}%{_bindir}/prog";
    all_placed(&package.built(&["--define", strip]), " symbol table as linked, ");
    // A file whose symbols were split off is checked with its debug file.
    let folder = "%{buildroot}/usr/lib/debug%{_bindir}";
    let split = format!(
        "__os_install_post mkdir -p {folder} && cd {folder} && objcopy --only-keep-debug %{{buildroot}}%{{_bindir}}/prog prog.debug && \
         strip %{{buildroot}}%{{_bindir}}/prog && objcopy --add-gnu-debuglink=prog.debug %{{buildroot}}%{{_bindir}}/prog"
    );
    let unpacked = "_unpackaged_files_terminate_build 0";
    let said = package.built(&["--define", &split, "--define", unpacked]);
    all_placed(&said, " debug file");
    let release = package.built(&["--define", "_sediment_ab 1"]);
    assert!(release.contains("prog-1.0-1."), "{release}");
}

fn without_it_the_build_is_the_stock_one() {
    let package = RpmPackage::new();
    package.built(&[]);
    let stock = package.digest();
    done(&package.change(&["--apply"]));
    assert!(!package.built(&["--without", "sediment"]).contains("sediment verify"));
    assert_eq!(package.digest(), stock);
    let empty = "digraph Callgraph {\n  graph [sediment=2, unit=calls, total=0];\n}\n";
    std::fs::write(package.0.path("prog.gv"), empty).unwrap();
    let said = package.built(&[]);
    assert!(!said.contains("-ffunction-sections"), "{said}");
    assert_eq!(said.matches("\nsediment_prep: ").count(), 1, "{said}");
    assert_eq!(package.digest(), stock, "a profile without functions");
}

fn a_profile_that_does_not_fit_fails_the_check() {
    let package = RpmPackage::new();
    done(&package.change(&["--apply"]));
    let text = std::fs::read_to_string(package.0.path("prog.gv")).unwrap();
    let stale = text.replace("\"a", "\"old_a").replace("\"b", "\"old_b");
    std::fs::write(package.0.path("prog.gv"), &stale).unwrap();
    let output = package.build(&[]);
    assert!(!output.status.success(), "{}", err(&output));
    assert!(has_line(&output, "sediment: prog: ", " 95.00 %"), "{}", err(&output));
    // A profile of other programs.
    std::fs::write(package.0.path("prog.gv"), stale.replace("label=\"prog\"", "label=\"other\"")).unwrap();
    let output = package.build(&[]);
    assert!(!output.status.success(), "{}", err(&output));
    assert!(has_line(&output, "sediment: warning: skipped ", "prog.gv:"), "{}", err(&output));
    // Said alone.
    let spec = std::fs::read_to_string(package.0.path("prog.spec")).unwrap();
    package.spec(&spec.replace("%sediment_check -m 95", "%sediment_check -w"));
    assert!(package.built(&[]).contains("0 of 1 outputs ordered"));
}

fn packages_without_sections_or_with_renamed_functions_are_checked() {
    let package = RpmPackage::new();
    done(&package.change(&["--apply"]));
    let spec = std::fs::read_to_string(package.0.path("prog.spec")).unwrap();
    // Installed like a program's helpers; the build-id differs, because rpm changes it for each package.
    let renamed = spec.replace("%{_bindir}/prog", "%{_libexecdir}/x/real-prog");
    package.spec(&renamed);
    let another_id = "__os_install_post objcopy -R .note.gnu.build-id %{buildroot}%{_libexecdir}/x/real-prog";
    for more in [&[][..], &["--define", another_id, "--define", "_missing_build_ids_terminate_build 0"]] {
        let said = package.built(more);
        assert!(said.contains("/usr/libexec/x/real-prog: "), "{said}");
    }
    // One of two programs is compiled with its own flags.
    let two = spec.replace("\nmake\n", "\nmake\ngcc -O2 -w a.c b.c main.c -o fixed\n");
    let two = two.replace(
        "%{buildroot}%{_bindir}/prog\n",
        "%{buildroot}%{_bindir}/prog\ninstall -m 755 fixed %{buildroot}%{_bindir}/fixed\n",
    );
    package.spec(&two.replace("%files\n", "%files\n%{_bindir}/fixed\n"));
    let text = std::fs::read_to_string(package.0.path("prog.gv")).unwrap();
    let of_both = text.replace(
        "digraph Callgraph {",
        "digraph Callgraph {\n  subgraph cluster9 { graph [label=\"fixed\"]; \"a@fixed\" [name=\"a07\", dso=\"fixed\"]; \"b@fixed\" [name=\"all_a\", dso=\"fixed\"]; }\n  \"b@fixed\" -> \"a@fixed\" [label=0.1, count=100];\n",
    );
    std::fs::write(package.0.path("prog.gv"), of_both).unwrap();
    let output = package.build(&[]);
    let said = out(&output) + &err(&output);
    assert!(!output.status.success() && said.contains("1 of 2 outputs ordered"), "{said}");
    assert!(said.contains("/usr/bin/fixed: 0.00 % "), "{said}");
    assert!(has_line(&output, "sediment: fixed: ", "-ffunction-sections"), "{said}");
}

/// With the plugin in the build of a package that must stay the same.
fn graphs_of_the_compiler_are_kept() {
    let package = RpmPackage::new();
    package.built(&[]);
    let without = package.digest();
    let spec = SPEC.replace("%setup -q\n", "%setup -q\n%sediment_graphs_begin\n");
    // Two files with the same name have a graph each.
    let twice = "mkdir %{buildroot}/x\ncp %{buildroot}%{_bindir}/prog %{buildroot}/x\n%sediment_graphs_end\nrm -r %{buildroot}/x\n";
    package.spec(&spec.replace("\n%files\n", &format!("{twice}\n%files\n")));
    let macros = support::root().join("dist/rpm/macros.sediment-static").display().to_string();
    let plugin = format!("_sediment_plugin {}", support::plugin::built("gcc").join("sediment.so").display());
    let log = package.built(&["--load", &macros, "--define", &plugin]);
    assert!(package.0.path("top/BUILD/prog-1.0-sediment-graphs/prog-1.gv").is_file(), "{log}");
    let graph = package.0.path("top/BUILD/prog-1.0-sediment-graphs/prog.gv");
    let graph = std::fs::read_to_string(graph).unwrap_or_else(|error| panic!("{error}: {log}"));
    assert!(graph.contains("static=") && graph.contains("\"main\" -> "), "{graph}");
    assert!(package.digest() == without, "the package is not the same");
}

fn flags_have_sections_once() {
    let package = RpmPackage::new();
    let distribution = fedoras_flags();
    let flags = |spec: &str, more: &[&str]| {
        let expanded =
            package.rpm("rpm", more).args(["--define", "with_sediment 1", "--eval", spec]).output().unwrap();
        done(&expanded)
    };
    let shown = "%{sediment_prep a.gv}\nC %{build_cflags}\nC++ %{build_cxxflags}\nF %{build_fflags}\nO %{optflags}\nL %{?build_ldflags}";
    for way in [&[][..], &["--load", &distribution]] {
        let said = flags(shown, way);
        for language in ["C ", "C++ ", "F ", "O "] {
            let line = said.lines().find(|line| line.starts_with(language)).unwrap();
            assert_eq!(line.matches("-ffunction-sections").count(), 1, "{line}");
            assert!(!line.contains("data-sections"));
        }
        assert_eq!(flags("L %{?build_ldflags}", way).trim(), said.lines().last().unwrap().trim());
    }
}

/// Macros that set flags like Fedora's, including link-time optimisation.
fn fedoras_flags() -> String {
    support::root().join("proofs/inputs/rpm/macros.flags").display().to_string()
}

/// Three programs in one package, with rpm's flags for each language and with Fedora's.
fn programs_in_every_language_with_link_time_optimisation_or_not() {
    let package = RpmPackage::new();
    let (mut c, mut fortran, mut calls) = (String::new(), String::new(), String::new());
    for step in 0..6 {
        let _ = writeln!(
            c,
            "__attribute__((noinline, noclone)) int s{step}(int x) {{ sink += x; return x * {step} + sink; }}"
        );
        // No compiler replaces two calls by this printing function.
        let _ = writeln!(
            fortran,
            "integer function s{step}(x)\n  integer, intent(in) :: x\n  write (*, *) x, x + {step}\n  s{step} = x * {step} + 1\nend function"
        );
        let _ = writeln!(calls, "  x = s{step}(x){{}}");
    }
    let called = |end: &str| calls.replace("{}", end);
    let c = format!(
        "static volatile int sink;\n{c}int main(int x, char **arguments) {{\n{}  return x == 77;\n}}\n",
        called(";")
    );
    let fortran = format!(
        "{fortran}program main\n  integer :: x, s0, s1, s2, s3, s4, s5\n  x = command_argument_count()\n{}  if (x == 77) stop 1\nend program\n",
        called("").repeat(2)
    );
    let makefile = "all: in_c in_cxx in_fortran\nin_c: c.c\n\tgcc $(CFLAGS) -o $@ $^ $(LDFLAGS)\n\
        in_cxx: cxx.cc\n\tg++ $(CXXFLAGS) -o $@ $^ $(LDFLAGS)\nin_fortran: fortran.f90\n\tgfortran $(FFLAGS) -o $@ $^ $(LDFLAGS)\n";
    let files = [("c.c", &*c), ("cxx.cc", &c), ("fortran.f90", &fortran), ("Makefile", makefile)];
    for (file, text) in files {
        std::fs::write(package.0.path("prog-1.0").join(file), text).unwrap();
    }
    package.tar();
    let mut profile =
        "digraph Callgraph {\n  graph [sediment=2, source=\"test\", unit=calls, total=45];\n".to_owned();
    for (number, (program, name)) in
        [("in_c", "s#"), ("in_cxx", "_Z2s#i"), ("in_fortran", "s#_")].iter().enumerate()
    {
        let names = [4, 1, 5, 0, 3, 2].map(|step| name.replace('#', &step.to_string()));
        let _ = writeln!(
            profile,
            "  subgraph cluster{number} {{\n    graph [label=\"{program}\"];\n    \"{}\";\n  }}",
            names.join("\"; \"")
        );
        for (pair, count) in names.windows(2).zip([5, 4, 3, 2, 1]) {
            let _ = writeln!(profile, "  \"{}\" -> \"{}\" [label=0.1, count={count}];", pair[0], pair[1]);
        }
    }
    std::fs::write(package.0.path("prog.gv"), profile + "}\n").unwrap();
    package.spec(
        &SPEC
            .replace("./configure\nmake", "make")
            .replace("prog %{buildroot}%{_bindir}/prog", "-t %{buildroot}%{_bindir} in_c in_cxx in_fortran")
            .replace("%files\n%{_bindir}/prog", "%files\n%{_bindir}/in_*"),
    );
    done(&package.change(&["--apply"]));
    let fedora = fedoras_flags();
    let ways: [(&[&str], bool); 2] =
        [(&[], false), (&["--load", &fedora, "--define", "debug_package %{nil}"], true)];
    for (way, optimised) in ways {
        let said = package.built(way);
        assert_eq!(said.contains(" -flto=auto "), optimised, "{said}");
        for program in ["in_c", "in_cxx", "in_fortran"] {
            let begin = format!("/usr/bin/{program}: 100.00 % ");
            let is_whole = |line: &str| line.starts_with(&begin) && line.contains("; 6 of 6 functions; ");
            assert!(said.lines().any(is_whole), "{said}");
        }
        assert!(said.contains("3 of 3 outputs ordered"), "{said}");
    }
}

fn a_change_is_shown_before_it_is_made() {
    let package = RpmPackage::new();
    let shown = package.change(&[]);
    let diff = done(&shown);
    assert!(diff.starts_with("--- a/prog.spec\n+++ b/prog.spec\n@@ "), "{diff}");
    assert_eq!(diff.lines().filter(|line| line.starts_with('-') && !line.starts_with("---")).count(), 0);
    assert!(err(&shown).contains("--apply"), "{}", err(&shown));
    let read = || std::fs::read_to_string(package.0.path("prog.spec")).unwrap();
    assert_eq!(read(), SPEC);
    done(&package.change(&["--apply"]));
    let made = read();
    assert_ne!(made, SPEC);
    let again = package.change(&["--apply"]);
    assert!(done(&again).is_empty(), "{}", err(&again));
    assert_eq!(read(), made);
    package.spec(&SPEC.replace("%prep\n", ""));
    let refused = package.change(&["--apply"]);
    assert_eq!(crate::running::code(&refused), 1);
    assert!(err(&refused).starts_with("sediment: prog.spec: "), "{}", err(&refused));
    assert!(err(&refused).contains("%prep"), "{}", err(&refused));
}

/// Settings, and the older orders that they list, are sources; their values are not repeated in the spec file.
fn settings_are_sources_and_count() {
    let package = RpmPackage::new();
    let folder = package.0.path("profs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(package.0.path("prog.gv"), folder.join("prog.prof")).unwrap();
    let settings = "sediment = 1\nengine = 1\nkeep = prog.order\nmin-coverage = 95\n";
    std::fs::write(folder.join("sediment.conf"), settings).unwrap();
    let change = || {
        let arguments = ["package", "rpm", "prog.spec", "--profile", "profs", "--apply"];
        sediment(package.0.0.path(), &arguments)
    };
    let refused = change();
    assert!(err(&refused).contains("sediment: profs/prog.order: "), "{}", err(&refused));
    let order = ["order", "prog.gv", "--linker", "list", "--algorithm", "random", "-o", "profs/prog.order"];
    done(&sediment(package.0.0.path(), &order));
    let diff = done(&change());
    let sources = "+Source1:        prog.prof\n+Source2:        sediment.conf\n+Source3:        prog.order\n";
    assert!(diff.contains(sources) && diff.contains("%sediment_check}\n"), "{diff}");
    let said = package.built_as_source();
    assert!(said.contains("/usr/bin/prog: 100.00 % "), "{said}");
    // Most of the profile is no longer in the program, which is below the threshold in the settings.
    let text = std::fs::read_to_string(package.0.path("prog.prof")).unwrap();
    let stale = text.replace("\"a", "\"old_a").replace("\"b", "\"old_b");
    std::fs::write(package.0.path("prog.prof"), stale).unwrap();
    let output = package.build(&[]);
    assert!(!output.status.success(), "{}", err(&output));
    assert!(has_line(&output, "sediment: prog: ", " 95.00 %"), "{}", err(&output));
}

/// Several files, an archive and a folder of the unpacked sources are in the source package; a folder used as a source
/// is not.
fn profiles_of_every_kind_are_rebuilt_elsewhere() {
    let package = RpmPackage::new();
    let folder = package.0.path("profs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(package.0.path("prog.gv"), folder.join("prog.prof")).unwrap();
    std::fs::write(folder.join("map"), "*/other prog.prof\n").unwrap();
    std::fs::write(folder.join("README"), "of no use\n").unwrap();
    let shown = sediment(
        package.0.0.path(),
        &["package", "rpm", "prog.spec", "--profile", "profs", "--min-coverage", "95", "--apply"],
    );
    let diff = done(&shown);
    assert!(diff.contains("+Source1:        map\n+Source2:        prog.prof\n"), "{diff}");
    let spec = std::fs::read_to_string(package.0.path("prog.spec")).unwrap();
    let make = "mkdir profs/deep && cp profs/prog.prof profs/deep && tar -czf profs.tar.gz profs/deep && \
        mv profs/deep prog-1.0/own && tar -czf prog-1.0.tar.gz prog-1.0";
    let made = Command::new("sh").current_dir(package.0.0.path()).args(["-c", make]).status().unwrap();
    assert!(made.success());
    let archived = spec.replace("map", "profs.tar.gz").replace("Source2:        prog.prof\n", "");
    let prepared = |what: &str| spec.replace("%sediment_prep %{SOURCE1} %{SOURCE2}", what);
    // If it is called twice, all of them count.
    let twice = prepared("%sediment_prep %{SOURCE2}") + "\n";
    let twice = twice.replace("%build\n", "%{?with_sediment:%sediment_prep %{SOURCE1}}\n\n%build\n");
    let alone = archived.replace("Source1:        profs.tar.gz\n", "");
    for (what, spec) in [
        ("files", spec.clone()),
        ("an archive", archived.replace(" %{SOURCE2}", "")),
        ("a folder of the sources", alone.replace("%{SOURCE1} %{SOURCE2}", "own")),
        ("two calls", twice),
    ] {
        package.spec(&spec);
        let said = package.built_as_source();
        assert!(said.contains("/usr/bin/prog: 100.00 % "), "{what}: {said}");
    }
    // Two files with the same name in an archive: none is lost without a message.
    let make = "mkdir profs/a profs/b && cp profs/prog.prof profs/a && cp profs/prog.prof profs/b && tar -czf profs.tar.gz profs/a profs/b";
    assert!(
        Command::new("sh").current_dir(package.0.0.path()).args(["-c", make]).status().unwrap().success()
    );
    package.spec(&archived.replace(" %{SOURCE2}", ""));
    let output = package.build(&[]);
    assert!(!output.status.success(), "{}", err(&output));
    assert!(has_line(&output, "sediment_prep: ", ": prog.prof"), "{}", err(&output));
    package.spec(&archived.replace("profs.tar.gz", "profs").replace(" %{SOURCE2}", ""));
    let output = package.build(&[]);
    assert!(!output.status.success(), "{}", err(&output));
    assert!(has_line(&output, "sediment_prep: ", "/profs is a folder"), "{}", err(&output));
}

/// If the spec file is in SPECS, as in rpmbuild's layout, a profile goes to SOURCES.
fn sources_are_found_as_rpmbuild_finds_them() {
    let package = RpmPackage::new();
    let below = |folder: &str| package.0.path(folder);
    for folder in ["SPECS", "SOURCES"] {
        std::fs::create_dir(below(folder)).unwrap();
    }
    std::fs::rename(below("prog.spec"), below("SPECS/prog.spec")).unwrap();
    std::fs::rename(below("prog-1.0.tar.gz"), below("SOURCES/prog-1.0.tar.gz")).unwrap();
    let arguments = ["package", "rpm", "prog.spec", "--profile", "../prog.gv", "--apply"];
    done(&sediment(&below("SPECS"), &arguments));
    let top = below("").display().to_string();
    let of_user = [format!("_topdir {top}"), format!("_sourcedir {top}/SOURCES")];
    let mut build = package.rpm("rpmbuild", &["--define", &of_user[0], "--define", &of_user[1]]);
    let output = build.args(["-bb", "--nodeps", "SPECS/prog.spec"]).output().unwrap();
    assert!(said_when_done(&output).contains("/usr/bin/prog: 100.00 % "));
}

/// GCC calls the wrapper for any selected linker, and the wrapper calls that linker.
fn the_linker_that_was_chosen() {
    let build = BuildFolder::new();
    std::fs::create_dir(build.path("gcc")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sediment"), build.path("gcc/real-ld")).unwrap();
    for (option, dialect) in
        [("-fuse-ld=gold", "gold"), ("-fuse-ld=bfd", "gnu-ld-script"), ("-O2", "gnu-ld-script")]
    {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(build.0.path()).args(["-O2", "-w", "-o", "prog", option]);
        gcc.env("PROF_DIR", build.path("profiles")).env("SEDIMENT_LOG", build.path("log"));
        let output = build.link(gcc.env("COMPILER_PATH", build.path("gcc")));
        assert!(output.status.success(), "{}", err(&output));
        let last = build.last();
        assert_eq!(
            (last["outcome"].as_str(), last["linker"].as_str()),
            (Some("ordered"), Some(dialect)),
            "{last}"
        );
        build.runs("prog");
    }
}

/// The linker with `--section-ordering-file`, for every compiler below.
fn newer_linker() -> String {
    support::linker_folder("gnu-ld-2.44").unwrap().canonicalize().unwrap().display().to_string()
}

const VERIFIED: &str = "%check\nsediment verify prog --order %{__global_link_order} --profile %{call_graph} --min-coverage 95\n\n";

/// The change to a spec file from upstream sediment's documentation, in its spelling.
fn the_originals_spec_as_written() {
    let package = RpmPackage::new();
    let head = "%bcond opt 1
";
    let options = "%if %{with opt}
# Settings to enable building with code layout optimization
BuildRequires: sediment
%global _distro_extra_cflags -ffunction-sections -fdata-sections
%global _distro_extra_cxxflags -ffunction-sections -fdata-sections
%global _distro_extra_fflags -ffunction-sections -fdata-sections

%global __global_link_order %{_builddir}/%{name}-%{version}-%{release}.order
%global _distro_extra_ldflags -Wl,\\\"--section-ordering-file,%{__global_link_order}\\\"
%endif
# Call graph information
SOURCE12: prog.gv
%global call_graph %{SOURCE12}
";
    let prep = "%if %{with opt}
#Generate the code layout file before configuration done
gv2link < %{call_graph} > %{__global_link_order}
%endif
";
    let check = format!("%if %{{with opt}}\n{VERIFIED}%endif\n");
    let spec = SPEC
        .replace("Release:        1%{?dist}", "Release: 1%{?dist}%{?with_opt:_opt}")
        .replace("BuildRequires:  gcc\n", &format!("BuildRequires:  gcc\n{options}"))
        .replace("%setup -q\n", &format!("%setup -q\n{prep}"))
        .replace("%files\n", &format!("{check}%files\n"));
    package.spec(&(head.to_owned() + &spec));
    let distribution = fedoras_flags();
    let fedora =
        ["--load", &distribution, "--define", "_lto_cflags %{nil}", "--define", "debug_package %{nil}"];
    let run = |more: &[&str]| package.built_with_newer_linker(&[&fedora[..], more].concat());
    let said = run(&[]);
    assert!(
        said.contains("\nprog: ") && said.contains("_opt.x86_64.rpm") | said.contains("_opt.aarch64.rpm"),
        "{said}"
    );
    assert!(said.contains("--section-ordering-file,"), "{said}");
    let said = run(&["--without", "opt"]);
    assert!(!said.contains("_opt") && !said.contains("section-ordering-file"), "{said}");
}

fn the_originals_rpmmacros() {
    let package = RpmPackage::new();
    let printed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sediment"));
        command.arg("make_sediment_rpmmacros").env("CC", format!("gcc -B{}", newer_linker()));
        done(&command.env("HOME", package.0.0.path()).output().unwrap())
    };
    let macros = printed();
    let run = |arguments: &[&str]| package.built_with_newer_linker(arguments);
    run(&[]);
    let stock = package.digest();
    std::fs::write(package.0.path(".rpmmacros"), &macros).unwrap();
    assert_eq!(printed(), macros, "made again where they are in force");
    // Without a call graph nothing changes.
    run(&["--define", "pgo 1"]);
    let untouched = package.digest();
    assert_eq!(untouched.0, stock.0);
    let graph = "SOURCE18: prog.gv\n%global call_graph %{SOURCE18}\n\n%description\n";
    package.spec(&SPEC.replace("%description\n", graph));
    run(&[]);
    assert_eq!(package.digest(), stock, "without pgo");
    let checked = format!("{VERIFIED}%files\n");
    package.spec(&SPEC.replace("%description\n", graph).replace("%files\n", &checked));
    let said = run(&["--define", "pgo 1"]);
    assert!(said.contains("\nprog: ") && said.contains("prog-1.0-1_pgo"), "{said}");
}
