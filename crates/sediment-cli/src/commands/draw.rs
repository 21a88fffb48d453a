// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment draw`: the most frequent calls of a profile as a picture, by Graphviz' `dot`.

use crate::files;
use crate::inputs::{read_profile, tell_nameless};
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment::demangle::demangled;
use sediment::profile::{self, Profile};
use sediment::{Error, ErrorCode, Result};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Draw the most frequent calls of a profile
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Profile to read
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Picture to write: .svg, .png or .pdf; .gv writes the input of `dot`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Number of calls to draw, most frequent first; 0 draws all (slow beyond 1000)
    #[arg(long, value_name = "COUNT", default_value_t = 150)]
    edges: usize,
    /// Stop `dot` after this time, above 0; accepts 90, 90s and 2m
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = values::duration)]
    time_limit: Duration,
}

/// The largest picture that is taken from `dot`, in bytes.
const LARGEST_PICTURE: u64 = 256 << 20;

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let format = arguments.output.extension().and_then(|e| e.to_str()).unwrap_or("svg");
    if !matches!(format, "svg" | "png" | "pdf" | "gv" | "dot") {
        return Err(Error::new(
            ErrorCode::Usage,
            format!(".{format} is not a supported picture format: use .svg, .png, .pdf or .gv"),
        ));
    }
    let profile = read_profile(&arguments.profile, ui)?;
    tell_nameless(&profile, &arguments.profile, "draws", ui);
    let part = most_frequent(&profile, arguments.edges);
    let dropped = profile.edge_count() - part.edge_count();
    if dropped > 0 {
        ui.note(&format!(
            "drawing the {} most frequent calls, skipping {dropped} more (--edges 0 draws all)",
            part.edge_count()
        ));
    }
    if matches!(format, "gv" | "dot") {
        return files::write(&arguments.output, profile::text::print(&part).as_bytes(), ui);
    }
    let picture = dot(&profile::text::print(&for_people(&part)), format, arguments.time_limit)?;
    files::write(&arguments.output, &picture, ui)
}

/// The profile with only its `limit` most frequent edges and their functions.
fn most_frequent(profile: &Profile, limit: usize) -> Profile {
    let mut edges = profile.edges();
    edges.sort_by_key(|(_, _, facts)| std::cmp::Reverse((facts.count, facts.affinity)));
    if limit > 0 {
        edges.truncate(limit);
    }
    let mut part = Profile::default();
    part.unit = profile.unit;
    part.total = profile.total;
    for (caller, callee, facts) in edges {
        let caller = part.function(profile.key(caller).clone());
        let callee = part.function(profile.key(callee).clone());
        *part.edge_mut(caller, callee) = *facts;
    }
    part
}

/// The profile with demangled names, but where two functions would have the same one.
fn for_people(profile: &Profile) -> Profile {
    let mut shown = profile.clone();
    for function in profile.functions() {
        let name = demangled(&profile.key(function).name).into_owned();
        shown.rename(function, &name);
    }
    shown
}

/// Runs `dot` on a text of our own.
fn dot(text: &str, format: &str, limit: Duration) -> Result<Vec<u8>> {
    let mut child = Command::new("dot")
        .arg(format!("-T{format}"))
        .current_dir(Path::new("/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            Error::new(ErrorCode::Unsupported, format!("cannot start `dot`: {error}"))
                .with_hint("install the package graphviz, or write a .gv file")
        })?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::new(ErrorCode::ProgramFailed, "`dot` has no pipes"));
    };
    let text = text.to_owned();
    // `dot` may end without reading everything: its exit status tells, not the pipe.
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let reader = std::thread::spawn(move || {
        let mut picture = Vec::new();
        output.take(LARGEST_PICTURE + 1).read_to_end(&mut picture).map(|_| picture)
    });
    let status = wait(&mut child, limit)?;
    let _ = writer.join();
    let picture = reader.join().map_err(|_| Error::new(ErrorCode::Io, "cannot read the picture"))?.map_err(
        |error| Error::new(ErrorCode::TooLarge, format!("cannot read the picture from `dot`: {error}")),
    )?;
    if picture.len() as u64 > LARGEST_PICTURE {
        return Err(Error::new(ErrorCode::TooLarge, "the picture is larger than 256 MiB")
            .with_hint("draw fewer calls: --edges COUNT"));
    }
    if !status.success() || picture.is_empty() {
        return Err(Error::new(ErrorCode::ProgramFailed, format!("`dot` failed ({status})")));
    }
    Ok(picture)
}

/// Waits for a process, and ends it when the time is over.
fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus> {
    let failed = |error: std::io::Error| Error::new(ErrorCode::Io, format!("cannot wait for `dot`: {error}"));
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if started.elapsed() > limit {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(Error::new(
                ErrorCode::ProgramFailed,
                format!("`dot` took longer than {} s", limit.as_secs()),
            )
            .with_hint("draw fewer calls (--edges COUNT) or allow more time (--time-limit SECONDS)"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
