// SPDX-License-Identifier: GPL-3.0-or-later
// Matches the counted blocks of an old version of a function to the blocks of its current version. Does not use GCC's headers.
#ifndef SEDIMENT_MATCH_H
#define SEDIMENT_MATCH_H

#include "counts.h"
#include "signature.h"

#include <vector>

namespace sediment {

// Converts the counts of the old graph (`counted`) to the block numbers of the current graph (`counts`). Blocks without a match get an
// unknown count. `present`: signatures of the current blocks, in order. Returns false if too few of the executed blocks have a match.
bool match (const GraphCounts &counted, const std::vector<Signature> &present, GraphCounts &counts);

} // namespace sediment

#endif
