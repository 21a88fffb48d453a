// SPDX-License-Identifier: GPL-3.0-or-later
// Infers the counts of all blocks and edges from the counts of some blocks. Does not use GCC's headers.
#ifndef SEDIMENT_FLOW_H
#define SEDIMENT_FLOW_H

#include <cstdint>
#include <vector>

namespace sediment {

// A block of a function, with its count and its successors.
struct Block
{
  // Executions; meaningless unless `known`.
  uint64_t count;
  bool known;
  // Control may leave the function from this block.
  bool leaves;
  // The block ends with a jump to one of many blocks: a switch, or a computed goto.
  bool is_switch;
  // The compiler knows that the block hardly ever runs.
  bool is_rare;
  unsigned instructions;
  std::vector<unsigned> successors;
  // The compiler's guess of the probability of each successor, in units of 1 / `all_parts`.
  std::vector<unsigned> guesses;
};

const unsigned all_parts = 10000;
// A likely block that did not run gets its guessed executions divided by this number. It then counts less than the executed blocks in
// register allocation.
const unsigned likely_part = 8;

// Executions of each block, and of its edges in the order of its successors.
struct Flow
{
  std::vector<uint64_t> blocks;
  std::vector<std::vector<uint64_t>> edges;
};

// Finds the flow that is nearest to the counts. In a flow, control enters each block as often as it leaves it; it enters block 0 from
// outside. The costs are from He, Mestre, Pupyrev, Wang and Yu, "Profile inference revisited" (POPL 2022). Returns false if the search took
// too long.
bool infer_flow (const std::vector<Block> &function, Flow &flow);

// Guesses the executions of likely blocks: blocks without count and flow that other workloads probably execute. The guess comes from the
// counts of the blocks before them; it is 0 for all other blocks. A likely block can reach a return. It is reachable from an executed block
// through edges that the compiler calls likely, or through edges of a switch.
std::vector<double> likely_executions (const std::vector<Block> &function, const Flow &flow);

// Finds cold blocks. A cold block has no count and no flow, and is not likely. It is also not on a path of undecided blocks that connects an
// executed block to another executed block, or to a return in a block of unknown count. A block is undecided if its count is unknown, or if it
// has too few expected executions; rare blocks are never undecided. A block with executions in the profile is never cold, even without flow,
// because counts of merged code may contradict each other.
std::vector<bool> cold_blocks (const std::vector<Block> &function, const Flow &flow);

// Removes small parts from the cold blocks. A part is a set of connected cold blocks; it is small if it does not have more instructions than
// edges to and from other blocks. Each edge between sections becomes a long jump, so splitting off a small part does not save code, and other
// inputs execute the jumps.
void keep_small_parts (const std::vector<Block> &function, std::vector<bool> &cold);

} // namespace sediment

#endif
