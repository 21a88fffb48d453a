// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Connections`]: the open connections. If there are too many, the one that waits longest is closed; and no connection lasts for ever.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Milliseconds without a byte after which a connection can be closed to make room.
const WAITING: u64 = 250;

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    begun: Instant,
    /// Maximum time of a connection after the begin of its last request.
    longest: Duration,
    open: Mutex<(u64, HashMap<u64, Arc<Connection>>)>,
}

/// One connection. Times are milliseconds since the intake began.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    /// Time of the last byte.
    moved: AtomicU64,
    /// Time when the last request began, or when the connection was opened.
    asked: AtomicU64,
    /// True while an answer is being made.
    is_working: AtomicBool,
    ended: Notify,
}

impl Connections {
    /// No connections.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        Self { begun: Instant::now(), longest, open: Mutex::default() }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Adds a connection.
    #[must_use]
    pub fn open(&self) -> Arc<Connection> {
        let now = self.now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, all) = &mut *open;
        *number += 1;
        let connection = Arc::new(Connection {
            number: *number,
            moved: AtomicU64::new(now),
            asked: AtomicU64::new(now),
            is_working: AtomicBool::new(false),
            ended: Notify::new(),
        });
        all.insert(*number, Arc::clone(&connection));
        connection
    }

    /// Removes a connection.
    pub fn close(&self, connection: &Connection) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&connection.number);
    }

    /// Closes the connection that has waited longest for its client.
    ///
    /// Returns false if no connection waits.
    pub fn make_room(&self) -> bool {
        let now = self.now();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = open.1.values().filter(|one| !one.is_working.load(Ordering::Relaxed));
        let longest = waiting.min_by_key(|one| one.moved.load(Ordering::Relaxed));
        let longest = longest.filter(|one| one.moved.load(Ordering::Relaxed) + WAITING <= now);
        if let Some(one) = longest {
            // This connection is already closing, so the next call finds another.
            one.moved.store(now, Ordering::Relaxed);
            one.ended.notify_one();
        }
        longest.is_some()
    }

    /// Records that an answer is being made. The last byte of the request may still be on its way.
    pub fn asks(&self, connection: &Connection) {
        connection.asked.store(self.now(), Ordering::Relaxed);
        connection.is_working.store(true, Ordering::Relaxed);
    }

    /// Records that the answer is made.
    pub fn answered(&self, connection: &Connection) {
        connection.moved.store(self.now(), Ordering::Relaxed);
        connection.is_working.store(false, Ordering::Relaxed);
    }

    /// Returns when the connection must be closed, to make room or because its request takes too long.
    pub async fn end_of(&self, connection: &Connection) {
        loop {
            let asked = Duration::from_millis(connection.asked.load(Ordering::Relaxed));
            let left = (asked + self.longest).saturating_sub(self.begun.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = connection.ended.notified() => return,
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// A stream that reports transferred bytes.
    pub fn watched<S>(self: &Arc<Self>, stream: S, connection: &Arc<Connection>) -> Watched<S> {
        Watched { stream, connections: Arc::clone(self), connection: Arc::clone(connection) }
    }
}

/// A connection from the view of its requests.
#[derive(Debug, Clone)]
pub struct Slot(pub Arc<Connections>, pub Arc<Connection>);

impl Slot {
    /// Records that the connection waits for its client, for example for the rest of a body.
    pub fn waits(&self) {
        self.0.answered(&self.1);
    }

    /// Records that the connection does not wait for its client.
    pub fn works(&self) {
        self.1.is_working.store(true, Ordering::Relaxed);
    }
}

/// The stream of a connection.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl<S> Watched<S> {
    fn moved<T>(&self, done: &Poll<io::Result<T>>) {
        if matches!(done, Poll::Ready(Ok(_))) {
            self.connection.moved.store(self.connections.now(), Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved(&done);
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(&done);
        done
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.moved(&done);
        done
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
