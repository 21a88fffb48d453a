// SPDX-License-Identifier: GPL-3.0-or-later
// Map from addresses to the blocks of a function, in a section of its own. The code, line numbers and discriminators stay the same.
#ifndef SEDIMENT_BLOCK_MAP_H
#define SEDIMENT_BLOCK_MAP_H

#include "signature.h"

#include <cstdint>
#include <vector>

namespace sediment {

// Reason why a function stays whole although some of its blocks did not run. The map contains the same values.
enum class Whole
{
  // Nothing keeps it whole.
  no = 0,
  // GCC expects few executions of the blocks.
  few_executions = 1,
  // The blocks have no more instructions than there are jumps into and out of them.
  small_parts = 2,
  // GCC does not split functions that have a section of their own, or are naked, cold, or optimised for size.
  kind = 3,
  // The function uses distances between parts of its code, and these cannot span sections.
  distances = 4,
  // -fno-reorder-blocks-and-partition.
  option = 5,
  // Other work may execute the blocks.
  likely = 6,
  // Counts were asked for (profile=FILE), and the function has none: the file was not read, or does not have the function.
  uncounted = 7,
};

// Marks the instructions of the current function with the blocks they belong to, before later passes move, copy and merge them.
// `blocks` are numbered from 1, in this order; each has a signature.
void begin_map (const std::vector<basic_block> &blocks, uint32_t graph, const std::vector<Signature> &signatures);
// Records in the map why the current function stays whole.
void set_whole (Whole why);
// Removes the marks, and places labels where the block changes. Call it directly before GCC's pass final.
void place_labels ();
// Writes the map. Call it after the function is compiled.
void end_map ();

} // namespace sediment

#endif
