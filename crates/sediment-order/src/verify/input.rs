// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the input sections of functions in the objects of the link.

use super::reason::InputSection;
use sediment_core::binary::names::{self, SectionGroup, compiled_to};
use sediment_core::binary::objects::{InputObjects, ObjectFunction, ObjectPath};
use std::collections::HashMap;

/// The section of a function in the objects.
pub(super) enum ObjectSection {
    /// A section of its own, in this group.
    Own(InputSection, SectionGroup),
    /// A section that is named after another function.
    OfAnother(String),
    /// A section that several functions share.
    Shared(InputSection),
    /// Unknown: no object has the function, or several disagree.
    Unknown,
}

/// The functions of a link's objects by name.
pub(super) struct InputSections<'a> {
    objects: &'a InputObjects,
    by_name: HashMap<&'a str, Vec<&'a ObjectFunction>>,
}

/// Kinds of section that an order must distinguish.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionKind<'a> {
    Own,
    OfAnother(&'a str),
    Shared,
}

impl<'a> InputSections<'a> {
    pub(super) fn new(objects: &'a InputObjects) -> Self {
        let mut by_name: HashMap<&str, Vec<&ObjectFunction>> = HashMap::new();
        for function in &objects.functions {
            by_name.entry(function.name.as_str()).or_default().push(function);
        }
        Self { objects, by_name }
    }

    /// Returns the section of a function; of a local one of this source file, if the file is known.
    pub(super) fn of(&self, name: &str, file: Option<&str>) -> ObjectSection {
        let all = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let of_file = |function: &&&ObjectFunction| {
            function.file.as_deref() == file || compiled_to(file, base(&self.object(function)))
        };
        let local: Vec<&ObjectFunction> =
            all.iter().filter(|_| file.is_some()).filter(of_file).copied().collect();
        let found = if local.is_empty() { all } else { local.as_slice() };
        let Some(first) = found.first() else { return ObjectSection::Unknown };
        let kind = kind_of(first);
        if found.iter().any(|other| kind_of(other) != kind) {
            return ObjectSection::Unknown;
        }
        let section = InputSection { name: first.section.clone(), object: self.object(first) };
        match kind {
            SectionKind::Own => {
                let group = names::function_of_section(&first.section).map(|(_, group)| group);
                ObjectSection::Own(section, group.unwrap_or(SectionGroup::Plain))
            }
            SectionKind::OfAnother(name) => ObjectSection::OfAnother(name.to_owned()),
            SectionKind::Shared => ObjectSection::Shared(section),
        }
    }

    /// Name of a function's object.
    fn object(&self, function: &ObjectFunction) -> String {
        match self.objects.paths.get(function.path) {
            Some(ObjectPath::File(path)) => path.clone(),
            Some(ObjectPath::Member { archive, member }) => format!("{archive}({member})"),
            Some(ObjectPath::CompiledFrom(source)) => source.clone(),
            None => String::new(),
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn kind_of(function: &ObjectFunction) -> SectionKind<'_> {
    let own = names::split_from(&function.name).unwrap_or(&function.name);
    match names::function_of_section(&function.section) {
        None => SectionKind::Shared,
        Some((name, _)) if name == own || names::stem(name) == names::stem(own) => SectionKind::Own,
        Some((name, _)) => SectionKind::OfAnother(name),
    }
}
