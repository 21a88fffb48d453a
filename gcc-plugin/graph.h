// SPDX-License-Identifier: GPL-3.0-or-later
// A call graph of named functions, and its text in the format of docs/profile-format.md. Does not use GCC's headers.
#ifndef SEDIMENT_GRAPH_H
#define SEDIMENT_GRAPH_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace sediment {

// A function's linkage name and, if it is local, the source file of its unit.
struct Identity
{
  std::string name;
  std::string file;

  bool operator< (const Identity &other) const
  {
    return name != other.name ? name < other.name : file < other.file;
  }
};

// The file has the same names. If an item has two values, the value that comes first here wins.
enum class Heat { hot, startup, exit, cold, unknown };
enum class Kind { direct, indirect, thunk };

struct Function
{
  Heat heat = Heat::unknown;
  // Name of the function whose alias this is; empty: not an alias.
  std::string alias;
  // Rank of first use, from 0; -1: unknown.
  int64_t first = -1;
  bool taken = false;
  bool entry = false;
};

struct Call
{
  // Calls per call of the caller.
  double frequency = 0;
  // Number of calls in GCC's profile; -1: no profile.
  int64_t count = -1;
  Kind kind = Kind::thunk;
};

class Graph
{
public:
  Function &function (const Identity &identity) { return functions_[identity]; }
  // Adds a call. Calls between the same two functions are summed.
  void call (const Identity &caller, const Identity &callee, const Call &call);
  bool empty () const { return functions_.empty (); }
  // Text in version 2 of the format, in canonical order. Names that the format does not allow are skipped, with their calls.
  std::string text (const std::string &source) const;
  // Number of functions and calls that `text` skips.
  size_t unacceptable () const;

private:
  std::map<Identity, Function> functions_;
  std::map<std::pair<Identity, Identity>, Call> calls_;
};

} // namespace sediment

#endif
