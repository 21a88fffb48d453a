// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generated C programs, each difficult to trace in its own way. Their output and exit codes are always the same.

/// Number of functions that `work` calls in turn.
pub(crate) const FUNCTIONS: usize = 60;

/// `long work(long rounds)` calls functions `f0`, `f1`, … in turn, a fixed number of calls per round, and returns their
/// result.
fn work() -> String {
    let mut text = String::from(
        "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n",
    );
    for index in 0..FUNCTIONS {
        let body = format!("__asm__ volatile(\"\"); return x * {} + {index};", index % 7 + 1);
        text += &format!("__attribute__((noinline)) long f{index}(long x) {{ {body} }}\n");
    }
    let names: Vec<String> = (0..FUNCTIONS).map(|index| format!("f{index}")).collect();
    text += &format!("static long (*const functions[])(long) = {{ {} }};\n", names.join(", "));
    text + "__attribute__((noinline)) long work(long rounds) {\n\
            \x20   long sum = 0;\n\
            \x20   for (long i = 0; i < rounds; i++)\n\
            \x20       for (unsigned k = 0; k < sizeof functions / sizeof *functions; k++)\n\
            \x20           sum += functions[k](i) & 0xffff;\n\
            \x20   return sum;\n}\n"
}

/// One process and one thread.
pub(crate) fn plain() -> String {
    work()
        + "__attribute__((constructor)) void begin(void) { setenv(\"BEGUN\", \"yes\", 1); }\n\
              static void end(void) { puts(\"the end\"); }\n\
              int main(void) { atexit(end); printf(\"%s %ld\\n\", getenv(\"BEGUN\"), work(20000)); return 7; }\n"
}

/// Eight threads that execute the same functions at the same time.
pub(crate) fn threads() -> String {
    work()
        + "#include <pthread.h>\n\
              static pthread_barrier_t barrier;\n\
              static void *thread(void *sum) { pthread_barrier_wait(&barrier); *(long *)sum = work(3000); return 0; }\n\
              int main(void) {\n\
              \x20   pthread_t threads[8]; long sums[8], sum = 0;\n\
              \x20   pthread_barrier_init(&barrier, 0, 8);\n\
              \x20   for (int round = 0; round < 4; round++) {\n\
              \x20       for (int i = 0; i < 8; i++) pthread_create(threads + i, 0, thread, sums + i);\n\
              \x20       for (int i = 0; i < 8; i++) { pthread_join(threads[i], 0); sum += sums[i]; }\n\
              \x20   }\n\
              \x20   printf(\"%ld\\n\", sum);\n\
              \x20   return 3;\n}\n"
}

/// Processes that fork others, which share the work.
pub(crate) fn forks() -> String {
    work()
        + "#include <sys/wait.h>\n\
              int main(void) {\n\
              \x20   int sum = 0;\n\
              \x20   for (int i = 0; i < 12; i++) {\n\
              \x20       pid_t child = fork();\n\
              \x20       if (child == 0) {\n\
              \x20           pid_t grandchild = fork();\n\
              \x20           long own = work(100 * i);\n\
              \x20           if (grandchild == 0) _exit(own % 50);\n\
              \x20           int status; waitpid(grandchild, &status, 0);\n\
              \x20           _exit((own + WEXITSTATUS(status)) % 50);\n\
              \x20       }\n\
              \x20       functions[i](i);\n\
              \x20       int status; waitpid(child, &status, 0); sum += WEXITSTATUS(status);\n\
              \x20       if (WIFSIGNALED(status)) printf(\"child %d died of %d\\n\", i, WTERMSIG(status));\n\
              \x20   }\n\
              \x20   printf(\"%d\\n\", sum);\n\
              \x20   return 4;\n}\n"
}

/// Starts other programs with posix_spawn, vfork, system and popen, also from a thread.
pub(crate) fn spawns() -> String {
    work()
        + "#include <pthread.h>\n#include <spawn.h>\n#include <sys/wait.h>\n\
              extern char **environ;\n\
              __attribute__((noinline)) static int spawn(const char *text) {\n\
              \x20   char *arguments[] = { \"/bin/echo\", (char *)text, 0 }; pid_t child; int status = -1;\n\
              \x20   if (posix_spawn(&child, arguments[0], 0, 0, arguments, environ)) return -1;\n\
              \x20   waitpid(child, &status, 0);\n\
              \x20   return status;\n}\n\
              static void *busy(void *sum) { *(long *)sum = work(5000); return 0; }\n\
              int main(void) {\n\
              \x20   pthread_t thread; long sum; int bad = 0, status;\n\
              \x20   pthread_create(&thread, 0, busy, &sum);\n\
              \x20   for (int i = 0; i < 8; i++) bad |= spawn(\"spawned\");\n\
              \x20   pid_t child = vfork();\n\
              \x20   if (child == 0) { execl(\"/bin/sh\", \"sh\", \"-c\", \"echo by vfork; exit 9\", (char *)0); _exit(1); }\n\
              \x20   waitpid(child, &status, 0);\n\
              \x20   bad |= system(\"echo by system | tr a-z A-Z\");\n\
              \x20   FILE *pipe = popen(\"echo by popen\", \"r\"); char line[80] = \"\";\n\
              \x20   if (!fgets(line, sizeof line, pipe)) bad = 1;\n\
              \x20   bad |= pclose(pipe);\n\
              \x20   pthread_join(thread, 0);\n\
              \x20   printf(\"%s%d %ld %d\\n\", line, WEXITSTATUS(status), sum, bad);\n\
              \x20   return 5;\n}\n"
}

/// A library with this number of functions, whose constructor and indirect function run while it is loaded.
pub(crate) fn library() -> String {
    String::from(
        "static int begun;\n\
         __attribute__((constructor)) static void library_begins(void) { begun = 1; }\n\
         static long chosen(long x) { return x + 40; }\n\
         static long (*choose(void))(long) { return chosen; }\n\
         __attribute__((ifunc(\"choose\"))) long indirect(long);\n\
         __attribute__((noinline)) long library_leaf(long x) { __asm__ volatile(\"\"); return x + begun; }\n\
         long library_call(long x) { return indirect(library_leaf(x)); }\n",
    )
}

/// Loads and unloads the library repeatedly.
pub(crate) fn loads() -> String {
    work()
        + "#include <dlfcn.h>\n\
              int main(int count, char **arguments) {\n\
              \x20   long sum = 0;\n\
              \x20   for (int i = 0; i < 30; i++) {\n\
              \x20       void *library = dlopen(arguments[1], RTLD_NOW);\n\
              \x20       if (!library) { puts(dlerror()); return 1; }\n\
              \x20       long (*call)(long) = (long (*)(long))dlsym(library, \"library_call\");\n\
              \x20       sum += call(i) + call(i) + work(100);\n\
              \x20       dlclose(library);\n\
              \x20   }\n\
              \x20   printf(\"%ld\\n\", sum);\n\
              \x20   return 6;\n}\n"
}

/// Unmaps code that has run, or may still run, and replaces it by data with breakpoint instructions: a page of its own
/// functions, which it maps again, a copy of that page, and the code of a library.
pub(crate) fn unmaps() -> String {
    let functions: String = (0..40)
        .map(|index| format!("GONE long g{index}(long x) {{ __asm__ volatile(\"\"); return (x & 0xffff) * {} + {index}; }}\n", index % 7 + 1))
        .collect();
    let calls = |from: usize| (from..from + 20).map(|index| format!("s = g{index}(s); ")).collect::<String>();
    let head = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#ifdef __aarch64__
#define TRAP "\x00\x00\x20\xd4"
#else
#define TRAP "\xcc\xcc\xcc\xcc"
#endif
#define FUNCTION __attribute__((noinline)) static
#define GONE __attribute__((noinline, section("gone")))
/* Nothing else that runs is in their pages. */
__asm__(".section gone,\"ax\"\n.skip 8192\n.text");
"#;
    let tail = r#"
/* The mapping with this address, and where in its file it begins. */
FUNCTION void find(void *address, char **from, char **to, long *offset) {
    char line[512]; unsigned long start, end, at = (unsigned long)address; FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, (unsigned long *)offset) == 3 && start <= at && at < end) break;
    *from = (char *)start; *to = (char *)end;
    fclose(maps);
}
FUNCTION void fill(char *from, char *to) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(from, to - from, PROT_READ | PROT_WRITE, flags, -1, 0) != from) _exit(90);
    for (char *at = from; at < to; at += 4) memcpy(at, TRAP, 4);
}
FUNCTION int changed(char *from, char *to) {
    int changed = 0;
    for (char *at = from; at < to; at += 4) changed += memcmp(at, TRAP, 4) != 0;
    return changed;
}
int main(int count, char **words) {
    long s = 1, offset, unused; char *from, *to, *mapped, *end;
    for (int i = 0; i < 20000; i++) s = early(s);
    s += work(30000);
    find(g0, &mapped, &end, &offset);
    from = (char *)((unsigned long)g0 & ~4095ul); to = (char *)(((unsigned long)g39 + 64 + 4095) & ~4095ul);
    offset += from - mapped;
    if (munmap(from, to - from)) return 91;
    fill(from, to); s += work(30000);
    printf("data: %d changed\n", changed(from, to));
    if (munmap(from, to - from)) return 92;
    s += work(30000);
    int file = open(words[0], O_RDONLY);
    if (mmap(from, to - from, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, offset) != from) return 93;
    for (int i = 0; i < 20000; i++) s = late(early(s));
    /* The recorder looks at what is mapped when a library is loaded. */
    char *copy = mmap(0, to - from, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, offset);
    void *one = dlopen(words[1], RTLD_NOW), *two;
    if (copy == MAP_FAILED || !one) return 94;
    long (*third)(long) = (long (*)(long))(copy + ((char *)g3 - from));
    long (*thirtieth)(long) = (long (*)(long))(copy + ((char *)g30 - from));
    for (int i = 0; i < 20000; i++) s = third(s) + thirtieth(s);
    if (munmap(copy, to - from)) return 95;
    char *copied = copy + (to - from);
    fill(copy, copied); s += work(30000);
    long (*leaf)(long) = (long (*)(long))dlsym(one, "library_leaf"), (*call)(long);
    for (int i = 0; i < 2000; i++) s += leaf(i);
    find(leaf, &mapped, &end, &unused);
    if (munmap(mapped, end - mapped)) return 96;
    fill(mapped, end); s += work(30000);
    if (!(two = dlopen(words[2], RTLD_NOW))) return 97;
    call = (long (*)(long))dlsym(two, "library_call");
    for (int i = 0; i < 2000; i++) s += call(i);
    int status; pid_t child = fork();
    if (child == 0) { s = work(20000) + late(s); _exit(changed(mapped, end) + changed(copy, copied) + 3); }
    waitpid(child, &status, 0);
    s += work(30000);
    printf("copy: %d, library: %d, child: %x, sum %ld\n", changed(copy, copied), changed(mapped, end), status, s);
    fflush(stdout);
    _exit(14);
}
"#;
    let early = format!("FUNCTION long early(long s) {{ {} return s; }}\n", calls(0));
    let late = format!("FUNCTION long late(long s) {{ {} return s; }}\n", calls(20));
    work() + head + &functions + &early + &late + tail
}

/// Signals of every kind: from a timer, real-time ones, to threads, stops; sometimes all are blocked.
pub(crate) fn signals() -> String {
    work()
        + "#include <pthread.h>\n#include <signal.h>\n#include <sys/time.h>\n#include <sys/wait.h>\n\
              static volatile long heard[128];\n\
              __attribute__((noinline)) static void note(int signal) { heard[signal]++; }\n\
              static void on_signal(int signal) { note(signal); f3(signal); }\n\
              static void *thread(void *none) { for (int i = 0; i < 200; i++) { raise(SIGUSR2); work(2); } return none; }\n\
              int main(void) {\n\
              \x20   struct sigaction action; memset(&action, 0, sizeof action);\n\
              \x20   action.sa_handler = on_signal; action.sa_flags = SA_RESTART;\n\
              \x20   int all[] = { SIGALRM, SIGUSR1, SIGUSR2, SIGRTMIN + 3, SIGCONT };\n\
              \x20   for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sigaction(all[i], &action, 0);\n\
              \x20   struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };\n\
              \x20   setitimer(ITIMER_REAL, &often, 0);\n\
              \x20   pthread_t other; pthread_create(&other, 0, thread, 0);\n\
              \x20   long sum = 0;\n\
              \x20   for (int i = 0; i < 300; i++) { raise(SIGUSR1); pthread_kill(pthread_self(), SIGRTMIN + 3); sum += work(20); }\n\
              \x20   pthread_join(other, 0);\n\
              \x20   setitimer(ITIMER_REAL, &never, 0);\n\
              \x20   sigset_t every; sigfillset(&every); pthread_sigmask(SIG_BLOCK, &every, 0);\n\
              \x20   sum += work(200);\n\
              \x20   pthread_sigmask(SIG_UNBLOCK, &every, 0);\n\
              \x20   pid_t child = fork();\n\
              \x20   if (child == 0) { raise(SIGSTOP); _exit(11); }\n\
              \x20   int status; waitpid(child, &status, WUNTRACED);\n\
              \x20   int stopped = WIFSTOPPED(status);\n\
              \x20   kill(child, SIGCONT); waitpid(child, &status, 0);\n\
              \x20   printf(\"%ld %ld %ld %ld %d %d\\n\", sum, heard[SIGUSR1], heard[SIGUSR2], heard[SIGRTMIN + 3],\n\
              \x20          stopped, WEXITSTATUS(status));\n\
              \x20   fflush(stdout);\n\
              \x20   raise(SIGTERM);\n\
              \x20   return 1;\n}\n"
}

/// Uses SIGTRAP in every way: blocked with all other signals, waited for, handled, raised by its own instructions, and
/// ignored; also while the C library blocks all signals.
pub(crate) fn traps() -> String {
    work()
        + "#include <pthread.h>\n#include <signal.h>\n#include <spawn.h>\n#include <sys/wait.h>\n\
              extern char **environ;\n\
              static volatile long heard[128];\n\
              #ifdef __aarch64__\n\
              #include <ucontext.h>\n\
              #define TRAP \"brk #0\"\n\
              static void go_on(siginfo_t *about, ucontext_t *at) { if (about->si_code > 0) at->uc_mcontext.pc += 4; }\n\
              #else\n\
              #define TRAP \"int3\"\n\
              static void go_on(siginfo_t *about, void *at) { }\n\
              #endif\n\
              static void on_trap(int signal, siginfo_t *about, void *at) { heard[signal]++; go_on(about, at); }\n\
              __attribute__((noinline)) static int later(int x) { __asm__ volatile(\"\"); return x; }\n\
              __attribute__((noinline)) static int last(int x) { __asm__ volatile(\"\"); return x; }\n\
              __attribute__((noinline)) static int blocked(int x) { __asm__ volatile(\"\"); return x; }\n\
              static int handler(void) {\n\
              \x20   struct sigaction now; sigaction(SIGTRAP, 0, &now);\n\
              \x20   return now.sa_sigaction == on_trap ? 2 : now.sa_handler == SIG_IGN ? 1 : 0;\n}\n\
              static void *thread(void *none) { work(20); return none; }\n\
              static int in_thread(void) { pthread_t other; pthread_create(&other, 0, thread, 0); pthread_join(other, 0); return handler(); }\n\
              static int in_child(void) {\n\
              \x20   pid_t child; char *words[] = { \"true\", 0 }; int status;\n\
              \x20   posix_spawnp(&child, *words, 0, 0, words, environ); waitpid(child, &status, 0);\n\
              \x20   return handler() + 10 * system(\"true\") + 10 * status;\n}\n\
              int main(void) {\n\
              \x20   sigset_t every, before, now; sigfillset(&every); sigprocmask(SIG_BLOCK, &every, &before);\n\
              \x20   long sum = work(200); kill(getpid(), SIGTRAP); sum += work(20);\n\
              \x20   int taken; sigwait(&every, &taken); sum += taken;\n\
              \x20   raise(SIGTRAP); sum += blocked(1) + work(20); sigwait(&every, &taken); sigprocmask(SIG_SETMASK, &before, &now);\n\
              \x20   printf(\"%ld %d %d %d\\n\", sum, taken, sigismember(&now, SIGTRAP), sigismember(&before, SIGTRAP));\n\
              \x20   struct sigaction action; memset(&action, 0, sizeof action);\n\
              \x20   action.sa_sigaction = on_trap; action.sa_flags = SA_NODEFER | SA_SIGINFO; sigaction(SIGTRAP, &action, 0);\n\
              \x20   raise(SIGTRAP);\n\
              \x20   __asm__ volatile(TRAP);\n\
              \x20   printf(\"%ld %d\", heard[SIGTRAP], in_thread()); printf(\" %d\\n\", in_child());\n\
              \x20   sigprocmask(SIG_BLOCK, &every, 0); sum += later(1) + work(20); sigprocmask(SIG_SETMASK, &before, 0);\n\
              \x20   int kept = handler();\n\
              \x20   signal(SIGTRAP, SIG_IGN); sum += last(1); raise(SIGTRAP);\n\
              \x20   printf(\"%ld %d %d\", sum, kept, handler()); printf(\" %d\", in_thread()); printf(\" %d\\n\", in_child());\n\
              \x20   fflush(stdout);\n\
              \x20   signal(SIGTRAP, SIG_DFL); raise(SIGTRAP);\n\
              \x20   return 1;\n}\n"
}

/// A server with four threads that ends at a signal; first it writes its process id to the file in its argument.
pub(crate) fn server() -> String {
    work()
        + "#include <pthread.h>\n#include <signal.h>\n\
              static volatile sig_atomic_t over;\n\
              static void end(int signal) { over = signal; }\n\
              static void *serve(void *rounds) {\n\
              \x20   while (!over) { if (work(20) != *(long *)rounds) abort(); usleep(50); }\n\
              \x20   return 0;\n}\n\
              int main(int count, char **arguments) {\n\
              \x20   signal(SIGTERM, end);\n\
              \x20   long expected = work(20); pthread_t threads[4];\n\
              \x20   for (int i = 0; i < 4; i++) pthread_create(threads + i, 0, serve, &expected);\n\
              \x20   FILE *file = fopen(arguments[1], \"w\"); fprintf(file, \"%d\\n\", getpid()); fclose(file);\n\
              \x20   for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);\n\
              \x20   puts(\"served\");\n\
              \x20   return 8;\n}\n"
}

/// A server whose work is done by two processes, and that starts another now and then; first it writes its process id
/// to the file in its argument.
pub(crate) fn postmaster() -> String {
    work()
        + "#include <signal.h>\n#include <sys/prctl.h>\n#include <sys/wait.h>\n\
              static volatile sig_atomic_t over;\n\
              static void end(int signal) { over = signal; }\n\
              __attribute__((noinline)) static void request(void) { if (work(20) == 1) abort(); usleep(50); }\n\
              __attribute__((noinline)) static void shortly(void) { work(5); _exit(3); }\n\
              int main(int count, char **arguments) {\n\
              \x20   pid_t children[2]; int status, bad = 0;\n\
              \x20   for (int i = 0; i < 2; i++) if ((children[i] = fork()) == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) request(); }\n\
              \x20   signal(SIGTERM, end);\n\
              \x20   FILE *file = fopen(arguments[1], \"w\"); fprintf(file, \"%d\\n\", getpid()); fclose(file);\n\
              \x20   while (!over) {\n\
              \x20       pid_t child = fork(); if (child == 0) shortly();\n\
              \x20       while (waitpid(child, &status, 0) < 0) ;\n\
              \x20       bad |= WEXITSTATUS(status) != 3; usleep(5000);\n\
              \x20   }\n\
              \x20   for (int i = 0; i < 2; i++) { kill(children[i], SIGTERM); waitpid(children[i], &status, 0); bad |= WTERMSIG(status) != SIGTERM; }\n\
              \x20   puts(bad ? \"lost\" : \"served\");\n\
              \x20   return 8;\n}\n"
}
