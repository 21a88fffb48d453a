// SPDX-License-Identifier: GPL-3.0-or-later
// Reads the block counts that `sediment export --format blocks` writes. Does not use GCC's headers.
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
  // Executions by block number. The counts of the blocks in `unknown` are unknown. Blocks in neither list were not executed.
  std::map<uint32_t, uint64_t> blocks;
  std::vector<uint32_t> unknown;
  // Signatures by block number, also of blocks that were not executed.
  std::map<uint32_t, uint32_t> signatures;
  // No recording executed the function, according to a line without blocks.
  bool is_unexecuted () const { return !hash && blocks.empty () && unknown.empty (); }
};

// A file of counts: one line for each graph of a function, sorted by name. Reads only the parts of the file that a search needs.
class Counts
{
public:
  Counts () = default;
  Counts (const Counts &) = delete;
  Counts &operator= (const Counts &) = delete;
  ~Counts ();
  // Opens the file, and closes a file that was open. Returns false on an error; `why` is then its text.
  bool open (const std::string &path, std::string &why);
  // Counts of a function, one item for each graph. `file`: source file of a local function, else empty. Damaged lines are skipped, and
  // set `is_damaged`. Unreadable bytes and lines that are too long also set it.
  std::vector<GraphCounts> of (const std::string &name, const std::string &file, bool &is_damaged) const;
  // Sum of the executions of all functions; 0 if the file does not contain it.
  uint64_t executions () const;
  // True if the file also lists functions that no recording executed.
  bool lists_unexecuted () const;
  // Counts of all local functions with this name that link-time optimisation made visible and renamed, such as `name.lto_priv.0`.
  std::vector<GraphCounts> made_visible (const std::string &name, bool &is_damaged) const;
  // For the name of a clone, such as `name.constprop.0`: counts of all clones of the same kind and function, with any number. For other
  // names: empty.
  std::vector<GraphCounts> clones_beside (const std::string &name, bool &is_damaged) const;

private:
  // The blocks of the first line, which has no name; empty if the file has no such line.
  std::string totals () const;
  // Counts of the lines that begin with a key.
  std::vector<GraphCounts> with_key (const std::string &key, bool &is_damaged) const;
  // A piece of the file, read at its first use.
  const std::string &piece (size_t number, bool &is_damaged) const;
  // The file's bytes from `begin` up to `end`.
  std::string text (size_t begin, size_t end, bool &is_damaged) const;
  // Offset of the first byte of the line that contains the offset `at`, but not below `least`; size_t (-1) if the line is too long.
  size_t line_begin (size_t least, size_t at, bool &is_damaged) const;
  // Offset of the end of the line that contains the offset `at`, or the end of the file; size_t (-1) if the line is too long.
  size_t line_end (size_t at, bool &is_damaged) const;

  int file_ = -1;
  size_t length_ = 0;
  mutable std::unordered_map<size_t, std::string> pieces_;
};

} // namespace sediment

#endif
