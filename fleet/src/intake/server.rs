// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server: connections, their limits, and pages. [`super::receive`] handles submissions. A proxy provides TLS.

use super::connections::{Connections, Slot};
use super::health::{Health, Part};
use super::keeper::{Handle, Keeper, Maintenance, Segments};
use super::metrics::Metrics;
use super::page::Pages;
use super::push::PackagesByBuildId;
use super::receive::{self, answer};
use super::tokens::TokenFile;
use crate::secret::Keys;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path as Segment, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time between checks of the file of tokens.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of requests that wait for pages.
const WAITING_PAGES: usize = 64;
/// Bytes of a page in memory for each client.
const PIECE: usize = 32 * 1024;
/// Maximum time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of an answer that the system takes for a client.
const SEND_BUFFER: u32 = 64 * 1024;
/// Simultaneous requests of a connection.
const STREAMS: u32 = 16;
/// First bytes of a connection with HTTP/2.
const PREFACE: &[u8] = b"PRI";
/// Maximum number of threads that wait for files.
const BLOCKING: usize = 128;

/// Settings of an intake.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The dataset.
    pub place: String,
    /// File of the dataset's secret; `None`: the file next to its folder.
    pub secret: Option<PathBuf>,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Folder of the log.
    pub log: PathBuf,
    /// File of tokens.
    pub tokens: PathBuf,
    /// File of packages by build-id, for profiles from profilers.
    pub build_ids: Option<PathBuf>,
    /// Maximum size of a submission in bytes.
    pub size: usize,
    /// Maximum number of submissions of a submitter per minute.
    pub rate: u32,
    /// Maximum number of simultaneous submissions of a submitter.
    pub at_once: usize,
    /// Maximum time for a request, including its answer.
    pub longest: Duration,
    /// Maximum time until a submission has arrived.
    pub timeout: Duration,
    /// Maximum bytes of submissions that are received at the same time.
    pub memory: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Limits after which segments become partitions.
    pub segments: Segments,
    /// Maintenance of the dataset.
    pub maintenance: Maintenance,
    /// Minimum number of submitters that must have executed a function before a page shows it.
    pub min_submitters: u32,
    /// Folder with the shipped profile of each package, `PACKAGE.gv`.
    pub shipped: Option<PathBuf>,
}

/// State that all requests share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) tokens: TokenFile,
    pub(super) build_ids: PackagesByBuildId,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    pub(super) keeper: Handle,
    pub(super) keys: Keys,
    /// Kibibytes of memory that are left for receiving.
    pub(super) room: Arc<Semaphore>,
    pub(super) buckets: Mutex<HashMap<String, Bucket>>,
    /// Number of submissions that are validated at the same time: the number of processors, because more would only wait and use memory.
    pub(super) validating: Semaphore,
    pages: Arc<Pages>,
    waiting_pages: Semaphore,
}

/// Remaining limits of a submitter.
pub(super) struct Bucket {
    pub(super) left: f64,
    pub(super) at: Instant,
    /// Number of submissions that are being received.
    pub(super) open: usize,
}

/// Serves until the process is asked to end. Calls `ready` with the address.
///
/// # Errors
/// Fails if the dataset, the log, the tokens or the address are not usable.
pub fn serve(settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
    let (keeper, keys) = Keeper::start(
        &settings.place,
        settings.secret.as_deref(),
        &settings.log,
        (settings.segments, settings.maintenance),
        Arc::clone(&metrics),
        Arc::clone(&health),
    )?;
    let served = serve_with(&settings, &keeper, &keys, metrics, health, ready);
    keeper.stop();
    served
}

fn serve_with(
    settings: &Settings,
    keeper: &Keeper,
    keys: &Keys,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let shared = Arc::new(Shared {
        tokens: TokenFile::open(&settings.tokens, keys)?,
        build_ids: PackagesByBuildId::open(settings.build_ids.as_deref())?,
        health,
        keeper: keeper.handle(),
        keys: keys.clone(),
        room: Arc::new(Semaphore::new(settings.memory / 1024)),
        buckets: Mutex::default(),
        validating: Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)),
        pages: Arc::new(Pages::new(
            &settings.place,
            settings.min_submitters,
            settings.shipped.clone(),
            &settings.log.join("published"),
            Arc::clone(&metrics),
        )?),
        waiting_pages: Semaphore::new(WAITING_PAGES),
        metrics,
        settings: settings.clone(),
    });
    // A thread that reads the log of a table waits for files, which other threads read.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build()
        .map_err(|error| io(&error))?;
    runtime.block_on(async {
        let listener = listen(settings.listen);
        let listener = listener.map_err(|error| io(&error).with_input(settings.listen.to_string()))?;
        let ends = Ends::new()?;
        let hang_up = signal(SignalKind::hangup()).map_err(|error| io(&error))?;
        let looking = tokio::spawn(look_at_tokens(Arc::clone(&shared), hang_up));
        ready(listener.local_addr().map_err(|error| io(&error))?);
        accept(&listener, &shared, ends).await;
        looking.abort();
        Ok(())
    })
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Connections inherit it. Otherwise the system would take megabytes for each client that does not read.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Reads the file of tokens again if it was changed, and when the process gets a signal.
async fn look_at_tokens(shared: Arc<Shared>, mut hang_up: Signal) {
    loop {
        tokio::select! {
            _ = hang_up.recv() => {
                shared.tokens.refresh(true, &shared.health);
                match shared.build_ids.refresh() {
                    Ok(()) => shared.health.works(Part::BuildIds),
                    Err(error) => shared.health.fails(Part::BuildIds, &error.to_string()),
                }
            }
            () = tokio::time::sleep(LOOK) => shared.tokens.refresh(false, &shared.health),
        }
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/profiles", post(receive::profile))
        .route("/v1development/profiles", post(receive::otlp))
        .route("/ingest", post(receive::pprof))
        .route(
            "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
            post(receive::otlp_by_grpc),
        )
        .route("/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", post(receive::parca))
        .route("/metrics", get(|State(shared): State<Arc<Shared>>| async move { shared.metrics.text() }))
        .route("/health", get(health))
        .route("/", get(packages))
        .route("/packages/{package}", get(package))
        .route("/packages/{package}/profile.gv", get(profile))
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    let faults = shared.health.faults();
    if faults.is_empty() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, faults).into_response()
    }
}

/// Signals that end an intake; they are handled from its start.
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

/// Accepts connections until a signal, then waits until the open ones end.
async fn accept(listener: &TcpListener, shared: &Arc<Shared>, ends: Ends) {
    let Ends { mut terminate, mut interrupt } = ends;
    let graceful = GracefulShutdown::new();
    let routes = routes(Arc::clone(shared));
    let connections = Arc::new(Connections::new(shared.settings.longest));
    let places = Arc::new(Semaphore::new(shared.settings.connections));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Too many open files; some will be closed when connections end.
                Err(_) => { tokio::time::sleep(Duration::from_millis(50)).await; continue }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        };
        if let Some(place) = place(&places, &connections, &shared.metrics).await {
            let slot = Slot(Arc::clone(&connections), connections.open());
            talk(stream, slot, routes.clone(), shared, &graceful, place);
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(20), graceful.shutdown()).await;
}

/// Waits for a free place for a connection. If there is none, closes a connection that waits for its client.
async fn place(
    places: &Arc<Semaphore>,
    connections: &Connections,
    metrics: &Metrics,
) -> Option<OwnedSemaphorePermit> {
    for _ in 0..10 {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Some(place);
        }
        if connections.make_room() {
            Metrics::count(&metrics.made_room_total);
        }
        let soon = tokio::time::timeout(Duration::from_millis(50), Arc::clone(places).acquire_owned());
        if let Ok(place) = soon.await {
            return place.ok();
        }
    }
    None
}

/// Answers the requests of a connection in a separate task.
fn talk(
    stream: TcpStream,
    slot: Slot,
    routes: Router,
    shared: &Arc<Shared>,
    graceful: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let (connections, connection) = (Arc::clone(&slot.0), Arc::clone(&slot.1));
    let (routes, metrics) = (TowerToHyperService::new(routes), Arc::clone(&shared.metrics));
    let longest = shared.settings.longest;
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let (slot, routes, metrics) = (slot.clone(), routes.clone(), Arc::clone(&metrics));
        request.extensions_mut().insert(slot.clone());
        async move {
            slot.0.asks(&slot.1);
            let made = tokio::time::timeout(longest, routes.call(request)).await;
            slot.0.answered(&slot.1);
            made.unwrap_or_else(|_| {
                Metrics::count(&metrics.refused_late_total);
                Ok(answer(StatusCode::SERVICE_UNAVAILABLE, "the request took too long: try again"))
            })
        }
    });
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 * 1024)
        // Times before 1970 cannot be written in a header.
        .auto_date_header(SystemTime::now() >= UNIX_EPOCH);
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(64 * 1024)
        .auto_date_header(SystemTime::now() >= UNIX_EPOCH);
    let (watcher, metrics) = (graceful.watcher(), Arc::clone(&shared.metrics));
    metrics.connections.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        let answering = async {
            let is_http2 = is_http2(&stream).await?;
            let io = TokioIo::new(connections.watched(stream, &connection));
            // A client that disconnects is not a fault of the server.
            let _ = match is_http2 {
                false => watcher.watch(http1.serve_connection(io, service)).await,
                true => watcher.watch(http2.serve_connection(io, service)).await,
            };
            Some(())
        };
        tokio::select! {
            _ = answering => {}
            () = connections.end_of(&connection) => {}
        }
        connections.close(&connection);
        metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(place);
    });
}

/// Waits for the first bytes of a connection. `None`: there are none.
async fn is_http2(stream: &TcpStream) -> Option<bool> {
    let look = async {
        let mut first = [0; PREFACE.len()];
        loop {
            let length = stream.peek(&mut first).await.ok().filter(|length| *length > 0)?;
            if first.get(..length) != PREFACE.get(..length) || length == PREFACE.len() {
                return Some(first == PREFACE);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HEAD, look).await.ok().flatten()
}

const HTML: &str = "text/html; charset=utf-8";

async fn packages(State(shared): State<Arc<Shared>>) -> Response {
    let list = async { Ok(shared.pages.list().await?.into_response()) };
    page(&shared, list, HTML).await
}

async fn package(State(shared): State<Arc<Shared>>, Segment(package): Segment<String>) -> Response {
    page(&shared, of_file(&shared, &package, "html"), HTML).await
}

async fn profile(State(shared): State<Arc<Shared>>, Segment(package): Segment<String>) -> Response {
    page(&shared, of_file(&shared, &package, "gv"), "text/vnd.graphviz; charset=utf-8").await
}

/// A published file. If a client reads slowly, only one piece of it is in memory.
async fn of_file(shared: &Shared, package: &str, end: &str) -> Result<Response> {
    let path = shared.pages.file(package, end).await?;
    let failed = |error: std::io::Error| io(&error).with_input(path.display().to_string());
    let file = tokio::fs::File::open(&path).await.map_err(failed)?;
    let length = file.metadata().await.map_err(failed)?.len();
    let pieces = Body::from_stream(futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece).await?;
        piece.truncate(length);
        Ok::<_, std::io::Error>((length > 0).then_some((piece, file)))
    }));
    Ok(([(header::CONTENT_LENGTH, length)], pieces).into_response())
}

async fn page(
    shared: &Shared,
    making: impl Future<Output = Result<Response>>,
    kind: &'static str,
) -> Response {
    let Ok(_place) = shared.waiting_pages.try_acquire() else {
        let mut busy = answer(StatusCode::SERVICE_UNAVAILABLE, "too many requests for pages: try again");
        busy.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
        return busy;
    };
    match making.await {
        Ok(made) => {
            shared.health.works(Part::Pages);
            let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, policy),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::REFERRER_POLICY, "no-referrer"),
            ];
            (headers, made).into_response()
        }
        Err(error) if [ErrorCode::EmptyInput, ErrorCode::NotFound].contains(&error.code()) => {
            answer(StatusCode::NOT_FOUND, error.to_string())
        }
        Err(error) => {
            shared.health.fails(Part::Pages, &error.to_string());
            answer(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made")
        }
    }
}

fn io(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::Io, error.to_string())
}
