// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of the package manager (dpkg or rpm) on an installed package: its version, its files, and where its maintainers
//! accept reports. It is read with the package manager's own commands.

use crate::distribution::{self, Owner};
use crate::files;
use sediment_core::{Error, ErrorCode, Result};
use sediment_process::Command;
use sediment_process::command::run;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Longest output of a package manager on one package, in bytes.
const LONGEST_ANSWER: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Largest number of symbolic links in the path of a file; the kernel has the same limit.
const MOST_LINKS: usize = 40;

/// Largest length of a script's first line in bytes; the kernel has the same limit.
const LONGEST_LINE: u64 = 256;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name as given.
    pub(crate) name: String,
    /// Name, version and release.
    pub(crate) version: String,
    /// Real paths of its files below the root, without links.
    files: BTreeSet<PathBuf>,
    /// Where its maintainers accept profiles, if they do.
    pub(crate) takes_profiles: Option<String>,
    /// The package in the notation of the distribution's tools.
    pub(crate) owner: Owner,
    /// Lines with contacts, for a package that contains profiles.
    pub(crate) contacts: Vec<String>,
    root: PathBuf,
}

impl Package {
    /// Finds the package with this name, installed below `root`.
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
            return Err(Error::new(
                ErrorCode::Unsupported,
                "neither dpkg nor rpm has packages on this machine",
            )
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

    /// True if a file with this recorded path belongs to the package. The path is relative to the root, or on this
    /// machine.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = Path::new(path);
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        [path, inside]
            .into_iter()
            .filter_map(|path| real_path(&self.root, path))
            .any(|real| self.files.contains(&real))
    }

    /// Folder below which it is installed.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Base names of its files.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|path| files::base_name(path))
    }

    /// True if any of its files is compiled code.
    pub(crate) fn has_code(&self) -> bool {
        self.files.iter().any(|file| files::is_elf(&self.root.join(file)))
    }

    /// Returns its scripts that a shell finds: paths relative to the root, with the paths of their interpreters as in
    /// the scripts.
    pub(crate) fn scripts(&self) -> Vec<(PathBuf, PathBuf)> {
        let in_bin = |file: &&PathBuf| {
            let folder = file.parent().and_then(Path::file_name);
            folder.is_some_and(|folder| ["bin", "sbin", "games"].iter().any(|name| folder == *name))
        };
        let scripts = self
            .files
            .iter()
            .filter(in_bin)
            .filter_map(|file| Some((Path::new("/").join(file), interpreter(&self.root.join(file))?)));
        scripts.collect()
    }

    fn new(
        name: &str,
        owner: Owner,
        version: String,
        listed: &str,
        contacts: Vec<String>,
        root: &Path,
    ) -> Self {
        let paths = listed.lines().filter(|line| line.starts_with('/'));
        let files: BTreeSet<PathBuf> = paths.filter_map(|path| real_path(root, Path::new(path))).collect();
        let is_profile = |file: &PathBuf| {
            file.extension().is_some_and(|end| end == "gv" || end == "prof")
                && file.iter().any(|part| part == "sediment")
        };
        // The maintainers of a package without profiles may not know about profiles.
        let contacts = if files.iter().any(is_profile) { contacts } else { Vec::new() };
        let root = root.to_path_buf();
        Self { name: name.to_owned(), version, files, takes_profiles: None, owner, contacts, root }
    }
}

/// Returns the package that installed a file, by any of its paths: /bin and /usr/bin are the same folder on many
/// systems, and dpkg may use either path.
pub(crate) fn owner(path: &Path, root: Option<&Path>) -> Option<Owner> {
    let root = root.unwrap_or_else(|| Path::new("/")).canonicalize().ok()?;
    let real = Path::new("/").join(real_path(&root, path)?);
    // A link and its target may belong to different packages; the target has the code.
    let mut paths = names_of(&real).to_vec();
    paths.push(path.to_path_buf());
    let kept = |database: &Database| database.at.iter().find(|at| root.join(at).exists()).copied();
    DATABASES.iter().find_map(|database| (database.owner)(&paths, &root, kept(database)?))
}

/// Debug symbols of a file.
#[derive(Debug)]
pub(crate) struct DebugSymbols {
    /// The package that contains them, if the package of the file is known.
    pub(crate) package: Option<String>,
    /// Command that installs them.
    pub(crate) command: String,
}

/// Returns the debug symbols of a file with this recorded path and package, on the system with this os-release.
/// `policy` is the result of [`apt_policy`] for its owner.
pub(crate) fn debug_symbols(
    os_release: Option<&str>,
    owner: Option<&Owner>,
    path: &str,
    build_id: Option<&str>,
    policy: &str,
) -> DebugSymbols {
    DebugSymbols {
        package: owner.map(|owner| owner.debug_package(policy)),
        command: distribution::debug_symbols(os_release, owner, path, build_id, policy),
    }
}

/// Returns the output of `apt-cache policy` on packages below the root and on those that may have their debug symbols;
/// empty without apt. If apt has no cache, as in container images, each call reads the lists of all packages, so a
/// single call covers all.
pub(crate) fn apt_policy<'a>(owners: impl IntoIterator<Item = &'a Owner>, root: Option<&Path>) -> String {
    // apt has data only on packages of this machine.
    let is_here = root.is_none_or(|root| root == Path::new("/"));
    let owners = owners.into_iter().filter(|owner| owner.is_deb && is_here);
    let names: BTreeSet<String> =
        owners.flat_map(|owner| [vec![owner.name.clone()], owner.debug_packages()].concat()).collect();
    if names.is_empty() {
        return String::new();
    }
    let arguments: Vec<&str> = ["policy", "--"].into_iter().chain(names.iter().map(String::as_str)).collect();
    answer("apt-cache", &arguments).unwrap_or_default()
}

/// Returns a path, and the same path below /usr or without it.
fn names_of(path: &Path) -> [PathBuf; 2] {
    let other = match path.strip_prefix("/usr") {
        Ok(rest) => Path::new("/").join(rest),
        Err(_) => Path::new("/usr").join(path.strip_prefix("/").unwrap_or(path)),
    };
    [path.to_path_buf(), other]
}

fn owner_by_dpkg(paths: &[PathBuf], root: &Path, at: &str) -> Option<Owner> {
    let admindir = format!("--admindir={}", root.join(at).display());
    // dpkg interprets patterns.
    let is_plain = |path: &&str| !path.contains(['*', '?', '[', '\\']);
    let paths: Vec<&str> = paths.iter().filter_map(|path| path.to_str()).filter(is_plain).collect();
    let arguments = [&[admindir.as_str(), "--search"], &paths[..]].concat();
    let command = Command::new("dpkg-query", "/", TIMEOUT).with_arguments(arguments);
    // It fails if one of them is not found, but lists the others.
    let listed = String::from_utf8_lossy(&run(&command, LONGEST_ANSWER).ok()?.output).into_owned();
    let lines = || listed.lines().filter(|line| !line.starts_with("diversion "));
    let name =
        paths.iter().find_map(|path| lines().find_map(|line| line.strip_suffix(path)?.strip_suffix(": ")))?;
    let name = name.split(", ").next().unwrap_or(name);
    let format = "--showformat=${Version}\\t${source:Package}";
    let said = answer("dpkg-query", &[&admindir, "--show", format, "--", name]).ok()?;
    let (version, source) = said.split_once('\t')?;
    let plain = name.split(':').next().unwrap_or(name).to_owned();
    let (version, source) = (version.to_owned(), Some(source.to_owned()));
    Some(Owner { name: plain, version, source, is_deb: true })
}

fn owner_by_rpm(paths: &[PathBuf], root: &Path, at: &str) -> Option<Owner> {
    let database = format!("--dbpath=/{at}");
    let root_option = format!("--root={}", root.display());
    paths.iter().filter_map(|path| path.to_str()).find_map(|path| {
        let format = "--queryformat=%{NAME}\\t%{VERSION}-%{RELEASE}.%{ARCH}\\n";
        let said = answer("rpm", &[&root_option, &database, "--query", format, "--file", "--", path]).ok()?;
        let (name, version) = said.lines().next()?.split_once('\t')?;
        Some(Owner { name: name.to_owned(), version: version.to_owned(), source: None, is_deb: false })
    })
}

/// A package manager.
struct Database {
    /// Path of its database below the root.
    at: &'static [&'static str],
    /// Returns the package with this name below this root. The last argument is the path of the database.
    ask: fn(&str, &Path, &str) -> Result<Package>,
    /// Returns the package of a file with one of these paths.
    owner: fn(&[PathBuf], &Path, &str) -> Option<Owner>,
}

const DATABASES: &[Database] = &[
    Database { at: &["var/lib/dpkg"], ask: ask_dpkg, owner: owner_by_dpkg },
    Database {
        at: &["usr/lib/sysimage/rpm", "var/lib/rpm", "usr/share/rpm"],
        ask: ask_rpm,
        owner: owner_by_rpm,
    },
];

fn ask_dpkg(name: &str, root: &Path, at: &str) -> Result<Package> {
    let admindir = format!("--admindir={}", root.join(at).display());
    let format = "--showformat=${Package}\\t${Version}\\t${db:Status-Abbrev}\\t${Sediment-Profiles}\\t${Bugs}\\t${source:Package}\\t${Maintainer}\\n";
    let said = answer("dpkg-query", &[&admindir, "--show", format, "--", name])?;
    let installed = said.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut installed = installed.filter(|fields| fields.len() == 7 && fields[2].starts_with("ii"));
    let Some([package, version, _, takes_profiles, bugs, source, maintainer]) =
        installed.next().and_then(|fields| <[&str; 7]>::try_from(fields).ok())
    else {
        return Err(Error::new(ErrorCode::NotFound, format!("{name} is not installed")));
    };
    let listed = answer("dpkg-query", &[&admindir, "--listfiles", "--", name])?;
    let mut contacts = Vec::new();
    if !bugs.is_empty() {
        contacts.push(format!("the package's bug tracker: {bugs}"));
    }
    contacts.push(format!("its maintainer: {maintainer}"));
    let source = Some(source.to_owned());
    let owner = Owner { name: package.to_owned(), version: version.to_owned(), source, is_deb: true };
    let mut found = Package::new(name, owner, format!("{package}-{version}"), &listed, contacts, root);
    found.takes_profiles = Some(takes_profiles.to_owned()).filter(|place| !place.is_empty());
    Ok(found)
}

fn ask_rpm(name: &str, root: &Path, at: &str) -> Result<Package> {
    // The root's rpm database may have another path than this machine's.
    let database = format!("--dbpath=/{at}");
    let root_option = format!("--root={}", root.display());
    let ask = |what: &[&str]| {
        let mut arguments = vec![root_option.as_str(), &database, "--query"];
        arguments.extend(what);
        arguments.extend(["--", name]);
        answer("rpm", &arguments)
    };
    let format = "--queryformat=%{NAME}-%{VERSION}-%{RELEASE}\\t%{BUGURL}\\t%{VENDOR}\\t%{URL}\\t%{NAME}\\n";
    let said = ask(&[format])?;
    let fields: Vec<&str> = said.lines().next().unwrap_or_default().split('\t').collect();
    let [version, bugs, vendor, url, plain] = fields[..] else {
        return Err(Error::new(ErrorCode::Damaged, format!("cannot parse rpm's answer about {name}")));
    };
    let listed = ask(&["--list"])?;
    let provides = ask(&["--provides"])?;
    let said = |what: &str, value: &str| (value != "(none)").then(|| format!("{what}: {value}"));
    let contacts =
        [said("the package's bug tracker", bugs), said("its vendor", vendor), said("its project", url)];
    let release = version.strip_prefix(plain).and_then(|rest| rest.strip_prefix('-')).unwrap_or(version);
    let owner = Owner { name: plain.to_owned(), version: release.to_owned(), source: None, is_deb: false };
    let contacts = contacts.into_iter().flatten().collect();
    let mut found = Package::new(name, owner, version.to_owned(), &listed, contacts, root);
    let place =
        provides.lines().find_map(|line| line.trim().strip_prefix("sediment-profiles(")?.strip_suffix(')'));
    found.takes_profiles = place.filter(|place| !place.is_empty()).map(str::to_owned);
    Ok(found)
}

/// Returns the interpreter in the first line of a script; after `env`, the program that `env` finds on PATH.
pub(crate) fn interpreter(script: &Path) -> Option<PathBuf> {
    let text = files::beginning(script, LONGEST_LINE).ok()?;
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let first = PathBuf::from(words.next()?);
    if first.file_name()? != "env" {
        return Some(first);
    }
    let program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    files::on_path(program.as_ref()).into_iter().next()
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

/// Resolves all symbolic links of a path below a root; `None` if the result is not a file.
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
