// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that install the debug symbols of a stripped program or library, by distribution.

use sediment::escape;

/// A family of distributions.
struct Family {
    /// ID or ID_LIKE of os-release.
    ids: &'static [&'static str],
    /// The command, with PATH for the stripped file; None where there are no packages of debug symbols.
    install: Option<&'static str>,
    /// Its debuginfod server.
    debuginfod: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        ids: &["ubuntu"],
        install: Some(
            "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S PATH (from ddebs.ubuntu.com, package ubuntu-dbgsym-keyring)",
        ),
        debuginfod: "https://debuginfod.ubuntu.com",
    },
    Family {
        ids: &["debian"],
        install: Some(
            "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S PATH (from the archive debian-debug)",
        ),
        debuginfod: "https://debuginfod.debian.net",
    },
    Family {
        ids: &["fedora", "rhel", "centos"],
        install: Some("dnf debuginfo-install \"$(rpm -qf PATH)\""),
        debuginfod: "https://debuginfod.fedoraproject.org",
    },
    Family {
        ids: &["opensuse", "suse"],
        install: Some(
            "zypper --plus-content debug install \"$(rpm -qf --queryformat '%{NAME}' PATH)-debuginfo\"",
        ),
        debuginfod: "https://debuginfod.opensuse.org",
    },
    Family { ids: &["arch"], install: None, debuginfod: "https://debuginfod.archlinux.org" },
];

/// Serves what the servers of several distributions have.
const OF_ALL: &str = "https://debuginfod.elfutils.org";

/// Command for the debug symbols of the file recorded under this path, on the system of this os-release.
pub(crate) fn debug_symbols(os_release: Option<&str>, path: &str, build_id: Option<&str>) -> String {
    let family = os_release.and_then(family);
    let path = escape::shell(path);
    let mut ways = Vec::new();
    if let (Some(install), Some(path)) = (family.and_then(|family| family.install), &path) {
        ways.push(install.replace("PATH", path));
    }
    let file = match build_id.filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        Some(build_id) => Some(build_id.to_owned()),
        None => path,
    };
    if let Some(file) = file {
        let server = family.map_or(OF_ALL, |family| family.debuginfod);
        ways.push(format!("DEBUGINFOD_URLS={server} debuginfod-find debuginfo {file}"));
    }
    ways.join("; or: ")
}

fn family(os_release: &str) -> Option<&'static Family> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']).to_owned())
    };
    let ids = [value("ID"), value("ID_LIKE")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let is_of = |id: &str| {
        // Such as opensuse-leap.
        let stem = id.split('-').next().unwrap_or(id);
        FAMILIES.iter().find(|family| family.ids.contains(&id) || family.ids.contains(&stem))
    };
    ids.split_whitespace().find_map(is_of)
}

#[cfg(test)]
mod tests {
    use super::debug_symbols;

    #[test]
    fn each_distribution_has_its_own_way() {
        let cases = [
            ("ID=debian\n", "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S /usr/bin/x"),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "ddebs.ubuntu.com"),
            ("NAME=Fedora\nID=fedora\n", "dnf debuginfo-install \"$(rpm -qf /usr/bin/x)\""),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf debuginfo-install"),
            ("ID=\"opensuse-tumbleweed\"\n", "zypper --plus-content debug install"),
            ("ID=arch\n", "DEBUGINFOD_URLS=https://debuginfod.archlinux.org debuginfod-find debuginfo abcd"),
            ("ID=void\n", "DEBUGINFOD_URLS=https://debuginfod.elfutils.org debuginfod-find debuginfo abcd"),
        ];
        for (os_release, expected) in cases {
            let said = debug_symbols(Some(os_release), "/usr/bin/x", Some("abcd"));
            assert!(said.contains(expected), "{os_release}: {said}");
        }
        // A path from a recording is quoted; one that cannot be is left out.
        assert!(debug_symbols(Some("ID=debian"), "/x y;rm", None).contains("dpkg -S '/x y;rm' "));
        assert_eq!(debug_symbols(Some("ID=debian"), "/x\n", None), "");
        assert!(debug_symbols(None, "/x", None).ends_with("debuginfod-find debuginfo /x"));
    }
}
