// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables shared by the profiles of one message, with indices from 0: strings, functions, locations, mappings,
//! attributes, stacks. Entry 0 of each is empty and means "none".

use super::super::Recording;
use super::super::locations::{self, DEEPEST, MemoryBudget, Texts, grown};
use super::super::stacks::StackFrame;
use super::document::Document;
use super::message::{FieldValue, MessageNode, each_number};
use sediment_core::error::{Error, ErrorCode, Result};
use sediment_core::skipped::Nowhere;
use std::ops::Range;

/// Attribute of a mapping: the build-id of the ELF file. Other attributes have hashes of the file that are not
/// build-ids.
const BUILD_ID: &[u8] = b"process.executable.build_id.gnu";
/// Attribute of a location: the kind of code.
const FRAME_TYPE: &[u8] = b"profile.frame.type";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DictionaryFunction {
    name: u32,
    system_name: u32,
    file: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DictionaryMapping {
    start: u64,
    limit: u64,
    file_offset: u64,
    path: u32,
    attributes: Range<u32>,
    /// Text of its build-id; missing until all tables are read.
    build_id: AttributeText,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DictionaryLocation {
    address: u64,
    mapping: u32,
    /// Function of its last line, into which the functions of the earlier lines were inlined; 0 if there is none.
    function: u32,
    attributes: Range<u32>,
}

/// An attribute, or the text of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AttributeText {
    /// No text, or another type.
    #[default]
    None,
    /// Index in the table of strings.
    String(u32),
    /// Text in the attribute itself, by its number.
    Own(u32),
}

/// The tables of one message.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    strings: Texts,
    /// Texts in attributes themselves.
    own: Texts,
    functions: Vec<DictionaryFunction>,
    mappings: Vec<DictionaryMapping>,
    locations: Vec<DictionaryLocation>,
    attributes: Vec<(u32, AttributeText)>,
    /// Ranges of the stacks' locations in `lists`, the innermost first.
    stacks: Vec<Range<u32>>,
    /// Locations of stacks, and attributes of mappings and locations.
    lists: Vec<u32>,
    frames: Vec<Option<StackFrame>>,
}

/// Converts an index; one that does not fit is outside every table.
fn index(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn missing(what: &str, index: u32, count: usize) -> Error {
    let what = format!("{what} {} is used, but there are only {count}", index as i32);
    Error::new(ErrorCode::Damaged, what).with_hint("is the file cut off? copy it again")
}

impl Dictionary {
    /// Reads the tables of a message.
    pub(super) fn read(
        data: MessageNode<'_>,
        document: Document<'_>,
        budget: &mut MemoryBudget,
    ) -> Result<Self> {
        let mut tables = Self::default();
        data.each(document, &mut |name, item| match (name, item) {
            ("dictionary", FieldValue::Message(dictionary)) => {
                dictionary.each(document, &mut |table, item| tables.row(table, item, document, budget))
            }
            _ => Ok(()),
        })?;
        let empty = tables.strings.get(0).is_none_or(<[u8]>::is_empty)
            && tables.functions.first().is_none_or(|row| *row == DictionaryFunction::default())
            && tables.mappings.first().is_none_or(|row| *row == DictionaryMapping::default())
            && tables.locations.first().is_none_or(|row| *row == DictionaryLocation::default())
            && tables.stacks.first().is_none_or(Range::is_empty);
        if !empty {
            return Err(document.refused(data.bytes, "a dictionary whose first entries are not empty"));
        }
        budget.take(tables.locations.len() * size_of::<Option<StackFrame>>())?;
        tables.frames = vec![None; tables.locations.len()];
        for at in 0..tables.mappings.len() {
            let attributes = tables.mappings[at].attributes.clone();
            tables.mappings[at].build_id = tables.attribute(attributes, BUILD_ID)?;
        }
        Ok(tables)
    }

    /// Reads a row of the table of this name.
    fn row<'a>(
        &mut self,
        table: &str,
        item: FieldValue<'a>,
        document: Document<'a>,
        budget: &mut MemoryBudget,
    ) -> Result<()> {
        let row = match item {
            FieldValue::Text(text) => return self.strings.push(text, budget),
            FieldValue::Message(row) => row,
            _ => return Ok(()),
        };
        let size = match table {
            "mapping_table" => {
                let mut mapping = DictionaryMapping::default();
                mapping.attributes =
                    self.fields(row, document, budget, &mut |field, number| match field {
                        "memory_start" => mapping.start = number,
                        "memory_limit" => mapping.limit = number,
                        "file_offset" => mapping.file_offset = number,
                        _ => mapping.path = index(number),
                    })?;
                self.mappings.push(mapping);
                size_of::<DictionaryMapping>()
            }
            "location_table" => {
                let mut location = DictionaryLocation::default();
                location.attributes =
                    self.fields(row, document, budget, &mut |field, number| match field {
                        "address" => location.address = number,
                        "mapping_index" => location.mapping = index(number),
                        "lines" | "function_index" => location.function = index(number),
                        _ => {}
                    })?;
                self.locations.push(location);
                size_of::<DictionaryLocation>()
            }
            "function_table" => {
                let mut function = DictionaryFunction::default();
                self.fields(row, document, budget, &mut |field, number| match field {
                    "name_strindex" => function.name = index(number),
                    "system_name_strindex" => function.system_name = index(number),
                    "filename_strindex" => function.file = index(number),
                    _ => {}
                })?;
                self.functions.push(function);
                size_of::<DictionaryFunction>()
            }
            "attribute_table" => {
                let (mut key, mut value) = (0, AttributeText::None);
                self.fields(row, document, budget, &mut |field, number| match field {
                    "key_strindex" => key = index(number),
                    "string_value" => value = AttributeText::Own(index(number)),
                    "string_value_strindex" => value = AttributeText::String(index(number)),
                    _ => {}
                })?;
                self.attributes.push((key, value));
                size_of::<(u32, AttributeText)>()
            }
            _ => {
                let stack = self.fields(row, document, budget, &mut |_, _| {})?;
                self.stacks.push(stack);
                size_of::<Range<u32>>()
            }
        };
        budget.take(grown(size))
    }

    /// Passes on the integers of a row by the names of their fields, including those of inner messages, each of which
    /// begins with its own name and 0. Inner texts are kept and passed on as their number. Returns the row's list.
    fn fields<'a>(
        &mut self,
        row: MessageNode<'a>,
        document: Document<'a>,
        budget: &mut MemoryBudget,
        set: &mut dyn FnMut(&str, u64),
    ) -> Result<Range<u32>> {
        let Self { lists, own, .. } = self;
        let from = lists.len() as u32;
        row.each(document, &mut |field, item| match item {
            FieldValue::Number(number) => {
                set(field, number);
                Ok(())
            }
            FieldValue::Numbers(list) => each_number(list, document, &mut |number| {
                budget.take(grown(size_of::<u32>()))?;
                lists.push(index(number));
                Ok(())
            }),
            FieldValue::Message(inner) => {
                set(field, 0);
                inner.each(document, &mut |field, item| {
                    match item {
                        FieldValue::Number(number) => set(field, number),
                        FieldValue::Text(text) => {
                            set(field, own.count() as u64);
                            own.push(text, budget)?;
                        }
                        _ => {}
                    }
                    Ok(())
                })
            }
            _ => Ok(()),
        })?;
        let list = from..lists.len() as u32;
        // Empty lists are equal, wherever they are.
        Ok(if list.is_empty() { 0..0 } else { list })
    }

    /// Number of attributes.
    pub(super) fn attribute_count(&self) -> u64 {
        self.attributes.len() as u64
    }

    /// Number of stacks.
    pub(super) fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// Returns a string by its index.
    pub(super) fn string(&self, index: u32) -> Result<&[u8]> {
        self.strings.get(index as usize).ok_or_else(|| missing("string", index, self.strings.count()))
    }

    /// Returns a sample type's string by its index.
    pub(super) fn name(&self, number: u64) -> Result<&[u8]> {
        self.string(index(number))
    }

    /// Returns the locations of a stack, the innermost first.
    pub(super) fn stack(&self, number: u64) -> Result<&[u32]> {
        let at = index(number);
        let range = self.stacks.get(at as usize).ok_or_else(|| missing("stack", at, self.stacks.len()))?;
        if range.len() > DEEPEST {
            let what = format!("stack {at} has more than {DEEPEST} frames");
            return Err(Error::new(ErrorCode::TooLarge, what).with_hint("it is damaged or malicious"));
        }
        Ok(self.list(range))
    }

    fn list(&self, range: &Range<u32>) -> &[u32] {
        &self.lists[range.start as usize..range.end as usize]
    }

    /// Returns the value of the attribute with this name among the attributes of a row.
    fn attribute(&self, of: Range<u32>, name: &[u8]) -> Result<AttributeText> {
        for &at in self.list(&of) {
            let found = self.attributes.get(at as usize);
            let (key, value) = *found.ok_or_else(|| missing("attribute", at, self.attributes.len()))?;
            if at != 0 && self.string(key)? == name {
                return Ok(value);
            }
        }
        Ok(AttributeText::None)
    }

    fn text(&self, value: AttributeText) -> Result<&[u8]> {
        match value {
            AttributeText::None => Ok(b""),
            AttributeText::String(index) => self.string(index),
            AttributeText::Own(index) => Ok(self.own.get(index as usize).unwrap_or_default()),
        }
    }

    /// Returns the frame of the location with this index.
    pub(super) fn frame(
        &mut self,
        at: u32,
        recording: &mut Recording,
        budget: &mut MemoryBudget,
    ) -> Result<StackFrame> {
        if at == 0 {
            return Ok(StackFrame::Unknown(Nowhere::NoAddress));
        }
        let known = self.frames.get(at as usize);
        if let Some(frame) = *known.ok_or_else(|| missing("location", at, self.locations.len()))? {
            return Ok(frame);
        }
        let frame = self.name_frame(&self.locations[at as usize], recording, budget)?;
        self.frames[at as usize] = Some(frame);
        Ok(frame)
    }

    fn name_frame(
        &self,
        location: &DictionaryLocation,
        recording: &mut Recording,
        budget: &mut MemoryBudget,
    ) -> Result<StackFrame> {
        match self.text(self.attribute(location.attributes.clone(), FRAME_TYPE)?)? {
            b"kernel" => return Ok(StackFrame::System),
            b"beam" | b"cpython" | b"luajit" | b"perl" | b"php" | b"ruby" => {
                return Ok(StackFrame::Unknown(Nowhere::Interpreted));
            }
            b"dotnet" | b"jvm" | b"v8js" => return Ok(StackFrame::Unknown(Nowhere::CompiledCode)),
            b"abort-marker" | b"unknown" => return Ok(StackFrame::Unknown(Nowhere::NoName)),
            _ => {}
        }
        let mapping = match location.mapping {
            0 => None,
            at => Some(self.mapping(at)?),
        };
        let function = match location.function {
            0 => None,
            at => Some(self.function(at)?),
        };
        locations::ResolvedLocation { address: location.address, mapping, function }.frame(recording, budget)
    }

    fn mapping(&self, at: u32) -> Result<locations::LocationMapping<'_>> {
        let found = self.mappings.get(at as usize);
        let &DictionaryMapping { start, limit, file_offset, path, build_id, .. } =
            found.ok_or_else(|| missing("mapping", at, self.mappings.len()))?;
        let (path, build_id) = (self.string(path)?, self.text(build_id)?);
        Ok(locations::LocationMapping { start, limit, file_offset, path, build_id })
    }

    fn function(&self, at: u32) -> Result<locations::LocationFunction<'_>> {
        let found = self.functions.get(at as usize);
        let &DictionaryFunction { name, system_name, file } =
            found.ok_or_else(|| missing("function", at, self.functions.len()))?;
        let (name, system_name, file) = (self.string(name)?, self.string(system_name)?, self.string(file)?);
        Ok(locations::LocationFunction { name, system_name, file })
    }
}
