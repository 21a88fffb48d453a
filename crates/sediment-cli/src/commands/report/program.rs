// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects data on one program for a report: its layouts, calls, object files, forecast, and the linker's result.

use super::super::order::gain::worth;
use super::found::{self, FoundFunctions};
use crate::commands::verify;
use crate::files::{self, SystemFiles};
use crate::ui::Ui;
use sediment_core::binary::source_lines::SourceLines;
use sediment_core::binary::{Binary, producers};
use sediment_core::callgraph::GroupKind;
use sediment_core::matching::identity;
use sediment_core::profile::Profile;
use sediment_core::{ErrorCode, Result};
use sediment_measure::judge;
use sediment_order::link;
use sediment_order::model;
use sediment_order::order::forecast::{self, OrderGain};
use sediment_order::order::{self, BuiltGraph, OrderRequest, Ordering, Selection};
use sediment_order::report::layout::{
    self, Layout, ProfileByName, ProfileCalls, ProfiledFunction, ReportedProgram, SplitFunction,
};
use sediment_order::verify::blocks;
use std::collections::HashMap;
use std::path::Path;

/// Files of a program.
pub(super) struct ReportInputs<'a> {
    pub(super) profile: &'a Profile,
    pub(super) profile_name: &'a str,
    pub(super) path: &'a Path,
    pub(super) binary: &'a Binary,
    pub(super) after: Option<(&'a Binary, &'a Path)>,
    pub(super) order: Option<&'a Path>,
    /// Verdict to show instead of the forecast.
    pub(super) verdict: Option<&'a str>,
}

/// Collects all data on a program for the report.
pub(super) fn gathered<'a>(inputs: &ReportInputs<'a>, ui: &Ui) -> Result<ReportedProgram<'a>> {
    let file_name = files::base_name(inputs.path);
    let selection = Selection::Binary { binary: inputs.binary, file_name: &file_name };
    let Ordering { order, built, first, .. } =
        order::compute(inputs.profile, &selection, &OrderRequest::default())
            .map_err(|error| error.with_input(inputs.profile_name))?;
    ui.skipped("graph", &built.skipped);
    let mut groups = vec![GroupKind::Unprofiled; built.graph.len()];
    for group in &order.groups {
        for function in &group.functions {
            groups[function.index()] = group.kind;
        }
    }
    let heat = ProfileByName::of(built.graph.ids().map(|id| {
        let (weight, first) = (built.graph.weights()[id.index()], first[id.index()]);
        (&built.table.keys[id.index()], ProfiledFunction { weight, group: groups[id.index()], first })
    }));
    let before = layout::linked(&format!("before: {file_name} as linked"), inputs.binary, &heat);
    let after = match (inputs.after, inputs.order) {
        (Some((binary, _)), _) => layout::linked("after: as linked with the order", binary, &heat),
        (None, Some(path)) => {
            let text = files::read(path)?;
            let (_, asked) = link::read(&String::from_utf8_lossy(&text))
                .map_err(|error| error.with_input(files::display(path)))?;
            let names = asked.iter().map(|asked| asked.name.as_str());
            layout::predicted(&format!("after: predicted for {}", files::base_name(path)), &before, names)
        }
        (None, None) => {
            let names = order.functions().map(|id| built.table.keys[id.index()].name.as_str());
            layout::predicted("after: predicted for the default order", &before, names)
        }
    };
    let label = identity::dso_of(inputs.profile, inputs.binary, &file_name).map(|found| found.label);
    let found = found::of_profile(inputs.profile, label.as_deref(), &built, &before);
    let found_after = match inputs.after {
        Some((binary, path)) => Some(found::of_layout(&before, &after, &built, binary, [inputs.path, path])?),
        None => None,
    };
    let gain = gain(inputs.profile, &built, &after)?;
    let mut verdict = inputs.verdict.map_or_else(|| verdict(gain, inputs), str::to_owned);
    if let Some(found) = found.filter(FoundFunctions::lacks_much) {
        let words = found.in_words();
        ui.note(&format!("{file_name}: profiled functions: {words}"));
        verdict += &format!(" Profiled functions: {words}.");
    }
    let placed = match (inputs.after, inputs.order) {
        (Some((_, path)), Some(order)) => {
            let report = verify::placed(path, order, inputs.profile, ui)?;
            Some(report)
        }
        _ => None,
    };
    let (shown, path) = inputs.after.unwrap_or((inputs.binary, inputs.path));
    let mut facts = facts(path, shown)?;
    facts.extend(recorded_from(inputs, label.as_deref()));
    facts.extend(found.map(|found| ("profiled functions".to_owned(), found.in_words())));
    let found_after = found_after.filter(|found| !found.is_all());
    facts.extend(found_after.map(|found| ("profiled functions, after".to_owned(), found.in_words())));
    Ok(ReportedProgram {
        objects: objects(inputs, &before)?,
        calls: ProfileCalls::of(inputs.profile, &built.table.keys),
        misses: gain.filter(|gain| !gain.fits() && !fits_a_page(gain)).map(|gain| gain.ratio()),
        verdict,
        placed,
        facts,
        split: split(inputs.profile, shown, path, ui),
        name: file_name,
        before,
        after,
    })
}

/// Returns the forecast for the layout after.
fn gain(profile: &Profile, built: &BuiltGraph, after: &Layout<'_>) -> Result<Option<OrderGain>> {
    let program = forecast::ForecastProgram::new(profile, built, &[])?;
    let Some(before) = program.linked().filter(|_| program.has_calls()) else { return Ok(None) };
    // A function that is missing after keeps its address.
    let mut addresses = built.table.addresses.clone();
    for function in &after.functions {
        if let Some(address) = function.id.and_then(|id| addresses.get_mut(id as usize)) {
            *address = function.address;
        }
    }
    let after = model::AssumedLayout::Linked(&addresses);
    Ok(Some(OrderGain { before: program.outlook(before), after: program.outlook(after) }))
}

fn verdict(gain: Option<OrderGain>, inputs: &ReportInputs<'_>) -> String {
    let Some(gain) = gain else { return "No forecast: the profile has no call counts.".to_owned() };
    let worth =
        worth(&gain, inputs.profile).filter(|_| !gain.fits() && !gain.is_worse() && !gain.is_nothing());
    let worth = worth.map(|worth| {
        (worth < judge::WORTH, format!("the saved iTLB misses are {}", judge::worth_in_words(worth)))
    });
    match (worth, inputs.after.is_some()) {
        (Some((true, worth)), _) => return format!("Nothing to gain in iTLB misses: {worth}."),
        (Some((false, worth)), false) => {
            return format!("Worth a try: {worth}. Link with the order, then measure.");
        }
        _ => {}
    }
    let text = match (gain.is_nothing(), gain.fits(), inputs.after.is_some()) {
        _ if gain.is_worse() && gain.ratio() > 1.0 => "Worse than before: more iTLB misses.",
        _ if gain.is_worse() => "Worse than before: more pages to load.",
        (true, ..) if fits_a_page(&gain) => {
            "Nothing to gain in iTLB misses: the hot code already fits into one page."
        }
        (true, true, _) => "Nothing to gain in iTLB misses: the hot code already fits into the TLB.",
        (true, false, _) => "Nothing to gain in iTLB misses: the order saves hardly any.",
        (false, true, _) => {
            "Fewer pages to load and to keep in memory. The hot code already fits into the TLB."
        }
        (false, false, false) => "Worth a try: link with the order, then measure.",
        (false, false, true) => "Ordered: the hot code lies together.",
    };
    text.to_owned()
}

/// True if no order can reduce the number of pages with hot code.
fn fits_a_page(gain: &OrderGain) -> bool {
    gain.before.hot_pages <= 1 && gain.after.hot_pages <= 1
}

/// Returns the build from which a profile was recorded, if it is neither of the files.
fn recorded_from(inputs: &ReportInputs<'_>, label: Option<&str>) -> Option<(String, String)> {
    let recorded = inputs.profile.dsos().get(label?)?.build_id.as_ref()?;
    let files = [Some(inputs.binary), inputs.after.map(|(binary, _)| binary)];
    let of_files: Vec<&String> =
        files.into_iter().flatten().filter_map(|file| file.build_id.as_ref()).collect();
    let is_other = !of_files.is_empty() && !of_files.contains(&recorded);
    let short: String = recorded.chars().take(16).collect();
    is_other.then(|| ("profile recorded from".to_owned(), format!("another build, {short}")))
}

/// Returns the object file, or the compiled source file, of profiled functions by address: from debug information,
/// otherwise from the symbol table, which has it for local functions.
fn objects(inputs: &ReportInputs<'_>, before: &Layout<'_>) -> Result<HashMap<u64, String>> {
    let bytes = files::read(inputs.path)?;
    let system = SystemFiles::new(None, std::slice::from_ref(&inputs.path.to_path_buf()))?;
    // With damaged debug information, the report is still drawn.
    let lines = SourceLines::read(&bytes, &system).ok().flatten();
    let mut objects: HashMap<u64, String> = inputs
        .binary
        .functions
        .iter()
        .filter_map(|function| Some((function.address, function.file.clone()?)))
        .collect();
    if let Some(lines) = lines {
        for function in before.functions.iter().filter(|function| function.seen.is_some()) {
            if let Some(unit) = lines.unit_at(function.address) {
                objects.insert(function.address, shortened(&unit.name).to_owned());
            }
        }
    }
    Ok(objects)
}

/// Returns the last two parts of a path: one is rarely enough to distinguish files.
fn shortened(path: &str) -> &str {
    match path.rmatch_indices('/').nth(1) {
        Some((at, _)) => &path[at + 1..],
        None => path.trim_start_matches('/'),
    }
}

fn facts(path: &Path, binary: &Binary) -> Result<Vec<(String, String)>> {
    let mut facts = Vec::new();
    let made_by = producers(&files::read(path)?);
    if !made_by.is_empty() {
        facts.push(("compiled and linked by".to_owned(), made_by.join(", ")));
    }
    if let Some(arch) = &binary.arch {
        facts.push(("architecture".to_owned(), arch.clone()));
    }
    if let Some(build_id) = &binary.build_id {
        facts.push(("build-id".to_owned(), build_id.chars().take(16).collect()));
    }
    Ok(facts)
}

/// Returns functions with a cold part, if the profile has counts of blocks.
fn split(profile: &Profile, binary: &Binary, path: &Path, ui: &Ui) -> Vec<SplitFunction> {
    if profile.blocks_total == 0 {
        return Vec::new();
    }
    let report = match verify::counted_blocks(path, binary, profile) {
        Ok(report) => report,
        Err(error) => {
            // A profile without this program's blocks is not an error.
            if error.code() != ErrorCode::NotInProfile {
                ui.warn(&error.to_string());
            }
            return Vec::new();
        }
    };
    let parted = report.functions.into_iter().filter(|function| function.cold_bytes > 0);
    parted
        .map(|function| SplitFunction {
            name: function.name,
            bytes: function.bytes,
            cold_bytes: function.cold_bytes,
            weights: (function.layout == blocks::BlockLayout::Split)
                .then_some([function.weight, function.cold_weight]),
        })
        .collect()
}
