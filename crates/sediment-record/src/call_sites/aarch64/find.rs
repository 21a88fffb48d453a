// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the call sites of an AArch64 file.
//!
//! Each instruction has four bytes, and each site is one instruction, so nothing moves, and nothing can lead into the
//! middle of a change.
//!
//! 1. `bl`, and `b` to the first instruction of another function (a tail jump): the distance changes. Both reach 128 MiB.
//!    Conditional branches reach at most 1 MiB, and stay.
//! 2. `blr` becomes a `bl`, and `br` at the end of a function (a tail jump) becomes a `b`. A `br` in a function, for example by a
//!    jump table, stays. With pointer authentication, too.
//! 3. `blr x30` stays: the `bl` would change its target.

use super::stubs::target_of;
use super::writer::{B, BL};
use crate::call_sites::elf::PlannedFile;
use crate::call_sites::found::{FoundSites, ReadFile};
use crate::call_sites::frames::CodeUnit;
use crate::call_sites::sites::{DirectForm, DirectSite, IndirectSite, RelocatedCode};
use std::ops::Range;

/// Forms of direct sites.
pub(in crate::call_sites) const FORMS: &[DirectForm] = &[DirectForm::BranchWithLink, DirectForm::Branch];

/// Bytes of an instruction.
const WORD: u64 = 4;
const LINK_REGISTER: u32 = 30;

/// Finds the sites of a file.
pub(in crate::call_sites) fn find(file: &ReadFile<'_, '_>) -> FoundSites {
    let mut found = FoundSites::default();
    for (unit, overlaps) in file.units.iter().zip(file.overlaps) {
        let done =
            if *overlaps { Err("functions that overlap") } else { of_function(file, unit, &mut found) };
        if let Err(why) = done {
            found.refuse(why, 1);
        }
    }
    found
}

/// Finds the sites of a function. The error says why none of its sites changes.
fn of_function(file: &ReadFile<'_, '_>, unit: &CodeUnit, found: &mut FoundSites) -> Result<(), &'static str> {
    let range = &unit.code;
    let code = file.image.code(range).ok_or("functions outside code")?;
    if range.start % WORD != 0 || range.end % WORD != 0 {
        return Err("functions with bytes that are not code");
    }
    let words: Vec<u32> = code
        .chunks_exact(4)
        .filter_map(|word| word.first_chunk())
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    if !words.iter().all(|word| is_instruction(*word)) {
        return Err("functions with bytes that are not code");
    }
    let mut bare = None;
    for (index, word) in words.iter().enumerate() {
        let at = range.start + WORD * index as u64;
        if let Some(form) = direct_form(*word) {
            match direct(file, range, (at, form), target_of(*word, at)) {
                Ok(site) => found.direct.extend(site),
                Err(why) => found.refuse(why, 1),
            }
        } else if let Some(target) = short_target(*word, at) {
            let leaves = !range.contains(&target) && file.is_function(target);
            found.refuse("short jumps to other functions", leaves.into());
        } else if let Some(branch) = RegisterBranch::of(*word) {
            if branch.needs_link() {
                found.refuse("calls in an unusual form", 1);
                continue;
            }
            let mut is_bare = || {
                let bare: &Vec<Range<u64>> = bare.get_or_insert_with(|| file.tables.bare(unit));
                bare.iter().any(|range| range.contains(&at))
            };
            let is_site =
                branch.calls || leads_out(file, range, &words[..index], branch.register) && is_bare();
            found.indirect.extend(is_site.then(|| indirect(at, *word, !branch.calls)));
        }
    }
    Ok(())
}

/// Returns the site of a direct branch; None if it stays inside its function.
fn direct(
    file: &ReadFile<'_, '_>,
    function: &Range<u64>,
    (at, form): (u64, DirectForm),
    target: u64,
) -> Result<Option<DirectSite>, &'static str> {
    // A function may call itself; other branches to its first instruction are loops.
    let is_recursion = form == DirectForm::BranchWithLink && target == function.start;
    if function.contains(&target) && !is_recursion {
        return Ok(None);
    }
    let slot = file.stubs.get(&target).copied();
    if slot.is_some() || file.is_function(target) {
        return Ok(Some(DirectSite { at, form, target, slot }));
    }
    // A jump between the parts of a function, or code outside of functions.
    if form == DirectForm::BranchWithLink { Err("calls of code outside functions") } else { Ok(None) }
}

fn indirect(at: u64, word: u32, is_tail: bool) -> IndirectSite {
    let none = RelocatedCode::default;
    let (window, original) = (at..at + WORD, word.to_le_bytes().to_vec());
    IndirectSite { at, window, is_tail, original, before: none(), load: none(), go: none() }
}

/// Returns the target of the direct site of this form at an address; `None` if the file has no such site there.
pub(in crate::call_sites) fn direct_again(
    image: &PlannedFile<'_>,
    (at, form): (u64, DirectForm),
) -> Option<u64> {
    let word = word_at(image, at)?;
    (direct_form(word) == Some(form)).then(|| target_of(word, at))
}

/// Makes the indirect site at an address, from the file's bytes only; `None` if no such site is possible there.
pub(in crate::call_sites) fn indirect_again(
    image: &PlannedFile<'_>,
    at: u64,
    window: &Range<u64>,
    is_tail: bool,
) -> Option<IndirectSite> {
    let word = word_at(image, at)?;
    let branch = RegisterBranch::of(word)?;
    let is_it = *window == (at..at.checked_add(WORD)?) && branch.calls != is_tail && !branch.needs_link();
    is_it.then(|| indirect(at, word, is_tail))
}

fn word_at(image: &PlannedFile<'_>, at: u64) -> Option<u32> {
    let bytes = image.code(&(at..at.checked_add(WORD)?)).filter(|_| at % WORD == 0)?;
    bytes.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// False for reserved words, for example numbers among code.
fn is_instruction(word: u32) -> bool {
    word >> 25 & 0xf != 0 || word >> 31 == 1
}

fn direct_form(word: u32) -> Option<DirectForm> {
    match word & 0xfc00_0000 {
        B => Some(DirectForm::Branch),
        BL => Some(DirectForm::BranchWithLink),
        _ => None,
    }
}

/// Target of a conditional branch.
fn short_target(word: u32, at: u64) -> Option<u64> {
    let signed = |bits: u32| i64::from((word << (27 - bits)) as i32 >> (32 - bits));
    let is_conditional = word & 0xff00_0000 == 0x5400_0000;
    let distance = match word & 0x7e00_0000 {
        0x3400_0000 => signed(19),
        0x3600_0000 => signed(14),
        _ if is_conditional => signed(19),
        _ => return None,
    };
    Some(at.wrapping_add_signed(4 * distance))
}

/// A `blr` or `br`, with or without authentication.
struct RegisterBranch {
    calls: bool,
    register: u32,
    modifier: Option<u32>,
}

impl RegisterBranch {
    fn of(word: u32) -> Option<Self> {
        let register = word >> 5 & 31;
        let plain = word & 0xffdf_fc1f == 0xd61f_0000;
        // Without a modifier, or with one in a register.
        let authenticated = word & 0xffdf_f81f == 0xd61f_081f || word & 0xffdf_f800 == 0xd71f_0800;
        let has_modifier = authenticated && word >> 24 & 1 == 1;
        (plain || authenticated).then_some(Self {
            calls: word >> 21 & 1 == 1,
            register,
            modifier: has_modifier.then_some(word & 31),
        })
    }

    /// True if it needs the register that a call changes; a jump by it is a return.
    fn needs_link(&self) -> bool {
        self.register == LINK_REGISTER || self.calls && self.modifier == Some(LINK_REGISTER)
    }
}

/// False if a jump by a register that was loaded by these instructions leads to a place in its function, by a table.
fn leads_out(file: &ReadFile<'_, '_>, function: &Range<u64>, before: &[u32], register: u32) -> bool {
    const FAR: usize = 12;
    for word in before.iter().rev().take(FAR) {
        let is_branch = word >> 26 & 7 == 5 && word >> 29 != 6 || RegisterBranch::of(*word).is_some();
        if is_branch {
            return true;
        }
        let is_store = word & 0x0a40_0000 == 0x0800_0000;
        if word & 31 != register || is_store {
            continue;
        }
        // A distance was added to an address.
        if word & 0xff20_0000 == 0x8b00_0000 || word & 0xffe0_0000 == 0x8b20_0000 {
            return false;
        }
        let is_entry = word & 0xffe0_0c00 == 0xf860_0800;
        if is_entry {
            // A table of addresses is one of functions unless data has addresses inside this function.
            let first = file.words.partition_point(|word| *word <= function.start);
            return file.words.get(first).is_none_or(|word| *word >= function.end);
        }
        return true;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_known() {
        let branch = |word: u32| {
            RegisterBranch::of(word).map(|branch| (branch.calls, branch.register, branch.modifier))
        };
        assert_eq!(branch(0xd63f_0060), Some((true, 3, None)), "blr x3");
        assert_eq!(branch(0xd61f_0200), Some((false, 16, None)), "br x16");
        assert_eq!(branch(0xd73f_0862), Some((true, 3, Some(2))), "blraa x3, x2");
        assert_eq!(branch(0xd71f_0e30), Some((false, 17, Some(16))), "brab x17, x16");
        assert_eq!(branch(0xd63f_087f), Some((true, 3, None)), "blraaz x3");
        assert_eq!(branch(0xd65f_03c0), None, "ret");
        assert_eq!(branch(0xd65f_0bff), None, "retaa");
        assert!(RegisterBranch::of(0xd63f_03c0).is_some_and(|branch| branch.needs_link()), "blr x30");
        assert_eq!(direct_form(0x9400_0010), Some(DirectForm::BranchWithLink));
        assert_eq!(direct_form(0x17ff_ffff), Some(DirectForm::Branch));
        assert_eq!(target_of(0x17ff_ffff, 0x1000), 0xffc);
        assert_eq!(short_target(0x5400_0041, 0x1000), Some(0x1008), "b.ne");
        assert_eq!(short_target(0xb4ff_ffe0, 0x1000), Some(0xffc), "cbz x0");
        assert_eq!(short_target(0x3607_fff0, 0x1000), Some(0xffc), "tbz w16, 0");
        assert_eq!(short_target(0xd63f_0060, 0x1000), None);
    }

    #[test]
    fn numbers_are_no_instructions() {
        assert!(is_instruction(0xd503_233f) && !is_instruction(0) && !is_instruction(0x0000_1234));
    }
}
