// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Costs of uprobes at every function of a program, where a recorder would otherwise set breakpoints.
//
//   measure events FILE COUNT          one perf event for each function
//   measure links FILE...              one BPF link for each file, before any process maps it
//   measure hit                        one hit, and what the program can see
//   measure killed                     what is left in a program when the recorder is killed
//   measure forked                     hits in a forked child
//   measure machine FILE COUNT         a link for the whole machine, where so many processes map the file already
//   measure others                     hits in processes that are there, or begin, while a link for the whole machine is
//   measure stops                      one stop of a breakpoint by ptrace, and one signal that the program handles itself
//   measure start FILE... -- PROGRAM   a start: first uses by a link for each file, from the program's first instruction
//   measure plain -- PROGRAM           the same start without probes
//
// Functions are those of .eh_frame_hdr. The BPF program reports the first hit of each function, by a ring buffer. The recorder then
// writes the original byte back by /proc/PID/mem: the program is not stopped, and the kernel knows uprobes without a breakpoint.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { UPROBE_MULTI = 48, RING = 1 << 22, MOST_FILES = 128, MOST_FUNCTIONS = 1 << 18 };
// Helpers of BPF programs.
enum { LOOKUP = 1, TIME = 5, THREAD = 14, READ_USER = 112, RESERVE = 131, SUBMIT = 132, COOKIE = 174 };

static void fail(const char *what) {
    fprintf(stderr, "measure: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// --- The functions of files ---

struct file {
    char path[1024];
    uint64_t *offsets, *cookies;
    int count, link;
    uint64_t base;
};
static struct file files[MOST_FILES];
static int file_count, function_count;
static uint64_t offset_of[MOST_FUNCTIONS];
static unsigned char original[MOST_FUNCTIONS];
static int file_of[MOST_FUNCTIONS];

static void add_file(const char *path) {
    struct file *file = &files[file_count];
    if (file_count == MOST_FILES || !realpath(path, file->path)) fail(path);
    int opened = open(path, O_RDONLY);
    struct stat about;
    if (opened < 0 || fstat(opened, &about)) fail(path);
    const char *bytes = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE, opened, 0);
    const Elf64_Ehdr *header = (const void *)bytes;
    const Elf64_Phdr *segments = (const void *)(bytes + header->e_phoff), *table = NULL;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_GNU_EH_FRAME) table = &segments[i];
    const unsigned char *hdr = (const void *)(bytes + (table ? table->p_offset : 0));
    // A file without code has no such table.
    if (!table || hdr[1] != 0x1b || hdr[2] != 0x03 || hdr[3] != 0x3b) return;
    uint32_t count;
    memcpy(&count, hdr + 8, 4);
    file->offsets = calloc(count, 8);
    file->cookies = calloc(count, 8);
    uint64_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        int32_t relative;
        memcpy(&relative, hdr + 12 + i * 8, 4);
        uint64_t address = table->p_vaddr + relative;
        for (int s = 0; s < header->e_phnum; s++) {
            const Elf64_Phdr *code = &segments[s];
            if (code->p_type != PT_LOAD || !(code->p_flags & PF_X) || address - code->p_vaddr >= code->p_filesz) continue;
            uint64_t offset = address - code->p_vaddr + code->p_offset;
            if (offset == last || function_count == MOST_FUNCTIONS) continue;
            last = offset;
            file->offsets[file->count] = offset_of[function_count] = offset;
            original[function_count] = bytes[offset];
            file_of[function_count] = file_count;
            file->cookies[file->count++] = function_count++;
        }
    }
    file_count += file->count > 0;
    // A file that this process maps would get its breakpoints here.
    munmap((void *)bytes, about.st_size);
    close(opened);
}

// --- BPF ---

static int bpf(int command, union bpf_attr *attributes) { return syscall(SYS_bpf, command, attributes, sizeof *attributes); }

static int new_map(int type, int key, int value, int entries, int flags) {
    union bpf_attr map = {.map_type = type, .key_size = key, .value_size = value, .max_entries = entries, .map_flags = flags};
    int made = bpf(BPF_MAP_CREATE, &map);
    if (made < 0) fail("no BPF map");
    return made;
}

#define INSN(c, d, s, o, i) {.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)}
#define MOVE(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define SET(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define STORE(size, d, s, o) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define MAP(d, fd) INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)
#define IF_ZERO(r, o) INSN(BPF_JMP | BPF_JEQ | BPF_K, r, 0, o, 0)
#define UNLESS_ZERO(r, o) INSN(BPF_JMP | BPF_JNE | BPF_K, r, 0, o, 0)

static int hits_map, ring_map, program;
static uint64_t *hits;
static volatile uint64_t *consumed, *produced;
static const char *ring;

struct report { uint64_t function, time, thread, returns_to; };

static void prepare_bpf(void) {
    hits_map = new_map(BPF_MAP_TYPE_ARRAY, 4, 8, function_count, BPF_F_MMAPABLE);
    ring_map = new_map(BPF_MAP_TYPE_RINGBUF, 0, 0, RING, 0);
    struct bpf_insn code[] = {
        MOVE(6, 1), CALL(COOKIE), MOVE(7, 0), STORE(BPF_W, 10, 7, -4),
        MAP(1, hits_map), MOVE(2, 10), ADD(2, -4), CALL(LOOKUP), IF_ZERO(0, 26),
        LOAD(BPF_DW, 1, 0, 0), MOVE(2, 1), ADD(2, 1), STORE(BPF_DW, 0, 2, 0), UNLESS_ZERO(1, 21),
        MAP(1, ring_map), SET(2, sizeof(struct report)), SET(3, 0), CALL(RESERVE), IF_ZERO(0, 15),
        MOVE(8, 0), STORE(BPF_DW, 8, 7, 0), CALL(TIME), STORE(BPF_DW, 8, 0, 8), CALL(THREAD), STORE(BPF_DW, 8, 0, 16),
        // The return address, at the stack pointer of struct pt_regs.
        MOVE(1, 8), ADD(1, 24), SET(2, 8), LOAD(BPF_DW, 3, 6, 152), CALL(READ_USER),
        MOVE(1, 8), SET(2, BPF_RB_NO_WAKEUP), CALL(SUBMIT), SET(0, 0), SET(0, 0),
        INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    static char log[1 << 16];
    union bpf_attr load = {
        .prog_type = BPF_PROG_TYPE_KPROBE, .expected_attach_type = UPROBE_MULTI, .insns = (uint64_t)code,
        .insn_cnt = sizeof code / sizeof *code, .license = (uint64_t)"Dual MIT/GPL",
        .log_buf = (uint64_t)log, .log_size = sizeof log, .log_level = 1,
    };
    program = bpf(BPF_PROG_LOAD, &load);
    if (program < 0) fprintf(stderr, "%s", log), fail("no BPF program");
    hits = mmap(NULL, (function_count * 8 + 4095) & ~4095ul, PROT_READ, MAP_SHARED, hits_map, 0);
    consumed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring_map, 0);
    produced = mmap(NULL, 4096 + 2 * RING, PROT_READ, MAP_SHARED, ring_map, 4096);
    ring = (const char *)produced + 4096;
}

static int attach(const struct file *file, int process) {
    struct {
        uint32_t program, target, type, flags;
        uint64_t path, offsets, references, cookies;
        uint32_t count, link_flags, process, unused;
    } link = {program, 0, UPROBE_MULTI, 0, (uint64_t)file->path, (uint64_t)file->offsets, 0, (uint64_t)file->cookies,
              file->count, 0, process, 0};
    return syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof link);
}

static double attach_all(int process, int *refused) {
    double begun = now();
    for (int i = 0; i < file_count; i++) {
        files[i].link = attach(&files[i], process);
        if (files[i].link < 0) ++*refused;
    }
    return now() - begun;
}

static double close_all(void) {
    double begun = now();
    for (int i = 0; i < file_count; i++) close(files[i].link);
    return now() - begun;
}

// --- Placing ---

// Maps the code of the first file; how long that takes.
static double map_code(char **code, size_t *length) {
    struct stat about;
    int opened = open(files[0].path, O_RDONLY);
    if (opened < 0 || fstat(opened, &about)) fail(files[0].path);
    *length = about.st_size;
    double begun = now();
    *code = mmap(NULL, *length, PROT_READ | PROT_EXEC, MAP_PRIVATE, opened, 0);
    double took = now() - begun;
    if (*code == MAP_FAILED) fail("mmap");
    close(opened);
    return took;
}

// What breakpoints cost that are written by /proc/PID/mem: one by one, or 64 pages at once.
static double write_breakpoints(int at_once) {
    enum { PAGES = 64 * 4096 };
    static char pages[PAGES];
    char *code;
    size_t length;
    map_code(&code, &length);
    int own_memory = open("/proc/self/mem", O_RDWR);
    double begun = now();
    for (int i = 0; i < files[0].count;) {
        uint64_t address = (uint64_t)code + files[0].offsets[i];
        ssize_t size = 1;
        int next = i + 1;
        pages[0] = (char)0xcc;
        if (at_once) {
            while (next < files[0].count && files[0].offsets[next] - files[0].offsets[i] < PAGES) next++;
            size = (ssize_t)(files[0].offsets[next - 1] - files[0].offsets[i] + 1);
            if (pread(own_memory, pages, size, address) != size) fail("memory");
            for (int j = i; j < next; j++) pages[files[0].offsets[j] - files[0].offsets[i]] = (char)0xcc;
        }
        if (pwrite(own_memory, pages, size, address) != size) fail("memory");
        i = next;
    }
    double took = now() - begun;
    close(own_memory);
    munmap(code, length);
    return took;
}

static void measure_links(void) {
    char *code;
    size_t length;
    int refused = 0;
    double per_function = 1e6 / function_count, without = map_code(&code, &length);
    munmap(code, length);
    prepare_bpf();
    double attaching = attach_all(getpid(), &refused), mapping = map_code(&code, &length) - without;
    munmap(code, length);
    double closing = close_all();
    printf("| a link of BPF for the file: attached before the file is mapped | %.2f µs |\n", attaching * per_function);
    printf("| the same: breakpoints set by the kernel as the file is mapped | %.2f µs |\n", mapping * per_function);
    printf("| the same: closed | %.2f µs |\n", closing * per_function);
    printf("| breakpoints written by a recorder, one by one | %.2f µs |\n", write_breakpoints(0) * per_function);
    printf("| breakpoints written by a recorder, 64 pages at once | %.2f µs |\n", write_breakpoints(1) * per_function);
}

// --- Events of perf ---

static void measure_events(int count) {
    uint32_t type = 0;
    FILE *kind = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    if (!kind || fscanf(kind, "%u", &type) != 1) fail("no uprobes in perf");
    struct perf_event_attr event = {
        .size = sizeof event, .type = type, .sample_period = 1, .config1 = (uint64_t)files[0].path,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_TID,
    };
    int *opened = calloc(count, sizeof *opened), made = 0;
    double begun = now();
    for (; made < count && made < files[0].count; made++) {
        event.config2 = files[0].offsets[made];
        opened[made] = syscall(SYS_perf_event_open, &event, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
        if (opened[made] < 0) break;
        if (made == 0 && mmap(NULL, 4096 * 129, PROT_READ | PROT_WRITE, MAP_SHARED, opened[0], 0) == MAP_FAILED) fail("mmap");
        if (made > 0 && ioctl(opened[made], PERF_EVENT_IOC_SET_OUTPUT, opened[0])) fail("one buffer for several events");
    }
    if (made < 20) fail("no event");
    double time = now() - begun;
    printf("| events of perf, one for each function: opened | %.1f µs |\n", time * 1e6 / made);
    begun = now();
    for (int i = 0; i < 10; i++) close(opened[i]);
    printf("| the same: closed, one by one | %.0f µs |\n", (now() - begun) * 1e6 / 10);
    fflush(stdout);
    // The rest is closed by the kernel, at the pace of the first ten.
}

// --- One function ---

__attribute__((naked)) static int pushes(int x __attribute__((unused))) { __asm__("push %rbp\n pop %rbp\n mov %edi, %eax\n ret"); }
__attribute__((naked)) static int adds(int x __attribute__((unused))) { __asm__("add $1, %edi\n mov %edi, %eax\n ret"); }

static void add_function(const void *function) {
    struct file *file = &files[0];
    if (!file_count++) {
        if (!realpath("/proc/self/exe", file->path)) fail("/proc/self/exe");
        file->offsets = calloc(8, 8);
        file->cookies = calloc(8, 8);
    }
    file_count = 1;
    extern const char __executable_start;
    file->offsets[file->count] = (uint64_t)((const char *)function - &__executable_start);
    file->cookies[file->count++] = function_count++;
}

static double time_of_calls(int (*function)(int), int count) {
    double begun = now();
    for (int i = 0; i < count; i++) function(i);
    return (now() - begun) * 1e6 / count;
}

static int has_area(void) {
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "[uprobes]") != NULL;
    if (maps) fclose(maps);
    return found;
}

static unsigned char first_byte(const void *function) { return *(const volatile unsigned char *)function; }

static void measure_hit(void) {
    add_function(pushes);
    add_function(adds);
    prepare_bpf();
    double without = time_of_calls(pushes, 100000);
    printf("| a call without | %.3f µs |\n", without);
    if ((files[0].link = attach(&files[0], getpid())) < 0) fail("no link");
    printf("| a hit, where the first instruction is `push` (the kernel does it) | %.1f µs |\n", time_of_calls(pushes, 20000) - without);
    printf("| a hit, where it is another (it runs in the area `[uprobes]`) | %.1f µs |\n", time_of_calls(adds, 20000) - without);
    printf("\nThe program sees: first byte of the function %#x, mapping `[uprobes]`: %s. ", first_byte(adds), has_area() ? "yes" : "no");
    close(files[0].link);
    printf("Without the link: first byte %#x, mapping `[uprobes]`: %s.\n", first_byte(adds), has_area() ? "yes" : "no");
}

static void measure_killed(void) {
    add_function(adds);
    int ready[2], after;
    if (pipe(ready)) fail("pipe");
    pid_t program_id = getpid(), recorder = fork();
    if (!recorder) {
        prepare_bpf();
        char ok = attach(&files[0], program_id) >= 0;
        if (write(ready[1], &ok, 1) == 1) pause();
        _exit(1);
    }
    char ok = 0;
    if (read(ready[0], &ok, 1) != 1 || !ok) fail("no link");
    int before = first_byte(adds);
    kill(recorder, SIGKILL);
    waitpid(recorder, NULL, 0);
    double begun = now();
    while ((after = first_byte(adds)) == before && now() - begun < 5) usleep(1000);
    printf("The recorder killed by SIGKILL: first byte %#x before, %#x after, the program runs on.\n", before, after);
}

static void measure_forked(void) {
    add_function(adds);
    prepare_bpf();
    int process = getpid();
    if ((files[0].link = attach(&files[0], process)) < 0) fail("no link");
    adds(1);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 100; i++) adds(i);
        _exit(first_byte(adds) == 0xcc);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("A forked child: 100 hits, %lu of them reported; its copy %s the breakpoint.\n", (unsigned long)hits[0] - 1,
           WIFEXITED(status) && WEXITSTATUS(status) ? "keeps" : "has lost");
}

// --- The whole machine ---

enum { EVERY_PROCESS = 0, MOST_PROCESSES = 64 };

// Private memory of a process that was written to, in KiB.
static long written_memory(int process) {
    char name[64], line[256];
    long all = 0, size;
    snprintf(name, sizeof name, "/proc/%d/smaps_rollup", process);
    FILE *sums = fopen(name, "r");
    while (sums && fgets(line, sizeof line, sums))
        if (sscanf(line, "Private_Dirty: %ld", &size) == 1) all += size;
    if (sums) fclose(sums);
    return all;
}

// Removes the functions from a file that make the kernel refuse all of them, as their first instructions take no probe.
static int leave_out_refused(struct file *file, int from, int to) {
    struct file part = *file;
    part.offsets += from;
    part.cookies += from;
    part.count = to - from;
    if (from == to) return 0;
    int link = attach(&part, EVERY_PROCESS);
    if (link >= 0) return close(link), 0;
    if (to - from == 1) {
        file->count--;
        memmove(file->offsets + from, file->offsets + to, (file->count - from) * sizeof *file->offsets);
        memmove(file->cookies + from, file->cookies + to, (file->count - from) * sizeof *file->cookies);
        return 1;
    }
    int middle = (from + to) / 2, second = leave_out_refused(file, middle, to);
    return second + leave_out_refused(file, from, middle);
}

static void measure_machine(int count) {
    pid_t processes[MOST_PROCESSES];
    int ready[2];
    if (count < 1 || count > MOST_PROCESSES || pipe(ready)) fail("processes");
    for (int i = 0; i < count; i++) {
        if ((processes[i] = fork())) continue;
        char *code;
        size_t length;
        map_code(&code, &length);
        if (write(ready[1], "x", 1) == 1) pause();
        _exit(1);
    }
    char byte;
    for (int i = 0; i < count; i++)
        if (read(ready[0], &byte, 1) != 1) fail("processes");
    prepare_bpf();
    int refused = leave_out_refused(&files[0], 0, files[0].count);
    long before = written_memory(processes[0]);
    double begun = now(), per_function = 1e6 / function_count;
    if ((files[0].link = attach(&files[0], EVERY_PROCESS)) < 0) fail("no link");
    double attaching = now() - begun;
    long after = written_memory(processes[0]);
    double closing = close_all();
    for (int i = 0; i < count; i++) {
        kill(processes[i], SIGKILL);
        waitpid(processes[i], NULL, 0);
    }
    printf("| a link of BPF for the whole machine, where %d processes map the file: attached, with all breakpoints set | %.2f µs |\n", count,
           attaching * per_function);
    printf("| the same: closed | %.2f µs |\n", closing * per_function);
    printf("| the same: memory of each process for %d functions, %d of which take no probe | %.1f MiB |\n", function_count, refused,
           (after - before) / 1024.0);
}

static int hits_of(pid_t process, uint64_t before) {
    int status;
    waitpid(process, &status, 0);
    return (int)(hits[0] - before);
}

static void measure_others(void) {
    add_function(adds);
    prepare_bpf();
    int gate[2];
    if (pipe(gate)) fail("pipe");
    pid_t there = fork();
    if (!there) {
        char byte;
        if (read(gate[0], &byte, 1) != 1) _exit(1);
        for (int i = 0; i < 100; i++) adds(i);
        _exit(0);
    }
    if ((files[0].link = attach(&files[0], EVERY_PROCESS)) < 0) fail("no link");
    if (write(gate[1], "x", 1) != 1) fail("gate");
    int first = hits_of(there, 0);
    uint64_t before = hits[0];
    pid_t begins = fork();
    if (!begins) {
        execl("/proc/self/exe", "measure", "add", NULL);
        _exit(1);
    }
    int second = hits_of(begins, before);
    close(files[0].link);
    printf("A link for the whole machine: a process that was there has 100 hits, %d of them reported; one that begins has 100, %d reported.\n",
           first, second);
}

// --- Breakpoints by other means ---

static void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("processor");
}

// What a recorder does at a breakpoint: it is told, reads registers, writes a byte, sets registers, lets go.
static double time_of_stops(int processor, int count) {
    pid_t child = fork();
    if (!child) {
        stay_on(processor);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        for (;;) __asm__ volatile("int3");
    }
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/mem", child);
    int status, memory_of_child = open(name, O_RDWR);
    struct user_regs_struct registers;
    waitpid(child, &status, 0);
    double begun = now();
    for (int i = 0; i < count; i++) {
        ptrace(PTRACE_GETREGS, child, NULL, &registers);
        uint64_t word;
        if (pread(memory_of_child, &word, 8, registers.rsp) != 8 || pwrite(memory_of_child, &word, 1, registers.rsp) != 1) fail("memory");
        ptrace(PTRACE_SETREGS, child, NULL, &registers);
        ptrace(PTRACE_CONT, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    double took = now() - begun;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return took * 1e6 / count;
}

static void handle(int number) { (void)number; }

static void measure_stops(void) {
    stay_on(0);
    printf("| a stop by ptrace, recorder and program on two processors | %.1f µs |\n", time_of_stops(1, 10000));
    printf("| a stop by ptrace, both on one processor | %.1f µs |\n", time_of_stops(0, 10000));
    signal(SIGTRAP, handle);
    double begun = now();
    for (int i = 0; i < 100000; i++) __asm__ volatile("int3");
    printf("| a signal that the program itself handles | %.1f µs |\n", (now() - begun) * 1e6 / 100000);
}

// --- A start ---

static int memory = -1;

static void find_bases(int process) {
    char name[64], line[2048];
    if (memory >= 0) close(memory);
    snprintf(name, sizeof name, "/proc/%d/mem", process);
    memory = open(name, O_RDWR);
    snprintf(name, sizeof name, "/proc/%d/maps", process);
    FILE *maps = fopen(name, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t start, offset;
        char rights[8], path[1024] = "";
        sscanf(line, "%lx-%*x %7s %lx %*s %*s %1023s", &start, rights, &offset, path);
        for (int i = 0; rights[2] == 'x' && i < file_count; i++)
            if (!strcmp(path, files[i].path)) files[i].base = start - offset;
    }
    if (maps) fclose(maps);
}

static void take_out(int process, int function) {
    struct file *file = &files[file_of[function]];
    if (!file->base || memory < 0) find_bases(process);
    // Before an exec the memory is that of another program: it has gone, and so has the breakpoint.
    if (file->base && pwrite(memory, &original[function], 1, file->base + offset_of[function]) != 1) find_bases(process);
}

static int drain(int process) {
    int functions = 0;
    while (*consumed < *produced) {
        const char *at = ring + (*consumed & (RING - 1));
        uint32_t length = *(const volatile uint32_t *)at;
        if (length & BPF_RINGBUF_BUSY_BIT) break;
        take_out(process, (int)((const struct report *)(at + BPF_RINGBUF_HDR_SZ))->function);
        functions++;
        *consumed += (length + BPF_RINGBUF_HDR_SZ + 7) & ~7ul;
    }
    return functions;
}

static void measure_start(char **words) {
    int gate[2], refused = 0, functions = 0, status;
    if (pipe2(gate, O_CLOEXEC)) fail("pipe");
    pid_t process = fork();
    if (!process) {
        char byte;
        if (read(gate[0], &byte, 1) == 1) execvp(words[0], words);
        _exit(127);
    }
    double attaching = 0;
    if (function_count) {
        prepare_bpf();
        attaching = attach_all(process, &refused);
    }
    double begun = now();
    if (write(gate[1], "x", 1) != 1) fail("gate");
    prctl(PR_SET_TIMERSLACK, 1000);
    while (!waitpid(process, &status, WNOHANG)) {
        if (function_count) functions += drain(process);
        usleep(100);
    }
    double took = now() - begun, closing = close_all();
    uint64_t all = 0;
    for (int i = 0; i < function_count; i++) all += hits[i];
    // On standard error, behind what the program writes: milliseconds of the start, of attaching and of closing; functions with probes, found, hits; files that were refused; exit.
    fprintf(stderr, "\ntook %.2f %.1f %.1f %d %d %lu %d %d\n", took * 1e3, attaching * 1e3, closing * 1e3, function_count, functions,
           (unsigned long)all, refused, WIFEXITED(status) ? WEXITSTATUS(status) : 255);
}

int main(int count, char **words) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    const char *what = count > 1 ? words[1] : "";
    int at = 2;
    int counts = count == 4 && (!strcmp(what, "events") || !strcmp(what, "machine"));
    for (; at < count - counts && strcmp(words[at], "--"); at++) add_file(words[at]);
    if (counts && !strcmp(what, "events")) measure_events(atoi(words[3]));
    else if (counts) measure_machine(atoi(words[3]));
    else if (!strcmp(what, "links")) measure_links();
    else if (!strcmp(what, "hit")) measure_hit();
    else if (!strcmp(what, "killed")) measure_killed();
    else if (!strcmp(what, "stops")) measure_stops();
    else if (!strcmp(what, "forked")) measure_forked();
    else if (!strcmp(what, "others")) measure_others();
    else if (!strcmp(what, "add"))
        for (int i = 0; i < 100; i++) adds(i);
    else if ((!strcmp(what, "start") || !strcmp(what, "plain")) && at + 1 < count) measure_start(words + at + 1);
    else return fprintf(stderr, "measure: see the comment in measure.c\n"), 2;
    return 0;
}
