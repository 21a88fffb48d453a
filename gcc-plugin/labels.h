// SPDX-License-Identifier: GPL-3.0-or-later
// Labels in the code of a function; the maps refer to them.
#ifndef SEDIMENT_LABELS_H
#define SEDIMENT_LABELS_H

#include "gcc-headers.h"

#include "memmodel.h"
#include "rtl.h"
#include "emit-rtl.h"

#include <string>

namespace sediment {

// True for an insn that becomes machine code.
bool has_code (rtx_insn *insn);

// Places a label before an insn, or after it. Returns its number.
int label_before (rtx_insn *insn);
int label_after (rtx_insn *insn);

// Name of a label in the assembler's input.
std::string label_name (int number);

// Switches the assembler to a section that is not loaded, and back. The section is in the COMDAT group of `function`, if it has one. A null
// `function` means a section for the whole unit.
void begin_section (const char *name, tree function);
void end_section ();

} // namespace sediment

#endif
