// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that install the debug symbols of a stripped program or library, by distribution.

use sediment::escape;

/// The package that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    /// Its name, with the architecture where dpkg needs it.
    pub(crate) name: String,
    /// Its version, and with rpm its release.
    pub(crate) version: String,
    /// True for a package of dpkg.
    pub(crate) is_deb: bool,
}

/// A family of distributions.
struct Family {
    /// ID or ID_LIKE of os-release.
    ids: &'static [&'static str],
    /// The command, with PACKAGE for the package of the stripped file, DEBUG for that of its debug symbols and CODENAME for the release;
    /// None where there are no packages of debug symbols.
    install: Option<&'static str>,
    /// The command for a file of an unknown package, with PATH for the file.
    unowned: Option<&'static str>,
    /// Its debuginfod server.
    debuginfod: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        ids: &["ubuntu"],
        install: Some(
            "apt install DEBUG (with this line in /etc/apt/sources.list.d/debug.list: deb http://ddebs.ubuntu.com CODENAME main restricted universe multiverse, and the package ubuntu-dbgsym-keyring)",
        ),
        unowned: Some(
            "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S PATH (from ddebs.ubuntu.com, package ubuntu-dbgsym-keyring)",
        ),
        debuginfod: "https://debuginfod.ubuntu.com",
    },
    Family {
        ids: &["debian"],
        install: Some(
            "apt install DEBUG (with this line in /etc/apt/sources.list.d/debug.list: deb http://deb.debian.org/debian-debug CODENAME-debug main)",
        ),
        unowned: Some(
            "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S PATH (from the archive debian-debug)",
        ),
        debuginfod: "https://debuginfod.debian.net",
    },
    Family {
        ids: &["fedora", "rhel", "centos"],
        install: Some("dnf debuginfo-install PACKAGE"),
        unowned: Some("dnf debuginfo-install \"$(rpm -qf PATH)\""),
        debuginfod: "https://debuginfod.fedoraproject.org",
    },
    Family {
        ids: &["opensuse", "suse"],
        install: Some("zypper --plus-content debug install PACKAGE-debuginfo"),
        unowned: Some(
            "zypper --plus-content debug install \"$(rpm -qf --queryformat '%{NAME}' PATH)-debuginfo\"",
        ),
        debuginfod: "https://debuginfod.opensuse.org",
    },
    Family { ids: &["arch"], install: None, unowned: None, debuginfod: "https://debuginfod.archlinux.org" },
];

/// Serves what the servers of several distributions have.
const OF_ALL: &str = "https://debuginfod.elfutils.org";

/// The debuginfod servers that are known, the one that serves several distributions first.
pub(crate) fn servers() -> String {
    let own = FAMILIES.iter().map(|family| family.debuginfod);
    std::iter::once(OF_ALL).chain(own).collect::<Vec<_>>().join(", ")
}

/// Command for the debug symbols of the file recorded under this path, of this package, on the system of this os-release.
pub(crate) fn debug_symbols(
    os_release: Option<&str>,
    owner: Option<&Owner>,
    path: &str,
    build_id: Option<&str>,
) -> String {
    let family = os_release.and_then(family);
    let mut ways = Vec::new();
    ways.extend(match (family, owner) {
        (Some(family), Some(owner)) => {
            family.install.and_then(|install| filled(install, owner, os_release.unwrap_or_default()))
        }
        (Some(family), None) => {
            family.unowned.and_then(|unowned| Some(unowned.replace("PATH", &escape::shell(path)?)))
        }
        (None, _) => None,
    });
    let file = match build_id.filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        Some(build_id) => Some(build_id.to_owned()),
        None => escape::shell(path),
    };
    if let Some(file) = file {
        let server = family.map_or(OF_ALL, |family| family.debuginfod);
        ways.push(format!("DEBUGINFOD_URLS={server} debuginfod-find debuginfo {file}"));
    }
    ways.join("; or: ")
}

/// A command with the names of packages; None where one is no word of a shell.
fn filled(install: &str, owner: &Owner, os_release: &str) -> Option<String> {
    let Owner { name, version, is_deb } = owner;
    // The C library's debug package is older than the archives of the others, and stands beside it.
    if *is_deb && name == "libc6" {
        return Some(format!("apt install libc6-dbg={}", escape::shell(version)?));
    }
    let debug = format!("{}={}", escape::shell(&format!("{name}-dbgsym"))?, escape::shell(version)?);
    let package = if *is_deb { name.clone() } else { format!("{name}-{version}") };
    let codename = value(os_release, "VERSION_CODENAME").unwrap_or_else(|| "CODENAME".to_owned());
    let filled = install.replace("PACKAGE-debuginfo", &escape::shell(&format!("{name}-debuginfo"))?);
    let filled = filled.replace("PACKAGE", &escape::shell(&package)?).replace("CODENAME", &codename);
    Some(filled.replace("DEBUG", &debug))
}

/// The value of a key of os-release.
fn value(os_release: &str, key: &str) -> Option<String> {
    let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(line.trim_matches(['"', '\'']).to_owned())
}

fn family(os_release: &str) -> Option<&'static Family> {
    let ids = [value(os_release, "ID"), value(os_release, "ID_LIKE")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let is_of = |id: &str| {
        // Such as opensuse-leap.
        let stem = id.split('-').next().unwrap_or(id);
        FAMILIES.iter().find(|family| family.ids.contains(&id) || family.ids.contains(&stem))
    };
    ids.split_whitespace().find_map(is_of)
}

#[cfg(test)]
mod tests {
    use super::{Owner, debug_symbols};

    #[test]
    fn each_distribution_has_its_own_way() {
        let cases = [
            (
                "ID=debian\nVERSION_CODENAME=bookworm\n",
                "apt install x-dbgsym=1.2-3 (with this line in /etc/apt/sources.list.d/debug.list: deb http://deb.debian.org/debian-debug bookworm-debug main)",
            ),
            (
                "ID=debian\nVERSION_CODENAME=trixie\n",
                "apt install x-dbgsym=1.2-3 (with this line in /etc/apt/sources.list.d/debug.list: deb http://deb.debian.org/debian-debug trixie-debug main)",
            ),
            (
                "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=noble\n",
                "ddebs.ubuntu.com noble main",
            ),
            ("ID=arch\n", "DEBUGINFOD_URLS=https://debuginfod.archlinux.org debuginfod-find debuginfo abcd"),
            ("ID=void\n", "DEBUGINFOD_URLS=https://debuginfod.elfutils.org debuginfod-find debuginfo abcd"),
        ];
        let deb = Owner { name: "x".to_owned(), version: "1.2-3".to_owned(), is_deb: true };
        for (os_release, expected) in cases {
            let said = debug_symbols(Some(os_release), Some(&deb), "/usr/bin/x", Some("abcd"));
            assert!(said.contains(expected), "{os_release}: {said}");
        }
        let rpm = Owner { name: "x".to_owned(), version: "1.2-3.fc42.x86_64".to_owned(), is_deb: false };
        for (os_release, expected) in [
            ("NAME=Fedora\nID=fedora\n", "dnf debuginfo-install x-1.2-3.fc42.x86_64; or: "),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf debuginfo-install"),
            ("ID=\"opensuse-tumbleweed\"\n", "zypper --plus-content debug install x-debuginfo"),
        ] {
            let said = debug_symbols(Some(os_release), Some(&rpm), "/usr/bin/x", Some("abcd"));
            assert!(said.contains(expected), "{os_release}: {said}");
        }
        let libc = Owner { name: "libc6".to_owned(), ..deb.clone() };
        let of_libc = debug_symbols(Some("ID=debian"), Some(&libc), "/x", None);
        assert!(of_libc.starts_with("apt install libc6-dbg=1.2-3; or: "), "{of_libc}");
        // A path from a recording is quoted; one that cannot be is left out.
        assert!(debug_symbols(None, None, "/x y;rm", None).ends_with("debuginfo '/x y;rm'"));
        assert_eq!(debug_symbols(Some("ID=debian"), None, "/x\n", None), "");
    }
}
