// SPDX-License-Identifier: GPL-3.0-or-later
// Control-flow graphs of functions as GCC's pass `profile` sees them. This pass instruments functions and reads their counters.
#ifndef SEDIMENT_EARLY_GRAPH_H
#define SEDIMENT_EARLY_GRAPH_H

#include "gcc-headers.h"

#include <cstdint>
#include <string>

namespace sediment {

// Number of the statement at a location, from 1; 0: it has none.
typedef unsigned (*StatementAt) (location_t);

// Adds an unsigned LEB128 number.
void add_number (std::string &bytes, uint64_t number);

// Describes the graph of a function: checksums, blocks, their statements and edges. Changes the function as the pass `profile` does, so call it
// in a process that compiles nothing. crates/sediment-core/src/binary/gcc_early_map.rs describes the bytes.
void add_graph (std::string &bytes, cgraph_node *node, StatementAt statement_at);

} // namespace sediment

#endif
