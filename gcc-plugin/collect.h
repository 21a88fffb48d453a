// SPDX-License-Identifier: GPL-3.0-or-later
// Converts GCC's call graph (cgraph) to ours. collect.cc is the only file that uses cgraph.
#ifndef SEDIMENT_COLLECT_H
#define SEDIMENT_COLLECT_H

#include "graph.h"

namespace sediment {

// Name and file that identify a function, here and in profiles.
Identity identity_of (cgraph_node *node);

// Name and file that identify a function in the source. For a local function that link-time optimisation made visible, these are the name
// without its suffix, and the file of its unit.
Identity source_identity_of (cgraph_node *node);

// Functions and calls in GCC's current call graph, which covers a unit, or at link time the whole program.
Graph collect ();

} // namespace sediment

#endif
