//! A server for one revision, over pipes or HTTP.
//!
//! It records every message that the revision does not allow as a fault and rejects it. The test can read its records.
//!
//! - `pipe`, `http` and `posts`: the transports. `connection`: one connection. `actions`: the actions of the tool.

mod actions;
mod connection;
mod http;
mod pipe;
mod posts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::message::{Message, Rev, Transport};
use connection::Connection;

/// A server, until it is dropped.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    transport: Transport,
    address: std::net::SocketAddr,
    accepting: JoinHandle<()>,
}

/// The state shared by all connections.
pub(crate) struct Shared {
    pub(crate) rev: Rev,
    state: Mutex<State>,
    /// The number of notes.
    noted: watch::Sender<u64>,
    /// Bytes written to pipes.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    last_number: usize,
    connections: Vec<Arc<Connection>>,
    listens: Vec<Listen>,
    notes: Vec<(String, String)>,
    faults: Vec<(Option<String>, String)>,
    log: Vec<String>,
}

/// A subscription of 2026-07-28.
struct Listen {
    connection: usize,
    id: Value,
    filter: Value,
    out: Arc<dyn Out>,
}

/// The output for messages.
pub(crate) trait Out: Send + Sync {
    /// Sends a message before the response.
    fn send(&self, text: &str);
    /// Sends the response, which is the last message.
    fn answer(&self, text: &str);
}

impl Server {
    pub(crate) async fn start(rev: Rev, transport: Transport) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            rev,
            state: Mutex::default(),
            noted: watch::Sender::new(0),
            written: watch::Sender::new(0),
        });
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            let posts = Arc::new(posts::Posts::new(Arc::clone(&shared)));
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    socket.set_nodelay(true).unwrap();
                    match transport {
                        Transport::Stdio => drop(tokio::spawn(pipe::serve(socket, Arc::clone(&shared)))),
                        Transport::Http => drop(tokio::spawn(http::serve(socket, Arc::clone(&posts)))),
                    }
                }
            }
        });
        Self { shared, transport, address, accepting }
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        let path = if self.shared.rev == Rev::Nov24 { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.address)
    }

    /// Returns the target words for `tsugite bridge`.
    pub(crate) fn target(&self) -> Vec<String> {
        match self.transport {
            Transport::Http => vec![self.url()],
            Transport::Stdio => {
                let this = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
                vec!["--".to_owned(), this, crate::harness::RELAY.to_owned(), self.address.to_string()]
            }
        }
    }

    /// Waits until an event of a cell was noted.
    pub(crate) async fn noted(&self, cell: &str, event: &str) -> Result<(), String> {
        let is_it = |(of, noted): &(String, String)| of == cell && noted == event;
        let mut standalone = self.shared.noted.subscribe();
        let noted = async {
            while !self.shared.state().notes.iter().any(is_it) {
                standalone.changed().await.map_err(|_| "the server is gone")?;
            }
            Ok::<(), String>(())
        };
        match tokio::time::timeout(LONG, noted).await {
            Ok(noted) => noted,
            Err(_) => Err(format!("the server never noted `{event}`")),
        }
    }

    /// Returns the events of a cell.
    pub(crate) fn notes(&self, cell: &str) -> Vec<String> {
        let state = self.shared.state();
        state.notes.iter().filter(|(of, _)| of == cell).map(|(_, event)| event.clone()).collect()
    }

    /// Returns the faults, each with its cell if that is known.
    pub(crate) fn faults(&self) -> Vec<(Option<String>, String)> {
        self.shared.state().faults.clone()
    }

    /// Returns the number of connections: processes or sessions.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state().connections.len()
    }

    /// Waits for this number of connections.
    pub(crate) async fn has_connections(&self, count: usize) -> Result<(), String> {
        let mut standalone = self.shared.noted.subscribe();
        let settled = async {
            while self.connections() != count {
                if standalone.changed().await.is_err() {
                    return;
                }
            }
        };
        let settled = tokio::time::timeout(LONG, settled).await;
        settled.map_err(|_| format!("{} connections, expected {count}\n{}", self.connections(), self.log(12)))
    }

    /// Waits until all bytes are written or writing stalls, and returns the number of bytes written.
    pub(crate) async fn stalled(&self, all: u64) -> u64 {
        let mut written = self.shared.written.subscribe();
        while *written.borrow_and_update() < all {
            // A reader that has stopped can only be detected by a timeout.
            if !matches!(tokio::time::timeout(SILENCE, written.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        *written.borrow()
    }

    /// The last messages, in both directions.
    pub(crate) fn log(&self, lines: usize) -> String {
        let state = self.shared.state();
        let from = state.log.len().saturating_sub(lines);
        state.log[from..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, cell: &str, event: &str) {
        self.state().notes.push((cell.to_owned(), event.to_owned()));
        self.noted.send_modify(|count| *count += 1);
    }

    fn fault(&self, message: Option<&Message>, fault: &str) {
        let cell = message.and_then(cell_of);
        self.state().faults.push((cell, fault.to_owned()));
        self.noted.send_modify(|count| *count += 1);
    }

    fn log(&self, line: String) {
        self.state().log.push(line);
    }

    fn join(self: &Arc<Self>, standalone: Arc<dyn Out>) -> Arc<Connection> {
        let mut state = self.state();
        state.last_number += 1;
        let connection = Arc::new(Connection::new(state.last_number, Arc::clone(self), standalone));
        state.connections.push(Arc::clone(&connection));
        connection
    }

    /// Returns the connection of a single request.
    fn alone(self: &Arc<Self>, standalone: Arc<dyn Out>) -> Arc<Connection> {
        let mut state = self.state();
        state.last_number += 1;
        Arc::new(Connection::new(state.last_number, Arc::clone(self), standalone))
    }

    fn leave(&self, connection: &Connection) {
        let mut state = self.state();
        state.connections.retain(|other| other.number() != connection.number());
        drop(state);
        self.unlisten(|listen| listen.connection == connection.number());
        connection.end();
        self.noted.send_modify(|count| *count += 1);
    }

    /// Ends subscriptions.
    fn unlisten(&self, ends: impl Fn(&Listen) -> bool) {
        let ended: Vec<_> = self.state().listens.extract_if(.., |listen| ends(listen)).collect();
        for listen in ended {
            self.note(&listen.filter.to_string(), "no longer listens");
        }
    }

    /// Notifies all subscribers that the tools have changed.
    fn notify_change(&self, cell: &str) {
        let wants = |filter: &Value| filter["toolsListChanged"] == true;
        let params = json!({"_meta": {"com.example/cell": cell}});
        self.notify("notifications/tools/list_changed", params, wants, |_| true);
    }

    /// Notifies all subscribers that a resource has changed.
    fn notify_update(&self, uri: &str, cell: &str) {
        let wants = |filter: &Value| {
            filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&json!(uri)))
        };
        let params = json!({"uri": uri, "x-unknown": [uri], "_meta": {"com.example/cell": cell}});
        self.notify("notifications/resources/updated", params, wants, |connection| connection.watches(uri));
    }

    fn notify(
        &self,
        method: &str,
        mut params: Value,
        wants: impl Fn(&Value) -> bool,
        watches: impl Fn(&Connection) -> bool,
    ) {
        let state = self.state();
        if self.rev.is_stateless() {
            for listen in state.listens.iter().filter(|listen| wants(&listen.filter)) {
                params["_meta"]["io.modelcontextprotocol/subscriptionId"] = listen.id.clone();
                listen.out.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
            }
            return;
        }
        for connection in
            state.connections.iter().filter(|connection| connection.is_ready() && watches(connection))
        {
            connection
                .standalone()
                .send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
        }
    }
}

/// Returns the cell of a call.
fn cell_of(message: &Message) -> Option<String> {
    message.value.pointer("/params/arguments/cell")?.as_str().map(str::to_owned)
}

/// After this long without a read, the reader is considered stopped.
const SILENCE: Duration = Duration::from_millis(500);
/// The time limit of every wait.
pub(crate) const LONG: Duration = Duration::from_secs(20);
