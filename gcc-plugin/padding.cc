// SPDX-License-Identifier: GPL-3.0-or-later
#include "gcc-headers.h"

#include "flags.h"

#include "padding.h"

namespace sediment {

// A loop is aligned only if it has at least this many iterations; GCC's default is 4. Each entry into the loop also fetches the padding, so
// the padding of short loops costs more cache misses than it saves.
static const int least_iterations = 64;
// Binary logarithm of a cache line's size in bytes.
static const int cache_line = 6;

// GCC's alignments for other functions, saved while the current function has different ones.
static struct
{
  bool is_kept;
  align_flags loops, jumps, functions;
  int iterations;
} others;

void
choose_padding (bool often_called)
{
  if (optimize_size || others.is_kept)
    return;
  others = { true, align_loops, align_jumps, align_functions, param_align_loop_iterations };
  if (!global_options_set.x_flag_align_loops && !global_options_set.x_str_align_loops)
    param_align_loop_iterations = MAX (param_align_loop_iterations, least_iterations);
  if (!global_options_set.x_flag_align_jumps && !global_options_set.x_str_align_jumps)
    align_jumps = align_flags ();
  if (often_called && flag_align_functions && !global_options_set.x_str_align_functions && align_functions.levels[0].log < cache_line)
    align_functions = align_flags (cache_line, (1 << cache_line) - 1);
}

void
end_padding ()
{
  if (!others.is_kept)
    return;
  align_loops = others.loops;
  align_jumps = others.jumps;
  align_functions = others.functions;
  param_align_loop_iterations = others.iterations;
  others.is_kept = false;
}

} // namespace sediment
