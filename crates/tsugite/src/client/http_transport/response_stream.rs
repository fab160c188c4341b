//! Responses that arrive as event streams, and how a broken stream is resumed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use tsugite_core::sse::{EventTooLongError, SseReader};

use super::await_response;
use crate::client::call_error::CallError;
use crate::client::client_error::ErrorKind;
use crate::client::connection::ClientConnection;
use crate::client::http::{Repeat, RequestKind, ResponseReader, StreamableHttp, stream_headers};
use crate::client::pending_calls::PendingCall;
use crate::client::transport::ServerReply;

/// The reason the reading of a stream ended.
pub(super) enum StreamEnd {
    /// The response has arrived.
    ResponseReceived,
    /// The stream has ended.
    Ended {
        /// Whether any event arrived on it.
        received_events: bool,
        reason: String,
    },
    /// Nothing has arrived for too long: the connection may be gone without a word.
    Silent(Duration),
}

impl StreamableHttp {
    /// Reads the events of a call until its response arrives. A stream that ends before, or that is silent for longer than
    /// `max_silence`, is resumed if its era allows that.
    pub(super) async fn read_event_stream(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        response: ResponseReader,
        max_silence: Option<Duration>,
    ) -> Result<ServerReply, CallError> {
        let mut events = SseReader::new(connection.limits().max_message_bytes);
        let mut response = response;
        let mut empty_resumes = 0;
        loop {
            let end = read_events(connection, Some(call), &mut events, response, max_silence).await?;
            let (received, reason) = match end {
                StreamEnd::ResponseReceived => return await_response(call).await,
                StreamEnd::Ended { received_events, reason } => (received_events, reason),
                StreamEnd::Silent(limit) => {
                    (false, format!("the stream was silent for {} s", limit.as_secs()))
                }
            };
            if let Err(detail) = connection.era().check_resumable(&events) {
                return Err(CallError::disconnected(format!("{reason} {detail}")));
            }
            empty_resumes = if received { 0 } else { empty_resumes + 1 };
            if empty_resumes > MAX_EMPTY_RESUMES {
                return Err(CallError::disconnected(format!(
                    "{reason} {MAX_EMPTY_RESUMES} times without the response"
                )));
            }
            let delay = events.retry().unwrap_or(DEFAULT_RETRY_INTERVAL).max(MIN_RETRY_INTERVAL);
            // The response may arrive on another stream meanwhile.
            tokio::select! {
                answer = await_response(call) => return answer,
                () = tokio::time::sleep(delay) => {}
            }
            // The call was sent, so it may have run even if its stream cannot be resumed.
            response = self.resume(connection, &events).await.map_err(|error| match error {
                CallError::Fatal(error) => {
                    CallError::disconnected(format!("{reason}, and cannot be resumed: {error}"))
                }
                lost => lost,
            })?;
            events.reopen();
        }
    }

    /// Resumes a broken stream after its last event.
    async fn resume(
        &self,
        connection: &Arc<ClientConnection>,
        events: &SseReader,
    ) -> Result<ResponseReader, CallError> {
        let response = self.open_stream(connection, events.last_event_id()).await?;
        let reason = match response.status {
            StatusCode::OK if response.is_stream() => return Ok(response),
            StatusCode::NOT_FOUND => {
                connection.mark_disconnected(super::SESSION_EXPIRED);
                super::SESSION_EXPIRED.to_owned()
            }
            status => format!("the broken stream cannot be resumed (HTTP status {})", status.as_u16()),
        };
        response.discard();
        Err(CallError::disconnected(reason))
    }

    /// Requests an event stream, after the event `last_event_id`.
    pub(super) async fn open_stream(
        &self,
        connection: &Arc<ClientConnection>,
        last_event_id: Option<&str>,
    ) -> Result<ResponseReader, CallError> {
        let last_event_id =
            last_event_id.map(|last_event_id| HeaderValue::from_bytes(last_event_id.as_bytes())).transpose();
        let last_event_id = last_event_id.map_err(|_| {
            CallError::disconnected("the stream broke, and its last event id is not a valid header")
        })?;
        let headers = || {
            let mut headers = stream_headers();
            self.insert_session_headers(&mut headers, connection, connection.revision())?;
            if let Some(last_event_id) = &last_event_id {
                headers.insert(LAST_EVENT_ID, last_event_id.clone());
            }
            Ok(headers)
        };
        self.endpoint
            .send(RequestKind::Stream, &self.endpoint.uri, &headers, Bytes::new(), Repeat::ALWAYS)
            .await
    }

    /// Reads events until a response arrives, and returns that message.
    pub(super) async fn first_response(
        &self,
        connection: &Arc<ClientConnection>,
        call: &Arc<PendingCall>,
        response: &mut ResponseReader,
    ) -> Result<Bytes, CallError> {
        use tsugite_core::jsonrpc::{Incoming, Message, parse};

        let mut events = SseReader::new(connection.limits().max_message_bytes);
        while let Some(chunk) = response.chunk().await {
            let chunk = chunk
                .map_err(|error| CallError::disconnected(format!("the connection was lost: {error}")))?;
            events.push(&chunk);
            while let Some(event) = events.next_event() {
                let event = event.map_err(event_too_large)?;
                if let Ok(Incoming::Single(Message::Response(_))) = parse(event.data, connection.limits()) {
                    return Ok(Bytes::copy_from_slice(event.data));
                }
                connection.receive(event.data, Some(call));
            }
        }
        Err(CallError::disconnected("the stream ended before the response arrived"))
    }
}

/// Dispatches the events of a stream until it ends, until the response to `call` arrives, or until no byte has arrived for
/// `max_silence`. Comments, which servers send to keep a stream open, count.
pub(super) async fn read_events(
    connection: &Arc<ClientConnection>,
    call: Option<&Arc<PendingCall>>,
    events: &mut SseReader,
    mut response: ResponseReader,
    max_silence: Option<Duration>,
) -> Result<StreamEnd, CallError> {
    let mut received = false;
    loop {
        let chunk = match max_silence {
            None => response.chunk().await,
            Some(limit) => match tokio::time::timeout(limit, response.chunk()).await {
                Ok(chunk) => chunk,
                Err(_) => {
                    tracing::debug!(
                        seconds = limit.as_secs(),
                        "a stream of the server is silent; it is closed"
                    );
                    return Ok(StreamEnd::Silent(limit));
                }
            },
        };
        let chunk = match chunk {
            None => {
                return Ok(StreamEnd::Ended {
                    received_events: received,
                    reason: "the stream ended".to_owned(),
                });
            }
            Some(Err(error)) => {
                return Ok(StreamEnd::Ended {
                    received_events: received,
                    reason: format!("the stream broke ({error})"),
                });
            }
            Some(Ok(chunk)) => chunk,
        };
        events.push(&chunk);
        while let Some(event) = events.next_event() {
            let event = event.map_err(event_too_large)?;
            // An event without data carries only an id to resume from.
            if !event.data.is_empty() {
                received = true;
                connection.receive(event.data, call);
            }
        }
        connection.wait_for_observer().await;
        if call.is_some_and(|call| call.is_complete()) {
            response.discard();
            return Ok(StreamEnd::ResponseReceived);
        }
    }
}

pub(super) fn event_too_large(_: EventTooLongError) -> CallError {
    ErrorKind::TooLarge("the server sent an event larger than `max_message_bytes`".to_owned()).into()
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The delay before a stream is resumed, unless the server sets one.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest delay, whatever the server sets: a server that ends every stream at once must not cause a busy loop.
pub(super) const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How often in a row a stream is resumed without receiving an event.
const MAX_EMPTY_RESUMES: u32 = 10;
