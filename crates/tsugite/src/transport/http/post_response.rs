//! The response to a POST: JSON, an event stream, or empty, with the session that it opens.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use tsugite_core::revision::Revision;
use tsugite_core::session::http::status_for_code;

use super::authorization::HostName;
use super::exchange::{Exchange, Outcome};
use super::forwarding::{self, ChangeError, Delivery, ForwardedMessage};
use super::http_state::HttpState;
use super::in_flight_record::RegisterError;
use super::maybe_ready::MaybeReady;
use super::request_head::SESSION_ID;
use super::response_body::HttpBody;
use super::responses::{StatusError, empty, json, sse, status_error, store_unavailable};
use super::sessions::{HttpSession, SessionGuard, SessionId};
use super::sse_body::PostSseBody;
use super::stream_scopes::scope_challenge;
use crate::server::connection::ServerConnection;
use crate::server::limits::{CallerKey, LimitError, LimitPermit, Resource};
use crate::server::response_writer::WrittenResponse;
use crate::server::subscriptions::too_many_subscriptions;
use crate::shared::log;

/// A POST that was dispatched.
pub(super) enum Dispatched {
    /// It needs no handler.
    Response(Response<HttpBody>),
    /// A request or a batch, whose handler may be running.
    Request(Exchange, ResponseMode),
    /// A message that is stored for another replica first.
    Later(Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>),
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
    pub(super) fn respond(self, state: &Arc<HttpState>, host: HostName) -> MaybeReady<Response<HttpBody>> {
        let (mut exchange, mode) = match self {
            Dispatched::Response(response) => return MaybeReady::Ready(response),
            Dispatched::Later(response) => return MaybeReady::Pending(response),
            Dispatched::Request(exchange, mode) => (exchange, mode),
        };
        let stores_session =
            exchange.changes_session() || state.is_shared() && matches!(mode, ResponseMode::NewSession(_));
        match exchange.try_outcome() {
            Some(outcome) if !stores_session => {
                MaybeReady::Ready(build_response(state, exchange, mode, outcome, host))
            }
            outcome => {
                let state = state.clone();
                MaybeReady::pending(wait_for_response(state, exchange, mode, outcome, host))
            }
        }
    }

    /// Stores the messages of a batch for other replicas, and accepts them then.
    pub(super) fn store_for_others(
        state: &Arc<HttpState>,
        session: SessionGuard,
        messages: Vec<ForwardedMessage>,
    ) -> Self {
        let state = state.clone();
        Dispatched::Later(Box::pin(async move {
            match forwarding::store_all(state, session.clone(), messages).await {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(error) => store_unavailable(&*error),
            }
        }))
    }

    /// Accepts a response of the client when it cannot be lost any more.
    pub(super) fn store_response(
        state: &Arc<HttpState>,
        session: &SessionGuard,
        delivery: Delivery,
        response: String,
    ) -> Self {
        let (state, session) = (state.clone(), (**session).clone());
        Dispatched::Later(Box::pin(async move {
            match forwarding::store_response(&state, &session, delivery, response).await {
                Ok(()) => empty(StatusCode::ACCEPTED),
                Err(error) => store_unavailable(&*error),
            }
        }))
    }
}

/// Waits for the outcome, and stores the session that the response opens if other replicas serve it as well.
async fn wait_for_response(
    state: Arc<HttpState>,
    mut exchange: Exchange,
    mode: ResponseMode,
    outcome: Option<Outcome>,
    host: HostName,
) -> Response<HttpBody> {
    let mut outcome = match outcome {
        Some(outcome) => outcome,
        None => {
            if let ResponseMode::Handshake(revision) = mode
                && let Err(RegisterError::SessionEnded) = exchange.register(revision).await
            {
                return status_error(StatusCode::NOT_FOUND, "Session not found: it has ended");
            }
            poll_fn(|cx| exchange.poll_outcome(cx)).await
        }
    };
    if let Outcome::Json(WrittenResponse { error_code: None, .. }) = &outcome {
        match (exchange.store_changes().await, &mode) {
            (Ok(()), _) => {}
            (Err(ChangeError::Store(error)), _) => return store_unavailable(&*error),
            (Err(ChangeError::TooManySubscriptions), ResponseMode::Handshake(revision)) => {
                outcome =
                    exchange.refuse(&too_many_subscriptions(state.config.max_subscriptions), *revision).await;
            }
            // Only a request in a session changes it.
            (Err(ChangeError::TooManySubscriptions), _) => {}
        }
    }
    match (&state.replica, mode, outcome) {
        (Some(replica), ResponseMode::NewSession(connection), Outcome::Json(response))
            if response.error_code.is_none() && state.http.sessions =>
        {
            let permit = match acquire_session(&state, &connection) {
                Ok(permit) => permit,
                Err(refused) => return refused.into(),
            };
            match state.open_shared_session(replica, connection, permit).await {
                Ok(session) => with_session_id(json(StatusCode::OK, response.body), &session),
                Err(error) => store_unavailable(&*error),
            }
        }
        (_, mode, outcome) => build_response(&state, exchange, mode, outcome, host),
    }
}

/// Builds the response, and opens a session if that is what was asked for.
fn build_response(
    state: &Arc<HttpState>,
    mut exchange: Exchange,
    mode: ResponseMode,
    outcome: Outcome,
    host: HostName,
) -> Response<HttpBody> {
    match outcome {
        Outcome::Json(WrittenResponse { insufficient_scope: Some(scopes), .. }) => {
            scope_challenge(state, matches!(mode, ResponseMode::Stateless), *scopes, host)
        }
        Outcome::Json(response) => match mode {
            ResponseMode::NewSession(connection) if response.error_code.is_none() && state.http.sessions => {
                open_session(state, connection, response.body)
            }
            mode => with_retry_after(json(mode.status(response.error_code), response.body)),
        },
        Outcome::Events(lines) => {
            let events = exchange.make_events(lines);
            match exchange.has_pending_append() {
                false => sse(HttpBody::full(events)),
                true => sse(HttpBody::sse(PostSseBody::completed(exchange, events, state))),
            }
        }
        Outcome::Stream => sse(HttpBody::sse(PostSseBody::new(exchange, mode.primes_streams(), state))),
        Outcome::Empty => sse(HttpBody::empty()),
    }
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
) -> Response<HttpBody> {
    let permit = match acquire_session(state, &connection) {
        Ok(permit) => permit,
        Err(refused) => return refused.into(),
    };
    let Some(id) = SessionId::random() else {
        log::error!("the operating system gave no random bytes for a session");
        return status_error(StatusCode::INTERNAL_SERVER_ERROR, "No session could be opened");
    };
    let session = state.sessions.insert(id, connection, permit, None);
    state.start_sweeper();
    with_session_id(json(StatusCode::OK, body), &session)
}

/// Counts a new session, or refuses it.
fn acquire_session(state: &HttpState, connection: &ServerConnection) -> Result<LimitPermit, StatusError> {
    let caller = CallerKey::of_caller(&connection.caller);
    let permit = state.limits.acquire(caller, Some(Resource::Session), connection.session_bytes());
    permit.map_err(|error| match error {
        LimitError::Caller => {
            let text = "Too many sessions: end one of yours first (DELETE with its `Mcp-Session-Id`)";
            StatusError::new(StatusCode::TOO_MANY_REQUESTS, text)
        }
        LimitError::Total => {
            let text = "Too many sessions: this server has as many as it takes; try again later";
            StatusError::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    })
}

/// Tells the client when to repeat a request that cannot be answered now.
fn with_retry_after(mut response: Response<HttpBody>) -> Response<HttpBody> {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Tells the client the id of its session.
fn with_session_id(mut response: Response<HttpBody>, session: &HttpSession) -> Response<HttpBody> {
    if let Ok(id) = HeaderValue::from_str(session.id().as_str()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}
