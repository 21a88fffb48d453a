// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests hostile names with the real readers of each dialect: linkers, shell, make, dot, RPM.

use super::link::{How, binary, order_text, others, run};
use libtest_mimic::Trial;
use sediment_core::escape;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use support::hostile::names;
use support::{Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case("escape::gold_takes_each_line_whole", &[Need::Program("gcc"), Need::Program("ld.gold")], gold),
        case("escape::shell_gets_each_word_back", &[Need::Program("sh")], shell),
        case("escape::make_gets_each_value_back", &[Need::Program("make")], make),
        case("escape::dot_gets_each_id_back", &[Need::Program("dot")], dot),
        case("escape::rpm_gets_each_text_back", &[Need::Program("rpm")], rpm),
    ]
}

/// Returns names that an assembler accepts for a section and a symbol: not empty, and without control characters.
fn nameable() -> Vec<String> {
    names()
        .into_iter()
        .map(|(_, name)| name)
        .filter(|name| !name.is_empty() && !name.contains(char::is_control) && !name.contains('@'))
        .collect()
}

/// Functions that would move if a hostile name were read as more than a name.
const BYSTANDERS: [&str; 8] = ["evil", "ab", "axbycd", "axb", "x", "b", "zz", "a"];

/// Assembles functions with hostile names, in hostile sections, among bystanders.
fn assemble(folder: &Path) -> Vec<String> {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let listed: Vec<String> =
        nameable().into_iter().filter(|name| !BYSTANDERS.contains(&name.as_str())).collect();
    let mut text = String::from(".text\n.globl _start\n.type _start, @function\n_start:\n  .long 0\n");
    let mut bystanders = BYSTANDERS.iter();
    for (n, name) in listed.iter().enumerate() {
        for name in [Some(name.as_str()), bystanders.next().copied()].into_iter().flatten() {
            let name = quoted(name);
            let _ = write!(
                text,
                ".section \".text.{name}\", \"ax\", @progbits\n.globl \"{name}\"\n.type \"{name}\", @function\n\"{name}\":\n  .long {n}\n"
            );
        }
    }
    std::fs::write(folder.join("hostile.s"), text).unwrap();
    run(Command::new("gcc").args(["-c", "hostile.s"]).current_dir(folder));
    listed
}

/// Returns the listed names that are in the file, by address.
fn found_in(file: &Path, listed: &[String]) -> Vec<String> {
    binary(file)
        .functions
        .into_iter()
        .map(|function| function.name)
        .filter(|name| listed.contains(name))
        .collect()
}

pub(crate) fn order_means_what_it_says(how: &'static How) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut listed = assemble(folder.path());
    listed.reverse();
    let (text, skipped) = order_text(how.dialect, &listed, None);
    std::fs::write(at("order"), text).unwrap();
    let link = |output: &str, further: &[String]| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-nostdlib", "-no-pie", "-Wl,--fatal-warnings"]).args(how.driver()).args(further);
        run(gcc.arg(at("hostile.o")).arg("-o").arg(at(output)));
    };
    link("stock", &[]);
    link("ordered", &how.order(&at("order")));
    let writable: Vec<String> = listed
        .iter()
        .filter(|name| order_text(how.dialect, std::slice::from_ref(name), None).1.is_empty())
        .cloned()
        .collect();
    assert!(writable.len() > listed.len() / 2);
    assert_eq!(
        (listed.len() - writable.len()) as u64,
        skipped.iter().map(|(_, entry)| entry.items).sum::<u64>()
    );
    assert_eq!(found_in(&at("ordered"), &writable), writable);
    assert_eq!(others(&binary(&at("ordered")), &writable), others(&binary(&at("stock")), &writable));
}

fn gold() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut listed = assemble(folder.path());
    listed.reverse();
    listed.retain(|name| escape::gold(name).is_some());
    let lines: String =
        listed.iter().map(|name| escape::gold(&format!(".text.{name}")).unwrap() + "\n").collect();
    std::fs::write(at("order"), lines).unwrap();
    let mut gold = Command::new("ld.gold");
    run(gold
        .arg("--section-ordering-file")
        .args([at("order"), at("hostile.o")])
        .arg("-o")
        .arg(at("ordered")));
    assert_eq!(found_in(&at("ordered"), &listed), listed);
}

fn shell() {
    let folder = tempfile::tempdir().unwrap();
    let (script, expected) = names()
        .into_iter()
        .filter_map(|(_, name)| Some((escape::shell(&name)?, name)))
        .fold((String::new(), String::new()), |(script, expected), (word, name)| {
            (format!("{script}printf '%s\\n' {word}\n"), format!("{expected}{name}\n"))
        });
    std::fs::write(folder.path().join("script"), script).unwrap();
    assert_eq!(run(Command::new("sh").arg("script").current_dir(folder.path())), expected);
}

fn make() {
    let folder = tempfile::tempdir().unwrap();
    let (mut makefile, mut expected) = (String::new(), String::new());
    for (n, (_, name)) in names().into_iter().enumerate() {
        let Some(value) = escape::make(&name) else { continue };
        let _ = writeln!(makefile, "v{n} := {value}\n$(info $(v{n}))");
        let _ = writeln!(expected, "{name}");
    }
    makefile.push_str("all: ;\n.SILENT:\n");
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let printed = run(Command::new("make").args(["-s", "all"]).current_dir(folder.path()));
    assert_eq!(printed, expected);
}

fn dot() {
    let folder = tempfile::tempdir().unwrap();
    let expressible: Vec<(String, String)> = names()
        .into_iter()
        // Graphviz distinguishes ids that begin with %, but prints a number for each; it also numbers the empty id.
        .filter(|(_, name)| !name.is_empty() && !name.starts_with('%'))
        .filter_map(|(_, name)| Some((escape::dot(&name)?, name)))
        .collect();
    let nodes: String = expressible.iter().map(|(id, _)| format!("  {id} [label=n];\n")).collect();
    std::fs::write(folder.path().join("graph.gv"), format!("digraph g {{\n{nodes}}}\n")).unwrap();
    let json = run(Command::new("dot").args(["-Tjson0", "graph.gv"]).current_dir(folder.path()));
    let mut found: Vec<String> = json
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"name\": \"")?.strip_suffix("\","))
        .skip(1) // the graph's own
        .map(|name| name.replace("\\/", "/").replace("\\\"", "\"").replace("\\\\", "\\"))
        .collect();
    let mut expected: Vec<String> = expressible.into_iter().map(|(_, name)| name).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

fn rpm() {
    for (_, name) in names() {
        let Some(text) = escape::rpm(&name) else { continue };
        // Both as text, and as the body of a macro, which is expanded twice.
        let mut rpm = Command::new("rpm");
        rpm.args(["--define", &format!("text {text}"), "--eval", &format!("[{text}][%{{text}}]")]);
        assert_eq!(run(&mut rpm), format!("[{name}][{name}]\n"), "{name}");
    }
}
