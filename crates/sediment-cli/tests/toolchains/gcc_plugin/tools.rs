// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold parts in debuggers, profilers and unwinders, and ways into cold parts.

use crate::compilers::{COMPILERS, Compiler};
use crate::gcc_plugin::blocks::{COUNTS, MARKS, ran, record};
use sediment_core::binary::{Binary, NoFiles};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const CALLED: &str = include_str!("called.c");
const THROWN: &str = include_str!("thrown.cc");
const JUMPS: &str = include_str!("jumps.c");

/// Names and addresses of a program's functions.
fn functions(program: &Path) -> Vec<(String, Range<u64>)> {
    let bytes = std::fs::read(program).unwrap();
    let binary = Binary::parse(&bytes, &NoFiles).unwrap();
    let functions = binary.functions.iter();
    functions
        .map(|function| (function.name.clone(), function.address..function.address + function.size))
        .collect()
}

fn part(folder: &TempDir, program: &str, name: &str) -> Range<u64> {
    let functions = functions(&folder.path().join(program));
    let found = functions.iter().find(|function| function.0 == name);
    found.unwrap_or_else(|| panic!("no {name} in {functions:?}")).1.clone()
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{text}"))
}

/// Returns a tool's output in a folder.
fn told(folder: &TempDir, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", crate::running::err(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The program from `called.c`, as `plain` and, with a cold part of `parted` after all ordered functions, as `used`.
fn called(gcc: &'static Compiler) -> TempDir {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("called.c"), CALLED).unwrap();
    let build = |more: &[&str]| {
        let flags = ["-O2", "-g", "-no-pie", "-ffunction-sections", "called.c", "-ldl", "-o"];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    build(&["train", &gcc.plugin(), MARKS]);
    record(&folder, &[]);
    build(&["plain"]);
    build(&["unordered", &gcc.plugin(), COUNTS, MARKS]);
    let order = ["order", "p.gv", "--binary", "unordered", "--linker", "gnu-ld-script", "-o", "order.ld"];
    crate::running::done(&crate::running::sediment(folder.path(), &order));
    build(&["used", &gcc.plugin(), COUNTS, MARKS, "-Wl,-T,order.ld"]);
    assert!(part(&folder, "used", "parted.cold").start > part(&folder, "used", "parted").start);
    assert_eq!(ran(&folder, "used", &["unusual"]), ran(&folder, "plain", &["unusual"]));
    folder
}

/// Returns the source line with a mark.
fn line_of(mark: &str) -> String {
    let place = CALLED.lines().position(|line| line.ends_with(&format!("// {mark}"))).unwrap();
    format!("called.c:{}", place + 1)
}

/// Returns the functions of a gdb backtrace, from the innermost.
fn frames(backtrace: &str) -> Vec<&str> {
    let lines = backtrace.lines().filter_map(|line| line.strip_prefix('#'));
    let names = lines.filter_map(|line| {
        let (_, frame) = line.split_once(' ')?;
        let frame = frame.trim_start();
        frame.split_once(" in ").map_or(frame, |(_, name)| name).split(' ').next()
    });
    names.collect()
}

/// At every instruction of the path through the cold part, the callers match the source.
pub fn debuggers_see_the_callers_of_cold_parts(gcc: &'static Compiler) {
    let folder = called(gcc);
    let cold = part(&folder, "used", "parted.cold");
    let steps = format!(
        "set pagination off\nbreak *{:#x}\nrun unusual\nset $n = 0\nwhile $n < 150\n  bt\n  echo next\\n\n  stepi\n  set $n = $n + 1\nend\nkill\n",
        cold.start
    );
    std::fs::write(folder.path().join("steps"), steps).unwrap();
    let stepped = told(&folder, "gdb", &["-nx", "-batch", "-x", "steps", "used"]);
    let all = ["stop", "mixed", "parted", "outer", "main"];
    let backtraces: Vec<_> = stepped.split("next\n").map(frames).filter(|names| !names.is_empty()).collect();
    assert!(backtraces.len() > 140, "{stepped}");
    for names in &backtraces {
        assert!(names.ends_with(&all[2..]) && all.ends_with(names), "{names:?} in {stepped}");
    }
    let places: Vec<String> = ["parted", "outer"].map(line_of).into();
    for place in places {
        assert!(stepped.contains(&format!(" at {place}\n")), "{place}: {stepped}");
    }
    // A breakpoint by line, and another in a function that is called there.
    let line = format!("break {}", line_of("mixed"));
    let script = ["break stop", "run unusual", "bt", "delete", &line, "continue", "p/x $pc", "bt", "kill"];
    let commands: Vec<&str> = script.iter().flat_map(|command| ["-ex", command]).collect();
    let said = told(&folder, "gdb", &[&["-nx", "-batch"], &commands[..], &["used"]].concat());
    let (first, second) = said.split_once("$1 = ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(frames(first), all, "{said}");
    assert_eq!(frames(second), all[1..], "{said}");
    assert!(cold.contains(&hexadecimal(second.lines().next().unwrap())), "{said}");
}

/// For each byte: the function that it was split from, and the functions inlined there.
pub fn addresses_in_cold_parts_lead_to_lines(gcc: &'static Compiler) {
    let folder = called(gcc);
    let addresses: Vec<String> =
        part(&folder, "used", "parted.cold").map(|address| format!("{address:#x}")).collect();
    for tool in ["addr2line", "eu-addr2line"] {
        let arguments: Vec<&str> = ["-a", "-f", "-i", "-e", "used"]
            .into_iter()
            .chain(addresses.iter().map(String::as_str))
            .collect();
        let said = told(&folder, tool, &arguments);
        // An address begins a line; a folder's name may contain the same characters.
        let begun = format!("\n{said}");
        let mut of_one = begun.split("\n0x").skip(1);
        let (mut inlined, mut own) = (0, 0);
        for address in &addresses {
            let answer: Vec<&str> =
                of_one.next().unwrap_or_else(|| panic!("{tool}: {said}")).lines().collect();
            assert_eq!(hexadecimal(answer[0]), hexadecimal(address), "{tool}: {said}");
            let names: Vec<&str> =
                answer[1..].chunks(2).map(|pair| pair[0].split(' ').next().unwrap()).collect();
            let places: Vec<&str> = answer[1..].chunks(2).map(|pair| pair[1]).collect();
            let is_in_source = places.iter().all(|place| place.contains("called.c:"));
            match names[..] {
                ["mixed", "parted"] if is_in_source && places[1].contains(&line_of("parted")) => inlined += 1,
                ["parted"] if is_in_source => own += 1,
                // Copies that GCC makes before the first line.
                ["parted"] | ["parted.cold"] if inlined + own == 0 => {}
                _ => panic!("{tool}: {answer:?}"),
            }
        }
        assert!(inlined > 0 && own > 0 && inlined + own + 8 > addresses.len(), "{tool}: {said}");
    }
}

/// Samples in the cold part have its name and its callers.
pub fn profilers_name_cold_parts(gcc: &'static Compiler) {
    let folder = called(gcc);
    let arguments = [
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "--call-graph",
        "dwarf,1024",
        "-F",
        "199",
        "-o",
        "perf.data",
        "./used",
        "long",
    ];
    let recorded = Command::new("perf").current_dir(folder.path()).args(arguments).output().unwrap();
    if !recorded.status.success() {
        return support::skip_on_this_machine("this user may not sample by perf's clock");
    }
    let script = told(&folder, "perf", &["script", "-F", "ip,sym", "-i", "perf.data", "--no-inline"]);
    let mut found = 0;
    for sample in script.split("\n\n") {
        let names: Vec<&str> =
            sample.lines().filter_map(|line| line.trim().split_once(' ')).map(|frame| frame.1).collect();
        if let Some(place) = names.iter().position(|name| name.starts_with("parted")) {
            assert_eq!(names[place + 1..place + 3], ["outer", "main"], "{sample}");
            found += usize::from(names[place] == "parted.cold");
        }
    }
    assert!(found >= 10, "{script}");
    let report = told(
        &folder,
        "perf",
        &["report", "--stdio", "--no-children", "-g", "none", "-F", "sample,sym", "-i", "perf.data"],
    );
    let line = report.lines().find(|line| line.ends_with(" parted.cold"));
    assert!(line.is_some(), "{report}");
}

/// With libgcc's unwinder and with libunwind, with and without symbols and debug information.
pub fn unwinders_pass_cold_parts(gcc: &'static Compiler) {
    let folder = called(gcc);
    told(&folder, "strip", &["-o", "stripped", "used"]);
    let functions = functions(&folder.path().join("used"));
    for program in ["used", "stripped"] {
        let said = told(&folder, &folder.path().join(program).display().to_string(), &["trace"]);
        for unwinder in ["glibc", "libunwind"] {
            let traces: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(unwinder)).collect();
            if traces.is_empty() && unwinder == "libunwind" {
                support::skip_on_this_machine("libunwind.so.8 is not installed");
                continue;
            }
            assert_eq!(traces.len(), 2, "{said}");
            for trace in traces {
                let addresses = trace.split_whitespace().map(hexadecimal);
                // A return address is after its call.
                let names: Vec<&str> = addresses
                    .filter_map(|address| functions.iter().find(|(_, code)| code.contains(&(address - 1))))
                    .map(|(name, _)| name.as_str())
                    .collect();
                let expected = ["stop", "parted.cold", "outer", "main", "_start"];
                assert_eq!(names, expected, "{program}, {unwinder}: {said}");
            }
        }
    }
}

/// Throwing code, handlers and destructors in hot and cold parts, for different recordings, in all modes.
pub fn exceptions_go_between_parts(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("thrown.cc"), THROWN).unwrap();
    let build = |more: &[&str]| {
        let flags = ["-O2", "-g", "-ffunction-sections", "-static", "thrown.cc", "-o"];
        gcc.run(folder.path(), gcc.cxx, &[&flags, more].concat());
    };
    build(&["plain"]);
    build(&["train", &gcc.plugin(), MARKS]);
    let modes: Vec<String> = (0..64).map(|mode| mode.to_string()).collect();
    let expected: Vec<_> = modes.iter().map(|mode| ran(&folder, "plain", &[mode])).collect();
    // Nothing thrown; thrown at once; thrown from the second call on; thrown again by a handler.
    for recorded in ["0", "1", "6", "25"] {
        record(&folder, &[recorded]);
        build(&["used", &gcc.plugin(), COUNTS]);
        let names: Vec<String> =
            functions(&folder.path().join("used")).into_iter().map(|(name, _)| name).collect();
        let is_split = |name: &str| {
            names.iter().any(|other| other.strip_suffix(".cold").is_some_and(|other| other == name))
        };
        for name in ["_Z7throughii", "_Z7catcherIiET_S0_i", "_Z7catcherIsET_S0_i"] {
            // If its second call always throws, what follows the call is likely all the same.
            let is_likely = name == "_Z7throughii" && recorded == "6";
            assert!(is_split(name) || is_likely, "{name}, mode {recorded}");
        }
        for (mode, expected) in modes.iter().zip(&expected) {
            assert_eq!(&ran(&folder, "used", &[mode]), expected, "mode {mode}, recorded {recorded}");
        }
    }
}

/// Functions of `jumps.c` that are split with a recording of its usual paths. Targets of a computed goto, as in
/// `absolute`, stay.
const SPLIT: [&str; 6] = ["apart", "one_goto", "two_gotos", "set", "table_jump", "big"];

/// Computed jumps, `asm goto`, jumps out of functions, functions that never return: with flags that change the code
/// around them.
pub fn whatever_jumps_there_are(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("jumps.c"), JUMPS).unwrap();
    let flags: &[&[&str]] = &[
        &["-O2"],
        // GCC checks its graph, and probabilities against notes, after each pass.
        &["-O2", "-fchecking"],
        &["-O3", "-fchecking", "-fno-omit-frame-pointer", "-fstack-protector-all", "-fcf-protection=full"],
        &["-O2", "-fPIC", "-fexceptions", "-fnon-call-exceptions"],
        &["-O2", "-fno-asynchronous-unwind-tables", "-fno-function-sections", "-gdwarf-2"],
        &["-Os"],
        &["-O2", "-flto"],
    ];
    for flags in flags {
        let build = |more: &[&str]| {
            let all = [&["-w", "-g", "-static", "-ffunction-sections"], *flags, &["jumps.c", "-o"], more];
            gcc.run(folder.path(), gcc.c, &all.concat());
        };
        build(&["plain"]);
        build(&["train", &gcc.plugin(), MARKS]);
        record(&folder, &[]);
        build(&["used", &gcc.plugin(), COUNTS]);
        let names: Vec<String> =
            functions(&folder.path().join("used")).into_iter().map(|(name, _)| name).collect();
        for name in SPLIT {
            let is_split = names.iter().any(|other| *other == format!("{name}.cold"));
            assert_eq!(is_split, flags[0] != "-Os", "{name} {flags:?}");
        }
        for arguments in [&[][..], &["unusual"]] {
            assert_eq!(ran(&folder, "used", arguments), ran(&folder, "plain", arguments), "{flags:?}");
        }
    }
}

/// If the processor requires a landing pad at the target of each indirect jump, cold targets have it, too.
pub fn targets_in_cold_parts_have_marks(gcc: &'static Compiler) {
    let folder = gcc.folder();
    std::fs::write(folder.path().join("jumps.c"), JUMPS).unwrap();
    let flags = ["-w", "-g", "-O2", "-no-pie", "-ffunction-sections", "-fcf-protection=full"];
    let build = |more: &[&str]| gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    build(&[&gcc.plugin(), MARKS, "jumps.c", "-o", "train"]);
    record(&folder, &[]);
    build(&["-c", "jumps.c", "-o", "plain.o"]);
    build(&[&gcc.plugin(), COUNTS, "-c", "jumps.c", "-o", "used.o"]);
    build(&["used.o", "-o", "used"]);
    let notes = |object: &str| told(&folder, "readelf", &["-nW", object]);
    assert!(notes("plain.o").contains("IBT, SHSTK"));
    assert_eq!(notes("used.o").replace("used.o", ""), notes("plain.o").replace("plain.o", ""));
    let output = ran(&folder, "used", &["unusual", "targets"]).0;
    assert_eq!(marked_targets(&output, "fa1e0ff3"), 3);
    // A second return of setjmp is an indirect jump.
    let code = told(&folder, "objdump", &["-d", "--no-show-raw-insn", "used"]);
    let mut lines = code.lines();
    let mut calls = 0;
    while let Some(line) = lines.next() {
        if line.contains("call") && line.contains("_setjmp") {
            assert!(lines.next().unwrap().contains("endbr64"), "{line}");
            calls += 1;
        }
    }
    assert!(calls > 0);
    // The same for AArch64.
    let cross = COMPILERS.iter().find(|compiler| compiler.name == "aarch64-gcc").unwrap();
    let flags =
        ["-w", "-O2", "-static", "-ffunction-sections", "-mbranch-protection=standard", "jumps.c", "-o"];
    cross.run(folder.path(), cross.c, &[&flags[..], &["plain"]].concat());
    cross.run(folder.path(), cross.c, &[&flags[..], &["used", &cross.plugin(), COUNTS]].concat());
    for arguments in [&[][..], &["unusual"]] {
        let emulated =
            |program| told(&folder, "qemu-aarch64", &[&["-cpu", "max", program], arguments].concat());
        assert_eq!(emulated("./used"), emulated("./plain"), "{arguments:?}");
    }
    let output = told(&folder, "qemu-aarch64", &["-cpu", "max", "./used", "unusual", "targets"]);
    assert_eq!(marked_targets(output.as_bytes(), "d503249f"), 3);
}

/// Number of targets that the program `used` prints; all begin with the landing pad.
fn marked_targets(output: &[u8], mark: &str) -> usize {
    let output = String::from_utf8_lossy(output);
    let targets: Vec<&str> =
        output.lines().filter_map(|line| line.split_once(' ')).map(|(_, first)| first).collect();
    assert!(targets.iter().all(|first| *first == mark), "{output}");
    targets.len()
}
