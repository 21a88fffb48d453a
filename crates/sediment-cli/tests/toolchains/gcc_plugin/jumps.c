// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that leave and enter their cold parts in every way that C has. `unusual` takes the ways that no recording saw.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#define JUMP "mov %w0, %w1\n\tcbnz %w1, %l2"
#define JUMPS "cbnz %w0, %l2\n\tcmp %w1, 77\n\tb.eq %l3"
#else
#define JUMP "test %1, %1\n\tmov %1, %0\n\tjnz %l2"
#define JUMPS "test %0, %0\n\tjnz %l2\n\tcmp $77, %1\n\tje %l3"
#endif
/* A way that GCC takes for unlikely, but not for cold: other work may execute what GCC takes for likely, so that stays. */
#define UNUSUAL __builtin_expect_with_probability(unusual != 0, 0, 0.7)
static int table[64];
static jmp_buf place;
static const void *const *targets;
__attribute__((noipa)) static int mix(int x) { for (int j = 0; j < 3; j++) { x ^= table[(x + j) & 63] * 3; table[x & 63] += j; } return x; }
/* Distances between labels, as position-independent interpreters have them: they stay in one part. */
__attribute__((noipa)) int relative(int x, int unusual)
{
  static const int to[] = { &&one - &&one, &&two - &&one, &&three - &&one };
  goto *(&&one + to[unusual ? 2 : x & 1]);
one: return x + 1;
two: return x * 2;
three: return mix(x) + mix(x + 1);
}
__attribute__((noipa)) int absolute(int x, int unusual)
{
  static const void *const to[] = { &&one, &&two, &&three };
  targets = to;
  goto *to[unusual ? 2 : x & 1];
one: return x + 1;
two: return x * 2;
three: return mix(x) + mix(x + 1);
}
__attribute__((noipa)) int onstack(int x, int unusual)
{
  void *to[] = { &&one, &&two, &&three };
  if (UNUSUAL) to[0] = to[2];
  goto *to[x & 1];
one: return x + 1;
two: return x * 2;
three: return mix(x) + mix(x + 1);
}
__attribute__((noipa)) long apart(int x, int unusual)
{
  void *p = unusual ? &&two : &&one;
  long d = (char *)&&two - (char *)&&one;
  if (!unusual && d == 12345) abort();
  goto *p;
one: return x + 1;
two: __attribute__((cold)); return mix(x) + mix(x + 1) + (d == 0);
}
__attribute__((noipa)) int one_goto(int x, int unusual)
{
  int r;
  __asm__ goto (JUMP : "=r"(r) : "r"(unusual) : "cc" : cold);
  return x + r;
cold: __attribute__((cold));
  return mix(x) + mix(r);
}
__attribute__((noipa)) int two_gotos(int x, int unusual)
{
  __asm__ goto (JUMPS : : "r"(unusual), "r"(x) : "cc" : cold, hot);
  x += 3;
hot: return x * 2;
cold: __attribute__((cold)); if (mix(x) == 9) goto hot; return mix(x);
}
__attribute__((noipa)) int set(int x, int unusual)
{
  volatile int v = x;
  if (setjmp(place)) { v += mix(v); return v; }
  if (UNUSUAL) { if (mix(v) != 3) longjmp(place, 1); }
  return v + 1;
}
__attribute__((noipa)) int builtin_set(int x, int unusual)
{
  static void *buffer[5];
  volatile int v = x;
  if (__builtin_setjmp(buffer)) { v += mix(v); return v; }
  if (UNUSUAL) { void (*f)(void **) = 0; __asm__ ("" : "+r"(f)); if (!f && mix(v) != 3) { extern void leap(void **); leap(buffer); } }
  return v + 1;
}
__attribute__((noipa)) void leap(void **buffer) { __builtin_longjmp(buffer, 1); }
__attribute__((noipa)) int nested(int x, int unusual)
{
  __label__ out;
  int v = x;
  void inner(int y) { if (y) { v += mix(y); goto out; } v++; }
  inner(unusual ? x | 1 : 0);
  return v;
out:
  return mix(v) + 5;
}
__attribute__((noipa)) int big(int x, int unusual)
{
  char *p = __builtin_alloca(64 + (x & 31));
  memset(p, x, 64);
  if (UNUSUAL) { char *q = __builtin_alloca(300); memset(q, unusual, 300); __asm__ volatile ("" : : "r"(q) : "memory"); return q[7] + p[3] + mix(x); }
  __asm__ volatile ("" : : "r"(p) : "memory");
  return p[9];
}
__attribute__((noipa)) int cleaned(int x, int unusual)
{
  void undo(int *p) { table[*p & 63]++; }
  __attribute__((cleanup(undo))) int y = x;
  if (UNUSUAL) { y = mix(x); return y + mix(y); }
  return y;
}
__attribute__((noipa)) double real(double x, int unusual)
{
  if (UNUSUAL) { double y = 0; for (int i = 0; i < 5; i++) y += x / (i + 1.5); return y; }
  return x + 1;
}
__attribute__((noipa)) int table_jump(int x, int unusual) { switch ((x & 7) + unusual) { case 0: return mix(x); case 1: return x * 2; case 2: return x + 9; case 3: return 9; case 4: return x - 3; case 5: return x ^ 77; case 6: x += 5; case 7: x *= 2; break; case 8: return puts("8"); case 9: nine: __attribute__((cold)); x = mix(x); break; case 10: return -x; case 11: eleven: __attribute__((cold)); return mix(x) ^ 3; case 12: twelve: __attribute__((cold)); return puts("12"); default: return 3; } return x; }
__attribute__((noipa)) int ends(int x, int unusual) { if (unusual == 99) { printf("end %d\n", x); __builtin_unreachable(); } if (UNUSUAL) { x = mix(x); if (x == 424242) __builtin_trap(); } return x; }
__attribute__((noipa)) int endless(int x, int unusual) { if (unusual == 98) for (;;) table[x++ & 63]++; return x + unusual; }
__attribute__((noipa)) int tail(int x, int unusual) { if (UNUSUAL) return absolute(x + 1, unusual); return x; }
__thread int own = 3;
__attribute__((noipa)) int tls(int x, int unusual) { if (UNUSUAL) { own += mix(x); return own * 2; } return own + x; }
int main(int count, char **words)
{
  int unusual = count > 1, s = 0;
  for (int i = 0; i < 200; i++)
    {
      s = s * 31 + relative(i, unusual) + absolute(i, unusual) * 3 + onstack(i, unusual) * 5 + apart(i, unusual) * 7 + one_goto(i, unusual) * 11 + two_gotos(i, unusual) * 13;
      s = s * 31 + set(i, unusual) + builtin_set(i, unusual) * 3 + nested(i, unusual) * 5 + big(i, unusual) * 7 + cleaned(i, unusual) * 11 + (int) (real(i, unusual) * 1000);
      s = s * 31 + table_jump(i, unusual) + ends(i, unusual) * 3 + endless(i, unusual) * 5 + tail(i, unusual) * 7 + tls(i, unusual);
    }
  printf("%d\n", s);
  for (int i = 0; count > 2 && i < 3; i++)
    printf("%p %08x\n", targets[i], *(const unsigned *) targets[i]);
  return 0;
}
