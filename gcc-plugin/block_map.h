// SPDX-License-Identifier: GPL-3.0-or-later
// Map from addresses to the blocks of a function, in a section of its own. The code, line numbers and discriminators stay the same.
#ifndef SEDIMENT_BLOCK_MAP_H
#define SEDIMENT_BLOCK_MAP_H

#include "signature.h"

#include <cstdint>
#include <vector>

namespace sediment {

// Marks the instructions of the current function with the blocks they belong to, before later passes move, copy and merge them.
// `blocks` are numbered from 1, in this order; each has a signature.
void begin_map (const std::vector<basic_block> &blocks, uint32_t graph, const std::vector<Signature> &signatures);
// Removes the marks, and places labels where the block changes. Call it directly before GCC's pass final.
void place_labels ();
// Writes the map. Call it after the function is compiled.
void end_map ();

} // namespace sediment

#endif
