// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares pprof profiles with prost, which decodes the messages by their declaration. Their meaning is computed here
//! a second time, from docs/formats/pprof.md, with the whole profile in memory.
//!
//! Rules for intended differences from the declaration:
//! - fields with numbers up to 7 in the rows of a table must be integers, even if sediment does not use them;
//! - groups, which no profile has, are damage everywhere;
//! - if an integer has ten bytes, its bits beyond 64 are dropped, as Go's pprof does; for prost this is damage.

use crate::cases::{CaseTally, count, differs, mutant, seeds};
use flate2::read::MultiGzDecoder;
use prost::Message as _;
use prost_derive::Message;
use sediment_read::read::{READERS, ReadSettings, Recording, Spot};
use std::collections::BTreeMap;
use std::io::Read as _;
use support::pprof_writer;

#[derive(Clone, PartialEq, Message)]
struct ProfileMessage {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<IntegerMessage>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<SampleMessage>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<IntegerMessage>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<LocationMessage>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<IntegerMessage>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    string_table: Vec<Vec<u8>>,
    #[prost(uint64, tag = "14")]
    default_sample_type: u64,
}

/// A type, mapping, function or line, which consists of integers.
#[derive(Clone, PartialEq, Message)]
struct IntegerMessage {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    second: u64,
    #[prost(uint64, tag = "3")]
    third: u64,
    #[prost(uint64, tag = "4")]
    fourth: u64,
    #[prost(uint64, tag = "5")]
    fifth: u64,
    #[prost(uint64, tag = "6")]
    sixth: u64,
    #[prost(uint64, tag = "7")]
    seventh: u64,
}

#[derive(Clone, PartialEq, Message)]
struct SampleMessage {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct LocationMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<IntegerMessage>,
}

/// The content of a profile: calls and own cost by name, and skipped items.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProfileContent {
    passages: BTreeMap<(String, String), u128>,
    costs: BTreeMap<String, u128>,
    total: u128,
    /// Number of items and weight, by reason.
    skipped: BTreeMap<String, (u64, u128)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FrameName {
    RecordedAddress(String),
    Nameless(&'static str),
    Kernel,
}

pub(crate) fn against_prost() {
    let mut seeds = seeds("pprof", "read/pprof");
    // Answers of query APIs are such messages, but wrapped in JSON.
    seeds.retain(|seed| !seed.starts_with(b"{"));
    let stacks = pprof_writer::of_stacks(&[(&["main", "work", "leaf"], 5), (&["main", "idle"], 2)]);
    seeds.extend(pprof_writer::Form::all().into_iter().map(|form| stacks.encode(form)));
    let reader = READERS.iter().find(|reader| reader.name == "pprof").unwrap();
    let mut tally = CaseTally::new("pprof against prost");
    for number in 0..count().in_process {
        let bytes = mutant("pprof", &seeds, number);
        let ours = (reader.read)(&&bytes[..], &ReadSettings::default());
        match (ours, said_by_prost(&bytes)) {
            (Ok(ours), Ok(theirs)) => {
                let ours = said_by_us(&ours);
                if ours != theirs {
                    differs("pprof", number, &bytes, &format!("ours {ours:?}\ntheirs {theirs:?}"));
                }
                tally.read += 1;
            }
            (Err(_), Err(_)) => tally.refused += 1,
            (Err(_), Ok(_)) if has_group(&unpacked(&bytes).unwrap_or_default(), 2) => {
                tally.pass_over("groups")
            }
            (Ok(_), Err(why)) if why.contains("invalid varint") => tally.pass_over("integers beyond 64 bits"),
            (Ok(_), Err(why)) => differs("pprof", number, &bytes, &format!("prost alone refuses it: {why}")),
            (Err(why), Ok(_)) => differs("pprof", number, &bytes, &format!("prost alone reads it: {why}")),
        }
    }
    tally.finish(40, 1);
}

fn said_by_us(recording: &Recording) -> ProfileContent {
    let place = |place: sediment_read::read::AddressId| {
        let place = &recording.addresses()[place.0 as usize];
        let dso = place.dso.map(|dso| &recording.dsos()[dso.0 as usize]);
        let dso = dso.map(|dso| (dso.path.as_str(), dso.build_id.as_deref()));
        match &place.spot {
            Spot::Symbol { name, file } => named(dso, name, file.as_deref()),
            Spot::FileOffset(offset) => at_offset(dso, *offset),
            Spot::Address(address) => at_address(dso, *address),
        }
    };
    let passages = recording.transfers().into_iter();
    ProfileContent {
        passages: passages.map(|(from, to, _, weight)| ((place(from), place(to)), weight)).collect(),
        costs: recording.samples().into_iter().map(|(at, cost)| (place(at), cost)).collect(),
        total: recording.total,
        skipped: recording
            .skipped
            .iter()
            .map(|(reason, entry)| (reason.to_string(), (entry.items, entry.weight)))
            .collect(),
    }
}

fn named(dso: Option<(&str, Option<&str>)>, name: &[u8], file: Option<&[u8]>) -> String {
    format!("{dso:?} {:?} {:?}", name, file)
}

fn at_offset(dso: Option<(&str, Option<&str>)>, offset: u64) -> String {
    format!("{dso:?} +{offset:#x}")
}

/// Returns an address as in the file, or as it is if the mapping covers the whole address space.
fn at_address(dso: Option<(&str, Option<&str>)>, address: u64) -> String {
    format!("{dso:?} @{address:#x}")
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(&[0x1f, 0x8b, 8]) {
        return Ok(bytes.to_vec());
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    Ok(plain)
}

fn said_by_prost(bytes: &[u8]) -> Result<ProfileContent, String> {
    let profile = ProfileMessage::decode(&unpacked(bytes)?[..]).map_err(|error| error.to_string())?;
    let text = |index: u64| {
        let found = usize::try_from(index).ok().and_then(|index| profile.string_table.get(index));
        found.map(Vec::as_slice).ok_or_else(|| format!("no string {index}"))
    };
    let types: Vec<&[u8]> = profile
        .sample_type
        .iter()
        .map(|row| text(row.second).and_then(|_| text(row.first)))
        .collect::<Result<_, _>>()?;
    let wanted = text(profile.default_sample_type)?;
    let by_name = |name: &[u8]| types.iter().position(|kind| !name.is_empty() && *kind == name);
    let counted = by_name(wanted).or_else(|| by_name(b"samples")).or_else(|| by_name(b"cpu"));
    let counted = counted.or_else(|| types.len().checked_sub(1)).ok_or("no type")?;
    let mappings = by_id(profile.mapping.iter().map(|row| (row.first, row)))?;
    let functions = by_id(profile.function.iter().map(|row| (row.first, row)))?;
    let locations = by_id(profile.location.iter().map(|location| (location.id, location)))?;
    let frame = |id: u64| -> Result<FrameName, String> {
        let location = locations.get(&id).ok_or("no such location")?;
        let mapping = match location.mapping_id {
            0 => None,
            id => Some(*mappings.get(&id).ok_or("no such mapping")?),
        };
        let function = match location.line.last().map_or(0, |line| line.first) {
            0 => None,
            id => Some(*functions.get(&id).ok_or("no such function")?),
        };
        frame_of(location.address, mapping, function, &text)
    };
    let mut said = ProfileContent::default();
    let mut named = false;
    for sample in &profile.sample {
        if sample.value.len() != types.len() {
            return Err("another number of values than of types".to_owned());
        }
        let weight = u128::from(sample.value[counted].unsigned_abs());
        let left_out = match sample.value[counted] {
            0 => Some("samples with the value 0"),
            ..0 => Some("samples with a negative value"),
            _ if sample.location_id.is_empty() => Some("samples without a call stack"),
            _ => None,
        };
        if let Some(reason) = left_out {
            lose(&mut said, reason.to_owned(), weight);
            continue;
        }
        let frames: Vec<FrameName> =
            sample.location_id.iter().rev().map(|id| frame(*id)).collect::<Result<_, _>>()?;
        named |= frames.iter().any(|frame| matches!(frame, FrameName::RecordedAddress(_)));
        add(&mut said, &frames, weight);
    }
    if profile.sample.is_empty() || !named {
        return Err("no sample, or none at a place with a name".to_owned());
    }
    Ok(said)
}

fn by_id<T>(rows: impl Iterator<Item = (u64, T)>) -> Result<BTreeMap<u64, T>, String> {
    let mut found = BTreeMap::new();
    for (id, row) in rows {
        if id == 0 || found.insert(id, row).is_some() {
            return Err(format!("id {id}"));
        }
    }
    Ok(found)
}

fn frame_of<'a>(
    address: u64,
    mapping: Option<&IntegerMessage>,
    function: Option<&IntegerMessage>,
    text: &dyn Fn(u64) -> Result<&'a [u8], String>,
) -> Result<FrameName, String> {
    let path = mapping.map_or(Ok(&b""[..]), |mapping| text(mapping.fifth))?;
    mapping.map_or(Ok(&b""[..]), |mapping| text(mapping.sixth))?;
    for string in function.iter().flat_map(|row| [row.second, row.third, row.fourth]) {
        text(string)?;
    }
    let starts = |words: &[&str]| words.iter().any(|word| path.starts_with(word.as_bytes()));
    if starts(&["[kernel", "[guest.kernel", "[hypervisor]", "[k]"])
        || address >> 63 == 1 && !starts(&["/"]) && path != b"[vsyscall]"
    {
        return Ok(FrameName::Kernel);
    }
    if starts(&["[", "//anon", "anon_inode:", "/dev/zero", "/memfd:", "/SYSV", "linux-vdso", "linux-gate"]) {
        return Ok(FrameName::Nameless("in memory outside every mapped file"));
    }
    let mut name = None;
    if let Some(function) = function {
        let linkage = text(function.third)?;
        let linkage = if linkage.is_empty() { text(function.second)? } else { linkage };
        if !linkage.is_empty() && linkage.len() <= 4096 {
            let file = text(function.fourth)?.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            name = Some((linkage, Some(file).filter(|file| (1..256).contains(&file.len()))));
        }
    }
    let mut id = None;
    if let Some(mapping) = mapping {
        let text = std::str::from_utf8(text(mapping.sixth)?).ok();
        let whole = |id: &&str| id.len() % 2 == 0 && (1..=128).contains(&id.len());
        id = text.filter(whole).filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if path.len() > 4096 || std::str::from_utf8(path).is_err() {
            return Ok(FrameName::Nameless("in a file whose path is not UTF-8"));
        }
    }
    let path = std::str::from_utf8(path).unwrap();
    let path = if path.is_empty() { id.unwrap_or_default() } else { path };
    let lower = id.map(str::to_ascii_lowercase);
    let dso = (!path.is_empty()).then_some((path, lower.as_deref()));
    Ok(match (name, function, mapping) {
        (Some((name, file)), _, _) => FrameName::RecordedAddress(named(dso, name, file)),
        (None, Some(_), _) => {
            FrameName::Nameless("in a function whose name is empty or longer than 4096 bytes")
        }
        (None, None, Some(mapping))
            if dso.is_some()
                && (mapping.second, mapping.fourth) == (0, 0)
                && matches!(mapping.third, 0 | u64::MAX) =>
        {
            FrameName::RecordedAddress(at_address(dso, address))
        }
        (None, None, Some(mapping))
            if dso.is_some()
                && address >= mapping.second
                && (mapping.third == 0 || address < mapping.third) =>
        {
            FrameName::RecordedAddress(at_offset(
                dso,
                (address - mapping.second).wrapping_add(mapping.fourth),
            ))
        }
        _ => FrameName::Nameless("at an address that the profile maps to no file"),
    })
}

fn lose(said: &mut ProfileContent, reason: String, weight: u128) {
    let entry = said.skipped.entry(reason).or_default();
    *entry = (entry.0 + 1, entry.1 + weight);
}

fn add(said: &mut ProfileContent, frames: &[FrameName], weight: u128) {
    match frames.last() {
        Some(FrameName::RecordedAddress(place)) => *said.costs.entry(place.clone()).or_default() += weight,
        Some(FrameName::Nameless(why)) => lose(said, format!("own cost {why}"), weight),
        _ => lose(said, "own cost in the kernel, a hypervisor or a guest".to_owned(), weight),
    }
    let pairs: std::collections::BTreeSet<(&FrameName, &FrameName)> =
        frames.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
    for pair in pairs {
        let why = match pair {
            (FrameName::Kernel, _) | (_, FrameName::Kernel) => continue,
            (FrameName::RecordedAddress(from), FrameName::RecordedAddress(to)) => {
                said.total += weight;
                *said.passages.entry((from.clone(), to.clone())).or_default() += weight;
                continue;
            }
            (FrameName::Nameless(why), _) | (_, FrameName::Nameless(why)) => why,
        };
        said.total += weight;
        lose(said, format!("calls {why}"), weight);
    }
}

/// True if a field of this message begins or ends a group, or a field of a nested message, down to this many levels.
fn has_group(mut bytes: &[u8], levels: usize) -> bool {
    while let Ok(key) = prost::encoding::decode_varint(&mut bytes) {
        let length = match key & 7 {
            0 => {
                if prost::encoding::decode_varint(&mut bytes).is_err() {
                    return false;
                }
                continue;
            }
            1 => 8,
            2 => prost::encoding::decode_varint(&mut bytes).unwrap_or(u64::MAX) as usize,
            5 => 4,
            _ => return true,
        };
        let Some((inside, rest)) = bytes.split_at_checked(length) else { return false };
        if key & 7 == 2 && levels > 0 && has_group(inside, levels - 1) {
            return true;
        }
        bytes = rest;
    }
    false
}
