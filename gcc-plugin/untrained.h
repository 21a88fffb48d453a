// SPDX-License-Identifier: GPL-3.0-or-later
// Blocks that the training did not execute, in functions that it executed. With -fprofile-partial-training GCC gives these blocks the count
// zero and edges of probability zero. It inlines nothing there, and optimises for size. Other workloads may execute these blocks, unless they
// are error paths.
#ifndef SEDIMENT_UNTRAINED_H
#define SEDIMENT_UNTRAINED_H

struct cgraph_node;

namespace sediment {

// Saves GCC's guesses for the edges of a function. Call it before GCC reads the counters.
void keep_guesses (cgraph_node *node);
// Gives each block that did not run, but is likely by GCC's guesses, a part of its guessed executions. Call it after GCC has read the counters.
void use_guesses ();

} // namespace sediment

#endif
