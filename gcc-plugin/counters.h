// SPDX-License-Identifier: GPL-3.0-or-later
// Gives GCC a profile's counters for -fprofile-use. They replace the .gcda files of an instrumented build.
#ifndef SEDIMENT_COUNTERS_H
#define SEDIMENT_COUNTERS_H

#include "gcc-headers.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sediment {

// Counters of one variant of a function: one unit that contains the function, and one control-flow graph of the function in it.
struct Variant
{
  // `NAME@CHECKSUM`: the escaped base name of the unit's source file, and a checksum of its functions. Does not contain the prefix of
  // early ids.
  std::string unit;
  bool is_early;
  uint32_t graph;
  // Counts by GCC's number of their kind (0: executions of arcs), run-length encoded: a count, and how often it repeats.
  std::map<unsigned, std::vector<std::pair<uint64_t, uint32_t>>> runs;
  // The most frequent values of statements, in the layout of .gcda files: executions, number of values, then pairs of value and count.
  std::vector<uint64_t> tops;
};

// A file of counters, written by `sediment export --format counters`.
class Counters
{
public:
  // Reads the file. Returns false on an error; `why` is then its text.
  bool open (const std::string &path, std::string &why);
  // Variants of a function that are usable in this unit, in descending order of weight. Damaged lines are skipped, and set `is_damaged`.
  std::vector<Variant> of (const std::string &name, const std::string &file, bool &is_damaged) const;
  // The largest count.
  uint32_t largest () const { return largest_; }
  // True if counters of this unit come from early ids, and none come from instrumentation. In a link-time compilation, which contains code of
  // many units: true if any counters come from early ids.
  bool is_early () const;

private:
  std::string text_;
  uint32_t largest_ = 0;
  // Base names of units with counters from instrumentation, and of units with counters from early ids.
  std::unordered_set<std::string> instrumented_, early_;
  // Offsets in `text_` of the begin and the end of the lines for each name and file.
  std::unordered_map<std::string, std::pair<size_t, size_t>> lines_;
};

// Checksum of the unit's function names, the same as in profiles. Call it directly before GCC's pass `profile`.
uint32_t unit_checksum ();

// Makes GCC search for the .gcda file in an empty folder, so that it does not read an old one. Call it before GCC reads .gcda files.
void hide_data_files ();

// Writes the unit's counters as a .gcda file, and makes GCC read it. Call it before GCC's pass `profile`.
void give_counters (const Counters &counters);

// Prints a note if GCC rejected the counters of functions that have changed. Call it after GCC's pass `profile`.
void report_unused_counters ();

} // namespace sediment

#endif
