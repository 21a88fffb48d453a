// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries on a cluster: a scheduler and executors as processes on loopback. Their answers equal the answers of one process byte for byte.

#![cfg(feature = "cluster")]

mod support;

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{ingest, merge_of, merged_by_core, run, write};

/// Processes of a cluster, which end when this is dropped.
struct Cluster {
    scheduler: String,
    processes: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sediment-fleet"));
    command.args(arguments).stdout(Stdio::null()).spawn().unwrap()
}

fn wait_for(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nothing listens at port {port}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Cluster {
    fn of(executors: usize, dataset: &str) -> Self {
        let port = free();
        let scheduler = format!("127.0.0.1:{port}");
        let mut processes = vec![start(&["scheduler", dataset, "--listen", &scheduler, "--patience", "4"])];
        wait_for(port);
        for _ in 0..executors {
            let (own, tasks) = (free(), free().to_string());
            let listen = format!("127.0.0.1:{own}");
            processes.push(start(&[
                "executor",
                dataset,
                "--scheduler",
                &scheduler,
                "--listen",
                &listen,
                "--task-port",
                &tasks,
                "--tasks",
                "1",
            ]));
            wait_for(own);
        }
        Self { scheduler, processes }
    }

    fn merged(&self, dataset: &str, folder: &Path, options: &[&str]) -> String {
        let whole = [&["--cluster", &self.scheduler, "--threads", "4"], options].concat();
        merge_of(dataset, folder, &whole)
    }
}

#[test]
fn a_cluster_answers_as_one_process_does() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("dataset").display().to_string();
    let files = write(&folder.path().join("profiles"), 0..60);
    ingest(&dataset, &folder.path().join("profiles"));
    let policy =
        ["--cap", "6", "--half-life", "3", "--min-submitters", "3", "--weigh-host-class", "server=2"];
    let (plain, ruled) = (merge_of(&dataset, folder.path(), &[]), merge_of(&dataset, folder.path(), &policy));
    assert_eq!(plain, merged_by_core(&files));
    assert_ne!(plain, ruled);
    for executors in [1, 3] {
        let mut cluster = Cluster::of(executors, &dataset);
        assert_eq!(cluster.merged(&dataset, folder.path(), &[]), plain, "{executors} executors");
        assert_eq!(cluster.merged(&dataset, folder.path(), &policy), ruled, "{executors} executors");
        for view in ["coverage", "outliers"] {
            assert_eq!(run(&[view, &dataset, "--cluster", &cluster.scheduler]), run(&[view, &dataset]));
        }
        if executors == 3 {
            // The scheduler does not know yet that the executor is gone.
            let mut dead = cluster.processes.pop().unwrap();
            dead.kill().unwrap();
            dead.wait().unwrap();
            assert_eq!(cluster.merged(&dataset, folder.path(), &policy), ruled);
        }
    }
    // Tables that were written for the cluster are removed.
    assert_eq!(std::fs::read_dir(Path::new(&dataset).join("queries")).unwrap().count(), 0);
    assert!(run(&["fsck", &dataset]).ends_with(" 0 faults\n"));
}
