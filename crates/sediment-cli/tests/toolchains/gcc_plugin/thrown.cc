// SPDX-License-Identifier: MIT OR Apache-2.0
// Exceptions between hot and cold parts of functions; bits of the mode throw, and call in other ways.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
// GCC takes all modes for unlikely, but not for cold: other work may execute what it takes for likely, so that stays.
#define MODE(bit) __builtin_expect_with_probability ((mode & bit) != 0, 0, 0.7)
static unsigned sum;
static int table[64];
struct Left
{
  unsigned id;
  ~Left () { sum = sum * 31 + id; }
};
struct Odd : std::runtime_error
{
  int value;
  Odd (int value) : std::runtime_error ("odd"), value (value) {}
};
__attribute__((noipa)) int mix (int x)
{
  for (int j = 0; j < 4; j++) { x ^= table[(x + j) & 63] * 3; table[x & 63] += j; }
  return x & 0xfffff;
}
__attribute__((noipa)) int thrower (int i, int mode)
{
  Left left { 1 };
  int x = mix (i);
  if (MODE (1))
    {
      Left inner { 2 };
      x += mix (x);
      if (MODE (1))
        throw Odd (x);
    }
  return x;
}
__attribute__((noipa)) int through (int i, int mode)
{
  Left left { 3 };
  int x = thrower (i, mode);
  if (MODE (2))
    {
      Left other { 4 };
      x += thrower (x, mode >> 2);
    }
  return x + mix (x);
}
template <class T> __attribute__((noipa)) T catcher (T i, int mode)
{
  Left left { 5 };
  try
    {
      return through (i, mode) + (MODE (8) ? through (i + 1, mode & ~2) : 0);
    }
  catch (const Odd &odd)
    {
      Left last { 6 };
      sum += mix (odd.value);
      if (MODE (16))
        try
          {
            throw;
          }
        catch (std::exception &again)
          {
            sum += again.what ()[0] + mix (3);
          }
      return 7;
    }
}
__attribute__((noipa)) int no_more (int i, int mode) noexcept { return MODE (32) ? thrower (i, 1) : mix (i); }
int main (int count, char **words)
{
  int mode = count > 1 ? atoi (words[1]) : 0, all = 0;
  std::set_terminate ([] { printf ("ended %u\n", sum); fflush (stdout); _Exit (3); });
  for (int i = 0; i < 60; i++)
    all += catcher<int> (i, mode) + catcher<short> (i, mode) + no_more (i, mode);
  printf ("%u %d\n", sum, all);
  return 0;
}
