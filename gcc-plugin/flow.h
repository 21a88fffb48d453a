// SPDX-License-Identifier: GPL-3.0-or-later
// From counts of some blocks to counts of all blocks and edges: no part of this knows GCC.
#ifndef SEDIMENT_FLOW_H
#define SEDIMENT_FLOW_H

#include <cstdint>
#include <vector>

namespace sediment {

// A block of a function and what is known of it.
struct Block
{
  // Executions; without meaning where nothing is known.
  uint64_t count;
  bool known;
  // Control may leave the function from here.
  bool leaves;
  std::vector<unsigned> successors;
};

// Executions of blocks, and of their edges in the order of their successors.
struct Flow
{
  std::vector<uint64_t> blocks;
  std::vector<std::vector<uint64_t>> edges;
};

// The flow that is nearest to the counts: what enters a block leaves it, and block 0 is entered from outside. Costs are those of He, Mestre, Pupyrev, Wang and Yu, "Profile inference revisited" (POPL 2022). False: it takes too long to find.
bool infer_flow (const std::vector<Block> &function, Flow &flow);

// Blocks of which it is sure enough that they are cold: counted as zero or unknown, without flow, and not on a way of undecided blocks from
// one that ran to another. Undecided are unknown ones, and those in front of which too little ran to tell. Counts contradict one another where code was merged, so one that was counted is never among them.
std::vector<bool> cold_blocks (const std::vector<Block> &function, const Flow &flow);

} // namespace sediment

#endif
