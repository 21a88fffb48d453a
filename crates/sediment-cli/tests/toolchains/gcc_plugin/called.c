// SPDX-License-Identifier: MIT OR Apache-2.0
// A function whose cold part calls others. With `trace` it prints the return addresses that unwinders find there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int table[64], traces;
static int (*of_libunwind)(void **, int);
static void print(const char *unwinder, void **frames, int count)
{
  printf("%s", unwinder);
  for (int i = 0; i < count; i++)
    printf(" %p", frames[i]);
  printf("\n");
}
__attribute__((noipa)) void stop(int x)
{
  void *frames[32];
  table[x & 63]++;
  if (traces-- > 0)
    {
      print("glibc", frames, backtrace(frames, 32));
      if (of_libunwind)
        print("libunwind", frames, of_libunwind(frames, 32));
    }
}
static inline __attribute__((always_inline)) int mixed(int x)
{
  for (int j = 0; j < 8; j++)
    {
      x ^= table[(x + j) & 63] * 3;
      table[x & 63] += j; // mixed
    }
  stop(x);
  return x;
}
__attribute__((noipa)) int parted(int i, int unusual)
{
  int sum = i * 3;
  if (__builtin_expect_with_probability(unusual, 0, 0.7))
    sum += mixed(sum) ^ mixed(sum + 1); // parted
  return sum + table[i & 63];
}
__attribute__((noipa)) int outer(int i, int unusual)
{
  return parted(i, unusual) * 5 + 1; // outer
}
int main(int count, char **words)
{
  int unusual = count > 1, sum = 0, calls = 2000;
  if (unusual && !strcmp(words[1], "trace"))
    {
      void *library = dlopen("libunwind.so.8", RTLD_NOW);
      of_libunwind = library ? (int (*)(void **, int)) dlsym(library, "unw_backtrace") : NULL;
      traces = 2;
    }
  if (unusual && !strcmp(words[1], "long"))
    calls = 20000000;
  for (int i = 0; i < calls; i++)
    sum += outer(i, unusual);
  printf("%d\n", sum);
  return 0;
}
