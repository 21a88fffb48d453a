// SPDX-License-Identifier: GPL-3.0-or-later
// Map from addresses to the basic blocks of a function, in a separate section. Code, line numbers and discriminators do not change.
#ifndef SEDIMENT_BLOCK_MAP_H
#define SEDIMENT_BLOCK_MAP_H

#include "signature.h"

#include <cstdint>
#include <vector>

namespace sediment {

// Reason why a function is not split although some of its blocks did not run. The map contains the same values.
enum class Whole
{
  // No reason: the function is split, all of its blocks ran, or counts were not asked for.
  no = 0,
  // GCC expects few executions of the blocks.
  few_executions = 1,
  // The blocks do not have more instructions than jumps into and out of them, so a split would not save code.
  small_parts = 2,
  // GCC does not split functions that have a section attribute, or are naked, cold, or optimised for size.
  kind = 3,
  // The function contains differences of addresses in its code. Assemblers cannot compute these across sections.
  distances = 4,
  // -fno-reorder-blocks-and-partition.
  option = 5,
  // Other workloads may execute the blocks.
  likely = 6,
  // profile=FILE was given, but the function has no counts: FILE was not readable, or does not contain the function.
  uncounted = 7,
};

// Marks each instruction of the current function with the number of its block. Later passes move, copy and merge instructions together
// with their marks. `blocks` are numbered from 1, in this order; each has a signature.
void begin_map (const std::vector<basic_block> &blocks, uint32_t graph, const std::vector<Signature> &signatures);
// Records in the map why the current function is not split.
void set_whole (Whole why);
// Removes the marks, and places a label at each instruction whose block differs from the previous instruction's block. Call it directly
// before GCC's pass `final`.
void place_labels ();
// Writes the map. Call it after the function is compiled.
void end_map ();

} // namespace sediment

#endif
