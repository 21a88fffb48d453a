// SPDX-License-Identifier: GPL-3.0-or-later
#include "gcc-headers.h"

#include "flow.h"
#include "untrained.h"

#include "predict.h"
#include "ssa.h"
#include "gimple-iterator.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace sediment {

namespace {

// GCC's guesses for a function before it reads the counters.
struct Guesses
{
  cgraph_node *node;
  // Probabilities of edges in units of 1 / `all_parts`, by the indices of the source and target block.
  std::map<std::pair<int, int>, unsigned> edges;
  // Indices of blocks that GCC expects never to run.
  std::set<int> rare;
};

std::vector<Guesses> kept;

bool
is_executed (basic_block block)
{
  return block->count.ipa ().nonzero_p ();
}

// GCC's guess for an edge. GCC may have split the edge after the guess was saved; then the guess of the original edge counts.
unsigned
guess_of (const Guesses &guesses, edge taken)
{
  if (single_succ_p (taken->src))
    return all_parts;
  auto guess = guesses.edges.find ({ taken->src->index, taken->dest->index });
  if (guess == guesses.edges.end () && single_succ_p (taken->dest))
    guess = guesses.edges.find ({ taken->src->index, single_succ (taken->dest)->index });
  return guess == guesses.edges.end () ? 0 : guess->second;
}

// True if the block ends with a switch or a computed goto.
bool
ends_with_switch (basic_block block)
{
  gimple_stmt_iterator at = gsi_last_nondebug_bb (block);
  gimple *last = gsi_end_p (at) ? NULL : gsi_stmt (at);
  return EDGE_COUNT (block->succs) > 2 && last && (gimple_code (last) == GIMPLE_SWITCH || gimple_code (last) == GIMPLE_GOTO);
}

std::vector<Block>
graph_of (const Guesses &guesses, const std::vector<basic_block> &blocks, Flow &flow)
{
  std::map<int, unsigned> place_of;
  for (basic_block block : blocks)
    place_of[block->index] = place_of.size ();
  std::vector<Block> graph;
  for (basic_block block : blocks)
    {
      uint64_t count = is_executed (block) ? block->count.to_gcov_type () : 0;
      Block own { count, true, false, ends_with_switch (block), guesses.rare.count (block->index) > 0, 0, {}, {} };
      flow.blocks.push_back (count);
      flow.edges.push_back ({});
      edge successor;
      edge_iterator at;
      FOR_EACH_EDGE (successor, at, block->succs)
	{
	  auto found = place_of.find (successor->dest->index);
	  if (found == place_of.end ())
	    {
	      own.leaves = true;
	      continue;
	    }
	  own.successors.push_back (found->second);
	  own.guesses.push_back (guess_of (guesses, successor));
	  profile_count taken = successor->count ().ipa ();
	  flow.edges.back ().push_back (taken.nonzero_p () ? taken.to_gcov_type () : 0);
	}
      graph.push_back (own);
    }
  return graph;
}

// Gives the edges from an executed block to likely blocks a part of their guessed probability. The probabilities of the other edges shrink.
void
share_probabilities (basic_block block, const std::set<int> &likely, const Guesses &guesses)
{
  unsigned sum = 0;
  edge successor;
  edge_iterator at;
  auto share_of = [&] (edge taken) { return likely.count (taken->dest->index) ? guess_of (guesses, taken) / likely_part : 0; };
  FOR_EACH_EDGE (successor, at, block->succs)
    sum += share_of (successor);
  if (!sum || sum > all_parts / 2)
    return;
  FOR_EACH_EDGE (successor, at, block->succs)
    if (unsigned share = share_of (successor))
      successor->probability = profile_probability::from_reg_br_prob_base (share * (REG_BR_PROB_BASE / all_parts)).guessed ();
    else if (successor->probability.initialized_p ())
      successor->probability = successor->probability.apply_scale (all_parts - sum, all_parts);
}

void
use_guesses_of (const Guesses &guesses)
{
  std::vector<basic_block> blocks;
  basic_block block;
  FOR_EACH_BB_FN (block, cfun)
    blocks.push_back (block);
  Flow flow;
  std::vector<double> executions = likely_executions (graph_of (guesses, blocks, flow), flow);
  std::set<int> likely;
  const double hot = std::max (get_hot_bb_threshold (), gcov_type (1));
  for (size_t place = 0; place < blocks.size (); ++place)
    if (executions[place])
      {
	double part = std::max (executions[place] / likely_part, std::min (executions[place], hot));
	blocks[place]->count = profile_count::from_gcov_type (std::max (gcov_type (part), gcov_type (1))).guessed ();
	likely.insert (blocks[place]->index);
      }
    else if (guesses.rare.count (blocks[place]->index) && !is_executed (blocks[place]))
      blocks[place]->count = profile_count::zero ();
  if (likely.empty ())
    return;
  for (size_t place = 0; place < blocks.size (); ++place)
    if (flow.blocks[place])
      share_probabilities (blocks[place], likely, guesses);
  for (cgraph_edge *calls : { guesses.node->callees, guesses.node->indirect_calls })
    for (cgraph_edge *call = calls; call; call = call->next_callee)
      if (call->call_stmt && gimple_bb (call->call_stmt))
	call->count = gimple_bb (call->call_stmt)->count;
}

} // namespace

void
keep_guesses (cgraph_node *node)
{
  Guesses guesses { node, {}, {} };
  basic_block block;
  FOR_EACH_BB_FN (block, cfun)
    {
      if (block->count == profile_count::zero ())
	guesses.rare.insert (block->index);
      edge successor;
      edge_iterator at;
      FOR_EACH_EDGE (successor, at, block->succs)
	if (successor->probability.initialized_p ())
	  guesses.edges[{ block->index, successor->dest->index }] = successor->probability.to_reg_br_prob_base () * all_parts / REG_BR_PROB_BASE;
    }
  kept.push_back (guesses);
}

void
use_guesses ()
{
  for (const Guesses &guesses : kept)
    {
      function *own = DECL_STRUCT_FUNCTION (guesses.node->decl);
      if (!own || !own->cfg || profile_status_for_fn (own) != PROFILE_READ || !is_executed (ENTRY_BLOCK_PTR_FOR_FN (own)))
	continue;
      push_cfun (own);
      use_guesses_of (guesses);
      pop_cfun ();
    }
  kept.clear ();
}

} // namespace sediment
