//! Answers that come as events, and how a stream that broke is taken up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tsugite_core::sse::{EventTooLongError, SseReader};

use super::http_endpoint::{ResponseReader, stream_headers};
use super::{StreamableHttp, await_response};
use crate::client::call_error::CallError;
use crate::client::client_error::ErrorKind;
use crate::client::connection::ClientConnection;
use crate::client::pending_calls::PendingCall;
use crate::client::transport::ServerReply;

/// How the reading of a stream ended.
pub(super) enum StreamEnd {
    /// What was waited for has come.
    ResponseReceived,
    /// The stream is over.
    Ended {
        /// Whether anything came on it.
        received_events: bool,
        reason: String,
    },
}

impl StreamableHttp {
    /// Reads the events of a call until its answer has come. A stream that ends before is resumed where it broke, if its
    /// era allows that.
    pub(super) async fn read_event_stream(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        reply: ResponseReader,
    ) -> Result<ServerReply, CallError> {
        let mut events = SseReader::new(link.limits().max_message_bytes);
        let mut reply = reply;
        let mut in_vain = 0;
        loop {
            let end = read_events(link, Some(waiting), &mut events, reply).await?;
            let StreamEnd::Ended { received_events: heard, reason: seen } = end else {
                return await_response(waiting).await;
            };
            if let Err(why) = link.era().check_resumable(&events) {
                return Err(CallError::disconnected(format!("{seen} {why}")));
            }
            in_vain = if heard { 0 } else { in_vain + 1 };
            if in_vain > MAX_EMPTY_RESUMES {
                return Err(CallError::disconnected(format!("{seen} again and again without the answer")));
            }
            let wait = events.retry().unwrap_or(DEFAULT_RETRY_INTERVAL).max(MIN_RETRY_INTERVAL);
            // The answer may come on another stream meanwhile.
            tokio::select! {
                answer = await_response(waiting) => return answer,
                () = tokio::time::sleep(wait) => {}
            }
            // The call was sent, so whatever keeps its stream from us does not undo it.
            reply = self.resume(link, &events).await.map_err(|trouble| match trouble {
                CallError::Fatal(error) => {
                    CallError::disconnected(format!("{seen}, and cannot be taken up again: {error}"))
                }
                lost => lost,
            })?;
            events.reopen();
        }
    }

    /// Opens a stream again where it broke.
    async fn resume(
        &self,
        link: &Arc<ClientConnection>,
        events: &SseReader,
    ) -> Result<ResponseReader, CallError> {
        let reply = self.open_stream(link, events.last_event_id()).await?;
        let gone = match reply.status {
            StatusCode::OK if reply.is_stream() => return Ok(reply),
            StatusCode::NOT_FOUND => {
                link.mark_disconnected(super::SESSION_EXPIRED);
                super::SESSION_EXPIRED.to_owned()
            }
            status => format!("the broken stream cannot be taken up again (HTTP status {})", status.as_u16()),
        };
        reply.discard();
        Err(CallError::disconnected(gone))
    }

    /// Asks for a stream, from after `last` on.
    pub(super) async fn open_stream(
        &self,
        link: &Arc<ClientConnection>,
        last: Option<&str>,
    ) -> Result<ResponseReader, CallError> {
        let last = last.map(|last| HeaderValue::from_bytes(last.as_bytes())).transpose();
        let last = last
            .map_err(|_| CallError::disconnected("the stream broke, and its last id cannot be sent back"))?;
        let headers = || {
            let mut headers = stream_headers();
            self.insert_session_headers(&mut headers, link.revision());
            if let Some(last) = &last {
                headers.insert(LAST_EVENT_ID, last.clone());
            }
            Ok(headers)
        };
        self.endpoint.send(Method::GET, &self.endpoint.uri, &headers, Bytes::new()).await
    }

    /// Reads events until the answer to `waiting` comes, and gives the message it came in.
    pub(super) async fn first_response(
        &self,
        link: &Arc<ClientConnection>,
        waiting: &Arc<PendingCall>,
        reply: &mut ResponseReader,
    ) -> Result<Bytes, CallError> {
        use tsugite_core::jsonrpc::{Incoming, Message, parse};

        let mut events = SseReader::new(link.limits().max_message_bytes);
        while let Some(chunk) = reply.chunk().await {
            let chunk = chunk
                .map_err(|error| CallError::disconnected(format!("the connection was lost: {error}")))?;
            events.push(&chunk);
            while let Some(event) = events.next_event() {
                let event = event.map_err(event_too_large)?;
                if let Ok(Incoming::Single(Message::Response(_))) = parse(event.data, link.limits()) {
                    return Ok(Bytes::copy_from_slice(event.data));
                }
                link.receive(event.data, Some(waiting));
            }
        }
        Err(CallError::disconnected("the stream ended before the answer came"))
    }
}

/// Hears every event of a stream until it ends, or until the answer to `waiting` has come.
pub(super) async fn read_events(
    link: &Arc<ClientConnection>,
    waiting: Option<&Arc<PendingCall>>,
    events: &mut SseReader,
    mut reply: ResponseReader,
) -> Result<StreamEnd, CallError> {
    let mut heard = false;
    loop {
        let chunk = match reply.chunk().await {
            None => {
                return Ok(StreamEnd::Ended {
                    received_events: heard,
                    reason: "the stream ended".to_owned(),
                });
            }
            Some(Err(error)) => {
                return Ok(StreamEnd::Ended {
                    received_events: heard,
                    reason: format!("the stream broke ({error})"),
                });
            }
            Some(Ok(chunk)) => chunk,
        };
        events.push(&chunk);
        while let Some(event) = events.next_event() {
            let event = event.map_err(event_too_large)?;
            // One without data only brings an id to come back with.
            if !event.data.is_empty() {
                heard = true;
                link.receive(event.data, waiting);
            }
        }
        link.wait_for_observer().await;
        if waiting.is_some_and(|waiting| waiting.is_complete()) {
            reply.discard();
            return Ok(StreamEnd::ResponseReceived);
        }
    }
}

pub(super) fn event_too_large(_: EventTooLongError) -> CallError {
    ErrorKind::TooLarge("the server sent an event that is larger than a message may be".to_owned()).into()
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How long to wait before a stream is taken up again, unless the server says.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// However soon the server wants us back: one that ends every stream at once must not keep us busy.
pub(super) const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How often in a row a stream is taken up again without anything coming on it.
const MAX_EMPTY_RESUMES: u32 = 10;
