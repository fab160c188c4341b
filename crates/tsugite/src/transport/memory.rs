//! The in-memory transport: raw connections to a server in the same process.

use std::collections::VecDeque;
use std::sync::Arc;

use tsugite_core::jsonrpc::LineReader;

use crate::server::connection::ServerConnection;
use crate::server::{Principal, Server};

/// A raw connection to a server in the same process: lines in, lines out.
///
/// Dropping it ends the connection and aborts requests that still run.
///
/// ```
/// use tsugite::prelude::*;
/// use tsugite::transport::memory;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let server = Server::new("quiet", "1.0.0");
/// let mut connection = memory::connect(&server).unwrap();
/// connection.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
/// assert_eq!(connection.next().await, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
/// # }
/// ```
pub struct MemoryConnection {
    connection: Arc<ServerConnection>,
    lines: LineReader,
    ready: VecDeque<String>,
}

/// Connects to a server. Fails if a registration of the server is invalid.
pub fn connect(server: &Server) -> crate::Result<MemoryConnection> {
    connect_with(server, None)
}

/// Connects as an authenticated caller, which handlers and visibility rules see.
pub fn connect_as(server: &Server, principal: Principal) -> crate::Result<MemoryConnection> {
    connect_with(server, Some(principal))
}

fn connect_with(server: &Server, principal: Option<Principal>) -> crate::Result<MemoryConnection> {
    server.check_registrations()?;
    let connection = ServerConnection::new(server, principal);
    Ok(MemoryConnection { connection, lines: LineReader::new(usize::MAX - 1), ready: VecDeque::new() })
}

impl MemoryConnection {
    /// Sends one line to the server. Must be called inside a tokio runtime: a request that is still pending after its first
    /// poll continues there.
    pub fn send(&mut self, line: impl AsRef<[u8]>) {
        self.connection.spawn(self.connection.receive(line.as_ref()));
    }

    /// Closes the sending side: subscription streams end, and questions to the client fail.
    pub fn close(&mut self) {
        self.connection.close();
    }

    /// Waits for the next line from the server.
    pub async fn next(&mut self) -> String {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return line;
            }
            let mut bytes = Vec::new();
            if !self.connection.outbox().take_all(&mut bytes) {
                self.connection.outbox().readable().await;
                continue;
            }
            self.lines.push(&bytes);
            while let Some(line) = self.lines.next_line() {
                self.ready.push_back(String::from_utf8_lossy(line.unwrap_or_default()).into_owned());
            }
        }
    }
}

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        self.connection.abort_all();
    }
}

impl std::fmt::Debug for MemoryConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryConnection").finish_non_exhaustive()
    }
}
