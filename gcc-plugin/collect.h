// SPDX-License-Identifier: GPL-3.0-or-later
// From GCC's own call graph to ours. The only file that knows cgraph.
#ifndef SEDIMENT_COLLECT_H
#define SEDIMENT_COLLECT_H

#include "graph.h"

namespace sediment {

// How a function is told from others, now and in profiles.
Identity identity_of (cgraph_node *node);

// The functions and calls that GCC knows of at this moment: of a unit, or at link time of the whole program.
Graph collect ();

} // namespace sediment

#endif
