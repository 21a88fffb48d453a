// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of installed packages: invented ones in separate folders, in the form of dpkg and rpm, and this machine's C
//! library.

use super::{RecordingFolder, calls, code, err, firsts, programs, text};
use libtest_mimic::Trial;
use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    vec![
        case(
            "of_a_package_only_its_own_functions_are_collected",
            &[Need::Program("cc"), Need::Program("dpkg-query")],
            of_a_package_only_its_own_functions_are_collected,
        ),
        case("only_root_collects_all", &[Need::Program("setpriv"), Need::Root], only_root_collects_all),
        case(
            "files_of_many_libraries_are_told_in_ten_lines",
            &[Need::Program("cc"), Need::Program("dpkg-query")],
            files_of_many_libraries_are_told_in_ten_lines,
        ),
        case(
            "a_profile_is_sent_only_where_that_is_asked_for",
            &[Need::Program("cc"), Need::Program("dpkg-query"), Need::Program("curl")],
            a_profile_is_sent_only_where_that_is_asked_for,
        ),
        case(
            "packages_of_rpm_are_collected",
            &[Need::Program("cc"), Need::Program("rpm"), Need::Program("rpmbuild")],
            packages_of_rpm_are_collected,
        ),
        case(
            "packages_of_one_source_are_one_recording",
            &[Need::Program("cc"), Need::Program("dpkg-query")],
            packages_of_one_source_are_one_recording,
        ),
        case(
            "recordings_become_profiles_of_a_package",
            &[Need::Program("cc"), Need::Program("dpkg-query"), Need::Program("perf")],
            recordings_become_profiles_of_a_package,
        ),
    ]
}

fn sediment() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sediment"))
}

/// Collects a package below `root` from a run of a program.
fn collect(
    shop: &RecordingFolder,
    package: &str,
    options: &[&str],
    program: &Path,
    libraries: Option<&Path>,
) -> Output {
    let mut collect = sediment();
    collect.args(["collect", "--root", "root", package, "--method", "call-sites"]).args(options);
    collect.arg("--").arg(program).arg("an argument").current_dir(shop.path()).stdin(Stdio::null());
    if let Some(libraries) = libraries {
        collect.env("LD_LIBRARY_PATH", libraries);
    }
    collect.output().unwrap()
}

fn of_a_package_only_its_own_functions_are_collected() {
    let shop = RecordingFolder::new();
    let at = |path: &str| shop.path().join("root").join(path);
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    symlink("usr/bin", at("bin")).unwrap();
    let status = "Package: plain-tools\nStatus: install ok installed\nMaintainer: The Maintainers <list@example.org>\n\
        Architecture: all\nVersion: 1.2-3\nBugs: https://bugs.example.org/plain\nDescription: a test\n\n";
    std::fs::write(at("var/lib/dpkg/status"), status).unwrap();
    std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), "/.\n/bin\n/bin/plain\n").unwrap();
    let program = shop.compile("plain", &programs::plain(), &[]);
    let installed = at("usr/bin/plain");
    std::fs::rename(&program, &installed).unwrap();
    let shown = collect(&shop, "plain-tools", &["--show"], &installed, None);
    assert_eq!(code(&shown), 7, "{}", err(&shown));
    let file = std::fs::read_to_string(shop.path().join("plain-tools.gv")).unwrap();
    assert_eq!(lines_of_summary(&err(&shown), &file), 4);
    assert!(!err(&shown).contains("https://bugs.example.org/plain"), "it did not ask: {}", err(&shown));
    let (profile, skipped) = sediment_core::profile::text::parse(file.as_bytes()).unwrap();
    assert!(skipped.is_empty());
    let clusters: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    assert_eq!(clusters, ["plain"], "the C library is another package's");
    assert_eq!(profile.dsos()["plain"].package.as_deref(), Some("plain-tools-1.2-3"));
    assert!(calls(&profile, "work", "f1") > 0);
    assert!(
        profile.functions().iter().all(|function| profile.key(*function).dso.as_deref() == Some("plain"))
    );
    for private in [text(shop.path()), "an argument", "root", "/usr"] {
        assert!(!file.contains(private), "{private} is in the file");
    }
    std::fs::create_dir(shop.path().join("parts")).unwrap();
    let parts = collect(&shop, "plain-tools", &["-o", "parts"], &installed, None);
    assert_eq!(code(&parts), 7, "{}", err(&parts));
    let names: Vec<_> =
        std::fs::read_dir(shop.path().join("parts")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["plain.prof"]);
    let starts = collect(&shop, "plain-tools", &["--startup"], &installed, None);
    assert_eq!(code(&starts), 7, "{}", err(&starts));
    let starts = shop.path().join("plain-tools.gv");
    let (starts, _) = sediment_core::profile::text::parse(&std::fs::read(starts).unwrap()).unwrap();
    assert_eq!(firsts(&starts, "plain").iter().filter(|(_, name)| name == "f59").count(), 1);
    let other = collect(&shop, "other-tools", &[], &installed, None);
    assert!(code(&other) == 1 && err(&other).contains(" other-tools "), "{}", err(&other));
    // Neither function names nor a build-id with which addresses could be named.
    let bare = shop.compile("plain", &programs::plain(), &["-s", "-Wl,--build-id=none"]);
    std::fs::copy(&bare, at("usr/bin/bare")).unwrap();
    std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), "/.\n/bin\n/bin/bare\n").unwrap();
    let nameless = collect(&shop, "plain-tools", &[], &at("usr/bin/bare"), None);
    assert!(code(&nameless) == 1 && err(&nameless).contains("build-id"), "{}", err(&nameless));
    // A package with only scripts has nothing to order.
    let script = "Package: scripts\nStatus: install ok installed\nMaintainer: The Maintainers <list@example.org>\n\
        Architecture: all\nVersion: 1-1\nDescription: a test\n\n";
    std::fs::write(at("var/lib/dpkg/status"), status.to_owned() + script).unwrap();
    std::fs::write(at("var/lib/dpkg/info/scripts.list"), "/.\n/usr/bin/script\n").unwrap();
    std::fs::write(at("usr/bin/script"), "#!/usr/bin/python3\n").unwrap();
    let none = collect(&shop, "scripts", &[], &installed, None);
    assert!(code(&none) == 1 && err(&none).contains("sediment: scripts "), "{}", err(&none));
    // The address for submissions is printed only if the package accepts profiles, or contains one.
    let fields = ["Source: plain", "Sediment-Profiles: https://example.org/profiles"];
    for (field, ships) in [(fields[0], false), (fields[1], false), (fields[0], true)] {
        let status = status.replace("Bugs: https://bugs.example.org/plain", field);
        let shipped = if ships { "/usr/share/sediment/plain.gv\n" } else { "" };
        let list = format!("/.\n/bin\n/bin/plain\n{shipped}");
        std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), list).unwrap();
        std::fs::create_dir_all(at("usr/share/sediment")).unwrap();
        std::fs::copy(shop.path().join("plain-tools.gv"), at("usr/share/sediment/plain.gv")).unwrap();
        std::fs::write(at("var/lib/dpkg/status"), status).unwrap();
        let told = collect(&shop, "plain-tools", &[], &installed, None);
        assert_eq!(err(&told).contains("https://example.org/profiles"), field.starts_with("Sediment"));
        assert_eq!(err(&told).contains("list@example.org"), ships, "{}", err(&told));
    }
}

/// A program and its library, from two packages of one source.
fn packages_of_one_source_are_one_recording() {
    let shop = RecordingFolder::new();
    let at = |path: &str| shop.path().join("root").join(path);
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin", "usr/lib"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    let entry = |name: &str, source: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nMaintainer: M <list@example.org>\nArchitecture: all\n\
             Source: {source}\nVersion: 1.2-3\nDescription: a test\n\n"
        )
    };
    let status = entry("pair", "pair") + &entry("libpair0", "pair") + &entry("idle", "pair");
    std::fs::write(at("var/lib/dpkg/status"), status).unwrap();
    for (package, file) in
        [("pair", "/usr/bin/pair"), ("libpair0", "/usr/lib/libpair.so"), ("idle", "/usr/bin/idle")]
    {
        std::fs::write(at(&format!("var/lib/dpkg/info/{package}.list")), format!("/.\n{file}\n")).unwrap();
    }
    let library = "int twice(int x) { return 2 * x; }";
    let library = shop.compile("libpair.so", library, &["-shared", "-fPIC"]);
    let program = "int twice(int); int main(void) { int sum = 0; for (int i = 0; i < 7; i++) sum += twice(i); return sum != 42; }";
    let program = shop.compile(
        "pair",
        program,
        &[&format!("-L{}", text(shop.path())), "-Wl,--no-as-needed", "-l:libpair.so"],
    );
    for file in ["usr/bin/pair", "usr/bin/idle"] {
        std::fs::copy(&program, at(file)).unwrap();
    }
    std::fs::copy(&library, at("usr/lib/libpair.so")).unwrap();
    let read = |name: &str| {
        let text = std::fs::read(shop.path().join(name)).unwrap();
        sediment_core::profile::text::parse(&text).unwrap().0
    };
    let run = |packages: &[&str], more: &[&str]| {
        let options = [&packages[1..], more].concat();
        let done = collect(&shop, packages[0], &options, &at("usr/bin/pair"), Some(&at("usr/lib")));
        assert_eq!(code(&done), 0, "{}", err(&done));
        err(&done)
    };
    let told = run(&["pair"], &[]);
    assert!(told.contains("left out libpair0, ") && told.contains("collect pair libpair0 -o "), "{told}");
    let told = run(&["pair", "libpair0"], &["-o", "both.gv"]);
    assert!(!told.contains("left out"), "{told}");
    let both = read("both.gv");
    assert_eq!(both.dsos().keys().collect::<Vec<_>>(), ["libpair.so", "pair"]);
    assert!(calls(&both, "main", "twice") > 0);
    assert_eq!(both.inputs.unwrap_or(1), 1);
    // A package that executed nothing does not affect the others.
    let told = run(&["idle", "pair", "libpair0"], &["-o", "parts/"]);
    assert!(told.contains("idle"), "{told}");
    assert!(!shop.path().join("parts/idle.gv").exists());
    assert_eq!(read("parts/libpair0.gv").dsos().keys().collect::<Vec<_>>(), ["libpair.so"]);
}

/// Users other than root are refused before anything is recorded or written.
fn only_root_collects_all() {
    let shop = RecordingFolder::new();
    std::fs::set_permissions(shop.path(), Permissions::from_mode(0o777)).unwrap();
    // Other users may not enter folders that root builds in.
    let sediment = shop.path().join("sediment");
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &sediment).unwrap();
    let mut collect = Command::new("setpriv");
    collect.args(["--reuid=65534", "--regid=65534", "--clear-groups", text(&sediment)]);
    collect.args(["collect", "--all", "--seconds", "1"]).current_dir(shop.path()).stdin(Stdio::null());
    let refused = collect.output().unwrap();
    assert!(code(&refused) == 6 && err(&refused).contains(" sudo "), "{}", err(&refused));
    assert!(refused.stdout.is_empty());
    assert_eq!(std::fs::read_dir(shop.path()).unwrap().count(), 1, "it wrote something");
}

/// Number of lines that describe a file, before all of it is shown.
fn lines_of_summary(said: &str, file: &str) -> usize {
    let (before, after) = said.split_once(file).unwrap_or_else(|| panic!("{said}"));
    assert!(!after.contains(" contains:"), "{after}");
    before.lines().skip_while(|line| !line.ends_with(" contains:")).count()
}

fn files_of_many_libraries_are_told_in_ten_lines() {
    const LIBRARIES: usize = 9;
    let shop = RecordingFolder::new();
    let at = |path: &str| shop.path().join("root").join(path);
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin", "usr/lib"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    let status = "Package: plain-tools\nStatus: install ok installed\nMaintainer: M <list@example.org>\n\
        Architecture: all\nVersion: 1.2-3\nDescription: a test\n\n";
    std::fs::write(at("var/lib/dpkg/status"), status).unwrap();
    let (mut list, mut calls) = ("/.\n/usr/bin/many\n".to_owned(), String::new());
    let mut flags = vec!["-Wl,--no-as-needed".to_owned(), format!("-L{}", text(shop.path()))];
    for number in 0..LIBRARIES {
        let (name, function) = (format!("libl{number}.so"), format!("int l{number}(int x)"));
        let library = shop.compile(&name, &format!("{function} {{ return x + 1; }}"), &["-shared", "-fPIC"]);
        std::fs::copy(&library, at(&format!("usr/lib/{name}"))).unwrap();
        list += &format!("/usr/lib/{name}\n");
        calls += &format!("{{ {function}; sum = l{number}(sum); }}\n");
        flags.push(format!("-l:{name}"));
    }
    std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), list).unwrap();
    let source = format!("int main(void) {{ int sum = 0; {calls} return sum; }}");
    let program = shop.compile("many", &source, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let installed = at("usr/bin/many");
    std::fs::rename(program, &installed).unwrap();
    let shown = collect(&shop, "plain-tools", &["--show"], &installed, Some(&at("usr/lib")));
    assert_eq!(code(&shown), LIBRARIES as i32, "{}", err(&shown));
    let file = std::fs::read_to_string(shop.path().join("plain-tools.gv")).unwrap();
    let (profile, _) = sediment_core::profile::text::parse(file.as_bytes()).unwrap();
    assert_eq!(profile.dsos().len(), LIBRARIES + 1);
    let lines = lines_of_summary(&err(&shown), &file);
    assert!((5..=10).contains(&lines), "{lines}: {}", err(&shown));
}

/// An intake that answers consecutive requests with these statuses; returns the received requests.
fn intake(statuses: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/profiles", listener.local_addr().unwrap());
    let requests =
        std::thread::spawn(move || statuses.iter().map(|status| answer(&listener, status)).collect());
    (url, requests)
}

/// Reads one request whole, and answers it.
fn answer(listener: &std::net::TcpListener, status: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        let length =
            text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
        if text.split_once("\r\n\r\n").is_some_and(|(_, body)| Some(body.len()) == length) {
            let said = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\nConnection: close\r\n\r\nkept\n");
            stream.write_all(said.as_bytes()).unwrap();
            return text;
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "half a request: {text}");
        request.extend(&piece[..count]);
    }
}

fn a_profile_is_sent_only_where_that_is_asked_for() {
    let shop = RecordingFolder::new();
    let at = |path: &str| shop.path().join("root").join(path);
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    let status = "Package: plain-tools\nStatus: install ok installed\nMaintainer: The Maintainers <list@example.org>\n\
        Architecture: all\nVersion: 1.2-3\nDescription: a test\n\n";
    std::fs::write(at("var/lib/dpkg/status"), status).unwrap();
    std::fs::write(at("var/lib/dpkg/info/plain-tools.list"), "/.\n/usr/bin\n/usr/bin/plain\n").unwrap();
    let installed = at("usr/bin/plain");
    std::fs::rename(shop.compile("plain", &programs::plain(), &[]), &installed).unwrap();
    std::fs::write(shop.path().join("token"), "a-token\n").unwrap();
    // A server that is busy once: the same key is sent again.
    let (url, requests) = intake(&["503 Busy", "201 Created"]);
    let sent =
        collect(&shop, "plain-tools", &["--send", &url, "--yes", "--token-file", "token"], &installed, None);
    assert_eq!(code(&sent), 7, "{}", err(&sent));
    let file = std::fs::read_to_string(shop.path().join("plain-tools.gv")).unwrap();
    assert!(err(&sent).contains(&file), "all that is sent is shown");
    assert!(err(&sent).contains(&format!("sent {} bytes to {url}: kept", file.len())), "{}", err(&sent));
    let requests = requests.join().unwrap();
    let header = |request: &str, name: &str| {
        request.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned).unwrap_or_default()
    };
    for request in &requests {
        assert!(request.ends_with(&file) && request.starts_with("POST /v1/profiles "), "{request}");
        assert_eq!(header(request, "Authorization: "), "Bearer a-token");
        assert_eq!(header(request, "Idempotency-Key: ").len(), 32);
    }
    assert_eq!(header(&requests[0], "Idempotency-Key: "), header(&requests[1], "Idempotency-Key: "));
    // A refusal is an error, and the file is kept.
    let (url, requests) = intake(&["422 Invalid"]);
    let refused = collect(&shop, "plain-tools", &["--send", &url, "--yes"], &installed, None);
    assert_eq!(code(&refused), 1);
    assert!(err(&refused).contains("status 422"), "{}", err(&refused));
    assert!(!requests.join().unwrap()[0].contains("Authorization"));
    assert!(shop.path().join("plain-tools.gv").is_file());
    // Nobody can answer the question, or the URL is invalid: nothing is recorded.
    for (options, code_of_exit) in
        [(&["--send", "http://127.0.0.1:9/"][..], 2), (&["--send", "file:///etc/passwd", "--yes"], 2)]
    {
        std::fs::remove_file(shop.path().join("plain-tools.gv")).ok();
        let none = collect(&shop, "plain-tools", options, &installed, None);
        assert_eq!(code(&none), code_of_exit, "{}", err(&none));
        assert!(!shop.path().join("plain-tools.gv").exists());
    }
}

/// A real package, built and installed by rpm below a folder: program and library are found through links, and the
/// database is where another distribution has it.
fn packages_of_rpm_are_collected() {
    let shop = RecordingFolder::new();
    let at = |path: &str| shop.path().join("root").join(path);
    let main = "#include <stdio.h>\nlong library_call(long);\n\
        __attribute__((noinline)) long own(long x) { return library_call(x) + 1; }\n\
        int main(void) { printf(\"%ld\\n\", own(1)); return 7; }\n";
    let library = shop.compile(
        "libplain.so.1",
        &programs::library(),
        &["-shared", "-fPIC", "-Wl,-soname,libplain.so.1"],
    );
    symlink(&library, shop.path().join("libplain.so")).unwrap();
    let folder = format!("-L{}", text(shop.path()));
    let program = shop.compile("plain", main, &[&folder, "-Wl,--no-as-needed", "-lplain"]);
    let spec = format!(
        "Name: plain-tools\nVersion: 1.2\nRelease: 3\nSummary: a test\nLicense: MIT\nVendor: The Vendor\n\
         URL: https://example.org/plain\nBugURL: https://bugs.example.org/plain\nProvides: sediment-profiles(https://example.org/rpm)\nAutoReqProv: no\n\
         %define debug_package %{{nil}}\n%define __os_install_post %{{nil}}\n%define _build_id_links none\n\
         %description\nA test.\n%install\nmkdir -p %{{buildroot}}/usr/bin %{{buildroot}}/usr/lib64\n\
         cp {} %{{buildroot}}/usr/bin/plain\ncp {} %{{buildroot}}/usr/lib64/libplain.so.1.0\n\
         ln -s libplain.so.1.0 %{{buildroot}}/usr/lib64/libplain.so.1\n%files\n/usr/bin/plain\n/usr/lib64/libplain.so.1*\n",
        text(&program),
        text(&library)
    );
    std::fs::write(shop.path().join("plain.spec"), spec).unwrap();
    let done = |command: &mut Command| {
        let ended = command.current_dir(shop.path()).env("HOME", shop.path()).output().unwrap();
        assert!(ended.status.success(), "{command:?}: {}", err(&ended));
    };
    let top = format!("_topdir {}/top", text(shop.path()));
    done(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top, "plain.spec"]));
    for folder in ["usr/lib/sysimage/rpm", "usr/bin", "usr/lib64"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    symlink("usr/bin", at("bin")).unwrap();
    symlink("usr/lib64", at("lib64")).unwrap();
    // The files are copied by hand, because installing them would need root.
    std::fs::copy(&program, at("usr/bin/plain")).unwrap();
    std::fs::copy(&library, at("usr/lib64/libplain.so.1.0")).unwrap();
    symlink("libplain.so.1.0", at("usr/lib64/libplain.so.1")).unwrap();
    let database = format!("--dbpath={}", text(&at("usr/lib/sysimage/rpm")));
    done(
        Command::new("sh")
            .args(["-c", "rpm \"$0\" --install --justdb --nodeps --noscripts top/RPMS/*/*.rpm"])
            .arg(&database),
    );
    let shown = collect(&shop, "plain-tools", &["--show"], &at("bin/plain"), Some(&at("lib64")));
    assert_eq!(code(&shown), 7, "{}", err(&shown));
    let said = err(&shown);
    assert!(said.contains(" https://example.org/rpm\n") && !said.contains("The Vendor"), "{said}");
    let file = std::fs::read(shop.path().join("plain-tools.gv")).unwrap();
    let (profile, _) = sediment_core::profile::text::parse(&file).unwrap();
    let clusters: Vec<(&str, Option<&str>)> =
        profile.dsos().iter().map(|(label, cluster)| (label.as_str(), cluster.package.as_deref())).collect();
    let package = Some("plain-tools-1.2-3");
    assert_eq!(clusters, [("libplain.so.1", package), ("plain", package)], "{}", err(&shown));
    assert!(
        calls(&profile, "own", "library_call") > 0 && calls(&profile, "library_call", "library_leaf") > 0
    );
}

/// Upstream sediment's command, on a perf recording of a program that works in the C library.
fn recordings_become_profiles_of_a_package() {
    let shop = RecordingFolder::new();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }\n\
        int main(void) {\n    enum { LINES = 20000 };\n    static char *lines[LINES]; static char text[LINES][24];\n\
        \x20   for (int round = 0; round < 40; round++) {\n\
        \x20       for (int i = 0; i < LINES; i++) { snprintf(text[i], 24, \"%d\", i * 7919 % LINES); lines[i] = text[i]; }\n\
        \x20       qsort(lines, LINES, sizeof *lines, compare);\n    }\n    puts(lines[9]);\n    return 0;\n}\n";
    let program = shop.compile("sorts", source, &["-fno-omit-frame-pointer"]);
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock:u", "-g", "-o", "perf.data", "--", text(&program)])
        .current_dir(shop.path())
        .output()
        .unwrap();
    assert!(perf.status.success(), "{}", err(&perf));
    let gen_profiles = |output: &str| {
        sediment()
            .args(["gen_profiles", output, "libc6", "perf.data"])
            .current_dir(shop.path())
            .output()
            .unwrap()
    };
    let made = gen_profiles("libc.gv");
    assert_eq!(code(&made), 0, "{}", err(&made));
    let file = std::fs::read_to_string(shop.path().join("libc.gv")).unwrap();
    let (profile, _) = sediment_core::profile::text::parse(file.as_bytes()).unwrap();
    let clusters: Vec<&str> = profile.dsos().keys().map(String::as_str).collect();
    assert!(
        clusters.contains(&"libc.so.6") && !clusters.contains(&"sorts"),
        "the program is no package's: {clusters:?}"
    );
    assert!(profile.dsos()["libc.so.6"].package.as_deref().is_some_and(|name| name.starts_with("libc6-2.")));
    assert!(!file.contains("sorts") && !file.contains(text(shop.path())), "{file}");
    std::fs::create_dir(shop.path().join("parts")).unwrap();
    let made = gen_profiles("parts");
    assert_eq!(code(&made), 0, "{}", err(&made));
    assert!(shop.path().join("parts/libc.so.6.prof").exists());
}
