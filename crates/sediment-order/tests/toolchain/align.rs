// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of where real linkers put a hot block with an alignment.

use libtest_mimic::Trial;
use sediment_core::Skipped;
use sediment_core::binary::{Binary, NoFiles};
use sediment_core::callgraph::{CallGraph, GroupKind, Order};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::FunctionKey;
use sediment_order::link;
use sediment_order::order::BuiltGraph;
use std::path::Path;
use std::process::Command;
use support::{Need, case, linker_folder};

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case("align: GNU ld, by a script", &[Need::Program("gcc")], || {
            hot_block_is_aligned("gnu-ld-script", &[], "-Wl,-T,order");
        }),
        case(
            "align: GNU ld 2.44, by an ordering file",
            &[Need::Program("gcc"), Need::LinkerFolder("gnu-ld-2.44")],
            || {
                let folder = format!("-B{}", linker_folder("gnu-ld-2.44").unwrap().display());
                hot_block_is_aligned("gnu-ld", &[&folder], "-Wl,--section-ordering-file,order");
            },
        ),
        case("align: lld, by a script of GNU ld", &[Need::Program("gcc"), Need::LinkerFolder("lld")], || {
            let folder = format!("-B{}", linker_folder("lld").unwrap().display());
            hot_block_is_aligned("gnu-ld-script", &[&folder, "-fuse-ld=lld"], "-Wl,-T,order");
        }),
    ]
}

/// Links four functions, of which the third is the first hot one, and checks its address.
fn hot_block_is_aligned(dialect: &str, linker_arguments: &[&str], hand_over: &str) {
    const ALIGNMENT: u64 = 2 << 20;
    let folder = tempfile::tempdir().unwrap();
    let names = ["early", "late", "hot_one", "hot_two"];
    let mut code = String::from("volatile int sink;\n");
    for name in names {
        code += &format!("__attribute__((noinline)) int {name}(int x) {{ sink += x; return sink; }}\n");
    }
    code += "int main(int n, char **v) { return early(n) + late(n) + hot_two(n) + hot_one(n) == 7; }\n";
    std::fs::write(folder.path().join("code.c"), code).unwrap();
    let keys = names.map(|name| FunctionKey { dso: None, name: name.to_owned(), file: None }).to_vec();
    let graph = CallGraph::new(vec![16; 4], vec![1; 4], Vec::new()).unwrap();
    let order = Order::of(GroupKind::Hot, graph.ids().collect());
    let built = BuiltGraph {
        graph,
        table: FunctionTable { keys, ..Default::default() },
        skipped: Skipped::default(),
        is_in_input_order: false,
    };
    let (placements, _) = link::placements(&order, &built, None, false);
    let linker = link::linker(dialect).unwrap();
    let (text, _) = (linker.write)(&placements);
    let text = link::aligned(linker, &text, placements[2..].iter(), ALIGNMENT).unwrap();
    std::fs::write(folder.path().join("order"), &text).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-ffunction-sections", "code.c", "-o", "program"]).args(linker_arguments);
    let linked = compiler.arg(hand_over).current_dir(folder.path()).output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));

    let binary = read(&folder.path().join("program"));
    let address =
        |name: &str| binary.functions.iter().find(|function| function.name == name).unwrap().address;
    assert_eq!(address("hot_one") % ALIGNMENT, 0, "{text}");
    let placed = names.map(address);
    assert!(placed.is_sorted(), "{placed:x?}");
    assert_eq!(Command::new(folder.path().join("program")).status().unwrap().code(), Some(0));
}

fn read(path: &Path) -> Binary {
    Binary::parse(&std::fs::read(path).unwrap(), &NoFiles).unwrap()
}
