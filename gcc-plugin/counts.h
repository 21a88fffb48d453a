// SPDX-License-Identifier: GPL-3.0-or-later
// Reads block counts for the compiler, written by `sediment export --format blocks`. Independent of GCC.
#ifndef SEDIMENT_COUNTS_H
#define SEDIMENT_COUNTS_H

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace sediment {

// Block counts of one control-flow graph of a function.
struct GraphCounts
{
  uint32_t hash;
  // Executions by block number. Blocks in `unknown` could not be counted; blocks in neither were not executed.
  std::map<uint32_t, uint64_t> blocks;
  std::vector<uint32_t> unknown;
  // Known signatures of blocks, executed or not.
  std::map<uint32_t, uint32_t> signatures;
  // No recording executed the function, according to a line without blocks.
  bool is_unexecuted () const { return !hash && blocks.empty () && unknown.empty (); }
};

// A file of counts: a line for each graph of a function, sorted by name. Only the parts that a search needs are read.
class Counts
{
public:
  Counts () = default;
  Counts (const Counts &) = delete;
  Counts &operator= (const Counts &) = delete;
  ~Counts ();
  // Opens the file, in place of one opened before. Returns false on an error, which `why` contains.
  bool open (const std::string &path, std::string &why);
  // Counts of a function, one item for each graph. `file`: source file of a local function, else empty. Damaged lines are skipped, and
  // set `is_damaged`. Unreadable bytes and lines that are too long set it, too.
  std::vector<GraphCounts> of (const std::string &name, const std::string &file, bool &is_damaged) const;
  // Executions of all functions; 0 if the file does not tell.
  uint64_t executions () const;
  // True if the file also lists functions that no recording executed.
  bool lists_unexecuted () const;
  // Counts of all local functions of a name such as `name.lto_priv.0`, which link-time optimisation made visible.
  std::vector<GraphCounts> made_visible (const std::string &name, bool &is_damaged) const;
  // For the name of a clone, such as `name.constprop.0`: counts of all clones of the same kind and function, whatever their numbers. For other
// names: nothing.
  std::vector<GraphCounts> clones_beside (const std::string &name, bool &is_damaged) const;

private:
  // The blocks of the first line, which has no name; empty if the file has no such line.
  std::string totals () const;
  // Graphs of the lines that begin with a key.
  std::vector<GraphCounts> with_key (const std::string &key, bool &is_damaged) const;
  // A piece of the file, read when it is first asked for.
  const std::string &piece (size_t number, bool &is_damaged) const;
  // Bytes of the file between two offsets.
  std::string text (size_t begin, size_t end, bool &is_damaged) const;
  // Offset of the begin of the line at an offset, if it is not below `least`; size_t (-1) if the line is too long.
  size_t line_begin (size_t least, size_t at, bool &is_damaged) const;
  // Offset of the end of the line at an offset, or of the file; size_t (-1) if the line is too long.
  size_t line_end (size_t at, bool &is_damaged) const;

  int file_ = -1;
  size_t length_ = 0;
  mutable std::unordered_map<size_t, std::string> pieces_;
};

} // namespace sediment

#endif
