//! A pool of connections to one server. Each carries one request at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::address::ServerOrigin;
use super::connector::{NewConnection, connect};
use super::full_body::FullBody;
use super::tls::Tls;
use crate::client::call_error::CallError;
use crate::lock::lock;

/// The connections to one server.
pub(super) struct ConnectionPool {
    origin: ServerOrigin,
    tls: Option<Tls>,
    connect_timeout: Duration,
    idle: Arc<Mutex<Vec<IdleConnection>>>,
}

struct IdleConnection {
    sender: SendRequest<FullBody>,
    task: AbortHandle,
    since: Instant,
}

/// A connection in use. Dropping it closes the connection, which on 2026-07-28 is how a call is cancelled.
pub(super) struct PooledConnection {
    sender: Option<SendRequest<FullBody>>,
    task: AbortHandle,
    idle: Arc<Mutex<Vec<IdleConnection>>>,
}

impl ConnectionPool {
    pub(super) fn new(origin: ServerOrigin, tls: Option<Tls>, connect_timeout: Duration) -> Self {
        Self { origin, tls, connect_timeout, idle: Arc::default() }
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// If the server closed an idle connection, the request is sent on a new one.
    pub(super) async fn send(
        &self,
        request: Request<FullBody>,
    ) -> Result<(Response<Incoming>, PooledConnection), CallError> {
        let mut request = request;
        while let Some(mut connection) = self.take_idle() {
            match connection.send(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(RequestSendError::NotSent(unsent)) => request = *unsent,
                Err(RequestSendError::MaybeSent(error)) => return Err(connection_lost(&error)),
            }
        }
        let opened = Box::pin(connect(&self.origin, self.tls.as_ref(), self.connect_timeout)).await?;
        let NewConnection { sender, task } = opened;
        let mut connection = PooledConnection { sender: Some(sender), task, idle: Arc::clone(&self.idle) };
        match connection.send(request).await {
            Ok(response) => Ok((response, connection)),
            Err(RequestSendError::NotSent(_)) => Err(CallError::not_sent("the server closed the connection")),
            Err(RequestSendError::MaybeSent(error)) => Err(connection_lost(&error)),
        }
    }

    /// Closes all idle connections.
    pub(super) fn close(&self) {
        for idle in lock(&self.idle).drain(..) {
            idle.task.abort();
        }
    }

    fn take_idle(&self) -> Option<PooledConnection> {
        let mut all = lock(&self.idle);
        while let Some(idle) = all.pop() {
            if idle.since.elapsed() < IDLE_TIMEOUT && !idle.sender.is_closed() {
                let connection = PooledConnection {
                    sender: Some(idle.sender),
                    task: idle.task,
                    idle: Arc::clone(&self.idle),
                };
                return Some(connection);
            }
            idle.task.abort();
        }
        None
    }
}

enum RequestSendError {
    /// Nothing was sent.
    NotSent(Box<Request<FullBody>>),
    /// The request may have reached the server.
    MaybeSent(hyper::Error),
}

impl PooledConnection {
    async fn send(&mut self, request: Request<FullBody>) -> Result<Response<Incoming>, RequestSendError> {
        let Some(sender) = &mut self.sender else { return Err(RequestSendError::NotSent(Box::new(request))) };
        if sender.ready().await.is_err() {
            return Err(RequestSendError::NotSent(Box::new(request)));
        }
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => RequestSendError::NotSent(Box::new(request)),
            None => RequestSendError::MaybeSent(error.into_error()),
        })
    }

    /// Returns the connection to the pool, after the response was read to its end.
    pub(super) fn release(mut self) {
        let Some(sender) = self.sender.take() else { return };
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE && !sender.is_closed() {
            idle.push(IdleConnection { sender, task: self.task.clone(), since: Instant::now() });
        } else {
            self.task.abort();
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.task.abort();
        }
    }
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        self.close();
    }
}

fn connection_lost(error: &hyper::Error) -> CallError {
    CallError::disconnected(format!("the connection was lost: {error}"))
}

/// The number of idle connections that are kept open.
const MAX_IDLE: usize = 64;
/// How long an idle connection is kept open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
