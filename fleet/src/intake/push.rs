// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles from continuous profilers: pprof at `/ingest`, as Pyroscope's agents send it, and OTLP at `/v1development/profiles`. The site's list of
//! build-ids gives the packages of the libraries; without an entry, the package is the service and its version. The reader drops labels, hosts
//! and times.

use sediment_core::binary::NoFiles;
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::{read, resolve};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Name and version of the profiled service or package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Service {
    /// From the query of `/ingest`: `name=SERVICE{version=VERSION}`, or `package=` and `version=`.
    #[must_use]
    pub fn of_query(query: &str) -> Self {
        let mut service = Self::default();
        for (key, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            let value = decoded(value);
            match key {
                "name" => {
                    let (name, labels) = value.split_once('{').unwrap_or((value.as_str(), ""));
                    service.name = name.to_owned();
                    let mut labels =
                        labels.trim_end_matches('}').split(',').filter_map(|l| l.split_once('='));
                    if let Some((_, version)) = labels.find(|(label, _)| is_version(label.trim())) {
                        service.version = version.trim().trim_matches('"').to_owned();
                    }
                }
                "package" => service.name = value,
                "version" => service.version = value,
                _ => {}
            }
        }
        // Agents name a kind of profile `SERVICE.cpu`.
        if let Some(name) = service.name.strip_suffix(".cpu") {
            service.name = name.to_owned();
        }
        service
    }

    /// From the attributes of the first resource of an OTLP message.
    #[must_use]
    pub fn of_otlp(message: &[u8]) -> Self {
        let mut service = Self::default();
        let resources = fields(message).filter(|(number, _)| *number == 1).map(|(_, resource)| resource);
        for attribute in resources
            .flat_map(|profiles| fields(profiles).filter(|(number, _)| *number == 1))
            .flat_map(|(_, resource)| fields(resource).filter(|(number, _)| *number == 1))
        {
            let key = field_of(attribute.1, 1).unwrap_or_default();
            let value = field_of(attribute.1, 2).and_then(|value| field_of(value, 1)).unwrap_or_default();
            let value = String::from_utf8_lossy(value).into_owned();
            match key {
                b"service.name" if service.name.is_empty() => service.name = value,
                b"service.version" if service.version.is_empty() => service.version = value,
                _ => {}
            }
        }
        service
    }

    /// In the spelling of profiles.
    fn package(&self) -> Option<String> {
        let version = if self.version.is_empty() { "0" } else { &self.version };
        (!self.name.is_empty()).then(|| format!("{}-{version}", self.name))
    }
}

/// Packages by build-id, from a file. Each line contains a build-id, a tab, and NAME-VERSION-RELEASE.
#[derive(Debug, Default)]
pub struct PackagesByBuildId {
    path: Option<PathBuf>,
    packages: RwLock<HashMap<String, String>>,
}

impl PackagesByBuildId {
    /// Reads a file. Without a file, no build-id is known.
    ///
    /// # Errors
    /// Fails if the file is not readable, or has an invalid line, which the error contains.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let build_ids = Self { path: path.map(Path::to_path_buf), packages: RwLock::default() };
        build_ids.refresh()?;
        Ok(build_ids)
    }

    /// Reads the file again. If that fails, keeps the earlier contents.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn refresh(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text =
            std::fs::read_to_string(path).map_err(|error| Error::new(ErrorCode::Io, error.to_string()));
        let packages = text.and_then(|text| Self::parse(&text));
        let packages = packages.map_err(|error| error.with_input(path.display().to_string()))?;
        *self.packages.write().unwrap_or_else(PoisonError::into_inner) = packages;
        Ok(())
    }

    fn parse(text: &str) -> Result<HashMap<String, String>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parts = lines.map(|(at, line)| {
            let parts = line.split_once('\t');
            let parts =
                parts.filter(|(id, _)| !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let parts = parts.map(|(id, package)| (id.to_ascii_lowercase(), package.trim().to_owned()));
            parts.ok_or_else(|| Error::at_line(at as u64 + 1, "not a build-id, a tab and a package"))
        });
        parts.collect()
    }

    fn package(&self, build_id: &str) -> Option<String> {
        self.packages.read().unwrap_or_else(PoisonError::into_inner).get(build_id).cloned()
    }
}

fn is_version(label: &str) -> bool {
    ["version", "service_version", "service.version"].contains(&label)
}

/// Decodes a value of a query with `+`, and with `%` and two hexadecimal digits.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn field_of(message: &[u8], number: u64) -> Option<&[u8]> {
    fields(message).find(|(found, _)| *found == number).map(|(_, bytes)| bytes)
}

/// Fields of a protocol buffers message that contain bytes; stops at invalid data.
fn fields(message: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        loop {
            let key = varint(&mut rest)?;
            let length = match key & 7 {
                0 => {
                    varint(&mut rest)?;
                    continue;
                }
                1 => 8,
                5 => 4,
                2 => usize::try_from(varint(&mut rest)?).ok()?,
                _ => return None,
            };
            let (bytes, others) = rest.split_at_checked(length)?;
            rest = others;
            if key & 7 == 2 {
                return Some((key >> 3, bytes));
            }
        }
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, others) = rest.split_first()?;
        *rest = others;
        number |= u64::from(first & 127) << shift;
        if first & 128 == 0 {
            return Some(number);
        }
    }
    None
}

/// The profile in a form with several parts, as Pyroscope's agents send it; for other bodies, all bytes.
#[must_use]
pub fn part_of_form<'b>(content_type: &str, body: &'b [u8]) -> &'b [u8] {
    let Some(boundary) = content_type.strip_prefix("multipart/form-data").and_then(|rest| {
        let boundary = rest.split("boundary=").nth(1)?.split(';').next()?;
        Some(format!("--{}", boundary.trim().trim_matches('"')))
    }) else {
        return body;
    };
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|part| part == what);
    let mut rest = body;
    while let Some(at) = find(rest, boundary.as_bytes()) {
        let part = &rest[at + boundary.len()..];
        let Some(head) = find(part, b"\r\n\r\n") else { break };
        let (named, content) = (&part[..head], &part[head + 4..]);
        let end = find(content, format!("\r\n{boundary}").as_bytes()).unwrap_or(content.len());
        if find(named, b"name=\"profile\"").is_some() {
            return &content[..end];
        }
        rest = &content[end..];
    }
    body
}

/// Converts a recording to the text of a profile, with the packages of its libraries.
///
/// # Errors
/// Returns the errors of the readers. Fails if no package is named.
pub fn profile_of(recording: Vec<u8>, service: &Service, build_ids: &PackagesByBuildId) -> Result<Vec<u8>> {
    let recording = read::read(&recording, &read::ReadSettings::default())?;
    let (mut profile, _unresolved) = resolve::resolve(&recording, &NoFiles)?;
    let service = service.package();
    let labels: Vec<String> = profile.dsos().keys().cloned().collect();
    let mut is_named = false;
    for label in labels {
        let facts = profile.dso_mut(&label);
        let package =
            facts.build_id.as_ref().and_then(|id| build_ids.package(id)).or_else(|| service.clone());
        is_named |= package.is_some();
        facts.package = package;
    }
    if !is_named {
        return Err(Error::new(ErrorCode::NotInProfile, "the name of the profiled service is missing")
            .with_hint(
                "set service.name and service.version of the resource, or use /ingest?name=SERVICE{version=VERSION}",
            ));
    }
    Ok(text::print(&profile).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
    }

    #[test]
    fn services_are_named_by_queries_and_resources() {
        let named =
            |name: &str, version: &str| Service { name: name.to_owned(), version: version.to_owned() };
        assert_eq!(
            Service::of_query("name=web.cpu%7Bversion%3D1.2-3%2Chost%3Da%7D&from=1"),
            named("web", "1.2-3")
        );
        assert_eq!(Service::of_query("package=a+b&version=2"), named("a b", "2"));
        let attribute = |key: &str, value: &str| {
            field(1, &[field(1, key.as_bytes()), field(2, &field(1, value.as_bytes()))].concat())
        };
        let resource = [attribute("service.name", "web"), attribute("service.version", "7")].concat();
        assert_eq!(Service::of_otlp(&field(1, &field(1, &resource))), named("web", "7"));
        assert_eq!(Service::of_otlp(b"\xff\xff"), Service::default());
    }

    #[test]
    fn build_ids_have_packages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("build-ids");
        std::fs::write(&path, "# libraries\n00FF\tlibq-1.2-3\n").unwrap();
        let build_ids = PackagesByBuildId::open(Some(&path)).unwrap();
        assert_eq!(build_ids.package("00ff").as_deref(), Some("libq-1.2-3"));
        std::fs::write(&path, "00ff libq").unwrap();
        let error = build_ids.refresh().unwrap_err();
        assert_eq!(error.location(), Some(sediment_core::ErrorLocation::Line(1)));
        assert!(build_ids.package("00ff").is_some() && build_ids.package("01").is_none());
    }

    #[test]
    fn a_form_has_the_profile_in_a_part() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n\r\nbytes\r\n--x--\r\n";
        assert_eq!(part_of_form("multipart/form-data; boundary=x", body), b"bytes");
        assert_eq!(part_of_form("application/octet-stream", b"all"), b"all");
    }
}
