// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory limits of control groups.

use nix::unistd::Pid;
use std::path::{Path, PathBuf};

/// Bytes of memory that the control groups of a process have left.
pub(crate) fn memory_left_to(process: Pid) -> Option<u64> {
    memory_left(Path::new("/sys/fs/cgroup"), &groups_of(process))
}

/// Control groups of a process as paths below the mount: the group of version 2, and the memory group of version 1.
fn groups_of(process: Pid) -> Vec<MemoryGroup> {
    let text = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    text.lines().filter_map(MemoryGroup::parse).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemoryGroup {
    /// Path below the mount.
    path: PathBuf,
    /// Names of the files with the limit and the usage.
    files: [&'static str; 2],
}

impl MemoryGroup {
    /// Parses a line of /proc/ID/cgroup.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        if controllers.is_empty() {
            return Some(Self { path: path.into(), files: ["memory.max", "memory.current"] });
        }
        let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
        let memory = controllers.split(',').any(|controller| controller == "memory");
        memory.then(|| Self { path: Path::new("memory").join(path), files })
    }
}

/// Bytes left below the tightest limit of these groups and the groups above them; `None` without a limit.
fn memory_left(mount: &Path, groups: &[MemoryGroup]) -> Option<u64> {
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = groups.iter().flat_map(|group| {
        group.path.ancestors().filter_map(|folder| {
            let folder = mount.join(folder);
            let limit = number(folder.join(group.files[0]))?;
            Some(limit.saturating_sub(number(folder.join(group.files[1]))?))
        })
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_of_a_control_group_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = mount.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let groups: Vec<MemoryGroup> = ["0::/a/b", "4:cpu,memory:/c", "3:cpu:/d"]
            .iter()
            .filter_map(|line| MemoryGroup::parse(line))
            .collect();
        assert_eq!(groups.len(), 2);
        assert_eq!(memory_left(mount.path(), &groups), None);
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "5\n");
        assert_eq!(memory_left(mount.path(), &groups), None);
        write("a/memory.max", "1000\n");
        write("a/memory.current", "300\n");
        assert_eq!(memory_left(mount.path(), &groups), Some(700));
        write("memory/c/memory.limit_in_bytes", "100\n");
        write("memory/c/memory.usage_in_bytes", "120\n");
        assert_eq!(memory_left(mount.path(), &groups), Some(0));
    }
}
