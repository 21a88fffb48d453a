// SPDX-License-Identifier: GPL-3.0-or-later
// Gives GCC the counters of its own instrumentation from a profile, in place of the .gcda of a training build (-fprofile-use).
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

// Counts of the arcs of one variant of a function. A variant has the unit and the control-flow graph that were trained.
struct Variant
{
  // Base name of the unit's source file, escaped, `@`, and a checksum of its functions; without the mark of early ids.
  std::string unit;
  bool is_early;
  uint32_t graph;
  // Counts by GCC's number for their kind (0: executions of arcs). Each count comes with the number of equal counts in a row.
  std::map<unsigned, std::vector<std::pair<uint64_t, uint32_t>>> runs;
  // The most frequent values of statements, as in GCC's files: executions, number of values, values and their counts.
  std::vector<uint64_t> tops;
};

// A file of counters, written by `sediment export --format counters`.
class Counters
{
public:
  // Reads the file. Returns false on an error, which `why` contains.
  bool open (const std::string &path, std::string &why);
  // Variants of a function that are usable in this unit, the heaviest first. Damaged lines are skipped, and set `is_damaged`.
  std::vector<Variant> of (const std::string &name, const std::string &file, bool &is_damaged) const;
  // The largest count.
  uint32_t largest () const { return largest_; }
  // True if counters of this unit come from early ids and none from instrumentation. At a link, which joins code of many units: true if any counters
// come from early ids.
  bool is_early () const;

private:
  std::string text_;
  uint32_t largest_ = 0;
  // Base names of units with counters of instrumentation, and of early ids.
  std::unordered_set<std::string> instrumented_, early_;
  // Where the lines of each name and file begin and end.
  std::unordered_map<std::string, std::pair<size_t, size_t>> lines_;
};

// Checksum of the functions of the unit, as in profiles. Call it right before GCC's pass `profile`.
uint32_t unit_checksum ();

// Makes GCC look for its .gcda file in an empty folder, so that it reads no older one. Call it before GCC reads .gcda files.
void hide_data_files ();

// Writes the unit's counters as a .gcda file, and makes GCC read it. Call it before GCC's pass `profile`.
void give_counters (const Counters &counters);

// Prints a note if functions have changed so that their counters no longer fit. Call it after GCC's pass `profile`.
void report_unused_counters ();

} // namespace sediment

#endif
