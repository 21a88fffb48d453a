// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags that code reads before it writes them.

use crate::call_sites::elf::PlannedFile;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, RflagsBits};
use std::collections::HashMap;

/// Decides if code reads flags that its caller has set. Calls never rely on flags.
pub(super) struct LiveFlags<'a, 'b> {
    image: &'b PlannedFile<'a>,
    known: HashMap<u64, bool>,
}

impl<'a, 'b> LiveFlags<'a, 'b> {
    pub(super) fn new(image: &'b PlannedFile<'a>) -> Self {
        Self { image, known: HashMap::new() }
    }

    /// Largest number of instructions that are examined.
    const FAR: usize = 64;

    pub(super) fn at(&mut self, address: u64) -> bool {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        let live = self.find(address);
        self.known.insert(address, live);
        live
    }

    fn find(&self, address: u64) -> bool {
        const ALL: u32 = RflagsBits::OF
            | RflagsBits::SF
            | RflagsBits::ZF
            | RflagsBits::AF
            | RflagsBits::CF
            | RflagsBits::PF;
        let Some(code) = self.image.code_at(address) else { return true };
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut written = 0;
        for _ in 0..Self::FAR {
            if !decoder.can_decode() {
                return false;
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return true;
            }
            if instruction.code() == Code::Syscall {
                return false;
            }
            if instruction.rflags_read() & ALL & !written != 0 {
                return true;
            }
            written |= instruction.rflags_modified();
            if written & ALL == ALL || instruction.flow_control() != FlowControl::Next {
                return false;
            }
        }
        false
    }
}
