// SPDX-License-Identifier: GPL-3.0-or-later
// The pass `profile` adds edges for statements that may leave a function, and splits blocks and edges. It then gives counters to all edges that
// are not on a spanning tree. A .gcda file contains only the counts of these edges, and a checksum of the changed graph.
#include "early_graph.h"

#include "ssa.h"
#include "gimple-iterator.h"
#include "cfganal.h"
#include "cfgcleanup.h"
#include "cfghooks.h"
#include "tree-cfg.h"
#include "tree-cfgcleanup.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

// From GCC's coverage.h, which needs a header that plugins do not get.
extern unsigned coverage_compute_cfg_checksum (struct function *);
extern unsigned coverage_compute_lineno_checksum (void);

namespace sediment {

namespace {

const int abnormal = EDGE_ABNORMAL | EDGE_ABNORMAL_CALL;

// Flags of edges in the description.
const unsigned is_counted = 1, is_fake = 2;

bool
has_place (location_t location)
{
  return !RESERVED_LOCATION_P (location);
}

bool
is_same_line (location_t one, location_t other)
{
  return LOCATION_FILE (one) == LOCATION_FILE (other) && LOCATION_LINE (one) == LOCATION_LINE (other);
}

// Location of the last statement in a block that has a real location, else the location of the first statement.
location_t
last_location (basic_block block)
{
  location_t location = UNKNOWN_LOCATION;
  for (gimple_stmt_iterator at = gsi_last_nondebug_bb (block); !gsi_end_p (at); gsi_prev_nondebug (&at))
    {
      location = gimple_location (gsi_stmt (at));
      if (has_place (location))
	break;
    }
  return location;
}

// Splits an edge if its jump is on another line than the last statement of its block, so that the line of the jump gets a count.
void
split_jump (edge jump)
{
  location_t last = last_location (jump->src);
  if (!has_place (last) || !has_place (jump->goto_locus) || single_succ_p (jump->src) || is_same_line (jump->goto_locus, last))
    return;
  location_t locus = jump->goto_locus;
  single_succ_edge (split_edge (jump))->goto_locus = locus;
}

// True if GCC must not insert statements before this one.
bool
is_receiver (gimple *statement)
{
  return is_gimple_call (statement)
	 && (gimple_call_builtin_p (statement, BUILT_IN_SETJMP_RECEIVER) || (gimple_call_flags (statement) & ECF_RETURNS_TWICE)
	     || (gimple_call_internal_p (statement) && gimple_call_internal_fn (statement) == IFN_ABNORMAL_DISPATCHER));
}

// Adds fake edges from the function's entry to the targets of abnormal edges, and from the sources of abnormal edges to the function's exit.
void
replace_abnormal_edges (basic_block block)
{
  basic_block entry = ENTRY_BLOCK_PTR_FOR_FN (cfun), exit = EXIT_BLOCK_PTR_FOR_FN (cfun);
  bool leaves_abnormally = false, leaves = false, enters_abnormally = false, enters = false;
  edge own;
  edge_iterator at;
  FOR_EACH_EDGE (own, at, block->succs)
    {
      split_jump (own);
      leaves_abnormally |= (own->flags & abnormal) && own->dest != exit;
      leaves |= own->dest == exit;
    }
  FOR_EACH_EDGE (own, at, block->preds)
    {
      enters_abnormally |= (own->flags & abnormal) && own->src != entry;
      enters |= own->src == entry;
    }
  if (leaves_abnormally && !leaves)
    make_edge (block, exit, EDGE_FAKE);
  if (!enters_abnormally || enters)
    return;
  make_edge (entry, block, EDGE_FAKE);
  gimple_stmt_iterator first = gsi_start_nondebug_after_labels_bb (block);
  if ((leaves || leaves_abnormally) && !gsi_end_p (first) && !is_receiver (gsi_stmt (first)))
    split_block_after_labels (block);
}

// An edge with its rank for the spanning tree: GCC takes frequent edges first.
struct Weighed
{
  edge own;
  int frequency, source, target;

  explicit Weighed (edge own) : own (own), source (own->src->index), target (own->dest->index)
  {
    int times = EDGE_CRITICAL_P (own) ? 2 : 1;
    frequency = EDGE_FREQUENCY (own) * times + times;
  }

  bool operator< (const Weighed &other) const
  {
    return frequency != other.frequency ? frequency > other.frequency : source != other.source ? source > other.source : target > other.target;
  }
};

// Union-find over blocks that edges join.
class Groups
{
public:
  explicit Groups (unsigned blocks) : next_ (blocks) { std::iota (next_.begin (), next_.end (), 0); }

  // Joins the groups of two blocks. Returns false if both are already in one group.
  bool join (unsigned one, unsigned other)
  {
    one = of (one);
    other = of (other);
    next_[one] = other;
    return one != other;
  }

private:
  unsigned of (unsigned block)
  {
    while (next_[block] != block)
      block = next_[block] = next_[next_[block]];
    return block;
  }

  std::vector<unsigned> next_;
};

// Chooses the edges with counters: all edges that are not on the spanning tree, except replaced and fake edges. The exceptions go to `ignored`,
// and are not described.
void
choose_counted (std::map<edge, unsigned> &flags, std::vector<edge> &ignored)
{
  basic_block block, entry = ENTRY_BLOCK_PTR_FOR_FN (cfun), exit = EXIT_BLOCK_PTR_FOR_FN (cfun);
  std::vector<Weighed> edges;
  edge own;
  edge_iterator at;
  FOR_BB_BETWEEN (block, entry, exit, next_bb)
    FOR_EACH_EDGE (own, at, block->succs)
      edges.emplace_back (own);
  std::sort (edges.begin (), edges.end ());
  auto is_replaced = [&] (edge own) { return (own->flags & abnormal) && own->src != entry && own->dest != exit; };
  Groups groups (last_basic_block_for_fn (cfun));
  groups.join (exit->index, entry->index);
  std::map<edge, bool> on_tree;
  for (bool is_first : { true, false })
    for (const Weighed &edge : edges)
      if (!is_replaced (edge.own) && (!is_first || (edge.own->flags & (abnormal | EDGE_FAKE)) || edge.own->dest == exit)
	  && groups.join (edge.source, edge.target))
	on_tree[edge.own] = true;
  for (const Weighed &edge : edges)
    {
      bool is_on_tree = on_tree.count (edge.own);
      if (is_replaced (edge.own) || (!is_on_tree && (edge.own->flags & EDGE_FAKE)))
	ignored.push_back (edge.own);
      else
	flags[edge.own] = (is_on_tree ? 0 : is_counted) | (edge.own->flags & EDGE_FAKE ? is_fake : 0);
    }
}

void
add_word (std::string &bytes, uint32_t word)
{
  for (int byte = 0; byte < 4; ++byte, word >>= 8)
    bytes += char (word & 0xff);
}

// The only block from which the current function returns; null if there are several.
basic_block
only_return ()
{
  basic_block found = NULL;
  edge own;
  edge_iterator at;
  FOR_EACH_EDGE (own, at, EXIT_BLOCK_PTR_FOR_FN (cfun)->preds)
    if (!(own->flags & EDGE_FAKE))
      {
	if (found)
	  return NULL;
	found = own->src;
      }
  return found;
}

// Appends the numbers of a block's statements as ranges: first number and length.
void
add_statements (std::string &bytes, basic_block block, StatementAt statement_at)
{
  std::vector<unsigned> numbers;
  if (block->index >= NUM_FIXED_BLOCKS)
    for (gimple_stmt_iterator at = gsi_start_bb (block); !gsi_end_p (at); gsi_next (&at))
      if (unsigned number = is_gimple_debug (gsi_stmt (at)) ? 0 : statement_at (gimple_location (gsi_stmt (at))))
	numbers.push_back (number);
  // The code at the end of a function belongs to its return block. With several return blocks, it does not belong to any one of them.
  if (block == only_return ())
    if (unsigned number = statement_at (cfun->function_end_locus))
      numbers.push_back (number);
  std::sort (numbers.begin (), numbers.end ());
  std::vector<std::pair<unsigned, unsigned>> ranges;
  for (unsigned number : numbers)
    if (!ranges.empty () && ranges.back ().first + ranges.back ().second == number)
      ++ranges.back ().second;
    else
      ranges.push_back ({ number, 1 });
  add_number (bytes, ranges.size ());
  for (const auto &range : ranges)
    {
      add_number (bytes, range.first);
      add_number (bytes, range.second);
    }
}

} // namespace

void
add_number (std::string &bytes, uint64_t number)
{
  for (; number >= 0x80; number >>= 7)
    bytes += char ((number & 0x7f) | 0x80);
  bytes += char (number);
}

void
add_graph (std::string &bytes, cgraph_node *node, StatementAt statement_at)
{
  push_cfun (DECL_STRUCT_FUNCTION (node->decl));
  if (execute_fixup_cfg () & TODO_cleanup_cfg)
    cleanup_tree_cfg ();
  flow_call_edges_add (NULL);
  add_noreturn_fake_exit_edges ();
  basic_block block;
  FOR_EACH_BB_FN (block, cfun)
    replace_abnormal_edges (block);
  std::map<edge, unsigned> flags;
  std::vector<edge> ignored;
  choose_counted (flags, ignored);
  compact_blocks ();
  add_word (bytes, coverage_compute_lineno_checksum ());
  add_word (bytes, coverage_compute_cfg_checksum (cfun));
  add_number (bytes, n_basic_blocks_for_fn (cfun));
  FOR_BB_BETWEEN (block, ENTRY_BLOCK_PTR_FOR_FN (cfun), EXIT_BLOCK_PTR_FOR_FN (cfun), next_bb)
    {
      add_number (bytes, block->index);
      add_statements (bytes, block, statement_at);
      std::string edges;
      unsigned number = 0;
      edge own;
      edge_iterator at;
      FOR_EACH_EDGE (own, at, block->succs)
	{
	  auto found = flags.find (own);
	  if (found == flags.end ())
	    continue;
	  ++number;
	  add_number (edges, uint64_t (own->dest->index) << 2 | found->second);
	}
      add_number (bytes, number);
      bytes += edges;
    }
  pop_cfun ();
}

} // namespace sediment
