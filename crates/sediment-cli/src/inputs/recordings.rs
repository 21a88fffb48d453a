// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens, reads, resolves and replays recordings, and prints skipped items.

use crate::distribution::Owner;
use crate::files::{self, Audience, OutputFile, RecordingSource, SystemFiles};
use crate::packages;
use crate::ui::Ui;
use crate::unit_graphs::{entries, is_recording};
use sediment_core::binary::{Binary, Files as _, NoFiles};
use sediment_core::plural::{counted, grouped};
use sediment_core::profile::Profile;
use sediment_core::skipped::Reason;
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::read::{self, BuildIdList, Input, ReadSettings, RecordedDso, Recording, Step};
use sediment_read::resolve::{self, Resolved, Stripped};
use sediment_read::trace::{StepCounter, file::TraceWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The opened parts of one recording, and build-ids of its files from lists next to them.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<(PathBuf, RecordingSource)>, BuildIdList);

impl Inputs {
    /// Opens the parts. An empty file by callgrind represents the parts that callgrind wrote next to it.
    pub(crate) fn open(paths: &[PathBuf], ui: &Ui) -> Result<Self> {
        let mut inputs: Vec<(PathBuf, RecordingSource)> = Vec::new();
        let mut ids = BuildIdList::default();
        for path in paths {
            let source = RecordingSource::open(path)?;
            if let Some(list) =
                BuildIdList::read(&source).map_err(|error| error.with_input(files::display(path)))?
            {
                ids.extend(&list);
                continue;
            }
            let siblings = if source.length() == 0 { files::siblings(path) } else { Vec::new() };
            if siblings.is_empty() {
                inputs.push((path.clone(), source));
                continue;
            }
            let new: Vec<&PathBuf> = siblings.iter().filter(|sibling| !paths.contains(sibling)).collect();
            let names: Vec<String> = siblings.iter().map(|sibling| files::base_name(sibling)).collect();
            ui.warn(&format!("{} is empty; reading instead: {}", files::display(path), names.join(", ")));
            for sibling in new {
                inputs.push((sibling.clone(), RecordingSource::open(sibling)?));
            }
        }
        if inputs.is_empty() && !ids.is_empty() {
            return Err(Error::new(ErrorCode::EmptyInput, "only build-ids given, but no recording")
                .with_hint("also name the recording that they belong to"));
        }
        Ok(Self(inputs, ids))
    }

    /// Reads them into one recording.
    pub(crate) fn read(&self, settings: &ReadSettings, ui: &Ui) -> Result<Recording> {
        let settings = ReadSettings { part: self.0.len() > 1, ..settings.clone() };
        let mut whole: Option<Recording> = None;
        for (path, source) in &self.0 {
            let named = |error: Error| error.with_input(files::display(path));
            let watched = WatchedInput::new(source, path, "reading", ui);
            let mut part = read::read(&watched, &settings).map_err(named)?;
            if let Some(written) = source.written() {
                part.origin.ended(written);
            }
            match &mut whole {
                None => whole = Some(part),
                Some(sum) => sum.append(&part).map_err(named)?,
            }
        }
        let mut whole = whole.ok_or_else(|| Error::new(ErrorCode::InvalidArgument, "no recording given"))?;
        if !self.1.is_empty() {
            let given = self.1.give_to(&mut whole);
            ui.detail(&format!("build-ids for {}", counted(given, "recorded file")));
        }
        Ok(whole)
    }

    /// Reads and resolves recordings, adds the order of the run, and writes the run to `trace`.
    pub(crate) fn resolve(
        &self,
        settings: &ReadSettings,
        files: &SystemFiles,
        ignore_build_id: bool,
        trace: Option<&Path>,
        ui: &Ui,
    ) -> Result<(Recording, Resolved)> {
        let mut recording = self.read(settings, ui)?;
        let names_no_file = recording.dsos().is_empty();
        if names_no_file {
            give_dsos(&mut recording, files);
        }
        let settings_of_resolve = resolve::ResolveSettings { ignore_build_id, ..Default::default() };
        let mut resolved = resolve(&recording, files, settings_of_resolve, ui)?;
        if names_no_file {
            warn_of_unused(&recording, files, &resolved.profile, ui);
        }
        self.replay(settings, &recording, &mut resolved, trace, ui)?;
        Ok((recording, resolved))
    }

    /// True if any of the formats records the order of functions.
    pub(crate) fn any_knows_the_order(&self, settings: &ReadSettings) -> Result<bool> {
        for (path, source) in &self.0 {
            let reader =
                read::find(source, settings).map_err(|error| error.with_input(files::display(path)))?;
            if reader.replay.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds the order of the run to the profile if the formats have it, and writes the run to `trace`.
    fn replay(
        &self,
        settings: &ReadSettings,
        recording: &Recording,
        resolved: &mut Resolved,
        trace: Option<&Path>,
        ui: &Ui,
    ) -> Result<()> {
        let Resolved { profile, functions, .. } = resolved;
        let output = trace.map(|path| OutputFile::create(path, Audience::Owner)).transpose()?;
        let mut output = output.zip(trace);
        let mut writer = output.as_mut().map(|(output, _)| TraceWriter::new(output, profile, functions));
        let mut told: Vec<(StepCounter<'_>, bool)> = Vec::new();
        for (path, source) in &self.0 {
            let named = |error: Error| error.with_input(files::display(path));
            let Some(replay) = read::find(source, settings).map_err(named)?.replay else { continue };
            let mut sequence = StepCounter::new(functions);
            let watched = WatchedInput::new(source, path, "replaying the run in", ui);
            match &mut writer {
                // If it is the only listener, it can count on all cores.
                None => (replay.steps)(&watched, settings, recording, &mut sequence),
                Some(writer) => {
                    let mut both = |step: Step| {
                        sequence.step(step);
                        writer.step(step);
                    };
                    let told = (replay.steps)(&watched, settings, recording, &mut both);
                    writer.begin_part();
                    told
                }
            }
            .map_err(named)?;
            told.push((sequence, replay.whole));
        }
        let runs = writer.map(TraceWriter::finish).transpose();
        if let Some((output, path)) = output {
            let runs = runs.map_err(|error| output.failed(&error))?.unwrap_or_default();
            if runs == 0 {
                return Err(no_order());
            }
            output.keep()?;
            ui.note(&format!(
                "wrote the trace, {}, to {}",
                counted(runs, "function entry"),
                files::display(path)
            ));
        }
        if !recording.tells_order() {
            for (sequence, whole) in told {
                ui.skipped("replaying the run", &sequence.put_into(profile, whole));
            }
        }
        Ok(())
    }
}

/// Returns the given files, and for each folder the recordings below it, sorted by path; `None` if a folder has none.
pub(crate) fn below_folders(
    paths: &[PathBuf],
    settings: &ReadSettings,
    ui: &Ui,
) -> Result<Option<Vec<PathBuf>>> {
    let (mut found, mut others) = (Vec::new(), 0u64);
    for path in paths {
        if !path.is_dir() || is_recording(path) {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        let mut open = vec![path.clone()];
        while let Some(folder) = open.pop() {
            let listed = entries(&folder).map_err(|error| {
                Error::new(ErrorCode::Io, format!("cannot search this folder: {error}"))
                    .with_input(files::display(&folder))
            })?;
            for (path, kind) in listed {
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    match read::find(&RecordingSource::open(&path)?, settings) {
                        Ok(_) => found.push(path),
                        Err(_) => others += 1,
                    }
                }
            }
        }
        if found.len() == before {
            return Ok(None);
        }
        found[before..].sort();
    }
    if others > 0 {
        ui.warn(&format!("skipped {} in these folders: not recordings", counted(others, "file")));
    }
    Ok(Some(found))
}

/// A file whose reading is shown by a progress bar.
struct WatchedInput<'a> {
    source: &'a RecordingSource,
    bar: indicatif::ProgressBar,
}

impl<'a> WatchedInput<'a> {
    fn new(source: &'a RecordingSource, path: &Path, doing: &str, ui: &Ui) -> Self {
        let bar = ui.progress_of_bytes(source.length(), &format!("{doing} {}", files::display(path)));
        Self { source, bar }
    }
}

impl Drop for WatchedInput<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Input for WatchedInput<'_> {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read_at(offset, buffer)?;
        self.bar.set_position(offset + count as u64);
        Ok(count)
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.source.bytes()
    }
}

pub(crate) fn no_order() -> Error {
    let known: Vec<&str> =
        read::READERS.iter().filter(|reader| reader.replay.is_some()).map(|reader| reader.name).collect();
    Error::new(ErrorCode::UnsupportedVariant, "no trace: these formats do not record the order of functions")
        .with_hint(format!(
            "formats with the order: {}; docs/formats explains how to record them",
            known.join(", ")
        ))
}

/// Label of a recorded file in a profile.
pub(crate) fn label(dso: &RecordedDso, files: &SystemFiles) -> Option<String> {
    let bytes = files.binary(&dso.path, dso.build_id.as_deref());
    let binary = bytes.as_deref().and_then(|bytes| Binary::parse(bytes, &NoFiles).ok());
    resolve::label(&dso.path, binary.and_then(|binary| binary.soname).as_deref())
}

/// Resolves a recording and prints skipped items.
pub(crate) fn resolve(
    recording: &Recording,
    files: &SystemFiles,
    settings: resolve::ResolveSettings,
    ui: &Ui,
) -> Result<Resolved> {
    ui.detail(&format!(
        "read {} ({}): {} in all",
        recording.seen,
        recording.source,
        counted(grouped(recording.total), "call")
    ));
    ui.skipped("reading", &recording.skipped);
    say_what_was_not_recorded(recording, files, ui);
    let resolved = resolve::resolve_with(recording, files, settings).inspect_err(|_| {
        if let Ok(stripped) = resolve::stripped(recording, files, settings) {
            warn_of_stripped(&stripped, recording, files, ui);
        }
    })?;
    let profile = &resolved.profile;
    ui.skipped("resolving", &resolved.skipped);
    warn_of_stripped(&resolved.stripped, recording, files, ui);
    warn_of_unproven(&resolved.unproven, recording, ui);
    warn_of_different_files(recording, files, ui);
    super::warn_of_similar_labels(profile, ui);
    say_what_was_compiled_while_running(recording, ui);
    let functions = profile.functions();
    super::say_what_is_demangled(functions.iter().map(|function| profile.key(*function).name.as_str()), ui);
    Ok(resolved)
}

/// Warns of files that may differ from the recorded ones, the heaviest first, with their share.
fn warn_of_unproven(unproven: &[resolve::Unproven], recording: &Recording, ui: &Ui) {
    let Some(heaviest) = unproven.first() else { return };
    let sum = |of: fn(&resolve::Unproven) -> u128| {
        unproven.iter().fold(0u128, |sum, file| sum.saturating_add(of(file)))
    };
    let totals = RecordedTotals::of(recording);
    let weight = (sum(|file| file.calls), sum(|file| file.cost));
    if totals.percent(weight) >= NOTEWORTHY {
        let more = match unproven.len() - 1 {
            0 => String::new(),
            more => format!(" (and {})", counted(more, "further file")),
        };
        ui.warn(&format!(
            "names may be wrong for {}: {}{more} has no build-id to prove that it is the recorded file; {}",
            totals.share(weight),
            heaviest.path,
            heaviest.doubt.text()
        ));
    }
    for file in unproven {
        ui.detail(&format!("without a build-id: {}: {}", file.path, file.doubt.text()));
    }
}

/// If a recording names no files, its functions are searched in the files given by the user.
fn give_dsos(recording: &mut Recording, files: &SystemFiles) {
    for path in files.not_recorded(&[]) {
        recording.dso(RecordedDso { path: path.to_string_lossy().into_owned(), build_id: None });
    }
}

/// Warns of files that define none of its functions.
fn warn_of_unused(recording: &Recording, files: &SystemFiles, profile: &Profile, ui: &Ui) {
    let functions = profile.functions();
    let used: BTreeSet<&str> =
        functions.iter().filter_map(|function| profile.key(*function).dso.as_deref()).collect();
    for dso in recording.dsos() {
        if label(dso, files).is_none_or(|label| !used.contains(label.as_str())) {
            ui.warn(&format!("{} is not used, because it defines none of the recorded functions", dso.path));
        }
    }
}

/// Warns of given binaries that match no recorded file.
fn say_what_was_not_recorded(recording: &Recording, files: &SystemFiles, ui: &Ui) {
    const SAID: usize = 5;
    let recorded: BTreeSet<&str> = recording.dsos().iter().map(|dso| dso.path.as_str()).collect();
    let mut list = recorded.iter().take(SAID).copied().collect::<Vec<_>>().join(", ");
    if recorded.len() > SAID {
        list.push_str(&format!(" and {} more", recorded.len() - SAID));
    }
    for path in files.not_recorded(recording.dsos()) {
        let path = files::display(path);
        ui.warn(&format!(
            "{path} is not used, because its name and build-id match no recorded file; recorded: {list}"
        ));
    }
}

/// Warns if much of the run was JIT-compiled.
fn say_what_was_compiled_while_running(recording: &Recording, ui: &Ui) {
    let skipped = &recording.skipped;
    let kept = recording.samples().iter().fold(0u128, |sum, (_, cost)| sum.saturating_add(*cost));
    let compiled =
        |of_cost: bool| skipped.weight(|reason| reason.is_compiled_code() && reason.is_own_cost() == of_cost);
    for (what, part, all) in [
        ("own cost", compiled(true), kept.saturating_add(skipped.weight(Reason::is_own_cost))),
        ("calls", compiled(false), recording.total),
    ] {
        if part > all / 4 {
            // For display only: the quotient of two floats is exact enough.
            let share = (100.0 * part as f64 / all as f64).min(100.0);
            ui.warn(&format!(
                "{share:.0} % of the {what} is in JIT-compiled code, which an order cannot place: it orders the JIT compiler and its libraries"
            ));
        }
    }
}

/// Warns of different files with the same name, whose functions are added up.
fn warn_of_different_files(recording: &Recording, files: &SystemFiles, ui: &Ui) {
    let executed: BTreeSet<usize> =
        recording.addresses().iter().filter_map(|place| Some(place.dso?.0 as usize)).collect();
    let mut by_name: BTreeMap<String, Vec<(&str, Option<String>)>> = BTreeMap::new();
    for dso in executed.into_iter().filter_map(|id| recording.dsos().get(id)) {
        let own = || files.binary(&dso.path, None).and_then(|bytes| sediment_core::binary::build_id(&bytes));
        let build_id = dso.build_id.clone().or_else(own).map(|id| id.to_ascii_lowercase());
        if dso.path.starts_with('/') {
            by_name.entry(files::base_name(Path::new(&dso.path))).or_default().push((&dso.path, build_id));
        }
    }
    let differ = |(path, id): &(&str, Option<String>), (other_path, other_id): &(&str, Option<String>)| match (
        id, other_id,
    ) {
        (Some(id), Some(other)) => !sediment_core::binary::same_build_id(id, other),
        _ => path != other_path,
    };
    for (name, found) in by_name {
        let Some((first, rest)) = found.split_first() else { continue };
        let others: BTreeSet<&str> =
            rest.iter().filter(|other| differ(first, other)).map(|(path, _)| *path).collect();
        if others.is_empty() {
            continue;
        }
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        ui.warn(&format!(
            "different files with the name {name} were recorded, and their counts were added: {}, {others}; to keep one, record it alone",
            first.0
        ));
    }
}

/// Share of a recording, in per cent, below which stripped or doubtful files are not reported without `--verbose`:
/// helpers of a script.
pub(super) const NOTEWORTHY: f64 = 1.0;

/// `part` of `all` in per cent, for display: the quotient of two floats is exact enough. A call between two files
/// counts for both.
pub(super) fn percent(part: u128, all: u128) -> f64 {
    (100.0 * part as f64 / all.max(1) as f64).min(100.0)
}

/// Totals of a recording, for the shares of its files.
struct RecordedTotals {
    calls: u128,
    cost: u128,
}

impl RecordedTotals {
    fn of(recording: &Recording) -> Self {
        let cost = recording.samples().iter().fold(0u128, |sum, (_, cost)| sum.saturating_add(*cost));
        Self { calls: recording.total, cost }
    }

    /// Share of the calls, or of the own cost if there are no calls.
    fn percent(&self, (calls, cost): (u128, u128)) -> f64 {
        if calls > 0 { percent(calls, self.calls) } else { percent(cost, self.cost) }
    }

    /// Formats the share as text.
    fn share(&self, (calls, cost): (u128, u128)) -> String {
        let of = if calls > 0 { "calls" } else { "own cost" };
        format!("{:.1} % of the {of}", self.percent((calls, cost)))
    }
}

/// Warns of stripped files, the heaviest first: files without names, and files with addresses in place of names. With
/// `--verbose`, prints for each the command that installs its debug symbols; without it, prints only files with a
/// noteworthy share.
fn warn_of_stripped(stripped: &[Stripped], recording: &Recording, files: &SystemFiles, ui: &Ui) {
    let totals = RecordedTotals::of(recording);
    let (kept, lost): (Vec<&Stripped>, Vec<&Stripped>) = stripped.iter().partition(|dso| dso.by_address);
    if ui.is_verbose() {
        let all: Vec<&Stripped> = kept.into_iter().chain(lost).collect();
        return list_stripped(&all, &totals, files, ui);
    }
    // If the other functions of a file have addresses, the nameless rest is not worth a warning.
    let is_rest = |dso: &&Stripped| kept.iter().any(|other| other.path == dso.path);
    let lost: Vec<&Stripped> = lost.into_iter().filter(|dso| !is_rest(dso)).collect();
    if let Some((weight, names)) = weight_and_names(&kept, &totals) {
        ui.remark(&format!(
            "stripped, so {weight} have addresses in place of names: {names} (for names: sediment resolve)"
        ));
    }
    if let Some((weight, names)) = weight_and_names(&lost, &totals) {
        ui.warn(&format!(
            "stripped, so {weight} have no names: {names} (-v prints how to get their symbols)"
        ));
    }
}

/// Total weight of stripped files, and the names of files with a noteworthy share; `None` if the total is smaller.
fn weight_and_names(dsos: &[&Stripped], totals: &RecordedTotals) -> Option<(String, String)> {
    const NAMED: usize = 5;
    let sum = |of: fn(&Stripped) -> u128| dsos.iter().fold(0u128, |sum, dso| sum.saturating_add(of(dso)));
    let weight = (sum(|dso| dso.calls), sum(|dso| dso.cost));
    if totals.percent(weight) < NOTEWORTHY {
        return None;
    }
    let heavy = dsos.iter().filter(|dso| totals.percent((dso.calls, dso.cost)) >= NOTEWORTHY).count();
    let named = heavy.clamp(1, NAMED);
    let names = dsos.iter().take(named).map(|dso| files::base_name(Path::new(&dso.path)));
    let mut names = names.collect::<Vec<_>>().join(", ");
    let more = dsos.len().saturating_sub(named);
    if more > 0 {
        names += &format!(" and {more} more");
    }
    Some((totals.share(weight), names))
}

/// Prints each stripped file, and how to get the symbols of the heaviest one.
fn list_stripped(all: &[&Stripped], totals: &RecordedTotals, files: &SystemFiles, ui: &Ui) {
    const LISTED: usize = 5;
    let os_release = files.os_release();
    let owners: Vec<Option<Owner>> =
        all.iter().take(LISTED).map(|dso| packages::owner(Path::new(&dso.path), files.root())).collect();
    let policy = packages::apt_policy(owners.iter().flatten(), files.root());
    for (dso, owner) in all.iter().zip(&owners) {
        let weight = totals.share((dso.calls, dso.cost));
        if dso.by_address {
            ui.note(&format!("{} is stripped: {weight} have addresses in place of names", dso.path));
        } else {
            ui.warn(&format!("{} is stripped: {weight} have no names", dso.path));
        }
        let symbols = packages::debug_symbols(
            os_release.as_deref(),
            owner.as_ref(),
            &dso.path,
            dso.build_id.as_deref(),
            &policy,
        );
        if !symbols.command.is_empty() {
            ui.note(&format!("  for its symbols: {}", symbols.command));
        }
    }
    if all.len() > LISTED {
        ui.note(&format!(
            "{} more programs and libraries are stripped, each with less weight",
            all.len() - LISTED
        ));
    }
}
