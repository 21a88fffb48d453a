/* Without libraries, so that all of its code has landing pads. `work` has a value in each register when it enters its rare block. */
static long call(long number, long one, long two, long three)
{
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = one, x1 __asm__("x1") = two, x2 __asm__("x2") = three;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
volatile int t[64];
__attribute__((noipa)) int work(int i, int u, int a, int b, int c)
{
  int s = i, v0 = a * 3 + b, v1 = a * 4 + b, v2 = a * 5 + b, v3 = a * 6 + b, v4 = a * 7 + b, v5 = a * 8 + b, v6 = a * 9 + b, v7 = a * 10 + b, v8 = a * 11 + b, v9 = a * 12 + b, v10 = a * 13 + b, v11 = a * 14 + b, v12 = a * 15 + b, v13 = a * 16 + b, v14 = a * 17 + b, v15 = a * 18 + b, v16 = a * 19 + b, v17 = a * 20 + b, v18 = a * 21 + b, v19 = a * 22 + b, v20 = a * 23 + b, v21 = a * 24 + b;
  for (int j = 0; j < 9; j++) {
    s += t[j] * c; v0 += v3 ^ s; v1 += v10 ^ s; v2 += v17 ^ s; v3 += v2 ^ s; v4 += v9 ^ s; v5 += v16 ^ s; v6 += v1 ^ s; v7 += v8 ^ s; v8 += v15 ^ s; v9 += v0 ^ s; v10 += v7 ^ s; v11 += v14 ^ s; v12 += v21 ^ s; v13 += v6 ^ s; v14 += v13 ^ s; v15 += v20 ^ s; v16 += v5 ^ s; v17 += v12 ^ s; v18 += v19 ^ s; v19 += v4 ^ s; v20 += v11 ^ s; v21 += v18 ^ s;
    if (u == 3 + j) { t[s & 63] = t[(s + 1) & 63] / (i + 3); t[(s + 5) & 63] += s / (i + 7); t[s & 31] -= s % (i + 1); }
  }
  return s + v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11 + v12 + v13 + v14 + v15 + v16 + v17 + v18 + v19 + v20 + v21;
}
__attribute__((used)) void begin(void)
{
  unsigned s = 0;
  char digits[8];
  for (int i = 0; i < 1000; i++)
    s += work(i, i % 16, i + 1, i + 2, i + 3);
  for (int i = 0; i < 8; i++, s >>= 4)
    digits[i] = "0123456789abcdef"[s & 15];
  call(64, 1, (long) digits, 8);
  call(93, 0, 0, 0);
}
__asm__(".globl _start\n_start: hint #34\n mov x29, #0\n bl begin\n");
