//! A caller that takes as much of a server as it is given: it holds calls that never end until the server refuses one,
//! and calls `echo` on many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinSet};

use crate::bare_hyper::REQUEST_META_JSON;
use crate::load::http_clients::{
    ServerAddress, SocketConnection, call_body, check_response, stateless_headers,
};
use crate::{BoxError, Era};

pub(super) struct HeavyCaller {
    held: HeldCalls,
    /// One task for each connection. Each returns the number of its calls.
    lanes: JoinSet<Result<usize, BoxError>>,
    stop: Arc<AtomicBool>,
    since: Instant,
}

impl HeavyCaller {
    /// Returns when it holds all the calls it can, with the calls of `echo` under way.
    pub(super) async fn start(at: &ServerAddress) -> Result<Self, BoxError> {
        let mut held = HeldCalls::open(at).await?;
        let mut connection = SocketConnection::open(at).await?;
        held.make_room(&mut connection, at).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut lanes = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let connection = SocketConnection::open(at).await?;
            lanes.spawn(echo_until(stop.clone(), connection, at.path.clone()));
        }
        Ok(Self { held, lanes, stop, since: Instant::now() })
    }

    /// Ends all its calls. Returns how many it held, and its calls of `echo` per second.
    pub(super) async fn end(mut self) -> Result<(usize, f64), BoxError> {
        let held = self.held.count();
        self.stop.store(true, Ordering::Relaxed);
        let mut calls = 0;
        while let Some(lane) = self.lanes.join_next().await {
            calls += lane??;
        }
        let rate = calls as f64 / self.since.elapsed().as_secs_f64();
        self.held.tasks.shutdown().await;
        Ok((held, rate))
    }
}

async fn echo_until(
    stop: Arc<AtomicBool>,
    mut connection: SocketConnection,
    path: String,
) -> Result<usize, BoxError> {
    let headers = stateless_headers("echo");
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        let response = connection.post(&path, &headers, &call_body(calls, Era::Stateless)?).await?;
        check_response(response.message()?, calls)?;
        calls += 1;
    }
    Ok(calls)
}

/// Calls of a tool that waits, each on a connection of its own.
struct HeldCalls {
    tasks: JoinSet<()>,
    /// What ends these tasks, for those not given up.
    handles: Vec<AbortHandle>,
    /// The calls that have ended, all of them refused.
    refused: Arc<AtomicUsize>,
}

impl HeldCalls {
    /// Makes calls until the server refuses one.
    async fn open(at: &ServerAddress) -> Result<Self, BoxError> {
        let mut held = Self { tasks: JoinSet::new(), handles: Vec::new(), refused: Arc::default() };
        let headers: Arc<str> = stateless_headers("wait").into();
        let body: Arc<str> = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"wait","arguments":{{}},"_meta":{REQUEST_META_JSON}}}}}"#
        )
        .into();
        while held.refused.load(Ordering::Relaxed) == 0 {
            if held.handles.len() == MAX_HELD {
                return Err(format!("the server refused none of {MAX_HELD} calls").into());
            }
            let mut connection = SocketConnection::open(at).await?;
            let (path, headers, body) = (at.path.clone(), headers.clone(), body.clone());
            let refused = held.refused.clone();
            held.handles.push(held.tasks.spawn(async move {
                // Over the limit of calls it is refused with 429, over that of connections it is closed.
                let _ = connection.exchange(&path, &headers, body.as_bytes()).await;
                refused.fetch_add(1, Ordering::Relaxed);
            }));
        }
        Ok(held)
    }

    /// Gives up calls until the server accepts others. From a caller that holds all it may, it refuses every call, so
    /// that `echo` would cost it next to nothing.
    async fn make_room(
        &mut self,
        connection: &mut SocketConnection,
        at: &ServerAddress,
    ) -> Result<(), BoxError> {
        let headers = stateless_headers("echo");
        for _ in 0..MAX_TRIES {
            // The oldest calls are surely held; the last ones may still be on their way.
            self.handles.drain(..GIVEN_UP.min(self.handles.len())).for_each(|call| call.abort());
            tokio::time::sleep(Duration::from_millis(20)).await;
            let response = connection.exchange(&at.path, &headers, &call_body(0, Era::Stateless)?).await?;
            if response.status() != Some(TOO_MANY_REQUESTS) {
                return check_response(response.message()?, 0);
            }
        }
        Err("the server refuses every call".into())
    }

    fn count(&self) -> usize {
        self.handles.len().saturating_sub(self.refused.load(Ordering::Relaxed))
    }
}

/// Connections that call `echo`.
const CONNECTIONS: usize = 16;
/// The calls that are held at most.
const MAX_HELD: usize = 19_000;
/// The calls that are given up at a time.
const GIVEN_UP: usize = 64;
const MAX_TRIES: usize = 100;
const TOO_MANY_REQUESTS: &str = "429";
