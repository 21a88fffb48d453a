// SPDX-License-Identifier: MIT OR Apache-2.0
//! `merge`, `coverage`, `drift` and `outliers`.

use super::SelectionOptions;
use clap::Args;
use sediment_core::escape::terminal;
use sediment_core::profile::merge::Weight;
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode, Result};
use sediment_fleet::dataset::Dataset;
use sediment_fleet::dataset::submissions::Submissions;
use sediment_fleet::day::Day;
use sediment_fleet::query::engine::{Engine, Limits};
use sediment_fleet::query::merge as merging;
use sediment_fleet::query::policy::Policy;
use sediment_fleet::query::views;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Limits of the query engine.
#[derive(Debug, Args)]
struct EngineOptions {
    /// Memory of the query engine in MiB; further data is spilled to disk
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    /// Folder for spilled data [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Scheduler of a cluster that runs the query, in one task for each thread [default: this process runs the query]
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Option<String>,
    /// Send a query again if the cluster has not answered after this number of seconds, for example because an executor died; three attempts in all
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    retry_after: u64,
}

impl EngineOptions {
    fn engine(&self, dataset: &Dataset) -> Result<Engine> {
        #[cfg(feature = "cluster")]
        if let Some(scheduler) = &self.cluster {
            let tasks = self.threads.unwrap_or(Limits::default().threads);
            let retry_after = std::time::Duration::from_secs(self.retry_after);
            return sediment_fleet::cluster::connect(scheduler, tasks, &dataset.store, retry_after);
        }
        let limits = Limits {
            memory: self.memory << 20,
            spill: self.spill.clone(),
            threads: self.threads.unwrap_or(Limits::default().threads),
        };
        Engine::embedded(&limits, &dataset.store)
    }
}

/// Selection and weights of submissions.
#[derive(Debug, Args)]
struct PolicyOptions {
    /// Give all recordings the same weight, like `sediment merge` [default: all submitters have the same weight, once for each version]
    #[arg(long)]
    by_recordings: bool,
    /// Weight of a version; repeatable [default: 1]
    #[arg(long = "weigh-version", value_name = "VERSION=WEIGHT", value_parser = weighed)]
    weigh_versions: Vec<(String, Weight)>,
    /// Weight of a host class; repeatable [default: 1]
    #[arg(long = "weigh-host-class", value_name = "CLASS=WEIGHT", value_parser = weighed)]
    weigh_host_classes: Vec<(String, Weight)>,
    /// Halve the weight of a submission after this number of days [default: age does not matter]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    half_life: Option<u32>,
    /// Day from which ages are counted [default: the newest selected day]
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = super::day)]
    until: Option<Day>,
    /// Count at most this number of recordings of each submitter, the newest [default: all]
    #[arg(long, value_name = "COUNT")]
    cap: Option<u32>,
    /// Count at most this number of recordings of each class of hosts, the newest [default: all]
    #[arg(long, value_name = "COUNT")]
    cap_host_class: Option<u32>,
    /// Skip functions that fewer submitters executed
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    min_submitters: u32,
}

impl PolicyOptions {
    fn policy(&self) -> Policy {
        let map = |list: &[(String, Weight)]| list.iter().cloned().collect::<BTreeMap<_, _>>();
        Policy {
            by_recordings: self.by_recordings,
            versions: map(&self.weigh_versions),
            host_classes: map(&self.weigh_host_classes),
            half_life: self.half_life,
            until: self.until,
            cap_submitter: self.cap,
            cap_host_class: self.cap_host_class,
            min_submitters: self.min_submitters,
        }
    }
}

fn weighed(text: &str) -> std::result::Result<(String, Weight), String> {
    let (name, weight) = text.rsplit_once('=').ok_or("no `=` in it")?;
    Ok((name.to_owned(), Weight::parse(weight).map_err(|error| error.to_string())?))
}

/// A dataset, the selected part of it, and the engine that reads it.
#[derive(Debug, Args)]
struct Source {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    #[command(flatten)]
    selection: SelectionOptions,
    #[command(flatten)]
    engine: EngineOptions,
}

impl Source {
    async fn open(&self) -> Result<(Dataset, Engine)> {
        let dataset = Dataset::open(&self.dataset).await?;
        let engine = self.engine.engine(&dataset)?;
        Ok((dataset, engine))
    }
}

#[derive(Debug, Args)]
pub(crate) struct MergeOptions {
    #[command(flatten)]
    source: Source,
    /// File to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "explain")]
    output: Option<PathBuf>,
    /// Print the query and its plan, and do not write a file
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    policy: PolicyOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CoverageOptions {
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Args)]
pub(crate) struct DriftOptions {
    #[command(flatten)]
    source: Source,
    /// Shipped profile
    shipped: PathBuf,
    #[command(flatten)]
    policy: PolicyOptions,
}

#[derive(Debug, Args)]
pub(crate) struct OutlierOptions {
    #[command(flatten)]
    source: Source,
    /// Number of submitters to list
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    most: usize,
}

pub(crate) async fn merge(options: &MergeOptions) -> Result<()> {
    let (dataset, engine) = options.source.open().await?;
    let (selection, policy) = (options.source.selection.selection(), options.policy.policy());
    if options.explain {
        println!("{}", merging::explain(&dataset, &engine, &selection, &policy).await?);
        return Ok(());
    }
    let merged = merging::merge(&dataset, &engine, &selection, &policy).await?;
    let Some(output) = &options.output else { return Ok(()) };
    write(output, text::print(&merged.profile).as_bytes())?;
    println!(
        "merged {} submissions: {} functions, {} edges -> {}",
        merged.submissions,
        merged.profile.function_count(),
        merged.profile.edge_count(),
        output.display()
    );
    if merged.capped > 0 {
        println!("skipped by caps: {} submissions", merged.capped);
    }
    if merged.rare > 0 {
        println!(
            "skipped {} functions of fewer than {} submitters",
            merged.rare, options.policy.min_submitters
        );
    }
    for line in &merged.aside {
        println!("set aside {line}");
    }
    if merged.classes.len() > 1 {
        println!("weight classes: {}", merged.classes.len());
    }
    Ok(())
}

pub(crate) async fn coverage(options: &CoverageOptions) -> Result<()> {
    let dataset = Dataset::open(&options.source.dataset).await?;
    let submissions = Submissions::of(&dataset, &options.source.selection.selection()).await?;
    println!("package\tversion\tsubmissions\tsubmitters\thost classes\trecordings\tfirst day\tlast day");
    for found in views::coverage(&submissions) {
        println!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            terminal(&found.package),
            terminal(&found.version),
            found.submissions,
            found.submitters,
            found.host_classes,
            found.recordings,
            found.days.0,
            found.days.1
        );
    }
    Ok(())
}

pub(crate) async fn drift(options: &DriftOptions) -> Result<()> {
    let name = options.shipped.display().to_string();
    let bytes = std::fs::read(&options.shipped)
        .map_err(|error| Error::new(ErrorCode::Io, error.to_string()).with_input(name.clone()))?;
    let (shipped, _skipped) = text::parse(&bytes).map_err(|error| error.with_input(name))?;
    let (dataset, engine) = options.source.open().await?;
    let found = views::drift(
        &dataset,
        &engine,
        &options.source.selection.selection(),
        &options.policy.policy(),
        &shipped,
    )
    .await?;
    let percent = |parts: u64| format!("{:.1} %", parts as f64 / 10_000.0);
    println!("submissions compared: {}", found.submissions);
    println!("agreement: {}", found.agreement.map_or("unknown".to_owned(), percent));
    println!("calls into functions that the shipped profile lacks: {}", percent(found.unknown));
    match found.loss {
        None => println!("estimated iTLB misses: the code fits the TLB, so a new profile gains nothing"),
        Some(loss) => println!(
            "estimated iTLB misses of the shipped order against a fresh one: {:+.1} % ({loss:.3})",
            100.0 * (loss - 1.0)
        ),
    }
    Ok(())
}

pub(crate) async fn outliers(options: &OutlierOptions) -> Result<()> {
    let (dataset, engine) = options.source.open().await?;
    let found = views::outliers(&dataset, &engine, &options.source.selection.selection()).await?;
    println!("submitter\tagreement\tshare of all calls\tmark");
    for outlier in found.iter().take(options.most) {
        println!(
            "{}\t{:.1} %\t{:.3} %\t{}",
            outlier.submitter,
            outlier.agreement as f64 / 10_000.0,
            outlier.share as f64 / 10_000.0,
            if outlier.is_marked { "outlier" } else { "" }
        );
    }
    Ok(())
}

/// Writes a file completely or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The permissions of a new file, by the umask of the process.
    let mode = std::fs::Permissions::from_mode(0o666);
    let written = tempfile::Builder::new().permissions(mode).tempfile_in(folder).and_then(|mut file| {
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)
    });
    written
        .map(drop)
        .map_err(|error| Error::new(ErrorCode::Io, error.to_string()).with_input(path.display().to_string()))
}
