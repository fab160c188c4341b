//! Connections to one server, used again and again. Each carries one request at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::address::Origin;
use super::body::Whole;
use super::dial::{Dialled, dial};
use super::tls::Tls;
use crate::client::link::Trouble;
use crate::lock::lock;

/// The connections to one server.
pub(super) struct Pool {
    origin: Origin,
    tls: Option<Tls>,
    limit: Duration,
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    sender: SendRequest<Whole>,
    task: AbortHandle,
    since: Instant,
}

/// A connection in use. Dropping it closes the connection, which on 2026-07-28 is how a call is cancelled.
pub(super) struct Lease {
    sender: Option<SendRequest<Whole>>,
    task: AbortHandle,
    idle: Arc<Mutex<Vec<Idle>>>,
}

impl Pool {
    pub(super) fn new(origin: Origin, tls: Option<Tls>, limit: Duration) -> Self {
        Self { origin, tls, limit, idle: Arc::default() }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// A connection that was closed meanwhile is no reason to fail: what was not sent is sent over a new one.
    pub(super) async fn send(&self, request: Request<Whole>) -> Result<(Response<Incoming>, Lease), Trouble> {
        let mut request = request;
        while let Some(mut lease) = self.take() {
            match lease.send(request).await {
                Ok(response) => return Ok((response, lease)),
                Err(Unsent::Back(unsent)) => request = *unsent,
                Err(Unsent::Gone(error)) => return Err(lost(&error)),
            }
        }
        let dialled = Box::pin(dial(&self.origin, self.tls.as_ref(), self.limit)).await?;
        let Dialled { sender, task } = dialled;
        let mut lease = Lease { sender: Some(sender), task, idle: Arc::clone(&self.idle) };
        match lease.send(request).await {
            Ok(response) => Ok((response, lease)),
            Err(Unsent::Back(_)) => Err(Trouble::not_run("the server closed the connection")),
            Err(Unsent::Gone(error)) => Err(lost(&error)),
        }
    }

    /// Closes what is not in use.
    pub(super) fn close(&self) {
        for idle in lock(&self.idle).drain(..) {
            idle.task.abort();
        }
    }

    fn take(&self) -> Option<Lease> {
        let mut all = lock(&self.idle);
        while let Some(idle) = all.pop() {
            if idle.since.elapsed() < IDLE && !idle.sender.is_closed() {
                let lease =
                    Lease { sender: Some(idle.sender), task: idle.task, idle: Arc::clone(&self.idle) };
                return Some(lease);
            }
            idle.task.abort();
        }
        None
    }
}

enum Unsent {
    /// Nothing of it was sent.
    Back(Box<Request<Whole>>),
    /// It may have arrived.
    Gone(hyper::Error),
}

impl Lease {
    async fn send(&mut self, request: Request<Whole>) -> Result<Response<Incoming>, Unsent> {
        let Some(sender) = &mut self.sender else { return Err(Unsent::Back(Box::new(request))) };
        if sender.ready().await.is_err() {
            return Err(Unsent::Back(Box::new(request)));
        }
        sender.try_send_request(request).await.map_err(|mut error| match error.take_message() {
            Some(request) => Unsent::Back(Box::new(request)),
            None => Unsent::Gone(error.into_error()),
        })
    }

    /// The answer was read to its end: the connection may serve the next request.
    pub(super) fn done(mut self) {
        let Some(sender) = self.sender.take() else { return };
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT && !sender.is_closed() {
            idle.push(Idle { sender, task: self.task.clone(), since: Instant::now() });
        } else {
            self.task.abort();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.task.abort();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

fn lost(error: &hyper::Error) -> Trouble {
    Trouble::lost(format!("the connection was lost: {error}"))
}

/// Connections that are kept open without use.
const KEPT: usize = 64;
/// How long they are.
const IDLE: Duration = Duration::from_secs(60);
