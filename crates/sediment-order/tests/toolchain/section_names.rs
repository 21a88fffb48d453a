// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests every sort of function that compilers give a section of its own: the compiled objects have the sections that
//! `names` expects, and are read correctly.

use super::link::run;
use libtest_mimic::Trial;
use sediment_core::binary::names;
use sediment_core::binary::objects::{ArchiveUse, InputObjects};
use std::process::Command;
use support::{self, Need, case};

pub(crate) fn cases() -> Vec<Trial> {
    let mut cases = Vec::new();
    for sort in SORTS {
        for (compiler, options) in sort.compilers {
            let name = format!("section_names::{}::{compiler}", sort.name);
            let need = match in_the_tree(compiler) {
                Some(_) => Need::LinkerFolder(GCC_14),
                None => Need::Program(compiler),
            };
            cases.push(case(&name, &[need], || {
                functions_lie_where_their_names_say(sort, compiler, options);
            }));
        }
    }
    let needs = [Need::Program("gcc"), Need::Program("ar")];
    cases.push(case("section_names::thin_archives", &needs, thin_archives_are_read_as_others));
    let needs = [Need::Program("gcc"), Need::Program("ar"), Need::Program("nm")];
    cases.push(case("section_names::members_of_archives", &needs, members_come_in_the_order_of_the_linker));
    cases
}

/// An archive whose members need earlier and later members; some are not linked at all.
fn members_come_in_the_order_of_the_linker() {
    const COUNT: usize = 16;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("main.c", "int f4(int); int main(int n, char **v) { return f4(n); }\n");
    let mut names = Vec::new();
    for number in 0..COUNT {
        let called = [(number * 4 + 5) % COUNT, (number * 6 + 2) % COUNT].map(|called| format!("f{called}"));
        // Data refers to the first function.
        let [first, second] = &called;
        let text = format!(
            "int {first}(int), {second}(int); int (*p{number})(int) = {first};\n\
             int f{number}(int x) {{ return x ? {second}(x - 1) + 1 : p{number} == 0; }}\n"
        );
        let name = format!("m{number}.c");
        write(&name, &text);
        names.push(name);
    }
    let objects: Vec<String> = names.iter().map(|name| name.replace(".c", ".o")).collect();
    let gcc = |arguments: &[&str]| run(Command::new("gcc").args(arguments).current_dir(folder));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    gcc(&[&["-c", "-O1", "-ffunction-sections", "main.c"][..], &names].concat());
    run(Command::new("ar").arg("crs").arg("full.a").args(&objects).current_dir(folder));
    run(Command::new("ar").arg("crsT").arg("thin.a").args(&objects).current_dir(folder));
    for (archive, options, archive_use, required) in [
        ("full.a", &["full.a"][..], ArchiveUse::Needed, None),
        ("thin.a", &["thin.a"], ArchiveUse::Needed, None),
        ("full.a", &["-Wl,-u,f1", "full.a"], ArchiveUse::Needed, Some("f1")),
        ("full.a", &["-Wl,--whole-archive", "full.a", "-Wl,--no-whole-archive"], ArchiveUse::Whole, None),
    ] {
        gcc(&[&["-fuse-ld=bfd", "-o", "program", "main.o"], options].concat());
        let listed = run(Command::new("nm").args(["-n", "--defined-only", "program"]).current_dir(folder));
        let linked: Vec<&str> =
            listed.lines().filter_map(|line| line.split_once(" T f").map(|(_, number)| number)).collect();
        let mut objects = InputObjects::default();
        if let Some(symbol) = required {
            objects.require(symbol.as_bytes());
        }
        let mut add = |name: &str| {
            let bytes = std::fs::read(folder.join(name)).unwrap();
            let member = |name: &str| std::fs::read(folder.join(name)).ok();
            objects.add_with_members(name, &bytes, false, archive_use, &member);
        };
        add("main.o");
        add(archive);
        let read: Vec<&str> = objects.functions.iter().filter_map(|f| f.name.strip_prefix('f')).collect();
        assert_eq!(read.len(), COUNT, "{options:?}");
        assert_eq!(read[..linked.len()], linked, "{options:?}");
        let is_whole = archive_use == ArchiveUse::Whole;
        assert_eq!(
            (linked.len() == COUNT, read.is_sorted_by_key(|f| f.parse::<usize>().unwrap())),
            (is_whole, is_whole)
        );
    }
}

/// Thin archives are Meson's default for static libraries inside a project.
fn thin_archives_are_read_as_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("sub")).unwrap();
    std::fs::write(folder.join("sub/a.c"), "int f(int x) { return x; }\nint g(int x) { return f(x) + 1; }\n")
        .unwrap();
    let compile = ["-c", "-O1", "-ffunction-sections", "-o", "sub/a.o", "sub/a.c"];
    run(Command::new("gcc").args(compile).current_dir(folder));
    run(Command::new("ar").args(["crs", "full.a", "sub/a.o"]).current_dir(folder));
    run(Command::new("ar").args(["crsT", "thin.a", "sub/a.o"]).current_dir(folder));
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let functions = |archive: &str| {
        let mut objects = InputObjects::default();
        objects.add_with_members(archive, &read(archive), false, ArchiveUse::Needed, &|member| {
            std::fs::read(folder.join(member)).ok()
        });
        assert_eq!(objects.unknown, 0, "{archive}");
        objects.functions.iter().map(|f| (f.name.clone(), f.section.clone())).collect::<Vec<_>>()
    };
    assert_eq!(functions("thin.a"), functions("full.a"));
    assert_eq!(functions("thin.a").len(), 2);
    let mut objects = InputObjects::default();
    objects.add("thin.a", &read("thin.a"), false);
    assert!(objects.unknown > 0 && objects.functions.is_empty());
}

/// The folder of this compiler in the tree of `scripts/toolchain`, and its name in these tests.
const GCC_14: &str = "gcc-14";
const OF_GCC_14: [(&str, &str); 2] = [("gcc-14", "gcc"), ("g++-14", "g++")];

/// Returns the name of the compiler's program in that folder.
fn in_the_tree(compiler: &str) -> Option<&'static str> {
    OF_GCC_14.iter().find(|(name, _)| *name == compiler).map(|(_, program)| *program)
}

/// A source, and those of its functions that must be found.
struct Sort {
    name: &'static str,
    ending: &'static str,
    compilers: &'static [(&'static str, &'static [&'static str])],
    source: &'static str,
    /// Names, or beginnings of names, which end in `*`.
    functions: &'static [&'static str],
}

const C: &[(&str, &[&str])] = &[
    ("gcc", &["-c", "-O2", "-ffunction-sections"]),
    ("gcc-14", &["-c", "-O2", "-ffunction-sections"]),
    ("clang-19", &["-c", "-O2", "-w", "-ffunction-sections"]),
];
const CXX: &[(&str, &[&str])] = &[
    ("g++", &["-c", "-O2", "-ffunction-sections"]),
    ("g++-14", &["-c", "-O2", "-ffunction-sections"]),
    ("clang-19", &["-c", "-O2", "-w", "-ffunction-sections"]),
];

const SORTS: &[Sort] = &[
    Sort {
        name: "c",
        ending: "c",
        compilers: C,
        source: "
            #include <stdlib.h>
            #define FN __attribute__((noinline))
            extern int sink, puts(const char *);
            FN int plain(int x) { return x * 3 + sink; }
            static FN int local(int x) { sink += x; return x ^ 5; }
            __attribute__((hot)) FN int warm(int x) { return local(x) + 1; }
            __attribute__((cold)) FN int chilly(int x) { puts(\"c\"); return x; }
            __attribute__((constructor)) void begin(void) { sink = 1; }
            __attribute__((destructor)) void end(void) { puts(\"e\"); }
            FN int parted(int x) { if (x == 77) { puts(\"never\"); chilly(x); abort(); } return local(x + 1); }
            extern int also(int x) __attribute__((alias(\"plain\")));
            static int (*choose(void))(int) { return sink ? plain : warm; }
            int chosen(int x) __attribute__((ifunc(\"choose\")));
            __attribute__((weak)) int feeble(int x) { return x - 2; }
            int main(int argc, char **argv) { return parted(argc) + also(argc) + chosen(argc) + feeble(argc); }",
        functions: &["plain", "local", "warm", "chilly", "begin", "end", "parted", "also", "choose", "feeble", "main"],
    },
    Sort {
        name: "c++",
        ending: "cc",
        compilers: CXX,
        source: "
            #include <stdexcept>
            extern int sink;
            struct Base { virtual ~Base(); virtual int step(int); int x; Base(int); };
            Base::Base(int x) : x(x) { sink += x; }
            Base::~Base() { sink -= 1; }
            int Base::step(int y) { return x + y; }
            struct Deep : virtual Base { Deep(); int step(int) override; };
            Deep::Deep() : Base(3) { sink++; }
            int Deep::step(int y) { return y * 2; }
            template <int N> __attribute__((noinline)) int times(int x) { sink += N; return x * N; }
            namespace { __attribute__((noinline)) int hidden(int x) { sink += x; return x / 3; } }
            static struct Begin { Begin() { sink = times<3>(4); } } at_start;
            int caller(int x) {
              auto each = [x](int y) __attribute__((noinline)) { sink += y; return x * y; };
              try { return each(times<5>(x)) + hidden(x); } catch (const std::exception &) { return 1; }
            }",
        functions: &[
            "_ZN4BaseC1Ei", "_ZN4BaseC2Ei", "_ZN4BaseD0Ev", "_ZN4BaseD2Ev", "_ZN4Base4stepEi", "_ZN4DeepC1Ev", "_ZN4DeepC2Ev", "_ZTv0_*",
            "_Z5timesILi5EEii", "_ZN12_GLOBAL__N_1*", "_GLOBAL__sub_I_*", "_ZZ6calleriENK*", "_Z6calleri",
        ],
    },
    Sort {
        name: "fortran",
        ending: "f90",
        compilers: &[("gfortran", &["-c", "-O2", "-ffunction-sections"])],
        source: "
module m
contains
  recursive integer function fact(n) result(r)
    integer, intent(in) :: n
    r = 1
    if (n > 1) r = n * fact(n - 1)
  end function
end module
subroutine outside(x)
  integer :: x
  x = x + 1
end subroutine
program p
  use m
  integer :: i
  i = command_argument_count()
  call outside(i)
  print *, fact(i + 5)
end program",
        functions: &["__m_MOD_fact", "outside_", "MAIN__", "main"],
    },
    Sort {
        name: "rust",
        ending: "rs",
        compilers: &[("rustc", &["--edition", "2021", "--crate-type", "lib", "--emit", "obj", "-O", "-C", "codegen-units=1"])],
        source: "
            #[inline(never)] pub fn alpha(x: u64) -> u64 { x.wrapping_mul(3) + beta(x) }
            #[inline(never)] fn beta(x: u64) -> u64 { std::hint::black_box(x) ^ 5 }
            #[cold] #[inline(never)] pub fn chilly(x: u64) -> u64 { println!(\"{x}\"); x }
            #[no_mangle] pub extern \"C\" fn exported(x: u64) -> u64 { alpha(x) }
            pub struct Held(pub Vec<u8>);
            impl Drop for Held { #[inline(never)] fn drop(&mut self) { std::hint::black_box(self.0.len()); } }",
        functions: &["exported", "_ZN*alpha*", "_ZN*beta*", "_ZN*chilly*"],
    },
    Sort {
        name: "assembler",
        ending: "s",
        compilers: &[("gcc", &["-c"]), ("gcc-14", &["-c"]), ("clang-19", &["-c"])],
        source: "
            .section .text.typed,\"ax\",@progbits
            .globl typed
            .type typed, @function
            typed: ret
            .size typed, .-typed
            .section .text.untyped,\"ax\",@progbits
            .globl untyped
            untyped: ret\n",
        functions: &["typed", "untyped"],
    },
];

fn functions_lie_where_their_names_say(sort: &Sort, compiler: &str, options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("source.{}", sort.ending));
    std::fs::write(&source, sort.source).unwrap();
    let object = folder.path().join("object.o");
    let program = match in_the_tree(compiler) {
        Some(program) => support::linker_folder(GCC_14).unwrap().join(program),
        None => compiler.into(),
    };
    run(Command::new(program).args(options).arg("-o").arg(&object).arg(&source).current_dir(folder.path()));
    let mut objects = InputObjects::default();
    objects.add("object.o", &std::fs::read(&object).unwrap(), false);
    assert!(objects.complete());
    for wanted in sort.functions {
        let parts: Vec<&str> = wanted.split('*').collect();
        let is_wanted = |name: &str| match parts.as_slice() {
            [whole] => name == *whole,
            [begin, rest @ ..] => name.starts_with(begin) && rest.iter().all(|part| name.contains(part)),
            [] => false,
        };
        let found: Vec<_> = objects
            .functions
            .iter()
            .filter(|function| is_wanted(&function.name) && names::split_from(&function.name).is_none())
            .collect();
        assert!(!found.is_empty(), "{compiler}: no {wanted} among {:?}", objects.names());
        for function in found {
            let sections = |name: &str| names::sections(name, Some(false)).own;
            let same_place = objects.functions.iter().filter(|other| other.section == function.section);
            // Clang puts the start-up code of a file into one section, and a section may be named after any name of a
            // function. If no name fits, the function is found by its actual section.
            let expected = same_place.clone().any(|other| sections(&other.name).contains(&function.section));
            let together =
                function.name.starts_with("_GLOBAL__sub_I_") && function.section == ".text.startup";
            assert!(expected || together, "{compiler}: {} lies in {}", function.name, function.section);
        }
    }
}
