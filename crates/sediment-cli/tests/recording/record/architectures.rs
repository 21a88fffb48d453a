// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of other architectures than the recorder's: 32-bit x86 programs, and files that the kernel does not start.
//! They behave as without a recorder, and a message reports that they were not recorded.

use super::{RecordingFolder, code, err, firsts, repeated, repeats, text};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{self, Need, case};

pub fn cases() -> Vec<Trial> {
    let tools = [Need::Program("cc"), Need::Program("as"), Need::Program("ld")];
    vec![
        repeated("programs_of_32_bits_run_unrecorded", &tools, programs_of_32_bits_run_unrecorded),
        repeated("execs_of_32_bits_and_back", &tools, execs_of_32_bits_and_back),
        case("execs_of_another_machine_fail_as_without", &tools, execs_of_another_machine_fail_as_without),
    ]
}

/// A static 32-bit program: calls functions, forks a child that does the same, and exits with 7. It executes its
/// argument if it has one.
const OF_32_BITS: &str = r#"
.text
.globl _start
.type _start, @function
_start:
    movl 8(%esp), %esi          # the first argument
    call work
    movl $2, %eax               # fork
    int $0x80
    testl %eax, %eax
    jz child
    movl %eax, %ebx             # waitpid
    movl $0, %ecx
    movl $0, %edx
    movl $7, %eax
    int $0x80
    testl %esi, %esi
    jz parent
    pushl $0
    pushl %esi
    movl %esp, %ecx             # execve, without an environment
    movl %esi, %ebx
    movl $0, %edx
    movl $11, %eax
    int $0x80
parent:
    call write
    movl $7, %ebx
    movl $1, %eax               # exit
    int $0x80
child:
    call work
    call write
    movl $3, %ebx
    movl $1, %eax
    int $0x80
.size _start, . - _start
.type work, @function
work:
    movl $1000, %ecx
1:  call leaf
    loop 1b
    ret
.size work, . - work
.type leaf, @function
leaf:
    addl $3, %edi
    ret
.size leaf, . - leaf
.type write, @function
write:
    movl $4, %eax
    movl $1, %ebx
    movl $text, %ecx
    movl $8, %edx
    int $0x80
    ret
.size write, . - write
.data
text: .ascii "32 bits\n"
.section .note.GNU-stack, "", @progbits
"#;

/// A program that executes its argument, or prints why it cannot.
const EXECS: &str = "#include <errno.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
    __attribute__((noinline)) int before(int x) { __asm__ volatile(\"\"); return x + 1; }\n\
    __attribute__((noinline)) int after(int x) { __asm__ volatile(\"\"); return x + 2; }\n\
    int main(int count, char **words) {\n\
    \x20   printf(\"%d words\\n\", before(count)); fflush(stdout);\n\
    \x20   if (count < 2) return 11;\n\
    \x20   execv(words[1], words + 1);\n\
    \x20   printf(\"%d %s\\n\", after(count), strerror(errno));\n\
    \x20   return 9;\n}\n";

const OPTIONS: [&[&str]; 2] = [&["--overhead", "40%"], &["--startup"]];

/// Returns the 32-bit program, or the reason why none can run.
fn of_32_bits(shop: &RecordingFolder) -> Result<PathBuf, &'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Err("its program is assembly for x86");
    }
    let folder = shop.path();
    std::fs::write(folder.join("small.s"), OF_32_BITS).unwrap();
    for (tool, arguments) in [
        ("as", &["--32", "small.s", "-o", "small.o"][..]),
        ("ld", &["-m", "elf_i386", "small.o", "-o", "small"]),
    ] {
        let done = Command::new(tool).args(arguments).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{tool}: {}", err(&done));
    }
    let program = folder.join("small");
    let started = Command::new(&program).stdout(Stdio::null()).status();
    started.map(|_| program).map_err(|_| "this kernel starts no program of 32 bits")
}

fn without(command: &[&str]) -> Output {
    Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap()
}

fn same(recorded: &Output, without: &Output) {
    assert_eq!(
        String::from_utf8_lossy(&recorded.stdout),
        String::from_utf8_lossy(&without.stdout),
        "{}",
        err(recorded)
    );
}

/// True if a message names this program as one of another architecture.
fn is_told(recorded: &Output, program: &Path) -> bool {
    err(recorded).lines().any(|line| line.contains("architecture") && line.ends_with(text(program)))
}

/// There is nothing to record: a message says so, the program's exit code is kept, and no profile is written.
fn programs_of_32_bits_run_unrecorded() {
    let (shop, times) = (RecordingFolder::new(), repeats());
    let program = match of_32_bits(&shop) {
        Ok(program) => program,
        Err(why) => return support::skip_on_this_machine(why),
    };
    let alone = without(&[text(&program)]);
    assert_eq!((code(&alone), &alone.stdout[..]), (7, &b"32 bits\n32 bits\n"[..]));
    for _ in 0..times {
        for options in OPTIONS {
            let recorded = shop.record(options, &[text(&program)]).output().unwrap();
            same(&recorded, &alone);
            assert_eq!(code(&recorded), 7, "{}", err(&recorded));
            assert!(!shop.path().join("recorded.gv").exists());
            assert!(is_told(&recorded, &program), "{}", err(&recorded));
        }
    }
}

/// A program executes a 32-bit one, which forks and executes the first one again: the 64-bit parts are recorded.
fn execs_of_32_bits_and_back() {
    let (shop, times) = (RecordingFolder::new(), repeats());
    let small = match of_32_bits(&shop) {
        Ok(program) => program,
        Err(why) => return support::skip_on_this_machine(why),
    };
    let execs = shop.compile("execs", EXECS, &[]);
    for command in [&[text(&execs), text(&small)][..], &[text(&execs), text(&small), text(&execs)]] {
        let alone = without(command);
        assert_eq!(code(&alone), if command.len() > 2 { 11 } else { 7 });
        for _ in 0..times {
            for options in OPTIONS {
                let recorded = shop.record(options, command).output().unwrap();
                same(&recorded, &alone);
                assert_eq!(code(&recorded), code(&alone), "{}", err(&recorded));
                assert!(firsts(&shop.profile(), "execs").iter().any(|(_, name)| name == "before"));
                assert!(firsts(&shop.profile(), "small").is_empty());
                assert!(is_told(&recorded, &small), "{}", err(&recorded));
            }
        }
    }
}

/// The file's header has a machine that the kernel does not support: the program continues after its failed call.
fn execs_of_another_machine_fail_as_without() {
    let shop = RecordingFolder::new();
    let execs = shop.compile("execs", EXECS, &[]);
    let foreign = foreign(&shop, &execs);
    let command = [text(&execs), text(&foreign)];
    let alone = without(&command);
    assert_eq!(code(&alone), 9, "{alone:?}");
    for options in OPTIONS {
        let recorded = shop.record(options, &command).output().unwrap();
        same(&recorded, &alone);
        assert_eq!(code(&recorded), 9, "{}", err(&recorded));
        assert!(firsts(&shop.profile(), "execs").iter().any(|(_, name)| name == "after"));
    }
    // If it is started as the C library does it, a shell reads it.
    let by_shell = without(&["env", text(&foreign)]);
    let recorded = shop.record(&[], &[text(&foreign)]).output().unwrap();
    same(&recorded, &by_shell);
    assert_eq!(code(&recorded), code(&by_shell), "{}", err(&recorded));
}

/// A copy of a program for machine number 0xfffe, which no kernel supports.
fn foreign(shop: &RecordingFolder, program: &Path) -> PathBuf {
    const E_MACHINE: usize = 18;
    let mut bytes = std::fs::read(program).unwrap();
    bytes[E_MACHINE..E_MACHINE + 2].copy_from_slice(&[0xfe, 0xff]);
    let foreign = shop.path().join("foreign");
    std::fs::write(&foreign, bytes).unwrap();
    std::fs::set_permissions(&foreign, std::fs::metadata(program).unwrap().permissions()).unwrap();
    foreign
}
