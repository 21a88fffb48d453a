// SPDX-License-Identifier: GPL-3.0-or-later
// Blocks of functions as GCC has them in front of its pass that parts hot blocks from cold ones (bbpart): behind all that changes the
// code by what it knows of it, in front of register allocation and of the order of blocks. The only file that knows RTL.
#ifndef SEDIMENT_BLOCKS_H
#define SEDIMENT_BLOCKS_H

#include "counts.h"

namespace sediment {

// Numbers the blocks of the present function in the line table, so that an address leads to a block of the graph; the first block
// says the graph. The code stays the same.
void mark_blocks ();

// Tells GCC how often the blocks of the present function ran; where nothing fits, it is left as it is.
// True: it was found. A damaged line of counts sets `is_damaged`.
bool apply_counts (const Counts &counts, bool &is_damaged);

// Has the present function split, also where GCC would leave it whole. Behind all that looks at its blocks, right in front of bbpart.
void split ();
// To be called when a function was compiled.
void end_split ();

} // namespace sediment

#endif
