// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers of statements from before inlining to the code of functions, with the control-flow graphs of that time: which blocks of which
// functions an address executes, whatever was inlined, copied or merged. The code, line numbers and discriminators stay the same.
#ifndef SEDIMENT_EARLY_H
#define SEDIMENT_EARLY_H

namespace sediment {

// Why this unit cannot have numbers; null: it can.
const char *why_no_early_numbers ();

// Numbers the statements of all functions, and writes their graphs. Call it right before GCC's pass `profile`.
// False: GCC did not describe them, and nothing was numbered.
bool number_statements ();

// Removes the numbers of the current function, and places labels in front of its blocks. Call it directly before GCC's pass final, behind
// place_labels of block_map.h.
void place_early_labels ();

// Writes which statements the blocks of the current function have. Call it after the function is compiled.
void end_early_map ();

} // namespace sediment

#endif
