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
  // The block ends with a jump to one of many blocks: a switch, or a computed goto.
  bool is_switch;
  // The compiler knows that the block hardly ever runs.
  bool is_rare;
  unsigned instructions;
  std::vector<unsigned> successors;
  // The compiler's guess of how often control goes to each successor, in parts of `all_parts`.
  std::vector<unsigned> guesses;
};

const unsigned all_parts = 10000;
// Part of its guessed executions that a likely block without executions counts with, so that registers stay with the executed blocks.
const unsigned likely_part = 8;

// Executions of blocks, and of their edges in the order of their successors.
struct Flow
{
  std::vector<uint64_t> blocks;
  std::vector<std::vector<uint64_t>> edges;
};

// Finds the flow nearest to the counts: each block is entered as often as it is left, and block 0 is entered from outside. Costs are
// from He, Mestre, Pupyrev, Wang and Yu, "Profile inference revisited" (POPL 2022). Returns false if the search took too long.
bool infer_flow (const std::vector<Block> &function, Flow &flow);

// Executions of blocks without count and flow that other work may well execute, guessed from the counts around them; 0 for other blocks. Such
// a block can reach a return, and jumps from an executed block lead to it that the compiler calls likely, or that are those of a switch.
std::vector<double> likely_executions (const std::vector<Block> &function, const Flow &flow);

// Finds cold blocks. A cold block has no count and no flow, and is not likely. It is not on a path of undecided blocks that leads from an executed block to another
// executed block, or to a return in a block of unknown count. Undecided blocks have an unknown count, or too few expected executions, and are
// not rare. Counted blocks are never cold, even without flow, because counts of merged code may contradict each other.
std::vector<bool> cold_blocks (const std::vector<Block> &function, const Flow &flow);

// Removes small parts from the cold blocks: connected ones that have no more instructions than there are jumps into and out of them.
// Each edge between sections is a long jump, so splitting them off saves no code, and other inputs execute the jumps.
void keep_small_parts (const std::vector<Block> &function, std::vector<bool> &cold);

} // namespace sediment

#endif
