// SPDX-License-Identifier: MIT OR Apache-2.0
//! The package manager's knowledge (dpkg or rpm) of an installed package: its version, its files, and where its maintainers
//! want reports. Asks by its own commands.

use crate::files;
use sediment::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Bytes that a package manager may say of one package.
const LONGEST_ANSWER: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Symbolic links on the way to one file; the kernel takes as many.
const MOST_LINKS: usize = 40;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name as it was asked for.
    pub(crate) name: String,
    /// Name, version and release.
    pub(crate) version: String,
    /// Its files as they really lie below the root, links followed.
    files: BTreeSet<PathBuf>,
    /// Where its maintainers take profiles, where they say so.
    pub(crate) takes_profiles: Option<String>,
    /// Lines on whom to ask.
    pub(crate) contacts: Vec<String>,
    root: PathBuf,
}

impl Package {
    /// The package of this name, installed below `root`.
    pub(crate) fn find(name: &str, root: Option<&Path>) -> Result<Self> {
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
            return Err(Error::new(ErrorCode::Usage, format!("{name:?} is not a package name")));
        }
        let root = root.unwrap_or_else(|| Path::new("/"));
        let root = &root.canonicalize().map_err(|error| {
            Error::new(ErrorCode::Io, format!("cannot enter: {error}")).with_input(files::display(root))
        })?;
        let kept = |database: &Database| database.at.iter().find(|at| root.join(at).exists()).copied();
        let databases: Vec<(&Database, &str)> =
            DATABASES.iter().filter_map(|database| Some((database, kept(database)?))).collect();
        if databases.is_empty() {
            return Err(Error::new(ErrorCode::Unsupported, "neither dpkg nor rpm has packages here")
                .with_input(files::display(root)));
        }
        let mut why = None;
        for (database, at) in databases {
            match (database.ask)(name, root, at) {
                Ok(package) => return Ok(package),
                Err(error) => drop(why.get_or_insert(error)),
            }
        }
        let known = Error::new(ErrorCode::NotFound, format!("package {name} is not installed"));
        Err(match why {
            Some(error) => known.with_hint(format!(
                "{error}; to find the package of a file: `dpkg -S FILE` or `rpm -qf FILE`"
            )),
            None => known,
        })
    }

    /// True if a file recorded under this path belongs to the package: a path as seen below the root, or on this machine.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = Path::new(path);
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        [path, inside]
            .into_iter()
            .filter_map(|path| real_path(&self.root, path))
            .any(|real| self.files.contains(&real))
    }

    /// Base names of its files.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|path| files::base_name(path))
    }

    /// True if any of its files is compiled.
    pub(crate) fn has_code(&self) -> bool {
        self.files.iter().any(|file| files::is_elf(&self.root.join(file)))
    }

    fn new(name: &str, version: String, listed: &str, contacts: Vec<String>, root: &Path) -> Self {
        let paths = listed.lines().filter(|line| line.starts_with('/'));
        let files = paths.filter_map(|path| real_path(root, Path::new(path))).collect();
        let root = root.to_path_buf();
        Self { name: name.to_owned(), version, files, takes_profiles: None, contacts, root }
    }
}

/// A package manager.
struct Database {
    /// Its database, below the root.
    at: &'static [&'static str],
    /// For the package of this name, below this root, by what is kept there.
    ask: fn(&str, &Path, &str) -> Result<Package>,
}

const DATABASES: &[Database] = &[
    Database { at: &["var/lib/dpkg"], ask: ask_dpkg },
    Database { at: &["usr/lib/sysimage/rpm", "var/lib/rpm", "usr/share/rpm"], ask: ask_rpm },
];

fn ask_dpkg(name: &str, root: &Path, at: &str) -> Result<Package> {
    let admindir = format!("--admindir={}", root.join(at).display());
    let format = "--showformat=${Package}\\t${Version}\\t${db:Status-Abbrev}\\t${Sediment-Profiles}\\t${Bugs}\\t${Maintainer}\\n";
    let said = answer("dpkg-query", &[&admindir, "--show", format, "--", name])?;
    let installed = said.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut installed = installed.filter(|fields| fields.len() == 6 && fields[2].starts_with("ii"));
    let Some([package, version, _, takes_profiles, bugs, maintainer]) =
        installed.next().and_then(|fields| <[&str; 6]>::try_from(fields).ok())
    else {
        return Err(Error::new(ErrorCode::NotFound, format!("{name} is not installed")));
    };
    let listed = answer("dpkg-query", &[&admindir, "--listfiles", "--", name])?;
    let mut contacts = Vec::new();
    if !bugs.is_empty() {
        contacts.push(format!("the package's bug tracker: {bugs}"));
    }
    contacts.push(format!("its maintainer: {maintainer}"));
    let mut found = Package::new(name, format!("{package}-{version}"), &listed, contacts, root);
    found.takes_profiles = Some(takes_profiles.to_owned()).filter(|place| !place.is_empty());
    Ok(found)
}

fn ask_rpm(name: &str, root: &Path, at: &str) -> Result<Package> {
    // Where this machine's rpm keeps its database need not be where that of the root does.
    let database = format!("--dbpath=/{at}");
    let root_option = format!("--root={}", root.display());
    let ask = |what: &[&str]| {
        let mut arguments = vec![root_option.as_str(), &database, "--query"];
        arguments.extend(what);
        arguments.extend(["--", name]);
        answer("rpm", &arguments)
    };
    let format = "--queryformat=%{NAME}-%{VERSION}-%{RELEASE}\\t%{BUGURL}\\t%{VENDOR}\\t%{URL}\\n";
    let said = ask(&[format])?;
    let fields: Vec<&str> = said.lines().next().unwrap_or_default().split('\t').collect();
    let [version, bugs, vendor, url] = fields[..] else {
        return Err(Error::new(ErrorCode::Damaged, format!("cannot parse rpm's answer about {name}")));
    };
    let listed = ask(&["--list"])?;
    let said = |what: &str, value: &str| (value != "(none)").then(|| format!("{what}: {value}"));
    let contacts =
        [said("the package's bug tracker", bugs), said("its vendor", vendor), said("its project", url)];
    Ok(Package::new(name, version.to_owned(), &listed, contacts.into_iter().flatten().collect(), root))
}

fn answer(tool: &str, arguments: &[&str]) -> Result<String> {
    let command = Command::new(tool, "/", TIMEOUT).with_arguments(arguments.iter().copied());
    let ended = run(&command, LONGEST_ANSWER)?.successful(&command)?;
    if ended.output_dropped > 0 {
        return Err(Error::new(
            ErrorCode::TooLarge,
            format!("{tool} printed more than {LONGEST_ANSWER} bytes about one package"),
        ));
    }
    Ok(String::from_utf8_lossy(&ended.output).into_owned())
}

/// Target of a path below a root, with every symbolic link followed; None without a file at its end.
fn real_path(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut open: Vec<PathBuf> = vec![path.to_path_buf()];
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(rest) = open.pop() {
        let mut parts = rest.components();
        let part = parts.next();
        if !parts.as_path().as_os_str().is_empty() {
            open.push(parts.as_path().to_path_buf());
        }
        match part {
            Some(Component::RootDir) => real = PathBuf::new(),
            Some(Component::ParentDir) => drop(real.pop()),
            Some(Component::Normal(name)) => {
                let there = real.join(name);
                match fs::read_link(root.join(&there)) {
                    Ok(target) => {
                        links += 1;
                        if links > MOST_LINKS {
                            return None;
                        }
                        open.push(target);
                    }
                    Err(_) => real = there,
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    root.join(&real).is_file().then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("usr/lib/x86_64-linux-gnu")).unwrap();
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::write(at("usr/lib/x86_64-linux-gnu/libz.so.1.2"), "").unwrap();
        fs::write(at("usr/bin/tool"), "").unwrap();
        symlink("usr/lib", at("lib")).unwrap();
        symlink("/usr/bin", at("bin")).unwrap();
        symlink("libz.so.1.2", at("usr/lib/x86_64-linux-gnu/libz.so.1")).unwrap();
        symlink("../lib/x86_64-linux-gnu/../x86_64-linux-gnu/libz.so.1", at("usr/bin/z")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let real = |path: &str| real_path(root.path(), Path::new(path));
        let library = Some(PathBuf::from("usr/lib/x86_64-linux-gnu/libz.so.1.2"));
        assert_eq!(real("/lib/x86_64-linux-gnu/libz.so.1"), library);
        assert_eq!(real("/usr/lib/x86_64-linux-gnu/libz.so.1.2"), library);
        assert_eq!(real("/bin/z"), library);
        assert_eq!(real("/bin/tool"), Some(PathBuf::from("usr/bin/tool")));
        assert_eq!(real("/bin/../../../bin/tool"), Some(PathBuf::from("usr/bin/tool")));
        for nothing in ["/loop", "/usr/bin", "/nowhere", "/etc/passwd", ""] {
            assert_eq!(real(nothing), None, "{nothing}");
        }
    }
}
