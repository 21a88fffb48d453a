// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP endpoint: limits, validation by the profile's own reader, and the answers of the keeper. TLS is the business of a proxy in front.

use super::keeper::{Handle, Keeper, Kept, Segments};
use super::log::Record;
use super::metrics::Metrics;
use super::page::Pages;
use super::tokens::{Sender, Tokens};
use crate::day::Day;
use crate::submission::{Named, Origin, Submission, identity};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Segment, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

/// Settings of an intake.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The dataset.
    pub place: String,
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Folder of the log.
    pub log: PathBuf,
    /// File of tokens.
    pub tokens: PathBuf,
    /// Bytes of a submission at most.
    pub size: usize,
    /// Submissions of a submitter in a minute at most.
    pub rate: u32,
    /// Time for a submission to arrive.
    pub timeout: Duration,
    /// Bytes of submissions that are received at the same time.
    pub memory: usize,
    /// Connections at the same time.
    pub connections: usize,
    /// When segments become partitions.
    pub segments: Segments,
    /// Submitters that must have executed a function before a page shows it.
    pub min_submitters: u32,
    /// Folder with the shipped profile of each package, `PACKAGE.gv`.
    pub shipped: Option<PathBuf>,
}

/// What all requests share.
struct Shared {
    settings: Settings,
    tokens: Tokens,
    metrics: Arc<Metrics>,
    keeper: Handle,
    /// Kibibytes that may be received.
    room: Arc<Semaphore>,
    buckets: Mutex<HashMap<String, Bucket>>,
    pages: Pages,
}

/// What a submitter may still send.
struct Bucket {
    left: f64,
    at: Instant,
}

/// Serves until the process is asked to end; `ready` gets the address.
///
/// # Errors
/// When the dataset, the log, the tokens or the address cannot be used.
pub fn serve(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let metrics = Arc::new(Metrics::default());
    let (keeper, salt) =
        Keeper::start(&settings.place, &settings.log, settings.segments, Arc::clone(&metrics))?;
    let served = serve_with(&settings, &keeper, &salt, metrics, ready);
    keeper.stop();
    served
}

fn serve_with(
    settings: &Settings,
    keeper: &Keeper,
    salt: &str,
    metrics: Arc<Metrics>,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let name = settings.tokens.display().to_string();
    let text =
        std::fs::read_to_string(&settings.tokens).map_err(|error| io(&error).with_input(name.clone()))?;
    let tokens = Tokens::parse(&text, salt).map_err(|error| error.with_input(name))?;
    let shared = Arc::new(Shared {
        tokens,
        metrics,
        keeper: keeper.handle(),
        room: Arc::new(Semaphore::new(settings.memory / 1024)),
        buckets: Mutex::default(),
        pages: Pages::new(&settings.place, settings.min_submitters, settings.shipped.clone()),
        settings: settings.clone(),
    });
    // As many are validated at once as there are processors: more would only wait for one another, each with its memory.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(processors + 1)
        .enable_all()
        .build()
        .map_err(|error| io(&error))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(settings.listen).await;
        let listener = listener.map_err(|error| io(&error).with_input(settings.listen.to_string()))?;
        let ends = Ends::new()?;
        ready(listener.local_addr().map_err(|error| io(&error))?);
        accept(&listener, routes(Arc::clone(&shared)), settings.connections, ends).await
    })
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/profiles", post(receive))
        .route("/metrics", get(|State(shared): State<Arc<Shared>>| async move { shared.metrics.text() }))
        .route("/health", get(|| async { "ok\n" }))
        .route("/", get(packages))
        .route("/packages/{package}", get(package))
        .route("/packages/{package}/profile.gv", get(profile))
        .with_state(shared)
}

/// Signals that end an intake, caught from its first moment.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> Result<Self> {
        let caught = |kind| signal(kind).map_err(|error| io(&error));
        Ok(Self { terminate: caught(SignalKind::terminate())?, interrupt: caught(SignalKind::interrupt())? })
    }
}

/// Takes connections until a signal, then lets those that are open end.
async fn accept(listener: &TcpListener, routes: Router, connections: usize, ends: Ends) -> Result<()> {
    let Ends { mut terminate, mut interrupt } = ends;
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Too many open files: those that are open will end.
                Err(_) => { tokio::time::sleep(Duration::from_millis(50)).await; continue }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is no fault of ours.
            let _ = connection.await;
            drop(place);
        });
    }
    let _ = tokio::time::timeout(Duration::from_secs(20), graceful.shutdown()).await;
    Ok(())
}

fn answer(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into() + "\n").into_response()
}

/// Why a submission is refused, before anything of it is kept.
enum Refused {
    Token,
    Rate,
    Size,
    Slow,
    Broken,
    Busy,
}

impl Refused {
    fn answer(&self, shared: &Shared) -> Response {
        let metrics = &shared.metrics;
        let (count, status, text) = match self {
            Self::Token => (
                &metrics.refused_token_total,
                StatusCode::UNAUTHORIZED,
                "no known token: Authorization: Bearer TOKEN",
            ),
            Self::Rate => (
                &metrics.refused_rate_total,
                StatusCode::TOO_MANY_REQUESTS,
                "too many submissions: try again in a minute",
            ),
            Self::Size => (
                &metrics.refused_size_total,
                StatusCode::PAYLOAD_TOO_LARGE,
                "larger than a submission may be",
            ),
            Self::Slow => (
                &metrics.refused_slow_total,
                StatusCode::REQUEST_TIMEOUT,
                "the submission did not arrive in time",
            ),
            Self::Broken => {
                (&metrics.refused_slow_total, StatusCode::BAD_REQUEST, "the submission did not arrive whole")
            }
            Self::Busy => (&metrics.refused_busy_total, StatusCode::SERVICE_UNAVAILABLE, "busy: try again"),
        };
        Metrics::count(count);
        let mut response = answer(status, text);
        let wait = match self {
            Self::Rate => "60",
            Self::Busy => "1",
            _ => return response,
        };
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(wait));
        response
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> Response {
    let metrics = Arc::clone(&shared.metrics);
    metrics.queue.fetch_add(1, Ordering::Relaxed);
    let response = match received(&shared, &headers, body).await {
        Ok((sender, bytes)) => keep(&shared, &headers, sender, bytes).await,
        Err(refused) => refused.answer(&shared),
    };
    metrics.queue.fetch_sub(1, Ordering::Relaxed);
    response
}

/// Sender and bytes of a request within all limits.
async fn received(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> std::result::Result<(Sender, Vec<u8>), Refused> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let token =
        text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let sender = shared.tokens.sender(token).ok_or(Refused::Token)?;
    let limit = shared.settings.size;
    let announced = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(Refused::Size);
    }
    if !shared.may_send(&sender.submitter) {
        return Err(Refused::Rate);
    }
    let room = u32::try_from(announced.unwrap_or(limit).div_ceil(1024)).unwrap_or(u32::MAX);
    let _room = shared.room.try_acquire_many(room).map_err(|_| Refused::Busy)?;
    let read = async {
        let mut bytes = Vec::with_capacity(announced.unwrap_or(0));
        let mut stream = body.into_data_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|_| Refused::Broken)?;
            if bytes.len() + chunk.len() > limit {
                return Err(Refused::Size);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    let bytes = tokio::time::timeout(shared.settings.timeout, read).await.map_err(|_| Refused::Slow)??;
    Ok((sender.clone(), bytes))
}

/// Validates and keeps a submission.
async fn keep(shared: &Shared, headers: &HeaderMap, sender: Sender, bytes: Vec<u8>) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > 128) {
        return answer(StatusCode::BAD_REQUEST, "an idempotency key has 1 to 128 characters");
    }
    let submitter = sender.submitter.clone();
    let check = move || {
        let _checked = Submission::read(&bytes, &Named::default())?;
        Ok::<_, Error>((identity(&submitter, &bytes), bytes))
    };
    let (identity, bytes) = match tokio::task::spawn_blocking(check).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(error)) => {
            Metrics::count(&shared.metrics.refused_invalid_total);
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            return answer(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}{hint}"));
        }
        Err(_) => return answer(StatusCode::INTERNAL_SERVER_ERROR, "the reader failed"),
    };
    let origin = Origin { submitter: sender.submitter, host_class: sender.host_class, day: Day::today() };
    match shared.keeper.keep(Record { origin, idempotency_key: key, bytes }, identity).await {
        Some(Kept::New) => answer(StatusCode::CREATED, "kept"),
        Some(Kept::Duplicate) => answer(StatusCode::OK, "kept before"),
        Some(Kept::KeyReused) => {
            answer(StatusCode::CONFLICT, "the idempotency key came with another submission")
        }
        Some(Kept::Failed(error)) => {
            eprintln!("sediment-fleet: warning: a submission could not be kept: {error}");
            answer(StatusCode::INSUFFICIENT_STORAGE, "the submission could not be kept: try again later")
        }
        None => Refused::Busy.answer(shared),
    }
}

impl Shared {
    /// Takes one from what a submitter may send, which grows by the rate.
    fn may_send(&self, submitter: &str) -> bool {
        let rate = f64::from(self.settings.rate);
        let Ok(mut buckets) = self.buckets.lock() else { return false };
        let now = Instant::now();
        let bucket = buckets.entry(submitter.to_owned()).or_insert(Bucket { left: rate, at: now });
        bucket.left = (bucket.left + now.duration_since(bucket.at).as_secs_f64() * rate / 60.0).min(rate);
        bucket.at = now;
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        may
    }
}

async fn packages(State(shared): State<Arc<Shared>>) -> Response {
    page(shared.pages.list().await, "text/html; charset=utf-8")
}

async fn package(State(shared): State<Arc<Shared>>, Segment(package): Segment<String>) -> Response {
    page(shared.pages.package(&package).await, "text/html; charset=utf-8")
}

async fn profile(State(shared): State<Arc<Shared>>, Segment(package): Segment<String>) -> Response {
    page(shared.pages.profile(&package).await, "text/vnd.graphviz; charset=utf-8")
}

fn page(made: Result<String>, kind: &'static str) -> Response {
    match made {
        Ok(text) => {
            let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, policy),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
            ];
            (headers, text).into_response()
        }
        Err(error) if [ErrorCode::EmptyInput, ErrorCode::NotFound].contains(&error.code()) => {
            answer(StatusCode::NOT_FOUND, error.to_string())
        }
        Err(error) => {
            eprintln!("sediment-fleet: warning: no page: {error}");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made")
        }
    }
}

fn io(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::Io, error.to_string())
}
