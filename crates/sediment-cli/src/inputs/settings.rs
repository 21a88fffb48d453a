// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `sediment order` and `predict` for specific algorithms, and the starts for algorithms that use them.

use super::read_profile;
use crate::files;
use crate::ui::Ui;
use clap::Args;
use sediment_core::binary::Binary;
use sediment_core::callgraph::{FunctionId, Trace};
use sediment_core::functions::FunctionTable;
use sediment_core::profile::Profile;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::order::algorithms::{self, Algorithm, AlgorithmInput, AlgorithmOptions, cdsort};
use sediment_order::order::{self, BuiltGraph};
use std::path::{Path, PathBuf};

/// Number of neighbours that an algorithm chosen by the user may inspect: it takes some minutes, and is many times the
/// number for any real program.
const MOST_LOOKS: u64 = 1 << 33;

/// Settings of single algorithms.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AlgorithmSettings {
    /// Parameter of CDSort: cache-entries=16, cache-size=2048, distance-power=0.25 (sixteenths, up to 2),
    /// frequency-scale=0.25 or longest-chain=128; repeatable [default: these values]
    #[arg(long, value_name = "NAME=VALUE", value_parser = cdsort_setting)]
    cdsort: Vec<CdsortSetting>,
    /// With an algorithm for starts: profile with the first uses of another start; repeatable [default: none]
    #[arg(long, value_name = "PROFILE")]
    start: Vec<PathBuf>,
    /// For balanced-partitioning: place unused functions with bytes in common next to each other, so that the file compresses better
    #[arg(long, requires = "binary")]
    compress: bool,
}

/// A parsed setting of CDSort.
#[derive(Debug, Clone, Copy)]
enum CdsortSetting {
    CacheEntries(u32),
    CacheSize(u32),
    DistanceSixteenths(u8),
    FrequencyScale(f64),
    LongestChain(u32),
}

fn cdsort_setting(text: &str) -> std::result::Result<CdsortSetting, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let whole = |least: u32| match value.parse::<u32>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("{name} must be a whole number, at least {least}")),
    };
    let decimal = |most: f64| match value.parse::<f64>() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number),
        _ => Err(format!("{name} must be a number from 0 to {most}")),
    };
    match name {
        "cache-entries" => whole(1).map(CdsortSetting::CacheEntries),
        "cache-size" => whole(1).map(CdsortSetting::CacheSize),
        "longest-chain" => whole(1).map(CdsortSetting::LongestChain),
        "frequency-scale" => decimal(1e6).map(CdsortSetting::FrequencyScale),
        "distance-power" => {
            let sixteenths = 16.0 * decimal(2.0)?;
            if sixteenths.fract() != 0.0 {
                return Err(
                    "distance-power must be a multiple of 1/16, for example 0.0625 or 0.25".to_owned()
                );
            }
            Ok(CdsortSetting::DistanceSixteenths(sixteenths as u8))
        }
        _ => Err(format!(
            "unknown parameter {name}; supported: cache-entries, cache-size, distance-power, frequency-scale, longest-chain"
        )),
    }
}

impl AlgorithmSettings {
    /// Refuses all settings for the default algorithm.
    pub(crate) fn refuse_for_engine(&self) -> Result<()> {
        self.refuse(!self.cdsort.is_empty(), "--cdsort needs --algorithm cdsort")?;
        self.refuse(!self.start.is_empty(), "--start needs an algorithm for starts")?;
        self.refuse(self.compress, "--compress needs --algorithm balanced-partitioning")
    }

    fn refuse(&self, given: bool, why: &str) -> Result<()> {
        if given { Err(Error::new(ErrorCode::Usage, why)) } else { Ok(()) }
    }

    fn of_cdsort(&self) -> cdsort::CdsortParameters {
        let mut settings = cdsort::CdsortParameters::default();
        for setting in &self.cdsort {
            match *setting {
                CdsortSetting::CacheEntries(entries) => settings.cache_entries = entries,
                CdsortSetting::CacheSize(bytes) => settings.cache_size = bytes,
                CdsortSetting::DistanceSixteenths(power) => settings.distance_sixteenths = power,
                CdsortSetting::FrequencyScale(scale) => settings.frequency_scale = scale,
                CdsortSetting::LongestChain(functions) => settings.longest_chain = functions,
            }
        }
        settings
    }
}

/// Inputs of an algorithm in addition to the graph.
#[derive(Debug, Default)]
pub(crate) struct AlgorithmInputs {
    cdsort: cdsort::CdsortParameters,
    pub(crate) starts: Vec<Vec<FunctionId>>,
    code_shingles: Vec<Vec<u64>>,
}

impl AlgorithmInputs {
    /// Collects the inputs: starts from the runs, or without runs from the profile's own first uses; and from further
    /// profiles.
    pub(crate) fn of(
        settings: &AlgorithmSettings,
        algorithm: &Algorithm,
        profile: &Profile,
        built: &BuiltGraph,
        runs: &[Trace],
        binary: Option<(&Binary, &Path)>,
        ui: &Ui,
    ) -> Result<Self> {
        settings.refuse(
            !settings.cdsort.is_empty() && algorithm != algorithms::CDSORT,
            "--cdsort needs --algorithm cdsort",
        )?;
        let by_contents = algorithm == algorithms::BALANCED_PARTITIONING;
        settings.refuse(
            settings.compress && !by_contents,
            "--compress needs --algorithm balanced-partitioning",
        )?;
        let for_starts = algorithm.input == AlgorithmInput::Starts;
        settings
            .refuse(!settings.start.is_empty() && !for_starts, "--start needs an algorithm for starts")?;
        let mut known = Self { cdsort: settings.of_cdsort(), ..Self::default() };
        if !for_starts {
            return Ok(known);
        }
        known.starts = starts(profile, built, runs);
        for path in &settings.start {
            let start = start_of(&read_profile(path, ui)?, &built.table);
            if start.is_empty() {
                return Err(Error::new(ErrorCode::NotInProfile, "no ordered function has a first use")
                    .with_input(files::display(path)));
            }
            known.starts.push(start);
        }
        if let Some((binary, path)) = binary.filter(|_| settings.compress) {
            known.code_shingles = order::code_shingles(&built.table, binary, &files::read(path)?);
        }
        if known.starts.is_empty() && known.code_shingles.is_empty() {
            return Err(Error::new(ErrorCode::NotInProfile, "the profile has no first uses")
                .with_hint("record a start with `sediment record --startup`, or give a trace with --trace"));
        }
        Ok(known)
    }

    /// Returns the options for the library.
    pub(crate) fn options(&self, seed: u64) -> AlgorithmOptions<'_> {
        AlgorithmOptions {
            seed,
            most_looks: Some(MOST_LOOKS),
            cdsort: self.cdsort,
            starts: &self.starts,
            code_shingles: &self.code_shingles,
        }
    }
}

/// Returns one start for each run; without runs, the profile's own start if it has first uses.
pub(crate) fn starts(profile: &Profile, built: &BuiltGraph, runs: &[Trace]) -> Vec<Vec<FunctionId>> {
    if !runs.is_empty() {
        return runs.iter().map(Trace::first_uses).collect();
    }
    Some(start_of(profile, &built.table)).filter(|start| !start.is_empty()).into_iter().collect()
}

/// Returns the functions with a first use in a profile, in that order.
fn start_of(profile: &Profile, table: &FunctionTable) -> Vec<FunctionId> {
    let ranks = order::first_uses(profile, table);
    let mut start: Vec<(u64, u32)> = (0u32..).zip(ranks).filter_map(|(id, rank)| Some((rank?, id))).collect();
    start.sort_unstable();
    start.into_iter().map(|(_, id)| FunctionId(id)).collect()
}
