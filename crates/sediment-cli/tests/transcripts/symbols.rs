// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the program finds the symbols of recorded files, and its messages if it finds none, or symbols of another build.

use crate::running::{command, err};
use std::path::Path;
use std::process::Output;
use support::elf_writer::{CODE_OFFSET, Elf, Function};
use support::perf_data_writer::{Branch, CALL, PerfData};

const BASE: u64 = 0x5555_5555_0000;
const BUILD_ID: [u8; 20] = [0xab; 20];

/// Runs the program with an empty home, so that this machine's caches have no effect.
fn sediment(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments)
        .env("HOME", folder.join("home"))
        .env_remove("XDG_CACHE_HOME")
        .env_remove("DEBUGINFOD_CACHE_PATH")
        .output()
        .unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Nine calls from `caller` (exported) to `callee` (found only with symbols), in a program with this build-id.
fn recording() -> Vec<u8> {
    let at = |offset: u64| BASE + CODE_OFFSET + offset;
    let mut file = PerfData::new();
    file.mmap2(1, (BASE, 0x4000, 0), "/opt/tool", &BUILD_ID, 1);
    let call = Branch::new(at(4), at(32), CALL);
    file.sample(1, 2, at(32), &[call; 9]);
    file.finish()
}

fn stripped() -> Elf {
    let exported = vec![Function::global("caller", 0, 16)];
    Elf { symbols: None, exported, build_id: BUILD_ID.to_vec(), ..Elf::default() }
}

fn debug_file(build_id: &[u8]) -> Vec<u8> {
    let symbols = Some(vec![Function::global("caller", 0, 16), Function::local("callee", 32, 16, "a.c")]);
    Elf { symbols, without_code: true, build_id: build_id.to_vec(), ..Elf::default() }.bytes()
}

/// The checksum in `.gnu_debuglink`.
fn checksum(bytes: &[u8]) -> u32 {
    sediment_core::binary::debug_link_checksum(bytes)
}

/// A folder with the recording, and below `machine` the files of the recorded machine.
fn machine(program: &Elf, os: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("perf.data"), &recording());
    write(&folder.path().join("machine/opt/tool"), &program.bytes());
    write(&folder.path().join("machine/etc/os-release"), os.as_bytes());
    folder
}

const IMPORT: [&str; 7] = ["-v", "import", "perf.data", "--symfs", "machine", "-o", "p.gv"];

/// By its base name or its build-id; otherwise it is not used, which is reported.
#[test]
fn a_binary_is_taken_for_what_was_recorded() {
    let folder = machine(&stripped(), "");
    let symbols = Some(vec![Function::global("caller", 0, 16), Function::local("callee", 32, 16, "a.c")]);
    let whole = Elf { symbols, build_id: BUILD_ID.to_vec(), ..Elf::default() };
    let other = Elf { build_id: vec![0xcd; 20], ..whole.clone() };
    for (name, elf, used) in
        [("tool", &whole, true), ("tool.unstripped", &whole, true), ("hammer", &other, false)]
    {
        write(&folder.path().join(name), &elf.bytes());
        let output = sediment(folder.path(), &[&IMPORT[..], &["--binary", name]].concat());
        let said = err(&output);
        assert_eq!(said.contains(&format!("warning: {name} ")), !used, "{name}: {said}");
        let profile = std::fs::read_to_string(folder.path().join("p.gv")).unwrap();
        assert_eq!(profile.contains("\"caller\" -> \"callee\""), used, "{name}: {profile}");
    }
}

#[test]
fn debug_files_are_found_wherever_systems_keep_them() {
    let by_build_id = debug_file(&BUILD_ID);
    let id = "ab".repeat(20);
    let rest = "ab".repeat(19);
    let linked = Elf { debug_link: Some(("tool.debug".to_owned(), checksum(&by_build_id))), ..stripped() };
    let cases = [
        (stripped(), format!("machine/usr/lib/debug/.build-id/ab/{rest}.debug")),
        (stripped(), format!("home/.cache/debuginfod_client/{id}/debuginfo")),
        (stripped(), format!("home/.debug/.build-id/ab/{rest}/debug")),
        (linked.clone(), "machine/opt/tool.debug".to_owned()),
        (linked.clone(), "machine/opt/.debug/tool.debug".to_owned()),
        (linked.clone(), "machine/usr/lib/debug/opt/tool.debug".to_owned()),
        (linked.clone(), "machine/usr/lib/debug/usr/opt/tool.debug".to_owned()),
    ];
    for (program, place) in cases {
        let folder = machine(&program, "ID=debian\n");
        let folder = folder.path();
        write(&folder.join(&place), &by_build_id);
        let done = sediment(folder, &IMPORT);
        assert!(done.status.success(), "{place}: {}", err(&done));
        let profile = std::fs::read_to_string(folder.join("p.gv")).unwrap();
        assert!(
            profile.contains("\"caller\" -> \"callee\" [label=1.000000, count=9, near=9]"),
            "{place}: {profile}"
        );
        assert!(!err(&done).contains("warning: "), "{place}: {}", err(&done));
    }
    // A file with another checksum or build-id does not match.
    for (program, place) in [
        (linked, "machine/opt/tool.debug".to_owned()),
        (stripped(), format!("machine/usr/lib/debug/.build-id/ab/{rest}.debug")),
    ] {
        let folder = machine(&program, "ID=debian\n");
        write(&folder.path().join(&place), &debug_file(&[0xcd; 20]));
        let done = sediment(folder.path(), &IMPORT);
        assert!(done.status.success(), "{place}: {}", err(&done));
        assert!(err(&done).contains("warning: /opt/tool ") && err(&done).contains(" 100.0 % "), "{done:?}");
    }
}

#[test]
fn a_stripped_program_is_named_with_what_to_install() {
    let cases = [
        ("ID=debian\n", "dpkg -S /opt/tool"),
        ("ID=fedora\n", "dnf debuginfo-install \"$(rpm -qf /opt/tool)\""),
        ("ID=opensuse-leap\n", "zypper --plus-content debug install"),
        ("ID=arch\n", "DEBUGINFOD_URLS=https://debuginfod.archlinux.org debuginfod-find debuginfo abababab"),
    ];
    for (os, command) in cases {
        let folder = machine(&stripped(), os);
        let done = sediment(folder.path(), &IMPORT);
        assert!(done.status.success(), "{}", err(&done));
        assert!(err(&done).contains(command), "{os}: {}", err(&done));
    }
    // If nothing can be named, it fails, with the same message.
    let nothing = Elf { exported: Vec::new(), ..stripped() };
    let folder = machine(&nothing, "ID=fedora\n");
    let done = sediment(folder.path(), &IMPORT);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert!(err(&done).contains("dnf debuginfo-install"), "{}", err(&done));
    assert!(!folder.path().join("p.gv").exists());
}

#[test]
fn a_program_of_another_build_is_refused_with_both_build_ids() {
    let other = Elf { build_id: vec![0xcd; 20], ..stripped() };
    let folder = machine(&other, "ID=debian\n");
    let folder = folder.path();
    let refused = sediment(folder, &IMPORT);
    assert_eq!(refused.status.code(), Some(1));
    for id in ["cd", "ab"] {
        assert!(err(&refused).contains(&id.repeat(20)), "{}", err(&refused));
    }
    assert!(!folder.join("p.gv").exists());
    let forced = sediment(folder, &[&IMPORT[..], &["--ignore-build-id"]].concat());
    assert!(forced.status.success(), "{}", err(&forced));

    // A copy by perf or debuginfod has the right build, and is used instead.
    let right = Elf {
        symbols: Some(vec![Function::global("caller", 0, 16), Function::global("callee", 32, 16)]),
        ..stripped()
    };
    for place in [
        format!("home/.debug/.build-id/ab/{}/elf", "ab".repeat(19)),
        format!("home/.cache/debuginfod_client/{}/executable", "ab".repeat(20)),
    ] {
        write(&folder.join(&place), &right.bytes());
        let done = sediment(folder, &IMPORT);
        assert!(done.status.success(), "{place}: {}", err(&done));
        assert!(std::fs::read_to_string(folder.join("p.gv")).unwrap().contains("\"callee\""));
        std::fs::remove_file(folder.join(place)).unwrap();
    }
}

#[test]
fn much_code_that_was_compiled_while_running_is_told() {
    let program = Elf {
        symbols: Some(vec![Function::global("caller", 0, 16), Function::global("callee", 32, 16)]),
        ..stripped()
    };
    let folder = machine(&program, "ID=debian\n");
    let (runtime, compiled) = (BASE + CODE_OFFSET, 0x7f00_0000_0000);
    let with = |calls_there: usize| {
        let mut file = PerfData::new();
        file.mmap2(1, (BASE, 0x4000, 0), "/opt/tool", &BUILD_ID, 1);
        file.mmap2(1, (compiled, 0x1000, 0), "//anon", &[], 1);
        let mut calls = vec![Branch::new(runtime + 4, runtime + 32, CALL); 6];
        calls.extend(vec![Branch::new(runtime + 4, compiled + 16, CALL); calls_there]);
        file.sample(1, 2, runtime + 32, &calls);
        write(&folder.path().join("perf.data"), &file.finish());
        let done = sediment(folder.path(), &IMPORT);
        assert!(done.status.success(), "{}", err(&done));
        err(&done)
    };
    assert!(with(4).contains("sediment: warning: 40 % of the calls "));
    assert!(!with(1).contains("warning: "));
}
