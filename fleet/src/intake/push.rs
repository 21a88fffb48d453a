// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles from continuous profilers: pprof as agents of Pyroscope (`/ingest`) and Parca (`WriteRaw`) send it, and OTLP. The site's list of
//! build-ids gives the packages of the libraries; without an entry, the package is the service and its version. The reader drops labels, hosts
//! and times.

use crate::errors::{ErrorContext as _, damaged};
use parking_lot::RwLock;
use prost::Message as _;
use sediment_core::binary::NoFiles;
use sediment_core::profile::text;
use sediment_core::{Error, ErrorCode, Result};
use sediment_read::{read, resolve};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Name and version of the profiled service or package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Service {
    /// From the query of `/ingest`: `name=SERVICE{version=VERSION}`, or `package=` and `version=`.
    pub(crate) fn of_query(query: &str) -> Self {
        let mut service = Self::default();
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "name" => {
                    let (name, labels) = value.split_once('{').unwrap_or((&value, ""));
                    service.name = name.to_owned();
                    let mut labels =
                        labels.trim_end_matches('}').split(',').filter_map(|l| l.split_once('='));
                    if let Some((_, version)) = labels.find(|(label, _)| is_version(label.trim())) {
                        service.version = version.trim().trim_matches('"').to_owned();
                    }
                }
                "package" => service.name = value.into_owned(),
                "version" => service.version = value.into_owned(),
                _ => {}
            }
        }
        // Agents name a kind of profile `SERVICE.cpu`.
        if let Some(name) = service.name.strip_suffix(".cpu") {
            service.name = name.to_owned();
        }
        service
    }

    /// From the attributes of the first resources of an OTLP message that have them.
    pub(crate) fn of_otlp(message: &[u8]) -> Self {
        let export = message::Export::decode(message).unwrap_or_default();
        let resources = export.resources.into_iter().filter_map(|profiles| profiles.resource);
        let attributes = resources.flat_map(|resource| resource.attributes);
        Self::of_labels(attributes.map(|attribute| (attribute.key, attribute.value.unwrap_or_default().text)))
    }

    /// From labels; the first label of a kind counts.
    fn of_labels(labels: impl Iterator<Item = (String, String)>) -> Self {
        let mut service = Self::default();
        let mut job = String::new();
        for (label, value) in labels {
            match label.as_str() {
                "service.name" | "service_name" | "package" if service.name.is_empty() => {
                    service.name = value
                }
                "job" => job = value,
                label if is_version(label) && service.version.is_empty() => service.version = value,
                _ => {}
            }
        }
        if service.name.is_empty() {
            service.name = job;
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
pub(crate) struct PackagesByBuildId {
    path: Option<PathBuf>,
    packages: RwLock<HashMap<String, String>>,
}

impl PackagesByBuildId {
    /// Reads a file. Without a file, no build-id is known.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let build_ids = Self { path: path.map(Path::to_path_buf), packages: RwLock::default() };
        build_ids.refresh()?;
        Ok(build_ids)
    }

    /// Reads the file again. If that fails, keeps the earlier contents.
    pub(crate) fn refresh(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let packages = Self::parse(&std::fs::read_to_string(path).at(path)?);
        *self.packages.write() = packages.map_err(|error| error.with_input(path.display().to_string()))?;
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
        self.packages.read().get(build_id).cloned()
    }
}

fn is_version(label: &str) -> bool {
    ["version", "service_version", "service.version"].contains(&label)
}

/// The fields that are used of messages of OTLP (`ExportProfilesServiceRequest`) and Parca (`WriteRawRequest`).
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Export {
        #[prost(message, repeated, tag = "1")]
        pub(super) resources: Vec<ResourceProfiles>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ResourceProfiles {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct AnyValue {
        #[prost(string, tag = "1")]
        pub(super) text: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct WriteRaw {
        #[prost(message, repeated, tag = "2")]
        pub(super) series: Vec<Series>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Series {
        #[prost(message, optional, tag = "1")]
        pub(super) labels: Option<LabelSet>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<RawSample>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LabelSet {
        #[prost(message, repeated, tag = "1")]
        pub(super) labels: Vec<SeriesLabel>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct SeriesLabel {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct RawSample {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) profile: Vec<u8>,
    }
}

/// The pprof profiles in a message of Parca's agents, with the services that their labels name.
pub(crate) fn of_parca(message: &[u8]) -> Result<Vec<(Service, Vec<u8>)>> {
    let write = message::WriteRaw::decode(message)
        .map_err(|error| damaged(format!("not a WriteRawRequest: {error}")))?;
    let mut profiles = Vec::new();
    for series in write.series {
        let labels = series.labels.unwrap_or_default().labels.into_iter();
        let service = Service::of_labels(labels.map(|label| (label.name, label.value)));
        profiles.extend(series.samples.into_iter().map(|sample| (service.clone(), sample.profile)));
    }
    if profiles.is_empty() { Err(damaged("the message has no profile")) } else { Ok(profiles) }
}

/// The profile in a form with several parts, as Pyroscope's agents send it; for other bodies, all bytes.
pub(crate) fn part_of_form<'b>(content_type: &str, body: &'b [u8]) -> &'b [u8] {
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
pub(crate) fn profile_of(
    recording: &[u8],
    service: &Service,
    build_ids: &PackagesByBuildId,
) -> Result<Vec<u8>> {
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
