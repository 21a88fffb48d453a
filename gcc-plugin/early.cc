// SPDX-License-Identifier: GPL-3.0-or-later
// crates/sediment/src/binary/gcc_early_map.rs reads the map, and describes its format.
//
// Until the last pass, a number is a discriminator: GCC copies it together with the statement. In the map stands, for each final block, which
// statements its code is of. A statement that was copied stands in several.
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
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace sediment {

#if GCCPLUGIN_VERSION < 13000 || GCCPLUGIN_VERSION >= 16000

const char *
why_no_early_numbers ()
{
  return "GCC 13 to 15 keep numbers of statements, and this is another version";
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

// Bit of the discriminators that are numbers. block_map.cc uses the bit above.
const unsigned is_number = 1u << 29;

// GCC's own discriminators of the numbered statements; number 1 is the first.
std::vector<int> replaced;
// Identifies the unit in the map; 0: it has none.
uint64_t unit_key;

// Code of a final block, from its label to the next one's; `statements` ascend.
struct Piece
{
  int label;
  std::vector<unsigned> statements;
};

// Code without a gap: all of a function, or its hot or cold part.
struct Range
{
  std::vector<Piece> pieces;
  int end;
};

// The current function and its code.
tree current;
std::vector<Range> ranges;

unsigned
number_at (location_t location)
{
  unsigned discriminator = unsigned (get_discriminator_from_loc (location));
  unsigned number = discriminator & ~is_number;
  return (discriminator & is_number) && number <= replaced.size () ? number : 0;
}

// The functions of the unit that have a body.
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

// Calls `change` with the location of each statement, and with that of a function's end: that code has no statement of its own.
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
	      change (location);
	      gimple_set_location (gsi_stmt (at), location);
	    }
      change (own->function_end_locus);
    }
}

// Numbers a location, which belongs to a statement.
void
number (location_t &location)
{
  if (RESERVED_LOCATION_P (location) || replaced.size () + 1 >= is_number)
    return;
  replaced.push_back (get_discriminator_from_loc (location));
  location = location_with_discriminator (location, int (is_number | unsigned (replaced.size ())));
}

void
restore (location_t &location)
{
  if (unsigned number = number_at (location))
    location = location_with_discriminator (location, replaced[number - 1]);
}

// The unit and its graphs.
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

// Describes the graphs in a process of its own, as this changes functions. Empty if that fails.
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
      // An error of GCC's is none of this compilation.
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

// Writes bytes as the assembler's text.
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

// FNV-1a hash.
uint64_t
hash_of (const std::string &bytes)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : bytes)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash ? hash : 1;
}

// Adds the statement of an insn, and gives the insn GCC's own discriminator again.
void
take_number (rtx_insn *insn, std::vector<unsigned> &statements)
{
  if (rtx_sequence *sequence = dyn_cast<rtx_sequence *> (PATTERN (insn)))
    for (int at = 1; at < sequence->len (); ++at)
      take_number (sequence->insn (at), statements);
  if (unsigned number = number_at (INSN_LOCATION (insn)))
    {
      INSN_LOCATION (insn) = location_with_discriminator (INSN_LOCATION (insn), replaced[number - 1]);
      statements.push_back (number);
    }
}

void
end_range (std::vector<Piece> &pieces, rtx_insn *last)
{
  if (pieces.empty ())
    return;
  for (Piece &piece : pieces)
    {
      std::sort (piece.statements.begin (), piece.statements.end ());
      piece.statements.erase (std::unique (piece.statements.begin (), piece.statements.end ()), piece.statements.end ());
    }
  ranges.push_back ({ std::move (pieces), label_after (last) });
  pieces.clear ();
}

void
write (const Range &range)
{
  std::string at = label_name (range.pieces[0].label);
  fprintf (asm_out_file, "\t.%dbyte %s\n\t.uleb128 %lu\n", int (POINTER_SIZE_UNITS), at.c_str (), (unsigned long) range.pieces.size ());
  for (size_t place = 0; place < range.pieces.size (); ++place)
    {
      const std::vector<unsigned> &statements = range.pieces[place].statements;
      std::string next = label_name (place + 1 < range.pieces.size () ? range.pieces[place + 1].label : range.end);
      fprintf (asm_out_file, "\t.uleb128 %s-%s,%lu", next.c_str (), at.c_str (), (unsigned long) statements.size ());
      unsigned before = 0;
      for (unsigned statement : statements)
	{
	  fprintf (asm_out_file, ",%u", statement - before);
	  before = statement;
	}
      fputs ("\n", asm_out_file);
      at = next;
    }
}

} // namespace

const char *
why_no_early_numbers ()
{
  return in_lto_p || flag_lto ? "with -flto, functions lose the numbers of their statements" : !optimize ? "-O0 has no counters to give" : NULL;
}

bool
number_statements ()
{
  std::vector<cgraph_node *> functions = functions_of_unit ();
  if (why_no_early_numbers () || seen_error () || functions.empty () || !asm_out_file)
    return true;
  for_each_location (functions, number);
  std::string bytes = described_elsewhere (functions);
  if (bytes.empty ())
    {
      for_each_location (functions, restore);
      return false;
    }
  unit_key = hash_of (bytes);
  begin_section (section, NULL_TREE);
  fprintf (asm_out_file, "\t.byte 1,1\n\t.8byte %#" PRIx64 "\n\t.uleb128 %lu\n", unit_key, (unsigned long) bytes.size ());
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
	  std::vector<unsigned> none;
	  take_number (insn, pieces.empty () || !has_code (insn) ? none : pieces.back ().statements);
	}
      last = insn;
    }
  end_range (pieces, last);
}

void
end_early_map ()
{
  if (!unit_key || current != current_function_decl || ranges.empty () || seen_error ())
    return;
  begin_section (section, current);
  fprintf (asm_out_file, "\t.byte 1,2\n\t.8byte %#" PRIx64 "\n\t.uleb128 %lu\n", unit_key, (unsigned long) ranges.size ());
  for (const Range &range : ranges)
    write (range);
  end_section ();
  ranges.clear ();
}

#endif

} // namespace sediment
