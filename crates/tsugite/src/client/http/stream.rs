//! Answers that come as events, and how a stream that broke is taken up again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tsugite_core::sse::{SseReader, EventTooLongError};

use super::send::{Reply, stream_headers};
use super::{Http, settled};
use crate::client::calls::Waiting;
use crate::client::carrier::Answered;
use crate::client::error::Kind;
use crate::client::link::{Link, Trouble};

/// How the reading of a stream ended.
pub(super) enum End {
    /// What was waited for has come.
    Answered,
    /// The stream is over.
    Over {
        /// Whether anything came on it.
        heard: bool,
        seen: String,
    },
}

impl Http {
    /// Reads the events of a call until its answer has come. Up to 2025-11-25 a stream that ends before is taken up
    /// again where it broke; on 2026-07-28 it cannot be.
    pub(super) async fn follow(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        reply: Reply,
    ) -> Result<Answered, Trouble> {
        let mut events = SseReader::new(link.limits().max_message_bytes);
        let mut reply = reply;
        let mut in_vain = 0;
        loop {
            let end = read(link, Some(waiting), &mut events, reply).await?;
            let End::Over { heard, seen } = end else { return settled(waiting).await };
            if link.revision().is_stateless() {
                return Err(Trouble::lost(format!("{seen} before the answer came")));
            }
            if events.last_event_id().is_none() {
                return Err(Trouble::lost(format!(
                    "{seen} before the answer came, and cannot be taken up again"
                )));
            }
            in_vain = if heard { 0 } else { in_vain + 1 };
            if in_vain > IN_VAIN {
                return Err(Trouble::lost(format!("{seen} again and again without the answer")));
            }
            let wait = events.retry().unwrap_or(RETRY).max(SOONEST);
            // The answer may come on another stream meanwhile.
            tokio::select! {
                answer = settled(waiting) => return answer,
                () = tokio::time::sleep(wait) => {}
            }
            // The call was sent, so whatever keeps its stream from us does not undo it.
            reply = self.resume(link, &events).await.map_err(|trouble| match trouble {
                Trouble::Final(error) => {
                    Trouble::lost(format!("{seen}, and cannot be taken up again: {error}"))
                }
                lost => lost,
            })?;
            events.reopen();
        }
    }

    /// Opens a stream again where it broke.
    async fn resume(&self, link: &Arc<Link>, events: &SseReader) -> Result<Reply, Trouble> {
        let reply = self.open_stream(link, events.last_event_id()).await?;
        let gone = match reply.status {
            StatusCode::OK if reply.is_stream() => return Ok(reply),
            StatusCode::NOT_FOUND => {
                link.lose(super::SESSION_GONE);
                super::SESSION_GONE.to_owned()
            }
            status => format!("the broken stream cannot be taken up again (HTTP status {})", status.as_u16()),
        };
        reply.discard();
        Err(Trouble::lost(gone))
    }

    /// Asks for a stream, from after `last` on.
    pub(super) async fn open_stream(&self, link: &Arc<Link>, last: Option<&str>) -> Result<Reply, Trouble> {
        let last = last.map(|last| HeaderValue::from_bytes(last.as_bytes())).transpose();
        let last =
            last.map_err(|_| Trouble::lost("the stream broke, and its last id cannot be sent back"))?;
        let headers = || {
            let mut headers = stream_headers();
            self.mark(&mut headers, link.revision());
            if let Some(last) = &last {
                headers.insert(LAST_EVENT_ID, last.clone());
            }
            Ok(headers)
        };
        self.door.send(Method::GET, &self.door.endpoint, &headers, Bytes::new()).await
    }

    /// Reads events until the answer to `waiting` comes, and gives the message it came in.
    pub(super) async fn first_answer(
        &self,
        link: &Arc<Link>,
        waiting: &Arc<Waiting>,
        reply: &mut Reply,
    ) -> Result<Bytes, Trouble> {
        use tsugite_core::jsonrpc::{Incoming, Message, parse};

        let mut events = SseReader::new(link.limits().max_message_bytes);
        while let Some(chunk) = reply.chunk().await {
            let chunk = chunk.map_err(|error| Trouble::lost(format!("the connection was lost: {error}")))?;
            events.push(&chunk);
            while let Some(event) = events.next_event() {
                let event = event.map_err(too_long)?;
                if let Ok(Incoming::Single(Message::Response(_))) = parse(event.data, link.limits()) {
                    return Ok(Bytes::copy_from_slice(event.data));
                }
                link.receive(event.data, Some(waiting));
            }
        }
        Err(Trouble::lost("the stream ended before the answer came"))
    }
}

/// Hears every event of a stream until it ends, or until the answer to `waiting` has come.
pub(super) async fn read(
    link: &Arc<Link>,
    waiting: Option<&Arc<Waiting>>,
    events: &mut SseReader,
    mut reply: Reply,
) -> Result<End, Trouble> {
    let mut heard = false;
    loop {
        let chunk = match reply.chunk().await {
            None => return Ok(End::Over { heard, seen: "the stream ended".to_owned() }),
            Some(Err(error)) => return Ok(End::Over { heard, seen: format!("the stream broke ({error})") }),
            Some(Ok(chunk)) => chunk,
        };
        events.push(&chunk);
        while let Some(event) = events.next_event() {
            let event = event.map_err(too_long)?;
            // One without data only brings an id to come back with.
            if !event.data.is_empty() {
                heard = true;
                link.receive(event.data, waiting);
            }
        }
        link.room_behind().await;
        if waiting.is_some_and(|waiting| waiting.is_settled()) {
            reply.discard();
            return Ok(End::Answered);
        }
    }
}

pub(super) fn too_long(_: EventTooLongError) -> Trouble {
    Kind::TooLarge("the server sent an event that is larger than a message may be".to_owned()).into()
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How long to wait before a stream is taken up again, unless the server says.
const RETRY: Duration = Duration::from_secs(1);
/// However soon the server wants us back: one that ends every stream at once must not keep us busy.
pub(super) const SOONEST: Duration = Duration::from_millis(50);
/// How often in a row a stream is taken up again without anything coming on it.
const IN_VAIN: u32 = 10;
