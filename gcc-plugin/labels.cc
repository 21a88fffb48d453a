// SPDX-License-Identifier: GPL-3.0-or-later
#include "labels.h"
#include "output.h"

#include <cstdio>

namespace sediment {

// Turns a new note into a label that passes ignore: the kind of note that GCC uses for deleted labels of the source. The numbers begin at 2^30,
// because GCC numbers its own debug labels from 1.
static int
make_label (rtx_note *note)
{
  static int last = 1 << 30;
  NOTE_KIND (note) = NOTE_INSN_DELETED_DEBUG_LABEL;
  CODE_LABEL_NUMBER (note) = ++last;
  NOTE_DELETED_LABEL_NAME (note) = "";
  return last;
}

bool
has_code (rtx_insn *insn)
{
  return NONDEBUG_INSN_P (insn) && GET_CODE (PATTERN (insn)) != USE && GET_CODE (PATTERN (insn)) != CLOBBER;
}

int
label_before (rtx_insn *insn)
{
  return make_label (emit_note_before (NOTE_INSN_DELETED, insn));
}

int
label_after (rtx_insn *insn)
{
  return make_label (emit_note_after (NOTE_INSN_DELETED, insn));
}

std::string
label_name (int number)
{
  char text[64];
  ASM_GENERATE_INTERNAL_LABEL (text, "LDL", number);
  return text + (*text == '*');
}

void
begin_section (const char *name, tree function)
{
  tree group = HAVE_COMDAT_GROUP && function ? DECL_COMDAT_GROUP (function) : NULL_TREE;
  if (group)
    fprintf (asm_out_file, "\t.pushsection %s,\"G\",%%progbits,%s,comdat\n", name, IDENTIFIER_POINTER (group));
  else
    fprintf (asm_out_file, "\t.pushsection %s,\"\",%%progbits\n", name);
}

void
end_section ()
{
  fputs ("\t.popsection\n", asm_out_file);
}

} // namespace sediment
