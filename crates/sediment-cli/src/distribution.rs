// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that install the debug symbols of a stripped program or library, by distribution.

use sediment_core::escape;

/// The package that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    /// Its name, with the architecture where dpkg needs it.
    pub(crate) name: String,
    /// Its version; with rpm also its release.
    pub(crate) version: String,
    /// Its source package, with dpkg.
    pub(crate) source: Option<String>,
    /// True for a package of dpkg.
    pub(crate) is_deb: bool,
}

impl Owner {
    /// Packages that may contain its debug symbols, with dpkg: first the package in the archive of debug symbols, then
    /// packages in the normal archive.
    pub(crate) fn debug_packages(&self) -> Vec<String> {
        let beside = std::iter::once(&self.name).chain(&self.source).map(|name| format!("{name}-dbg"));
        std::iter::once(format!("{}-dbgsym", self.name)).chain(beside).collect()
    }

    /// Returns the package with its debug symbols, from the output of `apt-cache policy`.
    pub(crate) fn debug_package(&self, policy: &str) -> String {
        if !self.is_deb {
            return format!("{}-debuginfo", self.name);
        }
        // The C library has only this one, whatever apt prints.
        if self.name == "libc6" {
            return "libc6-dbg".to_owned();
        }
        let mut names = self.debug_packages();
        let is_known = |name: &String| versions(policy, name).any(|version| !version.suites.is_empty());
        let known = names.iter().position(is_known).unwrap_or(0);
        names.swap_remove(known)
    }

    /// True for an update of a stable release that the release itself does not contain, as its suites or its version
    /// show. Its debug symbols are in another suite than the release's.
    fn is_update(&self, policy: &str) -> bool {
        let mut suites = Vec::new();
        for version in versions(policy, &self.name).filter(|version| version.number == self.version) {
            suites.extend(version.suites);
        }
        let is_of_release = suites.iter().any(|suite| !suite.contains('-'));
        let is_of_security = suites.iter().any(|suite| suite.ends_with("-security"));
        !is_of_release && (is_of_security || is_numbered_as_update(&self.version))
    }
}

/// A version of a package in apt's output.
#[derive(Debug, PartialEq, Eq)]
struct Version<'a> {
    number: &'a str,
    /// Suites that contain it, such as `bookworm-security`.
    suites: Vec<&'a str>,
}

/// Returns the versions of a package in the output of `apt-cache policy`.
fn versions<'a>(policy: &'a str, name: &str) -> impl Iterator<Item = Version<'a>> {
    let mut lines = policy.lines().skip_while(move |line| line.strip_suffix(':') != Some(name));
    lines.next();
    let mut found: Vec<Version<'_>> = Vec::new();
    for line in lines.take_while(|line| line.starts_with(' ')) {
        // A version is followed by its priority and preceded by the mark if it is installed; a source is preceded by
        // its priority.
        match line.strip_prefix(" *** ").or_else(|| line.strip_prefix("     ")) {
            Some(rest) if !rest.starts_with(' ') => {
                let number = rest.split(' ').next().unwrap_or(rest);
                found.push(Version { number, suites: Vec::new() });
            }
            Some(rest) => {
                let suite = rest.split_whitespace().nth(2).and_then(|place| place.split_once('/'));
                found.last_mut().into_iter().for_each(|version| version.suites.extend(suite.map(|of| of.0)));
            }
            None => {}
        }
    }
    found.into_iter()
}

/// True for a version of an update of a stable release of Debian, such as `1.2-3+deb12u1`.
fn is_numbered_as_update(version: &str) -> bool {
    let starts = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    version.split(['+', '~']).filter_map(|part| part.strip_prefix("deb")).any(|rest| {
        starts(rest)
            && rest
                .trim_start_matches(|digit: char| digit.is_ascii_digit())
                .strip_prefix('u')
                .is_some_and(starts)
    })
}

/// A family of distributions.
struct Family {
    /// Values of ID or ID_LIKE in os-release.
    ids: &'static [&'static str],
    /// Command to install debug symbols. PACKAGE represents the package of the stripped file, DEBUG the package of its
    /// debug symbols and CODENAME the release. `None` if there are no packages of debug symbols.
    install: Option<&'static str>,
    /// The same for an update of a stable release, if its debug symbols are in another archive.
    install_update: Option<&'static str>,
    /// Command for a file of an unknown package; PATH represents the file.
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
        install_update: None,
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
        install_update: Some(
            "apt install DEBUG (with these two lines in /etc/apt/sources.list.d/debug.list: \"deb http://deb.debian.org/debian-debug CODENAME-debug main\" and \"deb http://deb.debian.org/debian-debug CODENAME-proposed-updates-debug main\")",
        ),
        unowned: Some(
            "apt install PACKAGE-dbgsym, PACKAGE as named by: dpkg -S PATH (from the archive debian-debug)",
        ),
        debuginfod: "https://debuginfod.debian.net",
    },
    Family {
        ids: &["fedora", "rhel", "centos"],
        install: Some("dnf debuginfo-install PACKAGE"),
        install_update: None,
        unowned: Some("dnf debuginfo-install \"$(rpm -qf PATH)\""),
        debuginfod: "https://debuginfod.fedoraproject.org",
    },
    Family {
        ids: &["opensuse", "suse"],
        install: Some("zypper --plus-content debug install PACKAGE-debuginfo"),
        install_update: None,
        unowned: Some(
            "zypper --plus-content debug install \"$(rpm -qf --queryformat '%{NAME}' PATH)-debuginfo\"",
        ),
        debuginfod: "https://debuginfod.opensuse.org",
    },
    Family {
        ids: &["arch"],
        install: None,
        install_update: None,
        unowned: None,
        debuginfod: "https://debuginfod.archlinux.org",
    },
];

/// Server with the debug files of several distributions.
const OF_ALL: &str = "https://debuginfod.elfutils.org";

/// Returns the known debuginfod servers, beginning with the one for several distributions.
pub(crate) fn servers() -> String {
    let own = FAMILIES.iter().map(|family| family.debuginfod);
    std::iter::once(OF_ALL).chain(own).collect::<Vec<_>>().join(", ")
}

/// Returns the command that installs the debug symbols of a file with this recorded path and this package, on the
/// system with this os-release. `policy` is the output of `apt-cache policy` for the package and its packages of debug
/// symbols.
pub(crate) fn debug_symbols(
    os_release: Option<&str>,
    owner: Option<&Owner>,
    path: &str,
    build_id: Option<&str>,
    policy: &str,
) -> String {
    let family = os_release.and_then(family);
    let mut ways = Vec::new();
    ways.extend(match (family, owner) {
        (Some(family), Some(owner)) => {
            let update = family.install_update.filter(|_| owner.is_update(policy));
            let install = update.or(family.install);
            install.and_then(|install| filled(install, owner, os_release.unwrap_or_default(), policy))
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

/// Inserts names of packages into a command; `None` if one cannot be a shell word.
fn filled(install: &str, owner: &Owner, os_release: &str, policy: &str) -> Option<String> {
    let Owner { name, version, is_deb, .. } = owner;
    let package = owner.debug_package(policy);
    let debug = format!("{}={}", escape::shell(&package)?, escape::shell(version)?);
    // Such as the C library's, which is older than the archives of debug symbols and is in the normal archive.
    if *is_deb && package.ends_with("-dbg") {
        return Some(format!("apt install {debug}"));
    }
    let package = if *is_deb { name.clone() } else { format!("{name}-{version}") };
    let codename = value(os_release, "VERSION_CODENAME").unwrap_or_else(|| "CODENAME".to_owned());
    let filled = install.replace("PACKAGE-debuginfo", &escape::shell(&format!("{name}-debuginfo"))?);
    let filled = filled.replace("PACKAGE", &escape::shell(&package)?).replace("CODENAME", &codename);
    Some(filled.replace("DEBUG", &debug))
}

/// Returns the value of a key in os-release.
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
    use super::{Owner, Version, debug_symbols, is_numbered_as_update, versions};

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
        let deb = deb("x", "1.2-3", "x");
        for (os_release, expected) in cases {
            let said = debug_symbols(Some(os_release), Some(&deb), "/usr/bin/x", Some("abcd"), "");
            assert!(said.contains(expected), "{os_release}: {said}");
        }
        let version = "1.2-3.fc42.x86_64".to_owned();
        let rpm = Owner { name: "x".to_owned(), version, source: None, is_deb: false };
        assert_eq!(rpm.debug_package(""), "x-debuginfo");
        for (os_release, expected) in [
            ("NAME=Fedora\nID=fedora\n", "dnf debuginfo-install x-1.2-3.fc42.x86_64; or: "),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf debuginfo-install"),
            ("ID=\"opensuse-tumbleweed\"\n", "zypper --plus-content debug install x-debuginfo"),
        ] {
            let said = debug_symbols(Some(os_release), Some(&rpm), "/usr/bin/x", Some("abcd"), "");
            assert!(said.contains(expected), "{os_release}: {said}");
        }
        let libc = Owner { name: "libc6".to_owned(), ..deb.clone() };
        let of_libc = debug_symbols(Some("ID=debian"), Some(&libc), "/x", None, "");
        assert!(of_libc.starts_with("apt install libc6-dbg=1.2-3; or: "), "{of_libc}");
        // A recorded path is quoted, or omitted if that is not possible.
        assert!(debug_symbols(None, None, "/x y;rm", None, "").ends_with("debuginfo '/x y;rm'"));
        assert_eq!(debug_symbols(Some("ID=debian"), None, "/x\n", None, ""), "");
    }

    fn deb(name: &str, version: &str, source: &str) -> Owner {
        let [name, version, source] = [name, version, source].map(str::to_owned);
        Owner { name, version, source: Some(source), is_deb: true }
    }

    /// Invented output in the format of `apt-cache policy`, with a version of the release, a version of the security
    /// archive, and a version that is only installed.
    const POLICY: &str = "\
tool:
  Installed: 1.2-3+deb12u2
  Candidate: 1.2-3+deb12u2
  Version table:
 *** 1.2-3+deb12u2 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
        100 /var/lib/dpkg/status
     1.2-3+deb12u1 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
script3-minimal:
  Installed: 3.1-2
  Candidate: 3.1-2
  Version table:
 *** 3.1-2 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
        100 /var/lib/dpkg/status
script3-dbg:
  Installed: (none)
  Candidate: 3.1-2
  Version table:
     3.1-2 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
old-dbg:
  Installed: 1-1
  Candidate: 1-1
  Version table:
 *** 1-1 100
        100 /var/lib/dpkg/status
both-dbgsym:
  Installed: (none)
  Candidate: 1-1
  Version table:
     1-1 500
        500 http://deb.debian.org/debian-debug bookworm-debug/main amd64 Packages
both-dbg:
  Installed: (none)
  Candidate: 1-1
  Version table:
     1-1 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
";

    #[test]
    fn answers_of_apt_are_read() {
        let found: Vec<_> = versions(POLICY, "tool").collect();
        let expected = [
            Version { number: "1.2-3+deb12u2", suites: vec!["bookworm-security"] },
            Version { number: "1.2-3+deb12u1", suites: vec!["bookworm"] },
        ];
        assert_eq!(found, expected);
        assert_eq!(versions(POLICY, "too").count(), 0);
        assert_eq!(versions("", "tool").count(), 0);
    }

    #[test]
    fn updates_of_stable_releases_have_the_line_of_proposed_updates() {
        let said = |owner: &Owner, policy: &str| {
            debug_symbols(Some("ID=debian\nVERSION_CODENAME=bookworm\n"), Some(owner), "/x", None, policy)
        };
        let line = "\"deb http://deb.debian.org/debian-debug bookworm-proposed-updates-debug main\"";
        let cases = [
            // From the security archive; in the release since then; from a time that apt no longer has; unchanged since
            // the release.
            ("1.2-3+deb12u2", true),
            ("1.2-3+deb12u1", false),
            ("1.2-3+deb12u3", true),
            ("1.2-3", false),
        ];
        for (version, is_update) in cases {
            let said = said(&deb("tool", version, "tool"), POLICY);
            assert_eq!(said.contains(line), is_update, "{version}: {said}");
            assert!(said.starts_with(&format!("apt install tool-dbgsym={version} (with th")), "{said}");
            assert!(said.contains("deb http://deb.debian.org/debian-debug bookworm-debug main"), "{said}");
        }
        // Without apt, the version decides.
        assert!(said(&deb("tool", "1.2-3+deb12u1", "tool"), "").contains(line));
        for (version, is_numbered) in [
            ("3.0.19-1~deb12u2", true),
            ("1+deb13u10+b1", true),
            ("1+deb12", false),
            ("1+debu1", false),
            ("1deb1u1", false),
        ] {
            assert_eq!(is_numbered_as_update(version), is_numbered, "{version}");
        }
    }

    #[test]
    fn debug_packages_beside_others_are_named_where_apt_knows_them() {
        for (name, source, expected) in [
            ("script3", "script3", "script3-dbg"),
            ("script3-minimal", "script3", "script3-dbg"),
            ("both", "both", "both-dbgsym"),
            ("tool", "tool", "tool-dbgsym"),
            // Installed, but in no archive.
            ("old", "old", "old-dbgsym"),
        ] {
            let owner = deb(name, "3.1-2", source);
            assert_eq!(owner.debug_package(POLICY), expected, "{name}");
            let said = debug_symbols(Some("ID=debian"), Some(&owner), "/x", None, POLICY);
            assert!(said.starts_with(&format!("apt install {expected}=3.1-2")), "{said}");
        }
        assert_eq!(deb("script3", "3.1-2", "script3").debug_package(""), "script3-dbgsym");
    }
}
