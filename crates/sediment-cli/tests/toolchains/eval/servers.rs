// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers that are started, used and stopped.

use super::interruptions::interrupted;
use super::{code, err, eval, fails, is_alive, lines, wait_for};
use libtest_mimic::Trial;
use std::path::Path;
use support::case;

pub fn cases() -> Vec<Trial> {
    vec![
        case("a_server_is_measured_while_it_is_driven", &[], a_server_is_measured_while_it_is_driven),
        case("a_server_that_is_never_ready_is_stopped", &[], a_server_that_is_never_ready_is_stopped),
        case("a_server_that_does_not_stop_is_ended", &[], a_server_that_does_not_stop_is_ended),
        case("an_interrupt_stops_the_server", &[], an_interrupt_stops_the_server),
        case("a_driver_that_fails_stops_the_server", &[], a_driver_that_fails_stops_the_server),
    ]
}

/// Uses processor time for each line in `todo`, in a child, until it is told to stop.
const SERVER: &str = "trap 'echo stopped | tee -a farewell; exit 0' TERM
echo $$ >> servers
echo ready to serve
while :; do
    if [ -e todo ]; then (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done); rm todo; touch done; fi
    sleep 0.01
done
";

fn plan(folder: &Path, server: &str, rest: &str) {
    std::fs::write(folder.join("server.sh"), server).unwrap();
    std::fs::write(folder.join("other.sh"), format!("{server}\n#")).unwrap();
    let text = format!(
        "sediment-eval = 1\nnoise-floor = false\n[run]\nblocks = 2\npilot = 2\nwarm-ups = 0\ntime-limit = 30\n\
         [[variant]]\nname = \"one\"\nprogram = \"server.sh\"\n[[variant]]\nname = \"other\"\nprogram = \"other.sh\"\n\
         [[workload]]\nname = \"serve\"\nserver = [\"sh\", \"{{program}}\"]\n{rest}\n"
    );
    std::fs::write(folder.join("plan.toml"), text).unwrap();
}

const DRIVE: &str = "drive = \"rm -f done; touch todo; while [ ! -e done ]; do sleep 0.01; done; echo transactions: 5\"\n\
     work = { name = \"transaction\", regex = 'transactions: ([0-9]+)' }\n";

fn all_ended(folder: &Path) {
    let servers = std::fs::read_to_string(folder.join("servers")).unwrap_or_default();
    for server in servers.lines() {
        wait_for("the end of a server", || !is_alive(server));
    }
}

fn a_server_is_measured_while_it_is_driven() {
    let folder = tempfile::tempdir().unwrap();
    let prepare = "prepare = \"echo prepared >> prepared\"\nready = { log = \"ready to serve\" }\nenvironment = { GREETING = \"hello\" }";
    plan(folder.path(), SERVER, &format!("{prepare}\n{DRIVE}"));
    let done = eval(folder.path(), &["run", "plan.toml", "--format", "json"]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let runs = lines(folder.path(), "plan.jsonl", "run");
    assert_eq!(runs.len(), 4);
    for run in &runs {
        assert_eq!(run["work"], 5.0);
        // A child of the server does the work, and has ended when the driver ends.
        let time = &run["values"]["cpu-time"];
        assert!(time.as_f64().is_some_and(|seconds| seconds > 0.005), "{run}");
        assert!(run["values"]["max-rss"].as_f64().is_some_and(|bytes| bytes > 100_000.0), "{run}");
        assert!(run["values"]["elapsed"].as_f64().is_some_and(|seconds| seconds > 0.0), "{run}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("prepared")).unwrap().lines().count() % 4, 0);
    all_ended(folder.path());
}

fn a_server_that_is_never_ready_is_stopped() {
    // A check without an answer also takes no longer than the limit.
    for ready in ["socket = \"no-such-socket\"", "command = \"echo $$ >> servers; sleep 600; true\""] {
        let folder = tempfile::tempdir().unwrap();
        plan(
            folder.path(),
            "echo $$ >> servers; echo cannot bind the port >&2; sleep 600 & echo $! >> servers; wait",
            &format!("ready = {{ {ready} }}\nready-limit = 0.5\n{DRIVE}"),
        );
        let done = eval(folder.path(), &["run", "plan.toml"]);
        fails(&done, 1, &["0.5 s", "cannot bind the port"]);
        all_ended(folder.path());
    }
}

fn a_server_that_does_not_stop_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let deaf = SERVER.replacen("exit 0", "true", 1);
    plan(folder.path(), &deaf, &format!("ready = {{ log = \"ready\" }}\nstop-limit = 0.5\n{DRIVE}"));
    let done = eval(folder.path(), &["run", "plan.toml"]);
    fails(&done, 1, &["0.5 s", "SIGTERM", "stopped"]);
    all_ended(folder.path());
}

fn an_interrupt_stops_the_server() {
    const SLEEP: &str = "echo $$ >> servers; touch moment; sleep 600; true";
    let ready = "ready = { log = \"ready\" }";
    for rest in [
        format!("prepare = \"{SLEEP}\"\n{ready}\ndrive = \"true\""),
        format!("ready = {{ command = \"{SLEEP}\" }}\ndrive = \"true\""),
        format!("{ready}\nwarm-up = \"{SLEEP}\"\ndrive = \"true\""),
        format!("{ready}\ndrive = \"{SLEEP}\""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        plan(here, SERVER, &rest);
        let done = interrupted(here, &["run", "plan.toml"], || here.join("moment").is_file());
        assert_eq!(code(&done), 130);
        assert!(!here.join("plan.jsonl").exists(), "{rest}: {}", err(&done));
        all_ended(here);
        // It ended by its own signal if it was running.
        assert_eq!(here.join("farewell").is_file(), !rest.starts_with("prepare"), "{rest}");
    }
    // If it does not stop, nobody waits for it any longer.
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let deaf =
        SERVER.replacen("trap 'echo stopped | tee -a farewell; exit 0' TERM", "trap 'touch moment' TERM", 1);
    plan(here, &deaf, &format!("{ready}\n{DRIVE}"));
    let begun = std::time::Instant::now();
    let done = interrupted(here, &["run", "plan.toml"], || here.join("moment").is_file());
    assert!(begun.elapsed().as_secs() < 50, "not until stop-limit");
    assert_eq!(code(&done), 130);
    all_ended(here);
}

fn a_driver_that_fails_stops_the_server() {
    let folder = tempfile::tempdir().unwrap();
    plan(
        folder.path(),
        SERVER,
        "ready = { log = \"ready\" }\ndrive = \"echo connection refused >&2; exit 2\"",
    );
    let done = eval(folder.path(), &["run", "plan.toml"]);
    // The server's log is shown as well.
    fails(&done, 1, &["exit code 2", "connection refused", "ready to serve"]);
    all_ended(folder.path());
}
