// SPDX-License-Identifier: MIT OR Apache-2.0
//! lld as the reference for orders: links one section per function by a call graph and reads back where they went.

#![allow(clippy::unwrap_used)] // tests may fail loudly
#![allow(dead_code, unreachable_pub)] // each program that includes it uses its part

use sediment_core::callgraph::{CallGraph, FunctionId};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker that is the reference, and a later one that is asked where it is there. Both by name: the newest installed may be another.
pub const LLD: &str = "ld.lld-19";
pub const LATER_LLD: &str = "ld.lld-22";

/// An object file with one section per function of a graph.
pub struct Reference<'a> {
    graph: &'a CallGraph,
    folder: &'a Path,
    object: PathBuf,
}

/// lld's layout of a graph.
pub struct Placement {
    /// All functions in the order of the linked file.
    pub order: Vec<FunctionId>,
    /// Time of ordering sections by its time trace, in microseconds.
    pub sorting_microseconds: u64,
}

impl<'a> Reference<'a> {
    /// Assembles the functions: sections without content, so that size costs nothing.
    pub fn assemble(graph: &'a CallGraph, folder: &'a Path) -> Self {
        let mut assembly = String::new();
        for (id, size) in graph.sizes().iter().enumerate() {
            let _ = writeln!(
                assembly,
                ".section .text.n{id},\"ax\",@nobits\n.globl n{id}\n.type n{id},@function\nn{id}: .skip {size}\n.size n{id},{size}"
            );
        }
        Self::of_assembly(graph, &assembly, folder)
    }

    /// The same with these bytes as their contents.
    pub fn assemble_bytes(graph: &'a CallGraph, bodies: &[Vec<u8>], folder: &'a Path) -> Self {
        let mut assembly = String::new();
        for (id, body) in bodies.iter().enumerate() {
            let bytes: Vec<String> = body.iter().map(u8::to_string).collect();
            let _ = writeln!(
                assembly,
                ".section .text.n{id},\"ax\",@progbits\n.globl n{id}\n.type n{id},@function\nn{id}: .byte {}\n.size n{id},{}",
                bytes.join(","),
                body.len()
            );
        }
        Self::of_assembly(graph, &assembly, folder)
    }

    fn of_assembly(graph: &'a CallGraph, assembly: &str, folder: &'a Path) -> Self {
        let (source, object) = (folder.join("graph.s"), folder.join("graph.o"));
        std::fs::write(&source, assembly).unwrap();
        run(Command::new("as").arg(&source).arg("-o").arg(&object));
        Self { graph, folder, object }
    }

    /// Links with `--call-graph-profile-sort=` this algorithm.
    pub fn link(&self, algorithm: &str) -> Placement {
        self.link_by(LLD, algorithm, &[])
    }

    /// The same by another lld, and with further options.
    pub fn link_by(&self, lld: &str, algorithm: &str, options: &[&str]) -> Placement {
        let calls = self.folder.join(format!("{algorithm}.calls"));
        std::fs::write(&calls, self.calls(algorithm)).unwrap();
        let mut ordering = vec![
            format!("--call-graph-profile-sort={algorithm}").into(),
            option("--call-graph-ordering-file=", &calls),
        ];
        ordering.extend(options.iter().map(std::ffi::OsString::from));
        self.link_ordered(lld, &ordering)
    }

    /// Links with the options that order.
    pub fn link_ordered(&self, lld: &str, ordering: &[std::ffi::OsString]) -> Placement {
        let at = |name: &str| self.folder.join(format!("linked.{name}"));
        run(Command::new(lld)
            .args(["-e", "n0", "--no-warn-symbol-ordering", "--threads=1"])
            .args(ordering)
            .arg(option("--Map=", &at("map")))
            .arg(option("--time-trace=", &at("trace")))
            .arg(&self.object)
            .arg("-o")
            .arg(at("out")));
        let map = std::fs::read_to_string(at("map")).unwrap();
        let order: Vec<FunctionId> = map.lines().filter_map(placed_function).collect();
        assert_eq!(order.len(), self.graph.len(), "the map lists every function once");
        let trace = std::fs::read_to_string(at("trace")).unwrap();
        Placement { order, sorting_microseconds: sorting_microseconds(&trace) }
    }

    /// The graph as lld's text. lld numbers functions as it meets them and breaks ties by that number: calls to oneself
    /// that change nothing (of no weight for C3, of any weight for CDSort) make it meet them by id.
    fn calls(&self, algorithm: &str) -> String {
        let weight = u32::from(algorithm == "cdsort");
        let mut text = String::new();
        for id in 0..self.graph.len() {
            let _ = writeln!(text, "n{id} n{id} {weight}");
        }
        for edge in self.graph.edges() {
            let _ = writeln!(text, "n{} n{} {}", edge.caller.0, edge.callee.0, edge.weight);
        }
        text
    }
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The function of a map's line such as `… graph.o:(.text.n17)`.
fn placed_function(line: &str) -> Option<FunctionId> {
    let (_, section) = line.split_once(":(.text.n")?;
    section.strip_suffix(')')?.parse().ok().map(FunctionId)
}

/// The duration of the event `Total Sort sections`.
fn sorting_microseconds(trace: &str) -> u64 {
    let (before, _) = trace.split_once("\"Total Sort sections\"").unwrap();
    let (_, event) = before.rsplit_once("\"dur\":").unwrap();
    event.split(',').next().unwrap().parse().unwrap()
}
