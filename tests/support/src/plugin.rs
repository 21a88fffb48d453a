// SPDX-License-Identifier: MIT OR Apache-2.0
//! GCC's plugin, which takes longer to compile than most tests to run: built once for all test programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the plugin's folder with its objects and `sediment.so`, for this compiler. It lies beside the test programs and stays;
/// `make` compiles what has changed since.
pub fn built(compiler: &str) -> PathBuf {
    let version = Command::new(compiler).arg("-dumpfullversion").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let programs = std::env::current_exe().unwrap();
    let folder =
        programs.ancestors().nth(2).unwrap().join(format!("gcc-plugin-{compiler}-{}", version.trim()));
    std::fs::create_dir_all(&folder).unwrap();
    // By content: another checkout may have built here, from newer files.
    let steps = r#"
        for file in "$1"/*.cc "$1"/*.h "$1/Makefile" "$1/compiler" "$1/README.md"; do
            cmp -s "$file" "${file##*/}" || cp "$file" . || exit
        done
        make -s CC="$2" CXX=g++ CXXFLAGS="-O1 -Werror""#;
    let made = Command::new("flock")
        .args(["lock", "sh", "-c", steps, "sh"])
        .arg(crate::root().join("gcc-plugin"))
        .arg(compiler)
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

/// Puts what stands in front of GCC's own compilers, and loads the plugin, into a folder.
pub fn put_before_compilers(compiler: &str, folder: &Path) {
    let plugin = built(compiler);
    let made = Command::new("make")
        .args(["-s", "compilers", &format!("CC={compiler}"), "-C"])
        .arg(&plugin)
        .arg(format!("PLUGIN={}", plugin.join("sediment.so").display()))
        .arg(format!("COMPILERS={}", folder.display()))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
