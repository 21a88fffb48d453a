// SPDX-License-Identifier: GPL-3.0-or-later
#include "match.h"

#include <algorithm>
#include <map>
#include <set>

namespace sediment {

namespace {

// Limit of compared pairs of blocks, about 0.1 s.
const size_t most_pairs = size_t (1) << 22;
// At least 1 / `least_found` of the executed blocks must have a match.
const size_t least_found = 2;
// Scores for equal properties of two blocks. Blocks with score 0 do not match.
const unsigned same_callees = 4, same_operations = 3, same_line = 2;
// Limit of line shifts between the two versions. If lines were added or removed before a block, its line is shifted.
const size_t most_shifts = 4;

struct OldBlock
{
  uint32_t number;
  Signature signature;
};

class Matcher
{
public:
  Matcher (const std::vector<OldBlock> &old, const std::vector<Signature> &present)
    : old_ (old), present_ (present), found_ (old.size (), none)
  {
    find_shifts ();
  }

  // Returns for each old block the index of its match, or `none`.
  const std::vector<size_t> &run ()
  {
    size_t begin = 0, old_end = old_.size (), end = present_.size ();
    for (; begin < old_end && begin < end && old_[begin].signature == present_[begin]; ++begin)
      found_[begin] = begin;
    for (; old_end > begin && end > begin && old_[old_end - 1].signature == present_[end - 1]; --old_end, --end)
      found_[old_end - 1] = end - 1;
    if ((old_end - begin) * (end - begin) <= most_pairs)
      align (begin, old_end, end);
    find_moved ();
    return found_;
  }

  static constexpr size_t none = size_t (-1);

private:
  // Finds the most frequent line shifts of blocks whose callees and operations are unique in both versions. All lines after an added line have
  // the same shift.
  void find_shifts ()
  {
    std::map<unsigned, std::pair<std::vector<size_t>, std::vector<size_t>>> by_code;
    for (size_t place = 0; place < old_.size (); ++place)
      by_code[old_[place].signature.packed () / Signature::lines].first.push_back (place);
    for (size_t place = 0; place < present_.size (); ++place)
      by_code[present_[place].packed () / Signature::lines].second.push_back (place);
    std::map<unsigned, size_t> votes;
    for (const auto &entry : by_code)
      if (entry.second.first.size () == 1 && entry.second.second.size () == 1)
	++votes[shift (old_[entry.second.first[0]].signature, present_[entry.second.second[0]])];
    std::vector<std::pair<size_t, unsigned>> most;
    for (const auto &vote : votes)
      if (vote.second > 1)
	most.push_back ({ vote.second, vote.first });
    std::sort (most.rbegin (), most.rend ());
    is_shift_[0] = true;
    for (size_t at = 0; at < most.size () && at < most_shifts; ++at)
      is_shift_[most[at].second] = true;
  }

  static unsigned shift (const Signature &old, const Signature &present)
  {
    return (present.line - old.line) % Signature::lines;
  }

  unsigned score (size_t old, size_t present) const
  {
    const Signature &one = old_[old].signature, &other = present_[present];
    if (one.callees != other.callees)
      return 0;
    return (one.callees ? same_callees : 0) + (one.operations == other.operations ? same_operations : 0)
	   + (is_shift_[shift (one, other)] ? same_line : 0);
  }

  // Finds the alignment with the largest sum of scores (Needleman-Wunsch), without a cost for gaps.
  void align (size_t begin, size_t old_end, size_t end)
  {
    size_t rows = old_end - begin, columns = end - begin;
    if (!rows || !columns)
      return;
    enum Step : char { both, skip_old, skip_present };
    std::vector<unsigned> below (columns + 1), here (columns + 1);
    std::vector<char> steps (rows * columns);
    for (size_t row = rows; row-- > 0; below.swap (here))
      for (size_t column = columns; column-- > 0;)
	{
	  unsigned own = score (begin + row, begin + column), matched = own ? own + below[column + 1] : 0;
	  unsigned best = std::max (matched, std::max (below[column], here[column + 1]));
	  here[column] = best;
	  steps[row * columns + column] = own && best == matched ? both : best == below[column] ? skip_old : skip_present;
	}
    for (size_t row = 0, column = 0; row < rows && column < columns;)
      {
	char step = steps[row * columns + column];
	if (step == both)
	  found_[begin + row] = begin + column;
	row += step != skip_present;
	column += step != skip_old;
      }
  }

  // Matches moved blocks. Two blocks without a match are matched if their signatures are equal, and each signature is unique among the
  // version's blocks without a match.
  void find_moved ()
  {
    std::vector<bool> is_taken (present_.size ());
    for (size_t place : found_)
      if (place != none)
	is_taken[place] = true;
    std::map<uint32_t, std::pair<std::vector<size_t>, std::vector<size_t>>> left;
    for (size_t place = 0; place < old_.size (); ++place)
      if (found_[place] == none)
	left[old_[place].signature.packed ()].first.push_back (place);
    for (size_t place = 0; place < present_.size (); ++place)
      if (!is_taken[place])
	left[present_[place].packed ()].second.push_back (place);
    for (const auto &entry : left)
      if (entry.second.first.size () == 1 && entry.second.second.size () == 1)
	found_[entry.second.first[0]] = entry.second.second[0];
  }

  const std::vector<OldBlock> &old_;
  const std::vector<Signature> &present_;
  std::vector<size_t> found_;
  bool is_shift_[Signature::lines] = {};
};

uint64_t
count_of (const GraphCounts &counted, uint32_t number)
{
  auto found = counted.blocks.find (number);
  return found == counted.blocks.end () ? 0 : found->second;
}

} // namespace

// The first blocks of both versions always match.
bool
match (const GraphCounts &counted, const std::vector<Signature> &present, GraphCounts &counts)
{
  if (present.empty ())
    return false;
  std::vector<OldBlock> old;
  for (const auto &entry : counted.signatures)
    if (entry.first > 1)
      old.push_back ({ entry.first, Signature::unpacked (entry.second) });
  std::vector<Signature> rest (present.begin () + 1, present.end ());
  Matcher matcher (old, rest);
  const std::vector<size_t> &found = matcher.run ();

  std::set<uint32_t> unknown (counted.unknown.begin (), counted.unknown.end ());
  size_t ran = 0, ran_and_found = 0;
  std::vector<bool> is_known (present.size ());
  is_known[0] = true;
  counts.blocks[1] = count_of (counted, 1);
  for (size_t place = 0; place < old.size (); ++place)
    {
      uint64_t count = count_of (counted, old[place].number);
      ran += count > 0;
      if (found[place] == Matcher::none)
	continue;
      ran_and_found += count > 0;
      size_t block = found[place] + 1;
      is_known[block] = !unknown.count (old[place].number);
      counts.blocks[block + 1] = count;
    }
  for (size_t block = 0; block < present.size (); ++block)
    if (!is_known[block])
      counts.unknown.push_back (block + 1);
  return ran_and_found * least_found >= ran;
}

} // namespace sediment
