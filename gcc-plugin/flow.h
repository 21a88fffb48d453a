// SPDX-License-Identifier: GPL-3.0-or-later
// Infers the counts of all blocks and edges from the counts of some blocks. Independent of GCC.
#ifndef SEDIMENT_FLOW_H
#define SEDIMENT_FLOW_H

#include <cstdint>
#include <vector>

namespace sediment {

// A block of a function and its count.
struct Block
{
  // Executions; no meaning unless `known`.
  uint64_t count;
  bool known;
  // Control may leave the function from here.
  bool leaves;
  unsigned instructions;
  std::vector<unsigned> successors;
  // The compiler's guess of how often control goes to each successor, in parts of `all_parts`.
  std::vector<unsigned> guesses;
};

const unsigned all_parts = 10000;

// Executions of blocks, and of their edges in the order of their successors.
struct Flow
{
  std::vector<uint64_t> blocks;
  std::vector<std::vector<uint64_t>> edges;
};

// Finds the flow nearest to the counts: each block is entered as often as it is left, and block 0 is entered from outside. Costs are
// from He, Mestre, Pupyrev, Wang and Yu, "Profile inference revisited" (POPL 2022). Returns false if the search took too long.
bool infer_flow (const std::vector<Block> &function, Flow &flow);

// Finds cold blocks. A cold block has no count and no flow. It is not on a path of undecided blocks that leads from an executed block to another
// executed block, or to a return in a block of unknown count. Undecided blocks have an unknown count, or too few expected executions. Counted
// blocks are never cold, even without flow, because counts of merged code may contradict each other.
std::vector<bool> cold_blocks (const std::vector<Block> &function, const Flow &flow);

// Removes small parts from the cold blocks: connected ones that have no more instructions than there are jumps into and out of them.
// Each edge between sections is a long jump, so splitting them off saves no code, and other inputs execute the jumps.
void keep_small_parts (const std::vector<Block> &function, std::vector<bool> &cold);

} // namespace sediment

#endif
