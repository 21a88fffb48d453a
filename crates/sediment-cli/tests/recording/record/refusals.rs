// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that may not be recorded: refused with a hint, or warned about before they run.

use super::{RecordingFolder, Running, code, err, number_in, programs, text};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    vec![
        case("unrecordable_programs_are_refused", &compiler, unrecordable_programs_are_refused),
        case("a_sandbox_that_forbids_tracing_is_named", &compiler, a_sandbox_that_forbids_tracing_is_named),
        case(
            "programs_with_other_rights_are_refused_or_keep_them",
            &[Need::Program("cc"), Need::Program("setpriv")],
            programs_with_other_rights_are_refused_or_keep_them,
        ),
    ]
}

fn unrecordable_programs_are_refused() {
    let shop = RecordingFolder::new();
    // Nothing is recorded if it could not be written.
    let plain = shop.compile("plain", &programs::plain(), &[]);
    std::fs::create_dir(shop.path().join("folder")).unwrap();
    for output in ["missing/profile.gv", "folder"] {
        let mut record = Command::new(env!("CARGO_BIN_EXE_sediment"));
        record.args(["record", "-o", output, "--"]).arg(&plain).current_dir(shop.path());
        let in_vain = record.stdin(Stdio::null()).output().unwrap();
        assert!(code(&in_vain) == 1 && err(&in_vain).contains(output), "{}", err(&in_vain));
        assert!(in_vain.stdout.is_empty(), "the program ran: {in_vain:?}");
    }
    // No process has such a large id, with whatever method.
    let mut record = Command::new(env!("CARGO_BIN_EXE_sediment"));
    let ended = record.args(["record", "--pid", "4194304"]).current_dir(shop.path()).output().unwrap();
    assert!(code(&ended) == 1 && err(&ended).contains("no process 4194304"), "{}", err(&ended));
    let program = shop.compile("server", &programs::server(), &[]);
    let place = shop.path().join("server.pid");
    let mut first = shop.record(&["--seconds", "30"], &[text(&program), text(&place)]);
    let first = Running(first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let process = number_in(&place);
    let second = shop.record(&["--pid", &process.to_string()], &[]).output().unwrap();
    let traced = format!(" process {process} ");
    assert!(code(&second) == 6 && err(&second).contains(&traced), "{}", err(&second));
    // If the tracing process is killed, the started program runs on.
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap().trim();
    assert_ne!(tracer, first.0.id().to_string(), "the process with the terminal does not trace");
    assert!(Command::new("kill").args(["-KILL", tracer]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        Path::new(&format!("/proc/{process}/exe")).exists(),
        "the program ended with its killed recorder"
    );
    assert!(Command::new("kill").args(["-KILL", &process.to_string()]).status().unwrap().success());
}

fn a_sandbox_that_forbids_tracing_is_named() {
    let shop = RecordingFolder::new();
    let sandbox = shop.compile("sandbox", crate::sandbox::SANDBOX, &[]);
    let program = shop.compile("plain", &programs::plain(), &[]);
    let sediment = env!("CARGO_BIN_EXE_sediment");
    let run = |arguments: &[&str]| {
        let mut run = Command::new(&sandbox);
        run.arg(sediment).args(arguments).current_dir(shop.path()).stdin(Stdio::null()).output().unwrap()
    };
    let refused = run(&["record", "--method", "call-sites", "--", text(&program)]);
    assert_eq!(code(&refused), 6, "{}", err(&refused));
    assert!(err(&refused).contains("--cap-add=SYS_PTRACE"), "{}", err(&refused));
    let doctor = run(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("--cap-add=SYS_PTRACE"), "{said}");
}

/// Prints the user with whose rights it runs.
const RIGHTS: &str = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\\n\", (int) geteuid()); return 3; }\n";

/// A program with the bit for its owner's rights, recorded by a user other than root.
fn programs_with_other_rights_are_refused_or_keep_them() {
    let shop = RecordingFolder::new();
    let program = shop.compile("plain", &programs::plain(), &[]);
    let folder = shop.path();
    let done = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if root {
        done(Command::new("chown").args(["-R", "65534:65534"]).arg(folder));
    }
    done(Command::new("chmod").arg("4755").arg(&program));
    // Other users may not enter folders that root builds in.
    let sediment = folder.join("sediment");
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &sediment).unwrap();
    let record = |command: &[&str]| {
        let mut record = Command::new(if root { "setpriv" } else { "env" });
        if root {
            record.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        record.arg(&sediment).args(["record", "-v", "--method", "call-sites", "-o", "recorded.gv", "--"]);
        record.args(command).current_dir(folder).stdin(Stdio::null()).output().unwrap()
    };
    let refused = record(&["./plain"]);
    assert_eq!(code(&refused), 6, "{}", err(&refused));
    assert!(err(&refused).contains("./plain has setuid "), "{}", err(&refused));
    if root {
        // A program that is started by a recorded one keeps its rights: in a new process, and in place of its parent.
        let rights = shop.compile("rights", RIGHTS, &[]);
        done(Command::new("chmod").arg("4755").arg(&rights));
        let left_alone = record(&["sh", "-c", "./rights; exec ./rights"]);
        assert_eq!(String::from_utf8_lossy(&left_alone.stdout), "0\n0\n", "{}", err(&left_alone));
        assert_eq!(code(&left_alone), 3, "{}", err(&left_alone));
        assert!(err(&left_alone).contains("rights"), "{}", err(&left_alone));
        // If such a program cannot be executed, its parent runs on.
        done(Command::new("chmod").arg("4700").arg(&rights));
        let denied = record(&["sh", "-c", "./rights 2>/dev/null; echo $?; exec ./rights 2>/dev/null"]);
        assert_eq!(String::from_utf8_lossy(&denied.stdout), "126\n", "{}", err(&denied));
        assert_eq!(code(&denied), 126, "{}", err(&denied));
    }
    if root && Command::new("setcap").arg("-h").output().is_ok() {
        // Rights from capabilities of a file are recognised too.
        done(Command::new("chmod").arg("755").arg(&program));
        done(Command::new("setcap").arg("cap_net_raw+ep").arg(&program));
        let refused = record(&["./plain"]);
        assert_eq!(code(&refused), 6, "{}", err(&refused));
    }
}
