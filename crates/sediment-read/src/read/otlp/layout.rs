// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes the two layouts of `Sample`. Version 1.9 has values in field 2, attributes in 3 and the link in 4;
//! since 1.10 they are in 4, 2 and 3. Messages do not contain their version, and both layouts are valid protocol
//! buffers.
//!
//! A sample shows its layout as follows:
//! - Field 4 or 3: the kind of the field decides, because values and attributes are packed lists and a link is an
//!   integer.
//! - Only field 2, without timestamps: version 1.9, because a sample has values or timestamps.
//! - Only field 2, with timestamps: there are as many values as timestamps, and attributes are indices of their table.
//!   If the field can be only one of them, that decides; if both are possible, the sample shows nothing.
//!
//! A message has one layout: samples with different ones are an error. If no sample shows it, the newer one is assumed.
//!
//! JSON has names, which are the same in both layouts; it is converted to the newer one.

use super::super::protobuf::{self, DamagedMessage, Fields, MessageShape, WireValue};
use super::document::Document;
use super::message::{SAMPLE, SAMPLE_1_9};
use sediment_core::error::Result;

/// Layout of a message, as shown by its samples so far.
#[derive(Debug, Default)]
pub(super) struct MessageLayout {
    told: Option<&'static MessageShape>,
}

impl MessageLayout {
    /// Adds the evidence of one sample, in a message with this number of attributes.
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

    /// Returns the declaration for reading the samples of the message.
    pub(super) fn shape(&self) -> &'static MessageShape {
        self.told.unwrap_or(&SAMPLE)
    }
}

/// Returns the only layout that a sample can have; `None` if both are possible.
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
