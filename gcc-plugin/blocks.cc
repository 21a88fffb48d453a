// SPDX-License-Identifier: GPL-3.0-or-later
#include "gcc-headers.h"

#include "memmodel.h"
#include "rtl.h"
#include "emit-rtl.h"
#include "cfgrtl.h"
#include "predict.h"
#include "stringpool.h"
#include "attribs.h"
#include "except.h"

#include "block_map.h"
#include "blocks.h"
#include "collect.h"
#include "flow.h"
#include "match.h"

#include <algorithm>

namespace sediment {

namespace {

// Mask for hashes of graphs. Hashes in clang's maps also have the next higher bit.
const uint32_t hash_bits = (1u << 30) - 1;
// Largest number of old graphs of a function that are tried in matching.
const size_t most_matched = 4;

// The function's blocks in GCC's order; blocks are numbered in this order, from 1.
std::vector<basic_block>
blocks_of (function *own)
{
  std::vector<basic_block> blocks;
  basic_block block;
  FOR_EACH_BB_FN (block, own)
    blocks.push_back (block);
  return blocks;
}

// Kind of a block's last instruction. It does not depend on debug information.
enum class End { fall, jump, branch, table, call, back };

End
end_of (basic_block block)
{
  rtx_insn *last = BB_END (block);
  while (last != BB_HEAD (block) && (NOTE_P (last) || DEBUG_INSN_P (last)))
    last = PREV_INSN (last);
  if (CALL_P (last))
    return End::call;
  if (!JUMP_P (last))
    return End::fall;
  return returnjump_p (last) ? End::back : any_condjump_p (last) ? End::branch : any_uncondjump_p (last) ? End::jump : End::table;
}

// Hash of the control-flow graph: FNV-1a over blocks, edges and kinds of last instructions, folded to 30 bits.
uint32_t
hash_of (function *own, const std::vector<basic_block> &blocks)
{
  std::map<int, uint32_t> number_of;
  for (basic_block block : blocks)
    number_of[block->index] = number_of.size () + 1;
  uint64_t sum = 0xcbf29ce484222325u;
  auto add = [&sum] (uint64_t value)
  {
    for (int byte = 0; byte < 4; ++byte, value >>= 8)
      sum = (sum ^ (value & 0xff)) * 0x100000001b3u;
  };
  const int flags = EDGE_FALLTHRU | EDGE_ABNORMAL | EDGE_EH;
  auto add_edges = [&] (basic_block block)
  {
    edge successor;
    edge_iterator at;
    add (EDGE_COUNT (block->succs));
    FOR_EACH_EDGE (successor, at, block->succs)
      {
	auto found = number_of.find (successor->dest->index);
	add (found == number_of.end () ? 0 : found->second);
	add (successor->flags & flags);
      }
  };
  add (blocks.size ());
  add_edges (ENTRY_BLOCK_PTR_FOR_FN (own));
  for (basic_block block : blocks)
    {
      add (uint64_t (end_of (block)));
      add_edges (block);
    }
  return (sum ^ sum >> 30 ^ sum >> 60) & hash_bits;
}

// FNV-1a hash, reduced to a given number of values.
class Folded
{
public:
  void add (uint64_t value) { sum_ = (sum_ ^ value) * 0x100000001b3u; }
  void add (const char *text, size_t length)
  {
    for (size_t at = 0; at < length; ++at)
      add (static_cast<unsigned char> (text[at]));
    add (uint64_t (0));
  }
  unsigned in (unsigned values) const { return (sum_ ^ sum_ >> 32) % values; }

private:
  uint64_t sum_ = 0xcbf29ce484222325u;
};

// Adds the name of a call's callee, without the suffix of clones. A call through a pointer adds an empty name.
void
add_callee (Folded &callees, rtx_insn *insn)
{
  rtx call = get_call_rtx_from (insn);
  rtx symbol = call ? XEXP (XEXP (call, 0), 0) : NULL_RTX;
  const char *name = symbol && GET_CODE (symbol) == SYMBOL_REF ? XSTR (symbol, 0) : "";
  name += *name == '*';
  callees.add (name, strcspn (name, "."));
}

// Line of an instruction, relative to the first line of its function or of the inlined function that it comes from.
unsigned
line_of (rtx_insn *insn)
{
  location_t location = INSN_LOCATION (insn);
  int first = LOCATION_LINE (cfun->function_start_locus);
  for (tree scope = LOCATION_BLOCK (location); scope && TREE_CODE (scope) == BLOCK; scope = BLOCK_SUPERCONTEXT (scope))
    {
      tree origin = BLOCK_ABSTRACT_ORIGIN (scope);
      if (inlined_function_outer_scope_p (scope) && origin && DECL_P (origin))
	{
	  first = DECL_SOURCE_LINE (origin);
	  break;
	}
    }
  return unsigned (LOCATION_LINE (location) - first) % Signature::lines;
}

Signature
signature_of (basic_block block)
{
  Folded callees, operations;
  bool calls = false, has_line = false;
  Signature signature { 0, 0, 0 };
  rtx_insn *insn;
  FOR_BB_INSNS (block, insn)
    {
      if (!NONDEBUG_INSN_P (insn))
	continue;
      if (!has_line && INSN_HAS_LOCATION (insn))
	{
	  signature.line = line_of (insn);
	  has_line = true;
	}
      if (CALL_P (insn))
	{
	  add_callee (callees, insn);
	  calls = true;
	}
      rtx set = single_set (insn);
      if (set && !REG_P (SET_SRC (set)) && !SUBREG_P (SET_SRC (set)))
	operations.add (GET_CODE (SET_SRC (set)));
    }
  signature.callees = calls ? 1 + callees.in (15) : 0;
  signature.operations = operations.in (64);
  return signature;
}

std::vector<Signature>
signatures_of (const std::vector<basic_block> &blocks)
{
  std::vector<Signature> signatures;
  for (basic_block block : blocks)
    signatures.push_back (signature_of (block));
  return signatures;
}

// GCC's guess of the probability of an edge, in units of 1 / `all_parts`. In a function with counters, GCC's probabilities come from the
// counters. The counters and the block counts come from the same work, so these probabilities are not an independent guess, and all edges of
// a block are treated as equally likely.
unsigned
guess_of (edge taken)
{
  if (profile_status_for_fn (cfun) == PROFILE_READ)
    return all_parts / EDGE_COUNT (taken->src->succs);
  return taken->probability.initialized_p () ? taken->probability.to_reg_br_prob_base () : all_parts;
}

// Number of instructions in a block that become machine code.
unsigned
instructions_of (basic_block block)
{
  unsigned count = 0;
  rtx_insn *insn;
  FOR_BB_INSNS (block, insn)
    count += NONDEBUG_INSN_P (insn) && GET_CODE (PATTERN (insn)) != USE && GET_CODE (PATTERN (insn)) != CLOBBER;
  return count;
}

// True if GCC knows without a profile that a block hardly ever runs. In a function with counters, a block that the training did not execute is
// rare unless use_guesses gave it a guessed count.
bool
is_rare (basic_block block)
{
  if (profile_status_for_fn (cfun) != PROFILE_READ)
    return block->count == profile_count::zero ();
  return !block->count.ipa ().nonzero_p () || block->count.reliable_p ();
}

// Converts blocks and counts to the input of infer_flow.
std::vector<Block>
with_counts (const GraphCounts &counts, const std::vector<basic_block> &blocks)
{
  std::map<int, unsigned> place_of;
  for (basic_block block : blocks)
    place_of[block->index] = place_of.size ();
  std::vector<Block> function;
  for (unsigned place = 0; place < blocks.size (); ++place)
    {
      auto counted = counts.blocks.find (place + 1);
      bool is_switch = EDGE_COUNT (blocks[place]->succs) > 2 && end_of (blocks[place]) == End::table;
      Block own { counted == counts.blocks.end () ? 0 : counted->second, true, false, is_switch, is_rare (blocks[place]),
		  instructions_of (blocks[place]), {}, {} };
      edge successor;
      edge_iterator at;
      FOR_EACH_EDGE (successor, at, blocks[place]->succs)
	{
	  auto found = place_of.find (successor->dest->index);
	  if (found != place_of.end ())
	    {
	      own.successors.push_back (found->second);
	      own.guesses.push_back (guess_of (successor));
	    }
	  else
	    own.leaves = true;
	}
      function.push_back (own);
    }
  for (uint32_t number : counts.unknown)
    if (number >= 1 && number <= function.size ())
      function[number - 1].known = false;
  return function;
}

// Sets the probabilities of a block's edges: `edges` are their executions, `all` is the number of executions of the block. The edge to the
// function's exit gets the rest.
void
set_probabilities (basic_block block, uint64_t all, const std::vector<uint64_t> &edges)
{
  if (EDGE_COUNT (block->succs) < 2)
    return;
  uint64_t left = all;
  for (uint64_t count : edges)
    left -= std::min (left, count);
  edge successor;
  edge_iterator at;
  size_t place = 0;
  FOR_EACH_EDGE (successor, at, block->succs)
    {
      bool leaves = successor->dest->index == EXIT_BLOCK || place == edges.size ();
      uint64_t count = std::min (all, leaves ? left : edges[place++]);
      successor->probability = profile_probability::probability_in_gcov_type (count, all).guessed ();
    }
  update_br_prob_note (block);
}

// Executions of the function: executions of its first block, minus executions of the edges that lead back to it.
uint64_t
entered (const std::vector<Block> &counted, const Flow &flow)
{
  uint64_t count = flow.blocks[0];
  for (size_t place = 0; place < counted.size (); ++place)
    for (size_t edge = 0; edge < counted[place].successors.size (); ++edge)
      if (!counted[place].successors[edge])
	count -= std::min (count, flow.edges[place][edge]);
  return count;
}

// Converts executions to a GCC count with the quality of GCC's own estimates (guessed_local). The factor prevents that GCC rounds the counts of
// rare blocks to zero when it scales them.
profile_count
guessed_count (uint64_t executions)
{
  const uint64_t parts = 256, most = uint64_t (1) << 52;
  return profile_count::from_gcov_type (std::max (std::min (executions, most), uint64_t (1)) * parts).guessed_local ();
}

// GCC optimises a block for speed if the block runs at least once in 1,000 executions of its function (--param hot-bb-frequency-fraction).
// A likely block gets at least twice this frequency.
const double slowest = 500;

// Sets probabilities, counts and cold blocks. Likely blocks get a count that makes GCC optimise them for speed. Other blocks with count zero
// get a small count. Blocks of unknown count, and blocks that have a count but no flow, keep GCC's own estimates. Counts that come from GCC's
// counters do not change: they come from the same work, and can be compared between functions.
void
set_flow (const std::vector<basic_block> &blocks, const std::vector<Block> &counted, const Flow &flow, const std::vector<bool> &cold)
{
  basic_block entry = ENTRY_BLOCK_PTR_FOR_FN (cfun);
  const bool by_counters = profile_status_for_fn (cfun) == PROFILE_READ;
  const profile_count before = entry->count;
  const std::vector<double> likely = likely_executions (counted, flow);
  if (!by_counters)
    entry->count = guessed_count (entered (counted, flow));
  for (size_t place = 0; place < blocks.size (); ++place)
    {
      profile_count &own = blocks[place]->count;
      if (flow.blocks[place])
	{
	  set_probabilities (blocks[place], flow.blocks[place], flow.edges[place]);
	  if (!by_counters)
	    own = guessed_count (flow.blocks[place]);
	}
      else if (cold[place])
	own = profile_count::zero ();
      else if (likely[place])
	own = guessed_count (std::max (likely[place] / likely_part, flow.blocks[0] / slowest));
      else if (counted[place].is_rare)
	own = profile_count::zero ();
      else if (counted[place].known && !counted[place].count)
	own = entry->count.apply_scale (1, all_parts);
      else if (!by_counters && before.nonzero_p ())
	own = own.apply_scale (entry->count, before);
    }
  if (!by_counters)
    update_max_bb_count ();
}

} // namespace

void
mark_blocks ()
{
  std::vector<basic_block> blocks = blocks_of (cfun);
  if (!blocks.empty ())
    begin_map (blocks, hash_of (cfun, blocks), signatures_of (blocks));
}

// True if bbpart may split a function. These are bbpart's own conditions, except the condition on COMDAT groups.
static bool
may_be_split (function *own)
{
  tree decl = own->decl;
  return optimize_function_for_speed_p (own) && !lookup_attribute ("section", DECL_ATTRIBUTES (decl))
	 && !lookup_attribute ("naked", DECL_ATTRIBUTES (decl)) && (HAVE_COMDAT_GROUP || !DECL_COMDAT_GROUP (decl));
}

// For walk_tree: finds the address of a label in an initialiser.
static tree
find_label (tree *at, int *, void *)
{
  return TREE_CODE (*at) == LABEL_DECL ? *at : NULL_TREE;
}

// For walk_tree: finds a difference of label addresses in an initialiser.
static tree
find_label_distance (tree *at, int *, void *)
{
  bool is_difference = TREE_CODE (*at) == MINUS_EXPR || TREE_CODE (*at) == POINTER_DIFF_EXPR;
  return is_difference && walk_tree_without_duplicates (at, find_label, NULL) ? *at : NULL_TREE;
}

// True if a static variable of the current function contains a difference of label addresses, such as the jump table of a
// position-independent interpreter.
static bool
has_label_distances ()
{
  if (!cfun->has_forced_label_in_static)
    return false;
  bool has_labels = false;
  varpool_node *variable;
  FOR_EACH_VARIABLE (variable)
    {
      tree value = DECL_CONTEXT (variable->decl) == current_function_decl ? variable->get_constructor () : NULL_TREE;
      if (!value || !walk_tree_without_duplicates (&value, find_label, NULL))
	continue;
      has_labels = true;
      if (walk_tree_without_duplicates (&value, find_label_distance, NULL))
	return true;
    }
  // GCC reports a label in a static variable, but no initialiser with one was found: assume a difference.
  return !has_labels;
}

// True if the current function contains differences of addresses in its code, which assemblers cannot compute across sections. On AArch64
// jump tables and landing pads of exceptions also contain such differences, and `asm goto` may use branches with a range of 32 KB.
static bool
has_distances ()
{
#ifdef GCC_AARCH64_H
  if (cfun->eh && cfun->eh->region_tree)
    return true;
  basic_block block;
  FOR_EACH_BB_FN (block, cfun)
    if (tablejump_p (BB_END (block), NULL, NULL) || (JUMP_P (BB_END (block)) && asm_noperands (PATTERN (BB_END (block))) >= 0))
      return true;
#endif
  return has_label_distances ();
}

// -freorder-blocks-and-partition as the command line sets it, if it was changed for the current function; else -1.
static int partition_of_others = -1;

static void
set_partition (int is_on)
{
  partition_of_others = flag_reorder_blocks_and_partition;
  flag_reorder_blocks_and_partition = is_on;
}

void
end_split ()
{
  if (partition_of_others >= 0)
    flag_reorder_blocks_and_partition = partition_of_others;
  partition_of_others = -1;
}

// Reason why the counts of the current function do not split off any of its blocks.
static Whole whole_by_counts = Whole::no;

// GCC enables bbpart by default on x86 only; the plugin also enables it on AArch64, where it was tested. bbpart skips functions in COMDAT
// groups, because some systems do not have groups. On systems with groups, the cold part is in a section of the same group, and a linker keeps
// or drops both parts together, so the plugin runs the pass on these functions itself.
// bbpart also splits functions by GCC's own counts. If such a function contains differences of addresses, the split could not be assembled, so
// it is prevented.
void
split (bool is_counted)
{
  Whole why = whole_by_counts;
  whole_by_counts = Whole::no;
  if (!may_be_split (cfun))
    why = Whole::kind;
  else if (has_distances ())
    {
      set_partition (0);
      why = Whole::distances;
    }
  else if (is_counted)
    {
#ifdef GCC_AARCH64_H
      if (!flag_reorder_blocks_and_partition && optimize >= 2 && !global_options_set.x_flag_reorder_blocks_and_partition)
	set_partition (1);
#endif
      if (!flag_reorder_blocks_and_partition)
	why = why == Whole::no ? Whole::option : why;
      else if (DECL_COMDAT_GROUP (cfun->decl))
	{
	  static opt_pass *bbpart = make_pass_partition_blocks (g);
	  bbpart->execute (cfun);
	}
    }
  if (is_counted)
    set_whole (why);
}

#ifdef GCC_AARCH64_H
// Calls `on_block` for each block that control enters from the function's other part.
template <typename OnBlock>
static void
for_each_entered_part (OnBlock on_block)
{
  basic_block block;
  FOR_EACH_BB_FN (block, cfun)
    {
      edge before;
      edge_iterator at;
      bool is_entered = false;
      FOR_EACH_EDGE (before, at, block->preds)
	is_entered = is_entered || (before->flags & (EDGE_CROSSING | EDGE_ABNORMAL)) == EDGE_CROSSING;
      if (is_entered)
	on_block (block);
    }
}
#endif

void
free_registers_of_veneers ()
{
#ifdef GCC_AARCH64_H
  for_each_entered_part ([] (basic_block block) {
    for (unsigned number : { R16_REGNUM, R17_REGNUM })
      emit_insn_after (gen_rtx_CLOBBER (VOIDmode, gen_rtx_REG (DImode, number)), bb_note (block));
  });
#endif
}

void
mark_targets_of_veneers ()
{
#ifdef GCC_AARCH64_H
  for_each_entered_part ([] (basic_block block) {
    if (LABEL_P (BB_HEAD (block)))
      LABEL_PRESERVE_P (BB_HEAD (block)) = 1;
  });
#endif
}

// Finds the blocks of the current function to split off. `may_be_cold` is false for blocks that the caller knows too little about.
template <typename May>
static std::vector<bool>
split_blocks (const std::vector<Block> &counted, const Flow &flow, May may_be_cold)
{
  std::vector<bool> cold = cold_blocks (counted, flow);
  auto has_cold = [&cold] { return std::find (cold.begin (), cold.end (), true) != cold.end (); };
  auto did_not_run = [] (const Block &block) { return block.known && !block.count; };
  bool all_ran = std::none_of (counted.begin (), counted.end (), did_not_run);
  std::vector<double> likely = likely_executions (counted, flow);
  bool has_likely = std::any_of (likely.begin (), likely.end (), [] (double executions) { return executions > 0; });
  whole_by_counts = all_ran ? Whole::no : has_cold () ? Whole::small_parts : has_likely ? Whole::likely : Whole::few_executions;
  bool stays_whole = has_distances ();
  for (size_t place = 0; place < counted.size (); ++place)
    cold[place] = cold[place] && !stays_whole && may_be_cold (place);
  keep_small_parts (counted, cold);
  if (has_cold ())
    whole_by_counts = Whole::no;
  return cold;
}

// A function is often called if it has at least `least_share` of the executions of all functions. With counters, it is often called if its
// executions are at least `least_share_of_largest` of the program's largest counter.
static const double least_share = 1e-5, least_share_of_largest = 1e-4;
// True if the current function is often called.
static bool often_called;

bool
is_often_called ()
{
  return often_called;
}

// Applies counts to the current function. If the counts were matched from another graph, only matched blocks can become cold.
static bool
compile_by (const GraphCounts &counts, const std::vector<basic_block> &blocks, bool is_of_same_graph, uint64_t executions)
{
  Flow flow;
  std::vector<Block> counted = with_counts (counts, blocks);
  // A function that was never executed is not changed: the linker places all of it.
  if (!infer_flow (counted, flow) || !flow.blocks[0])
    return false;
  std::vector<bool> cold = split_blocks (counted, flow, [&] (size_t place) { return is_of_same_graph || counted[place].known; });
  set_flow (blocks, counted, flow, cold);
  often_called = executions && entered (counted, flow) >= executions * least_share;
  return true;
}

// Reads the counts that GCC derived from the counters of the current function. Optimisations scale counts, so a zero can be the result of
// rounding; its count is treated as unknown. GCC gives such zeros the quality `adjusted`. With -fprofile-partial-training, zeros that GCC read
// from counters have the quality `guessed`.
static GraphCounts
counts_by_counters (const std::vector<basic_block> &blocks)
{
  GraphCounts counts {};
  for (size_t place = 0; place < blocks.size (); ++place)
    {
      profile_count count = blocks[place]->count.ipa ();
      if (count.nonzero_p ())
	counts.blocks[place + 1] = count.to_gcov_type ();
      else if (!count.initialized_p () || (count.reliable_p () && !count.precise_p ()))
	counts.unknown.push_back (place + 1);
    }
  return counts;
}

bool
apply_counters (uint64_t largest)
{
  // The training did not execute other functions.
  if (profile_status_for_fn (cfun) != PROFILE_READ || !ENTRY_BLOCK_PTR_FOR_FN (cfun)->count.ipa ().nonzero_p ())
    return false;
  std::vector<basic_block> blocks = blocks_of (cfun);
  std::vector<Block> counted = with_counts (counts_by_counters (blocks), blocks);
  Flow flow;
  if (blocks.empty () || !infer_flow (counted, flow) || !flow.blocks[0])
    return false;
  std::vector<bool> cold = split_blocks (counted, flow, [&] (size_t place) { return counted[place].known; });
  for (size_t place = 0; place < blocks.size (); ++place)
    if (cold[place])
      blocks[place]->count = profile_count::zero ();
  often_called = uint64_t (ENTRY_BLOCK_PTR_FOR_FN (cfun)->count.ipa ().to_gcov_type ()) >= largest * least_share_of_largest;
  return true;
}

// Counts of a function. Link-time optimisation numbers local functions of the same name in the order of its work, and this order may differ in
// another build. The result therefore contains the counts of all functions with that name; the caller chooses by the hash of the graph.
static std::vector<GraphCounts>
graphs_of (cgraph_node *node, const Counts &counts, bool &is_damaged)
{
  const Identity source = source_identity_of (node);
  std::vector<GraphCounts> graphs = counts.of (source.name, source.file, is_damaged);
  if (source.file.empty ())
    return graphs;
  if (graphs.empty ())
    // The line has no source file if the function's name is unique in the program.
    graphs = counts.of (source.name, "", is_damaged);
  if (graphs.empty ())
    graphs = counts.made_visible (source.name, is_damaged);
  return graphs;
}

bool
apply_counts (const Counts &counts, bool &is_damaged)
{
  cgraph_node *node = cgraph_node::get (current_function_decl);
  if (!node)
    return false;
  std::vector<GraphCounts> graphs = graphs_of (node, counts, is_damaged);
  auto is_unexecuted = [] (const GraphCounts &graph) { return graph.is_unexecuted (); };
  graphs.erase (std::remove_if (graphs.begin (), graphs.end (), is_unexecuted), graphs.end ());
  // Another build may number clones differently, so counts of any clone with an equal graph are also used.
  std::vector<GraphCounts> clones = counts.clones_beside (source_identity_of (node).name, is_damaged);
  if (graphs.empty () && clones.empty ())
    return false;
  std::vector<basic_block> blocks = blocks_of (cfun);
  uint32_t hash = hash_of (cfun, blocks);
  for (const std::vector<GraphCounts> *some : { &graphs, &clones })
    for (const GraphCounts &graph : *some)
      if (graph.hash == hash)
	return compile_by (graph, blocks, true, counts.executions ());
  std::vector<Signature> present = signatures_of (blocks);
  // The file lists graphs in descending order of their counts.
  graphs.resize (std::min (graphs.size (), most_matched));
  for (const GraphCounts &graph : graphs)
    {
      GraphCounts matched;
      if (match (graph, present, matched))
	return compile_by (matched, blocks, false, counts.executions ());
    }
  return false;
}

} // namespace sediment
