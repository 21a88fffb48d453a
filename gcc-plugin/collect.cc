// SPDX-License-Identifier: GPL-3.0-or-later
#include "gcc-headers.h"

#include "collect.h"

namespace sediment {

namespace {

// Virtual calls with more possible targets than this are skipped.
const unsigned most_targets = 16;

std::string
base_name (const char *path)
{
  const char *slash = strrchr (path, '/');
  return slash ? slash + 1 : path;
}

// Base name of the source file of a declaration's unit; also works at link time.
std::string
unit_of (tree decl)
{
  tree context = DECL_CONTEXT (decl);
  while (context && TREE_CODE (context) != TRANSLATION_UNIT_DECL)
    context = TYPE_P (context) ? TYPE_CONTEXT (context) : DECL_P (context) ? DECL_CONTEXT (context) : NULL_TREE;
  if (context && DECL_NAME (context))
    return base_name (IDENTIFIER_POINTER (DECL_NAME (context)));
  return in_lto_p || !main_input_filename ? std::string () : base_name (main_input_filename);
}

// True for an alias with an assembler-local name (.L). Thunks call such aliases; they do not get a symbol.
bool
is_label (cgraph_node *node)
{
  return node->alias && node->analyzed && startswith (node->asm_name (), "*.L");
}

cgraph_node *
called (cgraph_node *callee)
{
  return is_label (callee) ? callee->ultimate_alias_target () : callee;
}

Heat
heat_of (cgraph_node *node)
{
  if (node->only_called_at_startup || DECL_STATIC_CONSTRUCTOR (node->decl))
    return Heat::startup;
  if (node->only_called_at_exit || DECL_STATIC_DESTRUCTOR (node->decl))
    return Heat::exit;
  switch (node->frequency)
    {
    case NODE_FREQUENCY_UNLIKELY_EXECUTED:
      return Heat::cold;
    case NODE_FREQUENCY_HOT:
      return Heat::hot;
    default:
      return Heat::unknown;
    }
}

// True if code that GCC does not see may call the function.
bool
is_entry (cgraph_node *node)
{
  return node->definition
	 && (!strcmp (node->asm_name (), "main") || DECL_STATIC_CONSTRUCTOR (node->decl)
	     || DECL_STATIC_DESTRUCTOR (node->decl) || (in_lto_p && node->externally_visible));
}

void
describe (Graph &graph, cgraph_node *node)
{
  Function &function = graph.function (identity_of (node));
  function.heat = heat_of (node);
  function.taken |= node->address_taken;
  function.entry |= is_entry (node);
  if (node->tp_first_run > 0)
    function.first = node->tp_first_run - 1;
  if (node->alias && node->analyzed)
    function.alias = identity_of (node->ultimate_alias_target ()).name;
}

int64_t
counted (cgraph_edge *edge)
{
  profile_count count = edge->count.ipa ();
  bool known = count.initialized_p () && edge->count.quality () >= ADJUSTED;
  return known ? count.to_gcov_type () : -1;
}

void
add_direct (Graph &graph, const Identity &caller, cgraph_edge *edge, bool from_thunk)
{
  // An inlined call is not in the code. The calls in the inlined body are edges of the inlined copy.
  if (edge->inline_failed == CIF_OK)
    return;
  Kind kind = from_thunk ? Kind::thunk : edge->speculative ? Kind::indirect : Kind::direct;
  graph.call (caller, identity_of (called (edge->callee)),
	      { edge->sreal_frequency ().to_double (), counted (edge), kind });
}

bool
is_polymorphic (cgraph_edge *edge)
{
#if GCCPLUGIN_VERSION >= 16000
  return edge->indirect_info && edge->indirect_info->kind == CIIK_POLYMORPHIC;
#else
  return edge->indirect_info && edge->indirect_info->polymorphic;
#endif
}

// Adds a virtual call as one call of each possible target, all with equal probability. If other units may define more targets, these get one
// share together, which is not added.
void
add_indirect (Graph &graph, const Identity &caller, cgraph_edge *edge)
{
  if (!is_polymorphic (edge) || !flag_devirtualize)
    return;
  bool complete = false;
  vec<cgraph_node *> targets = possible_polymorphic_call_targets (edge, &complete);
  unsigned chances = targets.length () + !complete;
  if (targets.is_empty () || chances > most_targets)
    return;
  // GCC's profile does not have a count for each target.
  for (cgraph_node *target : targets)
    graph.call (caller, identity_of (target), { edge->sreal_frequency ().to_double () / chances, -1, Kind::indirect });
}

} // namespace

Identity
identity_of (cgraph_node *node)
{
  const char *name = node->asm_name ();
  // A leading star means that GCC adds no prefix to the name; it is not a part of the symbol.
  Identity identity { *name == '*' ? name + 1 : name, "" };
  if (!TREE_PUBLIC (node->decl))
    identity.file = unit_of (node->decl);
  return identity;
}

Identity
source_identity_of (cgraph_node *node)
{
  Identity identity = identity_of (node);
  size_t suffix = identity.name.find (".lto_priv.");
  if (suffix != std::string::npos)
    identity = { identity.name.substr (0, suffix), unit_of (node->decl) };
  return identity;
}

Graph
collect ()
{
  Graph graph;
  cgraph_node *node;
  FOR_EACH_FUNCTION (node)
    {
      if (!node->inlined_to && !is_label (node) && (node->definition || node->address_taken))
	describe (graph, node);
      cgraph_node *body = node->inlined_to ? node->inlined_to : node;
      // A body that exists only for inlining is not in the object file.
      if (!body->definition || DECL_EXTERNAL (body->decl) || node->alias)
	continue;
      Identity caller = identity_of (body);
      for (cgraph_edge *edge = node->callees; edge; edge = edge->next_callee)
	add_direct (graph, caller, edge, node->thunk);
      for (cgraph_edge *edge = node->indirect_calls; edge; edge = edge->next_callee)
	add_indirect (graph, caller, edge);
    }
  return graph;
}

} // namespace sediment
