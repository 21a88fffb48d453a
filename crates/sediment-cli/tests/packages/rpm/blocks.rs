// SPDX-License-Identifier: MIT OR Apache-2.0
//! RPM packages whose functions are compiled with block counts or counters.

use crate::rpm::{RpmPackage, said_when_done};
use crate::running::{done, sediment};
use std::process::Command;

/// A path that no run takes, and that GCC does not assume to be cold.
const WORK: &str = include_str!("../../projects/unlikely.c");

/// Definition of a macro with the folder of the scripts that load the plugin.
fn compilers(package: &RpmPackage) -> String {
    let folder = package.0.path("compilers");
    support::plugin::put_before_compilers("gcc", &folder);
    format!("_sediment_compilers {}", folder.display())
}

const DEBUG: &str = "optflags -O2 -g";

/// The package without a profile: its folder, the macro for the plugin's compilers, and its digest.
fn stock() -> (RpmPackage, String, (String, String)) {
    let package = RpmPackage::new();
    std::fs::write(package.0.path("prog-1.0/main.c"), WORK).unwrap();
    package.tar();
    let compilers = compilers(&package);
    package.built(&["--define", DEBUG]);
    let without = package.digest();
    (package, compilers, without)
}

/// From an instrumented build, made by hand, to one compiled with its counters.
pub fn units_are_compiled_by_counters() {
    let (package, compilers, without) = stock();
    let trained = package.0.path("trained");
    std::fs::create_dir(&trained).unwrap();
    std::fs::write(trained.join("main.c"), WORK).unwrap();
    let train = "gcc -O2 -fprofile-generate -ftest-coverage main.c -o prog && ./prog >output";
    assert!(Command::new("sh").args(["-c", train]).current_dir(&trained).status().unwrap().success());
    done(&sediment(&trained, &["-q", "import", ".", "-o", "counters.gv"]));
    let profile = package.0.path("prog.gv").display().to_string();
    done(&sediment(&trained, &["merge", &profile, "counters.gv", "-o", "both.gv"]));
    std::fs::copy(trained.join("both.gv"), &profile).unwrap();
    done(&package.change(&["--apply"]));
    let said = package.built(&["--noclean", "--define", DEBUG, "--define", &compilers]);
    assert!(said.contains("counters: 100.00 % ") && !said.contains("-fplugin"), "{said}");
    let first = package.digest();
    assert!(first != without, "counters change nothing");
    package.built(&["--noclean", "--define", DEBUG, "--define", &compilers]);
    assert_eq!(package.digest(), first, "a rebuild differs");
    package.built(&["--noclean", "--define", DEBUG, "--define", &compilers, "--without", "sediment"]);
    assert_eq!(package.digest(), without, "without it is not the stock build");
}

/// Builds the package in another folder: the program has the same code and data. Its debug information contains the
/// folder, so its build-id differs.
fn code_is_the_same_elsewhere(package: &RpmPackage, compilers: &str) {
    let elsewhere = package.0.path("elsewhere");
    let defined = format!("_topdir {}", elsewhere.display());
    let define = ["--noclean", "--define", DEBUG, "--define", compilers, "--define", &defined];
    let mut build = package.rpm("rpmbuild", &define);
    said_when_done(&build.args(["-bb", "--nodeps", "prog.spec"]).output().unwrap());
    let code = |top: &std::path::Path| {
        let bare = package.0.path("bare");
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--strip-debug", "-R", ".note.gnu.build-id"]);
        assert!(objcopy.arg(top.join("BUILD/prog-1.0/prog")).arg(&bare).status().unwrap().success());
        std::fs::read(bare).unwrap()
    };
    let here = code(&package.0.path("top"));
    assert!(here == code(&elsewhere));
}

/// From a build with numbered blocks to one compiled with the counts of a recording.
pub fn functions_are_compiled_by_counts() {
    let (package, compilers, without) = stock();
    let mut numbered = package.rpm("rpmbuild", &["--define", DEBUG]);
    numbered.env("SEDIMENT_NUMBER_BLOCKS", "1").env("COMPILER_PATH", package.0.path("compilers"));
    said_when_done(&numbered.args(["-bb", "--nodeps", "--noclean", "prog.spec"]).output().unwrap());
    let built = package.0.path("top/BUILD/prog-1.0");
    let recorded = Command::new("valgrind")
        .current_dir(&built)
        .args(["--tool=callgrind", "--dump-instr=yes", "--callgrind-out-file=recorded", "./prog"])
        .output();
    assert!(recorded.unwrap().status.code().is_some());
    let profile = package.0.path("prog.gv").display().to_string();
    done(&sediment(&built, &["import", "--blocks", "recorded", "--binary", "prog", "-o", &profile]));
    done(&package.change(&["--apply"]));
    let spec = std::fs::read_to_string(package.0.path("prog.spec")).unwrap();
    package.spec(&spec.replace("\n%build\n", "\n%build\necho \"for ccache: $CCACHE_EXTRAFILES\"\n"));
    let symbols = || {
        let symbols = Command::new("nm").arg(package.0.path("top/BUILD/prog-1.0/prog")).output().unwrap();
        String::from_utf8(symbols.stdout).unwrap()
    };
    let said = package.built(&["--noclean", "--define", DEBUG, "--define", &compilers]);
    assert!(symbols().contains(" work.cold\n") && !said.contains("-fplugin"), "{said}");
    assert!(said.contains("\nfor ccache: /") && said.contains("-sediment-order/blocks:"), "{said}");
    assert!(said.contains(" 1 function split by their block counts, "), "{said}");
    let first = package.digest();
    code_is_the_same_elsewhere(&package, &compilers);
    package.built(&["--noclean", "--define", DEBUG, "--define", &compilers]);
    assert_eq!(package.digest(), first, "a rebuild differs");
    package.built(&["--noclean", "--define", DEBUG, "--define", &compilers, "--without", "sediment"]);
    assert_eq!(package.digest(), without, "without it is not the stock build");
    assert!(!symbols().contains(" work.cold\n"));
    // With link-time optimisation, as in Fedora, the compiler of the link gets the counts.
    package.built(&["--noclean", "--define", "optflags -O2 -g -flto=auto", "--define", &compilers]);
    assert!(symbols().contains(" work.cold\n"));
}
