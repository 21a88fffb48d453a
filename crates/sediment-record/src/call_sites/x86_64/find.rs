// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the call sites of an x86-64 file that can lead through a stub without changing the program's behaviour.
//!
//! 1. Each function is decoded from its first byte to its last. It is refused if it cannot be decoded to its end, or if
//!    a branch leads between two of its instructions, because its bytes are then not what they seem.
//! 2. A direct call, or a direct jump to the first byte of another function (a tail jump), has a displacement of 4 bytes.
//!    Only it changes. A call through the global offset table becomes a direct call of the same length.
//! 3. An indirect call has too few bytes. Instructions before it move to the stub, and are replaced by a call of the
//!    stub. It ends where the old call ended, so the return address stays. No branch may lead between the moved
//!    instructions. Known targets are the targets of direct branches, jump tables, addresses in data and in `lea`, and
//!    landing pads.
//! 4. Stubs change the flags. A callee that reads a flag before it writes it is refused. Compilers keep nothing in
//!    flags across a call.
//! 5. The changed bytes of a site are in one page, so that a recorder killed in the middle leaves complete
//!    instructions.
//!
//! If two sites need the same byte, the first one gets it.

use super::flags::LiveFlags;
use super::sweep::{DirectBranch, Sweep};
pub(in crate::call_sites) use super::windows::window_again as indirect_again;
use super::windows::{FoundSite, WindowChoice};
use crate::call_sites::elf::PlannedFile;
use crate::call_sites::found::{FoundSites, ReadFile};
use crate::call_sites::sites::{CodeAddresses, DirectForm, DirectSite, Trait, in_one_page};

/// Forms of direct sites.
pub(in crate::call_sites) const FORMS: &[DirectForm] = &[
    DirectForm::Call,
    DirectForm::Jump,
    DirectForm::ConditionalJump,
    DirectForm::CallThroughSlot,
    DirectForm::JumpThroughSlot,
];

/// Finds the sites of a file.
pub(in crate::call_sites) fn find(file: &ReadFile<'_, '_>) -> FoundSites {
    let mut found = FoundSites::default();
    let mut sweep = Sweep::of(file.image, (file.units, file.tables), file.overlaps, file.words);
    let mut targets = CodeAddresses::none(&file.image.text);
    sweep.targets.iter().chain(file.words).for_each(|target| targets.insert(*target));
    sweep.targets = Vec::new();
    if sweep.uses_gs {
        found.traits.insert(Trait::UsesGs);
    }
    let mut flags = LiveFlags::new(file.image);
    for branch in &sweep.branches {
        match direct_site(file, branch, &mut flags) {
            Ok(Some(site)) => found.direct.push(site),
            Ok(None) => {}
            Err(why) => found.refuse(why, 1),
        }
    }
    let mut chosen = WindowChoice {
        image: file.image,
        units: file.units,
        tables: file.tables,
        sweep: &sweep,
        targets: &targets,
        functions: file.functions,
        bare: None,
        last: 0,
    };
    for indirect in &sweep.indirect {
        if indirect.short_to.is_some_and(|target| flags.at(target)) {
            found.refuse("callees that read flags", 1);
            continue;
        }
        match chosen.site(indirect, file.slots) {
            Ok(FoundSite::Direct(site)) => found.direct.push(site),
            Ok(FoundSite::Indirect(site)) => found.indirect.push(site),
            Ok(FoundSite::None) => {}
            Err(why) => found.refuse(why, 1),
        }
    }
    for (why, count) in sweep.refused {
        *found.refused.entry(why).or_default() += count;
    }
    found
}

/// Returns the site for a branch; None if it stays inside its function.
fn direct_site(
    file: &ReadFile<'_, '_>,
    branch: &DirectBranch,
    flags: &mut LiveFlags<'_, '_>,
) -> Result<Option<DirectSite>, &'static str> {
    let DirectBranch { at, form, target } = *branch;
    let slot = file.stubs.get(&target).copied();
    if slot.is_none() && !file.is_function(target) {
        // A jump between the parts of a function, or code outside of functions.
        return if form == DirectForm::Call { Err("calls of code outside functions") } else { Ok(None) };
    }
    if slot.is_none() && flags.at(target) {
        return Err("callees that read flags");
    }
    let displacement = at + form.opcode_length()..at + form.length();
    if !in_one_page(&displacement) {
        return Err("sites across two pages");
    }
    Ok(Some(DirectSite { at, form, target, slot }))
}

/// Returns the target of the direct site of this form at an address; `None` if the file has no such site there.
pub(in crate::call_sites) fn direct_again(
    image: &PlannedFile<'_>,
    (at, form): (u64, DirectForm),
) -> Option<u64> {
    let bytes = at..at.checked_add(form.length())?;
    let code = image.code(&bytes)?;
    let (opcode, displacement) = code.split_last_chunk::<4>()?;
    let is_opcode = match form {
        DirectForm::Call => opcode == [0xe8],
        DirectForm::Jump => opcode == [0xe9],
        DirectForm::ConditionalJump => opcode[0] == 0x0f && opcode[1] & 0xf0 == 0x80,
        DirectForm::CallThroughSlot => opcode == [0xff, 0x15],
        DirectForm::JumpThroughSlot => opcode == [0xff, 0x25],
        DirectForm::Branch | DirectForm::BranchWithLink => false,
    };
    let target = bytes.end.wrapping_add(i32::from_le_bytes(*displacement) as i64 as u64);
    let changed = if form.is_through_slot() { bytes } else { at + form.opcode_length()..bytes.end };
    (is_opcode && in_one_page(&changed)).then_some(target)
}
