//! What all clients of a run share, and how they send a request.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tsugite_testkit::http::{Connection, Request, Response};

use crate::fault_log::FaultLog;
use crate::history::{CallKind, CallRecord, FinishedCall, History, Outcome, Trace};

/// What the clients of a run share.
#[derive(Clone)]
pub(crate) struct Run {
    /// The address of nginx.
    pub(crate) address: SocketAddr,
    pub(crate) seed: u64,
    pub(crate) faults: FaultLog,
    pub(crate) history: History,
    /// True when clients begin no more calls.
    pub(crate) is_over: watch::Receiver<bool>,
}

/// What became of a request.
pub(crate) enum Exchange {
    Head(Box<Connection>, Response),
    /// nginx closed the connection without a response.
    Broken,
    /// No response came in time.
    Silent,
}

impl Run {
    /// Sends a request on a connection of its own and reads the head of the response.
    pub(crate) async fn send(&self, request: &Request) -> Exchange {
        let exchange = async {
            let mut connection = Connection::connect(self.address).await;
            connection.write_request(request).await;
            match connection.read_head().await {
                Some(head) => Exchange::Head(Box::new(connection), head),
                None => Exchange::Broken,
            }
        };
        tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await.unwrap_or(Exchange::Silent)
    }

    /// Waits between two calls. Returns early when the run is over.
    pub(crate) async fn pause(&self, time: Duration) {
        let mut is_over = self.is_over.clone();
        let _ = tokio::time::timeout(time, is_over.wait_for(|is_over| *is_over)).await;
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    pub(crate) fn now(&self) -> Duration {
        self.faults.now()
    }
}

/// One call of a client.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) kind: CallKind,
    pub(crate) id: u64,
    /// Names the call; its result repeats it.
    pub(crate) nonce: String,
    pub(crate) began: Duration,
    pub(crate) session_began: Duration,
}

impl Call {
    pub(crate) fn finish(self, run: &Run, outcome: Outcome, trace: &mut Trace) {
        trace.add(run.now(), format!("call {} ({}): {outcome}", self.nonce, self.kind));
        let Self { client, kind, nonce, began, session_began, .. } = self;
        let record = CallRecord { client, kind, outcome, ended: run.now() };
        run.history.record(FinishedCall { nonce, record, began, session_began }, trace);
    }
}

/// The outcome of a call that got an HTTP error, or `None` for 200.
pub(crate) fn status_outcome(head: &Response) -> Option<Outcome> {
    Some(match head.status {
        200 => return None,
        // nginx reached no replica, or lost it.
        502 | 504 => Outcome::Broken,
        503 if head.header("retry-after").is_some() => Outcome::Unavailable,
        404 => Outcome::SessionLost,
        status => Outcome::Unexpected(format!("status {status}")),
    })
}

/// A response for the history of a client. The pages of nginx say no more than their status.
pub(crate) fn describe(head: &Response, body: &str) -> String {
    match head.status {
        502..=504 if body.contains("<html>") => format!("status {} of nginx", head.status),
        status => format!("status {status}: {body:.200}"),
    }
}

/// The outcome of a call from its response message.
pub(crate) fn response_outcome(message: &serde_json::Value, expected: &str) -> Outcome {
    if let Some(error) = message.get("error") {
        return match error.to_string() {
            text if text.contains("may have run") => Outcome::MayHaveRun,
            text => Outcome::Unexpected(format!("error {text}")),
        };
    }
    match message.pointer("/result/content/0/text").and_then(serde_json::Value::as_str) {
        Some(text) if text == expected => Outcome::Result,
        text => Outcome::Unexpected(format!("result {text:?} instead of {expected:?}")),
    }
}

/// How long a response may take to begin, also while a replica is frozen or Redis is away.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a whole call may take, with its questions and resumptions. Longer is a hanging call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(40);
