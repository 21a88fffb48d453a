// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions: limits, validation with the profile reader, and the keeper's answers.

use super::connections::Slot;
use super::grpc;
use super::health::Part;
use super::keeper::Kept;
use super::log::Record;
use super::metrics::Metrics;
use super::packed::Packing;
use super::push::{self, Service};
use super::server::{Bucket, Shared};
use super::tokens::Sender;
use super::{LARGE, LARGE_ONES};
use crate::dataset::contents::Contents;
use crate::day::Day;
use crate::submission::{Named, Origin, Submission};
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use prost::Message as _;
use sediment_core::{Error, ErrorCode};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// Format of a body.
enum Form {
    /// A sediment profile.
    Profile,
    /// An OTLP message.
    Otlp,
    /// A pprof profile, alone or in a form with this content type.
    Pprof(Service, String),
    /// A message of Parca's agents.
    Parca,
}

pub(super) async fn profile(
    State(shared): State<Arc<Shared>>,
    Extension(slot): Extension<Slot>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    receive(&shared, &slot, &headers, body, Form::Profile).await
}

pub(super) async fn otlp(
    State(shared): State<Arc<Shared>>,
    Extension(slot): Extension<Slot>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    receive(&shared, &slot, &headers, body, Form::Otlp).await
}

pub(super) async fn pprof(
    State(shared): State<Arc<Shared>>,
    Extension(slot): Extension<Slot>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let service = Service::of_query(query.as_deref().unwrap_or_default());
    let kind = text_of(&headers, &header::CONTENT_TYPE).unwrap_or_default().to_owned();
    receive(&shared, &slot, &headers, body, Form::Pprof(service, kind)).await
}

pub(super) async fn otlp_by_grpc(
    State(shared): State<Arc<Shared>>,
    Extension(slot): Extension<Slot>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    grpc::answer(receive(&shared, &slot, &headers, body, Form::Otlp).await).await
}

pub(super) async fn parca(
    State(shared): State<Arc<Shared>>,
    Extension(slot): Extension<Slot>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    grpc::answer(receive(&shared, &slot, &headers, body, Form::Parca).await).await
}

pub(super) fn answer(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into() + "\n").into_response()
}

fn text_of<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reason to reject a submission before any of it is stored.
#[derive(Debug, Clone, Copy)]
enum Refused {
    Token,
    Wrong,
    Rate,
    AtOnce,
    Size,
    Packing,
    Slow,
    Broken,
    Busy,
}

impl Refused {
    fn answer(self, shared: &Shared) -> Response {
        let metrics = &shared.metrics;
        let (count, status, wait, text) = match self {
            Self::Token => (
                &metrics.refused_token_total,
                StatusCode::UNAUTHORIZED,
                None,
                "unknown token: send Authorization: Bearer TOKEN",
            ),
            Self::Wrong => (
                &metrics.refused_wrong_total,
                StatusCode::TOO_MANY_REQUESTS,
                Some("60"),
                "too many requests without a known token: try again in a minute",
            ),
            Self::Rate => (
                &metrics.refused_rate_total,
                StatusCode::TOO_MANY_REQUESTS,
                Some("60"),
                "too many submissions: try again in a minute",
            ),
            Self::AtOnce => (
                &metrics.refused_at_once_total,
                StatusCode::TOO_MANY_REQUESTS,
                Some("1"),
                "too many submissions at the same time: send one after the other",
            ),
            Self::Size => (
                &metrics.refused_size_total,
                StatusCode::PAYLOAD_TOO_LARGE,
                None,
                "the submission is larger than the limit",
            ),
            Self::Packing => (
                &metrics.refused_packing_total,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                None,
                "the body does not have its Content-Encoding, or is neither gzip nor zstd",
            ),
            Self::Slow => (
                &metrics.refused_slow_total,
                StatusCode::REQUEST_TIMEOUT,
                None,
                "the submission did not arrive in time",
            ),
            Self::Broken => {
                (&metrics.refused_slow_total, StatusCode::BAD_REQUEST, None, "the submission is incomplete")
            }
            Self::Busy => {
                (&metrics.refused_busy_total, StatusCode::SERVICE_UNAVAILABLE, Some("1"), "busy: try again")
            }
        };
        Metrics::count(count);
        let mut response = answer(status, text);
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(wait));
        }
        response
    }
}

/// A body that arrived completely.
struct Received {
    sender: Sender,
    bytes: Vec<u8>,
    packing: Packing,
    _room: Option<OwnedSemaphorePermit>,
}

/// One of a submitter's simultaneous submissions, until it is dropped.
struct Turn {
    shared: Arc<Shared>,
    submitter: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Ok(mut buckets) = self.shared.buckets.lock()
            && let Some(bucket) = buckets.get_mut(&self.submitter)
        {
            bucket.open = bucket.open.saturating_sub(1);
        }
    }
}

async fn receive(shared: &Arc<Shared>, slot: &Slot, headers: &HeaderMap, body: Body, form: Form) -> Response {
    let metrics = Arc::clone(&shared.metrics);
    metrics.queue.fetch_add(1, Ordering::Relaxed);
    let response = match turn(shared, headers) {
        Ok((turn, sender)) => {
            slot.waits();
            let received = received(shared, headers, body, sender).await;
            slot.works();
            let response = match received {
                Ok(received) => keep(shared, headers, received, form).await,
                Err(refused) => refused.answer(shared),
            };
            drop(turn);
            response
        }
        Err(refused) => refused.answer(shared),
    };
    metrics.queue.fetch_sub(1, Ordering::Relaxed);
    response
}

/// Permission for a submitter to send, if the token is valid and the submitter is within its limits.
fn turn(shared: &Arc<Shared>, headers: &HeaderMap) -> Result<(Turn, Sender), Refused> {
    let token = text_of(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let Some(sender) = shared.tokens.sender(token.unwrap_or_default()) else {
        return Err(if shared.tokens.may_be_wrong() { Refused::Token } else { Refused::Wrong });
    };
    let settings = &shared.settings;
    let rate = f64::from(settings.rate);
    let mut buckets = shared.buckets.lock().map_err(|_| Refused::Busy)?;
    let now = Instant::now();
    let bucket = buckets.entry(sender.submitter.clone()).or_insert(Bucket { left: rate, at: now, open: 0 });
    let grown = now.saturating_duration_since(bucket.at).as_secs_f64() * rate / 60.0;
    (bucket.left, bucket.at) = ((bucket.left + grown).min(rate), now);
    if bucket.left < 1.0 {
        return Err(Refused::Rate);
    }
    if bucket.open >= settings.at_once.max(1) {
        return Err(Refused::AtOnce);
    }
    bucket.left -= 1.0;
    bucket.open += 1;
    let submitter = sender.submitter.clone();
    Ok((Turn { shared: Arc::clone(shared), submitter }, sender))
}

/// Reads the bytes of a request within all limits. Memory is reserved when bytes arrive, so an announced length alone does not reserve memory.
async fn received(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    sender: Sender,
) -> Result<Received, Refused> {
    let limit = shared.settings.size;
    let announced = text_of(headers, &header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(Refused::Size);
    }
    let is_grpc = grpc::is_request(headers);
    let encoding = if is_grpc { grpc::ENCODING } else { header::CONTENT_ENCODING };
    let packing = Packing::parse(text_of(headers, &encoding).unwrap_or_default()).ok_or(Refused::Packing)?;
    let read = async {
        let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
        let mut stream = body.into_data_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|_| Refused::Broken)?;
            let length = bytes.len() + chunk.len();
            if length > limit {
                return Err(Refused::Size);
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(length.div_ceil(1024).saturating_sub(held)).unwrap_or(u32::MAX);
            if more > 0 {
                let taken = Arc::clone(&shared.room).try_acquire_many_owned(more);
                let taken = taken.map_err(|_| Refused::Busy)?;
                match &mut room {
                    Some(room) => room.merge(taken),
                    none => *none = Some(taken),
                }
            }
            bytes.extend_from_slice(&chunk);
        }
        let packing =
            if is_grpc { grpc::unframe(&mut bytes, packing).ok_or(Refused::Broken)? } else { packing };
        Ok(Received { sender, bytes, packing, _room: room })
    };
    tokio::time::timeout(shared.settings.timeout, read).await.map_err(|_| Refused::Slow)?
}

/// A submission that the reader accepted.
struct Checked {
    identity: u128,
    contents: Vec<u8>,
}

/// Reason why the reader rejected it.
enum Fault {
    Refused(Refused),
    Reader(Error),
}

/// A body with everything that is needed to read it.
struct Unread {
    shared: Arc<Shared>,
    submitter: String,
    packing: Packing,
    /// The body until it is read.
    bytes: Mutex<Vec<u8>>,
    form: Form,
}

impl Unread {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unpacks the body, converts it to a profile if necessary, and reads it.
    fn check(&self, limit: usize) -> Result<Vec<Checked>, Fault> {
        let body = std::mem::take(&mut *self.bytes());
        let bytes = match self.packing.unpacked(body, limit) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(body)) => {
                *self.bytes() = body;
                return Err(Fault::Refused(Refused::Size));
            }
            Err(_) => return Err(Fault::Refused(Refused::Packing)),
        };
        let build_ids = &self.shared.build_ids;
        let profiles = match &self.form {
            Form::Profile => vec![Ok(bytes)],
            Form::Otlp => vec![push::profile_of(&bytes, &Service::of_otlp(&bytes), build_ids)],
            Form::Pprof(service, kind) => {
                vec![push::profile_of(push::part_of_form(kind, &bytes), service, build_ids)]
            }
            Form::Parca => {
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

    fn checked(&self, profile: Vec<u8>) -> Result<Checked, Error> {
        let identity = self.shared.keys.identity(&self.submitter, &profile);
        let submission = Submission::read(profile, &Named::default())?;
        Ok(Checked { identity, contents: Contents::new(submission).encode_to_vec() })
    }

    /// Checks in a thread for work: a small body when a processor is free, a large body when no other large body is checked.
    async fn check_in_turn(self) -> Result<Vec<Checked>, Fault> {
        let limit = self.shared.settings.size;
        let unread = Arc::new(self);
        let length = unread.bytes().len();
        if length <= LARGE {
            let _turn = unread.shared.validating.acquire().await;
            match unread.check_elsewhere(limit.min(LARGE)).await {
                // It is larger without its packing.
                Err(Fault::Refused(Refused::Size)) if limit > LARGE => {}
                checked => return checked,
            }
        }
        let _turn = LARGE_ONES.acquire().await;
        unread.check_elsewhere(limit).await
    }

    async fn check_elsewhere(self: &Arc<Self>, limit: usize) -> Result<Vec<Checked>, Fault> {
        let unread = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || unread.check(limit)).await;
        checked.unwrap_or_else(|_| Err(Fault::Reader(Error::new(ErrorCode::Io, "the reader failed"))))
    }
}

/// Validates and stores a submission.
async fn keep(shared: &Arc<Shared>, headers: &HeaderMap, received: Received, form: Form) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 128) {
        return answer(StatusCode::BAD_REQUEST, "an idempotency key has 1 to 128 characters");
    }
    let Received { sender, bytes, packing, _room } = received;
    let is_imported = !matches!(form, Form::Profile);
    let unread = Unread {
        shared: Arc::clone(shared),
        submitter: sender.submitter.clone(),
        packing,
        bytes: Mutex::new(bytes),
        form,
    };
    let checked = match unread.check_in_turn().await {
        Ok(checked) => checked,
        Err(Fault::Refused(refused)) => return refused.answer(shared),
        Err(Fault::Reader(error)) => {
            Metrics::count(&shared.metrics.refused_invalid_total);
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            return answer(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}{hint}"));
        }
    };
    let origin = Origin { submitter: sender.submitter, host_class: sender.host_class, day: Day::today() };
    let mut is_new = false;
    for Checked { identity, contents } in checked {
        let record = Record { origin: origin.clone(), idempotency_key: key.clone(), identity, contents };
        match shared.keeper.keep(record).await {
            Some(Kept::New) => {
                if is_imported {
                    Metrics::count(&shared.metrics.imported_total);
                }
                is_new = true;
            }
            Some(Kept::Duplicate) => {}
            Some(Kept::KeyReused) => {
                return answer(StatusCode::CONFLICT, "the idempotency key came with another submission");
            }
            Some(Kept::Failed(error)) => {
                shared.health.fails(Part::Log, &error.to_string());
                let text = "the submission could not be stored: try again later";
                return answer(StatusCode::INSUFFICIENT_STORAGE, text);
            }
            None => return Refused::Busy.answer(shared),
        }
    }
    if is_new {
        shared.health.works(Part::Log);
        answer(StatusCode::CREATED, "kept")
    } else {
        answer(StatusCode::OK, "kept before")
    }
}
