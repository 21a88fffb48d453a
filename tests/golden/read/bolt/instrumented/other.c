// SPDX-License-Identifier: MIT OR Apache-2.0
static int __attribute__((noinline)) twin(int x){ __asm__ volatile(""); return x+2; }
int twin_of_other(int x){ int s=0; for(int i=0;i<3;i++) s+=twin(x); return s; }
