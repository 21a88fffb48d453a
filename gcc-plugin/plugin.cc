// SPDX-License-Identifier: GPL-3.0-or-later
// The plugin as GCC meets it: when the call graph is taken, and where it is written.
//
// The graph is taken behind GCC's inliner, where calls that were inlined are gone and frequencies stand. A compilation that leaves
// all that to the link (-flto without fat objects) is taken at its end; the link itself, where it is given the plugin, sees the
// whole program.

#include "gcc-headers.h"

#include "blocks.h"
#include "collect.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

int plugin_is_GPL_compatible;

namespace {

// Where the files go; empty: beside the object.
std::string folder;

// Whether the blocks of functions are to be told in the line table.
bool marks_blocks;
// The counts that functions are compiled by; null: none.
const sediment::Counts *counts;
// Whether the call graph is written.
bool writes_graph = true;

void
note (const std::string &what)
{
  inform (UNKNOWN_LOCATION, "sediment: no call graph of this unit: %s", what.c_str ());
}

void
note_without_counts (const std::string &what)
{
  inform (UNKNOWN_LOCATION, "sediment: this unit is compiled without its profile: %s", what.c_str ());
}

// One note for a unit, however many lines are damaged.
void
note_damaged ()
{
  static bool was_noted;
  if (!was_noted)
    inform (UNKNOWN_LOCATION, "sediment: functions of this unit are compiled without their profile: lines of the file of block counts are damaged");
  was_noted = true;
}

// A link for link-time optimisation that is neither cut into partitions nor one of them.
bool
is_link_in_one ()
{
  return in_lto_p && !flag_wpa && !flag_ltrans;
}

// The base name that GCC gives to the files of this compilation: `build/ceval.c` for `-c -o build/ceval.o ceval.c`.
std::string
base ()
{
  std::string name = dump_base_name ? dump_base_name : "";
  // `program.lto.o-` and a name that is another each time; in partitions it is `program.wpa`.
  size_t in_one = is_link_in_one () ? name.rfind (".lto.o-") : std::string::npos;
  if (in_one != std::string::npos)
    return name.substr (0, in_one) + ".wpa";
  size_t slash = name.rfind ('/');
  // A source that came through a pipe.
  if (name.substr (slash == std::string::npos ? 0 : slash + 1) == "-")
    name.replace (name.size () - 1, 1, "stdin");
  return name;
}

// What file systems take, less the ending and that of a temporary file.
const size_t longest_file_name = 255 - sizeof ".gv.4194304-99";

// The same for the same text on every machine (FNV-1a).
std::string
digest (const std::string &text)
{
  uint64_t sum = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    sum = (sum ^ c) * 0x100000001b3u;
  char digits[17];
  snprintf (digits, sizeof digits, "%016" PRIx64, sum);
  return digits;
}

// One folder for files from many: the path stands in the name, as gcov --preserve-paths writes it; of one that is too long, its end
// behind a digest of all of it.
std::string
in_folder (std::string name)
{
  if (name[0] != '/')
    {
      const char *here = getpwd ();
      name = std::string (here ? here : "") + '/' + name;
    }
  for (char &c : name)
    if (c == '/')
      c = '#';
  if (name.size () > longest_file_name)
    {
      std::string front = '#' + digest (name);
      std::string back = name.substr (name.size () - (longest_file_name - front.size ()));
      size_t whole = back.find ('#');
      name = front + (whole == std::string::npos ? back : back.substr (whole));
    }
  return folder + '/' + name;
}

// A file of its own, also where compilers of other machines or containers write into the folder; null: errno says why.
FILE *
temporary_file (const std::string &path, std::string &name)
{
  for (int attempt = 0; attempt < 100; ++attempt)
    {
      name = path + '.' + std::to_string (getpid ()) + (attempt ? '-' + std::to_string (attempt) : "");
      int file = open (name.c_str (), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file >= 0)
	return fdopen (file, "w");
      if (errno != EEXIST)
	break;
    }
  return NULL;
}

bool
write_whole (const std::string &path, const std::string &text)
{
  std::string temporary;
  FILE *file = temporary_file (path, temporary);
  if (!file)
    return false;
  bool written = fwrite (text.data (), 1, text.size (), file) == text.size ();
  written = fclose (file) == 0 && written;
  if (written && rename (temporary.c_str (), path.c_str ()) == 0)
    return true;
  int error = errno;
  unlink (temporary.c_str ());
  errno = error;
  return false;
}

// `-r` without -flinker-output=nolto-rel: objects of link-time optimisation become another such object.
bool
is_for_another_link ()
{
  return in_lto_p && flag_incremental_link == INCREMENTAL_LINK_LTO;
}

void
write_graph_of_unit ()
{
  std::string name = base ();
  if (seen_error () || name.empty () || is_for_another_link ())
    return;
  sediment::Graph graph = sediment::collect ();
  if (graph.empty ())
    return;
  std::string path = (folder.empty () ? name : in_folder (name)) + ".gv";
  std::string text = graph.text (in_lto_p ? "gcc call graph of the program" : "gcc call graphs of units");
  if (!write_whole (path, text))
    note (path + ": " + xstrerror (errno));
  else if (size_t left_out = graph.unacceptable ())
    inform (UNKNOWN_LOCATION, "sediment: %s: without %lu functions or calls, whose names or files profiles cannot hold",
	    path.c_str (), (unsigned long) left_out);
}

// GCC is built without exceptions and would end by one.
void
write_graph ()
{
  try
    {
      write_graph_of_unit ();
    }
  catch (...)
    {
      note ("out of memory");
    }
}

// Behind the inliner; not where whole programs are only translated in parts.
unsigned int
behind_inliner ()
{
  if (!flag_ltrans)
    write_graph ();
  return 0;
}

// No interprocedural pass runs in a compilation that leaves them to the link.
void
at_end (void *, void *)
{
  if (flag_generate_lto && !flag_fat_lto_objects && !flag_wpa && !flag_ltrans)
    write_graph ();
}

const pass_data pass = { IPA_PASS, "sediment_callgraph", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

class Pass : public ipa_opt_pass_d
{
public:
  explicit Pass (gcc::context *context)
    : ipa_opt_pass_d (pass, context, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL)
  {}
  unsigned int execute (function *) final override { return behind_inliner (); }
};

const pass_data block_pass = { RTL_PASS, "sediment_blocks", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// In front of the pass that parts hot blocks from cold ones.
class BlockPass : public rtl_opt_pass
{
public:
  explicit BlockPass (gcc::context *context) : rtl_opt_pass (block_pass, context) {}
  // GCC has bbpart in several lists of passes.
  opt_pass *clone () final override { return new BlockPass (m_ctxt); }
  bool gate (function *) final override { return optimize > 0; }
  unsigned int execute (function *) final override
  {
    try
      {
	bool is_damaged = false;
	bool counted = counts && sediment::apply_counts (*counts, is_damaged);
	if (is_damaged)
	  note_damaged ();
	if (marks_blocks)
	  sediment::mark_blocks ();
	if (counted)
	  sediment::split ();
      }
    catch (...)
      {
	note_without_counts ("out of memory");
      }
    return 0;
  }
};

// Counts that cannot be read are none.
void
open_counts (const char *path)
{
  static sediment::Counts opened;
  std::string why;
  if (opened.open (path, why))
    counts = &opened;
  else
    note_without_counts (std::string (path) + ": " + why);
}

bool
read_arguments (const plugin_name_args *plugin)
{
  bool is_for_counts = false;
  if (const char *set = getenv ("SEDIMENT_GV_DIR"))
    folder = set;
  for (int at = 0; at < plugin->argc; ++at)
    {
      std::string key = plugin->argv[at].key;
      const char *value = plugin->argv[at].value;
      if (key == "blocks")
	marks_blocks = true;
      else if (key != "folder" && key != "profile")
	{
	  note ("the plugin has no argument `" + key + "`; it has blocks, folder=DIR and profile=FILE");
	  return false;
	}
      else if (!value)
	{
	  note ("the plugin's argument `" + key + "` has no value; it is folder=DIR or profile=FILE");
	  return false;
	}
      else if (key == "folder")
	folder = value;
      else
	{
	  open_counts (value);
	  is_for_counts = true;
	}
    }
  writes_graph = !folder.empty () || !(marks_blocks || is_for_counts);
  return true;
}

// Whether an option of the command line is this plugin's: `-fplugin=` with its path or short name, or an argument of its own.
bool
is_own (const cl_decoded_option &option, const std::string &base_name)
{
  if (!option.arg)
    return false;
  std::string value = option.arg;
  if (option.opt_index == OPT_fplugin_arg_)
    return value.compare (0, base_name.size () + 1, base_name + '-') == 0;
  if (option.opt_index != OPT_fplugin_)
    return false;
  value.erase (0, value.rfind ('/') + 1);
  return value == base_name || value == base_name + ".so";
}

// GCC notes its options in objects for link-time optimisation and in debug information. Without those of this plugin, objects are
// the same as if it was not there.
void
forget_own_options (const std::string &base_name)
{
  cl_decoded_option *begin = save_decoded_options, *end = begin + save_decoded_options_count;
  end = std::remove_if (begin, end, [&] (const cl_decoded_option &option) { return is_own (option, base_name); });
  auto is_plugin = [] (const cl_decoded_option &option) { return option.opt_index == OPT_fplugin_; };
  // The driver adds the folder of plugins where there is one.
  auto is_folder = [] (const cl_decoded_option &option) { return option.opt_index == OPT_iplugindir_; };
  if (std::none_of (begin, end, is_plugin))
    end = std::remove_if (begin, end, is_folder);
  save_decoded_options_count = end - begin;
}

} // namespace

// Never fails a compilation: what is wrong is one note.
int
plugin_init (plugin_name_args *plugin, plugin_gcc_version *version)
{
  if (!plugin_default_version_check (version, &gcc_version))
    {
      note (std::string ("the plugin was built for GCC ") + gcc_version.basever + ", this is " + version->basever);
      return 0;
    }
  forget_own_options (plugin->base_name);
  if (!read_arguments (plugin))
    return 0;
  static plugin_info info = { "1", "writes the call graph of the unit beside its object; argument: folder=DIR" };
  register_callback (plugin->base_name, PLUGIN_INFO, NULL, &info);
  if (counts || marks_blocks)
    {
      register_pass_info before { new BlockPass (g), "bbpart", 0, PASS_POS_INSERT_BEFORE };
      register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &before);
      register_callback (plugin->base_name, PLUGIN_ALL_PASSES_END, [] (void *, void *) { sediment::end_split (); }, NULL);
    }
  if (!writes_graph)
    return 0;
  register_pass_info placed = { new Pass (g), "inline", 1, PASS_POS_INSERT_AFTER };
  register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &placed);
  register_callback (plugin->base_name, PLUGIN_ALL_IPA_PASSES_END, at_end, NULL);
  return 0;
}
