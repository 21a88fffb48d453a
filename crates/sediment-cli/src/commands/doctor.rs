// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment doctor`: reports recording methods of this machine and links that the wrapper missed.

use crate::files;
use crate::ui::Ui;
use crate::wrapper::LINKS;
use clap::Args;
use sediment::record::RECORDERS;
use sediment::wrapper::build_log::{self, Link};
use sediment::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Report which recording methods work on this machine, or which links of a build the wrapper missed
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Build log to check for links that the wrapper did not handle [default: none]
    #[arg(long, value_name = "FILE")]
    build_log: Option<PathBuf>,
    /// Log folder of the wrapper during that build [default: $SEDIMENT_LOG]
    #[arg(long, value_name = "DIR", requires = "build_log")]
    log: Option<PathBuf>,
}

/// The links of a build that the wrapper did not see.
fn missed_links(build_log: &Path, log: &Path, ui: &Ui) -> Result<()> {
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
    let mut text =
        format!("{} links in the log, {} of them not handled by the wrapper\n", shown.len(), missed.len());
    for (output, link) in &outputs {
        let why = if link.by_linker {
            "the build calls the linker itself: set make LD=DIR/ld or similar"
        } else if link.search.is_empty() && link.shared {
            "the compiler got no -B: libtool drops LDFLAGS' -B for shared libraries; put it into CC and CXX"
        } else if link.search.is_empty() {
            "the compiler got no -B: put it into CC and CXX"
        } else {
            "the compiler got -B, but PROF_DIR or SEDIMENT_LOG was not set, or the folder has no wrapper of the linker's name"
        };
        let _ = writeln!(text, "  {output} (line {}, {}): {why}", link.line, link.program);
    }
    ui.result(&text)
}

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    if let Some(build_log) = &arguments.build_log {
        let log = arguments.log.clone().or_else(|| std::env::var_os("SEDIMENT_LOG").map(PathBuf::from));
        let log = log.ok_or_else(|| {
            Error::new(
                ErrorCode::Usage,
                "the wrapper's log folder is unknown: give --log DIR or set SEDIMENT_LOG",
            )
        })?;
        return missed_links(build_log, &log, ui);
    }
    let mut text = String::from("Recording methods, best first:\n");
    let mut chosen = false;
    for recorder in RECORDERS {
        let works = (recorder.available)();
        let mark = match &works {
            Ok(()) if !chosen => "works, default of `sediment record`",
            Ok(()) => "works",
            Err(_) => "not available",
        };
        chosen |= works.is_ok();
        let _ = writeln!(
            text,
            "\n  {}: {mark}\n    {}; lacks {}",
            recorder.name, recorder.summary, recorder.lacks
        );
        if let Err(why) = works {
            let _ = writeln!(text, "    reason: {why}");
            for line in why.hint().into_iter().flat_map(str::lines) {
                let _ = writeln!(text, "    to enable: {line}");
            }
        }
    }
    ui.result(&text)
}
