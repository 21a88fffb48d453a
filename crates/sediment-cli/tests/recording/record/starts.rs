// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts with `--method call-sites`: cached plans, memory that is opened early, and memory limits.

use super::{RecordingFolder, call_sites::KINDS, code, err, text};
use libtest_mimic::Trial;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Need, case};

pub fn cases() -> Vec<Trial> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Vec::new();
    }
    let compiler = [Need::Program("cc")];
    let another_user = [Need::Program("cc"), Need::Program("setpriv"), Need::Root];
    vec![
        case("plans_are_kept_for_the_next_recording", &compiler, kept_plans),
        case("programs_of_few_libraries_share_their_stubs", &compiler, shared_stubs),
        case("short_programs_map_copies_of_libraries", &compiler, copies),
        case("a_program_that_hides_gets_its_code_back", &another_user, hides),
        case("call_sites_keep_to_their_memory", &compiler, memory),
        case("rough_recordings_are_warned_about", &[], rough),
    ]
}

/// Records a program in a shop with its own cache.
fn record(shop: &RecordingFolder, options: &[&str], command: &[&str]) -> Output {
    let mut record = super::call_sites::record(shop, options, command);
    record.env("XDG_CACHE_HOME", shop.path().join("caches")).output().unwrap()
}

fn plans(shop: &RecordingFolder) -> Vec<PathBuf> {
    let folder = shop.path().join("caches/sediment");
    let all = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all.collect();
    all.sort();
    all
}

fn kept_plans() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let profile = |when: &str| {
        let recorded = record(&shop, &["--exact"], &[text(&program)]);
        assert_eq!(code(&recorded), 5, "{when}: {}", err(&recorded));
        std::fs::read(shop.path().join("recorded.gv")).unwrap()
    };
    let first = profile("without a cache");
    let kept = plans(&shop);
    assert!(kept.len() >= 2, "{kept:?}");
    assert!(profile("with plans") == first, "a recording with kept plans differs");
    // Whatever is put into the cache, recordings are the same.
    let bytes: Vec<Vec<u8>> = kept.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (path, others) in kept.iter().zip(bytes.iter().cycle().skip(1)) {
        std::fs::write(path, others).unwrap();
    }
    assert!(profile("with the plans of other files") == first);
    assert!(kept.iter().zip(&bytes).all(|(path, bytes)| std::fs::read(path).unwrap() == *bytes));
    for (path, bytes) in kept.iter().zip(&bytes) {
        std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }
    assert!(profile("with plans that are cut off") == first);
    let folder = shop.path().join("caches/sediment");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(profile("with a folder of everybody") == first);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let clear = || {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_sediment"));
        doctor.args(["doctor", "--clear-cache"]).env("XDG_CACHE_HOME", shop.path().join("caches"));
        let said = doctor.output().unwrap();
        assert_eq!(code(&said), 0, "{}", err(&said));
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    assert!(clear().starts_with(&format!("removed {} plans, ", kept.len())));
    assert!(plans(&shop).is_empty() && !folder.exists());
    assert_eq!(clear(), "removed 0 plans, 0 KiB\n");
}

/// Processes that run the same program one after the other and simultaneously, and load a library again.
fn shared_stubs() {
    let shop = RecordingFolder::new();
    let library = "__attribute__((noinline)) long inner(long x) { return x + 1; }\nlong outer(long x) { return inner(x) + inner(x); }\n";
    let library =
        shop.compile("library.so", library, &["-O1", "-shared", "-fPIC", "-fno-ipa-icf", "-fno-inline"]);
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(int count, char **words) {
            long sum = 0;
            for (int i = 0; i < 5; i++) {
                void *library = dlopen(words[1], RTLD_NOW);
                long (*outer)(long) = (long (*)(long))dlsym(library, "outer");
                for (int k = 0; k < 10; k++) sum += outer(k);
                dlclose(library);
            }
            printf("%ld\n", sum);
            return 0;
        }
    "#;
    let program = shop.compile("loads", source, &["-ldl"]);
    let line = format!(
        "{0} {1} & {0} {1} & wait; for i in 1 2 3 4 5 6; do {0} {1}; done",
        text(&program),
        text(&library)
    );
    let recorded = record(&shop, &[], &["sh", "-c", &line]);
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "550\n".repeat(8), "{}", err(&recorded));
    let profile = shop.profile();
    assert_eq!(super::calls(&profile, "main", "outer"), 8 * 50, "{}", err(&recorded));
    assert_eq!(super::calls(&profile, "outer", "inner"), 8 * 100);
}

/// The third process of a program maps a copy of the C library's code, which counts as the original. A file with the
/// name of the file of mappings does not.
fn copies() {
    const PROCESSES: u64 = 8;
    let shop = RecordingFolder::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
        int main(int count, char **words) {
            int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8}, found = 0, copies = 0;
            for (int i = 0; i < 100; i++) found += bsearch(&i, numbers, 8, sizeof(int), compare) != NULL;
            char line[4096];
            FILE *file = fopen(count > 1 ? words[1] : NAME, "r");
            while (fgets(line, sizeof line, file)) copies += strstr(line, "r-xp") && strstr(line, "memfd");
            printf("%d %s\n", found, copies ? "copies" : "none");
            return 0;
        }
    "#;
    let asks = shop.compile("asks", source, &["-O0", "-DNAME=\"/proc/self/maps\""]);
    let quiet = shop.compile("quiet", source, &["-O0", "-DNAME=\"unknown\""]);
    let run = |command: &str, expected: &dyn Fn(&str) -> bool| {
        let line = format!("for i in $(seq {PROCESSES}); do {command}; done");
        let recorded = record(&shop, &["--exact"], &["sh", "-c", &line]);
        assert_eq!(code(&recorded), 0, "{}", err(&recorded));
        let said = String::from_utf8(recorded.stdout.clone()).unwrap();
        assert_eq!(said.matches("8 ").count() as u64, PROCESSES, "{said}{}", err(&recorded));
        assert!(expected(&said), "{said}{}", err(&recorded));
        super::calls(&shop.profile(), "bsearch", "compare")
    };
    let none = run(text(&asks), &|said| !said.contains("copies"));
    let all = run(&format!("{} /proc/self/maps", text(&quiet)), &|said| said.ends_with("copies\n"));
    assert_eq!(none % u128::from(PROCESSES), 0);
    assert!(none > 0 && all == none, "{all} calls, and {none}");
}

/// A program that becomes unreadable gets its code restored by a recorder without privileges over it.
fn hides() {
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/prctl.h>
        #include <time.h>
        #include <unistd.h>
        extern char __executable_start, etext;
        __attribute__((noinline)) long called(long x) { return x + clock() % 2; }
        static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
        int main(int count, char **words) {
            int file = open(words[0], O_RDONLY);
            size_t length = lseek(file, 0, SEEK_END);
            const char *whole = mmap(0, length, PROT_READ, MAP_PRIVATE, file, 0);
            long sum = 0;
            for (int i = 0; i < 1000; i++) sum += called(i);
            prctl(PR_SET_DUMPABLE, 0);
            for (double end = now() + 4; now() < end;) sum += called(1);
            size_t code = &etext - &__executable_start, other = 0;
            for (size_t i = 0; i < code; i++) other += (&__executable_start)[i] != whole[i];
            printf("%d %zu\n", prctl(PR_GET_DUMPABLE), other);
            return sum == 0;
        }
    "#;
    let shop = RecordingFolder::new();
    let program = shop.compile("hides", source, &["-O1", "-no-pie"]);
    std::fs::set_permissions(shop.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Another user may not enter the folder of the program under test.
    let own = shop.path().join("sediment");
    std::fs::copy(env!("CARGO_BIN_EXE_sediment"), &own).unwrap();
    let as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"];
    let record =
        [text(&own), "record", "-v", "--method", "call-sites", "--seconds", "1", "--", text(&program)];
    let words: Vec<&str> = as_nobody.into_iter().chain(record).collect();
    let recorded = Command::new(words[0]).args(&words[1..]).current_dir(shop.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "0 0\n", "{}", err(&recorded));
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    assert!(Path::new(&shop.path().join("sediment.gv")).exists(), "{}", err(&recorded));
}

fn memory() {
    let shop = RecordingFolder::new();
    let program = shop.compile("kinds", KINDS, &["-O2"]);
    let said = |most: &str| {
        let recorded = record(&shop, &["--max-memory", most], &[text(&program)]);
        assert_eq!(code(&recorded), 5, "{}", err(&recorded));
        err(&recorded).to_owned()
    };
    let told = "files beyond the memory limit of call sites (--max-memory)";
    let little = said("300K");
    assert!(little.contains(told) && little.contains("because --max-memory is too small"), "{little}");
    assert!(!said("64M").contains(told));
    let text = std::fs::read_to_string(shop.path().join("recorded.gv")).unwrap();
    assert!(text.contains("uncertain=0.000000") && text.contains("covered=0.9"), "{text}");
}

fn rough() {
    let shop = RecordingFolder::new();
    let profile = |quality: &str| {
        let text = format!(
            "digraph Callgraph {{\n  graph [sediment=2, source=\"a\", unit=calls, total=9, inputs=1{quality}];\n  \"a\" -> \"b\" [count=9];\n}}\n"
        );
        std::fs::write(shop.path().join("rough.gv"), text).unwrap();
        let mut order = Command::new(env!("CARGO_BIN_EXE_sediment"));
        order.args(["order", "rough.gv", "--linker", "lld", "-o", "rough.order"]).current_dir(shop.path());
        let done = order.output().unwrap();
        assert_eq!(code(&done), 0, "{}", err(&done));
        err(&done).to_owned()
    };
    assert!(!profile("").contains("too "));
    assert!(!profile(", covered=0.950000, uncertain=0.050000").contains("too "));
    let said = profile(", covered=0.400000, uncertain=0.300000");
    assert!(said.contains("wrong by 30 % of the calls") && said.contains("40 % of the call sites"), "{said}");
}
