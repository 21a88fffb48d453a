// SPDX-License-Identifier: GPL-3.0-or-later
// The counts of blocks that compilers are handed, as `sediment export --format blocks` writes them: no part of this knows GCC.
#ifndef SEDIMENT_COUNTS_H
#define SEDIMENT_COUNTS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sediment {

// What ran of one control-flow graph of a function.
struct GraphCounts
{
  uint32_t hash;
  // Executions by the number of a block; of those in `unknown` nothing can be known, all others were not seen.
  std::map<uint32_t, uint64_t> blocks;
  std::vector<uint32_t> unknown;
  // Signatures of blocks, executed or not, as far as they are known.
  std::map<uint32_t, uint32_t> signatures;
};

// A file of counts: a line for each graph of a function, in the order of their names.
class Counts
{
public:
  // Reads the file. False: `why` says what is wrong.
  bool open (const std::string &path, std::string &why);
  // What is known of a function; of a local one by the file of its unit. A line that cannot be read is none, and sets `is_damaged`.
  std::vector<GraphCounts> of (const std::string &name, const std::string &file, bool &is_damaged) const;

private:
  std::string text_;
  const char *begin_ = nullptr;
  const char *end_ = nullptr;
};

} // namespace sediment

#endif
