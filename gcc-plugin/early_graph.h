// SPDX-License-Identifier: GPL-3.0-or-later
// Control-flow graphs as GCC's pass `profile` builds them before it instruments functions or reads their counters.
#ifndef SEDIMENT_EARLY_GRAPH_H
#define SEDIMENT_EARLY_GRAPH_H

#include "gcc-headers.h"

#include <cstdint>
#include <string>

namespace sediment {

// Number of the statement at a location, from 1; 0: the location does not belong to a numbered statement.
typedef unsigned (*StatementAt) (location_t);

// Adds an unsigned LEB128 number.
void add_number (std::string &bytes, uint64_t number);

// Appends the description of a function's graph: checksums, blocks, and the statements and edges of each block. Changes the function like the
// pass `profile`, so call it in a separate process. crates/sediment-core/src/binary/gcc_early_map.rs describes the format.
void add_graph (std::string &bytes, cgraph_node *node, StatementAt statement_at);

} // namespace sediment

#endif
