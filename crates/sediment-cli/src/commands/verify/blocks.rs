// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment verify --blocks` reports how the compiler used a profile's block counts.

use super::output::BlocksOutput;
use super::{Arguments, as_percent};
use crate::files;
use crate::inputs::{read_binary, read_profile, renamed};
use crate::ui::Ui;
use sediment_core::binary::Binary;
use sediment_core::binary::block_map::BlockMap;
use sediment_core::binary::gcc_block_map::WhyWhole;
use sediment_core::demangle::demangled;
use sediment_core::plural::counted;
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::verify::blocks::{BlockLayout, BlocksReport, CountedFunction, blocks};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Reports on a program; false if cold parts have more weight than allowed.
pub(super) fn run(path: &Path, profile: &Path, arguments: &Arguments, ui: &Ui) -> Result<bool> {
    let binary = read_binary(path)?;
    let mut profile = read_profile(profile, ui)?;
    renamed::follow(&mut profile, &binary, path, None, ui)?;
    let file_name = files::display_name(path);
    let report = report_on(path, &binary, &profile)?;
    if arguments.json {
        ui.json(&BlocksOutput::new(&report))?;
    } else {
        ui.result(&in_words(&report, &file_name, arguments.list.unwrap_or(20)))?;
    }
    let cold = report.cold_parts_per_million();
    let too_much = cold.zip(arguments.max_cold).filter(|(cold, most)| cold > most);
    if let Some((cold, most)) = too_much {
        ui.error(&Error::new(
            ErrorCode::BelowThreshold,
            format!(
                "{file_name}: {} of the recorded weight lies in cold parts, more than the {} allowed",
                as_percent(cold),
                as_percent(most)
            ),
        ));
    }
    let has_no_counts =
        report.of(BlockLayout::Uncounted).next().is_some() && report.coverage_per_million() == Some(0);
    if has_no_counts {
        ui.error(
            &Error::new(
                ErrorCode::BelowThreshold,
                format!("{file_name}: no function was compiled with the counts that the build named"),
            )
            .with_hint(
                "see the compiler's notes, and the path and content of -fplugin-arg-sediment-profile=FILE",
            ),
        );
    }
    Ok(too_much.is_none() && !has_no_counts)
}

/// Compares a linked file with the block counts of a profile.
pub(super) fn report_on(path: &Path, binary: &Binary, profile: &Profile) -> Result<BlocksReport> {
    let here: PathBuf = path.to_path_buf();
    let files = files::SystemFiles::new(None, std::slice::from_ref(&here))?;
    let map = BlockMap::read(&files::read(path)?, &files)
        .map_err(|error| error.with_input(files::display(path)))?;
    blocks(binary, map.as_ref(), profile, &files::base_name(path))
}

/// Reports on a program of a build in one line, and in JSON; `None` if its profile has no counts of its blocks.
/// `known`: pairs of a function's name in the profile and in the program.
pub(super) fn in_short(
    path: &Path,
    profile: &Path,
    known: &[(String, String)],
    ui: &Ui,
) -> Result<Option<(String, BlocksOutput)>> {
    let mut profile = read_profile(profile, ui)?;
    if profile.blocks_total == 0 {
        return Ok(None);
    }
    super::rename(&mut profile, known);
    let Ok(report) = report_on(path, &read_binary(path)?, &profile) else { return Ok(None) };
    let count = |layout: BlockLayout| report.of(layout).count();
    let coverage = report.coverage_per_million().map_or_else(String::new, |coverage| {
        format!(
            "; {} of the counted executions in functions compiled with their counts",
            as_percent(coverage)
        )
    });
    let cold = report.cold_parts_per_million().map_or_else(String::new, |cold| {
        format!("; {} of the recorded weight in cold parts", as_percent(cold))
    });
    let line = format!(
        "{} split by their block counts, {} with another graph or without block numbers{coverage}{cold}",
        counted(count(BlockLayout::Split), "function"),
        count(BlockLayout::SplitOtherGraph) + count(BlockLayout::OtherGraph) + count(BlockLayout::Unnumbered),
    );
    Ok(Some((line, BlocksOutput::new(&report))))
}

/// Returns one line for each state.
fn in_words(report: &BlocksReport, file_name: &str, list: usize) -> String {
    let mut text = String::new();
    match report.cold_parts_per_million() {
        Some(cold) => {
            let _ =
                writeln!(text, "{file_name}: {} of the recorded weight lies in cold parts", as_percent(cold));
        }
        None => {
            let _ = writeln!(
                text,
                "{file_name}: no function was compiled with these counts, or none can be checked"
            );
        }
    }
    if let Some(coverage) = report.coverage_per_million() {
        let _ = writeln!(
            text,
            "{} of the counted executions are in functions compiled with their counts",
            as_percent(coverage)
        );
    }
    for (layout, _) in BlockLayout::ALL {
        let of: Vec<&CountedFunction> = report.of(layout).collect();
        if of.is_empty() {
            continue;
        }
        let bytes =
            |bytes: fn(&CountedFunction) -> u64| of.iter().map(|function| bytes(function)).sum::<u64>();
        let sizes = match layout {
            BlockLayout::Split => format!(
                ": {} bytes hot, {} bytes cold",
                bytes(|function| function.bytes),
                bytes(|function| function.cold_bytes)
            ),
            _ => String::new(),
        };
        let _ = writeln!(text, "{:>8} functions {}{sizes}", of.len(), explained(layout));
        if layout == BlockLayout::Whole {
            for (why, reason) in REASONS_TO_STAY_WHOLE {
                let count = of.iter().filter(|function| function.why_whole == why).count();
                if count > 0 {
                    let _ = writeln!(text, "{count:>12}  {reason}");
                }
            }
        }
    }
    let mut heaviest: Vec<&CountedFunction> =
        report.functions.iter().filter(|function| function.cold_weight > 0).collect();
    heaviest.sort_by(|a, b| b.cold_weight.cmp(&a.cold_weight).then_with(|| a.name.cmp(&b.name)));
    let shown = if list == 0 { heaviest.len() } else { list };
    if !heaviest.is_empty() {
        text += "\nRecorded, and in cold parts:\n";
    }
    let weight = report.functions.iter().map(|function| function.weight).fold(0u128, u128::saturating_add);
    for function in heaviest.iter().take(shown) {
        let _ = writeln!(
            text,
            "{:>10}  {}",
            super::words::share(function.cold_weight, weight),
            demangled(&function.name)
        );
    }
    let more = heaviest.len().saturating_sub(shown);
    if more > 0 {
        let _ = writeln!(text, "            and {more} more (--list 0 lists all)");
    }
    text
}

/// Reasons why GCC or its plugin did not split functions.
const REASONS_TO_STAY_WHOLE: [(Option<WhyWhole>, &str); 7] = [
    (Some(WhyWhole::FewExecutions), "GCC expects fewer than 4 executions of the blocks"),
    (
        Some(WhyWhole::SmallParts),
        "the blocks have no more instructions than there are jumps into and out of them",
    ),
    (Some(WhyWhole::Kind), "attribute section, naked, cold or optimize, or flags for size (-Os)"),
    (
        Some(WhyWhole::Distances),
        "static tables of distances between labels; on AArch64 also exceptions, jump tables or asm goto",
    ),
    (Some(WhyWhole::Option), "-fno-reorder-blocks-and-partition"),
    (Some(WhyWhole::Likely), "other work may execute the blocks"),
    (None, "GCC had another reason, which its map does not contain"),
];

fn explained(layout: BlockLayout) -> &'static str {
    match layout {
        BlockLayout::Split => "split",
        BlockLayout::AllExecuted => "not split: all of their blocks ran",
        BlockLayout::TooFewExecutions => {
            "not split: no block was executed 4 times, too few to find the cold ones"
        }
        BlockLayout::Whole => "not split, although blocks did not run:",
        BlockLayout::SplitOtherGraph => {
            "split, with another control-flow graph than recorded (other version, compiler or flags)"
        }
        BlockLayout::OtherGraph => {
            "not split, with another control-flow graph than recorded (other version, compiler or flags)"
        }
        BlockLayout::Uncounted => {
            "compiled without counts: the compiler did not read the file of counts, or the file does not have these functions"
        }
        BlockLayout::Unnumbered => "not checked: their blocks have no numbers (-fplugin-arg-sediment-blocks)",
        BlockLayout::NotInBinary => "not in the file",
    }
}
