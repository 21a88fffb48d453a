// SPDX-License-Identifier: GPL-3.0-or-later
// Blocks of a function that were counted in another form of it, found again in the present one: no part of this knows GCC.
#ifndef SEDIMENT_MATCH_H
#define SEDIMENT_MATCH_H

#include "counts.h"
#include "signature.h"

#include <vector>

namespace sediment {

// The counts of another graph of a function, by the numbers of the present one: blocks whose counterpart is not found are unknown.
// `present`: the signatures of its blocks in their order. False: too few blocks that ran are found again.
bool match (const GraphCounts &counted, const std::vector<Signature> &present, GraphCounts &counts);

} // namespace sediment

#endif
