// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps plans of files in the user's cache, from one recording to the next.
//!
//! The name of a stored plan depends on all bytes from which it was made, and on the sediment program that made it: if
//! either changes, no plan is found. Only the user can access the folder and its files. A file is used if its owner is
//! the user, nobody else may read or write it, and its checksum is right; links are not followed. The decisions in it
//! are checked against the bytes of the recorded file ([`super::kept_plan`]). If any check fails, a new plan is made.

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Pid, UnlinkatFlags, geteuid, unlinkat};
use sha2::{Digest as _, Sha256};
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest number of bytes of all plans.
pub(super) const MOST: u64 = 64 << 20;
/// Largest number of bytes of a plan.
const LONGEST: u64 = 32 << 20;
/// First bytes of a stored plan; its name and the checksum of the rest follow.
const BEGINNING: &[u8] = b"sediment plan 1\n";
const SUM: usize = 32;
/// End of the names of stored plans, and of plans that are being written.
const SUFFIX: &str = ".plan";
const UNFINISHED: &str = ".new";

/// Name of a plan: a hash of everything from which it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlanName([u8; SUM]);

/// The folder of stored plans.
#[derive(Debug)]
pub(super) struct PlanCache {
    /// `None` if nothing is stored.
    folder: Option<File>,
    /// The program that makes the plans: its device, inode, size and time of the last change.
    maker: [u64; 5],
    most: u64,
}

impl PlanCache {
    /// Opens the user's cache, with at most this many bytes.
    pub(super) fn of_user(most: u64) -> Self {
        user_folder().map_or_else(Self::none, |folder| Self::in_folder(&folder, most))
    }

    /// Opens a cache in a folder, which is made if it is missing.
    pub(super) fn in_folder(path: &Path, most: u64) -> Self {
        Self { folder: opened(path, true).ok(), most: most.min(MOST), ..Self::none() }
    }

    /// Makes a cache that stores nothing.
    pub(super) fn none() -> Self {
        let maker = std::fs::metadata("/proc/self/exe").map_or([0; 5], |about| {
            [about.dev(), about.ino(), about.size(), about.mtime() as u64, about.mtime_nsec() as u64]
        });
        Self { folder: None, maker, most: 0 }
    }

    /// Name of the plan of a file with these parts, by their offsets; `None` if nothing is stored.
    pub(super) fn name<'a>(&self, parts: impl Iterator<Item = (u64, &'a [u8])>) -> Option<PlanName> {
        self.folder.as_ref()?;
        let mut sum = Sha256::new();
        self.maker.iter().for_each(|number| sum.update(number.to_le_bytes()));
        for (offset, bytes) in parts {
            sum.update(offset.to_le_bytes());
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        }
        Some(PlanName(sum.finalize().into()))
    }

    /// Reads the plan of this name.
    pub(super) fn read(&self, name: &PlanName) -> Option<Vec<u8>> {
        let folder = self.folder.as_ref()?;
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(folder, file_name(name).as_str(), flags, Mode::empty()).ok()?;
        let file = File::from(file);
        let about = file.metadata().ok()?;
        if !about.is_file() || !is_ours_alone(&about) || about.nlink() != 1 || about.len() > LONGEST {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(LONGEST).read_to_end(&mut bytes).ok()?;
        let rest = bytes.strip_prefix(BEGINNING)?.strip_prefix(&name.0)?;
        let (sum, plan) = rest.split_at_checked(SUM)?;
        if sum != Sha256::digest(plan).as_slice() {
            return None;
        }
        let now = TimeSpec::new(0, nix::libc::UTIME_NOW);
        // The most recently used plans stay longest. If the time cannot be set, this plan is removed earlier.
        let _ = utimensat(folder, file_name(name).as_str(), &now, &now, UtimensatFlags::NoFollowSymlink);
        Some(plan.to_vec())
    }

    /// Stores a plan. If this is impossible, the plan is made again next time.
    pub(super) fn keep(&self, name: &PlanName, plan: &[u8]) {
        let Some(folder) = &self.folder else { return };
        if plan.len() as u64 + 1024 > self.most.min(LONGEST) {
            return;
        }
        let own = format!("{}-{}{UNFINISHED}", Pid::this(), file_name(name));
        let kept = write(folder, &own, &[BEGINNING, &name.0, Sha256::digest(plan).as_slice(), plan])
            .and_then(|()| Ok(renameat(folder, own.as_str(), folder, file_name(name).as_str())?));
        if kept.is_err() {
            remove(folder, &own);
        }
        let _ = bound(folder, self.most);
    }
}

fn file_name(name: &PlanName) -> String {
    let digits: String = name.0.iter().map(|byte| format!("{byte:02x}")).collect();
    digits + SUFFIX
}

/// True if a name belongs to a plan, or to one that is being written.
fn is_plan(name: &str) -> bool {
    let kept =
        name.strip_suffix(UNFINISHED).map_or(name, |name| name.split_once('-').map_or("", |(_, name)| name));
    kept.strip_suffix(SUFFIX)
        .is_some_and(|digits| digits.len() == 2 * SUM && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_ours_alone(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw() && about.mode() & 0o077 == 0
}

/// Folder in the user's cache.
fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("sediment"))
}

/// Opens the folder; makes it if it is missing and wanted. Only the user can access it.
fn opened(path: &Path, is_wanted: bool) -> io::Result<File> {
    if is_wanted {
        if let Some(above) = path.parent().filter(|above| !above.exists()) {
            make(above)?;
        }
        if !path.exists() {
            make(path)?;
        }
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let folder = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    if !is_ours_alone(&folder.metadata()?) {
        return Err(io::Error::other("other users can write to it"));
    }
    Ok(folder)
}

/// Makes a folder if its parent belongs to this user. Root makes none in another user's folder, because that user could
/// not use it.
fn make(path: &Path) -> io::Result<()> {
    let above = path.parent().ok_or(io::ErrorKind::NotFound)?;
    if std::fs::metadata(above)?.uid() != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn write(folder: &File, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    parts.iter().try_for_each(|part| file.write_all(part))
}

fn remove(folder: &File, name: &str) {
    // If this fails, another process of sediment has removed it.
    let _ = unlinkat(folder, name, UnlinkatFlags::NoRemoveDir);
}

/// Plans in a folder: time of the last use, name, and number of bytes.
fn plans(folder: &File) -> io::Result<Vec<(SystemTime, String, u64)>> {
    let listed = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    let plans = listed.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| is_plan(name))?;
        let about = entry.metadata().ok()?;
        Some((about.modified().ok()?, name, about.len()))
    });
    Ok(plans.collect())
}

/// Removes the plans that have been unused for longest, until the rest has at most this many bytes.
fn bound(folder: &File, most: u64) -> io::Result<()> {
    let mut all = plans(folder)?;
    all.sort();
    let mut bytes: u64 = all.iter().map(|(_, _, bytes)| *bytes).sum();
    for (_, name, length) in all {
        if bytes <= most {
            break;
        }
        remove(folder, &name);
        bytes -= length;
    }
    Ok(())
}

/// Removes all plans stored for the user, and returns their number and bytes.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn clear() -> io::Result<(usize, u64)> {
    let Some(path) = user_folder() else { return Ok((0, 0)) };
    let folder = match opened(&path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        folder => folder?,
    };
    let all = plans(&folder)?;
    all.iter().for_each(|(_, name, _)| remove(&folder, name));
    // The folder stays if it contains other files.
    let _ = std::fs::remove_dir(&path);
    Ok((all.len(), all.iter().map(|(_, _, bytes)| *bytes).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(folder: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    fn name(cache: &PlanCache, of: &str) -> PlanName {
        cache.name([(0, of.as_bytes())].into_iter()).unwrap()
    }

    #[test]
    fn a_plan_is_kept_for_its_file_alone() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("caches/sediment");
        let cache = PlanCache::in_folder(&folder, MOST);
        let (own, other) = (name(&cache, "own"), name(&cache, "other"));
        assert_eq!(cache.read(&own), None);
        cache.keep(&own, b"decisions");
        assert_eq!(cache.read(&own).as_deref(), Some(&b"decisions"[..]));
        assert_eq!(cache.read(&other), None);
        let modes = [&folder, &names(&folder)[0]].map(|path| path.metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, [0o700, 0o600]);
        // Another program of sediment makes its own plans.
        let maker = PlanCache { maker: [1; 5], ..PlanCache::in_folder(&folder, MOST) };
        assert_ne!(name(&maker, "own"), own);
        // With another name it counts as another plan.
        std::fs::rename(&names(&folder)[0], folder.join(file_name(&other))).unwrap();
        assert_eq!(cache.read(&other), None);
    }

    #[test]
    fn planted_and_damaged_plans_are_refused() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("sediment");
        let cache = PlanCache::in_folder(&folder, MOST);
        let own = name(&cache, "own");
        cache.keep(&own, b"decisions");
        let file = folder.join(file_name(&own));
        let whole = std::fs::read(&file).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(cache.read(&own), None, "{length} bytes");
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 1;
            std::fs::write(&file, &other).unwrap();
            assert_eq!(cache.read(&own), None, "byte {place}");
        }
        std::fs::write(&file, &whole).unwrap();
        assert!(cache.read(&own).is_some());
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(cache.read(&own), None, "others may read it");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let elsewhere = above.path().join("elsewhere");
        std::fs::hard_link(&file, &elsewhere).unwrap();
        assert_eq!(cache.read(&own), None, "it has a second name");
        std::fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(cache.read(&own), None, "it is a link");
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, Mode::S_IRUSR).unwrap();
        assert_eq!(cache.read(&own), None, "it is a pipe");
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&elsewhere, &file).unwrap();
        if nix::unistd::chown(&file, Some(65534.into()), None).is_ok() {
            assert_eq!(cache.read(&own), None, "it is another user's");
            nix::unistd::chown(&file, Some(geteuid()), None).unwrap();
        }
        assert!(cache.read(&own).is_some());
        std::fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        assert!(PlanCache::in_folder(&folder, MOST).folder.is_none(), "others may write to the folder");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let link = above.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(PlanCache::in_folder(&link, MOST).folder.is_none(), "the folder is a link");
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("sediment");
        let cache = PlanCache::in_folder(&folder, 40_000);
        let all: Vec<PlanName> = (0..4).map(|number| name(&cache, &format!("file {number}"))).collect();
        for kept in &all[..3] {
            cache.keep(kept, &[7; 12_000]);
        }
        let past = TimeSpec::new(1_000_000, 0);
        let path = folder.join(file_name(&all[1]));
        utimensat(nix::fcntl::AT_FDCWD, &path, &past, &past, UtimensatFlags::NoFollowSymlink).unwrap();
        std::fs::write(folder.join("another file"), [0; 50_000]).unwrap();
        cache.keep(&all[3], &[7; 12_000]);
        let there: Vec<bool> = all.iter().map(|name| cache.read(name).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
        cache.keep(&all[1], &[7; 41_000]);
        assert!(cache.read(&all[1]).is_none(), "a plan that is too long is not kept");
        assert_eq!(names(&folder).len(), 4);
    }
}
