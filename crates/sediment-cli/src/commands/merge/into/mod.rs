// SPDX-License-Identifier: MIT OR Apache-2.0
//! `merge --into` adds submissions to the profile of a package, and reports the contribution of each.

mod output;

use super::{Arguments, MergeOptions};
use crate::commands::diff::parts;
use crate::files;
use crate::inputs::{read_binary, read_profile, tell_nameless, warn_of_similar_labels};
use crate::ui::Ui;
use output::{CoverageOutput, MergeIntoOutput, SkippedFile};
use sediment_core::binary::{AddressIndex, names};
use sediment_core::matching::identity;
use sediment_core::plural::counted;
use sediment_core::profile::merge::Weight;
use sediment_core::profile::submissions::{self, BuildCoverage, Grown, Submission};
use sediment_core::profile::{FunctionKey, Profile, text};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A submitted file.
struct Sent {
    path: PathBuf,
    profile: Profile,
    weight: Weight,
    who: Option<String>,
    /// `None` if there is no build to compare with.
    coverage: Option<BuildCoverage>,
}

/// Smallest share of a profile, in parts per million, that must belong to the build before a threshold applies: below
/// it, the share is printed as 0.00 %.
const LEAST_OF_BUILD: u64 = 100;

pub(super) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let options = &arguments.options;
    let (path, weight) = arguments
        .files("into")?
        .pop()
        .ok_or_else(|| Error::new(ErrorCode::Usage, "--into names no profile"))?;
    files::expect_regular(&path)?;
    let kept = path.exists().then(|| read_profile(&path, ui)).transpose()?;
    let build = BuildBinaries::read(&options.against)?;
    for (name, _) in build.binaries.iter().filter(|(_, binary)| binary.is_stripped()) {
        ui.warn(&format!(
            "{name} is stripped, so only its exported functions are known: give the file with symbols"
        ));
    }
    let whose = arguments.names("profiles");
    let (mut sent, mut skipped) = (Vec::new(), Vec::new());
    for ((path, weight), who) in arguments.files("profiles")?.into_iter().zip(whose) {
        let profile = read_profile(&path, ui)?;
        let coverage = build.coverage(&profile);
        if coverage.is_some() {
            tell_nameless(&profile, &path, "merge keeps the addresses", ui);
        }
        let why = options.min_coverage.zip(coverage).and_then(|(threshold, found)| below(threshold, found));
        if let Some(why) = why {
            ui.note(&format!("skipped {}: {why}", files::display(&path)));
            skipped.push(SkippedFile {
                file: path.to_string_lossy().into_owned(),
                coverage: coverage.map(CoverageOutput::new),
            });
            continue;
        }
        sent.push(Sent { path, profile, weight, who, coverage });
    }
    if sent.is_empty() {
        let error = Error::new(ErrorCode::BelowThreshold, "all files are skipped (--min-coverage)");
        return Err(error.with_hint("are they from another version than the build, or from other programs?"));
    }
    let grown = grow(kept.as_ref().map(|kept| (kept, weight)), &sent, options)?;
    let counts = kept.iter().chain(sent.iter().map(|sent| &sent.profile)).any(|profile| profile.total > 0);
    if counts && grown.profile.total == 0 {
        let error = Error::new(ErrorCode::Usage, "nothing to merge: every file has weight 0");
        return Err(error
            .with_input(files::display(&path))
            .with_hint("a weight applies to all files after it, until the next -w"));
    }
    warn_of_similar_labels(&grown.profile, ui);
    let answer = MergeReport { path: &path, kept: kept.as_ref(), grown: &grown, sent: &sent, build: &build };
    if !options.json {
        ui.result(&answer.in_words())?;
    }
    if options.dry_run {
        ui.note("wrote nothing (--dry-run)");
    } else {
        files::write(&path, text::print(&grown.profile).as_bytes(), ui)?;
    }
    if options.json { ui.json(&MergeIntoOutput::new(&answer, skipped, options.dry_run, ui)) } else { Ok(()) }
}

fn grow(kept: Option<(&Profile, Weight)>, sent: &[Sent], options: &MergeOptions) -> Result<Grown> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let submissions: Vec<Submission<'_>> = sent
        .iter()
        .enumerate()
        .map(|(index, sent)| {
            let submitter = sent.who.as_deref().map_or(index, |who| *known.entry(who).or_insert(index));
            Submission { profile: &sent.profile, weight: sent.weight, submitter }
        })
        .collect();
    submissions::grow(kept, &submissions, options.cap)
}

/// Share of each file in the result.
struct MergeReport<'a> {
    path: &'a Path,
    kept: Option<&'a Profile>,
    grown: &'a Grown,
    sent: &'a [Sent],
    build: &'a BuildBinaries,
}

impl MergeReport<'_> {
    /// Formats the report as text.
    fn in_words(&self) -> String {
        let Self { path, kept, grown, sent, build } = self;
        let mut out = format!("{}\n", files::display(path));
        match kept {
            Some(kept) => {
                let _ = writeln!(
                    out,
                    "  kept          {} of {}, {}",
                    parts(grown.kept),
                    counted(kept.inputs.unwrap_or(1), "recording"),
                    counted(kept.function_count(), "function")
                );
            }
            None => out += "  kept          nothing: the profile is new\n",
        }
        for (sent, added) in sent.iter().zip(&grown.added) {
            let who = sent.who.as_ref().map_or_else(String::new, |who| format!(" from {who}"));
            let cap =
                if added.capped { format!(", weight {} by --cap", added.weight) } else { String::new() };
            let _ = writeln!(
                out,
                "  added         {}: {}{who}{cap}",
                parts(added.part),
                files::display(&sent.path)
            );
            let _ = writeln!(
                out,
                "                {}, {} of its weight, in no other file",
                counted(added.new_functions, "function"),
                parts(added.new_share)
            );
            if let Some(agreement) = added.agreement {
                let _ = writeln!(out, "                agrees with the rest in {}", parts(agreement));
            }
            if let Some(coverage) = sent.coverage {
                let _ = writeln!(out, "                {}", against("its weight", coverage));
            }
        }
        match grown.halves {
            Some(halves) => {
                let _ = writeln!(out, "  halves        two halves of the files agree in {}", parts(halves));
            }
            None => out += "  halves        two files are needed to compare halves\n",
        }
        let _ = writeln!(
            out,
            "  now           {}, {}, {}",
            counted(grown.profile.inputs.unwrap_or(1), "recording"),
            counted(grown.profile.function_count(), "function"),
            counted(grown.profile.edge_count(), "edge")
        );
        if let Some(coverage) = build.coverage(&grown.profile) {
            let _ = writeln!(out, "  coverage now  {}", against("the weight", coverage));
        }
        out
    }
}

/// Formats both shares of a profile that is compared with a build.
fn against(weight: &str, coverage: BuildCoverage) -> String {
    let Some(there) = coverage.there else {
        return format!("no part of {weight} belongs to the build");
    };
    let belongs = parts(coverage.belongs);
    format!("{belongs} of {weight} belongs to the build; the build defines {} of this part", parts(there))
}

/// Reason why a profile is below a threshold.
fn below(threshold: u64, coverage: BuildCoverage) -> Option<String> {
    match coverage.there {
        Some(there) if coverage.belongs >= LEAST_OF_BUILD => (there < threshold).then(|| {
            let [there, threshold] = [there, threshold].map(parts);
            format!(
                "the build defines functions with only {there} of the weight that belongs to it, below the threshold of {threshold}"
            )
        }),
        _ => Some(format!(
            "less than {} of its weight belongs to the build (--against)",
            parts(LEAST_OF_BUILD)
        )),
    }
}

/// Functions that a build defines.
struct BuildBinaries {
    binaries: Vec<(String, sediment_core::binary::Binary)>,
}

impl BuildBinaries {
    fn read(paths: &[PathBuf]) -> Result<Self> {
        let read = |path: &PathBuf| Ok((files::base_name(path), read_binary(path)?));
        Ok(Self { binaries: paths.iter().map(read).collect::<Result<_>>()? })
    }

    /// Coverage of a profile by the build; `None` without --against. Clones of a function count as the function. An
    /// address is valid only in a file of the same build.
    fn coverage(&self, profile: &Profile) -> Option<BuildCoverage> {
        if self.binaries.is_empty() {
            return None;
        }
        let mut defined: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut same_builds: Vec<(String, AddressIndex<'_>)> = Vec::new();
        for (file_name, binary) in &self.binaries {
            let Some(found) = identity::dso_of(profile, binary, file_name) else { continue };
            let cluster = &profile.dsos()[&found.label];
            if cluster.unresolved && binary.build_id.is_some() && binary.build_id == cluster.build_id {
                same_builds.push((found.label.clone(), binary.address_index()));
            }
            let own = defined.entry(found.label).or_default();
            own.extend(binary.functions.iter().map(|function| names::stem(&function.name)));
        }
        let is_there = |key: &FunctionKey| {
            let label = key.dso.as_ref()?;
            let own = defined.get(label)?;
            let of_same_build = |address| {
                let mut indexes = same_builds.iter().filter(|(same, _)| same == label);
                indexes.any(|(_, index)| index.function_at(address).is_some())
            };
            let by_address = address_in(&key.name).filter(|_| profile.dsos()[label].unresolved);
            Some(by_address.map_or_else(|| own.contains(names::stem(&key.name)), of_same_build))
        };
        Some(submissions::coverage(profile, &is_there))
    }
}

/// Address of a function without a name.
fn address_in(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("0x")?, 16).ok()
}
