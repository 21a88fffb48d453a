// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program under the name of a linker: gives each executable and shared library of a build its own order, and is otherwise not
//! to be noticed.
//!
//! The compiler finds it by `-B`. It reads the command line, looks for the profile of what is linked in the folder that
//! `PROF_DIR` names, computes the order, and calls the real linker with it. Where there is nothing to do, the real linker takes
//! this process over with the very arguments. Whatever goes wrong on our side, the link is done as without us.
//!
//! `linker` finds and runs the real linker, `joined` knows a detour for those that know no order, `profiles` knows PROF_DIR, `log` what SEDIMENT_LOG is told.

mod joined;
mod linker;
mod log;
mod profiles;

use crate::files;
use crate::ui::Ui;
use joined::Joiner;
use linker::Linker;
pub(crate) use log::LINKS;
use profiles::{Chosen, NotOrdered, Origin};
pub(crate) use profiles::{Profiles, cluster_in, counts_before, labels_of};
use sediment::binary::identity::Rule;
use sediment::binary::objects::Objects;
use sediment::binary::renamed::Renaming;
use sediment::graph::{self, BuiltGraph, Selection};
use sediment::link::command_line::{self, Input, LinkLine};
use sediment::link::gnu_ld_script;
use sediment::link::plan::{self, Left};
use sediment::profile::FunctionIndex;
use sediment::{Error, Result, engine, layout, link};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The name of a linker that this program was called by.
pub(crate) fn called_as(arguments: &[OsString]) -> Option<String> {
    let name = files::base_name(Path::new(arguments.first()?));
    let last = name.rsplit('-').next().unwrap_or_default();
    let before = &name[..name.len() - last.len()];
    // `ld.lld-19`: the number behind the dash belongs to the name.
    let own = if last.bytes().all(|b| b.is_ascii_digit()) { before.trim_end_matches('-') } else { &name };
    let own = own.rsplit('-').next().unwrap_or_default();
    (own == "ld" || own.starts_with("ld.")).then_some(name)
}

/// Does the link.
pub(crate) fn run(name: &str, arguments: &[OsString], ui: &Ui) -> Result<ExitCode> {
    let arguments = arguments.get(1..).unwrap_or_default();
    let line = command_line::read(arguments, &|path| std::fs::read(Path::new(path)).ok());
    let linker = Linker::find(name, &line)?;
    let Some(folder) = std::env::var_os("PROF_DIR").filter(|folder| !folder.is_empty()) else {
        return linker.take_over(arguments);
    };
    let here = std::env::current_dir().unwrap_or_default();
    match plan::left_alone(&line, here.as_os_str()).or_else(|| own_script(&line)) {
        Some(Left::Question | Left::Test) => return linker.take_over(arguments),
        Some(left) => return without_order(&linker, arguments, &line, &left.in_words(), None, ui),
        None => {}
    }
    let began = Instant::now();
    let (order, file) = match prepare(Path::new(&folder), &line, arguments, &linker, ui) {
        Ok(Some(order)) => match log::OrderFile::write(&line, order.text.as_bytes()) {
            Ok(file) => (order, file),
            Err(error) => {
                return as_usual(&linker, arguments, &line, &error, Some(&order.chosen.origin), ui);
            }
        },
        Ok(None) => return without_order(&linker, arguments, &line, "there is no profile of it", None, ui),
        Err(NotOrdered { why, origin }) => {
            return as_usual(&linker, arguments, &line, &why, origin.as_ref(), ui);
        }
    };
    let made = began.elapsed();
    let (with_order, _joined) = match with_order(arguments, &line, &order, &file) {
        Ok(with_order) => with_order,
        Err(error) => return as_usual(&linker, arguments, &line, &error, Some(&order.chosen.origin), ui),
    };
    let first = linker.run(&with_order, true)?;
    if first.successful() {
        first.pass_on(ui)?;
        log::ordered(&line, &order, &file, [made, began.elapsed() - made], ui);
        return Ok(first.exit_code());
    }
    // Whether it is the order's fault shows without it.
    let second = linker.run(arguments, false)?;
    second.pass_on(ui)?;
    if second.successful() {
        let said = first.first_words();
        ui.note(&format!(
            "{}: the linker failed with the order, and was run again without it; it said: {said}",
            line.output_name()
        ));
        log::failed(&line, &order, &file, &said, ui);
    }
    Ok(second.exit_code())
}

/// A script among the arguments by which the build orders functions itself. Only of a file can that be seen and the linker still read it.
fn own_script(line: &LinkLine) -> Option<Left> {
    let is_order = |path: &Path| {
        let bytes = path.is_file().then(|| std::fs::read(path).ok()).flatten();
        bytes.is_some_and(|bytes| plan::is_order(&String::from_utf8_lossy(&bytes)))
    };
    let script = line.scripts.iter().find(|script| is_order(Path::new(script)))?;
    Some(Left::OwnOrder(format!("-T {}", Path::new(script).display())))
}

/// The linker's arguments with the order, and what has to stay until it is done.
fn with_order(
    arguments: &[OsString],
    line: &LinkLine,
    order: &Ordered,
    file: &log::OrderFile,
) -> Result<(Vec<OsString>, Option<tempfile::TempDir>)> {
    let Some(joiner) = &order.joiner else {
        let mut with_order = arguments.to_vec();
        with_order.extend(plan::plugin_arguments(line));
        with_order.extend(plan::order_arguments(order.dialect, file.path().as_os_str()));
        return Ok((with_order, None));
    };
    let folder = tempfile::Builder::new().prefix("sediment-").tempdir().map_err(|error| {
        Error::failed(format!("a folder for the object of all objects cannot be made: {error}"))
    })?;
    let object = folder.path().join("joined.o");
    let joined = joiner.join(arguments, file.path().as_os_str(), object.as_os_str())?;
    Ok((joined, Some(folder)))
}

/// Links without an order, and says why.
fn as_usual(
    linker: &Linker,
    arguments: &[OsString],
    line: &LinkLine,
    why: &Error,
    origin: Option<&Origin>,
    ui: &Ui,
) -> Result<ExitCode> {
    ui.note(&format!("{}: not ordered: {why}", line.output_name()));
    without_order(linker, arguments, line, &why.to_string(), origin, ui)
}

/// Links with the very arguments; where a log is kept, it is told why, how long the link took, and which profile what was linked has.
fn without_order(
    linker: &Linker,
    arguments: &[OsString],
    line: &LinkLine,
    why: &str,
    origin: Option<&Origin>,
    ui: &Ui,
) -> Result<ExitCode> {
    if !log::is_kept() {
        return linker.take_over(arguments);
    }
    let began = Instant::now();
    let ended = linker.run_in_place(arguments)?;
    log::left(line, why, origin.filter(|_| ended.success()), began.elapsed(), ui);
    Ok(linker::exit_code(ended))
}

/// An order for what is linked.
struct Ordered {
    chosen: Chosen,
    dialect: &'static link::Linker,
    /// The ordering file.
    text: String,
    /// How many functions it lists.
    functions: usize,
    losses: sediment::Losses,
    /// Functions that were followed to other names.
    renamed: Vec<Renaming>,
    /// The share of the calls into functions of its profile that go to functions that are there, in percent.
    coverage: f64,
    /// How it comes to a linker that knows no order of functions.
    joiner: Option<Joiner>,
}

/// The share of the calls into a cluster's functions that go to those of a graph, in percent; for people.
fn coverage(chosen: &Chosen, built: &BuiltGraph) -> f64 {
    let profile = chosen.profile();
    let there: HashSet<FunctionIndex> =
        built.table.names().filter_map(|(key, _)| profile.find(key)).collect();
    let (mut all, mut covered) = (0.0, 0.0);
    for (_, callee, facts) in profile.edges() {
        if profile.key(callee).dso.as_deref() == chosen.label() {
            let count = facts.count.unwrap_or(0) as f64;
            all += count;
            covered += if there.contains(&callee) { count } else { 0.0 };
        }
    }
    if all > 0.0 { 100.0 * covered / all } else { 0.0 }
}

/// The order of what is linked; None where there is no profile of it.
fn prepare(
    folder: &Path,
    line: &LinkLine,
    arguments: &[OsString],
    linker: &Linker,
    ui: &Ui,
) -> std::result::Result<Option<Box<Ordered>>, NotOrdered> {
    let profiles = Profiles::open(folder, ui)?;
    let mut objects: Option<Objects> = None;
    let chosen = profiles.choose(line.soname.as_deref(), &line.output_name(), &mut || {
        objects.get_or_insert_with(|| read_inputs(line)).clone()
    })?;
    let Some(chosen) = chosen else { return Ok(None) };
    let origin = chosen.origin.clone();
    let objects = objects.unwrap_or_else(|| read_inputs(line));
    match order_by(chosen, &objects, line, arguments, linker) {
        Ok(order) => Ok(order.map(Box::new)),
        Err(why) => Err(NotOrdered { why, origin: Some(origin) }),
    }
}

/// The order by a profile; None where nothing but functions tells that it is of this, and none of them can be placed: a library of which
/// one function ran that every program has, too, is none of these.
fn order_by(
    mut chosen: Chosen,
    objects: &Objects,
    line: &LinkLine,
    arguments: &[OsString],
    linker: &Linker,
) -> Result<Option<Ordered>> {
    let (dialect, joiner) = match linker.dialect() {
        Ok(dialect) => (dialect, None),
        Err(why) => match Joiner::find(line, arguments, objects.complete(), linker) {
            Ok(joiner) => (&gnu_ld_script::LINKER, Some(joiner)),
            Err(obstacle) => {
                return Err(Error::failed(why).with_hint(format!("no detour over GNU ld: {obstacle}")));
            }
        },
    };
    let renamed = chosen.follow_renamed(objects);
    let selection = Selection::Objects { objects, label: chosen.label() };
    let named = |error: Error| error.with_input(files::display(&chosen.origin.path));
    let built = graph::build(chosen.profile(), &selection).map_err(named)?;
    let order = layout::grouped(&built.graph, engine::order(&built.graph, &[]).order);
    let (placements, mut losses) = link::placements_in(&order, &built, objects);
    if placements.is_empty() && chosen.origin.rule == Rule::Functions {
        return Ok(None);
    }
    if placements.is_empty() {
        let there = match built.table.keys.len() {
            1 => "the one function of the profile that is linked has no section of its own".to_owned(),
            count => format!(
                "none of the {count} functions of the profile that are linked has a section of its own"
            ),
        };
        return Err(named(Error::failed(format!("{there}: compile with -ffunction-sections"))));
    }
    let (text, unwritten) = (dialect.write)(&placements);
    losses.append(chosen.losses());
    losses.append(&built.losses);
    losses.append(&unwritten);
    let coverage = coverage(&chosen, &built);
    Ok(Some(Ordered {
        chosen,
        dialect,
        text,
        functions: placements.len(),
        losses,
        renamed,
        coverage,
        joiner,
    }))
}

/// The functions of what is linked, as far as the files tell.
fn read_inputs(line: &LinkLine) -> Objects {
    let lto = line.plugin.is_some();
    let mut objects = Objects::default();
    for input in &line.inputs {
        let Some(path) = path_of(input, line) else { continue };
        if files::base_name(&path).split('.').any(|part| part == "so") {
            continue;
        }
        match std::fs::read(&path) {
            Ok(bytes) => objects.add(&path.to_string_lossy(), &bytes, lto),
            Err(_) => objects.unknown += 1,
        }
    }
    objects
}

/// Where an input is; None for a shared library, which holds nothing that is placed.
fn path_of(input: &Input, line: &LinkLine) -> Option<PathBuf> {
    let name = match input {
        Input::Path(path) => return Some(PathBuf::from(path)),
        Input::Library(name) => name,
    };
    let file = |ending: &str| match name.as_bytes().strip_prefix(b":") {
        Some(exact) => OsStr::from_bytes(exact).to_owned(),
        None => {
            let mut file = OsString::from("lib");
            file.push(name);
            file.push(ending);
            file
        }
    };
    for folder in &line.search {
        let shared = Path::new(folder).join(file(".so"));
        if !line.prefers_archives && shared.is_file() {
            return None;
        }
        let archive = Path::new(folder).join(file(".a"));
        if archive.is_file() {
            return Some(archive);
        }
    }
    None
}
