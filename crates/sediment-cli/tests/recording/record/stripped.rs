// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stripped programs: recorded by addresses, resolved by every kind of debug file, collected from packages.

use super::{
    RecordingFolder, Running, assert_untouched, code, err, number_in, programs, repeated, repeats, seconds,
    text,
};
use crate::running::sediment;
use libtest_mimic::Trial;
use sediment_core::profile::Profile;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let tools = [Need::Program("cc"), Need::Program("objcopy"), Need::Program("strip")];
    vec![
        case("stripped_programs_are_named_by_every_debug_file", &tools, every_debug_file_names),
        case("files_of_other_builds_are_refused", &tools, files_of_other_builds_are_refused),
        case(
            "addresses_are_held_against_their_own_build",
            &tools,
            addresses_are_held_against_their_own_build,
        ),
        case("commands_say_what_they_do_with_addresses", &tools, commands_say_what_they_do_with_addresses),
        case(
            "a_debug_file_that_dwz_has_packed_names_as_well",
            &[Need::Program("cc"), Need::Program("objcopy"), Need::Program("strip"), Need::Program("dwz")],
            a_debug_file_that_dwz_has_packed_names_as_well,
        ),
        case(
            "stripped_packages_scripts_and_services_are_collected",
            &[Need::Program("cc"), Need::Program("strip"), Need::Program("dpkg-query")],
            stripped_packages_scripts_and_services_are_collected,
        ),
        repeated("addresses_of_two_builds_of_one_name_are_not_mixed", &tools, two_builds_of_one_name),
    ]
}

/// A program whose functions are all local except `main`, with its build-id, and a stripped copy in a separate folder.
fn built(shop: &RecordingFolder, flags: &[&str]) -> (PathBuf, PathBuf) {
    let source =
        programs::plain().replace("__attribute__((noinline)) long", "__attribute__((noinline)) static long");
    let whole = shop.compile("plain", &source, &[&["-g", "-Wl,--build-id"], flags].concat());
    let stripped = shop.path().join("stripped");
    std::fs::create_dir_all(&stripped).unwrap();
    let stripped = stripped.join("plain");
    tool(shop.path(), "strip", &["-o", text(&stripped), text(&whole)]);
    (whole, stripped)
}

fn tool(folder: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", err(&done));
}

fn read(path: &Path) -> Profile {
    sediment_core::profile::text::parse(&std::fs::read(path).unwrap()).unwrap().0
}

/// Calls between functions of `plain`, by name. On AArch64, some of the start files have a symbol without a size, or no
/// entry in the unwind table.
fn calls_of(profile: &Profile) -> BTreeMap<(String, String), u128> {
    let mut calls = BTreeMap::new();
    for (from, to, facts) in profile.edges() {
        let [from, to] = [from, to].map(|function| profile.key(function));
        if to.dso.as_deref() == Some("plain") && !super::RUNTIME.contains(&&*to.name) {
            *calls.entry((from.name.clone(), to.name.clone())).or_default() += facts.count.unwrap_or(0);
        }
    }
    calls
}

fn recorded(shop: &RecordingFolder, program: &Path, to: &str) -> Profile {
    let done = shop.record(&["--startup", "--only", "plain"], &[text(program)]).output().unwrap();
    assert_eq!(code(&done), 7, "{}", err(&done));
    let to = shop.path().join(to);
    std::fs::rename(shop.path().join("recorded.gv"), &to).unwrap();
    read(&to)
}

fn every_debug_file_names() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let (whole, stripped) = built(&shop, &[]);
    let expected = calls_of(&recorded(&shop, &whole, "whole.gv"));
    let nameless = recorded(&shop, &stripped, "nameless.gv");
    assert!(nameless.dsos()["plain"].unresolved);
    assert!(nameless.functions().iter().filter(|function| nameless.is_nameless(**function)).count() > 60);
    let build_id = nameless.dsos()["plain"].build_id.clone().unwrap();
    // A split debug file: by its path, in the tree of a debug package, and somewhere below a folder.
    let debug = folder.join("plain.debug");
    tool(folder, "objcopy", &["--only-keep-debug", text(&whole), text(&debug)]);
    let tree = folder.join("tree/usr/lib/debug/.build-id").join(&build_id[..2]);
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::copy(&debug, tree.join(format!("{}.debug", &build_id[2..]))).unwrap();
    std::fs::create_dir_all(folder.join("some/where")).unwrap();
    std::fs::copy(&whole, folder.join("some/where/it")).unwrap();
    for debug in [text(&whole), "plain.debug", "tree", "some"] {
        let done = sediment(folder, &["resolve", "nameless.gv", "--debug", debug, "-o", "named.gv"]);
        assert!(done.status.success(), "{debug}: {}", err(&done));
        let named = read(&folder.join("named.gv"));
        assert!(!named.dsos()["plain"].unresolved, "{debug}");
        assert_eq!(calls_of(&named), expected, "{debug}");
        assert!(err(&done).contains(" functions of plain\n"), "{}", err(&done));
    }
    // Only the flag contacts a server, and only servers in DEBUGINFOD_URLS.
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\n[ \"$1 $2\" = \"debuginfo {build_id}\" ] && echo {}\n", text(&debug));
    std::fs::write(bin.join("debuginfod-find"), script).unwrap();
    std::fs::set_permissions(bin.join("debuginfod-find"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", text(&bin), std::env::var("PATH").unwrap());
    let resolve = |arguments: &[&str], urls: &str| {
        let mut command = crate::running::command(folder, &["resolve", "nameless.gv", "-o", "fetched.gv"]);
        command.args(arguments).env("PATH", &path).env("DEBUGINFOD_URLS", urls).output().unwrap()
    };
    let unasked = resolve(&[], "http://127.0.0.1:1");
    assert_eq!(code(&unasked), 1, "{}", err(&unasked));
    assert!(!folder.join("fetched.gv").exists());
    assert_eq!(code(&resolve(&["--debug", "debuginfod"], "")), 2);
    let fetched = resolve(&["--debug", "debuginfod"], "http://127.0.0.1:1");
    assert!(fetched.status.success(), "{}", err(&fetched));
    assert_eq!(calls_of(&read(&folder.join("fetched.gv"))), expected);
    // In place; the older file is kept.
    let done = sediment(folder, &["resolve", "nameless.gv", "--debug", "plain"]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(calls_of(&read(&folder.join("nameless.gv"))), expected);
    assert!(read(&folder.join("nameless.gv.old")).dsos()["plain"].unresolved);
}

fn a_debug_file_that_dwz_has_packed_names_as_well() {
    let shop = RecordingFolder::new();
    let (whole, stripped) = built(&shop, &["-gdwarf-4"]);
    let expected = calls_of(&recorded(&shop, &whole, "whole.gv"));
    recorded(&shop, &stripped, "nameless.gv");
    let (one, two) = ("one.debug", "two.debug");
    tool(shop.path(), "objcopy", &["--only-keep-debug", text(&whole), one]);
    tool(shop.path(), "cp", &[one, two]);
    tool(shop.path(), "dwz", &["-m", "common.debug", one, two]);
    let done = sediment(shop.path(), &["resolve", "nameless.gv", "--debug", one, "-o", "named.gv"]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(calls_of(&read(&shop.path().join("named.gv"))), expected);
}

fn files_of_other_builds_are_refused() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let (whole, stripped) = built(&shop, &[]);
    recorded(&shop, &stripped, "nameless.gv");
    let other = shop.compile("other", &programs::forks(), &["-Wl,--build-id"]);
    let build_id = read(&folder.join("nameless.gv")).dsos()["plain"].build_id.clone().unwrap();
    let refused = |arguments: &[&str], datum: &str| {
        let done = sediment(folder, arguments);
        assert!(code(&done) == 1 && err(&done).contains(datum), "{arguments:?}: {}", err(&done));
    };
    refused(&["resolve", "nameless.gv", "--debug", text(&other), "-o", "no.gv"], &build_id);
    refused(&["resolve", "nameless.gv", "--debug", text(&stripped), "-o", "no.gv"], "-dbgsym");
    let file = std::fs::read_to_string(folder.join("nameless.gv")).unwrap();
    let begin = file.find("\"0x").unwrap();
    let end = begin + 1 + file[begin + 1..].find('"').unwrap();
    let beyond = file.replace(&file[begin..=end], "\"0x7fffffff0000\"");
    std::fs::write(folder.join("beyond.gv"), beyond).unwrap();
    refused(&["resolve", "beyond.gv", "--debug", text(&whole), "-o", "no.gv"], "0x7fffffff0000");
    std::fs::write(folder.join("another.gv"), file.replace(&build_id, "abcd")).unwrap();
    std::fs::copy(folder.join("nameless.gv"), folder.join("sum.gv")).unwrap();
    refused(&["merge", "--into", "sum.gv", "another.gv"], &format!("{build_id} and abcd"));
    assert!(!folder.join("no.gv").exists());
    // Recordings of both kinds from one build can be merged: names are added to addresses, and resolved later.
    recorded(&shop, &whole, "whole.gv");
    let done = sediment(folder, &["merge", "--into", "sum.gv", "whole.gv"]);
    assert!(done.status.success(), "{}", err(&done));
    let done = sediment(folder, &["resolve", "sum.gv", "--debug", text(&whole)]);
    assert!(done.status.success(), "{}", err(&done));
    let names = |profile: &Profile| calls_of(profile).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&read(&folder.join("sum.gv"))), names(&read(&folder.join("whole.gv"))));
}

/// `merge --into --against`: an address belongs to the build with the profile's build-id, or to none.
fn addresses_are_held_against_their_own_build() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let (whole, stripped) = built(&shop, &[]);
    recorded(&shop, &stripped, "nameless.gv");
    tool(folder, "objcopy", &["--only-keep-debug", text(&whole), "plain.debug"]);
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::rename(shop.compile("more", &programs::forks(), &["-Wl,--build-id"]), other.join("plain"))
        .unwrap();
    tool(&other, "objcopy", &["--only-keep-debug", "plain", "plain.debug"]);
    // There is no function after the file's last byte.
    let file = std::fs::read_to_string(folder.join("nameless.gv")).unwrap();
    let calls: Vec<&str> = file.lines().filter(|line| line.contains("count=")).collect();
    let begin = calls[0].rfind("\"0x").unwrap();
    let callee = calls[0][begin..].split_inclusive('"').take(2).collect::<String>();
    let beyond = file.replace(&callee, "\"0x7fffffff0000\"");
    std::fs::write(folder.join("beyond.gv"), beyond).unwrap();
    let defined = |profile: &str, against: &str| {
        let words =
            ["merge", "--into", "sum.gv", "--dry-run", "--min-coverage", "1", "--against", against, profile];
        let done = sediment(folder, &[&words[..], &["--json"]].concat());
        assert!(err(&done).contains("sediment resolve"), "{against}: {}", err(&done));
        if code(&done) != 0 {
            assert!(err(&done).contains("(--min-coverage)"), "{}", err(&done));
            return None;
        }
        let answer: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        answer["added"][0]["coverage"]["defined_percent"].as_f64()
    };
    for own in ["plain", "plain.debug"] {
        assert_eq!(defined("nameless.gv", own), Some(100.0), "{own}");
        let some = defined("beyond.gv", own).unwrap();
        assert!(some > 0.0 && some < 100.0, "{own}: {some}");
    }
    for other in ["other/plain", "other/plain.debug"] {
        assert_eq!(defined("nameless.gv", other), None, "{other}");
    }
}

fn commands_say_what_they_do_with_addresses() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let (whole, stripped) = built(&shop, &[]);
    recorded(&shop, &stripped, "nameless.gv");
    let said = |arguments: &[&str]| {
        let done = sediment(folder, arguments);
        assert!(err(&done).contains("sediment resolve"), "{arguments:?}: {}", err(&done));
        done
    };
    assert_eq!(code(&said(&["order", "nameless.gv", "--binary", text(&whole), "--linker", "list"])), 1);
    for arguments in [
        &["show", "nameless.gv"][..],
        &["diff", "nameless.gv", "nameless.gv"],
        &["split", "nameless.gv", "-o", "parts"],
    ] {
        assert_eq!(code(&said(arguments)), 0);
    }
    // The parts of a profile are resolved like the whole.
    let done = sediment(folder, &["resolve", "parts/plain.prof", "--debug", text(&whole)]);
    assert!(done.status.success(), "{}", err(&done));
}

fn stripped_packages_scripts_and_services_are_collected() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let at = |path: &str| folder.join("root").join(path);
    for path in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin"] {
        std::fs::create_dir_all(at(path)).unwrap();
    }
    // One folder, as on merged systems. dpkg has the file under its name in the package.
    std::os::unix::fs::symlink("usr/bin", at("bin")).unwrap();
    let (_, stripped) = built(&shop, &[]);
    std::fs::copy(&stripped, at("usr/bin/plain")).unwrap();
    std::fs::write(at("usr/bin/script"), "#!/usr/bin/plain\n").unwrap();
    let entry = |name: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nMaintainer: M <list@example.org>\nArchitecture: all\nVersion: 1.2-3\nDescription: a test\n\n"
        )
    };
    std::fs::write(at("var/lib/dpkg/status"), entry("plain-tools") + &entry("scripts")).unwrap();
    let list = |files: &str| std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), files).unwrap();
    list("/.\n/bin/plain\n/usr/bin/served\n");
    std::fs::write(at("var/lib/dpkg/info/scripts.list"), "/.\n/usr/bin/script\n").unwrap();
    let collect = |arguments: &[&str], program: &str, path: &str| {
        let mut command = crate::running::command(folder, &["collect", "--root", "root"]);
        command.args(arguments);
        if !program.is_empty() {
            command.args(["--method", "call-sites", "--", program]);
        }
        command.env("PATH", path).output().unwrap()
    };
    let system = std::env::var("PATH").unwrap();
    let done = collect(&["plain-tools"], text(&at("usr/bin/plain")), &system);
    assert_eq!(code(&done), 7, "{}", err(&done));
    let without = Command::new(at("usr/bin/plain")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&without.stdout));
    let profile = read(&folder.join("plain-tools.gv"));
    assert_eq!(profile.dsos().keys().collect::<Vec<_>>(), ["plain"]);
    assert!(profile.dsos()["plain"].unresolved);
    let told = err(&done);
    assert!(told.contains(" plain-tools-dbgsym "), "{told}");
    assert!(!told.contains("list@example.org"), "{told}");
    // The package of a script is its interpreter's, with either name of the interpreter's folder.
    for (listed, interpreter) in [("/bin", "/usr/bin"), ("/usr/bin", "/bin"), ("/bin", "/bin")] {
        list(&format!("/.\n{listed}/plain\n/usr/bin/served\n"));
        std::fs::write(at("usr/bin/script"), format!("#!{interpreter}/plain\n")).unwrap();
        let none = collect(&["scripts"], text(&at("usr/bin/script")), &system);
        assert!(code(&none) == 1 && err(&none).contains(" plain-tools, "), "{}", err(&none));
    }
    // Shims with the same name come earlier in PATH.
    let shims = folder.join("shims");
    std::fs::create_dir(&shims).unwrap();
    let executable = |path: &Path, text: &str| {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    executable(&shims.join("plain"), "#!/bin/sh\necho shim\n");
    let path = format!("{}:{}:{system}", text(&shims), text(&at("usr/bin")));
    let done = collect(&["plain-tools"], "plain", &path);
    assert_eq!(code(&done), 7, "{}", err(&done));
    // A missing service, and a running one.
    executable(
        &shims.join("systemctl"),
        "#!/bin/sh\necho MainPID=${SERVICE:-0}\necho ControlGroup=\necho ActiveState=inactive\n",
    );
    let gone = collect(&["plain-tools", "--service", "plain.service"], "", &path);
    assert!(code(&gone) == 1 && err(&gone).contains("\"inactive\""), "{}", err(&gone));
    a_running_service_is_collected(&shop, &path);
}

/// A service, simulated by an invented answer of its manager.
fn a_running_service_is_collected(shop: &RecordingFolder, path: &str) {
    let folder = shop.path();
    let installed = folder.join("root/usr/bin/served");
    let served = shop.compile("served", &programs::server(), &["-Wl,--build-id"]);
    tool(folder, "strip", &["-o", text(&installed), text(&served)]);
    let place = folder.join("served.pid");
    let server = Command::new(&installed).arg(&place).stdout(Stdio::piped()).spawn().unwrap();
    let server = Running(server);
    let process = number_in(&place);
    let time = seconds(1.0);
    let options = ["plain-tools", "--service", "plain.service", "--seconds", &time, "--method", "call-sites"];
    let mut command = crate::running::command(folder, &["collect", "--root", "root"]);
    command.args(options).args(["--overhead", "40%"]).env("PATH", path).env("SERVICE", process.to_string());
    let collected = command.output().unwrap();
    assert_eq!(code(&collected), 0, "{}", err(&collected));
    assert!(collected.stdout.is_empty());
    let profile = read(&folder.join("plain-tools.gv"));
    assert_eq!(profile.dsos().keys().collect::<Vec<_>>(), ["served"]);
    // On a busy machine not everything that runs is recorded in so short a time.
    assert!(profile.functions().len() > programs::FUNCTIONS / 6, "{}", profile.functions().len());
    assert_untouched(process);
    let ended = server.end("-TERM");
    assert_eq!((code(&ended), ended.stdout.as_slice()), (8, &b"served\n"[..]));
}

/// Two stripped programs with the same name in one recording: an address could belong to either, so only named
/// functions are kept, and a message reports it.
fn two_builds_of_one_name() {
    let shop = RecordingFolder::new();
    let folder = shop.path();
    let mut programs = Vec::new();
    for number in ["1", "2"] {
        let source = format!(
            "#include <stdio.h>\n__attribute__((noinline)) static int f(int x) {{ __asm__ volatile(\"\"); return x + {number}; }}\n\
             __attribute__((noinline)) int exported(int x) {{ __asm__ volatile(\"\"); return f(x); }}\n\
             int main(int count, char **words) {{ printf(\"%d\\n\", exported(count)); return 0; }}"
        );
        let whole = shop.compile("two", &source, &["-Wl,--build-id", "-Wl,--export-dynamic-symbol=exported"]);
        let place = folder.join(number);
        std::fs::create_dir(&place).unwrap();
        tool(folder, "strip", &["-o", text(&place.join("two")), text(&whole)]);
        programs.push(place.join("two"));
    }
    let script = format!("{}; {}; exit 5", text(&programs[0]), text(&programs[1]));
    for _ in 0..repeats() {
        let done = shop.record(&["--startup"], &["sh", "-c", &script]).output().unwrap();
        assert_eq!((code(&done), done.stdout.as_slice()), (5, &b"2\n3\n"[..]), "{}", err(&done));
        let profile = read(&folder.join("recorded.gv"));
        let functions = profile.functions().into_iter();
        let names: Vec<String> = functions
            .filter(|function| profile.key(*function).dso.as_deref() == Some("two"))
            .map(|function| profile.key(function).name.clone())
            .collect();
        assert_eq!(names, ["exported"]);
        let warned = ["/two is stripped: ", " the name two "].map(|words| err(&done).matches(words).count());
        assert_eq!(warned, [2, 1], "{}", err(&done));
        // If only one of them is recorded, its functions are known by their addresses.
        recorded_as_one(&shop, &programs[0]);
    }
}

fn recorded_as_one(shop: &RecordingFolder, program: &Path) {
    let done = shop.record(&["--startup", "--only", "two"], &[text(program)]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
    let profile = read(&shop.path().join("recorded.gv"));
    assert!(profile.functions().iter().any(|function| profile.is_nameless(*function)));
}
