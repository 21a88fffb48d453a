// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only place that opens files: inputs, whose names are in errors; outputs, which are written completely or not at
//! all; and (`system`) further files that the library requests.

use object::elf;
use sediment_core::{Error, ErrorCode, Result, escape};
use sediment_read::read::Input;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ui::Ui;

mod appended;
mod debug;
mod journal;
mod system;
mod temporary;
pub(crate) use appended::append_line;
pub(crate) use debug::{DEBUGINFOD, DebugSources};
pub(crate) use journal::JournalFile;
pub(crate) use system::SystemFiles;
pub(crate) use temporary::{TemporaryFolder, Workshop};

/// Name of standard input and output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// Limit for a stream of unknown size (a pipe, a device, a file of /proc), which may be endless.
const LONGEST_STREAM: u64 = 256 << 20;

/// Reads a whole file into memory, or standard input for `-`. An endless stream is an error.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    let file = if path == Path::new(STANDARD_STREAM) {
        std::io::stdin().as_fd().try_clone_to_owned().map(fs::File::from)
    } else {
        fs::File::open(path)
    };
    let file = file.map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    let size = if found.is_file() { found.len() } else { 0 };
    let most = size.max(LONGEST_STREAM);
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX));
    room.map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        let read = most >> 20;
        let error = Error::new(
            ErrorCode::TooLarge,
            format!("longer than {read} MiB: pipes and devices are read up to this limit"),
        );
        return Err(error.with_input(display(path)).with_hint("write it to a file first, and give the file"));
    }
    Ok(bytes)
}

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let error = match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorCode::NotFound, "no such file"),
        std::io::ErrorKind::IsADirectory => Error::new(ErrorCode::Io, "a folder, not a file"),
        _ => Error::new(ErrorCode::Io, format!("cannot be read: {error}")),
    };
    error.with_input(display(path))
}

/// As [`read`], only for a regular file or standard input, because a device may be endless.
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>> {
    expect_regular(path)?;
    read(path)
}

/// Reads a regular file of at most `most` bytes without waiting. Refuses a pipe or a device without opening it, because
/// its writer would notice.
pub(crate) fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    expect_regular(path)?;
    // It may have become a pipe meanwhile.
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    if !found.is_file() {
        return Err(no_file(path));
    }
    let mut bytes = Vec::new();
    if found.len() <= most {
        let room = bytes.try_reserve_exact(usize::try_from(found.len()).unwrap_or(usize::MAX));
        room.map_err(|_| failed(std::io::ErrorKind::OutOfMemory.into()))?;
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    }
    if found.len() > most || bytes.len() as u64 > most {
        return Err(Error::new(ErrorCode::TooLarge, format!("longer than the limit of {most} bytes"))
            .with_input(display(path)));
    }
    Ok(bytes)
}

fn no_file(path: &Path) -> Error {
    Error::new(ErrorCode::Io, "a device or pipe, not a regular file").with_input(display(path))
}

/// Fails if the path exists but is neither a file nor a folder.
pub(crate) fn expect_regular(path: &Path) -> Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(no_file(path));
    }
    Ok(())
}

/// A recording to read: a file, or bytes from a pipe. Long input from a pipe is stored in a temporary file.
#[derive(Debug)]
pub(crate) enum RecordingSource {
    File(fs::File, u64),
    Memory(Vec<u8>),
}

impl RecordingSource {
    /// Opens a file without reading it; reads a pipe, or standard input for `-`, to its end.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new(STANDARD_STREAM) {
            return Self::spooled(std::io::stdin().lock(), path);
        }
        if path.is_dir() {
            return Err(folder_of_recordings(path));
        }
        let failed = |error: std::io::Error| unreadable(path, &error);
        let file = fs::File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.is_file() { Ok(RecordingSource::File(file, found.len())) } else { Self::spooled(file, path) }
    }

    /// Time of the last write to the file, in nanoseconds since 1970; `None` for a stream.
    pub(crate) fn written(&self) -> Option<u128> {
        let RecordingSource::File(file, _) = self else { return None };
        let about = file.metadata().ok()?;
        // A stored stream has no name.
        let written = (about.nlink() > 0).then(|| about.modified().ok()).flatten()?;
        Some(written.duration_since(std::time::UNIX_EPOCH).ok()?.as_nanos())
    }

    /// Reads a stream to its end. Data beyond a few megabytes goes to a file without a name in the folder for temporary
    /// files (`TMPDIR`), which disappears with the process.
    fn spooled(mut stream: impl Read, path: &Path) -> Result<Self> {
        const IN_MEMORY: u64 = 16 << 20;
        let mut bytes = Vec::new();
        let begun = stream.by_ref().take(IN_MEMORY).read_to_end(&mut bytes);
        begun.map_err(|error| unreadable(path, &error))?;
        if (bytes.len() as u64) < IN_MEMORY {
            return Ok(RecordingSource::Memory(bytes));
        }
        let mut spool = || -> std::io::Result<(fs::File, u64)> {
            let mut file = tempfile::tempfile()?;
            file.write_all(&bytes)?;
            let more = std::io::copy(&mut stream, &mut file)?;
            Ok((file, IN_MEMORY + more))
        };
        let (file, length) = spool().map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot be kept in a temporary file: {error}"))
                .with_input(display(path))
                .with_hint("set TMPDIR to a folder with more space, or write it to a file first")
        })?;
        Ok(RecordingSource::File(file, length))
    }
}

impl Input for RecordingSource {
    fn length(&self) -> u64 {
        match self {
            RecordingSource::File(_, length) => *length,
            RecordingSource::Memory(bytes) => bytes.length(),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            RecordingSource::File(file, _) => file.read_at(buffer, offset),
            RecordingSource::Memory(bytes) => bytes.read_at(offset, buffer),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            RecordingSource::File(..) => None,
            RecordingSource::Memory(bytes) => bytes.bytes(),
        }
    }
}

/// Error for a folder in place of a recording, with the files to read instead.
fn folder_of_recordings(path: &Path) -> Error {
    let shown = display(path);
    let error = if path.join("data").is_file() && path.join("data.0").is_file() {
        Error::new(ErrorCode::Io,"a folder, as from perf record --threads").with_hint(format!(
            "join its files first: perf inject -i {shown} -o joined; then import joined/data. If recorded with -z: perf script --no-inline --no-demangle -i {shown} > samples.txt (fields for branch records: docs/formats/perf-script.md)"
        ))
    } else {
        Error::new(ErrorCode::Io, "a folder, not a profiler's file")
            .with_hint("name the files in it that belong to one run")
    };
    error.with_input(shown)
}

/// Returns the parts of a recording that callgrind wrote next to a file, in order: `NAME.1` for dumps, `NAME-01` for
/// threads, `NAME.1-01` for both. Skips empty ones.
pub(crate) fn siblings(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let folder_path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder_path) else { return Vec::new() };
    let mut found: Vec<((u64, u64), PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|found| found.is_file() && found.len() > 0))
        .filter_map(|entry| {
            let part = part_of(entry.file_name().to_str()?.strip_prefix(name)?)?;
            Some((part, folder.join(entry.file_name())))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Parses the numbers of dump and thread in callgrind's addition to the name of a file; 0 for none.
fn part_of(addition: &str) -> Option<(u64, u64)> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if plain { digits.parse::<u64>().ok() } else { None }
    };
    match (addition.strip_prefix('.'), addition.strip_prefix('-')) {
        (Some(rest), _) => match rest.split_once('-') {
            Some((dump, thread)) => Some((number(dump)?, number(thread)?)),
            None => Some((number(rest)?, 0)),
        },
        (_, Some(thread)) => Some((0, number(thread)?)),
        _ => None,
    }
}

/// Writes a file completely or not at all; `-` is standard output. Devices and pipes are written directly.
pub(crate) fn write(path: &Path, data: &[u8], ui: &Ui) -> Result<()> {
    if is_standard_output(path) {
        return ui.raw_result(data);
    }
    let mut output = OutputFile::create(path, Audience::Everyone)?;
    output.write_all(data).map_err(|error| output.failed(&error))?;
    output.keep()
}

/// True for the system's names of standard output. They denote the stream, not the file to which it may be redirected.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    let standard = [STANDARD_STREAM, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    standard.iter().any(|name| path == Path::new(name))
}

/// Writes a file of our own completely or not at all; replaces anything with its name.
pub(crate) fn write_owned(path: &Path, data: &[u8]) -> Result<()> {
    let mut output = OutputFile::replace(path)?;
    output.write_all(data).map_err(|error| output.failed(&error))?;
    output.keep()
}

/// Copies a file with its permissions completely or not at all; replaces anything with the new name.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let beside = beside(to);
    let copied = fs::copy(from, &beside).and_then(|_| fs::rename(&beside, to));
    copied.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::new(ErrorCode::Io, format!("cannot be copied to {}: {error}", display(to)))
            .with_input(display(from))
    })
}

/// Gives a file another name, replacing anything with that name; on another file system, makes a copy.
pub(crate) fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    let beside = beside(to);
    let _ = fs::remove_file(&beside);
    // Renaming has no effect if both names already denote the same file.
    match fs::hard_link(from, &beside).and_then(|()| fs::rename(&beside, to)) {
        Ok(()) => {
            let _ = fs::remove_file(&beside);
            Ok(())
        }
        Err(_) => copy(from, to),
    }
}

/// Makes a file executable for everybody.
pub(crate) fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be made executable: {error}")).with_input(display(path))
    })
}

/// Makes a symbolic link; replaces a link with the same name.
pub(crate) fn symbolic_link(target: &Path, link: &Path) -> Result<()> {
    let beside = beside(link);
    let _ = fs::remove_file(&beside);
    let made = std::os::unix::fs::symlink(target, &beside).and_then(|()| fs::rename(&beside, link));
    made.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::new(ErrorCode::Io, format!("cannot make this link: {error}")).with_input(display(link))
    })
}

/// Returns a name in the file's folder for its new content until that is complete.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".sediment-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Fails if [`write()`] will foreseeably fail: called before a result that takes long to compute.
pub(crate) fn expect_to_write(path: &Path) -> Result<()> {
    if is_standard_output(path) {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Error::new(ErrorCode::Io, "cannot be written: it is a folder").with_input(display(path)))
        }
        // Opening and closing a pipe would end it.
        Ok(found) if !found.is_file() => Ok(()),
        _ => OutputFile::create(path, Audience::Owner).map(drop),
    }
}

/// Users who may read a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// According to the umask, or as for the former file.
    Everyone,
    /// Only its owner.
    Owner,
}

/// A file that is being written, and appears once it is complete. Devices and pipes are written directly.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    kind: OutputKind,
}

#[derive(Debug)]
enum OutputKind {
    AsItIs(fs::File),
    Whole { file: tempfile::NamedTempFile, target: PathBuf, permissions: Option<Permissions> },
}

impl OutputFile {
    pub(crate) fn create(path: &Path, audience: Audience) -> Result<Self> {
        // Follows a link to its target, because the link itself belongs to the user.
        let target = fs::canonicalize(path).unwrap_or_else(|_| target_of_link(path));
        let existing = fs::metadata(&target).ok();
        if let Some(found) = &existing {
            let kind = found.file_type();
            if kind.is_char_device() || kind.is_fifo() || kind.is_socket() {
                let file = fs::OpenOptions::new().write(true).open(&target);
                let file = file.map_err(|error| {
                    Error::new(ErrorCode::Io, format!("cannot be written: {error}")).with_input(display(path))
                })?;
                return Ok(Self { path: path.to_path_buf(), kind: OutputKind::AsItIs(file) });
            }
        }
        let permissions = match audience {
            Audience::Everyone => existing.map(|found| found.permissions()),
            Audience::Owner => None,
        };
        Self::whole(path, target, audience, permissions)
    }

    /// Makes a new file that replaces anything with this name, even a link, whose target stays unchanged.
    pub(crate) fn replace(path: &Path) -> Result<Self> {
        Self::whole(path, path.to_path_buf(), Audience::Everyone, None)
    }

    fn whole(
        path: &Path,
        target: PathBuf,
        audience: Audience,
        permissions: Option<Permissions>,
    ) -> Result<Self> {
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        let mode = match audience {
            Audience::Everyone => 0o666, // less the umask, as for any new file
            Audience::Owner => 0o600,
        };
        let file = tempfile::Builder::new()
            .prefix(".sediment-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    Error::new(ErrorCode::Io, "cannot be written: no such folder")
                }
                std::io::ErrorKind::PermissionDenied => {
                    Error::new(ErrorCode::Io, "cannot be written: its folder is not writable for this user")
                }
                kind => Error::new(ErrorCode::Io, format!("cannot be written: {kind}")),
            })
            .map_err(|error| error.with_input(display(path)))?;
        Ok(Self { path: path.to_path_buf(), kind: OutputKind::Whole { file, target, permissions } })
    }

    /// Moves the file to its path.
    pub(crate) fn keep(self) -> Result<()> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::Io, format!("cannot be written: {error}")).with_input(display(&self.path))
        };
        let OutputKind::Whole { file, target, permissions } = self.kind else { return Ok(()) };
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&target).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Returns the error of a failed write.
    pub(crate) fn failed(&self, error: &std::io::Error) -> Error {
        Error::new(ErrorCode::Io, format!("cannot be written: {error}")).with_input(display(&self.path))
    }
}

impl Write for OutputFile {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        match &mut self.kind {
            OutputKind::AsItIs(file) => file.write(data),
            OutputKind::Whole { file, .. } => file.write(data),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.kind {
            OutputKind::AsItIs(file) => file.flush(),
            OutputKind::Whole { file, .. } => file.flush(),
        }
    }
}

/// Returns the target of a link to a file that does not exist yet.
fn target_of_link(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(next) => path.parent().unwrap_or_else(|| Path::new("")).join(next),
        Err(_) => path.to_path_buf(),
    }
}

/// Formats a path for messages and results, in one line.
pub(crate) fn display(path: &Path) -> String {
    if path == Path::new(STANDARD_STREAM) {
        "standard input".to_owned()
    } else {
        escape::terminal(&path.to_string_lossy())
    }
}

/// Renames a file that is about to be replaced to NAME.old, as perf does. Returns the new name.
pub(crate) fn set_aside(path: &Path) -> Result<Option<PathBuf>> {
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Ok(None);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    let older = PathBuf::from(name);
    fs::rename(path, &older).map_err(|error| {
        Error::new(ErrorCode::Io, format!("the older file cannot be renamed: {error}"))
            .with_input(display(path))
    })?;
    Ok(Some(older))
}

/// True for an ELF file.
pub(crate) fn is_elf(path: &Path) -> bool {
    elf_type(path).is_some()
}

/// True for an ELF program or shared library.
pub(crate) fn is_linked(path: &Path) -> bool {
    elf_type(path).is_some_and(|kind| [elf::ET_EXEC.0, elf::ET_DYN.0].contains(&kind))
}

/// Returns the type in an ELF file's header, such as [`elf::ET_REL`].
pub(crate) fn elf_type(path: &Path) -> Option<u16> {
    // Opening a pipe would wait for its writer.
    if !path.is_file() {
        return None;
    }
    let mut head = [0; 18];
    fs::File::open(path).ok()?.read_exact(&mut head).ok()?;
    let bytes = [head[16], head[17]];
    let is_elf = head.starts_with(&elf::ELFMAG);
    is_elf.then(|| {
        if head[5] == elf::ELFDATA2MSB.0 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    })
}

/// Returns the path of this program.
pub(crate) fn own_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::new(ErrorCode::Io, format!("cannot find the path of this program: {error}")))
}

/// Returns the last part of a path as text.
pub(crate) fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Formats the last part of a path for messages and results, in one line.
pub(crate) fn display_name(path: &Path) -> String {
    escape::terminal(&base_name(path))
}

/// Creates a folder; fails if it exists.
pub(crate) fn new_folder(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot create this folder: {error}"))
            .with_input(display(path))
            .with_hint("name a new folder inside an existing one")
    })
}

/// Creates a folder with its missing parents. Returns its absolute path.
pub(crate) fn folder(path: &Path) -> Result<PathBuf> {
    let made = fs::create_dir_all(path).and_then(|()| path.canonicalize());
    made.map_err(|error| {
        Error::new(ErrorCode::Io, format!("cannot be created: {error}")).with_input(display(path))
    })
}

/// True if a file can be opened for reading.
pub(crate) fn can_be_opened(path: &str) -> bool {
    fs::File::open(path).is_ok()
}

/// Signals that were ignored when this program was started, with a bit for each from 1 on.
pub(crate) fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the programs with this name on PATH, in order; for a path, only that file.
pub(crate) fn on_path(name: &OsStr) -> Vec<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    let is_executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(name)).filter(is_executable).collect()
}

/// Returns the first bytes of a regular file.
pub(crate) fn beginning(path: &Path, most: u64) -> Result<Vec<u8>> {
    expect_regular(path)?;
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}
