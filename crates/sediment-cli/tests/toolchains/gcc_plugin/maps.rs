// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps of blocks: their effect on objects, their way to debug files, and the parts that linkers keep.

use crate::compilers::Compiler;
use crate::gcc_plugin::blocks::{MARKS, THROWN, blocks_of, edited, recorded, sources};
use crate::gcc_plugin::read;
use crate::running::{err, sediment};
use sediment_core::binary::{Binary, NoFiles, gcc_block_map};
use std::process::Command;
use tempfile::TempDir;

const MAP: &str = ".debug.sediment_blocks";
const REMOVE_MAP: [&str; 2] = ["--remove-section", MAP];

/// Only the section of the map is added, with any kind of debug information.
pub fn numbers_change_nothing_else(gcc: &'static Compiler) {
    let folder = sources(gcc);
    for source in ["work.c", "thrown.cc"] {
        for debug in ["-g", "-g3", "-g0", "-gsplit-dwarf", "-fno-function-sections"] {
            let without = edited(gcc, &folder, source, &[debug], &REMOVE_MAP);
            let with = edited(gcc, &folder, source, &[debug, &gcc.plugin(), MARKS], &REMOVE_MAP);
            assert!(with == without, "{source} {debug}");
        }
        assert!(!folder.path().join("object.c.gv").exists());
    }
}

/// Debian's and Fedora's tools for a package `split` with the program `tree/split`; each writes the debug file next to
/// it.
const DH_STRIP: &str = r#"mkdir -p debian/split/usr/bin && mv tree/split debian/split/usr/bin/
printf 'Source: split\nMaintainer: A <a@example.org>\nBuild-Depends: debhelper-compat (= 13)\n\nPackage: split\nArchitecture: any\nDescription: split\n' >debian/control
printf 'split (1) unstable; urgency=low\n\n  * New.\n\n -- A <a@example.org>  Thu, 01 Jan 2026 00:00:00 +0000\n' >debian/changelog
dh_strip && mv debian/split/usr/bin/split $(find debian -name '*.debug') tree/"#;
const FIND_DEBUGINFO: &str = r#"mkdir -p buildroot/usr/bin && mv tree/split buildroot/usr/bin/
export RPM_PACKAGE_NAME=split RPM_PACKAGE_VERSION=1 RPM_PACKAGE_RELEASE=1 RPM_ARCH=x86_64 RPM_BUILD_ROOT=$PWD/buildroot RPM_BUILD_DIR=$PWD
find-debuginfo -n $FLAGS "$PWD" >said 2>&1 || { cat said; exit 1; }
mv buildroot/usr/bin/split $(find buildroot -name '*.debug' -type f) tree/"#;
/// Commands after `objcopy --only-keep-debug`.
const LINK: &str = "strip tree/split && objcopy --add-gnu-debuglink=tree/split.debug tree/split";
/// Ways of splitting symbols off, with options.
const SPLITTERS: &[(&str, &str, &str)] = &[
    ("objcopy", "objcopy --only-keep-debug $FLAGS tree/split tree/split.debug", ""),
    ("objcopy", "objcopy --only-keep-debug $FLAGS tree/split tree/split.debug", "--compress-debug-sections"),
    (
        "objcopy",
        "objcopy --only-keep-debug $FLAGS tree/split tree/split.debug",
        "--compress-debug-sections=zlib-gnu",
    ),
    ("objcopy", "dwz tree/split && objcopy --only-keep-debug tree/split tree/split.debug", ""),
    ("eu-strip", "eu-strip -f tree/split.debug tree/split", ""),
    ("dh_strip", DH_STRIP, ""),
    ("find-debuginfo", FIND_DEBUGINFO, "--run-dwz -m"),
    // eu-strip -g removes only known sections.
    ("find-debuginfo", FIND_DEBUGINFO, "-g --remove-section .debug.sediment_blocks"),
];

/// Symbols are split off as in packages: the map is in the debug file, and no longer in the program.
pub fn numbers_reach_the_debug_file(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let whole = blocks_of(&read(&folder, "p.gv"), "work");
    for (name, commands, flags) in SPLITTERS {
        let place = TempDir::new().unwrap();
        std::fs::create_dir(place.path().join("tree")).unwrap();
        std::fs::copy(folder.path().join("train"), place.path().join("tree/split")).unwrap();
        let link = if *name == "objcopy" { LINK } else { "" };
        let check =
            format!("! readelf -SW tree/split | grep -F {MAP}\nreadelf -SW tree/*.debug | grep -qF {MAP}");
        let script = format!("set -e\n{commands}\n{link}\n{check}");
        let mut shell = Command::new("sh");
        let shell =
            shell.current_dir(place.path()).env("FLAGS", flags).args(["-c", &script]).output().unwrap();
        assert!(shell.status.success(), "{name} {flags}: {}", err(&shell));
        let text =
            read(&folder, "recorded").replace("./train", "./tree/split").replace("/train", "/tree/split");
        std::fs::write(place.path().join("by-split"), text).unwrap();
        let import = ["import", "--blocks", "by-split", "--binary", "tree/split", "-o", "split.gv"];
        let imported = sediment(place.path(), &import);
        assert!(imported.status.success(), "{name} {flags}: {}", err(&imported));
        assert_eq!(blocks_of(&read(&place, "split.gv"), "work"), whole, "{name} {flags}");
    }
}

/// Maps do not contain functions that linkers remove: copies of functions in groups, and unused functions.
pub fn maps_are_of_linked_functions(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let unused = format!(
        "{THROWN}extern \"C\" __attribute__((noinline)) int unused(int i) {{ return guarded(i) * i; }}\n"
    );
    std::fs::write(folder.path().join("one.cc"), &unused).unwrap();
    let two =
        unused.replace("guarded", "other").replace("unused", "unused2").replace("int main", "int main2");
    std::fs::write(folder.path().join("two.cc"), two).unwrap();
    let lld = format!("-B{}", support::linker_folder("lld").unwrap().display());
    let plugin = gcc.plugin();
    for (linker, flags) in [
        ("bfd", "-ffunction-sections"),
        ("gold", "-ffunction-sections"),
        ("lld", "-ffunction-sections"),
        ("bfd", "-flto"),
        ("bfd", "-fno-function-sections"),
    ] {
        let own =
            ["-O2", "-g", flags, "-Wl,--gc-sections", &format!("-fuse-ld={linker}"), &lld, &plugin, MARKS];
        let all = [&own[..], &["one.cc", "two.cc", "-o", "linked"]].concat();
        gcc.run(folder.path(), gcc.cxx, &all);
        let bytes = std::fs::read(folder.path().join("linked")).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        let map = gcc_block_map::read(&bytes).unwrap().unwrap();
        assert!(map.len() > 1, "{map:?}");
        for function in &map {
            let begin = function.code[0].address;
            let found = binary.functions.iter().find(|known| known.address == begin);
            let known =
                found.unwrap_or_else(|| panic!("{linker} {flags}: no function at {begin:#x}: {function:?}"));
            let own = function.code.iter().filter(|code| (begin..begin + known.size).contains(&code.address));
            assert_eq!(
                own.map(|code| code.size).sum::<u64>(),
                known.size,
                "{linker} {flags}: {}",
                known.name
            );
        }
    }
}

/// Any byte changed, and the map truncated anywhere.
pub fn damaged_maps_are_errors(gcc: &'static Compiler) {
    let folder = sources(gcc);
    gcc.run(folder.path(), gcc.c, &["-O2", "-g", &gcc.plugin(), MARKS, "-c", "work.c", "-o", "work.o"]);
    gcc.run(folder.path(), gcc.c, &["work.o", "-o", "program"]);
    let at = |arguments: &[&str]| {
        let objcopy = Command::new("objcopy").current_dir(folder.path()).args(arguments).status();
        assert!(objcopy.unwrap().success(), "{arguments:?}");
    };
    at(&["--dump-section", &format!("{MAP}=map"), "program"]);
    let map = std::fs::read(folder.path().join("map")).unwrap();
    let with = |map: &[u8]| {
        std::fs::write(folder.path().join("map"), map).unwrap();
        at(&["--update-section", &format!("{MAP}=map"), "program", "changed"]);
        gcc_block_map::read(&std::fs::read(folder.path().join("changed")).unwrap())
    };
    let whole = with(&map).unwrap().unwrap();
    assert!(whole.len() >= 4 && whole.iter().any(|function| function.code.len() > 9), "{whole:?}");
    assert!(with(&map[..map.len() - 1]).is_err());
    assert!(with(&[&map[..], &[3]].concat()).unwrap_err().to_string().contains("version 3"));
    let last = map.len() - 1;
    for place in [1, 5, 6, last / 3, last / 2, last] {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut changed = map.clone();
            changed[place] = value;
            if let Ok(Some(functions)) = with(&changed) {
                assert!(functions.len() <= map.len());
            }
        }
    }
}
