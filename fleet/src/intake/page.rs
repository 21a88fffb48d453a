// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pages`]: what a site sees of a dataset, per package: submissions, versions, coverage, drift, the hottest functions, and the merged
//! profile. Functions of too few submitters are on no page. A page is made once for each generation of the dataset.

use crate::dataset::{Dataset, Selection};
use crate::day::Day;
use crate::query::engine::{Engine, Limits};
use crate::query::merge::{Merged, merge};
use crate::query::policy::Policy;
use crate::query::views::{Covered, Drift, coverage, drift};
use sediment_core::demangle::demangled;
use sediment_core::escape::html;
use sediment_core::profile::difference::{shares, weights};
use sediment_core::profile::{Profile, text};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use tokio::sync::{Mutex, MutexGuard};

/// Functions that a page lists.
const HOT: usize = 50;
/// Pages that are remembered.
const REMEMBERED: usize = 64;
/// Memory of the queries of pages, in bytes.
const MEMORY: usize = 512 << 20;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2330;background:#fff}\
    table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #cfd5e0}\
    td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{overflow-wrap:anywhere}\
    @media(prefers-color-scheme:dark){body{color:#e4e8f0;background:#161a22}td,th{border-color:#3a4252}a{color:#8ab8ff}}";

/// Makes pages of a dataset.
#[derive(Debug)]
pub struct Pages {
    place: String,
    min_submitters: u32,
    shipped: Option<PathBuf>,
    /// The lock also keeps queries one behind the other.
    made: Mutex<Made>,
}

/// Texts by name, of one generation.
#[derive(Debug, Default)]
struct Made {
    generation: u64,
    texts: HashMap<String, String>,
}

impl Pages {
    /// Pages of a dataset, with the folder of shipped profiles.
    #[must_use]
    pub fn new(place: &str, min_submitters: u32, shipped: Option<PathBuf>) -> Self {
        Self { place: place.to_owned(), min_submitters, shipped, made: Mutex::default() }
    }

    /// The list of packages.
    ///
    /// # Errors
    /// When the dataset cannot be read.
    pub async fn list(&self) -> Result<String> {
        let name = "/";
        let (mut made, dataset) = self.made_of_newest().await?;
        if let Some(text) = made.texts.get(name) {
            return Ok(text.clone());
        }
        let mut body = "<h1>Packages</h1>\n".to_owned();
        match coverage(&dataset, &engine(&dataset)?, &Selection::default()).await {
            Ok(covered) => body.push_str(&list(&covered)),
            Err(error) if error.code() == ErrorCode::EmptyInput => {
                body.push_str("<p>No submission yet.</p>\n")
            }
            Err(error) => return Err(error),
        }
        Ok(made.keep(name, document("Packages", &body)))
    }

    /// The page of a package.
    ///
    /// # Errors
    /// When nothing of it is there, or the dataset cannot be read.
    pub async fn package(&self, package: &str) -> Result<String> {
        let name = format!("/packages/{package}");
        let (mut made, dataset) = self.made_of_newest().await?;
        if let Some(text) = made.texts.get(&name) {
            return Ok(text.clone());
        }
        let selection = of(package);
        let covered = coverage(&dataset, &engine(&dataset)?, &selection).await?;
        let merged = merge(&dataset, &engine(&dataset)?, &selection, &self.policy()).await?;
        let drifted = self.drift(&dataset, &selection, &covered, package).await?;
        let body = package_body(package, &covered, &merged, drifted.as_ref(), self.min_submitters);
        Ok(made.keep(&name, document(package, &body)))
    }

    /// The merged profile of a package.
    ///
    /// # Errors
    /// When nothing of it is there, or the dataset cannot be read.
    pub async fn profile(&self, package: &str) -> Result<String> {
        let name = format!("/packages/{package}/profile.gv");
        let (mut made, dataset) = self.made_of_newest().await?;
        if let Some(text) = made.texts.get(&name) {
            return Ok(text.clone());
        }
        let merged = merge(&dataset, &engine(&dataset)?, &of(package), &self.policy()).await?;
        Ok(made.keep(&name, text::print(&merged.profile)))
    }

    /// The newest generation, with the texts that were made of it.
    async fn made_of_newest(&self) -> Result<(MutexGuard<'_, Made>, Dataset)> {
        let mut made = self.made.lock().await;
        let dataset = Dataset::open(&self.place).await?;
        if made.generation != dataset.manifest.generation || made.texts.len() >= REMEMBERED {
            *made = Made { generation: dataset.manifest.generation, texts: HashMap::new() };
        }
        Ok((made, dataset))
    }

    fn policy(&self) -> Policy {
        Policy { min_submitters: self.min_submitters, ..Policy::default() }
    }

    /// Drift of the last 30 days from the shipped profile, where there is one.
    async fn drift(
        &self,
        dataset: &Dataset,
        selection: &Selection,
        covered: &[Covered],
        package: &str,
    ) -> Result<Option<Drift>> {
        let Some(shipped) = self.shipped_profile(package)? else { return Ok(None) };
        let newest = covered.iter().map(|covered| covered.days.1).max();
        let since = newest.map(|newest| Day(newest.0 - 29));
        let recent = Selection { since, ..selection.clone() };
        drift(dataset, &engine(dataset)?, &recent, &self.policy(), &shipped).await.map(Some)
    }

    fn shipped_profile(&self, package: &str) -> Result<Option<Profile>> {
        let name = sediment_core::escape::file_name(package);
        let Some((folder, name)) = self.shipped.as_ref().zip(name) else { return Ok(None) };
        let path = folder.join(format!("{name}.gv"));
        match std::fs::read(&path) {
            Ok(bytes) => text::parse(&bytes).map(|(profile, _)| Some(profile)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Error::new(ErrorCode::Io, error.to_string()).with_input(path.display().to_string()))
            }
        }
    }
}

impl Made {
    fn keep(&mut self, name: &str, text: String) -> String {
        self.texts.insert(name.to_owned(), text.clone());
        text
    }
}

fn engine(dataset: &Dataset) -> Result<Engine> {
    Engine::embedded(&Limits { memory: MEMORY, ..Limits::default() }, &dataset.store)
}

fn of(package: &str) -> Selection {
    Selection { package: Some(package.to_owned()), ..Selection::default() }
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body>\n</html>\n",
        html(title)
    )
}

/// A package's name in a link: what is no letter or digit is `%` and two hexadecimal digits.
fn in_link(package: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    package
        .bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn list(covered: &[Covered]) -> String {
    let mut rows: Vec<(&str, u64, usize, Day)> = Vec::new();
    for version in covered {
        match rows.last_mut().filter(|row| row.0 == version.package) {
            Some(row) => *row = (row.0, row.1 + version.submissions, row.2 + 1, row.3.max(version.days.1)),
            None => rows.push((&version.package, version.submissions, 1, version.days.1)),
        }
    }
    let mut text = "<table>\n<tr><th>Package</th><th class=\"n\">Submissions</th><th class=\"n\">Versions</th><th>Last</th></tr>\n".to_owned();
    for (package, submissions, versions, last) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<tr><td><a href=\"/packages/{}\">{}</a></td><td class=\"n\">{submissions}</td><td class=\"n\">{versions}</td><td>{last}</td></tr>",
            in_link(package),
            html(package)
        );
    }
    text + "</table>\n"
}

fn package_body(
    package: &str,
    covered: &[Covered],
    merged: &Merged,
    drifted: Option<&Drift>,
    min_submitters: u32,
) -> String {
    let mut text = format!(
        "<h1>{}</h1>\n<p><a href=\"/packages/{}/profile.gv\" download=\"profile.gv\">Merged profile</a> of {} submissions: {} functions, {} calls and affinities. \
         Skipped: {} functions that fewer than {min_submitters} submitters executed.</p>\n",
        html(package),
        in_link(package),
        merged.submissions,
        merged.profile.function_count(),
        merged.profile.edge_count(),
        merged.rare,
    );
    text.push_str("<h2>Versions</h2>\n<table>\n<tr><th>Version</th><th class=\"n\">Submissions</th><th class=\"n\">Submitters</th><th class=\"n\">Host classes</th><th>Days</th></tr>\n");
    for version in covered {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{} to {}</td></tr>",
            html(&version.version),
            version.submissions,
            version.submitters,
            version.host_classes,
            version.days.0,
            version.days.1
        );
    }
    text.push_str("</table>\n<h2>Drift</h2>\n");
    match drifted {
        None => text.push_str("<p>No shipped profile to compare with.</p>\n"),
        Some(drift) => {
            let percent = |parts: u64| format!("{}.{:01} %", parts / 10_000, parts / 1000 % 10);
            let agreement = drift.agreement.map_or("unknown".to_owned(), percent);
            let loss = match drift.loss {
                Some(loss) => format!("{:+.1} %", 100.0 * (loss - 1.0)),
                None => "none: the code fits the TLB".to_owned(),
            };
            let _ = writeln!(
                text,
                "<p>Last 30 days against the shipped profile: {agreement} agreement, {} of the calls go to functions that it lacks. \
                 Estimated iTLB misses of its order against a fresh one: {loss}.</p>",
                percent(drift.unknown)
            );
        }
    }
    text.push_str("<h2>Hottest functions</h2>\n<table>\n<tr><th>Function</th><th>Library</th><th class=\"n\">Calls</th></tr>\n");
    let shares = shares(&weights(&merged.profile));
    let mut hot: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0).collect();
    hot.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    for (key, share) in hot.into_iter().take(HOT) {
        let _ = writeln!(
            text,
            "<tr><td><code>{}</code></td><td>{}</td><td class=\"n\">{}.{:02} %</td></tr>",
            html(&demangled(&key.name)),
            html(key.dso.as_deref().unwrap_or("")),
            share / 10_000_000_000_000,
            share / 100_000_000_000 % 100
        );
    }
    text + "</table>\n"
}
