// SPDX-License-Identifier: MIT OR Apache-2.0
// A library of few functions, with a constructor and an indirect function that run while it is loaded. NUMBER tells it from others.
static int begun;
__attribute__((constructor)) static void begins(void) { begun = 1; }
static long chosen(long x) { return x + NUMBER; }
static long (*choose(void))(long) { return chosen; }
__attribute__((ifunc("choose"))) long indirect(long);
__attribute__((noinline)) static long leaf(long x) { __asm__ volatile(""); return x + begun; }
long narrow(long x) { return indirect(leaf(x)); }
