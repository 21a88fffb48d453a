// SPDX-License-Identifier: GPL-3.0-or-later
// Basic blocks of functions, just before GCC's pass bbpart, which separates hot blocks from cold ones. Optimisations are done at
// that point; register allocation and the order of blocks come later.
#ifndef SEDIMENT_BLOCKS_H
#define SEDIMENT_BLOCKS_H

#include "counts.h"

namespace sediment {

// Numbers the blocks of the current function, and begins their map, with the hash of the graph.
void mark_blocks ();

// Gives GCC the counts of the current function's blocks. Returns true if counts were found and applied; otherwise the function stays unchanged.
// A damaged line of counts sets `is_damaged`.
bool apply_counts (const Counts &counts, bool &is_damaged);

// Makes blocks of the current function cold if they never ran according to the counters that GCC was given. Returns true if the function was
// trained; otherwise it stays unchanged. `largest`: the largest counter of the program. With -fprofile-partial-training GCC itself keeps these blocks inside the function.
bool apply_counters (uint64_t largest);

// True if the current function, whose counts were applied, has a large share of the executions of all functions.
bool is_often_called ();

// Enables or runs the split of the current function if it `is_counted`, where GCC would not. Prevents a split that cannot be assembled.
// Call it last, directly before bbpart: it changes the blocks.
void split (bool is_counted);
// On AArch64 linkers put a veneer in front of a jump of more than 128 MiB, which changes two registers, and is an indirect jump. So no value
// may be in these registers between two parts of a function: call the first directly after bbpart. And targets of such jumps need a landing pad
// (-mbranch-protection): call the second between the pass that orders blocks and the pass that places landing pads.
void free_registers_of_veneers ();
void mark_targets_of_veneers ();
// Call it after the function is compiled.
void end_split ();

} // namespace sediment

#endif
