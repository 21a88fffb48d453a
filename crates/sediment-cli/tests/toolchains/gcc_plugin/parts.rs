// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a file of counts that a unit reads, and parts of functions: their sizes in an order, and annocheck's
//! results.

use crate::compilers::Compiler;
use crate::gcc_plugin::blocks::{COUNTS, MARKS, recorded, sources};
use crate::gcc_plugin::{has, read};
use crate::running::{done, err, sediment};
use std::fmt::Write as _;
use std::process::Command;

/// Number of bytes that the compiler read from the file of counts, from a log of its system calls.
fn bytes_read(calls: &str) -> usize {
    let reads = calls.lines().filter(|line| line.starts_with("read(") || line.starts_with("pread64("));
    reads.filter_map(|line| line.rsplit_once(" = ")?.1.parse::<usize>().ok()).sum()
}

/// Counts of many other functions, before and after the unit's.
pub fn a_unit_reads_its_part_of_the_counts(gcc: &'static Compiler) {
    let folder = sources(gcc);
    let counts = recorded(gcc, &folder, "work.c");
    let flags = ["-O2", "-g", "-ffunction-sections", &gcc.plugin(), COUNTS, "-S", "work.c"];
    let compile = |more: &[&str], output: &str| {
        gcc.run(folder.path(), gcc.c, &[&flags, more, &["-o", output]].concat());
        read(&folder, output)
    };
    let by_few = compile(&[], "few.s");
    assert!(by_few.contains("work.cold:"), "{by_few}");
    let (header, own) = counts.split_once('\n').unwrap();
    let mut lines: Vec<String> = own.lines().map(str::to_owned).collect();
    for number in 0..30_000 {
        lines.push(format!("a_{number}\t\t00000001\t1=7 2=? 3=9@00c3"));
        lines.push(format!("z_{number}\tother.c\t00000001\t1=7 2=? 3=9@00c3"));
    }
    // A line that is longer than the amount read at once.
    let blocks = (1..3000).fold(String::new(), |mut blocks, block| {
        let _ = write!(blocks, "{block}=1 ");
        blocks
    });
    lines.extend(
        ["never_0\t", "worker\t", "worj\t"].map(|name| format!("{name}\t00000001\t{}", blocks.trim_end())),
    );
    lines.sort();
    let many = format!("{header}\n{}\n", lines.join("\n"));
    std::fs::write(folder.path().join("blocks"), &many).unwrap();
    let file = folder.path().join("blocks").canonicalize().unwrap().display().to_string();
    // GCC splits the words at commas.
    let wrapper = format!("strace,-o,calls,-s,0,-P,{file}");
    let by_many = compile(&["-wrapper", &wrapper], "many.s");
    assert!(by_many == by_few);
    let calls = read(&folder, "calls");
    let bytes = bytes_read(&calls);
    assert!(!calls.contains("mmap("), "{calls}");
    assert!(bytes > 0 && bytes < many.len() / 10, "{bytes} of {}: {calls}", many.len());
}

/// In an order for a program with cold parts, functions have the size of their hot parts.
pub fn functions_have_the_size_of_their_hot_part(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let build = |more: &[&str], program: &str| {
        let flags = ["-O2", "-g", "-ffunction-sections", "-static", "work.c", "-o", program];
        gcc.run(folder.path(), gcc.c, &[&flags, more].concat());
    };
    build(&[], "plain");
    build(&[&gcc.plugin(), COUNTS, MARKS], "used");
    let sizes = |program: &str, name: &str| {
        let symbols = Command::new("nm").arg("-S").arg(folder.path().join(program)).output().unwrap();
        let symbols = String::from_utf8(symbols.stdout).unwrap();
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}")));
        line.map_or(0, |line| u64::from_str_radix(line.split(' ').nth(1).unwrap(), 16).unwrap())
    };
    let (whole, hot, cold) = (sizes("plain", "work"), sizes("used", "work"), sizes("used", "work.cold"));
    assert!(sizes("plain", "work.cold") == 0 && cold > 0 && hot < whole, "{whole} {hot} {cold}");
    for (program, size) in [("plain", whole), ("used", hot)] {
        let order =
            ["order", "p.gv", "--binary", program, "--linker", "lld", "--explain", "work", "-o", "order"];
        let output = sediment(folder.path(), &order);
        done(&output);
        has(&err(&output), &[&format!(", {size} bytes, ")]);
    }
}

/// annocheck, which Fedora runs on its packages, with notes in annobin's format about how functions were compiled.
pub fn annocheck_says_the_same(gcc: &'static Compiler) {
    let folder = sources(gcc);
    recorded(gcc, &folder, "work.c");
    let flags = [
        "-O2",
        "-g",
        "-ffunction-sections",
        "-fcf-protection=full",
        "-fstack-protector-strong",
        "-fPIE",
        "-pie",
    ];
    let said = |more: &[&str]| {
        gcc.run(folder.path(), gcc.c, &[&flags, more, &["-Wl,-z,now", "work.c", "-o", "checked"]].concat());
        let checked =
            Command::new("annocheck").current_dir(folder.path()).args(["--verbose", "checked"]).output();
        let checked = checked.unwrap();
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        // Addresses change with the code.
        let lines = text.lines().filter(|line| line.contains("Hardened: ") && !line.contains("0x"));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        assert!(lines.len() > 10, "{text}");
        (lines, checked.status.code())
    };
    let stock = said(&[]);
    assert_eq!(said(&[&gcc.plugin(), MARKS]), stock);
    assert_eq!(said(&[&gcc.plugin(), COUNTS, MARKS]), stock);
}
