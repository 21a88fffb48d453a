// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions: limits, validation with the profile reader, and the keeper's answers.

use super::connections::Connection;
use super::grpc;
use super::health::Part;
use super::keeper::RecordOutcome;
use super::log::Record;
use super::metrics::Metrics;
use super::packed::Packing;
use super::push::{self, Service};
use super::server::{Bucket, Shared};
use super::tokens::Sender;
use super::{LARGE, LARGE_ONES};
use crate::dataset::contents::Contents;
use crate::day::Day;
use crate::submission::{Named, Submission};
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use parking_lot::Mutex;
use prost::Message as _;
use sediment_core::{Error, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFormat {
    Profile,
    Otlp,
    /// A pprof profile, alone or in a form with several parts.
    Pprof,
    /// A message of Parca's agents.
    Parca,
}

pub(super) fn answer(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into() + "\n").into_response()
}

fn text_of<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reason to reject a request: its counter, its status, the seconds after which to try again (0: never), and its text.
#[derive(Clone, Copy)]
pub(super) struct Refusal(fn(&Metrics) -> &AtomicU64, StatusCode, u32, &'static str);

macro_rules! refusals {
    ($($name:ident $counter:ident $status:ident $wait:literal $text:literal;)*) => {
        $(const $name: Refusal = Refusal(|metrics| &metrics.$counter, StatusCode::$status, $wait, $text);)*
    };
}

refusals! {
    TOKEN refused_token_total UNAUTHORIZED 0 "unknown token: send Authorization: Bearer TOKEN";
    WRONG refused_wrong_total TOO_MANY_REQUESTS 60 "too many requests without a known token: try again in a minute";
    RATE refused_rate_total TOO_MANY_REQUESTS 60 "too many submissions: try again in a minute";
    AT_ONCE refused_at_once_total TOO_MANY_REQUESTS 1 "too many submissions at the same time: send one after the other";
    SIZE refused_size_total PAYLOAD_TOO_LARGE 0 "the submission is larger than the limit";
    PACKING refused_packing_total UNSUPPORTED_MEDIA_TYPE 0 "the body does not have its Content-Encoding, or is neither gzip nor zstd";
    SLOW refused_slow_total REQUEST_TIMEOUT 0 "the submission did not arrive in time";
    BROKEN refused_slow_total BAD_REQUEST 0 "the submission is incomplete";
    BUSY refused_busy_total SERVICE_UNAVAILABLE 1 "busy: try again";
}

impl Refusal {
    fn answer(self, metrics: &Metrics) -> Response {
        let Self(counter, status, wait, text) = self;
        Metrics::count(counter(metrics));
        let mut response = answer(status, text);
        if wait > 0 {
            response.headers_mut().insert(header::RETRY_AFTER, wait.into());
        }
        response
    }
}

/// A body that arrived completely.
struct Received {
    bytes: Vec<u8>,
    packing: Packing,
    _room: Option<OwnedSemaphorePermit>,
}

/// One of a submitter's simultaneous submissions, until it is dropped.
struct Turn {
    shared: Arc<Shared>,
    sender: Sender,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.metrics.queue.fetch_sub(1, Ordering::Relaxed);
        if let Some(bucket) = self.shared.buckets.lock().get_mut(&self.sender.submitter) {
            bucket.open -= 1;
        }
    }
}

/// Answers a request that sends submissions.
pub(super) async fn receive(shared: Arc<Shared>, request: Request, form: BodyFormat) -> Response {
    let is_grpc = grpc::is_request(request.headers());
    let (head, body) = request.into_parts();
    let response = match receive_body(&shared, &head, body, form).await {
        Ok(response) => response,
        Err(refusal) => refusal.answer(&shared.metrics),
    };
    if is_grpc { grpc::answer(response).await } else { response }
}

async fn receive_body(
    shared: &Arc<Shared>,
    head: &Parts,
    body: Body,
    form: BodyFormat,
) -> Result<Response, Refusal> {
    let turn = turn(shared, &head.headers)?;
    let connection = head.extensions.get::<Arc<Connection>>().cloned().ok_or(BUSY)?;
    connection.waits();
    let received = read(shared, &connection, &head.headers, body).await;
    connection.works();
    keep(&turn, head, received?, form).await
}

/// Permission for a submitter to send, if the token is valid and the submitter is within its limits.
fn turn(shared: &Arc<Shared>, headers: &HeaderMap) -> Result<Turn, Refusal> {
    let token = text_of(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let Some(sender) = shared.tokens.sender(token.unwrap_or_default()) else {
        return Err(if shared.tokens.may_be_wrong() { TOKEN } else { WRONG });
    };
    let rate = f64::from(shared.settings.rate);
    let mut buckets = shared.buckets.lock();
    let now = Instant::now();
    let bucket = buckets.entry(sender.submitter.clone()).or_insert(Bucket { left: rate, at: now, open: 0 });
    let grown = now.saturating_duration_since(bucket.at).as_secs_f64() * rate / 60.0;
    (bucket.left, bucket.at) = ((bucket.left + grown).min(rate), now);
    if bucket.left < 1.0 {
        return Err(RATE);
    }
    if bucket.open >= shared.settings.at_once.max(1) {
        return Err(AT_ONCE);
    }
    bucket.left -= 1.0;
    bucket.open += 1;
    shared.metrics.queue.fetch_add(1, Ordering::Relaxed);
    Ok(Turn { shared: Arc::clone(shared), sender })
}

/// Reads the bytes of a request within all limits. Memory is reserved when bytes arrive, so an announced length alone does not reserve memory.
async fn read(
    shared: &Shared,
    connection: &Connection,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Refusal> {
    let limit = shared.settings.max_size << 10;
    let announced = text_of(headers, &header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(SIZE);
    }
    let is_grpc = grpc::is_request(headers);
    let encoding = if is_grpc { grpc::ENCODING } else { header::CONTENT_ENCODING };
    let packing = Packing::parse(text_of(headers, &encoding).unwrap_or_default()).ok_or(PACKING)?;
    let read = async {
        let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
        let mut stream = body.into_data_stream();
        while let Some(chunk) = stream.next().await {
            connection.waits();
            let chunk = chunk.map_err(|_| BROKEN)?;
            let length = bytes.len() + chunk.len();
            if length > limit {
                return Err(SIZE);
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(length.div_ceil(1024).saturating_sub(held)).unwrap_or(u32::MAX);
            if more > 0 {
                let taken = Arc::clone(&shared.room).try_acquire_many_owned(more).map_err(|_| BUSY)?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    none => *none = Some(taken),
                }
            }
            bytes.extend_from_slice(&chunk);
        }
        let packing = if is_grpc { grpc::unframe(&mut bytes, packing).ok_or(BROKEN)? } else { packing };
        Ok(Received { bytes, packing, _room: room })
    };
    tokio::time::timeout(shared.settings.receive_timeout(), read).await.map_err(|_| SLOW)?
}

/// A submission that the reader accepted.
struct AcceptedSubmission {
    identity: u128,
    contents: Vec<u8>,
}

/// Reason why the reader rejected it.
enum Fault {
    Refused(Refusal),
    Reader(Error),
}

/// A body with everything that is needed to read it.
struct Unread {
    shared: Arc<Shared>,
    submitter: String,
    packing: Packing,
    /// The body until it is read.
    bytes: Mutex<Vec<u8>>,
    form: BodyFormat,
    query: String,
    content_type: String,
}

impl Unread {
    /// Unpacks the body, converts it to a profile if necessary, and reads it.
    fn check(&self, limit: usize) -> Result<Vec<AcceptedSubmission>, Fault> {
        let body = std::mem::take(&mut *self.bytes.lock());
        let bytes = match self.packing.unpacked(body, limit) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(body)) => {
                *self.bytes.lock() = body;
                return Err(Fault::Refused(SIZE));
            }
            Err(_) => return Err(Fault::Refused(PACKING)),
        };
        let build_ids = &self.shared.build_ids;
        let profiles = match self.form {
            BodyFormat::Profile => vec![Ok(bytes)],
            BodyFormat::Otlp => vec![push::profile_of(&bytes, &Service::of_otlp(&bytes), build_ids)],
            BodyFormat::Pprof => {
                let profile = push::part_of_form(&self.content_type, &bytes);
                vec![push::profile_of(profile, &Service::of_query(&self.query), build_ids)]
            }
            BodyFormat::Parca => {
                let profiles = push::of_parca(&bytes).map_err(Fault::Reader)?.into_iter();
                profiles.map(|(service, bytes)| push::profile_of(&bytes, &service, build_ids)).collect()
            }
        };
        let (mut checked, mut fault) = (Vec::new(), None);
        for profile in profiles {
            match profile.and_then(|bytes| self.checked(bytes)) {
                Ok(one) => checked.push(one),
                Err(error) => fault = Some(error),
            }
        }
        // A message can have profiles of programs without a package beside others.
        match fault {
            Some(error) if checked.is_empty() => Err(Fault::Reader(error)),
            _ => Ok(checked),
        }
    }

    fn checked(&self, profile: Vec<u8>) -> Result<AcceptedSubmission, Error> {
        let identity = self.shared.keys.identity(&self.submitter, &profile);
        let submission = Submission::read(profile, &Named::default())?;
        Ok(AcceptedSubmission { identity, contents: Contents::new(submission).encode_to_vec() })
    }

    /// Checks in a thread for work: a small body when a processor is free, a large body when no other large body is checked.
    async fn check_in_turn(self) -> Result<Vec<AcceptedSubmission>, Fault> {
        let limit = self.shared.settings.max_size << 10;
        let unread = Arc::new(self);
        let length = unread.bytes.lock().len();
        if length <= LARGE {
            let _turn = unread.shared.validating.acquire().await;
            match unread.check_elsewhere(limit.min(LARGE)).await {
                // It is larger without its packing.
                Err(Fault::Refused(Refusal(_, StatusCode::PAYLOAD_TOO_LARGE, ..))) if limit > LARGE => {}
                checked => return checked,
            }
        }
        let _turn = LARGE_ONES.acquire().await;
        // Its memory is free when its thread ends.
        let (answer, checked) = oneshot::channel();
        let _ = std::thread::Builder::new().spawn(move || answer.send(unread.check(limit)));
        checked.await.unwrap_or_else(|_| Err(failed()))
    }

    async fn check_elsewhere(self: &Arc<Self>, limit: usize) -> Result<Vec<AcceptedSubmission>, Fault> {
        let unread = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || unread.check(limit)).await;
        checked.unwrap_or_else(|_| Err(failed()))
    }
}

fn failed() -> Fault {
    Fault::Reader(Error::new(ErrorCode::Io, "the reader failed"))
}

/// Validates and stores a submission.
async fn keep(turn: &Turn, head: &Parts, received: Received, form: BodyFormat) -> Result<Response, Refusal> {
    let Turn { shared, sender } = turn;
    let key = head.headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 128) {
        return Ok(answer(StatusCode::BAD_REQUEST, "an idempotency key has 1 to 128 characters"));
    }
    let Received { bytes, packing, _room } = received;
    let unread = Unread {
        shared: Arc::clone(shared),
        submitter: sender.submitter.clone(),
        packing,
        bytes: Mutex::new(bytes),
        form,
        query: head.uri.query().unwrap_or_default().to_owned(),
        content_type: text_of(&head.headers, &header::CONTENT_TYPE).unwrap_or_default().to_owned(),
    };
    let checked = match unread.check_in_turn().await {
        Ok(checked) => checked,
        Err(Fault::Refused(refusal)) => return Err(refusal),
        Err(Fault::Reader(error)) => {
            Metrics::count(&shared.metrics.refused_invalid_total);
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            return Ok(answer(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}{hint}")));
        }
    };
    let mut is_new = false;
    for AcceptedSubmission { identity, contents } in checked {
        let record = Record {
            submitter: sender.submitter.clone(),
            host_class: sender.host_class.clone(),
            day: Day::today().0,
            idempotency_key: key.clone(),
            identity: identity.to_be_bytes().to_vec().into(),
            contents: contents.into(),
        };
        match shared.keeper.keep(record).await.ok_or(BUSY)? {
            RecordOutcome::New => {
                if form != BodyFormat::Profile {
                    Metrics::count(&shared.metrics.imported_total);
                }
                is_new = true;
            }
            RecordOutcome::Duplicate => {}
            RecordOutcome::KeyReused => {
                return Ok(answer(StatusCode::CONFLICT, "the idempotency key came with another submission"));
            }
            RecordOutcome::Failed(error) => {
                shared.health.fails(Part::Log, &error.to_string());
                let text = "the submission could not be stored: try again later";
                return Ok(answer(StatusCode::INSUFFICIENT_STORAGE, text));
            }
        }
    }
    if !is_new {
        return Ok(answer(StatusCode::OK, "kept before"));
    }
    shared.health.works(Part::Log);
    Ok(answer(StatusCode::CREATED, "kept"))
}
