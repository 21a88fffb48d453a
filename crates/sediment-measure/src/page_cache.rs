// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drops a program and its libraries from the page cache, so that the next run starts cold.
//!
//! The kernel is only advised (`POSIX_FADV_DONTNEED`): pages that another process has mapped, such as those of the C library,
//! stay. No privilege is needed, and nothing else in the cache is touched.

use core::time::Duration;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_process::command::{Command, Stop, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Writes these files to the disk, because unwritten pages cannot be dropped, and drops them from the page cache.
///
/// # Errors
/// If a file cannot be opened or is on a file system in memory, or if the file system does not accept the advice.
pub fn drop_from(files: &[PathBuf]) -> Result<()> {
    for path in files {
        let failed = |error: String| {
            Error::new(ErrorCode::Io, format!("cannot be dropped from the page cache: {error}"))
                .with_input(path.display().to_string())
        };
        let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        let system = fstatfs(&file).map_err(|error| failed(error.to_string()))?.filesystem_type();
        if system == TMPFS_MAGIC {
            return Err(failed("its file system is in memory (tmpfs)".to_owned())
                .with_hint("cold runs need programs in a file system on disk"));
        }
        file.sync_all().map_err(|error| failed(error.to_string()))?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// Returns a program and the shared libraries that the dynamic linker would load for it, according to `ldd`; only the
/// program if it is static or a script.
///
/// # Errors
/// If `stop` is requested meanwhile.
pub fn program_and_libraries(program: &Path, stop: &Stop) -> Result<Vec<PathBuf>> {
    let ask = Command::new("ldd", "/", Duration::from_secs(20))
        .with_arguments([program.as_os_str()])
        .stopped_by(stop);
    let printed = match run(&ask, 64 * 1024) {
        Ok(ended) => String::from_utf8_lossy(&ended.output).into_owned(),
        Err(_) => String::new(),
    };
    stop.check()?;
    let mut files = BTreeSet::from([program.to_path_buf()]);
    files.extend(libraries(&printed).map(PathBuf::from));
    Ok(files.into_iter().collect())
}

/// Returns the paths in ldd's lines `NAME => PATH (ADDRESS)` and `PATH (ADDRESS)`.
fn libraries(printed: &str) -> impl Iterator<Item = &str> {
    printed.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
        path.starts_with('/').then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::libraries;

    #[test]
    fn libraries_are_those_with_a_path() {
        let printed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f00)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f11)\n\tlibgone.so => not found\n";
        let found: Vec<&str> = libraries(printed).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(libraries("\tnot a dynamic executable\n").count(), 0);
    }
}
