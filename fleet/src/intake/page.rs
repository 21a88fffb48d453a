// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pages`]: pages of a dataset for a site, one for each package: submissions, versions, coverage, drift, the hottest functions, and the merged profile.
//! Packages, versions and functions of too few submitters are not shown. A page is made again when enough new submitters have changed its package.

use super::metrics::Metrics;
use super::published::{Publication, Published};
use super::server::Settings;
use crate::dataset::submissions::Submissions;
use crate::dataset::{Dataset, Selection};
use crate::day::Day;
use crate::errors::ErrorContext as _;
use crate::query::engine::{QueryEngine, processors};
use crate::query::merge::{Merged, Query, merge};
use crate::query::policy::Policy;
use crate::query::views::{Covered, Drift, coverage, drift};
use parking_lot::{Mutex, MutexGuard};
use sediment_core::demangle::demangled;
use sediment_core::escape::html;
use sediment_core::profile::difference::{shares, weights};
use sediment_core::profile::{Profile, text};
use sediment_core::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of functions on a page.
const HOT: usize = 50;
/// Time for which a package is not compared again with a dataset that only other programs can have changed.
const SOON: Duration = Duration::from_secs(1);
/// Memory of the pages' queries, in bytes.
const MEMORY: usize = 128 << 20;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2330;background:#fff}\
    table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #cfd5e0}\
    td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}code{overflow-wrap:anywhere}\
    @media(prefers-color-scheme:dark){body{color:#e4e8f0;background:#161a22}td,th{border-color:#3a4252}a{color:#8ab8ff}}";

/// Makes the pages of a dataset.
#[derive(Debug)]
pub(crate) struct Pages {
    dataset: String,
    min_submitters: u32,
    shipped: Option<PathBuf>,
    published: Mutex<Published>,
    metrics: Arc<Metrics>,
    /// The last comparison of each package with the dataset. The lock is held while a page is made.
    compared: tokio::sync::Mutex<HashMap<String, LastComparison>>,
}

#[derive(Debug, Clone, Copy)]
struct LastComparison {
    version: u64,
    begun: Instant,
    /// How often this intake had added to the dataset.
    additions: u64,
}

impl Pages {
    /// Pages of a dataset, with a folder of shipped profiles and a folder for published pages.
    pub(crate) fn new(settings: &Settings, published: &Path, metrics: Arc<Metrics>) -> Result<Self> {
        let published = Mutex::new(Published::open(published)?);
        let Settings { dataset, min_submitters, shipped, .. } = settings.clone();
        Ok(Self { dataset, min_submitters, shipped, published, metrics, compared: Default::default() })
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock()
    }

    /// The list of packages.
    pub(crate) async fn list(&self) -> Result<String> {
        let dataset = Dataset::open(&self.dataset).await?;
        let mut body = "<h1>Packages</h1>\n".to_owned();
        let submissions = submissions(&dataset, &Selection::default()).await?;
        let mut packages: BTreeMap<&str, HashSet<i32>> = BTreeMap::new();
        for one in &submissions.rows {
            packages.entry(submissions.text(one.package)).or_default().insert(one.submitter);
        }
        let published = self.published();
        let shown = packages.iter().map(|(package, submitters)| {
            let one = published.all().get(*package);
            (one.is_some() || submitters.len() >= self.least()).then_some((*package, one))
        });
        let shown: Vec<(&str, Option<&Publication>)> = shown.flatten().collect();
        body += &match shown.is_empty() {
            true => "<p>No package has enough submitters yet.</p>\n".to_owned(),
            false => list(&shown),
        };
        Ok(document("Packages", &body))
    }

    /// The file with the page of a package (`html`), or with its merged profile (`gv`).
    pub(crate) async fn file(self: &Arc<Self>, package: &str, end: &str) -> Result<PathBuf> {
        let (pages, name, asked) = (Arc::clone(self), package.to_owned(), Instant::now());
        // Continues if the client disconnects, so that the next client gets the page.
        let looking = tokio::spawn(async move { pages.look(&name, asked).await });
        looking.await.io()??;
        if !self.is_published(package) {
            return Err(Error::new(ErrorCode::NotFound, "nothing of this package is published")
                .with_hint("pages show what enough submitters have"));
        }
        Ok(self.published().path(package, end))
    }

    fn least(&self) -> usize {
        self.min_submitters.max(1) as usize
    }

    fn is_published(&self, package: &str) -> bool {
        self.published().all().contains_key(package)
    }

    /// Publishes a package again if necessary.
    async fn look(&self, package: &str, asked: Instant) -> Result<()> {
        let mut compared = match self.compared.try_lock() {
            Ok(compared) => compared,
            // While a page is being made, other clients get the published page.
            Err(_) if self.is_published(package) => return Ok(()),
            Err(_) => self.compared.lock().await,
        };
        let last = compared.get(package).copied();
        let additions = self.metrics.compactions_total.load(Ordering::Relaxed);
        // If many clients wait, only one checks. Its result is new enough for all that asked before, and soon afterwards.
        let is_new = |last: LastComparison| {
            last.begun >= asked || last.additions == additions && last.begun.elapsed() < SOON
        };
        if last.is_some_and(is_new) {
            return Ok(());
        }
        let begun = Instant::now();
        let dataset = Dataset::open(&self.dataset).await?;
        if last.map(|last| last.version) != Some(dataset.version) {
            let before = self.published().all().get(package).cloned();
            if let Some((one, page, profile)) = self.due(&dataset, package, before).await? {
                self.published().keep(one, &page, &profile)?;
            }
        }
        if compared.len() >= 10_000 {
            compared.clear();
        }
        compared.insert(package.to_owned(), LastComparison { version: dataset.version, begun, additions });
        Ok(())
    }

    /// A new publication with page and profile, if enough submitters changed the package.
    async fn due(
        &self,
        dataset: &Dataset,
        package: &str,
        before: Option<Publication>,
    ) -> Result<Option<(Publication, String, String)>> {
        let selection = of(package);
        let submissions = submissions(dataset, &selection).await?;
        let mut of_submitters: BTreeMap<i32, u64> = BTreeMap::new();
        for one in &submissions.rows {
            *of_submitters.entry(one.submitter).or_default() += 1;
        }
        let changed = before.map_or(of_submitters.len(), |one| one.new_submitters(&of_submitters));
        if of_submitters.len() < self.least() || changed < self.least() {
            return Ok(None);
        }
        let covered = coverage(&submissions);
        drop(submissions);
        let policy = Policy { min_submitters: self.min_submitters, ..Policy::default() };
        let engine = || QueryEngine::embedded(MEMORY, None, processors(), &dataset.store);
        let query = Query { dataset, engine: &engine()?, selection: &selection, policy: &policy };
        let merged = merge(query).await?;
        // Drift of the last 30 days from the shipped profile, if there is one.
        let since = covered.iter().map(|covered| Day(covered.days.1.0 - 29)).max();
        let recent = Selection { since, ..selection.clone() };
        let drifted = match self.shipped_profile(package)? {
            Some(shipped) => {
                let query = Query { engine: &engine()?, selection: &recent, ..query };
                Some(drift(query, &shipped).await?)
            }
            None => None,
        };
        let body = package_body(package, &covered, &merged, drifted.as_ref(), self.min_submitters);
        let one = Publication {
            package: package.to_owned(),
            submissions: of_submitters.values().sum(),
            versions: covered.iter().filter(|version| self.is_shown(version)).count() as u64,
            last: covered.iter().map(|version| version.days.1.0).max().unwrap_or(0),
            of_submitters,
        };
        Ok(Some((one, document(package, &body), text::print(&merged.profile))))
    }

    fn is_shown(&self, version: &Covered) -> bool {
        version.submitters >= u64::from(self.min_submitters)
    }

    fn shipped_profile(&self, package: &str) -> Result<Option<Profile>> {
        let name = sediment_core::escape::file_name(package);
        let Some((folder, name)) = self.shipped.as_ref().zip(name) else { return Ok(None) };
        let path = folder.join(format!("{name}.gv"));
        match std::fs::read(&path) {
            Ok(bytes) => text::parse(&bytes).map(|(profile, _)| Some(profile)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at(&path),
        }
    }
}

/// The submissions of a selection, possibly none.
async fn submissions(dataset: &Dataset, selection: &Selection) -> Result<Submissions> {
    match Submissions::of(dataset, selection).await {
        Err(error) if error.code() == ErrorCode::EmptyInput => Ok(Submissions::default()),
        found => found,
    }
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

/// Encodes a package's name for a link: characters other than letters and digits become `%` and two hexadecimal digits.
fn in_link(package: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    package
        .bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A table. The heads of columns with numbers begin with `#`.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |head: &str| if head.starts_with('#') { " class=\"n\"" } else { "" };
    let head = |head: &&str| format!("<th{}>{}</th>", class(head), head.trim_start_matches('#'));
    let row = |cells: Vec<String>| {
        let cells = heads.iter().zip(cells).map(|(head, cell)| format!("<td{}>{cell}</td>", class(head)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let heads_row: String = heads.iter().map(head).collect();
    format!("<table>\n<tr>{heads_row}</tr>\n{}</table>\n", rows.map(row).collect::<String>())
}

fn list(packages: &[(&str, Option<&Publication>)]) -> String {
    let rows = packages.iter().map(|(package, one)| {
        let text = |of: fn(&Publication) -> String| one.map_or(String::new(), of);
        vec![
            format!("<a href=\"/packages/{}\">{}</a>", in_link(package), html(package)),
            text(|one| one.submissions.to_string()),
            text(|one| one.versions.to_string()),
            text(|one| Day(one.last).to_string()),
        ]
    });
    table(&["Package", "#Submissions", "#Versions", "Last"], rows)
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
         Skipped: {} functions that fewer than {min_submitters} submitters executed.</p>\n<h2>Versions</h2>\n",
        html(package),
        in_link(package),
        merged.submissions,
        merged.profile.function_count(),
        merged.profile.edge_count(),
        merged.rare,
    );
    let (shown, others): (Vec<&Covered>, Vec<&Covered>) =
        covered.iter().partition(|version| version.submitters >= u64::from(min_submitters));
    let versions = shown.into_iter().map(|version| {
        let [submissions, submitters, classes] =
            [version.submissions, version.submitters, version.host_classes].map(|number| number.to_string());
        let days = format!("{} to {}", version.days.0, version.days.1);
        vec![html(&version.version), submissions, submitters, classes, days]
    });
    text += &table(&["Version", "#Submissions", "#Submitters", "#Host classes", "Days"], versions);
    if !others.is_empty() {
        let number = others.len();
        text += &format!("<p>{number} further versions have fewer than {min_submitters} submitters.</p>\n");
    }
    for line in &merged.aside {
        text += &format!("<p>Set aside: {}.</p>\n", html(line));
    }
    text += "<h2>Drift</h2>\n";
    match drifted {
        None => text += "<p>No shipped profile to compare with.</p>\n",
        Some(drift) => {
            let percent = |parts: u64| format!("{}.{:01} %", parts / 10_000, parts / 1000 % 10);
            let agreement = drift.agreement.map_or("unknown".to_owned(), percent);
            let loss = match drift.loss {
                Some(loss) => format!("{:+.1} %", 100.0 * (loss - 1.0)),
                None => "none: the code fits the TLB".to_owned(),
            };
            text += &format!(
                "<p>Last 30 days against the shipped profile: {agreement} agreement, {} of the calls go to functions that it lacks. \
                 Estimated iTLB misses of its order against a fresh one: {loss}.</p>\n",
                percent(drift.unknown)
            );
        }
    }
    let shares = shares(&weights(&merged.profile));
    let mut hot: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0).collect();
    hot.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let hot = hot.into_iter().take(HOT).map(|(key, share)| {
        let percent = format!("{}.{:02} %", share / 10_000_000_000_000, share / 100_000_000_000 % 100);
        let name = format!("<code>{}</code>", html(&demangled(&key.name)));
        vec![name, html(key.dso.as_deref().unwrap_or("")), percent]
    });
    text + "<h2>Hottest functions</h2>\n" + &table(&["Function", "Library", "#Calls"], hot)
}
