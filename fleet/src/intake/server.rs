// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server: connections, their limits, and pages. [`super::receive`] handles submissions. A proxy provides TLS.

use super::connections::{Connection, Connections};
use super::health::{Health, Part};
use super::keeper::{Handle, Keeper};
use super::log;
use super::metrics::Metrics;
use super::page::Pages;
use super::push::PackagesByBuildId;
use super::receive::{BodyFormat, answer, receive};
use super::tokens::TokenFile;
use crate::day::since_1970;
use crate::errors::ErrorContext as _;
use crate::query::engine::processors;
use crate::secret::Keys;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path as Segment, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures::StreamExt as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::io::ReaderStream;

/// Time between checks of the file of tokens.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of requests that wait for pages.
const WAITING_PAGES: usize = 64;
/// Bytes of a page in memory for each client.
const PIECE: usize = 32 * 1024;
/// Maximum time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Bytes of an answer that the system, and that the server, takes for a client.
const SEND_BUFFER: usize = 64 * 1024;
/// Simultaneous requests of a connection.
const STREAMS: u32 = 16;
/// First bytes of a connection with HTTP/2.
const PREFACE: &[u8] = b"PRI";
/// Maximum number of threads that wait for files.
const BLOCKING: usize = 128;

/// Settings of an intake.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Settings {
    /// Folder, or s3://BUCKET/PREFIX; made if it does not exist
    pub(super) dataset: String,
    /// File of tokens, written by `token`
    #[arg(long, value_name = "FILE")]
    tokens: PathBuf,
    /// File of the secret for keys of submitters; made with the dataset [default: DATASET.secret]
    #[arg(long, value_name = "FILE")]
    pub(super) secret: Option<PathBuf>,
    /// Address to listen on; use a proxy for TLS
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8440")]
    listen: SocketAddr,
    /// Folder of the log, on a disk of this machine [default: the folder log of the dataset]
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// File of packages for profiles from profilers, one on each line: build-id, tab, NAME-VERSION-RELEASE [default: service.name and service.version]
    #[arg(long, value_name = "FILE")]
    build_ids: Option<PathBuf>,
    /// Maximum size of a submission, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 16 * 1024)]
    pub(super) max_size: usize,
    /// Maximum number of submissions of a submitter per minute
    #[arg(long, value_name = "COUNT", default_value_t = 600)]
    pub(super) rate: u32,
    /// Maximum number of simultaneous submissions of a submitter
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pub(super) at_once: usize,
    /// Maximum seconds for a request, including its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout: u64,
    /// Maximum seconds until a submission has arrived
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    receive_timeout: u64,
    /// Memory for submissions during their receipt, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 48)]
    memory: usize,
    /// Maximum number of connections
    #[arg(long, value_name = "COUNT", default_value_t = 512)]
    connections: usize,
    /// Maximum seconds until received submissions are in the dataset
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) every: u64,
    /// Seconds between combinations of small files and removals of old files; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(super) maintain_every: u64,
    /// Hours for which files of earlier snapshots are kept
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub(super) retention: u32,
    /// Show functions on pages, and in downloaded profiles, only if at least this number of submitters executed them
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(super) min_submitters: u32,
    /// Folder of shipped profiles, PACKAGE.gv, for comparisons on pages [default: none]
    #[arg(long, value_name = "DIR")]
    pub(super) shipped: Option<PathBuf>,
}

impl Settings {
    pub(super) fn receive_timeout(&self) -> Duration {
        Duration::from_secs(self.receive_timeout)
    }
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
    connections: Connections,
    /// Maximum time of a request.
    longest: Duration,
}

/// Remaining limits of a submitter.
pub(super) struct Bucket {
    pub(super) left: f64,
    pub(super) at: Instant,
    /// Number of submissions that are being received.
    pub(super) open: usize,
}

/// Serves until the process is asked to end. Calls `ready` with the address.
pub(crate) fn serve(settings: &Settings, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let log = settings.log.clone().or_else(|| log::folder_of(&settings.dataset)).ok_or_else(|| {
        Error::new(ErrorCode::Usage, "a dataset in an object store needs a folder for the log")
            .with_hint("--log DIR, on a disk of this machine")
    })?;
    let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
    let (keeper, keys) = Keeper::start(settings, &log, Arc::clone(&metrics), Arc::clone(&health))?;
    let shared = || {
        Ok(Shared {
            tokens: TokenFile::open(&settings.tokens, &keys)?,
            build_ids: PackagesByBuildId::open(settings.build_ids.as_deref())?,
            health,
            keeper: keeper.handle(),
            keys,
            room: Arc::new(Semaphore::new(settings.memory << 10)),
            buckets: Mutex::default(),
            validating: Semaphore::new(processors()),
            pages: Arc::new(Pages::new(settings, &log.join("published"), Arc::clone(&metrics))?),
            waiting_pages: Semaphore::new(WAITING_PAGES),
            connections: Connections::default(),
            longest: Duration::from_secs(settings.request_timeout),
            metrics,
            settings: settings.clone(),
        })
    };
    let served = shared().and_then(|shared| serve_with(Arc::new(shared), ready));
    keeper.stop();
    served
}

fn serve_with(shared: Arc<Shared>, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    // A thread that reads the log of a table waits for files, which other threads read.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().max_blocking_threads(BLOCKING).enable_all().build();
    runtime.io()?.block_on(async {
        let address = shared.settings.listen;
        let listener = listen(address).io().map_err(|error| error.with_input(address.to_string()))?;
        // Signals are handled from here on.
        let ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [terminate, interrupt] = ends;
        let ends = (terminate.io()?, interrupt.io()?);
        let looking = tokio::spawn(look_at_tokens(Arc::clone(&shared), signal(SignalKind::hangup()).io()?));
        ready(listener.local_addr().io()?);
        accept(&listener, &shared, ends).await;
        looking.abort();
        Ok(())
    })
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    // Connections inherit it. Otherwise the system would take megabytes for each client that does not read.
    socket.set_send_buffer_size(SEND_BUFFER as u32)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Reads the file of tokens again if it was changed, and when the process gets a signal.
async fn look_at_tokens(shared: Arc<Shared>, mut hang_up: Signal) {
    loop {
        tokio::select! {
            _ = hang_up.recv() => {
                shared.tokens.refresh(&shared.health);
                shared.health.is(Part::BuildIds, shared.build_ids.refresh());
            }
            () = tokio::time::sleep(LOOK) => shared.tokens.refresh(&shared.health),
        }
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    type Shares = State<Arc<Shared>>;
    let takes = |form| post(move |State(shared): Shares, request: Request| receive(shared, request, form));
    Router::new()
        .route("/v1/profiles", takes(BodyFormat::Profile))
        .route("/v1development/profiles", takes(BodyFormat::Otlp))
        .route("/ingest", takes(BodyFormat::Pprof))
        .route(
            "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
            takes(BodyFormat::Otlp),
        )
        .route("/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", takes(BodyFormat::Parca))
        .route("/metrics", get(|State(shared): Shares| async move { shared.metrics.text() }))
        .route("/health", get(health))
        .route("/", get(packages))
        .route("/packages/{package}", get(package))
        .route("/packages/{package}/profile.gv", get(profile))
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    match shared.health.faults() {
        faults if faults.is_empty() => "ok\n".into_response(),
        faults => (StatusCode::SERVICE_UNAVAILABLE, faults).into_response(),
    }
}

/// Accepts connections until a signal, then waits until the open ones end.
async fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    (mut terminate, mut interrupt): (Signal, Signal),
) {
    let graceful = GracefulShutdown::new();
    let routes = routes(Arc::clone(shared));
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
        if let Some(place) = place(&places, shared).await {
            talk(stream, routes.clone(), shared, &graceful, place);
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(20), graceful.shutdown()).await;
}

/// Waits for a free place for a connection. If there is none, closes a connection that waits for its client.
async fn place(places: &Arc<Semaphore>, shared: &Shared) -> Option<OwnedSemaphorePermit> {
    for _ in 0..10 {
        if places.available_permits() == 0 && shared.connections.make_room() {
            Metrics::count(&shared.metrics.made_room_total);
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
    routes: Router,
    shared: &Arc<Shared>,
    graceful: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let (shared, routes) = (Arc::clone(shared), TowerToHyperService::new(routes));
    let connection = shared.connections.open(shared.longest);
    let service = service_fn({
        let (shared, connection) = (Arc::clone(&shared), Arc::clone(&connection));
        move |mut request: hyper::Request<Incoming>| {
            let (shared, connection, routes) = (Arc::clone(&shared), Arc::clone(&connection), routes.clone());
            request.extensions_mut().insert(Arc::clone(&connection));
            async move {
                connection.asks(shared.longest);
                let made = tokio::time::timeout(shared.longest, routes.call(request)).await;
                connection.waits();
                made.unwrap_or_else(|_| {
                    Metrics::count(&shared.metrics.refused_late_total);
                    Ok(answer(StatusCode::SERVICE_UNAVAILABLE, "the request took too long: try again"))
                })
            }
        }
    });
    // Times before 1970 cannot be written in a header.
    let has_date = !since_1970().is_zero();
    let (mut http1, mut http2) = (http1::Builder::new(), http2::Builder::new(TokioExecutor::new()));
    http1.timer(TokioTimer::new()).header_read_timeout(HEAD);
    http1.max_buf_size(SEND_BUFFER).auto_date_header(has_date);
    http2.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    http2.max_send_buf_size(SEND_BUFFER).auto_date_header(has_date);
    let watcher = graceful.watcher();
    shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        let answering = async {
            let is_http2 = is_http2(&stream).await?;
            let io = TokioIo::new(stream);
            // A client that disconnects is not a fault of the server.
            let _ = match is_http2 {
                false => watcher.watch(http1.serve_connection(io, service)).await,
                true => watcher.watch(http2.serve_connection(io, service)).await,
            };
            Some(())
        };
        tokio::select! {
            _ = answering => {}
            () = connection.end() => {}
        }
        shared.connections.close(&connection);
        shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
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

async fn package(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Arc<Connection>>,
    Segment(package): Segment<String>,
) -> Response {
    page(&shared, of_file(&shared, connection, &package, "html"), HTML).await
}

async fn profile(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Arc<Connection>>,
    Segment(package): Segment<String>,
) -> Response {
    page(&shared, of_file(&shared, connection, &package, "gv"), "text/vnd.graphviz; charset=utf-8").await
}

/// A published file. If a client reads slowly, only one piece of it is in memory.
async fn of_file(shared: &Shared, connection: Arc<Connection>, package: &str, end: &str) -> Result<Response> {
    let path = shared.pages.file(package, end).await?;
    let file = tokio::fs::File::open(&path).await.at(&path)?;
    let length = file.metadata().await.at(&path)?.len();
    let pieces = ReaderStream::with_capacity(file, PIECE).inspect(move |_| connection.waits());
    Ok(([(header::CONTENT_LENGTH, length)], Body::from_stream(pieces)).into_response())
}

async fn page(
    shared: &Shared,
    making: impl Future<Output = Result<Response>>,
    kind: &'static str,
) -> Response {
    let Ok(_place) = shared.waiting_pages.try_acquire() else {
        let busy = answer(StatusCode::SERVICE_UNAVAILABLE, "too many requests for pages: try again");
        return ([(header::RETRY_AFTER, "5")], busy).into_response();
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
