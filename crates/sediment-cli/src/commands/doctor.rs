// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment doctor`: what this machine can record, and what would allow more; what of a build the linker's wrapper did not see.

use crate::files;
use crate::ui::Ui;
use crate::wrapper::LINKS;
use clap::Args;
use sediment::record::RECORDERS;
use sediment::wrapper::build_log::{self, Link};
use sediment::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Say what this machine can record, and what would allow more; or which links of a build were missed
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What a build printed: say which of its links the linker's wrapper did not see, and why
    #[arg(long, value_name = "FILE")]
    build_log: Option<PathBuf>,
    /// What the wrapper left in this folder during that build; else the one that SEDIMENT_LOG names
    #[arg(long, value_name = "FOLDER", requires = "build_log")]
    log: Option<PathBuf>,
}

/// The links of a build that the wrapper did not see.
fn missed_links(build_log: &Path, log: &Path, ui: &Ui) -> Result<()> {
    let text = String::from_utf8_lossy(&files::read(build_log)?).into_owned();
    let shown = build_log::links(&text);
    if shown.is_empty() {
        return Err(Error::failed("no command that links is in this log")
            .with_input(files::display(build_log))
            .with_hint(
                "have the build print its commands: make V=1, ninja -v, cmake with CMAKE_VERBOSE_MAKEFILE=ON",
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
        format!("{} links in the log, {} of them not seen by the wrapper\n", shown.len(), missed.len());
    for (output, link) in &outputs {
        let why = if link.by_linker {
            "the linker itself is called: make LD=FOLDER/ld, or its like"
        } else if link.search.is_empty() && link.shared {
            "the compiler got no -B: libtool drops that of LDFLAGS for shared libraries, put it into CC and CXX"
        } else if link.search.is_empty() {
            "the compiler got no -B: put it into CC and CXX"
        } else {
            "the compiler got -B, but PROF_DIR or SEDIMENT_LOG were not set, or its linker has another name than those in the folder"
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
                ErrorKind::Usage,
                "where the wrapper left its log is not said: --log FOLDER, or SEDIMENT_LOG",
            )
        })?;
        return missed_links(build_log, &log, ui);
    }
    let mut text = String::from("Recording, the best first:\n");
    let mut chosen = false;
    for recorder in RECORDERS {
        let works = (recorder.available)();
        let mark = match &works {
            Ok(()) if !chosen => "works, and is what `sediment record` takes",
            Ok(()) => "works",
            Err(_) => "does not work",
        };
        chosen |= works.is_ok();
        let _ = writeln!(
            text,
            "\n  {}: {mark}\n    {}; without {}",
            recorder.name, recorder.summary, recorder.lacks
        );
        if let Err(why) = works {
            let _ = writeln!(text, "    why: {why}");
            for line in why.hint().into_iter().flat_map(str::lines) {
                let _ = writeln!(text, "    to allow it: {line}");
            }
        }
    }
    ui.result(&text)
}
