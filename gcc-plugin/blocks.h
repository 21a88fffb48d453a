// SPDX-License-Identifier: GPL-3.0-or-later
// Basic blocks of functions directly before GCC's pass bbpart, which separates hot blocks from cold ones. Most optimisations have run by
// then; register allocation and block reordering run later.
#ifndef SEDIMENT_BLOCKS_H
#define SEDIMENT_BLOCKS_H

#include "counts.h"

namespace sediment {

// Numbers the blocks of the current function, and begins its map. The map contains the hash of the control-flow graph.
void mark_blocks ();

// Replaces GCC's estimates for the current function's blocks by counts from the profile. Returns true if counts were found and applied;
// otherwise the function does not change. A damaged line of counts sets `is_damaged`.
bool apply_counts (const Counts &counts, bool &is_damaged);

// Makes blocks of the current function cold if they never ran according to GCC's counters. With -fprofile-partial-training GCC itself does
// not split them off. Returns true if the training executed the function; otherwise the function does not change. `largest`: the largest
// counter of the program.
bool apply_counters (uint64_t largest);

// True if the current function's share of the executions of all functions is large. Call it after the counts were applied.
bool is_often_called ();

// If the function `is_counted`, splits it even if GCC by itself would not. Prevents a split that cannot be assembled. Call it last, directly
// before bbpart, because it changes the blocks.
void split (bool is_counted);
// On AArch64 linkers put a veneer in front of a jump of more than 128 MiB, which changes two registers, and is an indirect jump. So no value
// may be in these registers between two parts of a function: call the first directly after bbpart. And targets of such jumps need a landing pad
// (-mbranch-protection): call the second between the pass that orders blocks and the pass that places landing pads.
void free_registers_of_veneers ();
void mark_targets_of_veneers ();
// Restores options that `split` changed. Call it after the function is compiled.
void end_split ();

} // namespace sediment

#endif
