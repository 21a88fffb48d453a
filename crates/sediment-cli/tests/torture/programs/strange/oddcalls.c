// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o oddcalls oddcalls.c */
/* Hand-written assembler calls in odd but legal ways: inline data after calls, call-pop, retpolines, push-ret, lretq, iretq, calls through the stack, entries that are loop heads and one-byte functions. */
#include <stdint.h>
#include <stdio.h>

#define FN(n) ".globl " #n "\n.type " #n ",@function\n" #n ":\n"
#define END(n) ".size " #n ",.-" #n "\n"
__asm__(".text\n"
    /* returns the word behind its call and skips it */
    FN(fetch) "pop %rax\nmov (%rax),%ecx\nadd $4,%rax\nadd %rcx,%rdi\njmp *%rax\n" END(fetch)
    FN(inline_data) "call fetch\n.long 1000\ncall fetch\n.long 7\nmov %rdi,%rax\nret\n" END(inline_data)
    FN(call_pop) "call 1f\n1: pop %rax\nlea 1b(%rip),%rdx\ncmp %rdx,%rax\nsete %al\nmovzbl %al,%eax\nadd %rdi,%rax\nret\n" END(call_pop)
    /* an x86-32 style thunk: call thunk; thunk reads (%rsp) */
    FN(get_pc) "mov (%rsp),%rax\nret\n" END(get_pc)
    FN(thunk) "call get_pc\n1: lea 1b(%rip),%rdx\nsub %rdx,%rax\nadd %rdi,%rax\nret\n" END(thunk)
    FN(by_table) "lea table(%rip),%rdx\nmov %edi,%ecx\nand $3,%ecx\ncall *(%rdx,%rcx,8)\nret\n" END(by_table)
    FN(by_stack) "push target1@GOTPCREL(%rip)\npush %rdi\ncall *8(%rsp)\nadd $16,%rsp\nret\n" END(by_stack)
    FN(retpoline) "mov target1@GOTPCREL(%rip),%r11\ncall 2f\nret\n2: call 3f\n4: pause\nlfence\njmp 4b\n3: mov %r11,(%rsp)\nret\n" END(retpoline)
    FN(push_ret) "push target2@GOTPCREL(%rip)\nret\n" END(push_ret)
    FN(far_ret) "mov %cs,%eax\nlea 1f(%rip),%rdx\npush %rax\npush %rdx\nlretq\n1: lea 3(%rdi),%rax\nret\n" END(far_ret)
    FN(int_ret) "mov %rsp,%rcx\nmov %ss,%eax\npush %rax\npush %rcx\npushfq\nmov %cs,%eax\npush %rax\nlea 1f(%rip),%rax\npush %rax\niretq\n1: lea 5(%rdi),%rax\nret\n" END(int_ret)
    /* checks that a direct call to itself stands before its return address */
    FN(look_back) "mov (%rsp),%rdx\nxor %eax,%eax\ncmpb $0xe8,-5(%rdx)\njne 1f\nmovslq -4(%rdx),%rcx\nadd %rdx,%rcx\nlea look_back(%rip),%rdx\ncmp %rdx,%rcx\nsete %al\n1: add %rdi,%rax\nret\n" END(look_back)
    FN(call_look) "call look_back\nret\n" END(call_look)
    /* entries that are the heads of loops, called and jumped to; the second byte is a jump target too */
    FN(loop_head) "dec %rdi\njs 1f\nadd %rdi,%rax\njmp loop_head\n1: ret\n" END(loop_head)
    FN(call_loop) "xor %eax,%eax\nand $63,%edi\ncall loop_head\nret\n" END(call_loop)
    FN(second) "nop\n5: dec %edi\njns 5b\nmov $9,%eax\nret\n" END(second)
    FN(call_second) "and $31,%edi\ncall second\nret\n" END(call_second)
    /* one-byte functions packed side by side */
    FN(one_a) "ret\n" END(one_a) FN(one_b) "ret\n" END(one_b) FN(one_c) "ret\n" END(one_c) FN(two) "nop\nret\n" END(two)
    FN(call_ones) "mov %rdi,%rax\ncall one_a\ncall one_b\ncall one_c\ncall two\ninc %rax\nret\n" END(call_ones)
    /* shared tail reached by call, jump and fall-through */
    FN(fall) "add $1,%rdi\n" END(fall) FN(tail) "lea (%rdi,%rdi),%rax\nret\n" END(tail)
    FN(call_tail) "push %rdi\ncall tail\npop %rdi\nadd $4,%rdi\ntest $1,%dil\njz tail\njmp fall\n" END(call_tail)
    /* jumps into what reads as the immediate of a mov */
    FN(overlap) "jmp 1f\n2: .byte 0xb8\n1: .byte 0x48,0x8d,0x47,0x06\nret\n" END(overlap)
    FN(ret_imm) "push %rdi\npush $77\ncall 1f\npop %rdx\nret\n1: mov 8(%rsp),%rax\nadd %rdi,%rax\nret $8\n" END(ret_imm)
    FN(prefixes) "bnd call target1\nmov target2@GOTPCREL(%rip),%rdx\nmov %rax,%rdi\nnotrack jmp *%rdx\n" END(prefixes)
    FN(rep_ret) "mov %rdi,%rax\nrep ret\n" END(rep_ret)
    /* leaves by adjusting its return address to skip one instruction of the caller */
    FN(skip3) "addq $3,(%rsp)\nret\n" END(skip3)
    FN(call_skip) "mov %rdi,%rax\ncall skip3\nadd $1,%eax\nadd $2,%rax\nret\n" END(call_skip)
    /* returns two levels at once */
    FN(inner) "add $8,%rsp\nlea 11(%rdi),%rax\nret\n" END(inner)
    FN(outer) "call inner\nud2\n" END(outer)
    FN(target1) "lea 1(%rdi),%rax\nret\n" END(target1)
    FN(target2) "lea 2(%rdi),%rax\nret\n" END(target2)
    ".section .data.rel.ro,\"aw\"\ntable: .quad target1,target2,rep_ret,overlap\n.text\n");

typedef uint64_t fn(uint64_t);
fn inline_data, call_pop, thunk, by_table, by_stack, retpoline, push_ret, far_ret, int_ret, look_back, call_look, call_loop, call_second, call_ones, call_tail, overlap, ret_imm, prefixes, rep_ret, call_skip, outer;
static const struct { const char *name; fn *f; } tests[] = {
    { "inline data", inline_data }, { "call-pop", call_pop }, { "thunk", thunk }, { "table", by_table }, { "stack", by_stack },
    { "retpoline", retpoline }, { "push-ret", push_ret }, { "lretq", far_ret }, { "iretq", int_ret }, { "look back", call_look },
    { "loop head", call_loop }, { "second byte", call_second }, { "one byte", call_ones }, { "shared tail", call_tail },
    { "overlap", overlap }, { "ret imm", ret_imm }, { "prefixes", prefixes }, { "rep ret", rep_ret }, { "skip", call_skip }, { "two levels", outer },
};

int main(void)
{
    for (unsigned t = 0; t < sizeof tests / sizeof *tests; t++) {
        uint64_t s = 0;
        for (uint64_t i = 0; i < 600000; i++)
            s = s * 3 + tests[t].f(i);
        printf("%-11s %016llx\n", tests[t].name, (unsigned long long)s);
    }
    return 0;
}
