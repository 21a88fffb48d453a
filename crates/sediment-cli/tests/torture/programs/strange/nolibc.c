// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -static-pie -nostdlib -ffreestanding -fno-stack-protector -fno-builtin -o nolibc nolibc.c */
/* A static-pie without any libc: own _start, fs base zero, threads by raw clone with their own gs base, a brk allocator and futexes. */
typedef unsigned long ul;
enum { THREADS = 6, STACK = 16384, LOOPS = 700000 };

static long sys(long n, long a, long b, long c, long d, long e)
{
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return r;
}

struct block { ul gs_self, count, seed, sum; int tid; };
static volatile long total;
static volatile int bad_gs, bad_fs;

static __attribute__((noinline)) ul gs_word(void)
{
    ul v;
    __asm__ volatile("mov %%gs:0,%0" : "=r"(v));
    return v;
}

static __attribute__((noinline)) void gs_count(void) { __asm__ volatile("incq %%gs:8" ::: "memory"); }
static __attribute__((noinline)) ul mix(ul x) { return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ul; }

static __attribute__((noreturn, used)) void thread_main(struct block *b)
{
    ul fs = 1;
    sys(158, 0x1001, (long)b, 0, 0, 0); /* ARCH_SET_GS */
    for (int i = 0; i < LOOPS; i++) {
        gs_count();
        b->seed = mix(b->seed + i);
        b->sum += b->seed & 0xff;
        if (gs_word() != (ul)b)
            bad_gs++;
        if (i % 64 == 0)
            sys(39, 0, 0, 0, 0, 0); /* a quick call into the kernel */
    }
    sys(158, 0x1003, (long)&fs, 0, 0, 0); /* ARCH_GET_FS */
    bad_fs += fs != 0;
    __atomic_fetch_add(&total, b->sum, __ATOMIC_SEQ_CST);
    for (;;)
        sys(60, 0, 0, 0, 0, 0);
}

/* clone(flags, stack, &ptid, &ctid, 0): the child finds its block on its stack */
long spawn(ul flags, void *stack, int *ptid, int *ctid);
__asm__(".text\n.globl spawn\n.hidden spawn\n.type spawn,@function\nspawn:\nmov %rcx,%r10\nxor %r8d,%r8d\nmov $56,%eax\nsyscall\ntest %rax,%rax\njz 1f\nret\n"
        "1: pop %rdi\ncall thread_main\n.size spawn,.-spawn\n"
        ".globl _start\n.type _start,@function\n_start:\nxor %ebp,%ebp\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\nhlt\n.size _start,.-_start\n");

static char *brk_alloc(ul n)
{
    ul cur = sys(12, 0, 0, 0, 0, 0);
    ul at = (cur + 15) & ~15ul;
    return (ul)sys(12, at + n, 0, 0, 0, 0) == at + n ? (char *)at : 0;
}

static char line[128];
static int len;
static void text(const char *s)
{
    while (*s)
        line[len++] = *s++;
}
static void number(ul v)
{
    char t[24];
    int n = 0;
    do
        t[n++] = '0' + v % 10;
    while (v /= 10);
    while (n)
        line[len++] = t[--n];
}

__attribute__((used)) void start(ul *sp)
{
    ul fs = 1, argc = sp[0], brks = 0, last = sys(12, 0, 0, 0, 0, 0);
    sys(158, 0x1003, (long)&fs, 0, 0, 0);
    for (int round = 0; round < 8; round++) {
        struct block *b[THREADS];
        for (int i = 0; i < THREADS; i++) {
            char *m = brk_alloc(STACK + sizeof **b);
            if (!m)
                sys(231, 1, 0, 0, 0, 0);
            brks += (ul)m - last < 16;
            b[i] = (struct block *)(m + STACK);
            *b[i] = (struct block){ (ul)b[i], 0, i, 0, 1 };
            last = sys(12, 0, 0, 0, 0, 0);
            ul *top = (ul *)((ul)b[i] & ~15ul) - 2;
            top[0] = (ul)b[i];
            spawn(0x3d0f00 & ~0x80000, top, &b[i]->tid, &b[i]->tid);
        }
        for (int i = 0; i < THREADS; i++) {
            int t;
            while ((t = *(volatile int *)&b[i]->tid))
                sys(202, (long)&b[i]->tid, 0, t, 0, 0);
            if (b[i]->count != LOOPS)
                bad_gs++;
        }
    }
    text("sum "), number(total), text(", gs errors "), number(bad_gs), text(", fs errors "), number(bad_fs + (fs != 0));
    text(", heap moved by others "), number(8 * THREADS - brks), text(", argc "), number(argc), text("\n");
    sys(1, 1, (long)line, len, 0, 0);
    sys(231, 12, 0, 0, 0, 0);
    __builtin_unreachable();
}
