// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sediment draw` draws the most frequent calls of a profile with Graphviz' `dot`.

use crate::files;
use crate::inputs::{self, read_profile, tell_nameless};
use crate::output::WrittenOutput;
use crate::ui::Ui;
use crate::values;
use clap::Args;
use sediment_core::demangle::is_meant;
use sediment_core::profile::{FunctionIndex, Profile};
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::report::call_graph::{CallChoice, call_picture};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Draw the most frequent calls of a profile
#[derive(Debug, Args)]
#[command(
    long_about = "Draw the most frequent calls of a profile.\n\nFunctions are boxes, coloured by their share of all calls and framed by library; calls are arrows, as wide as they are frequent. --around draws the calls near a function. The picture fits a screen; the fewer calls, the larger the text."
)]
pub(crate) struct Arguments {
    /// Profile to read
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Picture to write: .svg, .png or .pdf; .gv or .dot writes the input of `dot`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Draw the calls near this function, by its linkage name or demangled; repeatable [default: the whole profile]
    #[arg(long, value_name = "FUNCTION")]
    around: Vec<String>,
    /// With --around: depth of calls to follow from the function
    #[arg(long, value_name = "COUNT", default_value_t = 2, requires = "around", value_parser = clap::value_parser!(u32).range(1..=100))]
    depth: u32,
    /// Draw only calls from or to this program or library [default: all]
    #[arg(long, value_name = "NAME")]
    dso: Option<String>,
    /// Number of calls to draw, most frequent first; 0 draws all (slow beyond 1000)
    #[arg(long, value_name = "COUNT", default_value_t = 24)]
    edges: usize,
    /// Stop `dot` after this time, above 0; accepts 90, 90s and 2m
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = values::duration)]
    time_limit: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Largest picture that is accepted from `dot`, in bytes.
const LARGEST_PICTURE: u64 = 256 << 20;

pub(crate) fn run(arguments: &Arguments, ui: &Ui) -> Result<()> {
    let format = arguments.output.extension().and_then(|e| e.to_str()).unwrap_or("svg");
    if !matches!(format, "svg" | "png" | "pdf" | "gv" | "dot") {
        return Err(Error::new(
            ErrorCode::Usage,
            format!(".{format} is not a supported picture format: use .svg, .png, .pdf or .gv"),
        ));
    }
    inputs::expect_file_for_json(arguments.json, &arguments.output)?;
    let profile = read_profile(&arguments.profile, ui)?;
    tell_nameless(&profile, &arguments.profile, "the picture shows the addresses", ui);
    let name = files::display(&arguments.profile);
    let choice = CallChoice {
        around: functions_around(&profile, arguments).map_err(|error| error.with_input(name.clone()))?,
        depth: arguments.depth,
        dso: arguments.dso.as_deref(),
        calls: arguments.edges,
    };
    if let Some(dso) = choice.dso.filter(|dso| !profile.dsos().contains_key(*dso)) {
        return Err(Error::new(ErrorCode::NotInProfile, "the profile has no such program or library")
            .with_found(dso.as_bytes())
            .with_input(name));
    }
    let picture = call_picture(&profile, &choice);
    if picture.skipped > 0 {
        ui.note(&format!(
            "drawing the {} most frequent calls, skipping {} more (--edges 0 draws all)",
            picture.drawn, picture.skipped
        ));
    }
    let picture = match format {
        "gv" | "dot" => picture.dot.into_bytes(),
        _ => dot(&picture.dot, format, arguments.time_limit)?,
    };
    files::write(&arguments.output, &picture, ui)?;
    match arguments.json {
        true => ui.json(&WrittenOutput::new([arguments.output.as_path()], ui.skipped_items())),
        false => Ok(()),
    }
}

/// Returns the functions named by --around.
fn functions_around(profile: &Profile, arguments: &Arguments) -> Result<Vec<FunctionIndex>> {
    let mut found = Vec::new();
    for typed in &arguments.around {
        let before = found.len();
        let meant = |function: &FunctionIndex| is_meant(&profile.key(*function).name, typed);
        found.extend(profile.functions().into_iter().filter(meant));
        if found.len() == before {
            return Err(Error::new(ErrorCode::NotInProfile, "the profile has no such function")
                .with_found(typed.as_bytes())
                .with_hint("to list them: sediment show PROFILE"));
        }
    }
    Ok(found)
}

/// Runs `dot` on text that this program wrote.
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
        return Err(Error::new(ErrorCode::ProgramFailed, "cannot connect to `dot`"));
    };
    let text = text.to_owned();
    // `dot` may end without reading all input: its exit status shows errors, not the pipe.
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

/// Waits for a process, and ends it at the time limit.
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
