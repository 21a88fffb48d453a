// SPDX-License-Identifier: GPL-3.0-or-later
#include "flow.h"

#include <algorithm>
#include <limits>

namespace sediment {

namespace {

// Cost of each execution that the flow has less or more than the count.
const int64_t less = 20, less_of_first = 10, more = 10, more_of_first = 40, more_of_zero = 11;
// Cost of an edge: prefers the shorter of two paths without counts.
const int64_t per_edge = 1;
const uint64_t unlimited = std::numeric_limits<uint64_t>::max () / 4;
// Limit of visits to arcs, about half a second. Most functions need far fewer visits.
const size_t most_looks = size_t (1) << 26;
// A block with count zero can be cold only if GCC expected at least this number of executions. If GCC expects a block to run once in a hundred
// calls, ten calls without it do not prove anything. The value was chosen with `scripts/prove blocks`.
const double least_expected = 4;
// Limit of the number of isolated components that are joined.
const size_t most_parts = 100;
// Larger counts are reduced to this, so that sums of counts and costs do not overflow.
const uint64_t largest_count = uint64_t (1) << 48;

struct Arc
{
  unsigned to;
  unsigned back;
  uint64_t capacity;
  int64_t cost;
};

// Minimum-cost maximum flow by shortest augmenting paths (Busacker and Gowen). A label-correcting search finds the paths.
class Network
{
public:
  explicit Network (size_t nodes) : arcs_ (nodes) {}

  size_t add (unsigned from, unsigned to, uint64_t capacity, int64_t cost)
  {
    arcs_[from].push_back ({ to, unsigned (arcs_[to].size ()), capacity, cost });
    arcs_[to].push_back ({ from, unsigned (arcs_[from].size () - 1), 0, -cost });
    return arcs_[from].size () - 1;
  }

  // Flow through an arc: the capacity of its reverse arc.
  uint64_t through (unsigned from, size_t arc) const
  {
    const Arc &own = arcs_[from][arc];
    return arcs_[own.to][own.back].capacity;
  }

  bool run (unsigned source, unsigned sink)
  {
    while (find_path (source, sink))
      {
	uint64_t amount = unlimited;
	for (unsigned node = sink; node != source; node = came_from_[node])
	  amount = std::min (amount, arcs_[came_from_[node]][came_by_[node]].capacity);
	for (unsigned node = sink; node != source; node = came_from_[node])
	  {
	    Arc &arc = arcs_[came_from_[node]][came_by_[node]];
	    arc.capacity -= amount;
	    arcs_[node][arc.back].capacity += amount;
	  }
      }
    return looks_ < most_looks;
  }

private:
  bool find_path (unsigned source, unsigned sink)
  {
    const int64_t far = std::numeric_limits<int64_t>::max ();
    distance_.assign (arcs_.size (), far);
    came_from_.assign (arcs_.size (), 0);
    came_by_.assign (arcs_.size (), 0);
    looks_ += arcs_.size ();
    std::vector<char> waits (arcs_.size (), 0);
    std::vector<unsigned> queue { source };
    distance_[source] = 0;
    for (size_t next = 0; next < queue.size () && looks_ < most_looks; ++next)
      {
	unsigned from = queue[next];
	waits[from] = 0;
	looks_ += arcs_[from].size ();
	for (size_t at = 0; at < arcs_[from].size (); ++at)
	  {
	    const Arc &arc = arcs_[from][at];
	    if (!arc.capacity || distance_[from] + arc.cost >= distance_[arc.to])
	      continue;
	    distance_[arc.to] = distance_[from] + arc.cost;
	    came_from_[arc.to] = from;
	    came_by_[arc.to] = at;
	    if (!waits[arc.to])
	      {
		waits[arc.to] = 1;
		queue.push_back (arc.to);
	      }
	  }
      }
    return looks_ < most_looks && distance_[sink] != far;
  }

  std::vector<std::vector<Arc>> arcs_;
  std::vector<int64_t> distance_;
  std::vector<unsigned> came_from_;
  std::vector<size_t> came_by_;
  size_t looks_ = 0;
};

// Marks the block `from`, and all blocks that are reachable from it along edges with flow.
void
follow (const std::vector<Block> &function, const Flow &flow, unsigned from, std::vector<bool> &reached)
{
  std::vector<unsigned> waiting { from };
  reached[from] = true;
  while (!waiting.empty ())
    {
      unsigned block = waiting.back ();
      waiting.pop_back ();
      const std::vector<unsigned> &successors = function[block].successors;
      for (size_t at = 0; at < successors.size (); ++at)
	if (flow.edges[block][at] && !reached[successors[at]])
	  {
	    reached[successors[at]] = true;
	    waiting.push_back (successors[at]);
	  }
    }
}

// Joins isolated components, such as a loop whose samples do not show the path into it. If a component with flow is not reachable from block
// 0, the shortest path to it gets one execution. This is step 3 of the paper's algorithm.
void
join_parts (const std::vector<Block> &function, Flow &flow)
{
  size_t count = function.size ();
  std::vector<bool> reached (count);
  follow (function, flow, 0, reached);
  const unsigned none = count;
  for (size_t parts = 0; parts < most_parts; ++parts)
    {
      std::vector<unsigned> queue, came_from (count, none);
      for (unsigned block = 0; block < count; ++block)
	if (reached[block])
	  queue.push_back (block);
      unsigned found = none;
      for (size_t next = 0; next < queue.size () && found == none; ++next)
	for (unsigned successor : function[queue[next]].successors)
	  if (!reached[successor] && came_from[successor] == none)
	    {
	      came_from[successor] = queue[next];
	      queue.push_back (successor);
	      if (flow.blocks[successor])
		{
		  found = successor;
		  break;
		}
	    }
      if (found == none)
	return;
      unsigned block = found;
      for (; came_from[block] != none; block = came_from[block])
	{
	  unsigned before = came_from[block];
	  const std::vector<unsigned> &successors = function[before].successors;
	  ++flow.edges[before][std::find (successors.begin (), successors.end (), block) - successors.begin ()];
	  flow.blocks[block] += block != found;
	}
      flow.blocks[block] += !flow.blocks[block];
      follow (function, flow, block, reached);
    }
}

} // namespace

// Each block has two nodes, `in` and `out`. The initial flow is the counts: the source supplies each count at `out`, and the sink takes it at
// `in`. Reducing a count costs `less` per execution; increasing it costs `more`.
bool
infer_flow (const std::vector<Block> &function, Flow &flow)
{
  size_t count = function.size ();
  if (!count)
    return false;
  unsigned source = 2 * count, sink = source + 1;
  Network network (2 * count + 2);
  auto in = [] (size_t block) { return unsigned (2 * block); };
  auto out = [] (size_t block) { return unsigned (2 * block + 1); };
  std::vector<size_t> added (count), undone (count);
  std::vector<std::vector<size_t>> edges (count);
  for (size_t block = 0; block < count; ++block)
    {
      const Block &own = function[block];
      uint64_t known = own.known ? std::min (own.count, largest_count) : 0;
      int64_t dearer = !own.known ? 0 : !known ? more_of_zero : block ? more : more_of_first;
      added[block] = network.add (in (block), out (block), unlimited, dearer);
      undone[block] = network.add (out (block), in (block), known, block ? less : less_of_first);
      if (known)
	{
	  network.add (source, out (block), known, 0);
	  network.add (in (block), sink, known, 0);
	}
      for (unsigned successor : own.successors)
	edges[block].push_back (network.add (out (block), in (successor), unlimited, per_edge));
      if (own.leaves || own.successors.empty ())
	network.add (out (block), in (0), unlimited, 0);
    }
  if (!network.run (source, sink))
    return false;
  flow.blocks.resize (count);
  flow.edges.assign (count, {});
  for (size_t block = 0; block < count; ++block)
    {
      uint64_t known = function[block].known ? std::min (function[block].count, largest_count) : 0;
      flow.blocks[block] = known + network.through (in (block), added[block])
			   - network.through (out (block), undone[block]);
      for (size_t edge : edges[block])
	flow.edges[block].push_back (network.through (out (block), edge));
    }
  join_parts (function, flow);
  return true;
}

// Undecided blocks that are reachable from executed blocks, or from blocks in `found`, through undecided blocks only. The result includes
// `found`.
static std::vector<bool>
reached (const std::vector<std::vector<unsigned>> &next, const std::vector<bool> &ran, const std::vector<bool> &undecided,
	 std::vector<bool> found)
{
  std::vector<unsigned> waiting;
  for (unsigned block = 0; block < ran.size (); ++block)
    if (ran[block] || found[block])
      waiting.push_back (block);
  while (!waiting.empty ())
    {
      unsigned block = waiting.back ();
      waiting.pop_back ();
      for (unsigned successor : next[block])
	if (undecided[successor] && !found[successor])
	  {
	    found[successor] = true;
	    waiting.push_back (successor);
	  }
    }
  return found;
}

// Blocks in reverse postorder of a depth-first search from block 0: successors come later, except along the back edges of loops.
static std::vector<unsigned>
in_order (const std::vector<Block> &function)
{
  std::vector<unsigned> order;
  std::vector<size_t> next (function.size ());
  std::vector<bool> found (function.size ());
  for (unsigned first = 0; first < function.size (); ++first)
    {
      std::vector<unsigned> path;
      if (!found[first])
	path.push_back (first);
      found[first] = true;
      while (!path.empty ())
	{
	  unsigned block = path.back ();
	  const std::vector<unsigned> &successors = function[block].successors;
	  if (next[block] == successors.size ())
	    {
	      order.push_back (block);
	      path.pop_back ();
	      continue;
	    }
	  unsigned successor = successors[next[block]++];
	  if (!found[successor])
	    path.push_back (successor);
	  found[successor] = true;
	}
    }
  std::reverse (order.begin (), order.end ());
  return order;
}

// Expected executions of blocks without flow, computed from the compiler's guesses and the flow of the blocks before them. A loop without flow
// counts as one iteration for each entry.
static std::vector<double>
expected_executions (const std::vector<Block> &function, const Flow &flow)
{
  std::vector<double> expected (function.size ());
  std::vector<bool> done (function.size ());
  auto pass_on = [&] (unsigned block, double executions)
  {
    const Block &own = function[block];
    for (size_t at = 0; at < own.successors.size (); ++at)
      if (!done[own.successors[at]])
	expected[own.successors[at]] += executions * own.guesses[at] / all_parts;
  };
  for (unsigned block = 0; block < function.size (); ++block)
    if (flow.blocks[block])
      pass_on (block, flow.blocks[block]);
  for (unsigned block : in_order (function))
    {
      done[block] = true;
      if (!flow.blocks[block])
	pass_on (block, expected[block]);
    }
  return expected;
}

// Blocks that can reach a return. Other blocks end the program or throw an exception, so they are error paths.
static std::vector<bool>
returning (const std::vector<Block> &function)
{
  size_t count = function.size ();
  std::vector<std::vector<unsigned>> before (count);
  std::vector<bool> leaves (count), all (count, true);
  for (unsigned block = 0; block < count; ++block)
    {
      leaves[block] = function[block].leaves;
      for (unsigned successor : function[block].successors)
	before[successor].push_back (block);
    }
  return reached (before, leaves, all, leaves);
}

std::vector<double>
likely_executions (const std::vector<Block> &function, const Flow &flow)
{
  size_t count = function.size ();
  std::vector<double> expected = expected_executions (function, flow), executions (count);
  std::vector<bool> ran (count), returns = returning (function), may_run (count);
  std::vector<std::vector<unsigned>> next (count);
  for (unsigned block = 0; block < count; ++block)
    {
      const Block &own = function[block];
      ran[block] = flow.blocks[block] || (own.known && own.count);
      may_run[block] = !ran[block] && own.known && returns[block] && !own.is_rare && expected[block] > 0;
      for (size_t at = 0; at < own.successors.size (); ++at)
	if (own.guesses[at] >= all_parts / (own.is_switch ? 2 * own.successors.size () : 2))
	  next[block].push_back (own.successors[at]);
    }
  std::vector<bool> likely = reached (next, ran, may_run, std::vector<bool> (count));
  for (unsigned block = 0; block < count; ++block)
    if (likely[block])
      executions[block] = expected[block];
  return executions;
}

std::vector<bool>
cold_blocks (const std::vector<Block> &function, const Flow &flow)
{
  size_t count = function.size ();
  std::vector<bool> ran (count), undecided (count), returns (count);
  std::vector<double> expected = expected_executions (function, flow), likely = likely_executions (function, flow);
  std::vector<std::vector<unsigned>> next (count), before (count);
  for (unsigned block = 0; block < count; ++block)
    {
      const Block &own = function[block];
      ran[block] = flow.blocks[block] || (own.known && own.count);
      undecided[block] = !ran[block] && !own.known;
      // GCC merges equal ends of a function, such as calls in the cases of a switch. The merged code then has the executions of all of these ends.
      returns[block] = undecided[block] && own.leaves;
      next[block] = own.successors;
      for (unsigned successor : own.successors)
	before[successor].push_back (block);
    }
  // If GCC expects few executions of a block, its count of zero does not decide.
  for (unsigned block = 0; block < count; ++block)
    if (!ran[block])
      undecided[block] = !function[block].is_rare && (undecided[block] || expected[block] < least_expected);
  std::vector<bool> entered = reached (next, ran, undecided, std::vector<bool> (count));
  std::vector<bool> left = reached (before, ran, undecided, returns);
  std::vector<bool> cold (count);
  for (size_t block = 0; block < count; ++block)
    cold[block] = !ran[block] && !likely[block] && !(entered[block] && left[block]);
  return cold;
}

void
keep_small_parts (const std::vector<Block> &function, std::vector<bool> &cold)
{
  size_t count = function.size ();
  std::vector<std::vector<unsigned>> beside (count);
  for (unsigned block = 0; block < count; ++block)
    for (unsigned successor : function[block].successors)
      {
	beside[block].push_back (successor);
	beside[successor].push_back (block);
      }
  std::vector<bool> found (count), hot (count);
  for (unsigned first = 0; first < count; ++first)
    {
      if (!cold[first] || found[first])
	continue;
      std::vector<unsigned> part { first };
      found[first] = true;
      uint64_t instructions = 0, jumps = 0;
      for (size_t next = 0; next < part.size (); ++next)
	{
	  instructions += function[part[next]].instructions;
	  for (unsigned other : beside[part[next]])
	    {
	      jumps += !cold[other];
	      if (cold[other] && !found[other])
		{
		  found[other] = true;
		  part.push_back (other);
		}
	    }
	}
      for (unsigned block : part)
	hot[block] = instructions <= jumps;
    }
  for (size_t block = 0; block < count; ++block)
    cold[block] = cold[block] && !hot[block];
}

} // namespace sediment
