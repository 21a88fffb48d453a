// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls found in the code of a binary: direct calls by name, functions whose address is taken, and the cost of a
//! call at its target.
//!
//! No instruction set is decoded completely. Every place where a call can begin is examined. Bytes count as a call if
//! they lead to the first byte of a function or into the linkage table, which other bytes hardly ever do by chance. If
//! [`isa`](crate::isa) does not support the calls of an architecture, nothing is known, and the result says so.

use super::{Binary, BinaryFunction};
use crate::isa::{CodeReference, Isa};
use object::{Object as _, RelocationTarget};
use std::collections::BTreeSet;

/// A direct call in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectCall {
    /// Address of the function that it leads to.
    pub target: u64,
    /// Address of the instruction.
    pub address: u64,
    /// A jump that calls at the end of its function.
    pub tail: bool,
    /// It leads there through a linkage stub, so another library may replace the function by its own.
    pub through_stub: bool,
}

/// Direct calls and taken addresses in the code of a binary.
#[derive(Debug, Clone, Default)]
pub struct DirectCalls {
    /// The calls, sorted.
    pub calls: Vec<DirectCall>,
    /// Calls of functions of other files: address of the instruction, and of the linkage stub.
    pub outside: Vec<(u64, u64)>,
    /// Functions whose address is used other than for a call: by code, or in data of a position-independent file.
    pub taken: BTreeSet<u64>,
    /// True if this architecture's code can be decoded; otherwise nothing is known, not even that there are no calls.
    pub known: bool,
}

impl DirectCalls {
    /// Scans the code of a binary; `bytes` is its file.
    #[must_use]
    pub fn of(bytes: &[u8], binary: &Binary) -> Self {
        let Some(each_reference) = Isa::of(binary.arch.as_deref()).each_reference else {
            return Self::default();
        };
        let aims = Aims::of(binary);
        let mut found = Self { known: true, ..Self::default() };
        let mut end = 0;
        for function in &binary.functions {
            // Aliases and parts of functions are in code that was already scanned.
            let start = function.address.max(end);
            end = end.max(function.address.saturating_add(function.size));
            if let Some(code) = code_at(bytes, binary, start, end.saturating_sub(start)) {
                each_reference(code, start, &mut |address, reference| {
                    aims.take(address, reference, &mut found)
                });
            }
        }
        found.calls.sort_unstable();
        found.taken.extend(
            in_data(bytes).into_iter().filter(|address| aims.functions.binary_search(address).is_ok()),
        );
        found
    }

    /// All calls that lead to the function at this address.
    #[must_use]
    pub fn to(&self, target: u64) -> &[DirectCall] {
        let from = self.calls.partition_point(|call| call.target < target);
        let to = self.calls.partition_point(|call| call.target <= target);
        &self.calls[from..to]
    }
}

/// Possible targets of calls.
struct Aims {
    functions: Vec<u64>,
    /// Stubs, each with the function of the same binary that it leads to.
    stubs: Vec<(u64, u64)>,
    /// Stubs that lead to other files.
    outside: Vec<u64>,
}

impl Aims {
    fn of(binary: &Binary) -> Self {
        let functions: Vec<u64> = binary.functions.iter().map(|function| function.address).collect();
        let defined = |name: &str| binary.functions.iter().find(|f| !f.local && f.name == name);
        let (mut stubs, mut outside) = (Vec::new(), Vec::new());
        for stub in &binary.plt_stubs {
            match defined(&stub.target) {
                Some(function) => stubs.push((stub.address, function.address)),
                None => outside.push(stub.address),
            }
        }
        Self { functions, stubs, outside }
    }

    /// Records the reference at an address if its target is a known function or stub.
    fn take(&self, address: u64, reference: CodeReference, found: &mut DirectCalls) -> bool {
        let (aim, tail) = match reference {
            CodeReference::Call(aim) => (aim, false),
            CodeReference::Jump(aim) => (aim, true),
            CodeReference::Taken(aim) => {
                let is_function = self.functions.binary_search(&aim).is_ok();
                found.taken.extend(is_function.then_some(aim));
                return is_function;
            }
            CodeReference::IndirectCall => return false,
        };
        let stub = self.stubs.binary_search_by_key(&aim, |(stub, _)| *stub);
        let (target, through_stub) = match stub {
            _ if self.functions.binary_search(&aim).is_ok() => (aim, false),
            Ok(index) => (self.stubs[index].1, true),
            Err(_) => {
                let outside = self.outside.binary_search(&aim).is_ok();
                found.outside.extend(outside.then_some((address, aim)));
                return outside;
            }
        };
        found.calls.push(DirectCall { target, address, tail, through_stub });
        true
    }
}

/// Returns the addresses that the dynamic linker writes into data, for example function addresses in tables.
fn in_data(bytes: &[u8]) -> Vec<u64> {
    let file = object::File::parse(bytes).ok();
    file.as_ref()
        .and_then(|file| file.dynamic_relocations())
        .into_iter()
        .flatten()
        .filter(|(_, relocation)| relocation.target() == RelocationTarget::Absolute)
        .map(|(_, relocation)| relocation.addend() as u64)
        .collect()
}

fn code_at<'a>(bytes: &'a [u8], binary: &Binary, address: u64, size: u64) -> Option<&'a [u8]> {
    let offset = usize::try_from(binary.file_offset_of_address(address)?).ok()?;
    bytes.get(offset..offset.checked_add(usize::try_from(size).ok()?)?)
}

/// Instructions that a call of this function costs in addition to its own work: the call, the return, and those that
/// save and restore registers and the stack at both ends. `None` if the architecture's code is not decoded.
#[must_use]
pub fn instructions_per_call(bytes: &[u8], binary: &Binary, function: &BinaryFunction) -> Option<u32> {
    const CALL_AND_RETURN: u32 = 2;
    let prologue = Isa::of(binary.arch.as_deref()).prologue?;
    let mut code = code_at(bytes, binary, function.address, function.size)?;
    let mut count = CALL_AND_RETURN;
    while let Some((instructions, length)) = prologue(code) {
        count += instructions;
        code = &code[length..];
    }
    Some(count)
}
