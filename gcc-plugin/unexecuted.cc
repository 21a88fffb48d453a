// SPDX-License-Identifier: GPL-3.0-or-later
#include "gcc-headers.h"

#include "stringpool.h"
#include "attribs.h"

#include "collect.h"
#include "unexecuted.h"

#include <algorithm>

namespace sediment {

// A local function has its file in the list, unless its name is unique in the program.
static bool
is_listed (cgraph_node *node, const Counts &counts, bool &is_damaged)
{
  const Identity source = source_identity_of (node);
  std::vector<GraphCounts> graphs = counts.of (source.name, source.file, is_damaged);
  return std::any_of (graphs.begin (), graphs.end (), [] (const GraphCounts &graph) { return graph.is_unexecuted (); });
}

void
optimise_for_size (const Counts &counts, bool &is_damaged)
{
  if (!counts.lists_unexecuted ())
    return;
  cgraph_node *node;
  FOR_EACH_DEFINED_FUNCTION (node)
    {
      bool has_code = !node->alias && !node->thunk && !node->inlined_to;
      // Counters or the source say otherwise.
      bool is_hot = node->count.ipa ().nonzero_p () || lookup_attribute ("hot", DECL_ATTRIBUTES (node->decl));
      if (has_code && !is_hot && is_listed (node, counts, is_damaged))
	node->frequency = NODE_FREQUENCY_UNLIKELY_EXECUTED;
    }
}

} // namespace sediment
