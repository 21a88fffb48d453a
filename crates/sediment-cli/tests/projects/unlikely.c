/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A path that GCC takes for neither likely nor cold, and that a run without arguments does not take. */
#include <stdio.h>
int sink;
static int table[64];
__attribute__((noinline)) static int often(int x) { return x * 31 + table[x & 63]; }
__attribute__((noinline)) int work(int i, int unusual)
{
  int sum = i;
  if (__builtin_expect_with_probability(unusual == 0, 0, 0.7))
    for (int j = 0; j < 8; j++)
      sum += often(j + i) ^ often(j * 3) ^ often(i ^ j);
  return sum;
}
int main(int count, char **words)
{
  int sum = 0;
  for (int i = 0; i < 2000; i++)
    sum += work(i, count) + often(i);
  printf("%d %s\n", sum, words[0] ? "" : "nameless");
  return 0;
}
