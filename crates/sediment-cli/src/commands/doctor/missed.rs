// SPDX-License-Identifier: MIT OR Apache-2.0
//! The links of a build that the wrapper missed, by the build's log and the wrapper's.

use crate::files;
use crate::ui::Ui;
use crate::wrapper::LINKS;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::wrapper::build_log::{self, Link};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The links of a build that the wrapper did not see.
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
    let seen = match files::read(&log.join(LINKS)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes)
            .lines()
            .filter_map(|line| {
                serde_json::from_str::<serde_json::Value>(line).ok()?["output"].as_str().map(str::to_owned)
            })
            .collect(),
        // A wrapper that saw nothing leaves nothing.
        Err(_) => Vec::new(),
    };
    let was_seen = |link: &&Link| {
        let tail = format!("/{}", link.output.trim_start_matches("../").trim_start_matches('/'));
        seen.iter().any(|output| output.ends_with(&tail))
    };
    let missed: Vec<&Link> = shown.iter().filter(|link| !was_seen(link)).collect();
    let outputs: BTreeMap<&str, &&Link> = missed.iter().map(|link| (link.output.as_str(), link)).collect();
    if json {
        let rows = outputs.iter().map(|(output, link)| {
            json!({ "output": output, "line": link.line, "program": link.program, "reason": Reason::of(link).code() })
        });
        let rows: Vec<Value> = rows.collect();
        return ui
            .json(&json!({ "schema": 1, "links": shown.len(), "missed": missed.len(), "outputs": rows }));
    }
    let mut text =
        format!("{} links in the log, {} of them not handled by the wrapper\n", shown.len(), missed.len());
    for (output, link) in &outputs {
        let why = Reason::of(link).in_words();
        let _ = writeln!(text, "  {output} (line {}, {}): {why}", link.line, link.program);
    }
    ui.result(&text)
}

/// Why the wrapper did not see a link.
#[derive(Debug, Clone, Copy)]
enum Reason {
    LinkerCalled,
    NoSearchOfShared,
    NoSearch,
    NotActive,
}

impl Reason {
    fn of(link: &Link) -> Self {
        match (link.by_linker, link.search.is_empty()) {
            (true, _) => Self::LinkerCalled,
            (false, true) if link.shared => Self::NoSearchOfShared,
            (false, true) => Self::NoSearch,
            (false, false) => Self::NotActive,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::LinkerCalled => "linker-called",
            Self::NoSearchOfShared => "no-search-path-shared",
            Self::NoSearch => "no-search-path",
            Self::NotActive => "not-active",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::LinkerCalled => "the build calls the linker itself: set make LD=DIR/ld or similar",
            Self::NoSearchOfShared => {
                "the compiler got no -B: libtool drops LDFLAGS' -B for shared libraries; put it into CC and CXX"
            }
            Self::NoSearch => "the compiler got no -B: put it into CC and CXX",
            Self::NotActive => {
                "the compiler got -B, but PROF_DIR or SEDIMENT_LOG was not set, or the folder has no wrapper of the linker's name"
            }
        }
    }
}
