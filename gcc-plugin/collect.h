// SPDX-License-Identifier: GPL-3.0-or-later
// Converts GCC's call graph (cgraph) to ours. collect.cc is the only file that uses cgraph.
#ifndef SEDIMENT_COLLECT_H
#define SEDIMENT_COLLECT_H

#include "graph.h"

namespace sediment {

// Name and file that identify a function, here and in profiles.
Identity identity_of (cgraph_node *node);

// The same in the source: of a local function that link-time optimisation made visible, the name without its suffix, and its unit's file.
Identity source_identity_of (cgraph_node *node);

// The functions and calls in GCC's current call graph: of a unit, or at link time of the whole program.
Graph collect ();

} // namespace sediment

#endif
