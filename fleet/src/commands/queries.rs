// SPDX-License-Identifier: MIT OR Apache-2.0
//! `merge`, `coverage`, `drift` and `outliers`.

use crate::dataset::submissions::Submissions;
use crate::dataset::{Dataset, Selection};
use crate::errors::{ErrorContext as _, write_file};
use crate::query::engine::{EngineOptions, QueryEngine};
use crate::query::merge::{Query, explain};
use crate::query::policy::Policy;
use crate::query::views;
use clap::Args;
use sediment_core::Result;
use sediment_core::escape::terminal;
use sediment_core::profile::text;
use std::path::PathBuf;

/// A dataset, the selected part of it, and the engine that reads it.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// Folder, or s3://BUCKET/PREFIX
    dataset: String,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    engine: EngineOptions,
}

impl Source {
    async fn open(&self) -> Result<(Dataset, QueryEngine)> {
        let dataset = Dataset::open(&self.dataset).await?;
        let engine = self.engine.engine(&dataset.store)?;
        Ok((dataset, engine))
    }
}

#[derive(Debug, Args)]
pub(super) struct FleetMergeOptions {
    #[command(flatten)]
    source: Source,
    /// File to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "explain")]
    output: Option<PathBuf>,
    /// Print the query and its plan, and do not write a file
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    policy: Policy,
}

#[derive(Debug, Args)]
pub(super) struct DriftOptions {
    #[command(flatten)]
    source: Source,
    /// Shipped profile
    shipped: PathBuf,
    #[command(flatten)]
    policy: Policy,
}

#[derive(Debug, Args)]
pub(super) struct OutlierOptions {
    #[command(flatten)]
    source: Source,
    /// Number of submitters to list
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    most: usize,
}

pub(super) async fn merge(options: &FleetMergeOptions) -> Result<()> {
    let (dataset, engine) = options.source.open().await?;
    let (selection, policy) = (&options.source.selection, &options.policy);
    let query = Query { dataset: &dataset, engine: &engine, selection, policy };
    if options.explain {
        println!("{}", explain(query).await?);
        return Ok(());
    }
    let merged = crate::query::merge::merge(query).await?;
    let Some(output) = &options.output else { return Ok(()) };
    write_file(output, text::print(&merged.profile).as_bytes())?;
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
        println!("skipped {} functions of fewer than {} submitters", merged.rare, policy.min_submitters);
    }
    for line in &merged.aside {
        println!("set aside {line}");
    }
    if merged.classes > 1 {
        println!("weight classes: {}", merged.classes);
    }
    Ok(())
}

pub(super) async fn coverage(source: &Source) -> Result<()> {
    let dataset = Dataset::open(&source.dataset).await?;
    let submissions = Submissions::of(&dataset, &source.selection).await?;
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

pub(super) async fn drift(options: &DriftOptions) -> Result<()> {
    let bytes = std::fs::read(&options.shipped).at(&options.shipped)?;
    let shipped = text::parse(&bytes);
    let (shipped, _skipped) =
        shipped.map_err(|error| error.with_input(options.shipped.display().to_string()))?;
    let (dataset, engine) = options.source.open().await?;
    let (selection, policy) = (&options.source.selection, &options.policy);
    let query = Query { dataset: &dataset, engine: &engine, selection, policy };
    let found = views::drift(query, &shipped).await?;
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

pub(super) async fn outliers(options: &OutlierOptions) -> Result<()> {
    let (dataset, engine) = options.source.open().await?;
    let found = views::outliers(&dataset, &engine, &options.source.selection).await?;
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
