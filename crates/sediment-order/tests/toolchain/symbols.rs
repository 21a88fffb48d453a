// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the symbols of real files with the output of the GNU tools: linkage stubs of another architecture, and the
//! variants of an indirect function.

use libtest_mimic::Trial;
use sediment_core::binary::objects::InputObjects;
use sediment_core::binary::{Binary, NoFiles, SymbolSource};
use std::path::Path;
use std::process::Command;
use support::{Need, case, linker_folder};

pub(crate) fn cases() -> Vec<Trial> {
    vec![
        case(
            "symbols::stubs_on_aarch64_are_named_as_objdump_names_them",
            &[Need::Program("aarch64-linux-gnu-gcc"), Need::Program("aarch64-linux-gnu-objdump")],
            || stubs_as_objdump("aarch64-linux-gnu-", &AARCH64),
        ),
        case(
            "symbols::stubs_here_are_named_as_objdump_names_them",
            &[Need::Program("gcc"), Need::Program("objdump")],
            || stubs_as_objdump("", &HERE),
        ),
        case(
            "symbols::a_call_of_an_indirect_function_is_the_call_of_its_variant",
            &[Need::Program("gcc"), Need::Program("valgrind")],
            indirect_functions,
        ),
        case(
            "symbols::assembler_code_without_types_has_functions",
            &[Need::Program("gcc"), Need::Program("nm"), Need::Program("strip")],
            assembler_code_without_types,
        ),
        case(
            "symbols::units_joined_by_ld_r_keep_their_local_functions_apart",
            &[Need::Program("gcc"), Need::Program("ld.gold"), Need::LinkerFolder("lld")],
            units_joined_by_ld_r,
        ),
    ]
}

/// A local function with the same name in two units of C and in one of assembler code, which names no source file.
fn units_joined_by_ld_r() {
    let folder = tempfile::tempdir().unwrap();
    let unit = |factor: u32, name: &str| {
        format!(
            "static __attribute__((noinline)) int twin(int x) {{ return x * {factor}; }}\nint {name}(int x) {{ return twin(x) + 1; }}\n"
        )
    };
    let assembler = "    .section .text.twin,\"ax\",@progbits\n    .type twin,@function\ntwin: ret\n    .size twin,.-twin\n    .section .note.GNU-stack\n";
    let main = "int a(int), b(int);\nint main(int n, char **w) { (void)w; return a(n) + b(n); }\n";
    for (name, text) in [("a.c", unit(3, "a")), ("s.s", assembler.to_owned()), ("b.c", unit(5, "b") + main)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = |program: &Path, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).current_dir(folder.path()).status().unwrap();
        assert!(status.success(), "{program:?} {arguments:?}");
    };
    run(Path::new("gcc"), &["-O1", "-ffunction-sections", "-c", "a.c", "s.s", "b.c"]);
    let lld = linker_folder("lld").unwrap();
    let linkers = [("ld.bfd".into(), "bfd"), ("ld.gold".into(), "gold"), (lld.join("ld.lld"), "lld")];
    let own_folder = format!("-B{}", lld.display());
    for (joins, by) in &linkers {
        run(joins, &["-r", "a.o", "s.o", "b.o", "-o", "joined.o"]);
        for (_, linker) in &linkers {
            run(Path::new("gcc"), &[&format!("-fuse-ld={linker}"), &own_folder, "joined.o", "-o", "prog"]);
            let bytes = std::fs::read(folder.path().join("prog")).unwrap();
            let binary = Binary::parse(&bytes, &NoFiles).unwrap();
            let files: Vec<Option<&str>> = binary
                .functions
                .iter()
                .filter(|function| function.name == "twin")
                .map(|function| function.file.as_deref())
                .collect();
            // For a unit without a source file, GNU ld uses the name of the object.
            let second = (*by == "bfd").then_some("s.o");
            assert_eq!(files, [Some("a.c"), second, Some("b.c")], "joined by {by}, linked by {linker}");
        }
        let mut objects = InputObjects::default();
        objects.add("joined.o", &std::fs::read(folder.path().join("joined.o")).unwrap(), false);
        let twins = objects.functions.iter().filter(|function| function.name == "twin");
        let files: Vec<Option<&str>> = twins.map(|function| function.file.as_deref()).collect();
        assert_eq!(files, [Some("a.c"), (*by == "bfd").then_some("s.o"), Some("b.c")], "joined by {by}");
    }
}

/// Functions and labels of assembler code without a type, and a function with one.
const UNTYPED: &str = "
    .text
    .globl _start, sized, unsized, entry
_start:
    call sized
inner:
    ret
    .size _start, .-_start
sized:
    call unsized
    ret
    .size sized, .-sized
local_sized:
    ret
    .size local_sized, .-local_sized
local_unsized:
    ret
unsized:
.Llabel:
    ret
    .type typed, @function
    .globl typed
typed:
    nop
entry:
    ret
    .size typed, .-typed
    .data
    .globl number
number:
    .long 5
";

fn assembler_code_without_types() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.s"), UNTYPED).unwrap();
    let link = Command::new("gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([path("a"), path("a.s")])
        .status()
        .unwrap();
    assert!(link.success());
    let binary = Binary::parse(&std::fs::read(path("a")).unwrap(), &NoFiles).unwrap();
    let read: Vec<(&str, u64, bool)> = binary
        .functions
        .iter()
        .map(|function| (function.name.as_str(), function.size, function.untyped))
        .collect();
    let expected = [
        ("_start", 6, true),
        ("sized", 6, true),
        ("local_sized", 1, true),
        ("unsized", 0, true),
        ("typed", 2, false),
    ];
    assert_eq!(read, expected);
    // nm also takes them for code, at the same addresses.
    let listed = Command::new("nm").arg(path("a")).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for function in &binary.functions {
        let row = format!("{:016x} T {}", function.address, function.name);
        let local = format!("{:016x} t {}", function.address, function.name);
        assert!(listed.lines().any(|line| line == row || line == local), "{row}\n{listed}");
    }
    // A file without these symbols counts as stripped, as does a file with symbols of data only.
    let strip = Command::new("strip").arg(path("a")).status().unwrap();
    assert!(strip.success());
    let stripped = Binary::parse(&std::fs::read(path("a")).unwrap(), &NoFiles).unwrap();
    assert_eq!((stripped.functions.len(), stripped.symbols_from), (0, SymbolSource::DynamicSymbols));
}

const AARCH64: [&[&str]; 5] = [
    &[],
    &["-Wl,-z,now"],
    &["-fno-pie", "-no-pie"],
    &["-mbranch-protection=standard", "-Wl,-z,force-bti"],
    &["-mbranch-protection=standard", "-Wl,-z,force-bti", "-Wl,-z,pac-plt", "-fno-pie", "-no-pie"],
];
const HERE: [&[&str]; 5] = [
    &[],
    &["-Wl,--emit-relocs"],
    &["-Wl,-z,now"],
    &["-fno-pie", "-no-pie"],
    &["-fcf-protection=full", "-Wl,-z,ibtplt"],
];

/// The program uses no library, because a compiler for another machine may have none.
const PROGRAM: &str = r#"
extern int work(int), work_too(int), work_late(int);
int (*volatile taken)(int) = work_too;
void _start(void) {
    for (volatile int x = taken(1); x < 10; x++) work(x) || work_too(x) || work_late(x);
    for (;;) {}
}
"#;
const LIBRARY: &str = r#"
__attribute__((noinline)) int inside(int x) { return x ^ 5; }
int work(int x) { return inside(x) + 1; }
int work_too(int x) { return inside(x) + 2; }
int work_late(int x) { return work(x) + 3; }
"#;

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stubs_as_objdump(prefix: &str, options: &[&[&str]]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("program.c"), PROGRAM).unwrap();
    std::fs::write(folder.join("library.c"), LIBRARY).unwrap();
    let compiler = format!("{prefix}gcc");
    run(&compiler, &["-O1", "-nostdlib", "-shared", "-fPIC", "library.c", "-o", "libwork.so"], folder);
    for more in options {
        run(
            &compiler,
            &[&["-O1", "-nostdlib", "program.c", "./libwork.so", "-o", "program"], *more].concat(),
            folder,
        );
        for file in ["program", "libwork.so"] {
            let binary = Binary::parse(&std::fs::read(folder.join(file)).unwrap(), &NoFiles).unwrap();
            let mut known = 0;
            for line in run(&format!("{prefix}objdump"), &["-d", file], folder).lines() {
                let Some((address, name)) =
                    line.split_once(" <").filter(|(_, name)| name.ends_with("@plt>:"))
                else {
                    continue;
                };
                let address = u64::from_str_radix(address, 16).unwrap();
                let name = name.trim_end_matches("@plt>:").split('@').next().unwrap();
                assert_eq!(binary.plt_target(address), Some(name), "{file} {more:?} at {address:#x}");
                known += 1;
            }
            assert!(known >= 2, "{file} {more:?}: {known} stubs");
        }
    }
}

/// The resolver chooses once, at the start. Then the chosen variant runs, under its own name.
fn indirect_functions() {
    const SOURCE: &str = r#"
__attribute__((noinline)) static int variant_one(int x) { return x + 1; }
__attribute__((noinline)) static int variant_two(int x) { return x + 2; }
static int (*choose(void))(int) { return sizeof(long) == 8 ? variant_two : variant_one; }
int chosen(int) __attribute__((ifunc("choose")));
int main(void) {
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += chosen(i);
    return sum == 0;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("program.c"), SOURCE).unwrap();
    run("gcc", &["-O1", "-g", "program.c", "-o", "program"], folder);
    run("valgrind", &["--tool=callgrind", "--callgrind-out-file=out", "./program"], folder);
    let program = std::fs::read(folder.join("program")).unwrap();
    let binary = Binary::parse(&program, &NoFiles).unwrap();
    let stub = binary.plt_stubs.iter().find(|stub| stub.target == "chosen");
    assert!(stub.is_some(), "the stub of an indirect function has its name: {:?}", binary.plt_stubs);

    let recording = support::read(&std::fs::read(folder.join("out")).unwrap()).unwrap();
    let (profile, _) = sediment_read::resolve::resolve(&recording, &NoFiles).unwrap();
    let named = |name: &str| profile.functions().into_iter().find(|f| profile.key(*f).name == name).unwrap();
    let (main, variant) = (named("main"), named("variant_two"));
    let calls = profile.edges().into_iter().find(|(from, to, _)| (*from, *to) == (main, variant));
    assert_eq!(calls.and_then(|(_, _, facts)| facts.count), Some(1000));
    let to_resolver = profile
        .edges()
        .into_iter()
        .any(|(from, to, _)| from == main && matches!(profile.key(to).name.as_str(), "chosen" | "choose"));
    assert!(!to_resolver, "main calls the variant, not the resolver");
}
