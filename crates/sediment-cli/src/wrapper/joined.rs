// SPDX-License-Identifier: MIT OR Apache-2.0
//! A detour for linkers that read no ordering file, but keep the sequence within an object: GNU ld first joins all
//! objects into one, in the order. Then the linker links this object instead of the others.

use super::WrappedLink;
use super::linker::RealLinker;
use sediment_core::{Error, ErrorCode, Result};
use sediment_order::wrapper::plan;
use std::ffi::{OsStr, OsString};

/// Joins several objects to one, and knows their range in the linker's arguments.
#[derive(Debug)]
pub(super) struct Joiner {
    gnu_ld: RealLinker,
    positions: Vec<usize>,
}

impl Joiner {
    /// Returns the detour for a link, or the reason against it.
    pub(super) fn find(link: &WrappedLink<'_>, complete: bool) -> std::result::Result<Self, String> {
        if !plan::keeps_order_of_objects(&link.linker.version()) {
            return Err("the linker may not keep the order of objects".to_owned());
        }
        let positions = plan::joinable(link.line, link.arguments, complete)?;
        let gnu_ld = RealLinker::other("ld.bfd", link.called, link.line)
            .ok_or_else(|| "GNU ld is missing".to_owned())?;
        Ok(Self { gnu_ld, positions })
    }

    /// Makes the object, and returns the linker's arguments with it.
    pub(super) fn join(
        &self,
        arguments: &[OsString],
        script: &OsStr,
        object: &OsStr,
    ) -> Result<Vec<OsString>> {
        let objects: Vec<OsString> =
            self.positions.iter().map(|position| arguments[*position].clone()).collect();
        let ended = self.gnu_ld.run(&plan::join_arguments(script, object, &objects), false)?;
        if !ended.successful() {
            return Err(Error::new(
                ErrorCode::ProgramFailed,
                format!("GNU ld cannot join the objects: {}", ended.first_words()),
            ));
        }
        let mut joined = Vec::new();
        for (position, argument) in arguments.iter().enumerate() {
            if self.positions.first() == Some(&position) {
                joined.push(object.to_owned());
            } else if !self.positions.contains(&position) {
                joined.push(argument.clone());
            }
        }
        Ok(joined)
    }
}
