// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o conv conv.c */
/* Calls with private conventions: arguments in flags, r10, r11 and al, all registers, x87, MMX and vectors preserved, direction flag set, stack misaligned, mxcsr changed. */
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FN(n) ".globl " #n "\n.type " #n ",@function\n" #n ":\n"
#define END(n) ".size " #n ",.-" #n "\n"
__asm__(".text\n"
    FN(leaf_nothing) "nop\nnop\nnop\nnop\nnop\nret\n" END(leaf_nothing)
    /* all of carry, parity, adjust, zero, sign, overflow go in and must be seen */
    FN(take_flags) "pushfq\npop %rax\nand $0x8d5,%eax\nret\n" END(take_flags)
    FN(give_flags) "cmp %rsi,%rdi\nret\n" END(give_flags)
    FN(flags) "call give_flags\ncall take_flags\nret\n" END(flags)
    /* adds 128-bit numbers; carry lives across two calls */
    FN(low) "add %rdx,%rdi\nret\n" END(low) FN(high) "adc %rcx,%rsi\nret\n" END(high)
    FN(wide) "call low\ncall high\nlea (%rdi,%rsi,2),%rax\nret\n" END(wide)
    FN(scratch) "lea (%r10,%r11,2),%rax\nadd %rcx,%rax\nret\n" END(scratch)
    FN(use_scratch) "mov %rdi,%r10\nmov %rsi,%r11\nmov $3,%ecx\ncall scratch\nadd %r10,%rax\nadd %r11,%rax\nret\n" END(use_scratch)
    /* every register filled, a leaf called 3 times, every register compared */
    FN(all_gpr) "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "lea 1(%rdi),%rax\nlea 2(%rdi),%rbx\nlea 3(%rdi),%rcx\nlea 4(%rdi),%rdx\nlea 5(%rdi),%rsi\nlea 6(%rdi),%rbp\nlea 7(%rdi),%r8\nlea 8(%rdi),%r9\nlea 9(%rdi),%r10\nlea 10(%rdi),%r11\nlea 11(%rdi),%r12\nlea 12(%rdi),%r13\nlea 13(%rdi),%r14\nlea 14(%rdi),%r15\n"
    "call leaf_nothing\npush $1\ncall leaf_nothing\npush $2\ncall leaf_nothing\nlea 16(%rsp),%rsp\n"
    "lea (%rax,%rbx,2),%rax\nlea (%rax,%rcx,4),%rax\nlea (%rax,%rdx,8),%rax\nlea (%rsi,%rax,2),%rax\nlea (%rbp,%rax,2),%rax\nlea (%r8,%rax,2),%rax\nlea (%r9,%rax,2),%rax\nlea (%r10,%rax,2),%rax\nlea (%r11,%rax,2),%rax\nlea (%r12,%rax,2),%rax\nlea (%r13,%rax,2),%rax\nlea (%r14,%rax,2),%rax\nlea (%r15,%rax,2),%rax\nlea (%rdi,%rax,2),%rax\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n" END(all_gpr)
    FN(all_ymm) "vmovdqu (%rdi),%ymm0\nvpaddq %ymm0,%ymm0,%ymm1\nvpaddq %ymm0,%ymm1,%ymm2\nvpaddq %ymm0,%ymm2,%ymm7\nvpaddq %ymm1,%ymm7,%ymm8\nvpaddq %ymm2,%ymm8,%ymm15\n"
    "call leaf_nothing\ncall leaf_nothing\n"
    "vpxor %ymm0,%ymm1,%ymm0\nvpaddq %ymm0,%ymm2,%ymm0\nvpxor %ymm0,%ymm7,%ymm0\nvpaddq %ymm0,%ymm8,%ymm0\nvpxor %ymm0,%ymm15,%ymm0\nvmovdqu %ymm0,(%rdi)\nvzeroupper\nret\n" END(all_ymm)
    FN(all_xmm) "movdqu (%rdi),%xmm0\nmovdqa %xmm0,%xmm9\npaddq %xmm0,%xmm9\nmovdqa %xmm9,%xmm14\npaddq %xmm0,%xmm14\ncall leaf_nothing\npxor %xmm9,%xmm0\npaddq %xmm14,%xmm0\nmovdqu %xmm0,(%rdi)\nret\n" END(all_xmm)
    /* six x87 values and mm0 across calls */
    FN(x87) "fld1\nfldpi\nfldl2e\nfldln2\nfldlg2\nfildll 8(%rsp)\ncall leaf_nothing\nfaddp\nfaddp\nfaddp\nfaddp\nfaddp\nret\n" END(x87)
    FN(mmx) "movq %rdi,%mm0\nmovq %mm0,%mm7\npaddd %mm0,%mm7\ncall leaf_nothing\npaddd %mm7,%mm0\nmovq %mm0,%rax\nemms\nret\n" END(mmx)
    /* string copy backwards through a call made with DF set */
    FN(back_copy) "movsb\nret\n" END(back_copy)
    FN(backwards) "std\n1: call back_copy\ndec %rdx\njnz 1b\ncld\nret\n" END(backwards)
    /* stack off by 1 byte during the call */
    FN(crooked) "mov %rsp,%rax\nand $-16,%rsp\nsub $41,%rsp\nmov %rax,(%rsp)\ncall leaf_nothing\ncall leaf_nothing\nmov (%rsp),%rsp\nlea 1(%rdi),%rax\nret\n" END(crooked)
    FN(get_al) "movzbl %al,%eax\nret\n" END(get_al)
    FN(pass_al) "mov %edi,%eax\ncall get_al\nret\n" END(pass_al));
uint64_t flags(uint64_t, uint64_t), wide(uint64_t, uint64_t, uint64_t, uint64_t), use_scratch(uint64_t, uint64_t), all_gpr(uint64_t), mmx(uint64_t), crooked(uint64_t), pass_al(uint64_t);
void all_ymm(void *), all_xmm(void *), backwards(char *, const char *, uint64_t);
long double x87(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static double __attribute__((noinline)) vsum(int n, ...)
{
    va_list ap;
    double s = 0;
    va_start(ap, n);
    for (int i = 0; i < n; i++)
        s += i % 2 ? va_arg(ap, double) : va_arg(ap, int);
    va_end(ap);
    return s;
}
static double (*volatile pv)(int, ...) = vsum;
struct big { long a[6]; };
struct mix { double d; long l; };
static struct big __attribute__((noinline)) mkbig(long x) { return (struct big){ { x, x + 1, x + 2, x + 3, x + 4, x + 5 } }; }
static struct mix __attribute__((noinline)) mkmix(long x) { return (struct mix){ x * .5, x }; }
static _Complex long double __attribute__((noinline)) mkcld(long x) { return x + 2.0L; }
static __m128 __attribute__((noinline)) mkvec(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
static void __attribute__((noinline, no_caller_saved_registers, target("general-regs-only"))) polite(uint64_t *p) { *p = *p * 5 + 1; }

int main(void)
{
    uint64_t a = 0, b = 0, c = 0, d = 0, e = 1, al = 0, y[4] = { 1, 2, 3, 4 }, z[2] = { 5, 6 };
    long double ld = 0;
    double va = 0, st = 0;
    char src[32] = "the quick brown fox jumps over", dst[32] = { 0 };
    long copies = 0;
    int avx = __builtin_cpu_supports("avx2");
    unsigned csr = _mm_getcsr();
    for (uint64_t i = 0; i < 1500000; i++) {
        a = a * 31 + flags(i * 0x9e3779b97f4a7c15u, i << 40);
        b = b * 31 + wide(~i, i, i * i + 5, ~0ull);
        c = c * 31 + use_scratch(i, i + 1) + mmx(i);
        d = d * 31 + all_gpr(i) + crooked(i);
        al += pass_al(i & 255);
        if (avx)
            all_ymm(y);
        all_xmm(z);
        y[0] ^= i, y[3] += 3 * i;
        z[0] ^= i, z[1] += 3 * i;
        ld += x87(i, i, i, i, i, i, i);
        va += pv(6, (int)i, 1.5, 2, 2.5, 3, (double)i);
        struct big g = mkbig(i);
        struct mix m = mkmix(i);
        __m128 v = mkvec(_mm_set1_ps(i), _mm_set1_ps(1));
        st += g.a[5] - g.a[0] + m.d + m.l + (double)__real__ mkcld(i) + _mm_cvtss_f32(v);
        polite(&e);
        if (i % 64 == 0) {
            _mm_setcsr(csr | 0x6000); /* round to zero */
            st += _mm_cvtss_f32(mkvec(_mm_set_ss(1e8f), _mm_set_ss(7)));
            copies += (_mm_getcsr() & 0x6000) == 0x6000;
            _mm_setcsr(csr);
            memset(dst, 0, sizeof dst);
            backwards(dst + 31, src + 31, 32);
            copies += !memcmp(dst, src, 32);
        }
    }
    if (avx && (y[0] | y[1]) == 0)
        puts("vectors lost");
    printf("flags %llx carry %llx scratch %llx gpr %llx al %llu\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)d, (unsigned long long)al);
    printf("xmm %llx x87 %.3Lf varargs %.1f structs %.1f polite %llx copies %ld\n", (unsigned long long)(z[0] ^ z[1]), ld, va, st, (unsigned long long)e, copies);
    if (avx) {
        uint64_t w[4] = { 1, 2, 3, 4 }; /* the same without calls */
        for (uint64_t i = 0; i < 1500000; i++, w[0] ^= i - 1, w[3] += 3 * (i - 1))
            for (int k = 0; k < 4; k++) {
                uint64_t v = w[k], v1 = 2 * v, v2 = v1 + v, v7 = v2 + v, v8 = v7 + v1, v15 = v8 + v2;
                w[k] = ((((v ^ v1) + v2) ^ v7) + v8) ^ v15;
            }
        printf("ymm %s\n", memcmp(w, y, sizeof w) ? "damaged" : "kept");
    } else {
        puts("ymm kept");
    }
    return 0;
}
