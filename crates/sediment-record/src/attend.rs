// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program of a recorder with our standard streams, until it ends or is stopped.

use super::{RecordingJob, RecordingProgress, Until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::Outcome;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval between two checks whether the program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the program. `ends_on_interrupt`: SIGINT ends its recording and keeps it.
pub(super) fn attend(
    mut command: Command,
    job: &mut RecordingJob<'_>,
    ends_on_interrupt: bool,
) -> Result<Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorCode::Unsupported, format!("{name}: program not found"))
        }
        _ => Error::new(ErrorCode::ProgramFailed, format!("{name}: cannot start: {error}")),
    })?;
    let begun = Instant::now();
    let mut asked = false;
    loop {
        let ended = child
            .try_wait()
            .map_err(|error| Error::new(ErrorCode::Io, format!("{name}: cannot wait: {error}")))?;
        if let Some(status) = ended {
            return Ok(match (status.code(), status.signal()) {
                (Some(code), _) => Outcome::Exited(code),
                (None, signal) => Outcome::Signalled(signal.unwrap_or_default()),
            });
        }
        let elapsed = begun.elapsed();
        let late = matches!(job.settings.until, Until::After(limit) if elapsed >= limit);
        if !asked && (late || job.settings.stop.asked()) {
            asked = true;
            let signal = if ends_on_interrupt { Signal::SIGINT } else { Signal::SIGTERM };
            // If it has ended meanwhile, the next check finds that.
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
        }
        (job.watch)(RecordingProgress { elapsed, waiting: false });
        sleep(LOOK);
    }
}
