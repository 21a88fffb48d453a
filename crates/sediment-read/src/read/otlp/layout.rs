// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two layouts of `Sample`. 1.9 has values in field 2, attributes in 3 and the link in 4; since 1.10 they are in 4, 2
//! and 3. No message says its version, and both are valid protocol buffers.
//!
//! Differences, sample by sample:
//! - Field 4 or 3 by its kind: values and attributes are packed lists, a link is an integer.
//! - Field 2 alone, without timestamps: values, as a sample has values or timestamps. So 1.9.
//! - Field 2 alone, with timestamps: values are as many as timestamps, and attributes stand in their table. What can be neither
//!   attributes nor values decides; where both are possible, the sample says nothing.
//!
//! One message has one layout: samples that say different ones are refused. Where none says anything, it is the newer one.
//!
//! JSON has names, which are the same in both; it becomes the newer one.

use super::super::protobuf::{self, DamagedMessage, Fields, MessageShape, WireValue};
use super::document::Document;
use super::message::{SAMPLE, SAMPLE_1_9};
use sediment_core::error::Result;

/// The layout of a message, as its samples so far show it.
#[derive(Debug, Default)]
pub(super) struct MessageLayout {
    told: Option<&'static MessageShape>,
}

impl MessageLayout {
    /// Takes in what one sample says, in a message with this number of attributes.
    pub(super) fn add(&mut self, bytes: &[u8], attributes: u64, document: Document<'_>) -> Result<()> {
        if document.from_json {
            return Ok(());
        }
        let says = says(bytes, attributes)
            .map_err(|_| document.refused(bytes, "a sample whose fields fit no supported version"))?;
        match (self.told, says) {
            (Some(told), Some(says)) if !std::ptr::eq(told, says) => {
                Err(document.refused(bytes, "a sample of another version than the samples before it"))
            }
            (None, Some(says)) => {
                self.told = Some(says);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The declaration by which the samples of the message are read.
    pub(super) fn shape(&self) -> &'static MessageShape {
        self.told.unwrap_or(&SAMPLE)
    }
}

/// The layout that a sample can only have; None for either.
fn says(bytes: &[u8], attributes: u64) -> std::result::Result<Option<&'static MessageShape>, DamagedMessage> {
    let (mut older, mut newer) = (false, false);
    let (mut second, mut times) = (None, 0);
    for field in Fields(bytes) {
        match field? {
            (2, WireValue::Bytes(list)) => second = Some(list),
            (3, WireValue::Bytes(_)) | (4, WireValue::Varint(_)) => older = true,
            (3, WireValue::Varint(_)) | (4, WireValue::Bytes(_)) => newer = true,
            (5, WireValue::Bytes(list)) => times = list.len() / 8,
            (1, WireValue::Varint(_)) => {}
            _ => return Err(DamagedMessage),
        }
    }
    if let Some(mut list) = second.filter(|_| !older && !newer) {
        let (mut count, mut attributes_alone) = (0, true);
        while !list.is_empty() {
            attributes_alone &= (1..attributes).contains(&protobuf::varint(&mut list)?);
            count += 1;
        }
        older = times == 0 || count == times && !attributes_alone;
        newer = times > 0 && count != times;
    }
    match (older, newer) {
        (true, true) => Err(DamagedMessage),
        (true, false) => Ok(Some(&SAMPLE_1_9)),
        (false, true) => Ok(Some(&SAMPLE)),
        (false, false) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sample: &[u8]) -> &'static str {
        match says(sample, 4) {
            Err(DamagedMessage) => "neither",
            Ok(None) => "either",
            Ok(Some(shape)) if std::ptr::eq(shape, &SAMPLE_1_9) => "1.9",
            Ok(Some(_)) => "1.10",
        }
    }

    #[test]
    fn every_number_that_changed_tells_the_layout() {
        const TIMES: [u8; 18] = [0x2a, 16, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        let with_times = |sample: &[u8]| [sample, &TIMES].concat();
        for (sample, layout) in [
            (&b"\x08\x01\x22\x01\x05"[..], "1.10"),
            (b"\x08\x01\x20\x03", "1.9"),
            (b"\x08\x01\x1a\x01\x02", "1.9"),
            (b"\x08\x01\x18\x02", "1.10"),
            (b"\x08\x01\x12\x01\x05", "1.9"),
            (b"\x08\x01\x12\x01\x02\x22\x01\x05", "1.10"),
            (b"\x08\x01\x12\x01\x05\x1a\x01\x02\x20\x01", "1.9"),
            (b"\x08\x01", "either"),
            (b"\x08\x01\x1a\x01\x02\x22\x01\x05", "neither"),
            (b"\x08\x01\x18\x02\x20\x01", "neither"),
            (b"\x08\x01\x10\x02", "neither"),
            (b"\x08\x01\x30\x02", "neither"),
            (b"\x0a\x01\x02", "neither"),
        ] {
            assert_eq!(told(sample), layout, "{sample:x?}");
        }
        for (sample, layout) in [
            (&b"\x12\x01\x02"[..], "1.10"),
            (b"\x12\x02\x01\x02", "either"),
            (b"\x12\x02\x01\x04", "1.9"),
            (b"\x12\x02\x00\x02", "1.9"),
            (b"\x12\x03\x01\x02\x04", "1.10"),
            (b"", "either"),
        ] {
            assert_eq!(told(&with_times(sample)), layout, "{sample:x?} with two timestamps");
        }
    }
}
