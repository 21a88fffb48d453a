// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared objects of a perf report: names that perf cut to the width of their column, and names that are not files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Perf's name for an unknown object.
const UNKNOWN: &[u8] = b"[unknown]";

/// Maps each cut name to its full name.
#[derive(Debug, Default)]
pub(super) struct FullNames<'a>(HashMap<&'a [u8], &'a [u8]>);

impl<'a> FullNames<'a> {
    /// Finds cut names among all names of a report; each has a flag that it fills its column. Such a name is assumed to
    /// be cut from the only longer name that begins with it, unless it also occurs somewhere with room to spare.
    pub(super) fn of(names: impl Iterator<Item = (&'a [u8], bool)>) -> Self {
        let mut whole: BTreeMap<&[u8], bool> = BTreeMap::new();
        for (name, fills) in names {
            *whole.entry(name).or_default() |= !fills;
        }
        let mut cut: Vec<&[u8]> = whole
            .iter()
            .filter(|(name, whole)| !**whole && !name.is_empty())
            .map(|(name, _)| *name)
            .collect();
        // The longest first: the longer name may itself be cut, in a wider column.
        cut.sort_by_key(|name| (std::cmp::Reverse(name.len()), *name));
        let mut full: HashMap<&[u8], &[u8]> = HashMap::new();
        for name in cut {
            // In this order, all names that begin with this one come after it.
            let longer: BTreeSet<&[u8]> = whole
                .range::<[u8], _>((std::ops::Bound::Excluded(name), std::ops::Bound::Unbounded))
                .take_while(|(other, _)| other.starts_with(name))
                .map(|(other, _)| full.get(other).copied().unwrap_or(other))
                .take(SEVERAL)
                .collect();
            if let (1, Some(only)) = (longer.len(), longer.first()) {
                full.insert(name, only);
            }
        }
        Self(full)
    }

    pub(super) fn of_name(&self, name: &'a [u8]) -> &'a [u8] {
        self.0.get(name).copied().unwrap_or(name)
    }
}

/// Number of names with a common beginning that are compared; a typical report has two or three.
const SEVERAL: usize = 64;

/// Type of a name in the column of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectMeaning<'a> {
    /// A mapped file.
    File(&'a [u8]),
    /// Unknown to perf.
    Unknown,
    /// The kernel, a kernel module, a hypervisor or a guest.
    Kernel,
    /// Memory without a file: the heap, or code of a run-time compiler.
    Memory,
}

/// Classifies an object. `mark` is the letter that perf prints before the symbol: `.` user, `k` kernel, `H` hypervisor,
/// `g` and `u` a guest's kernel and user. Older perf marks both ends of a branch by the level of the sample, so the
/// name of a file takes precedence over a `k`.
pub(super) fn object(name: Option<&[u8]>, mark: u8) -> ObjectMeaning<'_> {
    let not_user = matches!(mark, b'k' | b'g' | b'u' | b'H');
    let Some(name) = name.filter(|name| !name.is_empty() && *name != UNKNOWN) else {
        // perf tries the hypervisor last, so its mark also appears if nothing was found.
        return if not_user && mark != b'H' { ObjectMeaning::Kernel } else { ObjectMeaning::Unknown };
    };
    if name.starts_with(b"[vdso") || name == b"[vsyscall]" {
        // Not a file, but a shared object with symbols that programs call like others.
        return ObjectMeaning::File(name);
    }
    if matches!(name, b"[heap]" | b"[stack]" | b"[anon]")
        || name.starts_with(b"[JIT]")
        || name.starts_with(b"//anon")
        || name.starts_with(b"[stack:")
        || is_symbol_map(name)
    {
        return ObjectMeaning::Memory;
    }
    if name.starts_with(b"[") && name.ends_with(b"]") && name.len() > 2 {
        return ObjectMeaning::Kernel;
    }
    let base = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
    let of_kernel =
        base.starts_with(b"vmlinux") || base == b"kcore" || memchr::memmem::find(base, b".ko").is_some();
    if not_user && (of_kernel || mark != b'k') { ObjectMeaning::Kernel } else { ObjectMeaning::File(name) }
}

/// True if a printed address is in the upper half, which 64-bit systems use for the kernel.
pub(super) fn is_kernel_address(address: &[u8]) -> bool {
    address.len() == b"0x0123456789abcdef".len() && matches!(address[2], b'8'..=b'9' | b'a'..=b'f')
}

/// True for `perf-PID.map`, in which a run-time compiler names its code.
fn is_symbol_map(name: &[u8]) -> bool {
    let base = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
    base.strip_prefix(b"perf-")
        .and_then(|rest| rest.strip_suffix(b".map"))
        .is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(names: &[(&'static str, bool)], name: &'static str) -> String {
        let names = FullNames::of(names.iter().map(|(name, fills)| (name.as_bytes(), *fills)));
        String::from_utf8_lossy(names.of_name(name.as_bytes())).into_owned()
    }

    #[test]
    fn a_name_that_fills_its_column_is_the_one_longer_name_it_begins() {
        let program =
            [("propeller_sample_1.b", true), ("propeller_sample_1.bin.gen", false), ("libc.so.6", false)];
        assert_eq!(full(&program, "propeller_sample_1.b"), "propeller_sample_1.bin.gen");
        assert_eq!(full(&program, "libc.so.6"), "libc.so.6");
        let cut_twice = [("propeller", true), ("propeller_sample", true), ("propeller_sample_1", false)];
        assert_eq!(full(&cut_twice, "propeller"), "propeller_sample_1");
        let two_ways = [("libabc", true), ("libabc.so.1", false), ("libabcd.so.1", false)];
        assert_eq!(full(&two_ways, "libabc"), "libabc");
        let whole_elsewhere = [("postgres", true), ("postgres", false), ("postgres_fdw.so", false)];
        assert_eq!(full(&whole_elsewhere, "postgres"), "postgres");
    }

    #[test]
    fn only_files_can_be_ordered() {
        let object = |name: &'static str, mark| object(Some(name.as_bytes()), mark);
        assert_eq!(object("postgres", b'.'), ObjectMeaning::File(b"postgres"));
        assert_eq!(object("[", b'.'), ObjectMeaning::File(b"["), "a program of that name exists");
        assert_eq!(
            object("postgres", b'k'),
            ObjectMeaning::File(b"postgres"),
            "older perf marks the sample, not the branch"
        );
        assert_eq!(object("[kernel.kallsyms]", b'k'), ObjectMeaning::Kernel);
        assert_eq!(object("[nf_tables]", b'.'), ObjectMeaning::Kernel);
        assert_eq!(object("/usr/lib/debug/boot/vmlinux-6.1", b'k'), ObjectMeaning::Kernel);
        assert_eq!(object("/lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz", b'k'), ObjectMeaning::Kernel);
        assert_eq!(object("libc.so.6", b'u'), ObjectMeaning::Kernel);
        assert_eq!(object("[unknown]", b'k'), ObjectMeaning::Kernel);
        assert_eq!(object("[unknown]", b'H'), ObjectMeaning::Unknown);
        assert_eq!(object("[unknown]", b'.'), ObjectMeaning::Unknown);
        assert_eq!(object("[vdso]", b'.'), ObjectMeaning::File(b"[vdso]"));
        assert_eq!(object("[heap]", b'.'), ObjectMeaning::Memory);
        assert_eq!(object("perf-1234.map", b'.'), ObjectMeaning::Memory);
        assert_eq!(object("/tmp/perf-1234.map", b'.'), ObjectMeaning::Memory);
        assert_eq!(object("perf-report.map", b'.'), ObjectMeaning::File(b"perf-report.map"));
    }

    #[test]
    fn kernels_live_in_the_upper_half() {
        assert!(is_kernel_address(b"0xffffffffb1e00a67"));
        assert!(!is_kernel_address(b"0x00007f0000001234"));
        assert!(!is_kernel_address(b"0xffffffff"), "of a 32-bit program");
        assert!(!is_kernel_address(b"[unknown]"));
    }
}
