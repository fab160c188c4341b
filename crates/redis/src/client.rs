//! Sends requests over the shared connection, within the timeout of an operation.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Reason};
use crate::reply::Read;
use crate::script::Request;
use crate::settings::Settings;
use crate::shared_connection::SharedConnection;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) settings: Arc<Settings>,
    connection: Arc<SharedConnection>,
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), connection: Arc::default() }
    }

    /// Sends a request once and reads its reply.
    pub(crate) async fn send<T>(
        &self,
        request: &Request,
        read: impl FnOnce(Value) -> Read<T>,
    ) -> Result<T, Error> {
        let timeout = self.settings.timeout;
        let deadline = Instant::now() + timeout;
        let timed_out = |_| self.settings.timeout_error();
        let connection = timeout_at(deadline, self.connection.get(&self.settings)).await;
        let mut connection = connection.map_err(timed_out)??;
        let sent_at = Instant::now();
        let reply = timeout_at(deadline, connection.send(request, &self.settings)).await;
        // The connection may be new, and then the rest of the time says nothing about it.
        if reply.is_err() && sent_at.elapsed() >= timeout / 2 {
            connection.abandon();
        }
        self.read(reply.map_err(timed_out)??, read)
    }

    /// Fails at once if the server is known to be down.
    pub(crate) async fn require_connection(&self) -> Result<(), Error> {
        let deadline = Instant::now() + self.settings.timeout;
        let connection = timeout_at(deadline, self.connection.get(&self.settings)).await;
        connection.map_err(|_| self.settings.timeout_error())?.map(drop)
    }

    pub(crate) fn read<T>(&self, reply: Value, read: impl FnOnce(Value) -> Read<T>) -> Result<T, Error> {
        read(reply).map_err(|_| self.settings.error(Reason::UnexpectedReply))
    }
}
