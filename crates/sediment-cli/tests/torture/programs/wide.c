// SPDX-License-Identifier: MIT OR Apache-2.0
// A library of a thousand functions.
#define W(n) __attribute__((noinline)) long wide_##n(long x) { __asm__ volatile(""); return x + n; }
#define C(n) s += wide_##n(x) - n;
#define TEN(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9)
#define HUNDRED(M, n) TEN(M, n##0) TEN(M, n##1) TEN(M, n##2) TEN(M, n##3) TEN(M, n##4) TEN(M, n##5) TEN(M, n##6) TEN(M, n##7) TEN(M, n##8) TEN(M, n##9)
#define THOUSAND(M) HUNDRED(M, 10) HUNDRED(M, 11) HUNDRED(M, 12) HUNDRED(M, 13) HUNDRED(M, 14) HUNDRED(M, 15) HUNDRED(M, 16) HUNDRED(M, 17) HUNDRED(M, 18) HUNDRED(M, 19)
THOUSAND(W)
// Calls all; returns a thousand times x.
long wide(long x) { long s = 0; THOUSAND(C) return s; }
