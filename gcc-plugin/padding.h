// SPDX-License-Identifier: GPL-3.0-or-later
// Padding of functions with counts: before the function, so that it begins at a cache line, and before its loops and jump targets.
#ifndef SEDIMENT_PADDING_H
#define SEDIMENT_PADDING_H

namespace sediment {

// Chooses the padding of the current function. Call it only for a function with counts, before GCC's pass `alignments`. A function that is
// `often_called` begins at a cache line. Alignment options on the command line take precedence.
void choose_padding (bool often_called);
// Restores GCC's alignments. Call it after the function is compiled.
void end_padding ();

} // namespace sediment

#endif
