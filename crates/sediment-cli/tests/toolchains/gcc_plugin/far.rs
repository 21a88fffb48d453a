// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a function that are more than 128 MiB apart on AArch64: linkers put veneers in front of the jumps between
//! them, which change two registers and jump indirectly.

use super::blocks::{COUNTS, MARKS};
use super::split::symbols;
use crate::compilers::{COMPILERS, Compiler};
use sediment_core::binary::{Binary, NoFiles, gcc_block_map};
use std::process::Command;
use tempfile::TempDir;

/// Links with `work` 160 MiB behind everything else, and returns the output of the program.
fn ran(cross: &Compiler, folder: &TempDir, object: &str) -> Vec<u8> {
    let rename = ["--rename-section", ".text.work=far", object, "apart.o"];
    cross.run(folder.path(), "aarch64-linux-gnu-objcopy", &rename);
    let link = ["-nostdlib", "-static", "-Wl,--section-start=far=0xa400000", "apart.o", "-o", "apart"];
    cross.run(folder.path(), cross.c, &link);
    let mut emulated = Command::new("qemu-aarch64");
    let output = emulated.current_dir(folder.path()).args(["-cpu", "max", "./apart"]).output().unwrap();
    assert!(output.status.success(), "{object}: {output:?}");
    output.stdout
}

/// Promise to users: the distance of cold parts changes no result, and no landing pad is missing, whichever block is cold.
pub fn parts_may_be_far_apart_in_cross_builds(gcc: &'static Compiler) {
    let folder = gcc.folder();
    let cross = COMPILERS.iter().find(|compiler| compiler.name == "aarch64-gcc").unwrap();
    let plugin = cross.plugin();
    std::fs::write(folder.path().join("far.c"), include_str!("far.c")).unwrap();
    for protection in ["none", "standard"] {
        let protection = format!("-mbranch-protection={protection}");
        let flags = [
            "-O2",
            "-ffreestanding",
            "-fno-tree-vectorize",
            "-ffunction-sections",
            "-c",
            "far.c",
            &protection,
            "-o",
        ];
        let compile = |more: &[&str]| cross.run(folder.path(), cross.c, &[&flags, more].concat());
        compile(&["plain.o"]);
        let expected = ran(cross, &folder, "plain.o");
        assert_eq!(expected.len(), 8);
        compile(&["numbered.o", &plugin, MARKS]);
        assert_eq!(ran(cross, &folder, "numbered.o"), expected);
        let bytes = std::fs::read(folder.path().join("apart")).unwrap();
        let binary = Binary::parse(&bytes, &NoFiles).unwrap();
        let begin = binary.functions.iter().find(|function| function.name == "work").unwrap().address;
        let map = gcc_block_map::read(&bytes).unwrap().unwrap();
        let work = map.iter().find(|function| function.code[0].address == begin).unwrap();
        let mut split = 0;
        for cold in 2..=work.signatures.len() {
            let counts = |block: usize| format!("{block}={}", if block == cold { 0 } else { 9000 });
            let counts: Vec<String> = (1..=work.signatures.len()).map(counts).collect();
            let text = format!("sediment-blocks 2\nwork\t\t{:08x}\t{}\n", work.graph, counts.join(" "));
            std::fs::write(folder.path().join("blocks"), text).unwrap();
            compile(&["used.o", &plugin, COUNTS]);
            let has_part = symbols(&folder, "used.o").iter().any(|(name, _)| name == "work.cold");
            split += usize::from(has_part);
            assert_eq!(ran(cross, &folder, "used.o"), expected, "block {cold}, {protection}");
        }
        assert!(split > 0, "{protection}: {work:?}");
    }
}
