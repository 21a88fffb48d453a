// SPDX-License-Identifier: GPL-3.0-or-later
// A .gcda file identifies each function by a number, and the number of a local function is a hash of paths. The file is therefore made in the
// compiler, because the compiler knows the numbers of the functions that it compiles. GCC then compares the checksum of each function's graph,
// and compiles changed functions without counters.
#include "counters.h"
#include "collect.h"
#include "untrained.h"

#include "ssa.h"
#include "gimple-iterator.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

// From GCC's coverage.h, which needs a header that plugins do not get.
extern void coverage_init (const char *);
extern unsigned coverage_compute_profile_id (struct cgraph_node *);
extern unsigned coverage_compute_lineno_checksum (void);

namespace sediment {

namespace {

const char header[] = "sediment-counters 1 ";
// Prefix of the unit name for counters made from early ids.
const char early[] = "early+";
// Limit of counters, larger than the number in any real unit: the repeat counts in a damaged profile can be of any size.
const uint64_t most_arcs = 1 << 22;
// Largest number of values that GCC keeps for a statement.
const uint64_t most_values = 32;
// Limit of the count of an arc, so that GCC's sums stay within 64 bits: that of a file, whose largest count has 32 bits.
const uint64_t largest_count = UINT32_MAX;
// From this time of a first call on, GCC takes the counters for corrupted, and fails.
const uint64_t latest_time = INT_MAX / 2;
// A function whose largest counter is smaller than this is compiled without counters. None of its blocks would be cold (see least_expected
// in flow.cc).
const uint64_t least_executions = 8;
// GCC's numbers of kinds of counters: arcs, most frequent values, most frequent callees, and first calls.
const unsigned arcs = 0, top = 3, callees = 4, first = 7;

// Temporary folder of the .gcda file; the path is empty if there is no folder. The folder is removed when the compiler exits, also after an
// error.
struct Folder
{
  std::string path;
  ~Folder ()
  {
    if (!path.empty ())
      rmdir (path.c_str ());
  }
};

Folder folder;
// A function that got counters, with the sum of its counters. Only functions that the training executed: with -fprofile-partial-training GCC
// compiles other functions as if they had no counters.
struct Given
{
  tree decl;
  uint64_t weight;
  // False if the counters come from another unit: a function with the same name, maybe in another program.
  bool is_own;
};

std::vector<Given> given;

// Parses all of `text` as a number. Returns false if that fails.
template <typename Number>
bool
number (const std::string &text, int base, Number &value)
{
  char *end;
  errno = 0;
  unsigned long long read = strtoull (text.c_str (), &end, base);
  value = read;
  return !text.empty () && ISXDIGIT (text[0]) && !*end && !errno && value == read;
}

typedef std::vector<std::pair<uint64_t, uint32_t>> Runs;

// Parses `COUNT` or `COUNT*NUMBER`.
bool
read_run (const std::string &item, unsigned kind, Runs &runs)
{
  size_t times = item.find ('*');
  std::pair<uint64_t, uint32_t> run { 0, 1 };
  if (!number (item.substr (0, times), 10, run.first) || run.first >> 62
      || (times != std::string::npos && !number (item.substr (times + 1), 10, run.second)))
    return false;
  run.first = std::min (run.first, kind == arcs ? largest_count : kind == first ? latest_time - 1 : run.first);
  runs.push_back (run);
  return true;
}

// Parses `PLACE=TOTAL:VALUE=COUNT,VALUE=COUNT`. A place is the index of a statement; places ascend. Statements between two listed places were
// not executed.
bool
read_top (const std::string &item, uint32_t &next, std::vector<uint64_t> &tops)
{
  uint32_t place;
  uint64_t total;
  size_t equals = item.find ('='), colon = item.find (':');
  if (equals == std::string::npos || !number (item.substr (0, equals), 10, place) || place < next || place - next > most_arcs
      || !number (item.substr (equals + 1, colon - equals - 1), 10, total) || total >> 62)
    return false;
  tops.resize (tops.size () + 2 * (place - next));
  next = place + 1;
  tops.push_back (total);
  tops.push_back (0);
  size_t number_at = tops.size () - 1;
  std::istringstream values (colon == std::string::npos ? "" : item.substr (colon + 1));
  for (std::string value; tops[number_at] < most_values && std::getline (values, value, ',');)
    {
      uint64_t what, count;
      size_t equals = value.find ('=');
      if (equals == std::string::npos || !number (value.substr (0, equals), 10, what) || !number (value.substr (equals + 1), 10, count)
	  || count >> 62)
	return false;
      tops.push_back (what);
      tops.push_back (count);
      ++tops[number_at];
    }
  return true;
}

// Parses `UNIT\tLINE.GRAPH\tCOUNT COUNT*ARCS … | KIND COUNT … | top STATEMENTS PLACE=TOTAL:VALUE=COUNT …`.
bool
read_variant (const std::string &line, Variant &variant)
{
  size_t unit = line.find ('\t'), graph = unit == std::string::npos ? unit : line.find ('\t', unit + 1);
  if (graph == std::string::npos || graph - unit != 18)
    return false;
  variant.is_early = line.compare (0, sizeof early - 1, early) == 0;
  variant.unit = line.substr (variant.is_early ? sizeof early - 1 : 0, unit - (variant.is_early ? sizeof early - 1 : 0));
  if (!number (line.substr (unit + 10, 8), 16, variant.graph))
    return false;
  // GCC's numbers of the kinds of counters.
  static const std::map<std::string, unsigned> kinds { { "interval", 1 }, { "power", 2 }, { "top", top }, { "average", 5 }, { "bits", 6 }, { "first", first } };
  std::istringstream items (line.substr (graph + 1));
  unsigned kind = arcs;
  uint32_t next = 0;
  variant.runs.insert ({ kind, {} });
  for (std::string item; items >> item;)
    if (item == "|")
      {
	auto known = items >> item ? kinds.find (item) : kinds.end ();
	if (known == kinds.end ())
	  return false;
	kind = known->second;
	// The number of statements is not needed.
	if (kind == top && !(items >> item))
	  return false;
      }
    else if (kind == top ? !read_top (item, next, variant.tops) : !read_run (item, kind, variant.runs[kind]))
      return false;
  return true;
}

// Base name of the unit's source file, escaped like in a file of counters, and `@`.
std::string
unit_name ()
{
  std::string escaped;
  for (unsigned char c : std::string (main_input_filename ? lbasename (main_input_filename) : ""))
    {
      char code[4];
      snprintf (code, sizeof code, "%%%02X", c);
      escaped += ISALNUM (c) || strchr ("._+-", c) ? std::string (1, c) : code;
    }
  return escaped + '@';
}

// The number that GCC's pass `profile` will give to a function. `taken` contains the numbers of earlier functions.
unsigned
number_of (cgraph_node *node, std::set<unsigned> &taken)
{
  unsigned ident = coverage_compute_profile_id (node);
  while (!ident || !taken.insert (ident).second)
    ident = (ident + 1) & 0x7fffffff;
  return ident;
}

// The variant of this unit, else a variant of a unit with the same name, else the heaviest variant. If this unit's counters come from early
// ids, `variants` has no counters from instrumentation for this unit.
const Variant &
best (const std::vector<Variant> &variants, const std::string &name, const std::string &unit)
{
  for (const Variant &variant : variants)
    if (variant.unit == unit)
      return variant;
  for (const Variant &variant : variants)
    if (variant.unit.compare (0, name.size (), name) == 0)
      return variant;
  return variants.front ();
}

// Counts of a variant's arcs, without run-length encoding. Empty if there are too many.
std::vector<uint64_t>
arcs_of (const Variant &variant)
{
  std::vector<uint64_t> counts;
  for (const auto &run : variant.runs.at (0))
    {
      if (run.second > most_arcs - counts.size ())
	return {};
      counts.insert (counts.end (), run.second, run.first);
    }
  return counts;
}

// Sums the executions of a COMDAT function in all units. The linker keeps one unit's copy for all units, and a call that was inlined in one
// build may call that copy in the next build. Sums are limited to `largest`, because GCC expects it to be the largest of all counts.
Variant
of_all_units (const std::vector<Variant> &variants, const Variant &own, uint64_t largest)
{
  std::vector<uint64_t> sum = arcs_of (own);
  for (const Variant &other : variants)
    {
      if (&other == &own || !other.is_early || other.graph != own.graph)
	continue;
      std::vector<uint64_t> counts = arcs_of (other);
      if (counts.size () != sum.size ())
	continue;
      for (size_t at = 0; at < sum.size (); ++at)
	// Cannot overflow: each count is below 2^62.
	sum[at] = std::min (sum[at] + counts[at], std::max (sum[at], largest));
    }
  Variant all = own;
  all.runs[0].clear ();
  for (uint64_t count : sum)
    all.runs[0].push_back ({ count, 1 });
  return all;
}

// Sum of the counts of all arcs, limited to 64 bits.
uint64_t
weight_of (const Variant &variant)
{
  uint64_t sum = 0;
  for (const auto &run : variant.runs.at (0))
    {
      uint64_t product, next;
      if (__builtin_mul_overflow (run.first, run.second, &product) || __builtin_add_overflow (sum, product, &next))
	return UINT64_MAX;
      sum = next;
    }
  return sum;
}

// True if a function has few executions. GCC would compile it for size, but other workloads may execute it often, so it gets no counters.
bool
executes_little (const Variant &variant)
{
  uint64_t largest = 0;
  for (const auto &run : variant.runs.at (0))
    largest = std::max (largest, run.first);
  return largest && largest < least_executions;
}

// A .gcda file in the format of GCC 12 and later: 32-bit words in the byte order of the host.
class DataFile
{
public:
  explicit DataFile (uint32_t largest)
  {
    int major = 0, minor = 0;
    sscanf (gcc_version.basever, "%d.%d", &major, &minor);
    char phase = *gcc_version.devphase ? *gcc_version.devphase : '*';
    word (0x67636461);
    word (unsigned ('A' + major / 10) << 24 | ('0' + major % 10) << 16 | ('0' + minor) << 8 | phase);
    for (uint32_t next : { 0u, 0u, 0xa1000000u, 8u, 1u, largest })
      word (next);
  }

  // Adds a function. `statements`: upper limit of the statements with value counters in the function's current version.
  void function (unsigned ident, unsigned line, const Variant &variant, size_t statements)
  {
    size_t length = words_.size ();
    for (uint32_t next : { 0x01000000u, 12u, ident, line, variant.graph })
      word (next);
    bool fits = true;
    for (const auto &runs : variant.runs)
      {
	std::vector<uint64_t> counts;
	for (const auto &run : runs.second)
	  if ((fits = fits && run.second <= most_arcs - counts.size ()))
	    counts.insert (counts.end (), run.second, run.first);
	counters (runs.first, counts);
      }
    // GCC does not check the number of statements or values, and would read past the end. The recorded statements are therefore followed by
    // enough statements without executions.
    std::vector<uint64_t> tops = variant.tops;
    tops.resize (tops.size () + 2 * statements);
    counters (top, tops);
    counters (callees, std::vector<uint64_t> (2 * statements));
    if (!fits || words_.size () > 2 * most_arcs)
      words_.resize (length);
  }

  bool write (const std::string &path)
  {
    word (0);
    std::ofstream file (path, std::ios::binary);
    file.write (reinterpret_cast<const char *> (words_.data ()), words_.size () * sizeof words_[0]);
    file.close ();
    return !file.fail ();
  }

private:
  void word (uint32_t value) { words_.push_back (value); }

  void counters (unsigned kind, const std::vector<uint64_t> &counts)
  {
    uint32_t length = 8 * counts.size ();
    bool counted = std::any_of (counts.begin (), counts.end (), [] (uint64_t count) { return count > 0; });
    word (0x01a10000u + (kind << 17));
    word (counted ? length : -length);
    for (uint64_t count : counts)
      if (counted)
	{
	  word (count);
	  word (count >> 32);
	}
  }

  std::vector<uint32_t> words_;
};

void
note (const std::string &reason)
{
  inform (UNKNOWN_LOCATION, "sediment: unit compiled without counters: %s", reason.c_str ());
}

} // namespace

bool
Counters::open (const std::string &path, std::string &why)
{
  std::ifstream file (path, std::ios::binary);
  std::ostringstream all;
  if (!file || !(all << file.rdbuf ()))
    {
      why = file ? "empty or not readable" : xstrerror (errno);
      return false;
    }
  text_ = all.str ();
  size_t begin = text_.find ('\n');
  if (text_.compare (0, sizeof header - 1, header) || begin == std::string::npos
      || !number (text_.substr (sizeof header - 1, begin - (sizeof header - 1)), 10, largest_))
    {
      why = "not a file of counters, or an unsupported version";
      return false;
    }
  while (++begin < text_.size ())
    {
      size_t end = std::min (text_.find ('\n', begin), text_.size ());
      size_t key = text_.find ('\t', begin);
      key = key < end ? text_.find ('\t', key + 1) : end;
      if (key < end)
	{
	  auto known = lines_.insert ({ text_.substr (begin, key - begin), { begin, end } }).first;
	  known->second.second = end;
	  size_t unit = key + 1;
	  bool is_early = text_.compare (unit, sizeof early - 1, early) == 0;
	  unit += is_early ? sizeof early - 1 : 0;
	  // The name includes `@`, like the result of unit_name. A damaged line has no `@`.
	  size_t sign = std::find (text_.begin () + std::min (unit, end), text_.begin () + end, '@') - text_.begin ();
	  if (sign < end)
	    (is_early ? early_ : instrumented_).insert (text_.substr (unit, sign + 1 - unit));
	}
      begin = end;
    }
  return true;
}

std::vector<Variant>
Counters::of (const std::string &name, const std::string &file, bool &is_damaged) const
{
  std::vector<Variant> variants;
  std::string key = name + '\t' + file;
  auto known = lines_.find (key);
  if (known == lines_.end ())
    return variants;
  std::istringstream lines (text_.substr (known->second.first, known->second.second - known->second.first));
  for (std::string line; std::getline (lines, line);)
    {
      Variant variant;
      // All lines of a function are adjacent, unless the file was changed by hand.
      if (line.compare (0, key.size () + 1, key + '\t') == 0 && read_variant (line.substr (key.size () + 1), variant))
	variants.push_back (variant);
      else
	is_damaged = true;
    }
  // Zeros in counters from early ids are not exact. A unit with counters from instrumentation is split at its zeros, so it does not use counters
  // from early ids.
  if (!is_early ())
    variants.erase (std::remove_if (variants.begin (), variants.end (), [] (const Variant &variant) { return variant.is_early; }), variants.end ());
  return variants;
}

bool
Counters::is_early () const
{
  if (in_lto_p)
    return !early_.empty ();
  // If the unit was renamed, its functions find their counters by name alone.
  std::string unit = unit_name ();
  return !instrumented_.count (unit) && (early_.count (unit) || (instrumented_.empty () && !early_.empty ()));
}

// FNV-1a hash of the sorted names of the unit's functions.
uint32_t
unit_checksum ()
{
  std::vector<std::string> names;
  cgraph_node *node;
  FOR_EACH_DEFINED_FUNCTION (node)
    if (node->has_gimple_body_p ())
      names.push_back (identity_of (node).name);
  std::sort (names.begin (), names.end ());
  uint32_t hash = 0x811c9dc5;
  for (const std::string &name : names)
    for (unsigned char c : name + '\n')
      hash = (hash ^ c) * 0x01000193;
  return hash;
}

void
hide_data_files ()
{
  const char *temporary = getenv ("TMPDIR");
  std::string name = std::string (temporary && *temporary ? temporary : "/tmp") + "/sediment-XXXXXX";
  if (!mkdtemp (&name[0]))
    {
      note (name + ": " + xstrerror (errno));
      return;
    }
  folder.path = name;
  profile_data_prefix = xstrdup (name.c_str ());
}

void
give_counters (const Counters &counters)
{
  if (folder.path.empty () || in_lto_p || seen_error ())
    return;
  std::string unit = unit_name ();
  char digits[9];
  snprintf (digits, sizeof digits, "%08x", unit_checksum ());
  std::string full_unit = unit + digits;

  cgraph_node *node;
  DataFile data (counters.largest ());
  std::set<unsigned> taken;
  bool is_damaged = false, any = false;
  FOR_EACH_DEFINED_FUNCTION (node)
    {
      if (!node->has_gimple_body_p () && !node->thunk)
	continue;
      unsigned ident = number_of (node, taken);
      if (!node->has_gimple_body_p ())
	continue;
      Identity identity = identity_of (node);
      std::vector<Variant> variants = counters.of (identity.name, identity.file, is_damaged);
      if (variants.empty () && !identity.file.empty ())
	// The line has no source file if the function's name is unique in the program.
	variants = counters.of (identity.name, "", is_damaged);
      if (variants.empty () || executes_little (best (variants, unit, full_unit)))
	continue;
      push_cfun (DECL_STRUCT_FUNCTION (node->decl));
      unsigned line = coverage_compute_lineno_checksum ();
      // Upper limit: two value counters for each statement.
      size_t statements = 0;
      if (flag_profile_partial_training)
	keep_guesses (node);
      basic_block block;
      FOR_EACH_BB_FN (block, cfun)
	for (gimple_stmt_iterator at = gsi_start_bb (block); !gsi_end_p (at); gsi_next (&at))
	  statements += 2;
      pop_cfun ();
      const Variant &own = best (variants, unit, full_unit);
      bool is_of_units = own.is_early && (DECL_COMDAT (node->decl) || DECL_ONE_ONLY (node->decl));
      Variant variant = is_of_units ? of_all_units (variants, own, counters.largest ()) : own;
      data.function (ident, line, variant, statements);
      any = true;
      if (uint64_t weight = weight_of (variant))
	given.push_back ({ node->decl, weight, variant.unit.compare (0, unit.size (), unit) == 0 });
    }
  if (is_damaged)
    inform (UNKNOWN_LOCATION, "sediment: functions of this unit compiled without counters: the file of counters has damaged lines");
  std::string base = folder.path + "/unit", path = base + ".gcda";
  if (!any)
    return;
  if (!data.write (path))
    {
      note (path + ": " + xstrerror (errno));
      given.clear ();
    }
  else
    {
      // Without a prefix, GCC does not put a folder before an absolute path. -ftest-coverage is off during the call, because coverage_init would
      // otherwise overwrite the .gcno file.
      profile_data_prefix = NULL;
      int notes = flag_test_coverage;
      flag_test_coverage = 0;
      coverage_init (base.c_str ());
      flag_test_coverage = notes;
    }
  unlink (path.c_str ());
}

// Appends a line for `sediment verify --log`. Several compilers can append at the same time, so each writes its line with one call.
static void
log_weights (size_t functions, size_t unused, double unused_weight, double weight)
{
  const char *folder = getenv ("SEDIMENT_LOG");
  if (!folder || !*folder || weight == 0)
    return;
  // The linker wrapper also makes the folder, but units are compiled before the first link.
  mkdir (folder, 0777);
  FILE *log = fopen ((std::string (folder) + "/counters.jsonl").c_str (), "a");
  if (!log)
    return;
  std::string unit;
  for (unsigned char c : std::string (lbasename (main_input_filename)))
    unit += c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  char line[512];
  snprintf (line, sizeof line, "{\"unit\":\"%.200s\",\"functions\":%lu,\"changed\":%lu,\"weight\":%.0f,\"changed_weight\":%.0f}\n", unit.c_str (),
	    (unsigned long) functions, (unsigned long) unused, weight, unused_weight);
  fputs (line, log);
  fclose (log);
}

void
report_unused_counters ()
{
  size_t functions = 0, unused = 0;
  double unused_weight = 0, weight = 0;
  for (const Given &one : given)
    {
      function *compiled = DECL_STRUCT_FUNCTION (one.decl);
      bool is_unused = compiled && compiled->cfg && profile_status_for_fn (compiled) != PROFILE_READ;
      // Counters that come from another unit and do not fit are counters of a different function, so this function did not change.
      if (is_unused && !one.is_own)
	continue;
      ++functions;
      unused += is_unused;
      unused_weight += is_unused ? one.weight : 0;
      weight += one.weight;
    }
  log_weights (functions, unused, unused_weight, weight);
  if (unused)
    // GCC's diagnostics cannot format fractions.
    inform (UNKNOWN_LOCATION, "sediment: %s: %lu of %lu functions with counters have changed and are compiled without them; they have %d %% of the weight",
	    lbasename (main_input_filename), (unsigned long) unused, (unsigned long) functions, int (100 * unused_weight / weight + 0.5));
}

} // namespace sediment
