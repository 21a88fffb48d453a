// SPDX-License-Identifier: GPL-3.0-or-later
// Converts GCC's call graph (cgraph) to the graph of graph.h.
#ifndef SEDIMENT_COLLECT_H
#define SEDIMENT_COLLECT_H

#include "graph.h"

namespace sediment {

// Name and file that identify a function in the plugin and in profiles.
Identity identity_of (cgraph_node *node);

// Name and file that identify a function in the source. Link-time optimisation can make a local function visible to other partitions, and
// then adds a suffix to its name. The result is the name without the suffix, and the file of its unit.
Identity source_identity_of (cgraph_node *node);

// Functions and calls in GCC's current call graph. It covers one unit, or at link time the whole program.
Graph collect ();

} // namespace sediment

#endif
