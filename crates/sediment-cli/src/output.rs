// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of the JSON that several commands print. The type of a command's whole output is in the command's file or in a
//! module `output` next to it; docs/json has the schemas, which a test makes from the types.

use sediment_core::demangle::demangled;
use sediment_core::profile::FunctionKey;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::path::Path;

/// Version number of an output's format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schema<const NUMBER: u32>;

impl<const NUMBER: u32> Serialize for Schema<NUMBER> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(NUMBER)
    }
}

/// A count as a string: it may exceed 2^64, and many JSON readers keep only 53 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digits(pub(crate) u128);

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FunctionOutput<'a> {
    /// Program or library; null if unknown.
    pub(crate) dso: Option<&'a str>,
    /// Linkage name.
    pub(crate) name: &'a str,
    pub(crate) demangled: Cow<'a, str>,
    /// Source file; only for a local function whose program or library has several functions of its name.
    pub(crate) file: Option<&'a str>,
}

impl<'a> FunctionOutput<'a> {
    pub(crate) fn new(key: &'a FunctionKey) -> Self {
        Self {
            dso: key.dso.as_deref(),
            name: &key.name,
            demangled: demangled(&key.name),
            file: key.file.as_deref(),
        }
    }
}

/// Items that a step skipped for one reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SkippedItems {
    pub(crate) step: String,
    /// Code of the reason.
    pub(crate) code: String,
    pub(crate) items: u64,
    /// Weight of the items.
    pub(crate) weight: Digits,
    pub(crate) example: Option<String>,
}

/// Output of `draw --json`, `export --json`, `report --json` and `manual --json`: the written files.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WrittenOutput {
    schema: Schema<1>,
    /// The files, in the order of writing.
    files: Vec<String>,
    skipped: Vec<SkippedItems>,
}

impl WrittenOutput {
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = &'a Path>, skipped: Vec<SkippedItems>) -> Self {
        let files = files.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
        Self { schema: Schema, files, skipped }
    }
}

#[cfg(test)]
#[test]
fn output_is_documented() {
    support::documented_schema::<WrittenOutput>("written");
}

#[cfg(test)]
mod schemas {
    use super::{Digits, Schema};
    use schemars::{JsonSchema, SchemaGenerator, json_schema};
    use std::borrow::Cow;

    impl<const NUMBER: u32> JsonSchema for Schema<NUMBER> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Schema".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
            json_schema!({ "const": NUMBER })
        }
    }

    impl JsonSchema for Digits {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Digits".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
            json_schema!({ "type": "string", "pattern": "^[0-9]+$" })
        }
    }
}
