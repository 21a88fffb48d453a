// SPDX-License-Identifier: GPL-3.0-or-later
// Blocks of trained functions that the training did not execute. With -fprofile-partial-training GCC gives them a count of zero and edges of
// probability zero: it inlines nothing there, and optimises for size. Other work may execute them, unless they are error paths.
#ifndef SEDIMENT_UNTRAINED_H
#define SEDIMENT_UNTRAINED_H

struct cgraph_node;

namespace sediment {

// Keeps GCC's guesses for the edges of a function. Call it before GCC reads the counters.
void keep_guesses (cgraph_node *node);
// Gives blocks without executions that the guesses call likely a part of the executions that they call for. Call it after GCC read the counters.
void use_guesses ();

} // namespace sediment

#endif
