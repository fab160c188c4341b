//! The response to a POST: JSON, an event stream, or empty, with the session that it opens.

use std::future::poll_fn;
use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode};
use tsugite_core::revision::Revision;
use tsugite_core::session::http::status_for_code;

use super::exchange::{Exchange, Outcome};
use super::http_state::HttpState;
use super::maybe_ready::MaybeReady;
use super::request_head::SESSION_ID;
use super::response_body::HttpBody;
use super::responses::{json, sse, status_error};
use super::sessions::HttpSession;
use super::sse_body::PostSseBody;
use crate::server::connection::ServerConnection;
use crate::server::limits::{CallerKey, LimitError, Resource};
use crate::shared::log;

/// A POST that was dispatched.
pub(super) enum Dispatched {
    /// It needs no handler.
    Response(Response<HttpBody>),
    /// A request or a batch, whose handler may be running.
    Request(Exchange, ResponseMode),
}

/// How the outcome of a request becomes a response.
pub(super) enum ResponseMode {
    /// A request of the stateless era, where the HTTP status tells some errors.
    Stateless,
    /// A request of the handshake era, with or without a session.
    Handshake(Revision),
    /// An `initialize`, which opens a session if it succeeds.
    NewSession(Arc<ServerConnection>),
}

impl Dispatched {
    /// The response: at once, if the handler has completed and no store must be asked.
    pub(super) fn respond(self, state: &Arc<HttpState>) -> MaybeReady<Response<HttpBody>> {
        let (mut exchange, mode) = match self {
            Dispatched::Response(response) => return MaybeReady::Ready(response),
            Dispatched::Request(exchange, mode) => (exchange, mode),
        };
        let stores_session = state.is_shared() && matches!(mode, ResponseMode::NewSession(_));
        match exchange.try_outcome() {
            Some(outcome) if !stores_session => {
                MaybeReady::Ready(build_response(state, exchange, mode, outcome).0)
            }
            outcome => {
                let state = state.clone();
                MaybeReady::pending(wait_for_response(state, exchange, mode, outcome))
            }
        }
    }
}

/// Waits for the outcome, and stores the session that the response opens if other replicas serve it as well.
async fn wait_for_response(
    state: Arc<HttpState>,
    mut exchange: Exchange,
    mode: ResponseMode,
    outcome: Option<Outcome>,
) -> Response<HttpBody> {
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => poll_fn(|cx| exchange.poll_outcome(cx)).await,
    };
    let (response, opened) = build_response(&state, exchange, mode, outcome);
    if let Some(session) = opened
        && state.is_shared()
    {
        state.persist_session(&session).await;
    }
    response
}

/// Builds the response, and opens a session if that is what was asked for.
fn build_response(
    state: &Arc<HttpState>,
    mut exchange: Exchange,
    mode: ResponseMode,
    outcome: Outcome,
) -> (Response<HttpBody>, Option<Arc<HttpSession>>) {
    let response = match outcome {
        Outcome::Json(response) => match mode {
            ResponseMode::NewSession(connection) if response.error_code.is_none() && state.http.sessions => {
                return open_session(state, connection, response.body);
            }
            mode => json(mode.status(response.error_code), response.body),
        },
        Outcome::Events(lines) => sse(HttpBody::full(exchange.make_events(lines))),
        Outcome::Stream => sse(HttpBody::sse(PostSseBody::new(exchange, mode.primes_streams(), state))),
        Outcome::Empty => sse(HttpBody::empty()),
    };
    (response, None)
}

impl ResponseMode {
    /// The HTTP status of a response, given the code of the error that it is.
    fn status(&self, error_code: Option<i64>) -> StatusCode {
        match (self, error_code) {
            (ResponseMode::Stateless, Some(code)) => {
                StatusCode::from_u16(status_for_code(code)).unwrap_or(StatusCode::OK)
            }
            (ResponseMode::Stateless, None)
            | (ResponseMode::Handshake(_) | ResponseMode::NewSession(_), _) => StatusCode::OK,
        }
    }

    /// Whether an event stream begins with an event that has nothing but an id to resume with.
    fn primes_streams(&self) -> bool {
        match self {
            ResponseMode::Handshake(revision) => revision.primes_streams(),
            ResponseMode::Stateless | ResponseMode::NewSession(_) => false,
        }
    }
}

/// Opens a session for a connection that has completed `initialize`.
fn open_session(
    state: &Arc<HttpState>,
    connection: Arc<ServerConnection>,
    body: Vec<u8>,
) -> (Response<HttpBody>, Option<Arc<HttpSession>>) {
    let caller = CallerKey::of_caller(&connection.caller);
    let permit = match state.limits.acquire(caller, Some(Resource::Session), connection.session_bytes()) {
        Ok(permit) => permit,
        Err(LimitError::Caller) => {
            let text = "Too many sessions: end one of yours first (DELETE with its `Mcp-Session-Id`)";
            return (status_error(StatusCode::TOO_MANY_REQUESTS, text), None);
        }
        Err(LimitError::Total) => {
            let text = "Too many sessions: this server has as many as it takes; try again later";
            return (status_error(StatusCode::SERVICE_UNAVAILABLE, text), None);
        }
    };
    let Some(session) = state.sessions.open(connection, permit) else {
        log::error!("the operating system gave no random bytes for a session");
        return (status_error(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened"), None);
    };
    state.start_sweeper();
    let mut response = json(StatusCode::OK, body);
    if let Ok(id) = HeaderValue::from_str(session.id().as_str()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    (response, Some(session))
}
