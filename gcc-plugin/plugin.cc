// SPDX-License-Identifier: GPL-3.0-or-later
// Entry point of the plugin: registers its passes, and writes the call graph.
//
// The graph is collected after GCC's inliner, because inlined calls are then gone, and frequencies are final. With -flto and without fat
// objects, the inliner does not run in the compilation of a unit, and the graph is collected at the end of the unit. If the link also loads the
// plugin, the graph of the whole program is collected there.

#include "gcc-headers.h"

#include "block_map.h"
#include "blocks.h"
#include "collect.h"
#include "counters.h"
#include "early.h"
#include "padding.h"
#include "unexecuted.h"
#include "untrained.h"

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

// Folder for call graphs; empty: they are written next to the objects.
std::string folder;

// Write a map of the blocks of functions.
bool marks_blocks;
// Write a map of the statements before inlining.
bool numbers_statements;
// Block counts for the functions of this unit; null: none.
const sediment::Counts *counts;
// profile=FILE was given, even if FILE is not readable.
bool wants_counts;
// Counters of GCC's own instrumentation; null: none.
const sediment::Counters *counters;
// Write the call graph.
bool writes_graph = true;

void
note (const std::string &reason)
{
  inform (UNKNOWN_LOCATION, "sediment: no call graph written for this unit: %s", reason.c_str ());
}

void
note_without_counts (const std::string &reason)
{
  inform (UNKNOWN_LOCATION, "sediment: unit compiled without block counts: %s", reason.c_str ());
}

void
note_without_early_map (const std::string &reason)
{
  inform (UNKNOWN_LOCATION, "sediment: no early map written for this unit: %s", reason.c_str ());
}

void
note_without_map ()
{
  inform (UNKNOWN_LOCATION, "sediment: no map of blocks written for this function: out of memory");
}

// Prints one note for the unit, no matter how many of its functions are affected.
void
note_functions_without_counts (const char *why)
{
  static bool was_noted;
  if (!was_noted)
    inform (UNKNOWN_LOCATION, "sediment: functions of this unit compiled without block counts: %s", why);
  was_noted = true;
}

// True in a link-time compilation of the whole program at once (not -fwpa, not -fltrans).
bool
is_link_in_one ()
{
  return in_lto_p && !flag_wpa && !flag_ltrans;
}

// GCC's base name for the dump files of this compilation: `build/ceval.c` for `-c -o build/ceval.o ceval.c`.
std::string
base ()
{
  std::string name = dump_base_name ? dump_base_name : "";
  // The name is `program.lto.o-` with a random suffix. Use the same name as in a partitioned link, `program.wpa`.
  size_t in_one = is_link_in_one () ? name.rfind (".lto.o-") : std::string::npos;
  if (in_one != std::string::npos)
    return name.substr (0, in_one) + ".wpa";
  size_t slash = name.rfind ('/');
  // The source is standard input.
  if (name.substr (slash == std::string::npos ? 0 : slash + 1) == "-")
    name.replace (name.size () - 1, 1, "stdin");
  return name;
}

// Longest file name that file systems allow, minus the suffixes `.gv` and of the temporary name.
const size_t longest_file_name = 255 - sizeof ".gv.4194304-99";

// FNV-1a hash in hexadecimal; the same on every machine.
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

// Path of a graph in the folder. The file name contains the object's whole path, like with gcov --preserve-paths. A name that is too long
// is replaced by its digest and the end of the name.
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

// Creates a new file; null: see errno. The name is unique even if compilers on other machines or in containers write to the same folder.
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

// True if the output of this link is another LTO object: `-r` without -flinker-output=nolto-rel.
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
  else if (size_t skipped = graph.unacceptable ())
    inform (UNKNOWN_LOCATION, "sediment: %s: skipped %lu functions or calls: name or file not allowed in profiles",
	    path.c_str (), (unsigned long) skipped);
}

// GCC is built without exceptions, so an exception that leaves the plugin would end the compiler.
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

// Runs after the inliner. Does nothing in the partitions of a link (-fltrans), because the graph of the whole program was already written.
unsigned int
behind_inliner ()
{
  if (!flag_ltrans)
    write_graph ();
  return 0;
}

// With -flto and without fat objects, the inliner runs only at the link, so this writes the graph of the unit.
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

// True if a zero counter means that a block never ran. Counters from early ids can come from samples, and a block without samples may still
// run.
bool
splits_by_counters ()
{
  return counters && !counters->is_early () && flag_profile_partial_training;
}

// True if the current function has counts.
bool is_counted;

const pass_data block_pass = { RTL_PASS, "sediment_blocks", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// Runs before bbpart, the pass that separates hot blocks from cold ones.
class BlockPass : public rtl_opt_pass
{
public:
  explicit BlockPass (gcc::context *context) : rtl_opt_pass (block_pass, context) {}
  // GCC clones this pass, because bbpart is in several lists of passes.
  opt_pass *clone () final override { return new BlockPass (m_ctxt); }
  bool gate (function *) final override { return optimize > 0; }
  unsigned int execute (function *) final override
  {
    try
      {
	bool is_damaged = false;
	bool counted = counts && sediment::apply_counts (*counts, is_damaged);
	const bool lacks_counts = wants_counts && !counted;
	if (is_damaged)
	  note_functions_without_counts ("the file of block counts has damaged lines");
	counted = counted || (splits_by_counters () && sediment::apply_counters (counters->largest ()));
	is_counted = counted;
	if (marks_blocks)
	  sediment::mark_blocks ();
	if (counts || counters)
	  sediment::split (counted);
	if (lacks_counts)
	  sediment::set_whole (sediment::Whole::uncounted);
      }
    catch (...)
      {
	note_functions_without_counts ("out of memory");
      }
    return 0;
  }
};

const pass_data parts_pass = { RTL_PASS, "sediment_parts", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// Runs after bbpart.
class PartsPass : public rtl_opt_pass
{
public:
  explicit PartsPass (gcc::context *context) : rtl_opt_pass (parts_pass, context) {}
  opt_pass *clone () final override { return new PartsPass (m_ctxt); }
  bool gate (function *) final override { return is_counted; }
  unsigned int execute (function *) final override
  {
    sediment::free_registers_of_veneers ();
    return 0;
  }
};

const pass_data padding_pass = { RTL_PASS, "sediment_padding", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// Runs before `alignments`, the pass that aligns loops and jump targets.
class PaddingPass : public rtl_opt_pass
{
public:
  explicit PaddingPass (gcc::context *context) : rtl_opt_pass (padding_pass, context) {}
  opt_pass *clone () final override { return new PaddingPass (m_ctxt); }
  bool gate (function *) final override { return is_counted; }
  unsigned int execute (function *) final override
  {
    sediment::mark_targets_of_veneers ();
    sediment::choose_padding (sediment::is_often_called ());
    return 0;
  }
};

const pass_data label_pass = { RTL_PASS, "sediment_labels", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// Runs before `final`, the pass that writes the assembly of a function.
class LabelPass : public rtl_opt_pass
{
public:
  explicit LabelPass (gcc::context *context) : rtl_opt_pass (label_pass, context) {}
  opt_pass *clone () final override { return new LabelPass (m_ctxt); }
  unsigned int execute (function *) final override
  {
    try
      {
	sediment::place_labels ();
	sediment::place_early_labels ();
      }
    catch (...)
      {
	note_without_map ();
      }
    return 0;
  }
};

// Runs after the last pass of a function.
void
after_function (void *, void *)
{
  is_counted = false;
  sediment::end_padding ();
  sediment::end_split ();
  sediment::end_map ();
  sediment::end_early_map ();
}

const pass_data counters_pass = { SIMPLE_IPA_PASS, "sediment_counters", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0 };

// Calls a function before or after `profile`, the pass that reads .gcda files.
class CountersPass : public simple_ipa_opt_pass
{
public:
  CountersPass (gcc::context *context, void (*run) ()) : simple_ipa_opt_pass (counters_pass, context), run_ (run) {}
  unsigned int execute (function *) final override
  {
    run_ ();
    return 0;
  }

private:
  void (*run_) ();
};

// Registers a function that runs before or after `profile`.
void
place_counters_pass (const char *base_name, pass_positioning_ops position, void (*run) ())
{
  register_pass_info info { new CountersPass (g, run), "profile", 1, position };
  register_callback (base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &info);
}

void
give_counters ()
{
  try
    {
      sediment::give_counters (*counters);
    }
  catch (...)
    {
      inform (UNKNOWN_LOCATION, "sediment: unit compiled without counters: out of memory");
    }
}

void
after_counters ()
{
  try
    {
      sediment::report_unused_counters ();
      sediment::use_guesses ();
    }
  catch (...)
    {
      inform (UNKNOWN_LOCATION, "sediment: functions of this unit compiled without guesses for blocks that the training did not execute: out of memory");
    }
}

// After the passes over the whole unit.
void
after_inlining (void *, void *)
{
  try
    {
      bool is_damaged = false;
      sediment::optimise_for_size (*counts, is_damaged);
      if (is_damaged)
	note_functions_without_counts ("the file of block counts has damaged lines");
    }
  catch (...)
    {
      note_functions_without_counts ("out of memory");
    }
}

// In builds without counters, GCC splits functions (pass `fnsplit`) before the pass `profile`; with counters, after it. Counters from early ids
// belong to the graphs of builds without counters, so this enables the early `fnsplit`.
void
split_before_counters (void *gate, void *)
{
  if (current_pass && current_pass->name && !strcmp (current_pass->name, "fnsplit") && counters->is_early ())
    *static_cast<bool *> (gate) = optimize && flag_partial_inlining;
}

void
number_statements ()
{
  try
    {
      if (!sediment::number_statements ())
	note_without_early_map ("the child process that describes the functions failed");
    }
  catch (...)
    {
      note_without_early_map ("out of memory");
    }
}

// Opens the file of counters; prints a note if it cannot be read.
void
open_counters (const char *path)
{
  static sediment::Counters opened;
  std::string why;
  sediment::hide_data_files ();
  if (opened.open (path, why))
    counters = &opened;
  else
    inform (UNKNOWN_LOCATION, "sediment: unit compiled without counters: %s: %s", path, why.c_str ());
}

// Opens the file of block counts; prints a note if it cannot be read.
void
open_counts (const char *path)
{
  static sediment::Counts opened;
  std::string why;
  wants_counts = true;
  counts = opened.open (path, why) ? &opened : NULL;
  if (!counts)
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
      else if (key == "early-ids")
	numbers_statements = true;
      else if (key != "folder" && key != "profile" && key != "counters")
	{
	  note ("unknown plugin argument `" + key + "`; the arguments are blocks, early-ids, folder=DIR, profile=FILE and counters=FILE");
	  return false;
	}
      else if (!value)
	{
	  note ("plugin argument `" + key + "` without a value; write folder=DIR, profile=FILE or counters=FILE");
	  return false;
	}
      else if (key == "folder")
	folder = value;
      else if (key == "counters")
	{
	  open_counters (value);
	  is_for_counts = true;
	}
      else
	{
	  open_counts (value);
	  is_for_counts = true;
	}
    }
  writes_graph = !folder.empty () || !(marks_blocks || numbers_statements || is_for_counts);
  return true;
}

// True if an option on the command line is this plugin's: `-fplugin=` with the plugin's path or short name, or one of its arguments.
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

// Removes this plugin's options from GCC's list of options. GCC records this list in LTO objects and in debug information, and objects must be
// the same with and without the plugin.
void
forget_own_options (const std::string &base_name)
{
  cl_decoded_option *begin = save_decoded_options, *end = begin + save_decoded_options_count;
  end = std::remove_if (begin, end, [&] (const cl_decoded_option &option) { return is_own (option, base_name); });
  auto is_plugin = [] (const cl_decoded_option &option) { return option.opt_index == OPT_fplugin_; };
  // The driver adds -iplugindir if GCC has a folder of plugins.
  auto is_folder = [] (const cl_decoded_option &option) { return option.opt_index == OPT_iplugindir_; };
  if (std::none_of (begin, end, is_plugin))
    end = std::remove_if (begin, end, is_folder);
  save_decoded_options_count = end - begin;
}

} // namespace

// A failure of the plugin never fails the compilation: each error is a note.
int
plugin_init (plugin_name_args *plugin, plugin_gcc_version *version)
{
  if (!plugin_default_version_check (version, &gcc_version))
    {
      note (std::string ("the plugin was built for GCC ") + gcc_version.basever + ", and this is GCC " + version->basever);
      return 0;
    }
  forget_own_options (plugin->base_name);
  if (!read_arguments (plugin))
    return 0;
  static plugin_info info = { "1", "writes the call graph of the unit next to its object; arguments: folder=DIR, blocks, early-ids, profile=FILE, counters=FILE" };
  register_callback (plugin->base_name, PLUGIN_INFO, NULL, &info);
  const char *why = numbers_statements ? sediment::why_no_early_numbers () : NULL;
  if (why)
    {
      note_without_early_map (why);
      numbers_statements = false;
    }
  if (numbers_statements)
    place_counters_pass (plugin->base_name, PASS_POS_INSERT_BEFORE, number_statements);
  if (counters)
    {
      place_counters_pass (plugin->base_name, PASS_POS_INSERT_BEFORE, give_counters);
      place_counters_pass (plugin->base_name, PASS_POS_INSERT_AFTER, after_counters);
      register_callback (plugin->base_name, PLUGIN_OVERRIDE_GATE, split_before_counters, NULL);
    }
  if (counts)
    register_callback (plugin->base_name, PLUGIN_ALL_IPA_PASSES_END, after_inlining, NULL);
  if (counts || marks_blocks || counters)
    {
      register_pass_info before { new BlockPass (g), "bbpart", 0, PASS_POS_INSERT_BEFORE };
      register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &before);
      register_pass_info behind { new PartsPass (g), "bbpart", 0, PASS_POS_INSERT_AFTER };
      register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &behind);
      register_pass_info aligned { new PaddingPass (g), "alignments", 0, PASS_POS_INSERT_BEFORE };
      register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &aligned);
    }
  if (marks_blocks || numbers_statements)
    {
      register_pass_info last { new LabelPass (g), "final", 0, PASS_POS_INSERT_BEFORE };
      register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &last);
    }
  if (counts || marks_blocks || numbers_statements || counters)
    register_callback (plugin->base_name, PLUGIN_ALL_PASSES_END, after_function, NULL);
  if (!writes_graph)
    return 0;
  register_pass_info placed = { new Pass (g), "inline", 1, PASS_POS_INSERT_AFTER };
  register_callback (plugin->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &placed);
  register_callback (plugin->base_name, PLUGIN_ALL_IPA_PASSES_END, at_end, NULL);
  return 0;
}
