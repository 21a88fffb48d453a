// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`BuildCode`]: the functions of a build and what their code refers to, in the form that [`crate::matching::renamed`] compares; read from
//! the inputs of a link or from a linked file.
//!
//! Inputs contain every name that code refers to, in their relocations. A linked file shows only direct calls (on supported architectures).
//! Which functions were compiled together is taken from debug information. Without it, it is taken from the source files of local
//! functions: functions between two local ones of the same file count as part of that file.

use super::calls::DirectCalls;
use super::objects::InputObjects;
use super::{Binary, Files};
use std::collections::HashMap;

/// The functions of a build, and what their code refers to.
#[derive(Debug, Clone)]
pub struct BuildCode<'a> {
    pub(crate) functions: Vec<BuildFunction<'a>>,
    /// References from code: indices into `functions` and into `mentioned`.
    pub(crate) references: Vec<(u32, u32)>,
    /// Names that code refers to, each once.
    pub(crate) mentioned: Vec<&'a str>,
}

/// A function of a build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuildFunction<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    /// Number of the compilation unit, if known.
    pub(crate) unit: Option<usize>,
}

impl<'a> BuildCode<'a> {
    /// Reads the code of a link's inputs; `None` if the code of some of them cannot be read.
    #[must_use]
    pub fn of_objects(objects: &'a InputObjects) -> Option<Self> {
        objects.complete().then(|| Self {
            functions: objects
                .functions
                .iter()
                .map(|function| BuildFunction {
                    name: &function.name,
                    size: function.size,
                    unit: Some(function.path),
                })
                .collect(),
            references: objects.references.clone(),
            mentioned: objects.mentioned.iter().map(String::as_str).collect(),
        })
    }

    /// Reads the code of a linked file; `bytes` is the file, perhaps with a debug file; `None` if code of this
    /// architecture is not read.
    #[must_use]
    pub fn of_binary(bytes: &[u8], binary: &'a Binary, files: &dyn Files) -> Option<Self> {
        let calls = DirectCalls::of(bytes, binary);
        if !calls.known {
            return None;
        }
        let units = units(bytes, binary, files);
        let functions = binary.functions.iter().zip(units);
        let functions = functions.map(|(function, unit)| BuildFunction {
            name: &function.name,
            size: function.size,
            unit,
        });
        let mut code = Self { functions: functions.collect(), references: Vec::new(), mentioned: Vec::new() };
        let mut numbers: HashMap<&'a str, u32> = HashMap::new();
        let within = calls.calls.iter().map(|call| (call.address, names_at(binary, call.target)));
        let outside = calls
            .outside
            .iter()
            .map(|(address, stub)| (*address, binary.plt_target(*stub).into_iter().collect::<Vec<&str>>()));
        for (address, names) in within.chain(outside) {
            for name in names {
                let next = code.mentioned.len() as u32;
                let number = *numbers.entry(name).or_insert_with(|| {
                    code.mentioned.push(name);
                    next
                });
                code.references.extend(holding(binary, address).map(|from| (from as u32, number)));
            }
        }
        Some(code)
    }
}

/// The names of the functions at an address.
fn names_at(binary: &Binary, address: u64) -> Vec<&str> {
    starting_at(binary, address).map(|index| binary.functions[index].name.as_str()).collect()
}

/// Returns the functions that begin at an address, by index; several if the code has several names.
fn starting_at(binary: &Binary, address: u64) -> std::ops::Range<usize> {
    let begin = binary.functions.partition_point(|function| function.address < address);
    let end = binary.functions.partition_point(|function| function.address <= address);
    begin..end
}

/// The functions that an instruction belongs to.
fn holding(binary: &Binary, address: u64) -> std::ops::Range<usize> {
    let after = binary.functions.partition_point(|function| function.address <= address);
    match binary.functions[..after].last() {
        Some(function) => starting_at(binary, function.address),
        None => 0..0,
    }
}

/// Compilation unit of each function.
fn units(bytes: &[u8], binary: &Binary, files: &dyn Files) -> Vec<Option<usize>> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut number = |name: String| {
        let next = numbers.len();
        *numbers.entry(name).or_insert(next)
    };
    if let Some(named) = named_units(bytes, binary, files) {
        return named.into_iter().map(|unit| unit.map(&mut number)).collect();
    }
    by_local_functions(binary).into_iter().map(|file| file.map(|file| number(file.to_owned()))).collect()
}

/// Finds the compilation unit of each function in the debug information; `None` without it, or if it is damaged.
#[cfg(feature = "dwarf")]
fn named_units(bytes: &[u8], binary: &Binary, files: &dyn Files) -> Option<Vec<Option<String>>> {
    let lines = super::source_lines::SourceLines::read(bytes, files).ok().flatten()?;
    let unit = |address| lines.unit_at(address).filter(|unit| !unit.link_time_optimised);
    Some(binary.functions.iter().map(|function| unit(function.address).map(|unit| unit.name)).collect())
}

#[cfg(not(feature = "dwarf"))]
fn named_units(_bytes: &[u8], _binary: &Binary, _files: &dyn Files) -> Option<Vec<Option<String>>> {
    None
}

/// Finds the source file of each function: a local function has one; functions between two local ones of one file
/// belong to this file.
fn by_local_functions(binary: &Binary) -> Vec<Option<&str>> {
    let own: Vec<Option<&str>> = binary.functions.iter().map(|function| function.file.as_deref()).collect();
    let before = nearest(own.iter().copied());
    let mut after = nearest(own.iter().rev().copied());
    after.reverse();
    before.into_iter().zip(after).map(|(before, after)| before.filter(|_| before == after)).collect()
}

/// Fills each unknown item with the last known one before it.
fn nearest<'a>(items: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<&'a str>> {
    let mut last = None;
    items
        .map(|item| {
            last = item.or(last);
            last
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{BinaryFunction, NoFiles};
    use super::*;

    fn function(name: &str, address: u64, file: Option<&str>) -> BinaryFunction {
        BinaryFunction {
            name: name.to_owned(),
            address,
            size: 16,
            section: ".text".to_owned(),
            file: file.map(str::to_owned),
            local: file.is_some(),
            ifunc: false,
            untyped: false,
        }
    }

    #[test]
    fn code_between_local_functions_of_a_file_belongs_to_it() {
        let binary = Binary {
            functions: vec![
                function("first", 0, None),
                function("a1", 16, Some("a.c")),
                function("in_a", 32, None),
                function("a2", 48, Some("a.c")),
                function("a_or_b", 64, None),
                function("b1", 80, Some("b.c")),
                function("last", 96, None),
            ],
            ..Binary::default()
        };
        let (a, b) = (Some("a.c"), Some("b.c"));
        assert_eq!(by_local_functions(&binary), [None, a, a, a, None, b, None]);
    }

    #[test]
    fn code_of_an_unknown_machine_tells_nothing() {
        let binary = Binary { arch: Some("s390x".to_owned()), ..Binary::default() };
        assert!(BuildCode::of_binary(&[], &binary, &NoFiles).is_none());
    }
}
