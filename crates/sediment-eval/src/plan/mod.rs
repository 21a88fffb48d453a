// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Plan`]: variants, workloads and settings of an experiment, read from TOML. docs/background/plan-keys.md lists the
//! keys.

mod command_line;
mod file;
mod read;
mod work;

pub use command_line::{CommandLine, Placeholders};
pub use read::read;
pub use work::Extraction;

use super::data::{Direction, Factor, Probe};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The version of the format that this program reads.
pub const VERSION: u64 = 1;

/// Everything that is decided before the first run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The text that it was read from.
    pub text: String,
    /// A title; may be empty.
    pub name: String,
    /// The builds, then the probes of the noise floor.
    pub variants: Vec<PlannedVariant>,
    /// Index of the baseline.
    pub baseline: usize,
    /// The workloads.
    pub workloads: Vec<PlannedWorkload>,
    /// Metrics that the plan describes.
    pub metrics: Vec<PlannedMetric>,
    /// The metric that decides, if the plan names one.
    pub primary: Option<String>,
    /// Relative difference below which builds count as equivalent.
    pub margin: f64,
    /// Confidence of intervals.
    pub confidence: f64,
    /// Settings of the runs.
    pub run: RunPlan,
    /// Seconds that a build may take.
    pub build_time_limit: f64,
    /// Section of the padding object's function.
    pub padding_section: String,
}

/// Settings of the runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunPlan {
    /// Largest number of blocks.
    #[serde(deserialize_with = "file::whole::<_, _, 1, 100_000>")]
    pub blocks: u32,
    /// Smallest number of blocks.
    #[serde(deserialize_with = "file::whole::<_, _, 1, 1000>")]
    pub pilot: u32,
    /// No block begins after this many seconds.
    #[serde(deserialize_with = "file::seconds_or_none")]
    pub time: Option<f64>,
    /// Relative half-width of the primary metric's interval at which the runs stop.
    #[serde(deserialize_with = "file::share")]
    pub precision: f64,
    /// Uncounted runs of each link.
    #[serde(deserialize_with = "file::whole::<_, _, 0, 1000>")]
    pub warm_ups: u32,
    /// Seed, if the plan has one.
    #[serde(deserialize_with = "file::whole::<_, _, 0, { i64::MAX as u64 }>")]
    pub seed: Option<u64>,
    /// True if each run starts with its files dropped from the page cache.
    pub cold: bool,
    /// True if each run starts a fresh copy of its program.
    pub fresh_copies: bool,
    /// Processors to run on; empty for all.
    pub pin: Vec<u64>,
    /// Largest number of bytes of environment padding.
    #[serde(deserialize_with = "file::whole::<_, _, 0, 100_000>")]
    pub padding: u64,
    /// Seconds that a run may take.
    #[serde(deserialize_with = "file::seconds")]
    pub time_limit: f64,
    /// True if a run with another exit code than 0 counts.
    pub ignore_failure: bool,
    /// True if the output of the runs is passed on.
    pub show_output: bool,
    /// True if builds are judged although they print different results.
    pub ignore_output: bool,
    /// Metrics to count by perf; None for all available ones.
    pub counters: Option<Vec<String>>,
    /// Meters that run separately.
    pub meters: Vec<String>,
    /// Number of blocks in which the meters run; 0 for all.
    #[serde(deserialize_with = "file::whole::<_, _, 0, 100_000>")]
    pub meter_blocks: u32,
}

impl Default for RunPlan {
    fn default() -> Self {
        Self {
            blocks: 40,
            pilot: 7,
            time: None,
            precision: 0.005,
            warm_ups: 1,
            seed: None,
            cold: false,
            fresh_copies: false,
            pin: Vec::new(),
            padding: 4096,
            time_limit: 600.0,
            ignore_failure: false,
            show_output: false,
            ignore_output: false,
            counters: None,
            meters: Vec::new(),
            meter_blocks: 3,
        }
    }
}

/// A build.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedVariant {
    /// Its name.
    pub name: String,
    /// Its levels, sorted by factor.
    pub factors: Vec<Factor>,
    /// Flags: first those of all variants, then those of its levels, then its own.
    pub flags: String,
    /// Value of `{arguments}`.
    pub arguments: Vec<String>,
    /// Source of its programs.
    pub source: ProgramSource,
    /// Number of links.
    pub replicas: u32,
    /// Set if it is the baseline again.
    pub probe: Option<Probe>,
}

/// Source of a variant's programs.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramSource {
    /// Existing programs, one for each replica, relative to the plan's folder.
    Prebuilt(Vec<String>),
    /// Programs built by commands.
    Built {
        /// Runs once for each variant if `link` is also given, otherwise once for each replica.
        command: Option<CommandLine>,
        /// Runs once for each replica.
        link: Option<CommandLine>,
        /// Folder of the commands, relative to the plan's folder.
        folder: String,
    },
    /// Packages made by rpmbuild, which are unpacked.
    Spec {
        /// The spec, relative to the plan's folder.
        spec: String,
        /// The program within the packages.
        program: String,
    },
    /// The programs of the baseline, from this replica on: a probe has no programs of its own.
    Baseline(u32),
    /// Nothing is run, because the values are imported.
    None,
}

/// Work on which the builds are measured.
#[derive(Debug, Clone)]
pub struct PlannedWorkload {
    /// Its name.
    pub name: String,
    /// The command or server that is run.
    pub kind: WorkloadKind,
    /// Command to run before each run.
    pub prepare: Option<CommandLine>,
    /// Variables of its commands.
    pub environment: BTreeMap<String, String>,
    /// Folder of its commands, relative to the plan's folder.
    pub folder: String,
    /// The counted work: name of a unit, and place of the number.
    pub work: Option<(String, Extraction)>,
}

/// The three sorts of workload.
#[derive(Debug, Clone)]
pub enum WorkloadKind {
    /// A program that is run and ends.
    Command {
        /// The program's command.
        command: CommandLine,
        /// File for its standard input, relative to the plan's folder.
        input: Option<String>,
    },
    /// A server that another program drives.
    Server(Box<ServerPlan>),
    /// Files of each variant, by its name.
    Import(BTreeMap<String, Vec<String>>),
}

/// A server, and the program that drives it.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// The server.
    pub server: CommandLine,
    /// Test for readiness.
    pub ready: ReadyPlan,
    /// Limit for the time until it is ready, in seconds.
    pub ready_limit: f64,
    /// Drives it before the measurement.
    pub warm_up: Option<CommandLine>,
    /// Drives it during the measurement.
    pub client: CommandLine,
    /// Signal that stops it.
    pub stop: String,
    /// Limit for the time until it has stopped, in seconds.
    pub stop_limit: f64,
}

/// Test for readiness of a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyPlan {
    /// A command exits with 0.
    Command(CommandLine),
    /// `host:port` takes connections.
    Port(String),
    /// A Unix socket takes connections; relative to the plan's folder.
    Socket(String),
    /// The server prints this.
    Log(String),
}

/// Description of a metric in the plan.
#[derive(Debug, Clone)]
pub struct PlannedMetric {
    /// Its name.
    pub name: String,
    /// Direction of improvement, if given.
    pub better: Option<Direction>,
    /// Unit, if given.
    pub unit: Option<String>,
    /// Place in the workloads' output, if they print it.
    pub extraction: Option<Extraction>,
}

impl Plan {
    /// SHA-256 of the plan's text, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        hexadecimal(&Sha256::digest(self.text.as_bytes()))
    }

    /// True if nothing is run: all values come from files.
    #[must_use]
    pub fn is_import_only(&self) -> bool {
        self.workloads.iter().all(|workload| matches!(workload.kind, WorkloadKind::Import(_)))
    }
}

/// SHA-256 of a file's content, in hexadecimal.
#[must_use]
pub fn sha256(content: &[u8]) -> String {
    hexadecimal(&Sha256::digest(content))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
