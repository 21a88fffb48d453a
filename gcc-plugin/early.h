// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers statements before inlining, and keeps the numbers down to the code of functions. With the control-flow graphs from before inlining,
// the numbers show which blocks of which functions an address executes, even if code was inlined, copied or merged. The code, line numbers and
// discriminators stay the same.
#ifndef SEDIMENT_EARLY_H
#define SEDIMENT_EARLY_H

namespace sediment {

// Reason why this unit cannot have numbers; null if it can.
const char *why_no_early_numbers ();

// Numbers the statements of all functions, and writes their graphs. Call it right before GCC's pass `profile`.
// Returns false if the graphs could not be described; nothing is numbered then.
bool number_statements ();

// Removes the numbers of the current function, and places labels in front of its blocks. Call it directly before GCC's pass final, after
// place_labels of block_map.h.
void place_early_labels ();

// Writes which statements the blocks of the current function have. Call it after the function is compiled.
void end_early_map ();

} // namespace sediment

#endif
