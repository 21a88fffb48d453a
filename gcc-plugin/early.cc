// SPDX-License-Identifier: GPL-3.0-or-later
// crates/sediment-core/src/binary/gcc_early_map.rs reads the map, and describes its format.
//
// Until the last pass, a number is a discriminator, because GCC copies discriminators together with statements. For each final block, the map
// lists the statements that the block's code comes from. A statement is firm in a block if its call, jump or store is in that block. Other code
// is not firm: GCC can move it, even from blocks that never run to blocks that run. A copied statement is listed in several blocks.
//
// An inlined call does not have code. The scopes in debug information show the inlined call for each instruction. The first code of the inlined
// function represents the call.
#include "gcc-headers.h"

#include "early.h"
#include "collect.h"
#include "counters.h"
#include "early_graph.h"
#include "labels.h"

#include "output.h"
#include "ssa.h"
#include "gimple-iterator.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace sediment {

#if GCCPLUGIN_VERSION < 13000 || GCCPLUGIN_VERSION >= 17000

const char *
why_no_early_numbers ()
{
  return "only GCC 13 to 16 keep the numbers of statements";
}

bool
number_statements ()
{
  return true;
}

void
place_early_labels ()
{
}

void
end_early_map ()
{
}

#else

namespace {

const char section[] = ".debug.sediment_early";

// This bit is set in a discriminator that is a statement's number. block_map.cc uses the next higher bit.
const unsigned is_number = 1u << 29;

// A numbered statement.
struct Numbered
{
  // GCC's own discriminator.
  int discriminator;
  // A call that may be inlined. Its other instructions compute arguments, and GCC may move them.
  bool is_call;
  // A switch. Its comparisons and its jump can be in several blocks.
  bool is_switch;
  // Executed exactly once in each call of its function.
  bool begins_function;
};

// The numbered statements, by number minus 1.
std::vector<Numbered> numbered;
// Identifier of the unit in the map; 0: the unit does not have a map.
uint64_t unit_key;

// A statement of a final block. `is_switch`: the reader takes the statement's executions in a function from its most frequent block alone,
// and does not add its other blocks.
struct Statement
{
  unsigned number;
  bool is_firm, is_switch;
};

// Code of a final block, from its label to the next label. `statements` ascend.
struct Piece
{
  int label;
  std::vector<Statement> statements;
};

// A contiguous range of code: a whole function, or its hot or cold part.
struct Range
{
  std::vector<Piece> pieces;
  int end;
};

// First code of an inlined function: scope and number of the inlined call, number of the code's statement, and indices of its range and piece.
struct Inlined
{
  tree scope;
  unsigned call, number;
  bool is_firm;
  size_t range, piece;
};

// An inlined function, and the location of its call.
using Place = std::pair<tree, location_t>;

// Numbers of calls. The key is the calling function, the functions that were inlined into it before calls had numbers, and the called function.
// 0: several calls have the same key.
std::map<std::vector<Place>, unsigned> calls;

// The function of `ranges` and `inlined`.
tree current;
std::vector<Range> ranges;
std::vector<Inlined> inlined;

unsigned
number_at (location_t location)
{
  unsigned discriminator = unsigned (get_discriminator_from_loc (location));
  unsigned number = discriminator & ~is_number;
  return (discriminator & is_number) && number <= numbered.size () ? number : 0;
}

// The functions of the unit that have a control-flow graph.
std::vector<cgraph_node *>
functions_of_unit ()
{
  std::vector<cgraph_node *> functions;
  cgraph_node *node;
  FOR_EACH_DEFINED_FUNCTION (node)
    if (node->has_gimple_body_p () && DECL_STRUCT_FUNCTION (node->decl) && DECL_STRUCT_FUNCTION (node->decl)->cfg)
      functions.push_back (node);
  return functions;
}

// Calls `change` with the location of each statement, and the statement. The end of a function does not have a statement: `change` gets its
// location and null.
template <typename Change>
void
for_each_location (const std::vector<cgraph_node *> &functions, Change change)
{
  for (cgraph_node *node : functions)
    {
      function *own = DECL_STRUCT_FUNCTION (node->decl);
      basic_block block;
      FOR_EACH_BB_FN (block, own)
	for (gimple_stmt_iterator at = gsi_start_bb (block); !gsi_end_p (at); gsi_next (&at))
	  if (!is_gimple_debug (gsi_stmt (at)))
	    {
	      location_t location = gimple_location (gsi_stmt (at));
	      change (location, gsi_stmt (at));
	      gimple_set_location (gsi_stmt (at), location);
	    }
      change (own->function_end_locus, NULL);
    }
}

bool
may_be_inlined (gimple *statement)
{
  return statement && is_gimple_call (statement) && !gimple_call_internal_p (statement) && !gimple_call_builtin_p (statement);
}

// Numbers a statement's location.
void
number (location_t &location, gimple *statement)
{
  if (RESERVED_LOCATION_P (location) || numbered.size () + 1 >= is_number)
    return;
  bool is_switch = statement && gimple_code (statement) == GIMPLE_SWITCH;
  numbered.push_back ({ get_discriminator_from_loc (location), may_be_inlined (statement), is_switch, false });
  location = location_with_discriminator (location, int (is_number | unsigned (numbered.size ())));
}

void
restore (location_t &location, gimple *)
{
  if (unsigned number = number_at (location))
    location = location_with_discriminator (location, numbered[number - 1].discriminator);
}

// The original function of a clone or alias.
tree
origin_of (tree function)
{
  cgraph_node *node = cgraph_node::get (function);
  return DECL_ORIGIN (node ? node->ultimate_alias_target ()->decl : function);
}

// Scopes of the inlined functions around a location, the innermost first.
std::vector<tree>
scopes_around (location_t location)
{
  std::vector<tree> scopes;
  for (tree scope = LOCATION_BLOCK (location); scope && TREE_CODE (scope) == BLOCK; scope = BLOCK_SUPERCONTEXT (scope))
    if (inlined_function_outer_scope_p (scope))
      scopes.push_back (scope);
  return scopes;
}

Place
place_of (tree scope)
{
  return { block_ultimate_origin (scope), LOCATION_LOCUS (BLOCK_SOURCE_LOCATION (scope)) };
}

// Finds all direct calls that may be inlined.
void
find_calls (const std::vector<cgraph_node *> &functions)
{
  for (cgraph_node *node : functions)
    {
      basic_block block;
      FOR_EACH_BB_FN (block, DECL_STRUCT_FUNCTION (node->decl))
	for (gimple_stmt_iterator at = gsi_start_bb (block); !gsi_end_p (at); gsi_next (&at))
	  if (may_be_inlined (gsi_stmt (at)) && gimple_call_fndecl (gsi_stmt (at)))
	    {
	      location_t location = gimple_location (gsi_stmt (at));
	      std::vector<tree> scopes = scopes_around (location);
	      std::vector<Place> path = { { origin_of (node->decl), UNKNOWN_LOCATION } };
	      std::transform (scopes.rbegin (), scopes.rend (), std::back_inserter (path), place_of);
	      path.push_back ({ origin_of (gimple_call_fndecl (gsi_stmt (at))), LOCATION_LOCUS (location) });
	      auto added = calls.insert ({ path, number_at (location) });
	      if (!added.second)
		added.first->second = 0;
	    }
    }
}

// Finds the statements at the start of each function: the statements of the first block up to and including the first call. The statements
// after a call may not run, because the call may not return.
void
find_beginnings (const std::vector<cgraph_node *> &functions)
{
  for (cgraph_node *node : functions)
    {
      basic_block entry = ENTRY_BLOCK_PTR_FOR_FN (DECL_STRUCT_FUNCTION (node->decl));
      if (!single_succ_p (entry) || !single_pred_p (single_succ (entry)))
	continue;
      for (gimple_stmt_iterator at = gsi_start_bb (single_succ (entry)); !gsi_end_p (at); gsi_next (&at))
	{
	  if (unsigned number = is_gimple_debug (gsi_stmt (at)) ? 0 : number_at (gimple_location (gsi_stmt (at))))
	    numbered[number - 1].begins_function = true;
	  if (is_gimple_call (gsi_stmt (at)) && !gimple_call_internal_p (gsi_stmt (at)))
	    break;
	}
    }
}

// Describes the unit and the graphs of its functions.
std::string
description (const std::vector<cgraph_node *> &functions)
{
  std::string bytes = main_input_filename ? lbasename (main_input_filename) : "";
  bytes += '\0';
  add_number (bytes, unit_checksum ());
  add_number (bytes, functions.size ());
  for (cgraph_node *node : functions)
    {
      Identity identity = identity_of (node);
      bytes += identity.name + '\0';
      bytes += char (!identity.file.empty ());
      add_graph (bytes, node, number_at);
    }
  return bytes;
}

// Describes the graphs in a child process, because the description changes the functions. Empty if that fails.
std::string
described_elsewhere (const std::vector<cgraph_node *> &functions)
{
  int ends[2];
  if (pipe (ends) != 0)
    return "";
  pid_t process = fork ();
  if (process == 0)
    {
      close (ends[0]);
      // An error of GCC in the child must not appear as an error of the compilation.
      if (!freopen ("/dev/null", "w", stderr))
	_exit (1);
      std::string bytes = description (functions);
      for (size_t done = 0; done < bytes.size ();)
	{
	  ssize_t written = write (ends[1], bytes.data () + done, bytes.size () - done);
	  if (written < 0)
	    _exit (1);
	  done += written;
	}
      _exit (0);
    }
  close (ends[1]);
  std::string bytes;
  char part[1 << 16];
  for (ssize_t count; process > 0 && (count = read (ends[0], part, sizeof part)) > 0;)
    bytes.append (part, count);
  close (ends[0]);
  int status = 1;
  return process > 0 && waitpid (process, &status, 0) == process && status == 0 ? bytes : "";
}

// Writes bytes as .ascii directives.
void
write_bytes (const std::string &bytes)
{
  for (size_t at = 0; at < bytes.size (); at += 64)
    {
      fputs ("\t.ascii \"", asm_out_file);
      for (unsigned char c : bytes.substr (at, 64))
	fprintf (asm_out_file, "\\%03o", c);
      fputs ("\"\n", asm_out_file);
    }
}

// FNV-1a hash; never 0.
uint64_t
hash_of (const std::string &bytes)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : bytes)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash ? hash : 1;
}

// For note_stores: sets `is_store` at a store that is not to the stack. A store to the stack may be a spilled register.
void
note_store (rtx target, const_rtx setter, void *is_store)
{
  if (GET_CODE (setter) == SET && MEM_P (target) && !reg_mentioned_p (stack_pointer_rtx, target)
      && !(frame_pointer_needed && reg_mentioned_p (hard_frame_pointer_rtx, target)))
    *static_cast<bool *> (is_store) = true;
}

// True if passes do not move the insn to blocks that run although its statement does not.
bool
is_firm (rtx_insn *insn)
{
  bool is_store = false;
  note_stores (insn, note_store, &is_store);
  return is_store || CALL_P (insn) || JUMP_P (insn);
}

// If the insn's statement begins an inlined function, adds it as code of the inlined call.
void
note_inlined (location_t location, unsigned number, bool is_firm, size_t piece)
{
  if (!numbered[number - 1].begins_function)
    return;
  // Goes from the outermost scope inwards. A scope without a numbered call was inlined before calls had numbers; it is a part of its caller.
  std::vector<tree> scopes = scopes_around (location);
  std::vector<std::pair<tree, unsigned>> around;
  std::vector<Place> path = { { origin_of (current_function_decl), UNKNOWN_LOCATION } };
  for (size_t at = scopes.size (); at-- > 0;)
    {
      path.push_back (place_of (scopes[at]));
      auto call = calls.find (path);
      if (call == calls.end ())
	continue;
      around.push_back ({ scopes[at], call->second });
      path = { { path.back ().first, UNKNOWN_LOCATION } };
    }
  for (unsigned own = number; own && numbered[own - 1].begins_function && !around.empty (); around.pop_back ())
    {
      own = around.back ().second;
      if (own)
	inlined.push_back ({ around.back ().first, own, number, is_firm, ranges.size (), piece });
    }
}

// Adds the statement of an insn to the last piece, and restores GCC's own discriminator.
void
take_number (rtx_insn *insn, std::vector<Piece> &pieces)
{
  if (rtx_sequence *sequence = dyn_cast<rtx_sequence *> (PATTERN (insn)))
    for (int at = 1; at < sequence->len (); ++at)
      take_number (sequence->insn (at), pieces);
  location_t location = INSN_LOCATION (insn);
  unsigned number = number_at (location);
  if (!number)
    return;
  INSN_LOCATION (insn) = location_with_discriminator (location, numbered[number - 1].discriminator);
  if (pieces.empty () || !has_code (insn) || (numbered[number - 1].is_call && !CALL_P (insn)))
    return;
  pieces.back ().statements.push_back ({ number, is_firm (insn), numbered[number - 1].is_switch });
  note_inlined (location, number, is_firm (insn), pieces.size () - 1);
}

void
end_range (std::vector<Piece> &pieces, rtx_insn *last)
{
  if (pieces.empty ())
    return;
  ranges.push_back ({ std::move (pieces), label_after (last) });
  pieces.clear ();
}

// Adds each inlined call to the code of one statement at the start of the inlined function: a firm statement if there is one, else the last.
void
add_inlined ()
{
  std::map<tree, std::map<unsigned, bool>> of_scope;
  for (const Inlined &one : inlined)
    {
      auto added = of_scope[one.scope].insert ({ one.number, one.is_firm });
      added.first->second &= one.is_firm;
    }
  for (const Inlined &one : inlined)
    {
      std::pair<bool, unsigned> best;
      for (const auto &number : of_scope[one.scope])
	best = std::max (best, { number.second, number.first });
      if (best.second == one.number)
	ranges[one.range].pieces[one.piece].statements.push_back ({ one.call, one.is_firm, numbered[one.number - 1].is_switch });
    }
  inlined.clear ();
}

// Sorts the statements of each piece, and removes duplicates; a firm statement is kept.
void
sort_statements ()
{
  for (Range &range : ranges)
    for (Piece &piece : range.pieces)
      {
	std::sort (piece.statements.begin (), piece.statements.end (), [] (const Statement &one, const Statement &other) {
	  return std::make_tuple (one.number, !one.is_firm, one.is_switch) < std::make_tuple (other.number, !other.is_firm, other.is_switch);
	});
	auto is_same = [] (const Statement &one, const Statement &other) { return one.number == other.number; };
	piece.statements.erase (std::unique (piece.statements.begin (), piece.statements.end (), is_same), piece.statements.end ());
      }
}

void
write (const Range &range)
{
  std::string at = label_name (range.pieces[0].label);
  fprintf (asm_out_file, "\t.%dbyte %s\n\t.uleb128 %lu\n", int (POINTER_SIZE_UNITS), at.c_str (), (unsigned long) range.pieces.size ());
  for (size_t place = 0; place < range.pieces.size (); ++place)
    {
      const std::vector<Statement> &statements = range.pieces[place].statements;
      std::string next = label_name (place + 1 < range.pieces.size () ? range.pieces[place + 1].label : range.end);
      fprintf (asm_out_file, "\t.uleb128 %s-%s,%lu", next.c_str (), at.c_str (), (unsigned long) statements.size ());
      unsigned before = 0;
      for (const Statement &statement : statements)
	{
	  fprintf (asm_out_file, ",%u", (statement.number - before) << 2 | statement.is_switch << 1 | statement.is_firm);
	  before = statement.number;
	}
      fputs ("\n", asm_out_file);
      at = next;
    }
}

} // namespace

const char *
why_no_early_numbers ()
{
  return in_lto_p || flag_lto ? "-flto discards the numbers of statements"
	 : flag_sanitize      ? "sanitizers use the locations of statements, and the numbers are stored in these locations"
	 : !optimize	      ? "-O0 does not use counters"
			      : NULL;
}

bool
number_statements ()
{
  std::vector<cgraph_node *> functions = functions_of_unit ();
  if (why_no_early_numbers () || seen_error () || functions.empty () || !asm_out_file)
    return true;
  for_each_location (functions, number);
  find_calls (functions);
  find_beginnings (functions);
  std::string bytes = described_elsewhere (functions);
  if (bytes.empty ())
    {
      for_each_location (functions, restore);
      return false;
    }
  unit_key = hash_of (bytes);
  begin_section (section, NULL_TREE);
  fprintf (asm_out_file, "\t.byte 2,1\n\t.8byte %#" PRIx64 "\n\t.uleb128 %lu\n", unit_key, (unsigned long) bytes.size ());
  write_bytes (bytes);
  end_section ();
  return true;
}

void
place_early_labels ()
{
  if (!unit_key)
    return;
  current = current_function_decl;
  ranges.clear ();
  inlined.clear ();
  std::vector<Piece> pieces;
  bool is_new = true;
  rtx_insn *insn, *last = NULL;
  for (insn = get_insns (); insn; insn = NEXT_INSN (insn))
    {
      if (NOTE_P (insn) && NOTE_KIND (insn) == NOTE_INSN_BASIC_BLOCK)
	is_new = true;
      else if (NOTE_P (insn) && NOTE_KIND (insn) == NOTE_INSN_SWITCH_TEXT_SECTIONS)
	{
	  end_range (pieces, last);
	  is_new = true;
	}
      else if (NONDEBUG_INSN_P (insn))
	{
	  if (has_code (insn) && (is_new || pieces.empty ()))
	    {
	      pieces.push_back ({ label_before (insn), {} });
	      is_new = false;
	    }
	  take_number (insn, pieces);
	}
      last = insn;
    }
  end_range (pieces, last);
  add_inlined ();
  sort_statements ();
}

void
end_early_map ()
{
  if (!unit_key || current != current_function_decl || ranges.empty () || seen_error ())
    return;
  begin_section (section, current);
  fprintf (asm_out_file, "\t.byte 2,2\n\t.8byte %#" PRIx64 "\n\t.uleb128 %lu\n", unit_key, (unsigned long) ranges.size ());
  for (const Range &range : ranges)
    write (range);
  end_section ();
  ranges.clear ();
}

#endif

} // namespace sediment
