// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds links of a build that the wrapper missed, by comparing the build's log with the wrapper's.

use crate::files;
use crate::output::Schema;
use crate::ui::Ui;
use crate::wrapper::{LINKS, LoggedLink};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::wrapper::build_log::{self, BuildLogLink};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Prints the links of a build that the wrapper did not see.
pub(super) fn run(build_log: &Path, log: &Path, json: bool, ui: &Ui) -> Result<()> {
    let text = String::from_utf8_lossy(&files::read(build_log)?).into_owned();
    let shown = build_log::links(&text);
    if shown.is_empty() {
        return Err(Error::new(ErrorCode::EmptyInput,"no link command in this log")
            .with_input(files::display(build_log))
            .with_hint(
                "print the commands of the build: make V=1, ninja -v, or cmake with CMAKE_VERBOSE_MAKEFILE=ON",
            ));
    }
    // A wrapper that saw no link writes no log.
    let seen = files::read(&log.join(LINKS)).unwrap_or_default();
    let seen = String::from_utf8_lossy(&seen);
    let seen = seen.lines().filter_map(|line| serde_json::from_str(line).ok());
    let seen: Vec<String> = seen.map(|link: LoggedLink| link.output).collect();
    let was_seen = |link: &&BuildLogLink| {
        let tail = format!("/{}", link.output.trim_start_matches("../").trim_start_matches('/'));
        seen.iter().any(|output| output.ends_with(&tail))
    };
    let missed: Vec<&BuildLogLink> = shown.iter().filter(|link| !was_seen(link)).collect();
    let outputs: BTreeMap<&str, &&BuildLogLink> =
        missed.iter().map(|link| (link.output.as_str(), link)).collect();
    if json {
        let outputs = outputs.values().map(|link| MissedLink {
            output: &link.output,
            line: link.line,
            program: &link.program,
            reason: MissedReason::of(link),
        });
        let (links, missed) = (shown.len(), missed.len());
        return ui.json(&BuildLogOutput { schema: Schema, links, missed, outputs: outputs.collect() });
    }
    let mut text =
        format!("{} links in the log, {} of them not handled by the wrapper\n", shown.len(), missed.len());
    for (output, link) in &outputs {
        let why = MissedReason::of(link).in_words();
        let _ = writeln!(text, "  {output} (line {}, {}): {why}", link.line, link.program);
    }
    ui.result(&text)
}

/// Output of `doctor --build-log FILE --json`: links that the wrapper missed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BuildLogOutput<'a> {
    schema: Schema<1>,
    /// Links in the log.
    links: usize,
    /// Links that the wrapper did not handle.
    missed: usize,
    /// The missed links, once for each output.
    outputs: Vec<MissedLink<'a>>,
}

/// A link that the wrapper did not handle.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissedLink<'a> {
    /// Linked file.
    output: &'a str,
    /// Line of the build log, from 1.
    line: u64,
    /// Program that linked.
    program: &'a str,
    reason: MissedReason,
}

/// Why the wrapper did not see a link.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum MissedReason {
    LinkerCalled,
    #[serde(rename = "no-search-path-shared")]
    NoSearchOfShared,
    #[serde(rename = "no-search-path")]
    NoSearch,
    NotActive,
}

impl MissedReason {
    fn of(link: &BuildLogLink) -> Self {
        match (link.by_linker, link.search.is_empty()) {
            (true, _) => Self::LinkerCalled,
            (false, true) if link.shared => Self::NoSearchOfShared,
            (false, true) => Self::NoSearch,
            (false, false) => Self::NotActive,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::LinkerCalled => "the build calls the linker directly: pass LD=DIR/ld to make, or similar",
            Self::NoSearchOfShared => {
                "the compiler got no -B: libtool drops LDFLAGS' -B for shared libraries; put it into CC and CXX"
            }
            Self::NoSearch => "the compiler got no -B: put it into CC and CXX",
            Self::NotActive => {
                "the compiler got -B, but PROF_DIR or SEDIMENT_LOG was not set, or the folder has no wrapper with the linker's name"
            }
        }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<BuildLogOutput<'_>>("doctor-build-log");
}
