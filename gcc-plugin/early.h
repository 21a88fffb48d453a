// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers statements before inlining, and finds these numbers again in the final code. Together with the control-flow graphs from before
// inlining, the numbers show the source block of each instruction, even if code was inlined, copied or merged. Code, line numbers and
// discriminators do not change.
#ifndef SEDIMENT_EARLY_H
#define SEDIMENT_EARLY_H

namespace sediment {

// Reason why statements of this unit cannot be numbered; null if they can.
const char *why_no_early_numbers ();

// Numbers the statements of all functions, and writes the functions' graphs. Call it directly before GCC's pass `profile`.
// Returns false, and numbers nothing, if the graphs could not be described.
bool number_statements ();

// Removes the numbers from the current function, and places a label before each of its blocks. Call it directly before GCC's pass `final`,
// after place_labels of block_map.h.
void place_early_labels ();

// Writes the list of statements of each block of the current function. Call it after the function is compiled.
void end_early_map ();

} // namespace sediment

#endif
