// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program when it is called by the name of a linker. It gives each executable and shared library of a build its
//! own order, and otherwise does not show.
//!
//! The compiler finds it by `-B`. It reads the command line, looks up the profile of the output in the folder
//! `PROF_DIR`, or in the folder `profiles` next to the path by which it was called, computes the order, and calls the
//! real linker with it. With nothing to do, it becomes the real linker with the same arguments. If anything in sediment
//! fails, the link continues without it.
//!
//! `caller` knows the caller, `linker` finds and runs the real linker, `inputs` reads the linked files, `joined` is a detour
//! for linkers that read no order, `profiles` reads PROF_DIR, `settings` the package's settings there, `log` writes
//! SEDIMENT_LOG.

mod caller;
mod inputs;
mod joined;
pub(crate) mod layouts;
mod linker;
mod log;
mod profiles;
pub(crate) mod settings;

use crate::counter_fit::Fitting;
use crate::exit::ExitCode;
use crate::files::{self, TemporaryFolder};
use crate::inputs::read_binary;
use crate::start;
use crate::ui::Ui;
pub(crate) use caller::is_compiler;
use joined::Joiner;
pub(crate) use linker::REAL_LD;
use linker::RealLinker;
pub(crate) use log::{BEST_AS_LINKED, LINKS, LinkOutcome, LoggedLink, LoggedOrder, LoggedOrigin};
use nix::unistd::{AccessFlags, access};
use profiles::{Chosen, NotOrdered, Origin};
pub(crate) use profiles::{Profiles, counts_before, dso_in, labels_of};
use sediment_core::binary::objects::InputObjects;
use sediment_core::matching::identity::MatchRule;
use sediment_core::matching::renamed::Renaming;
use sediment_core::profile::FunctionIndex;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::link::gnu_ld_script;
use sediment_order::link::{self, Placement};
use sediment_order::order::{self, BuiltGraph, Older, OrderMethod, OrderRequest, Ordering, Selection};
use sediment_order::wrapper::command_line::{self, IncompleteLine, LinkLine, Response};
use sediment_order::wrapper::plan::{self, PassThrough};
use sediment_order::wrapper::settings::PackageSettings;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Returns the name of a linker by which this program was called, if any.
pub(crate) fn called_as(arguments: &[OsString]) -> Option<String> {
    let name = files::base_name(Path::new(arguments.first()?));
    let last = name.rsplit('-').next().unwrap_or_default();
    let before = &name[..name.len() - last.len()];
    // `ld.lld-19`: the number after the dash is part of the name.
    let own = if last.bytes().all(|b| b.is_ascii_digit()) { before.trim_end_matches('-') } else { &name };
    let own = own.rsplit('-').next().unwrap_or_default();
    (own == "ld" || own.starts_with("ld.")).then_some(name)
}

/// The names by which this program can be called as a linker: the names of GNU ld, gold, lld, mold and wild. GCC's
/// collect2 looks for `real-ld` before any of them, whichever linker it was told to call, and in all folders.
pub(crate) const NAMES: &[&str] = &["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld.wild", REAL_LD];

/// Makes a symbolic link of each name to a program, replaces existing links of that name, and returns the number of
/// links.
///
/// # Errors
/// If something other than a link has such a name. Nothing is changed then.
pub(crate) fn make_links(folder: &Path, program: &Path) -> Result<usize> {
    for name in NAMES {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
            return Err(Error::new(
                ErrorCode::Usage,
                "a file or folder of this name is there, not a symbolic link",
            )
            .with_input(files::display(&path))
            .with_hint("name a new or empty folder"));
        }
    }
    for name in NAMES {
        files::symbolic_link(program, &folder.join(name))?;
    }
    Ok(NAMES.len())
}

/// Does the link.
pub(crate) fn run(name: &str, arguments: &[OsString]) -> Result<ExitCode> {
    let called = arguments.first().cloned().unwrap_or_default();
    let arguments = arguments.get(1..).unwrap_or_default();
    let Some(folder) = caller::variable("PROF_DIR").or_else(|| profiles_beside(&called)) else {
        // No input is read, unless the target machine decides which linker is used.
        let emulation = || command_line::read(arguments, &response).emulation;
        return RealLinker::find(name, &called, &emulation)?.take_over(arguments);
    };
    let line = command_line::read(arguments, &response);
    let linker = RealLinker::find(name, &called, &|| line.emulation.clone())?;
    let here = std::env::current_dir().unwrap_or_default();
    let left = plan::left_alone(&line, here.as_os_str());
    if matches!(left, Some(PassThrough::Question | PassThrough::Test)) || !start::streams_are_open() {
        return linker.take_over(arguments);
    }
    start::outlive_readers();
    let ui = Ui::new();
    ui.tell_all();
    let link = WrappedLink { linker: &linker, called: &called, arguments, line: &line, ui: &ui };
    match left.or_else(|| own_script(&line)) {
        Some(left @ PassThrough::Incomplete(_)) => {
            return link.as_usual(&Error::new(ErrorCode::NotOrdered, left.in_words()), None);
        }
        Some(left) => return link.without_order(&left.in_words(), None),
        None => {}
    }
    if let Some(path) = inputs::read_once(&line) {
        let why = PassThrough::Incomplete(IncompleteLine::ReadOnce(path.into()));
        return link.as_usual(&Error::new(ErrorCode::NotOrdered, why.in_words()), None);
    }
    link.in_order(Path::new(&folder))
}

/// Name of the folder of profiles next to the links in a wrapper's folder.
pub(crate) const PROFILES: &str = "profiles";

/// Returns the folder of profiles in a wrapper's folder, if this program was called by a path in that folder.
fn profiles_beside(called: &OsStr) -> Option<OsString> {
    let folder = Path::new(called).parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let profiles = folder.join(PROFILES);
    // This takes one system call in every link. A path that is not a folder is reported when it is read.
    access(&profiles, AccessFlags::F_OK).is_ok().then(|| profiles.into_os_string())
}

/// Reads a response file, if this is harmless for the linker, which reads it again.
fn response(name: &OsStr, most: u64) -> Response {
    let path = Path::new(name);
    match std::fs::metadata(path) {
        Ok(found) if inputs::is_read_once(&found) => Response::ReadOnce,
        Ok(found) if found.len() > most => Response::TooLong,
        _ => files::read_at_most(path, most).map_or(Response::Missing, Response::Text),
    }
}

/// Finds a script in the arguments with which the build itself orders functions. This can only be checked for regular
/// files, which the linker can read again.
fn own_script(line: &LinkLine) -> Option<PassThrough> {
    const LONGEST: u64 = 64 << 20;
    let is_order = |path: &Path| {
        let bytes = files::read_at_most(path, LONGEST);
        bytes.is_ok_and(|bytes| plan::is_order(&String::from_utf8_lossy(&bytes)))
    };
    let script = line.scripts.iter().find(|script| is_order(Path::new(script)))?;
    Some(PassThrough::OwnOrder(format!("-T {}", files::display(Path::new(script)))))
}

/// A link that may get an order.
struct WrappedLink<'a> {
    linker: &'a RealLinker,
    /// Name that this program was called by.
    called: &'a OsStr,
    arguments: &'a [OsString],
    line: &'a LinkLine,
    ui: &'a Ui,
}

impl WrappedLink<'_> {
    fn in_order(&self, folder: &Path) -> Result<ExitCode> {
        let began = Instant::now();
        let (order, file) = match self.prepared(folder) {
            Ok(Prepared::Order(order)) => match log::OrderFile::write(self.line, order.text.as_bytes()) {
                Ok(file) => (order, file),
                Err(error) => return self.as_usual(&error, Some(&order.chosen.origin)),
            },
            Ok(Prepared::NoProfile) => {
                let layouts = layouts::link_unordered(self);
                return self
                    .unchanged(|_, took| log::without_profile(self.line, layouts.as_deref(), took, self.ui));
            }
            Ok(Prepared::BestAsLinked(origin)) => return self.best_as_linked(&origin),
            Ok(Prepared::Unlinkable) => return self.without_order("the linker failed", None),
            Err(NotOrdered { why, origin }) => return self.as_usual(&why, origin.as_ref()),
        };
        let made = began.elapsed();
        let layouts = layouts::link(self, &order, &file);
        let began = Instant::now();
        let (with_order, _joined) = match self.with_order(&order, &file) {
            Ok(with_order) => with_order,
            Err(error) => return self.as_usual(&error, Some(&order.chosen.origin)),
        };
        let first = self.linker.run(&with_order, true)?;
        if first.successful() {
            first.pass_on(self.ui)?;
            log::ordered(self.line, &order, &file, [made, began.elapsed()], layouts.as_deref(), self.ui);
            self.tell_of_counters();
            return Ok(first.exit_code());
        }
        // Links again without the order, to find out if the order caused the failure.
        let second = self.linker.run(self.arguments, false)?;
        second.pass_on(self.ui)?;
        if second.successful() {
            let said = first.first_words();
            self.ui.note(&format!(
                "{}: warning: the linker failed with the order, and was run again without it; its message: {said}",
                self.line.output_name()
            ));
            log::failed(self.line, &order, &file, &said, self.ui);
        }
        if !second.successful() {
            self.tell_of_lto();
        }
        Ok(second.exit_code())
    }

    /// True if lld links, and GCC's plugin for link-time optimisation is on the command line: lld ignores the plugin.
    fn may_lack_lto(&self) -> bool {
        let is_gcc = |plugin: &OsString| files::base_name(Path::new(plugin)).starts_with("liblto_plugin");
        self.line.plugin.as_ref().is_some_and(is_gcc) && self.linker.is_lld()
    }

    /// Explains a failed link of objects that lld cannot read.
    fn tell_of_lto(&self) {
        if self.may_lack_lto() && inputs::read(self.line).gcc_lto > 0 {
            self.ui.note(&format!("{}: {}", self.line.output_name(), link::NO_GCC_LTO));
        }
    }

    /// Prints the share of the counters that fits the units compiled since `sediment wrapper` made this folder. If a
    /// build has its own log, `sediment verify --log` prints it instead.
    fn tell_of_counters(&self) {
        let folder = Path::new(self.called).parent().filter(|_| caller::variable("SEDIMENT_LOG").is_none());
        if let Some(fitting) = folder.and_then(|folder| Fitting::of_build(folder).ok().flatten()) {
            self.ui.note(&format!("{}: {}", self.line.output_name(), fitting.in_words()));
        }
    }

    /// Calls [`prepare`] and catches its panics: a bug in sediment must not fail a link.
    fn prepared(&self, folder: &Path) -> std::result::Result<Prepared, NotOrdered> {
        let prepared = std::panic::catch_unwind(AssertUnwindSafe(|| prepare(folder, self)));
        prepared.unwrap_or_else(|_| {
            Err(Error::new(ErrorCode::Internal, "sediment panicked: a bug in sediment").into())
        })
    }

    /// Returns the linker's arguments with the order, and the files that must outlive the link.
    fn with_order(
        &self,
        order: &Ordered,
        file: &log::OrderFile,
    ) -> Result<(Vec<OsString>, Option<TemporaryFolder>)> {
        let Some(joiner) = &order.joiner else {
            let mut with_order = self.arguments.to_vec();
            with_order.extend(plan::plugin_arguments(self.line));
            with_order.extend(plan::order_arguments(order.dialect, file.path().as_os_str()));
            return Ok((with_order, None));
        };
        let folder = TemporaryFolder::new()?;
        let object = folder.path().join("joined.o");
        let joined = joiner.join(self.arguments, file.path().as_os_str(), object.as_os_str())?;
        Ok((joined, Some(folder)))
    }

    /// Links without an order, and prints the reason.
    fn as_usual(&self, why: &Error, origin: Option<&Origin>) -> Result<ExitCode> {
        self.ui.note(&format!("{}: not ordered: {why}", self.line.output_name()));
        self.left(&why.to_string(), Some(why.code()), origin)
    }

    /// Links without an order, if none is requested.
    fn without_order(&self, why: &str, origin: Option<&Origin>) -> Result<ExitCode> {
        self.left(why, None, origin)
    }

    /// Links with the unchanged arguments, and logs the reason, its code if it is an error, the time and the output's profile.
    fn left(&self, why: &str, code: Option<ErrorCode>, origin: Option<&Origin>) -> Result<ExitCode> {
        self.unchanged(|ended, took| {
            log::left(self.line, (why, code), origin.filter(|_| ended.success()), took, self.ui);
        })
    }

    /// Links without an order, because no order beats the linker's layout.
    fn best_as_linked(&self, origin: &Origin) -> Result<ExitCode> {
        self.ui.note(&format!("{}: not ordered: {}", self.line.output_name(), log::STARTS_BEST));
        self.unchanged(|ended, took| match ended.success() {
            true => log::best_as_linked(self.line, origin, took, self.ui),
            false => log::left(self.line, ("the linker failed", None), None, took, self.ui),
        })
    }

    /// Becomes the linker with the unchanged arguments; if links are logged, runs it and waits.
    fn unchanged(&self, log: impl FnOnce(ExitStatus, Duration)) -> Result<ExitCode> {
        if !log::is_kept() && !self.may_lack_lto() {
            return self.linker.take_over(self.arguments);
        }
        let began = Instant::now();
        let ended = self.linker.run_in_place(self.arguments)?;
        if !ended.success() {
            self.tell_of_lto();
        }
        log(ended, began.elapsed());
        Ok(linker::exit_code(ended))
    }

    /// Computes the order, and compares its goals with the program linked without an order. `None` if that program does
    /// not show the addresses of its functions, for example because the link strips it.
    fn compared_with_linked(&self, chosen: &Chosen, request: &OrderRequest<'_>) -> Option<Ordering> {
        let name = self.line.output_name();
        let binary = read_binary(&log::output(self.line)).ok()?;
        let selection = Selection::Binary { binary: &binary, file_name: chosen.label().unwrap_or(&name) };
        order::compute(chosen.profile(), &selection, request).ok()
    }
}

/// Result of preparing a link.
enum Prepared {
    Order(Box<Ordered>),
    /// No profile fits the link.
    NoProfile,
    /// No order is better than the linker's layout.
    BestAsLinked(Origin),
    /// The linker fails without an order, and will fail again.
    Unlinkable,
}

/// An order for a link.
struct Ordered {
    chosen: Chosen,
    dialect: &'static link::Linker,
    placements: Vec<Placement>,
    /// The ordering file.
    text: String,
    skipped: sediment_core::Skipped,
    /// Renamed functions.
    renamed: Vec<Renaming>,
    /// The share of the calls into functions of its profile that go to existing functions, in percent.
    coverage: f64,
    /// The package's settings, and the older order that was kept.
    settings: PackageSettings,
    older: Option<Older>,
    /// Detour for a linker that reads no order.
    joiner: Option<Joiner>,
}

/// Returns the share of the calls into a cluster's functions that go to functions of the graph, in percent, for
/// display.
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

/// Computes the order of a link.
fn prepare(folder: &Path, link: &WrappedLink<'_>) -> std::result::Result<Prepared, NotOrdered> {
    let line = link.line;
    let profiles = Profiles::open(folder, link.ui)?;
    let mut objects: Option<InputObjects> = None;
    let chosen = profiles.choose(line.soname.as_deref(), &line.output_name(), &mut || {
        objects.get_or_insert_with(|| inputs::read(line)).clone()
    })?;
    let Some(chosen) = chosen else { return Ok(Prepared::NoProfile) };
    let origin = chosen.origin.clone();
    let objects = objects.unwrap_or_else(|| inputs::read(line));
    order_by(chosen, &objects, folder, link).map_err(|why| NotOrdered { why, origin: Some(origin) })
}

/// Computes the order of a link by a profile. If only function names connect the profile with the link, and none of
/// them can be placed, the profile belongs to something else: a single profiled function that every program has proves
/// nothing.
fn order_by(
    mut chosen: Chosen,
    objects: &InputObjects,
    folder: &Path,
    link: &WrappedLink<'_>,
) -> Result<Prepared> {
    let (dialect, joiner) = match link.linker.dialect() {
        Ok(dialect) => (dialect, None),
        Err(why) => match Joiner::find(link, objects.complete()) {
            Ok(joiner) => (&gnu_ld_script::LINKER, Some(joiner)),
            Err(obstacle) => {
                return Err(Error::new(ErrorCode::NotOrdered, why)
                    .with_hint(format!("cannot join the objects with GNU ld: {obstacle}")));
            }
        },
    };
    let settings = settings::of_folder(folder)?;
    let output_name = link.line.output_name();
    let names = [link.line.soname.as_deref(), Some(&output_name), chosen.label()];
    let older = settings::older_of(folder, &settings, names)?;
    let method = OrderMethod::Engine(settings.engine);
    let mut request =
        OrderRequest { method, aim: settings.aim, older: older.as_ref(), ..OrderRequest::default() };
    let renamed = chosen.follow_renamed(objects);
    let selection = Selection::Objects { objects, label: chosen.label() };
    let named = |error: Error| error.with_input(files::display(&chosen.origin.path));
    let mut ordering = order::compute(chosen.profile(), &selection, &request).map_err(named)?;
    let (mut placements, mut skipped) = link::placements_in(&ordering.order, &ordering.built, objects);
    if placements.is_empty() && chosen.origin.rule == MatchRule::Functions {
        return Ok(Prepared::NoProfile);
    }
    if placements.is_empty() {
        let there = match ordering.built.table.keys.len() {
            1 => "the only profiled function that is linked has no section of its own".to_owned(),
            count => {
                format!("none of the {count} profiled functions that are linked has a section of its own")
            }
        };
        return Err(named(Error::new(
            ErrorCode::NoOwnSection,
            format!("{there}: compile with -ffunction-sections"),
        )));
    }
    if older.is_none() && request.compares_with_linked(chosen.profile()) {
        if !link.linker.run(link.arguments, false)?.successful() {
            return Ok(Prepared::Unlinkable);
        }
        let compared = link.compared_with_linked(&chosen, &request);
        if compared.as_ref().is_some_and(|compared| compared.is_best_as_linked) {
            return Ok(Prepared::BestAsLinked(chosen.origin));
        }
        request.aim = compared.map_or(ordering.served, |compared| compared.served);
        ordering = order::compute(chosen.profile(), &selection, &request).map_err(named)?;
        (placements, skipped) = link::placements_in(&ordering.order, &ordering.built, objects);
    }
    let (text, unwritten) = (dialect.write)(&placements);
    skipped.append(chosen.skipped());
    skipped.append(&ordering.built.skipped);
    skipped.append(&unwritten);
    let coverage = coverage(&chosen, &ordering.built);
    Ok(Prepared::Order(Box::new(Ordered {
        chosen,
        dialect,
        placements,
        text,
        skipped,
        renamed,
        coverage,
        settings,
        older,
        joiner,
    })))
}
