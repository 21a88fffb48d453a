// SPDX-License-Identifier: GPL-3.0-or-later
// Padding of functions with counts: before the function, so that it begins at a cache line, and before its blocks.
#ifndef SEDIMENT_PADDING_H
#define SEDIMENT_PADDING_H

namespace sediment {

// Chooses the padding of the current function, which has counts. If it is `often_called`, it begins at a cache line. Call it before GCC's pass
// `alignments`. Options of the command line are not changed.
void choose_padding (bool often_called);
// Call it after the function is compiled.
void end_padding ();

} // namespace sediment

#endif
