// SPDX-License-Identifier: MIT OR Apache-2.0
//! `record --startup --trampolines` records the same as breakpoints, and the program runs as without it.

use super::{
    RecordingFolder, Running, code, err, firsts, number_in, patience, programs, repeated, repeated_alone,
    repeats, text,
};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{self, Need, case};

const OPTIONS: [&str; 2] = ["--startup", "--trampolines"];

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    let of_cpp = [Need::Program("cc"), Need::Program("c++")];
    vec![
        repeated("trampolines_record_what_breakpoints_do", &compiler, trampolines_record_what_breakpoints_do),
        repeated_alone("trampolines_end_with_the_first_thread_or_process", &compiler, || {
            for (name, source) in [
                ("threads", programs::threads()),
                ("forks", programs::forks()),
                ("spawns", programs::spawns()),
                ("signals", programs::signals()),
                ("traps", programs::traps()),
            ] {
                same_as_by_breakpoints(name, &source);
            }
        }),
        case("switches_do_not_keep_functions_from_trampolines", &compiler, switches),
        repeated("faults_are_told_where_they_happen", &compiler, faults_are_told_where_they_happen),
        repeated(
            "trampolines_keep_registers_flags_and_memory",
            &compiler,
            registers_flags_and_memory_are_kept,
        ),
        repeated("exceptions_pass_functions_with_trampolines", &of_cpp, exceptions_pass),
        repeated("limited_programs_have_no_trampolines", &compiler, limited_programs_have_no_trampolines),
        repeated(
            "jumps_give_way_before_code_is_writable",
            &[Need::Program("cc"), Need::Program("musl-gcc")],
            jumps_give_way_before_code_is_writable,
        ),
        case("no_page_is_writable_and_executable", &compiler, no_page_is_writable_and_executable),
        repeated("programs_go_on_that_were_stopped_when_they_began", &compiler, stopped_at_their_beginning),
        repeated("nobody_waits_for_a_frozen_program", &compiler, frozen_at_its_beginning),
    ]
}

/// Prints to standard error whether there is memory for trampolines.
const LOOKS: &str = r#"
static void looks(void) {
    char line[512]; int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) found |= strstr(line, "memfd:sediment") != 0;
    fclose(maps);
    fprintf(stderr, "trampolines: %d\n", found);
}
"#;

fn has_trampolines(said: &str) -> bool {
    said.contains("trampolines: 1")
}

fn trampolines_record_what_breakpoints_do() {
    let times = repeats();
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("trampolines are made on x86-64");
    }
    let functions: String = (0..300)
        .map(|index| {
            format!("__attribute__((noinline)) long f{index}(long x) {{ return x > {index} ? x - {index} : x * 3; }}\n")
        })
        .collect();
    let calls: String = (0..300).rev().map(|index| format!("s += f{index}(s & 511);\n")).collect();
    let source = format!(
        "#include <stdio.h>\n#include <string.h>\n{functions}{LOOKS}\
         int main(void) {{ long s = 1; for (int i = 0; i < 20000; i++) {{ {calls} }} looks(); printf(\"%ld\\n\", s); return 7; }}"
    );
    let shop = RecordingFolder::new();
    for flags in [&[][..], &["-fcf-protection"], &["-no-pie"], &["-O0"]] {
        let program = shop.compile("many", &source, flags);
        let without = Command::new(&program).output().unwrap();
        let record = |options: &[&str]| {
            let recorded = shop.record(options, &[text(&program)]).output().unwrap();
            assert_eq!(code(&recorded), 7, "{}", err(&recorded));
            assert_eq!(recorded.stdout, without.stdout);
            assert_eq!(has_trampolines(&err(&recorded)), options.len() == 2, "{flags:?}: {}", err(&recorded));
            std::fs::read_to_string(shop.path().join("recorded.gv")).unwrap()
        };
        let by_breakpoints = record(&OPTIONS[..1]);
        for repeat in 0..times {
            assert_eq!(record(&OPTIONS), by_breakpoints, "{flags:?}, run {repeat}");
            assert!(firsts(&shop.profile(), "many").len() > 300, "{flags:?}, run {repeat}");
        }
    }
}

/// Unwind tables show that a switch's table does not lead between a function's first instructions, even with a frame
/// pointer.
fn switches() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("trampolines are made on x86-64");
    }
    // Each saves more registers than fit in the bytes of the jump.
    let cases: String =
        (0..9).map(|case| format!("case {case}: return g(x * {}) + y + z + w;", 3 * case + 2)).collect();
    let functions: String = (0..100)
        .map(|index| {
            format!(
                "__attribute__((noinline)) long f{index}(long x, long y, long z, long w) {{ \
                 y += g(x + {index}); z += g(y); w += g(z); switch (x) {{ {cases} default: return y - z - w; }} }}\n"
            )
        })
        .collect();
    let calls: String = (0..100).map(|index| format!("s += f{index}(s & 15, s, s, s);\n")).collect();
    // Each stop makes it wait once.
    let source = format!(
        "#include <stdio.h>\n#include <string.h>\n#include <sys/resource.h>\n__attribute__((noinline)) long g(long x) {{ __asm__(\"\" : \"+r\"(x)); return x + 1; }}\n\
         {functions}{LOOKS}\
         static long waits(void) {{ struct rusage used; getrusage(RUSAGE_SELF, &used); return used.ru_nvcsw; }}\n\
         int main(void) {{ long s = waits(), before = waits(); {calls} long more = waits() - before; looks(); printf(\"%ld\\n\", more); return s == 0; }}"
    );
    let shop = RecordingFolder::new();
    for flags in [&[][..], &["-fno-omit-frame-pointer"]] {
        let program = shop.compile("switches", &source, flags);
        let listing = Command::new("objdump").arg("-d").arg(&program).output().unwrap();
        assert!(String::from_utf8_lossy(&listing.stdout).contains("jmp    *%r"), "{flags:?}: no table");
        let waits = |options: &[&str]| {
            let recorded = shop.record(options, &[text(&program)]).output().unwrap();
            assert_eq!(code(&recorded), 0, "{}", err(&recorded));
            assert!(
                firsts(&shop.profile(), "switches").iter().filter(|(_, name)| name.starts_with('f')).count()
                    >= 100
            );
            String::from_utf8_lossy(&recorded.stdout).trim().parse::<u32>().unwrap()
        };
        let (stops, few) = (waits(&OPTIONS[..1]), waits(&OPTIONS));
        assert!(stops >= 100 && few < 20, "{flags:?}: {stops} and {few}");
    }
}

/// A program behaves the same, and has the same profile, with breakpoints and with jumps. Worth its time: jumps that
/// remain after a thread or process is created are executed as other code.
fn same_as_by_breakpoints(name: &str, source: &str) {
    let shop = RecordingFolder::new();
    let program = shop.compile(name, source, &[]);
    let without = Command::new(&program).current_dir(shop.path()).stdin(Stdio::null()).output().unwrap();
    let mut names = Vec::new();
    for options in std::iter::once(&OPTIONS[..1]).chain(std::iter::repeat_n(&OPTIONS[..], repeats())) {
        let recorded = shop.record(options, &[text(&program)]).output().unwrap();
        assert_eq!(code(&recorded), code(&without), "{}", err(&recorded));
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&without.stdout));
        let mut found: Vec<String> =
            firsts(&shop.profile(), name).into_iter().map(|(_, name)| name).collect();
        found.sort();
        names.push(found);
    }
    assert!(names.iter().all(|found| *found == names[0]), "{name}: {names:?}");
}

/// A handler sees the instruction that faulted in its function, at the beginning or inside the bytes of the jump, and
/// can repeat it.
fn faults_are_told_where_they_happen() {
    let times = repeats();
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("its program is x86-64 assembly");
    }
    let source = format!(
        r#"#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
{LOOKS}
__attribute__((naked, noinline)) long first(long *p) {{ __asm__("mov (%rdi), %rax; add $1, %rax; ret"); }}
__attribute__((naked, noinline)) long inner(long *p) {{
    __asm__("push %rbx; mov %rdi, %rbx; mov (%rbx), %rax; add $2, %rax; pop %rbx; ret"); }}
__attribute__((naked, noinline)) void store(long *p) {{ __asm__("movq $9, (%rdi); ret"); }}
static char *page; static char *at;
static void handler(int signal, siginfo_t *about, void *context) {{
    at = (char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}}
int main(void) {{
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(long *)page = 40;
    struct sigaction action = {{ .sa_sigaction = handler, .sa_flags = SA_SIGINFO }};
    sigaction(SIGSEGV, &action, 0);
    for (int round = 0; round < 3; round++) {{
        mprotect(page, 4096, PROT_NONE); at = 0;
        long a = first((long *)page);
        printf("first %ld at %ld\n", a, (long)(at - (char *)first));
        mprotect(page, 4096, PROT_NONE); at = 0;
        long b = inner((long *)page);
        printf("inner %ld at %ld\n", b, (long)(at - (char *)inner));
        mprotect(page, 4096, PROT_NONE); at = 0;
        store((long *)page);
        printf("store %ld at %ld\n", *(long *)page, (long)(at - (char *)store));
        *(long *)page = 40;
    }}
    looks();
    return 0;
}}
"#
    );
    let shop = RecordingFolder::new();
    let program = shop.compile("faults", &source, &[]);
    let without = Command::new(&program).output().unwrap();
    assert!(
        String::from_utf8_lossy(&without.stdout).starts_with("first 41 at 0\ninner 42 at 4\nstore 9 at 0\n")
    );
    for _ in 0..times {
        let recorded = shop.record(&OPTIONS, &[text(&program)]).output().unwrap();
        assert_eq!(code(&recorded), 0, "{}", err(&recorded));
        assert!(has_trampolines(&err(&recorded)), "{}", err(&recorded));
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), String::from_utf8_lossy(&without.stdout));
        let found = firsts(&shop.profile(), "faults");
        for name in ["first", "inner", "store", "handler"] {
            assert!(found.iter().any(|(_, found)| found == name), "{name} is missing");
        }
    }
}

/// Functions into which others jump with live flags, registers and data below the stack pointer, such as the compiler's
/// cold parts.
fn registers_flags_and_memory_are_kept() {
    let times = repeats();
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("its program is x86-64 assembly");
    }
    let source = format!(
        r#"#include <stdio.h>
#include <string.h>
{LOOKS}
long hot(long x, long y);
__asm__(
    ".text; .globl hot; .type hot, @function; hot: mov %rdi, -8(%rsp); mov %rsi, -128(%rsp); mov $3, %ecx; mov $5, %eax; mov $7, %r11d;"
    "cmp %rsi, %rdi; jmp part; .size hot, . - hot;"
    ".balign 16; .type part, @function; part: setg %dl; setc %sil; mov -8(%rsp), %rdi; add -128(%rsp), %rdi; add %rcx, %rdi; add %rax, %rdi;"
    "add %r11, %rdi; movzbl %dl, %eax; movzbl %sil, %esi; shl $20, %rax; shl $21, %rsi; add %rsi, %rax; add %rdi, %rax; ret; .size part, . - part;");
int main(void) {{
    for (long i = -3; i < 4; i++) printf("%ld %ld\n", hot(i, 1), hot(-i, i * 2));
    looks();
    return 0;
}}
"#
    );
    let shop = RecordingFolder::new();
    let program = shop.compile("kept", &source, &[]);
    let without = Command::new(&program).output().unwrap();
    for _ in 0..times {
        let recorded = shop.record(&OPTIONS, &[text(&program)]).output().unwrap();
        assert!(has_trampolines(&err(&recorded)), "{}", err(&recorded));
        assert_eq!((code(&recorded), &recorded.stdout), (0, &without.stdout), "{}", err(&recorded));
        assert!(firsts(&shop.profile(), "kept").iter().any(|(_, name)| name == "part"));
    }
}

fn exceptions_pass() {
    let source = format!(
        r#"#include <cstdio>
#include <cstring>
#include <stdexcept>
{LOOKS}
struct Noted {{ int id; Noted(int i) : id(i) {{}} ~Noted() {{ std::printf("leaves %d\n", id); }} }};
__attribute__((noinline)) void last(int x) {{ Noted noted(x); if (x % 2) throw std::runtime_error("odd"); throw x; }}
__attribute__((noinline)) void middle(int x) {{ Noted noted(-x); last(x); }}
int main() {{
    for (int i = 0; i < 6; i++)
        try {{ middle(i); }} catch (int number) {{ std::printf("number %d\n", number); }}
        catch (const std::exception &thrown) {{ std::printf("thrown %s\n", thrown.what()); }}
    looks();
    return 4;
}}
"#
    );
    let shop = RecordingFolder::new();
    let file = shop.path().join("throws.cc");
    std::fs::write(&file, source).unwrap();
    let program = shop.path().join("throws");
    let compiled = Command::new("c++").arg("-O2").arg(&file).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    let without = Command::new(&program).output().unwrap();
    for _ in 0..repeats() {
        let recorded = shop.record(&OPTIONS, &[text(&program)]).output().unwrap();
        assert_eq!((code(&recorded), &recorded.stdout), (4, &without.stdout), "{}", err(&recorded));
        assert_eq!(has_trampolines(&err(&recorded)), cfg!(target_arch = "x86_64"));
    }
}

/// If a limit could reveal the additional memory, or if a filter inspects the system calls, only breakpoints are used.
fn limited_programs_have_no_trampolines() {
    let source = format!(
        "#include <stdio.h>\n#include <string.h>\n{LOOKS}\n__attribute__((noinline)) int f(int x) {{ return x + 1; }}\n\
         int main(int count, char **words) {{ printf(\"%d\\n\", f(count)); looks(); return 0; }}"
    );
    let shop = RecordingFolder::new();
    let program = shop.compile("limited", &source, &[]);
    let filter = format!("exec {}", text(&shop.compile("filter", crate::sandbox::SANDBOX, &[])));
    let limits = ["exec", "ulimit -v 4000000; exec", "ulimit -f 100000; exec", &filter];
    for limit in std::iter::repeat_n(limits, repeats()).flatten() {
        let command = format!("{limit} {}", text(&program));
        let recorded = shop.record(&OPTIONS, &["sh", "-c", &command]).output().unwrap();
        assert_eq!((code(&recorded), &recorded.stdout[..]), (0, &b"2\n"[..]), "{}", err(&recorded));
        let expected = limit == "exec" && cfg!(target_arch = "x86_64");
        assert_eq!(has_trampolines(&err(&recorded)), expected, "{limit}: {}", err(&recorded));
        assert!(firsts(&shop.profile(), "limited").iter().any(|(_, name)| name == "f"));
    }
}

/// Calls of the C library's `mprotect` are observed even if the library is not recorded. If it has no breakpoints at
/// all, no jumps are set.
fn jumps_give_way_before_code_is_writable() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("trampolines are made on x86-64");
    }
    let source = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <sys/mman.h>\n\
         __attribute__((noinline)) long f(long x) { return x * 1234567 + 3; }\n\
         static unsigned now(void) { return *(volatile unsigned char *) f; }\n\
         int main(void) { unsigned before = now();\n\
         void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
         mprotect(page, 4096, PROT_READ | PROT_WRITE);\n\
         printf(\"%x %x\\n\", before, now()); return f(1) != 1234570; }";
    let shop = RecordingFolder::new();
    let program = shop.compile("heard", source, &["-O2", "-fcf-protection=none"]);
    let of_musl = shop.path().join("of-musl");
    let mut compile = Command::new("musl-gcc");
    compile.args(["-O2", "-fcf-protection=none", "heard.c", "-o", "of-musl"]).current_dir(shop.path());
    assert!(compile.status().unwrap().success());
    let [jump_and_trap, trap] = ["e9 cc\n", "cc cc\n"];
    for (program, more, expected) in std::iter::repeat_n(
        [
            (&program, &[][..], jump_and_trap),
            (&program, &["--only", "heard"], jump_and_trap),
            (&program, &["--exclude", "libc.so.6"], trap),
            // In this case it contains the dynamic linker, which calls it before the program begins.
            (&of_musl, &[], trap),
            (&of_musl, &["--exclude", "libc.so"], trap),
        ],
        repeats(),
    )
    .flatten()
    {
        let recorded = shop.record(&[&OPTIONS[..], more].concat(), &[text(program)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), expected, "{more:?}: {}", err(&recorded));
        assert_eq!(code(&recorded), 0, "{more:?}: {}", err(&recorded));
        let label = program.file_name().unwrap().to_str().unwrap();
        assert!(firsts(&shop.profile(), label).iter().any(|(_, name)| name == "f"), "{more:?}");
    }
}

/// Checked all the time while functions are noted, get their instructions back, and libraries are loaded.
fn no_page_is_writable_and_executable() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("trampolines are made on x86-64");
    }
    let functions: String = (0..120)
        .map(|index| {
            format!("__attribute__((noinline)) long f{index}(long x) {{ return x * 3 + {index}; }}\n")
        })
        .collect();
    let calls: String = (0..120)
        .map(|index| {
            format!("s += f{index}(s & 511); if ({index} % 4 == 0) {{ usleep(4000); load({index}); }}\n")
        })
        .collect();
    let source = format!(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n{functions}\
         static void load(int index) {{ void *library = dlopen(\"./libone.so\", RTLD_NOW); if (index % 8) dlclose(library); }}\n\
         int main(int count, char **words) {{ long s = 1;\n\
         FILE *file = fopen(words[1], \"w\"); fprintf(file, \"%d\\n\", getpid()); fclose(file);\n{calls} printf(\"%ld\\n\", s); return 6; }}"
    );
    let shop = RecordingFolder::new();
    shop.compile("libone.so", &programs::library(), &["-shared", "-fPIC"]);
    let program = shop.compile("slow", &source, &["-ldl"]);
    let place = shop.path().join("slow.pid");
    let command = [text(&program), text(&place)];
    let without = Command::new(command[0]).arg(command[1]).current_dir(shop.path()).output().unwrap();
    assert_eq!(code(&without), 6);
    std::fs::remove_file(&place).unwrap();
    let mut record = shop.record(&OPTIONS, &command);
    let mut recorder = Running(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let process = number_in(&place);
    let (mut looks, started) = (0, Instant::now());
    while let Ok(maps) = std::fs::read_to_string(format!("/proc/{process}/maps")) {
        let rights = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
        let both = maps.lines().find(|line| rights(line).contains('w') && rights(line).contains('x'));
        assert_eq!(both, None, "{maps}");
        looks += usize::from(maps.contains("/memfd:sediment"));
        if maps.is_empty() {
            break;
        }
        assert!(started.elapsed() < patience(), "it does not end");
    }
    let ended = recorder.end_of_pipes();
    assert_eq!((code(&ended), &ended.stdout), (6, &without.stdout), "{}", err(&ended));
    assert!(looks > 20, "looked {looks} times");
    assert!(firsts(&shop.profile(), "slow").iter().any(|(_, name)| name == "f119"));
}

/// Stops programs around their exec, and resumes them a moment later.
const STOPS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int ends(pid_t child, int *status) {
    for (int wait = 0; wait < 1000; wait++, usleep(10000)) if (waitpid(child, status, WNOHANG)) return 1;
    return 0;
}
int main(void) {
    int stay = 0, fail = 0, status = 0;
    for (int round = 0; round < 80; round++) {
        pid_t child = fork();
        if (!child) execl("/bin/true", "true", (char *)0), _exit(9);
        usleep(rand() % 12000), kill(child, SIGSTOP), usleep(rand() % 3000), kill(child, SIGCONT);
        if (!ends(child, &status)) stay++, kill(child, SIGKILL), waitpid(child, &status, 0);
        else fail += status != 0;
    }
    printf("%d stay stopped, %d fail\n", stay, fail);
    return 5;
}
"#;

fn stopped_at_their_beginning() {
    let shop = RecordingFolder::new();
    let program = shop.compile("stops", STOPS, &["-w"]);
    for _ in 0..repeats() {
        let recorded = shop.record(&OPTIONS, &[text(&program)]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&recorded.stdout),
            "0 stay stopped, 0 fail\n",
            "{}",
            err(&recorded)
        );
        assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    }
}

/// Freezes programs around their exec through their control group, and waits for others meanwhile.
const FREEZES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void put(const char *folder, const char *name, const char *text) {
    char path[4096]; sprintf(path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) _exit(9);
    close(file);
}
static void run(void) { execl("/bin/true", "true", (char *)0), _exit(8); }
int main(int count, char **words) {
    int late = 0, status, fail = 0;
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (!child) put(words[1], "cgroup.procs", "0"), run();
        usleep(rand() % 12000), put(words[1], "cgroup.freeze", "1");
        time_t before = time(0);
        pid_t other = fork();
        if (!other) run();
        waitpid(other, &status, 0), fail += status != 0, late += time(0) - before > 4;
        put(words[1], "cgroup.freeze", "0"), waitpid(child, &status, 0), fail += status != 0;
    }
    printf("%d late, %d fail\n", late, fail);
    return 5;
}
"#;

/// A new control group of version 2, which is removed when this is dropped; `None` if this machine does not allow it.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let top = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
        let folder = Path::new(top).join(format!("sediment-test-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        group.0.join("cgroup.freeze").exists().then_some(group)
    }

    fn thaw(&self) {
        let _ = std::fs::write(self.0.join("cgroup.freeze"), "0");
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn frozen_at_its_beginning() {
    let Some(group) = ControlGroup::new() else {
        return support::skip_on_this_machine("no control group of version 2 can be made");
    };
    let shop = RecordingFolder::new();
    let program = shop.compile("freezes", FREEZES, &["-w"]);
    for _ in 0..repeats() {
        let mut record = shop.record(&OPTIONS, &[text(&program), text(&group.0)]);
        let mut recorder = Running(record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut thawed = Instant::now();
        while recorder.0.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
            if thawed.elapsed() > Duration::from_secs(8) {
                group.thaw();
                thawed = Instant::now();
            }
        }
        let ended = recorder.end_of_pipes();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "0 late, 0 fail\n", "{}", err(&ended));
        assert_eq!(code(&ended), 5, "{}", err(&ended));
    }
}
