// SPDX-License-Identifier: GPL-3.0-or-later
// Functions that no recording executed, if the file of counts lists them (`sediment export --cold-size`).
#ifndef SEDIMENT_UNEXECUTED_H
#define SEDIMENT_UNEXECUTED_H

#include "counts.h"

namespace sediment {

// Makes GCC optimise these functions for size. Call it after inlining was decided: what is inlined stays the same. Damaged lines set `is_damaged`.
void optimise_for_size (const Counts &counts, bool &is_damaged);

} // namespace sediment

#endif
