// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that serve their own files or memory, and would deadlock if the recorder waited for them; and a program
//! that copies its code to memory that it shares.

use super::{RecordingFolder, Running, assert_untouched, code, err, number_in, repeated, repeats, text};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{self, Need, case};

pub fn cases() -> Vec<Trial> {
    let compiler = [Need::Program("cc")];
    vec![
        repeated("programs_may_serve_their_own_files", &compiler, served_files),
        repeated("programs_may_serve_their_own_memory", &compiler, served_memory),
        case("recorders_wait_for_memory_that_comes_late", &compiler, late_memory),
        repeated("programs_may_copy_their_code_to_shared_memory", &compiler, shared_copy),
    ]
}

/// Exit code of a program whose requirements this machine does not meet.
const NOT_HERE: i32 = 9;

/// Serves a file system with one file. The data after its first `PROMPT` bytes comes `delay` seconds late.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define ALONE __attribute__((noinline))
enum { PROMPT = 1 << 19 };
static int device, program, delay;
static struct stat about;
static char asked[300000], answer[300000];
ALONE static void reply(struct fuse_in_header *to, int error, const void *what, size_t length) {
    struct fuse_out_header head = {sizeof head + length, -error, to->unique};
    memcpy(answer, &head, sizeof head), memcpy(answer + sizeof head, what, length);
    if (write(device, answer, head.len) < 0 && errno != ENOENT) _exit(1);
}
ALONE static void describe(struct fuse_attr *attributes, int node) {
    attributes->ino = node, attributes->nlink = 1;
    attributes->mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755;
    attributes->size = node == 1 ? 0 : about.st_size;
}
ALONE static void begin(struct fuse_in_header *to, struct fuse_init_in *offer) {
    struct fuse_init_out out = {.major = 7, .minor = 31, .max_readahead = offer->max_readahead, .max_write = 131072};
    reply(to, 0, &out, sizeof out);
}
ALONE static void look_up(struct fuse_in_header *to, const char *name) {
    struct fuse_entry_out out = {.nodeid = 2, .attr_valid = 1000, .entry_valid = 1000};
    if (strcmp(name, "program")) return reply(to, ENOENT, "", 0);
    describe(&out.attr, 2), reply(to, 0, &out, sizeof out);
}
ALONE static void tell_attributes(struct fuse_in_header *to) {
    struct fuse_attr_out out = {.attr_valid = 1000};
    describe(&out.attr, to->nodeid), reply(to, 0, &out, sizeof out);
}
ALONE static void tell_size(struct fuse_in_header *to) {
    struct fuse_statfs_out out = {.st = {.bsize = 4096, .frsize = 4096, .namelen = 255}};
    reply(to, 0, &out, sizeof out);
}
ALONE static void open_file(struct fuse_in_header *to) {
    struct fuse_open_out out = {.fh = 1};
    reply(to, 0, &out, sizeof out);
}
ALONE static void read_file(struct fuse_in_header *to, struct fuse_read_in *from) {
    static char bytes[262144];
    if (from->offset >= PROMPT) sleep(delay);
    ssize_t length = pread(program, bytes, from->size, from->offset);
    reply(to, length < 0 ? EIO : 0, bytes, length < 0 ? 0 : length);
}
static void serve(void) {
    while (read(device, asked, sizeof asked) > 0 || errno != ENODEV) {
        struct fuse_in_header *head = (void *)asked;
        void *more = head + 1;
        switch (head->opcode) {
        case FUSE_INIT: begin(head, more); break;
        case FUSE_LOOKUP: look_up(head, more); break;
        case FUSE_GETATTR: tell_attributes(head); break;
        case FUSE_OPEN: case FUSE_OPENDIR: open_file(head); break;
        case FUSE_STATFS: tell_size(head); break;
        case FUSE_READ: read_file(head, more); break;
        case FUSE_FORGET: case FUSE_BATCH_FORGET: break;
        case FUSE_RELEASE: case FUSE_RELEASEDIR: case FUSE_FLUSH: reply(head, 0, "", 0); break;
        default: reply(head, ENOSYS, "", 0);
        }
    }
    _exit(0);
}
static pid_t mount_served(const char *file, const char *place) {
    char options[100];
    uid_t user = getuid(); gid_t group = getgid();
    if (unshare(user ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS)) exit(9);
    mount(0, "/", 0, MS_REC | MS_PRIVATE, 0);
    program = open(file, O_RDONLY), fstat(program, &about);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    sprintf(options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, user, group);
    if (device < 0 || mount("served", place, "fuse", MS_NOSUID | MS_NODEV, options)) exit(9);
    pid_t server = fork();
    if (!server) serve();
    return server;
}
static int wait_and_unmount(pid_t child, pid_t server, const char *place) {
    int status; waitpid(child, &status, 0);
    printf("ended %x\n", status);
    close(device), umount2(place, MNT_DETACH), kill(server, SIGTERM), waitpid(server, 0, 0);
    return 4;
}
"#;

/// Mounts a file system with one file, a program, which a child serves, and runs it, as AppImages do.
const RUNS_SERVED: &str = r#"
int main(int count, char **words) {
    char path[4096];
    pid_t server = mount_served(words[1], words[2]);
    if (count > 4) {
        char below[9000];
        sprintf(below, "lowerdir=%s:%s", words[4], words[2]);
        if (mount("above", words[3], "overlay", MS_RDONLY, below)) return kill(server, SIGTERM), 9;
        words[2] = words[3];
    }
    pid_t child = fork();
    if (!child) {
        close(device), sprintf(path, "%s/program", words[2]), execl(path, path, (char *)0);
        _exit(8);
    }
    return wait_and_unmount(child, server, words[2]);
}
"#;

fn served_files() {
    let shop = RecordingFolder::new();
    let server = shop.compile("server", &[SERVER, RUNS_SERVED].concat(), &["-w"]);
    let source = "__attribute__((noinline)) int f(int x) { return x + 1; } int main(int count, char **words) { return f(count) + f(3); }";
    let served = shop.compile("served", source, &[]);
    let [place, above, empty] = ["place", "above", "empty"].map(|name| shop.path().join(name));
    [&place, &above, &empty].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let plain = [text(&server), text(&served), text(&place)];
    let below = [&plain[..], &[text(&above), text(&empty)]].concat();
    let run = |words: &[&str]| Command::new(words[0]).args(&words[1..]).output().unwrap();
    let alone = run(&plain);
    if !Path::new("/dev/fuse").exists() || code(&alone) == NOT_HERE {
        return support::skip_on_this_machine("no file system may be mounted that a program serves");
    }
    assert_eq!((code(&alone), &alone.stdout[..]), (4, &b"ended 600\n"[..]));
    // Not every kernel allows a file system layered on it.
    let ways = if code(&run(&below)) == NOT_HERE { vec![&plain[..]] } else { vec![&plain[..], &below] };
    let all = [&[][..], &["--startup"]];
    let all: Vec<_> =
        all.iter().flat_map(|options| ways.iter().map(move |words| (*options, *words))).collect();
    for (options, words) in all.iter().copied().cycle().take(repeats().max(all.len())) {
        let recorded = shop.record(options, words).output().unwrap();
        assert_eq!(recorded.stdout, alone.stdout, "{options:?}: {}", err(&recorded));
        assert_eq!(code(&recorded), 4, "{options:?}: {}", err(&recorded));
    }
}

/// Reads a served file with the first instruction of a function whose every call is observed; after three seconds, a
/// page that comes late.
const READS_LATE: &str = r#"
#include <sys/mman.h>
#include <time.h>
__asm__(".globl mprotect\n.type mprotect,@function\nmprotect: mov (%rdi),%eax\n ret\n.size mprotect,.-mprotect\n");
int main(int count, char **words) {
    char path[4096];
    if (getuid()) return 9;
    delay = 7;
    pid_t server = mount_served(words[1], words[2]);
    sprintf(path, "%s/program", words[2]);
    pid_t child = fork();
    if (!child) {
        close(device);
        char *pages = mmap(0, 2 * PROMPT, PROT_READ, MAP_SHARED, open(path, O_RDONLY), 0);
        madvise(pages, 2 * PROMPT, MADV_RANDOM);
        FILE *place = fopen(words[3], "w"); fprintf(place, "%d\n", getpid()); fclose(place);
        int sum = 0;
        for (time_t end = time(0) + 3; time(0) < end; usleep(20000)) sum |= mprotect(pages, 0, 1);
        printf("read %x %x\n", sum, mprotect(pages + PROMPT, 0, 1));
        exit(7);
    }
    return wait_and_unmount(child, server, words[2]);
}
"#;

fn late_memory() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("the program has an instruction of x86-64");
    }
    let shop = RecordingFolder::new();
    let program = shop.compile("late", &[SERVER, READS_LATE].concat(), &["-w"]);
    let [file, place, number] = ["file", "place", "number"].map(|name| shop.path().join(name));
    std::fs::create_dir(&place).unwrap();
    std::fs::write(&file, [1; 1 << 20]).unwrap();
    let mut late = Command::new(&program);
    let late =
        late.args([text(&file), text(&place), text(&number)]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut late = Running(late.spawn().unwrap());
    while !number.exists() {
        if late.0.try_wait().unwrap().is_some_and(|status| status.code() == Some(NOT_HERE)) {
            return support::skip_on_this_machine("no file system may be mounted that a program serves");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = number_in(&number);
    let recorded = shop.record(&["--pid", &process.to_string(), "--seconds", "4"], &[]).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    let ended = late.end_of_pipes();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "read 1010101 1010101\nended 700\n");
}

/// Reads missing pages with the first instruction of a function, and serves them in another thread, for some seconds.
const SERVES_MEMORY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
__asm__(".globl first\n.type first,@function\nfirst: mov (%rdi),%eax\n ret\n.size first,.-first\n");
int first(volatile void *);
enum { PAGES = 64, PAGE = 4096 };
static int faults;
static char *page;
__attribute__((noinline)) static void answer(unsigned long address) {
    struct uffdio_copy copy = {.dst = address & -PAGE, .src = (unsigned long)page, .len = PAGE};
    ioctl(faults, UFFDIO_COPY, &copy);
}
static void *serve(void *nothing) {
    for (struct uffd_msg asked;;)
        if (read(faults, &asked, sizeof asked) == sizeof asked) answer(asked.arg.pagefault.address);
}
int main(int count, char **words) {
    if (count > 2) { FILE *place = fopen(words[2], "w"); fprintf(place, "%d\n", getpid()); fclose(place); }
    struct uffdio_api api = {.api = UFFD_API};
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 9;
    char *served = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), memset(page, 1, PAGE);
    struct uffdio_register range = {.range = {(unsigned long)served, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(faults, UFFDIO_REGISTER, &range)) return 9;
    pthread_t server; pthread_create(&server, 0, serve, 0);
    long wrong = 0;
    for (time_t end = time(0) + atoi(words[1]); time(0) < end; madvise(served, PAGES * PAGE, MADV_DONTNEED))
        for (int i = 0; i < PAGES; i++) wrong += first(served + i * PAGE) != 0x01010101;
    printf("%ld wrong\n", wrong);
    return 5;
}
"#;

fn served_memory() {
    if !cfg!(target_arch = "x86_64") {
        return support::skip_on_this_machine("the program has an instruction of x86-64");
    }
    let shop = RecordingFolder::new();
    let program = shop.compile("serves", SERVES_MEMORY, &["-pthread", "-w"]);
    if Command::new(&program).arg("0").status().unwrap().code() == Some(NOT_HERE) {
        return support::skip_on_this_machine("userfaultfd is not allowed");
    }
    for _ in 0..repeats() {
        let recorded = shop.record(&[], &[text(&program), "1"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&recorded.stdout), "0 wrong\n", "{}", err(&recorded));
        assert_eq!(code(&recorded), 5, "{}", err(&recorded));
    }

    let place = shop.path().join("place");
    let mut serves = Command::new(&program);
    let serves = serves.args(["6", text(&place)]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut serves = Running(serves.spawn().unwrap());
    let process = number_in(&place);
    let options = ["--pid", &process.to_string(), "--seconds", "2"];
    let recorded = shop.record(&options, &[]).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    assert_untouched(process);
    let ended = serves.end_of_pipes();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "0 wrong\n");
}

/// Has its code in memory that it shares, and must not write to the address where the code is executed.
const COPIES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
extern char __executable_start, etext;
#define F(n) __attribute__((noinline)) static int f##n(int x) { __asm__ volatile(""); return x * n + 1; }
F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
static int (*const all[])(int) = {f1, f2, f3, f4, f5, f6, f7, f8};
__attribute__((noinline, aligned(4096))) static void copy(void) {
    char *code = &__executable_start + 0x1000;
    size_t length = (&etext - code + 4095) & -4096ul;
    int shared = memfd_create("code", 0);
    if (ftruncate(shared, length)) return;
    char *other = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    memcpy(other, code, length), munmap(other, length);
    mmap(code, length, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, shared, 0);
}
int main(void) {
    long sum = 0;
    for (int i = 0; i < 4; i++) sum += all[i](i);
    copy();
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 8; i++) sum += all[i](i);
        usleep(1000);
    }
    printf("%ld\n", sum);
    return 6;
}
"#;

fn shared_copy() {
    let shop = RecordingFolder::new();
    let program = shop.compile("copies", COPIES, &[]);
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(code(&alone), 6);
    let all = [&[][..], &["--startup"], &["--seconds", "0.2"]];
    for options in all.into_iter().cycle().take(repeats().max(all.len())) {
        let recorded = shop.record(options, &[text(&program)]).output().unwrap();
        assert_eq!(recorded.stdout, alone.stdout, "{options:?}: {}", err(&recorded));
        assert_eq!(code(&recorded), 6, "{options:?}: {}", err(&recorded));
    }
}
