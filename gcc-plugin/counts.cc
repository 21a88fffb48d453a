// SPDX-License-Identifier: GPL-3.0-or-later
#include "counts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sediment {

namespace {

const char header[] = "sediment-blocks 2\n";
const size_t header_length = sizeof header - 1;
// GCC's suffix of local functions that became visible to other parts of a program; a number follows.
const char made_visible_suffix[] = ".lto_priv.";

// Reads a number at `rest`, and moves `rest` past it.
template <typename Number>
bool
number (const char *&rest, const char *end, int base, Number &value)
{
  const char *begin = rest;
  Number sum = 0;
  for (; rest < end; ++rest)
    {
      char c = *rest;
      unsigned digit = c >= '0' && c <= '9' ? c - '0' : base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
      if (digit >= unsigned (base))
	break;
      if (sum > (Number (-1) - digit) / base)
	return false;
      sum = sum * base + digit;
    }
  value = sum;
  return rest > begin;
}

// What follows a line's name and file.
const char *
after_identity (const char *line, const char *end)
{
  for (int field = 0; field < 2 && line < end; ++field)
    {
      const void *tab = memchr (line, '\t', end - line);
      line = tab ? static_cast<const char *> (tab) + 1 : end;
    }
  return line;
}

// `HASH\tBLOCK=COUNT BLOCK=? BLOCK=COUNT@SIGNATURE …`
bool
read_counts (const char *rest, const char *end, GraphCounts &counts)
{
  if (!number (rest, end, 16, counts.hash) || rest == end || *rest++ != '\t')
    return false;
  while (rest < end)
    {
      uint32_t block;
      uint64_t count;
      if (!number (rest, end, 10, block) || rest == end || *rest++ != '=')
	return false;
      if (rest < end && *rest == '?')
	{
	  ++rest;
	  counts.unknown.push_back (block);
	}
      else if (number (rest, end, 10, count))
	counts.blocks[block] = count;
      else
	return false;
      if (rest < end && *rest == '@' && !number (++rest, end, 16, counts.signatures[block]))
	return false;
      if (rest < end && *rest++ != ' ')
	return false;
    }
  return true;
}

} // namespace

// Reads the file instead of mapping it: truncating a mapped file would end the compiler by SIGBUS.
bool
Counts::open (const std::string &path, std::string &why)
{
  int file = ::open (path.c_str (), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat found;
  if (file < 0 || fstat (file, &found))
    {
      why = strerror (errno);
      if (file >= 0)
	close (file);
      return false;
    }
  if (S_ISREG (found.st_mode))
    text_.resize (found.st_size);
  size_t length = 0;
  ssize_t more = 1;
  while (length < text_.size () && more > 0)
    if ((more = read (file, &text_[length], text_.size () - length)) > 0)
      length += more;
  if (more < 0)
    why = strerror (errno);
  close (file);
  text_.resize (length);
  if (more >= 0 && text_.compare (0, header_length, header))
    why = "not a file of block counts, or an unsupported version";
  begin_ = text_.data () + std::min (length, header_length);
  end_ = text_.data () + length;
  return why.empty ();
}

std::vector<GraphCounts>
Counts::of (const std::string &name, const std::string &file, bool &is_damaged) const
{
  return with_key (name + '\t' + file + '\t', is_damaged);
}

std::vector<GraphCounts>
Counts::made_visible (const std::string &name, bool &is_damaged) const
{
  return with_key (name + made_visible_suffix, is_damaged);
}

std::vector<GraphCounts>
Counts::with_key (const std::string &key, bool &is_damaged) const
{
  auto line_end = [this] (const char *at)
  {
    const void *found = at < end_ ? memchr (at, '\n', end_ - at) : nullptr;
    return found ? static_cast<const char *> (found) : end_;
  };
  auto compare = [&] (const char *line, const char *end)
  {
    size_t length = end - line;
    int order = memcmp (line, key.data (), length < key.size () ? length : key.size ());
    return order || length >= key.size () ? order : -1;
  };
  // The first line that is not before the key.
  const char *low = begin_, *high = end_;
  while (low < high)
    {
      const char *middle = low + (high - low) / 2;
      while (middle > low && middle[-1] != '\n')
	--middle;
      const char *end = line_end (middle);
      if (compare (middle, end) < 0)
	low = end < end_ ? end + 1 : end_;
      else
	high = middle;
    }
  std::vector<GraphCounts> all;
  for (const char *line = low; line < end_;)
    {
      const char *end = line_end (line);
      if (compare (line, end) != 0)
	break;
      GraphCounts counts;
      if (read_counts (after_identity (line, end), end, counts))
	all.push_back (counts);
      else
	is_damaged = true;
      line = end < end_ ? end + 1 : end_;
    }
  return all;
}

} // namespace sediment
