// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of gRPC with one message, as profilers send them: frames, and answers with a status after the message. The protocol is described in
//! `PROTOCOL-HTTP2.md` of gRPC.

use super::packed::Packing;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::Frame;

/// Header with the compression of messages.
pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const KIND: HeaderValue = HeaderValue::from_static("application/grpc");
/// A mark for compression and the length of a message precede the message.
const FRAME: usize = 5;
/// Maximum bytes of a reason.
const REASON: usize = 4096;

pub(super) fn is_request(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Removes the frame of a message. Returns the compression of the message; `None` if the body is not one message.
pub(super) fn unframe(bytes: &mut Vec<u8>, packing: Packing) -> Option<Packing> {
    let length = bytes.get(1..FRAME)?.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
    let packing = match bytes.first()? {
        0 => Packing::None,
        1 => packing,
        _ => return None,
    };
    (bytes.len() == FRAME + length).then(|| drop(bytes.drain(..FRAME)))?;
    Some(packing)
}

/// Status numbers of gRPC.
fn status_of(status: StatusCode) -> u16 {
    match status {
        StatusCode::OK | StatusCode::CREATED => 0,
        StatusCode::REQUEST_TIMEOUT => 4,
        StatusCode::CONFLICT => 6,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => 8,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => 12,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE => 14,
        StatusCode::UNAUTHORIZED => 16,
        _ => 3,
    }
}

/// The answer as gRPC: an empty message, or the reason of a refusal.
pub(super) async fn answer(plain: Response) -> Response {
    let number = status_of(plain.status());
    let reason = to_bytes(plain.into_body(), REASON).await.unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(number));
    if number > 0
        && let Ok(reason) = HeaderValue::from_str(&percent_encoded(&reason))
    {
        trailers.insert("grpc-message", reason);
    }
    let message = bytes::Bytes::from_static(&[0; FRAME]);
    let message = (number == 0).then(|| Frame::data(message));
    let frames = message.into_iter().chain([Frame::trailers(trailers)]);
    let frames = futures::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
    let mut response = Response::new(Body::new(http_body_util::StreamBody::new(frames)));
    response.headers_mut().insert(header::CONTENT_TYPE, KIND);
    response
}

fn percent_encoded(text: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b' '..=b'~' if *byte != b'%' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.trim_ascii().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_removed() {
        let mut body = [&[1, 0, 0, 0, 3][..], b"abc"].concat();
        assert_eq!(unframe(&mut body, Packing::Gzip), Some(Packing::Gzip));
        assert_eq!(body, b"abc");
        assert_eq!(unframe(&mut vec![0, 0, 0, 0, 0], Packing::Gzip), Some(Packing::None));
        for damaged in [&[0, 0, 0, 0][..], &[0, 0, 0, 0, 1], &[2, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 1]] {
            assert_eq!(unframe(&mut damaged.to_vec(), Packing::None), None);
        }
        assert_eq!(percent_encoded("a %\nb\n".as_bytes()), "a %25%0Ab");
    }
}
