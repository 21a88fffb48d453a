// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Connections`]: the open connections. If there are too many, the one that has waited longest for its client is closed; and no connection lasts for
//! ever.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time without progress of its client after which a connection can be closed to make room.
const WAITING: Duration = Duration::from_millis(250);

/// All open connections.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    /// Time since which it has waited for its client; `None` while an answer is being made.
    waits_since: Option<Instant>,
    /// Time at which it is closed.
    ends: Instant,
}

impl Connections {
    /// Adds a connection, which ends after a time without a request.
    pub(super) fn open(&self, longest: Duration) -> Arc<Connection> {
        let now = Instant::now();
        let state = Mutex::new(State { waits_since: Some(now), ends: now + longest });
        let connection = Arc::new(Connection { state, ended: Notify::new() });
        self.0.lock().push(Arc::clone(&connection));
        connection
    }

    pub(super) fn close(&self, connection: &Arc<Connection>) {
        self.0.lock().retain(|open| !Arc::ptr_eq(open, connection));
    }

    /// Closes the connection that has waited longest for its client. Returns false if no connection waits.
    pub(super) fn make_room(&self) -> bool {
        let all = self.0.lock();
        let waiting = all.iter().filter_map(|one| Some((one.state.lock().waits_since?, one)));
        let longest = waiting.min_by_key(|(since, _)| *since).filter(|(since, _)| since.elapsed() >= WAITING);
        if let Some((_, one)) = longest {
            // This connection is already closing, so the next call finds another.
            one.waits();
            one.ended.notify_one();
        }
        longest.is_some()
    }
}

impl Connection {
    /// Records a request, whose answer must be complete after a time.
    pub(super) fn asks(&self, longest: Duration) {
        *self.state.lock() = State { waits_since: None, ends: Instant::now() + longest };
    }

    /// Records that the connection waits for its client, for example for the rest of a body, or to read the next part of an answer.
    pub(super) fn waits(&self) {
        self.state.lock().waits_since = Some(Instant::now());
    }

    /// Records that the connection does not wait for its client.
    pub(super) fn works(&self) {
        self.state.lock().waits_since = None;
    }

    /// Returns when the connection must be closed, to make room or because its request takes too long.
    pub(super) async fn end(&self) {
        loop {
            let ends = self.state.lock().ends;
            if ends <= Instant::now() {
                return;
            }
            tokio::select! {
                () = self.ended.notified() => return,
                () = tokio::time::sleep_until(ends.into()) => {}
            }
        }
    }
}
