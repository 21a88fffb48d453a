// SPDX-License-Identifier: GPL-3.0-or-later
// crates/sediment-core/src/binary/gcc_block_map.rs reads the map, and describes its format.
//
// Until the last pass, a mark is a discriminator whose value is an index into `marks`, because GCC copies discriminators together with the
// code. The section's name begins with `.debug`, so binutils, LLVM and gold treat it as debug information. It does not begin with `.debug_`,
// because dwz rejects unknown names with that prefix.

#include "labels.h"
#include "output.h"

#include "block_map.h"

#include <cinttypes>
#include <cstdio>
#include <string>
#include <unordered_map>

namespace sediment {

namespace {

// A label in the code, and the number of the block whose code follows it; 0 if unknown.
struct Start
{
  int label;
  unsigned block;
};

// A contiguous range of code: a whole function, or its hot or cold part.
struct Range
{
  std::vector<Start> starts;
  int end;
};

// Number of a block, and the location that the mark replaced.
struct Mark
{
  unsigned block;
  location_t replaced;
};

// The map of the current function.
struct Map
{
  tree function = NULL_TREE;
  uint32_t graph = 0;
  Whole whole = Whole::no;
  std::vector<Signature> signatures;
  std::vector<Mark> marks;
  // Block numbers of instructions without a location, by the instruction's UID.
  std::unordered_map<int, unsigned> unlocated;
  std::vector<Range> ranges;
};

Map map;

// This bit is set in a discriminator that is a mark; the lower bits are the mark's index.
const unsigned is_mark = 1u << 30;

const Mark *
mark_of (unsigned discriminator)
{
  unsigned index = discriminator & ~is_mark;
  return (discriminator & is_mark) && index < map.marks.size () ? &map.marks[index] : NULL;
}

#if GCCPLUGIN_VERSION < 13000

// In GCC 12, discriminators belong to basic blocks.

void
mark (basic_block block, unsigned number)
{
  map.marks.push_back ({ number, location_t (block->discriminator) });
  block->discriminator = is_mark | unsigned (map.marks.size () - 1);
}

// Removes the mark of a block. Returns the number in the mark; 0: no mark.
unsigned
unmark (basic_block block)
{
  const Mark *mark = mark_of (block->discriminator);
  if (!mark)
    return 0;
  block->discriminator = int (mark->replaced);
  return mark->block;
}

unsigned
unmark (rtx_insn *)
{
  return 0;
}

#else

// Since GCC 13, discriminators belong to locations.

void
mark (basic_block block, unsigned number)
{
  std::unordered_map<location_t, location_t> marked;
  rtx_insn *insn;
  FOR_BB_INSNS (block, insn)
    {
      if (!NONDEBUG_INSN_P (insn))
	continue;
      location_t location = INSN_LOCATION (insn);
      if (!INSN_HAS_LOCATION (insn))
	{
	  map.unlocated[INSN_UID (insn)] = number;
	  continue;
	}
      location_t &other = marked[location];
      if (!other)
	{
	  other = location_with_discriminator (location, int (is_mark | unsigned (map.marks.size ())));
	  map.marks.push_back ({ number, location });
	}
      INSN_LOCATION (insn) = other;
    }
}

unsigned
unmark (basic_block)
{
  return 0;
}

// Removes the mark of an instruction. Returns the number of its block; 0: no mark.
unsigned
unmark (rtx_insn *insn)
{
  if (rtx_sequence *sequence = dyn_cast<rtx_sequence *> (PATTERN (insn)))
    for (int at = 1; at < sequence->len (); ++at)
      unmark (sequence->insn (at));
  if (const Mark *mark = mark_of (get_discriminator_from_loc (INSN_LOCATION (insn))))
    {
      INSN_LOCATION (insn) = mark->replaced;
      return mark->block;
    }
  auto found = map.unlocated.find (INSN_UID (insn));
  return found == map.unlocated.end () ? 0 : found->second;
}

#endif

// An instruction that becomes machine code, and the number of its block.
struct Numbered
{
  rtx_insn *insn;
  unsigned block;
};

// Gives a number to instructions that later passes added, from `begin` to the end of GCC's final basic block: the number of the instruction
// before, or for the first instructions the number of the next numbered one.
void
add_unnumbered (std::vector<Numbered> &code, size_t begin)
{
  unsigned known = 0;
  for (size_t at = begin; at < code.size () && !known; ++at)
    known = code[at].block;
  for (size_t at = begin; at < code.size (); ++at)
    known = code[at].block = code[at].block ? code[at].block : known;
}

// Adds the labels of a range of code. `last`: the last insn of the range.
void
add_range (const std::vector<Numbered> &code, rtx_insn *last)
{
  Range range;
  for (const Numbered &insn : code)
    if (range.starts.empty () || range.starts.back ().block != insn.block)
      range.starts.push_back ({ label_before (insn.insn), insn.block });
  if (range.starts.empty ())
    return;
  range.end = label_after (last);
  map.ranges.push_back (range);
}

void
write (const Range &range)
{
  std::string at = label_name (range.starts[0].label);
  fprintf (asm_out_file, "\t.%dbyte %s\n\t.uleb128 %lu\n", int (POINTER_SIZE_UNITS), at.c_str (), (unsigned long) range.starts.size ());
  for (size_t place = 0; place < range.starts.size (); ++place)
    {
      std::string next = label_name (place + 1 < range.starts.size () ? range.starts[place + 1].label : range.end);
      fprintf (asm_out_file, "\t.uleb128 %u\n\t.uleb128 %s-%s\n", range.starts[place].block, next.c_str (), at.c_str ());
      at = next;
    }
}

} // namespace

void
begin_map (const std::vector<basic_block> &blocks, uint32_t graph, const std::vector<Signature> &signatures)
{
  map = Map ();
  map.function = current_function_decl;
  map.graph = graph;
  map.signatures = signatures;
  unsigned number = 0;
  for (basic_block block : blocks)
    mark (block, ++number);
}

void
set_whole (Whole why)
{
  if (map.function == current_function_decl)
    map.whole = why;
}

void
place_labels ()
{
  if (map.function != current_function_decl)
    return;
  std::vector<Numbered> code;
  // Index of the first instruction of GCC's current block, and the number in the mark of that block.
  size_t begin = 0;
  unsigned block = 0;
  rtx_insn *insn, *last = NULL;
  for (insn = get_insns (); insn; insn = NEXT_INSN (insn))
    {
      if (NOTE_P (insn) && NOTE_KIND (insn) == NOTE_INSN_BASIC_BLOCK)
	{
	  add_unnumbered (code, begin);
	  begin = code.size ();
	  block = unmark (NOTE_BASIC_BLOCK (insn));
	}
      else if (NOTE_P (insn) && NOTE_KIND (insn) == NOTE_INSN_SWITCH_TEXT_SECTIONS)
	{
	  add_unnumbered (code, begin);
	  add_range (code, last);
	  code.clear ();
	  begin = 0;
	}
      else if (NONDEBUG_INSN_P (insn))
	{
	  unsigned own = unmark (insn);
	  if (has_code (insn))
	    code.push_back ({ insn, own ? own : block });
	}
      last = insn;
    }
  add_unnumbered (code, begin);
  add_range (code, last);
}

void
end_map ()
{
  if (map.function != current_function_decl || map.ranges.empty () || seen_error ())
    {
      map = Map ();
      return;
    }
  begin_section (".debug.sediment_blocks", map.function);
  fprintf (asm_out_file, "\t.byte %d\n\t.4byte %#" PRIx32 "\n", map.whole == Whole::no ? 1 : 2, map.graph);
  if (map.whole != Whole::no)
    fprintf (asm_out_file, "\t.byte %d\n", int (map.whole));
  fprintf (asm_out_file, "\t.uleb128 %lu\n", (unsigned long) map.signatures.size ());
  for (const Signature &signature : map.signatures)
    fprintf (asm_out_file, "\t.2byte %#" PRIx32 "\n", signature.packed ());
  fprintf (asm_out_file, "\t.uleb128 %lu\n", (unsigned long) map.ranges.size ());
  for (const Range &range : map.ranges)
    write (range);
  end_section ();
  map = Map ();
}

} // namespace sediment
