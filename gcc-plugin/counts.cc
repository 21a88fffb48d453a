// SPDX-License-Identifier: GPL-3.0-or-later
#include "counts.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sediment {

namespace {

const char header[] = "sediment-blocks 2\n";
const size_t header_length = sizeof header - 1;
// Bytes read at once. A unit finds its functions by binary search, so it reads few pieces of a large file.
const size_t piece_size = 4096;
// Limit of cached pieces: 64 MiB.
const size_t most_pieces = size_t (1) << 14;
// Limit of a line's length in bytes, enough for a function of 200,000 blocks. A damaged file of zeros would be one line of any length.
const size_t longest_line = size_t (1) << 23;
// Limit of the bytes of all lines of a function.
const size_t most_of_function = size_t (1) << 24;
const size_t none = size_t (-1);
// GCC's suffix for local functions that link-time optimisation made visible to other partitions. A number follows.
const char made_visible_suffix[] = ".lto_priv.";
// GCC's suffixes for clones. A number follows; GCC numbers clones in the order of its work.
const char *const clone_suffixes[] = { ".constprop.", ".isra.", ".part." };

// Parses a number at `rest`, and moves `rest` to the byte after it. Returns false if there is no number, or if it is too large.
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

// The rest of a line after the function's name and file.
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

// Parses `HASH\tBLOCK=COUNT BLOCK=? BLOCK=COUNT@SIGNATURE …`.
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

Counts::~Counts ()
{
  if (file_ >= 0)
    close (file_);
}

bool
Counts::open (const std::string &path, std::string &why)
{
  if (file_ >= 0)
    close (file_);
  length_ = 0;
  pieces_.clear ();
  file_ = ::open (path.c_str (), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat found;
  if (file_ < 0 || fstat (file_, &found))
    {
      why = strerror (errno);
      return false;
    }
  if (S_ISREG (found.st_mode))
    length_ = found.st_size;
  bool is_damaged = false;
  errno = 0;
  if (text (0, std::min (length_, header_length), is_damaged) != header)
    why = is_damaged && errno ? strerror (errno) : "not a file of block counts, or an unsupported version";
  return why.empty ();
}

// The file is read, not mapped: if a mapped file is truncated, SIGBUS ends the compiler. Bytes that cannot be read become zeros.
const std::string &
Counts::piece (size_t number, bool &is_damaged) const
{
  auto found = pieces_.find (number);
  if (found != pieces_.end ())
    return found->second;
  std::string text;
  size_t begin = number * piece_size, done = 0;
  text.resize (std::min (piece_size, length_ - begin));
  ssize_t more = 1;
  while (done < text.size () && more > 0)
    if ((more = pread (file_, &text[done], text.size () - done, begin + done)) > 0)
      done += more;
  is_damaged = is_damaged || done < text.size ();
  if (pieces_.size () == most_pieces)
    pieces_.clear ();
  return pieces_.emplace (number, std::move (text)).first->second;
}

std::string
Counts::text (size_t begin, size_t end, bool &is_damaged) const
{
  std::string all;
  while (begin < end)
    {
      const std::string &part = piece (begin / piece_size, is_damaged);
      size_t from = begin % piece_size, length = std::min (end - begin, part.size () - from);
      all.append (part, from, length);
      begin += length;
    }
  return all;
}

size_t
Counts::line_begin (size_t least, size_t at, bool &is_damaged) const
{
  const size_t from_here = at;
  while (at > least)
    {
      if (from_here - at > longest_line)
	{
	  is_damaged = true;
	  return none;
	}
      size_t number = (at - 1) / piece_size, first = std::max (least, number * piece_size);
      const char *from = piece (number, is_damaged).data () + first % piece_size;
      if (const void *found = memrchr (from, '\n', at - first))
	return first + (static_cast<const char *> (found) - from) + 1;
      at = first;
    }
  return least;
}

size_t
Counts::line_end (size_t at, bool &is_damaged) const
{
  const size_t from_here = at;
  while (at < length_)
    {
      if (at - from_here > longest_line)
	{
	  is_damaged = true;
	  return none;
	}
      const std::string &part = piece (at / piece_size, is_damaged);
      size_t from = at % piece_size, found = part.find ('\n', from);
      if (found != std::string::npos)
	return at + (found - from);
      at += part.size () - from;
    }
  return length_;
}

std::vector<GraphCounts>
Counts::of (const std::string &name, const std::string &file, bool &is_damaged) const
{
  return with_key (name + '\t' + file + '\t', is_damaged);
}

std::string
Counts::totals () const
{
  const char line[] = "\t\t00000000\t1=";
  // Of two numbers.
  const size_t most = 64;
  bool is_damaged = false;
  std::string begin = text (header_length, std::min (length_, header_length + most), is_damaged);
  begin = begin.substr (0, begin.find ('\n'));
  return begin.compare (0, sizeof line - 1, line) ? "" : begin.substr (sizeof line - 1);
}

uint64_t
Counts::executions () const
{
  return strtoull (totals ().c_str (), NULL, 10);
}

bool
Counts::lists_unexecuted () const
{
  return totals ().find (" 2=") != std::string::npos;
}

std::vector<GraphCounts>
Counts::made_visible (const std::string &name, bool &is_damaged) const
{
  return with_key (name + made_visible_suffix, is_damaged);
}

std::vector<GraphCounts>
Counts::clones_beside (const std::string &name, bool &is_damaged) const
{
  size_t number = name.find_last_not_of ("0123456789") + 1;
  if (number == name.size ())
    return {};
  for (const char *suffix : clone_suffixes)
    {
      size_t length = strlen (suffix);
      if (number > length && !name.compare (number - length, length, suffix))
	return with_key (name.substr (0, number), is_damaged);
    }
  return {};
}

std::vector<GraphCounts>
Counts::with_key (const std::string &key, bool &is_damaged) const
{
  auto compare = [&] (size_t line)
  {
    std::string begin = text (line, std::min (length_, line + key.size ()), is_damaged);
    return begin.substr (0, begin.find ('\n')).compare (key);
  };
  // Binary search for the first line that does not sort before the key.
  size_t low = header_length, high = length_;
  while (low < high)
    {
      size_t middle = line_begin (low, low + (high - low) / 2, is_damaged);
      if (middle == none)
	return {};
      if (compare (middle) >= 0)
	{
	  high = middle;
	  continue;
	}
      size_t end = line_end (middle, is_damaged);
      if (end == none)
	return {};
      low = std::min (length_, end + 1);
    }
  std::vector<GraphCounts> all;
  size_t left = most_of_function;
  for (size_t line = low; line < length_ && compare (line) == 0;)
    {
      size_t end = line_end (line, is_damaged);
      if (end == none || end - line > left)
	{
	  is_damaged = true;
	  break;
	}
      left -= end - line;
      std::string found = text (line, end, is_damaged);
      const char *last = found.data () + found.size ();
      GraphCounts counts;
      if (read_counts (after_identity (found.data (), last), last, counts))
	all.push_back (counts);
      else
	is_damaged = true;
      line = std::min (length_, end + 1);
    }
  return all;
}

} // namespace sediment
