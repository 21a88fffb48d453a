// SPDX-License-Identifier: GPL-3.0-or-later
#include "graph.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

namespace sediment {

namespace {

const char *const heats[] = { "hot", "startup", "exit", "cold" };
const char *const kinds[] = { "direct", "indirect", "thunk" };
const size_t longest_name = 4096;
// Larger estimates are reduced to this.
const double largest_frequency = 1e12;

bool
is_utf8 (const std::string &text)
{
  for (size_t at = 0; at < text.size ();)
    {
      unsigned char first = text[at];
      size_t more = first < 0x80 ? 0 : (first & 0xe0) == 0xc0 ? 1 : (first & 0xf0) == 0xe0 ? 2
		    : (first & 0xf8) == 0xf0 ? 3 : 4;
      if (more == 4 || at + more >= text.size ())
	return false;
      for (size_t next = 1; next <= more; ++next)
	if ((text[at + next] & 0xc0) != 0x80)
	  return false;
      at += more + 1;
    }
  return true;
}

bool
acceptable (const std::string &name)
{
  auto is_bad = [] (unsigned char c) { return c < 0x20 || c == 0x7f || c == '"'; };
  return !name.empty () && name.size () <= longest_name && name.back () != '\\'
	 && std::none_of (name.begin (), name.end (), is_bad) && is_utf8 (name);
}

bool
acceptable (const Identity &identity)
{
  return acceptable (identity.name) && (identity.file.empty () || acceptable (identity.file));
}

std::string
number (int64_t value)
{
  char text[32];
  snprintf (text, sizeof text, "%" PRId64, value);
  return text;
}

// Formats with six decimal places and a point, in every locale.
std::string
decimal (double value)
{
  int64_t millionths = llround (std::min (value, largest_frequency) * 1e6);
  char text[48];
  snprintf (text, sizeof text, "%" PRId64 ".%06" PRId64, millionths / 1000000, millionths % 1000000);
  return text;
}

std::string
quoted (const std::string &text)
{
  return '"' + text + '"';
}

class Attributes
{
public:
  explicit Attributes (std::string &text) : text_ (text) {}
  void add (const char *name, const std::string &value)
  {
    text_ += begun_ ? ", " : " [";
    begun_ = true;
    text_ += name;
    text_ += '=';
    text_ += value;
  }
  void end () const
  {
    if (begun_)
      text_ += ']';
    text_ += ";\n";
  }

private:
  std::string &text_;
  bool begun_ = false;
};

std::string
doubled_backslashes (const std::string &text)
{
  std::string doubled;
  for (char c : text)
    doubled += c == '\\' ? "\\\\" : std::string (1, c);
  return doubled;
}

} // namespace

void
Graph::call (const Identity &caller, const Identity &callee, const Call &more)
{
  functions_[caller];
  functions_[callee];
  Call &sum = calls_[{ caller, callee }];
  sum.frequency += more.frequency;
  if (more.count >= 0)
    sum.count = std::max<int64_t> (sum.count, 0) + more.count;
  sum.kind = std::min (sum.kind, more.kind);
}

size_t
Graph::unacceptable () const
{
  size_t count = 0;
  for (const auto &entry : functions_)
    count += !acceptable (entry.first);
  for (const auto &entry : calls_)
    count += !acceptable (entry.first.first) || !acceptable (entry.first.second);
  return count;
}

std::string
Graph::text (const std::string &source) const
{
  std::map<std::string, unsigned> functions_of_name;
  for (const auto &entry : functions_)
    ++functions_of_name[entry.first.name];
  std::map<Identity, std::string> ids;
  std::map<std::string, const Identity *> by_id;
  for (const auto &entry : functions_)
    {
      const Identity &identity = entry.first;
      if (!acceptable (identity))
	continue;
      std::string id = identity.name;
      if (functions_of_name[identity.name] > 1 && !identity.file.empty ())
	id += "@:" + identity.file;
      std::string base = id;
      for (unsigned next = 2; by_id.count (id); ++next)
	id = base + '#' + number (next);
      ids[identity] = id;
      by_id[id] = &identity;
    }

  int64_t total = 0;
  std::vector<std::pair<std::pair<std::string, std::string>, const Call *>> calls;
  for (const auto &entry : calls_)
    {
      auto caller = ids.find (entry.first.first), callee = ids.find (entry.first.second);
      if (caller == ids.end () || callee == ids.end ())
	continue;
      calls.push_back ({ { caller->second, callee->second }, &entry.second });
      total += std::max<int64_t> (entry.second.count, 0);
    }
  std::sort (calls.begin (), calls.end (),
	     [] (const auto &one, const auto &other) { return one.first < other.first; });

  std::string text = "digraph Callgraph {\n  graph [sediment=2, source=" + quoted (source) + ", unit=calls, total="
		     + number (total) + "];\n  node [shape=ellipse];\n";
  for (const auto &entry : by_id)
    {
      const Identity &identity = *entry.second;
      const Function &function = functions_.at (identity);
      text += "  " + quoted (entry.first);
      Attributes attributes (text);
      if (entry.first != identity.name)
	{
	  attributes.add ("label", quoted (doubled_backslashes (identity.name)));
	  attributes.add ("name", quoted (identity.name));
	}
      if (!identity.file.empty ())
	attributes.add ("file", quoted (identity.file));
      if (function.first >= 0)
	attributes.add ("first", number (function.first));
      if (function.heat != Heat::unknown)
	attributes.add ("heat", heats[static_cast<int> (function.heat)]);
      if (acceptable (function.alias))
	attributes.add ("alias", quoted (function.alias));
      if (function.taken)
	attributes.add ("taken", "1");
      if (function.entry)
	attributes.add ("entry", "1");
      attributes.end ();
    }
  for (const auto &entry : calls)
    {
      const Call &call = *entry.second;
      text += "  " + quoted (entry.first.first) + " -> " + quoted (entry.first.second);
      Attributes attributes (text);
      // For viewers of the graph: the share of all calls, with six decimal places, rounded half up. sediment itself reads `count`.
      attributes.add ("label", total ? decimal (static_cast<double> (std::max<int64_t> (call.count, 0)) / total)
				     : "0.000000");
      if (call.count >= 0)
	attributes.add ("count", number (call.count));
      attributes.add ("static", decimal (call.frequency));
      attributes.add ("kind", kinds[static_cast<int> (call.kind)]);
      attributes.end ();
    }
  return text + "}\n";
}

} // namespace sediment
