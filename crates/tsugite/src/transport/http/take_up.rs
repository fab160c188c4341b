//! Runs the handler of a call again that another replica began.

use std::borrow::Cow;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Incoming, Message, Raw, Request, parse};
use tsugite_core::session::request_meta::RequestMeta;

use super::event_stream::log_key;
use super::exchange::{Exchange, Output};
use super::http_state::HttpState;
use super::in_flight_record::InFlightRecord;
use super::named_session::NamedSession;
use super::post::cancellable;
use super::resumable::Resumable;
use super::sessions::SessionId;
use super::shared_session::MessageSubject;
use super::stream_scopes::needed_scopes;
use super::waiting_calls::HttpCallKeeper;
use super::waiting_record::{RegisteredRequest, WaitingRecord};
use crate::server::dispatch::ReceivedRequest;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::kept_call::{KeptAnswer, KeptRequest};
use crate::server::principal::Caller;
use crate::server::{DeclaredCapabilities, ResponseWriter};
use crate::shared::outbound_queue::OutboundQueue;
use crate::store::StoreError;

impl HttpState {
    /// Runs the handler of a waiting call again, with the answers so far. Its events are appended to the stream of the
    /// replica that wrote it last: one that claimed the call before may have died before it wrote anything. In an error the
    /// handler did not start.
    pub(super) async fn take_up(
        self: &Arc<Self>,
        registered: Arc<RegisteredRequest>,
        record: WaitingRecord,
    ) -> Result<(), StoreError> {
        let principal = record.principal();
        let id = SessionId::parse(record.session.as_bytes()).ok_or("the id of a session is invalid")?;
        let found = self.find_shared_session(id, principal.as_ref(), &MessageSubject::default()).await;
        let (session, revision) = match found.session {
            NamedSession::Found(session, revision) => (session, revision),
            NamedSession::Unavailable => return Err("a session could not be looked up".into()),
            NamedSession::Absent | NamedSession::Unknown => return Ok(()),
        };
        let read = self.store.read_log(&log_key(session.log_name(), registered.stream), 0).await?;
        // Without an event the client cannot resume the stream, so there is no one to answer.
        let scopes = match self.server.shared.has_scoped_items() {
            true => needed_scopes(self, &session, registered.stream).await?,
            false => Vec::new(),
        };
        let Some(read) = read.filter(|read| !read.ended) else { return Ok(()) };
        let keeper = HttpCallKeeper::new(self, &session, revision, principal.clone());
        keeper.set_registered(&registered);
        keeper.set_other(&record.other);
        let kept = KeptRequest::new(keeper.clone(), Some(record.history.clone()));
        let caller = Caller { principal, kept: Some(kept), ..Caller::default() };
        let output = Output::new(OutboundQueue::new(self.config.max_write_buffer_bytes));
        let writer = ResponseWriter::with_slot(output.queue.clone(), output.response.clone());
        let id: Id<'static> = serde_json::from_str(&record.request)?;
        let request = Request {
            id: id.clone(),
            method: Cow::Borrowed(&record.method),
            params: Some(Raw::from(&record.params)),
        };
        let meta = RequestMeta::from_params(request.params()).map_err(|error| error.to_string())?;
        let pending = session.connection.handle_request(ReceivedRequest::Post(IncomingRequest {
            request: &request,
            meta: &meta,
            revision,
            writer: &writer,
            caller: &caller,
            declared: DeclaredCapabilities::default(),
            tracking: Tracking::Connection,
        }));
        let stream = session.with_streams(|streams, name| {
            streams.adopt(name, registered.stream, read.last, read.owner.clone())
        });
        stream.set_needed_scopes(scopes);
        let replica = self.replica.clone().ok_or("there is no replica")?;
        let in_flight = InFlightRecord::adopted(replica, registered, keeper);
        let resumable = Resumable::adopted(self.clone(), session, stream, in_flight, id);
        // Without a connection it continues by itself.
        drop(Exchange::new(output, pending.map(cancellable), Some(resumable)));
        Ok(())
    }

    /// Continues a claimed call with a response of the client of this session. Returns false if no claimed call of the
    /// session waits for it.
    pub(super) fn answer_claimed_text(self: &Arc<Self>, session: &str, response: &[u8]) -> bool {
        let Ok(Incoming::Single(Message::Response(response))) = parse(response, &self.config.limits) else {
            return false;
        };
        let Some(id) = response.id.as_ref().and_then(Id::as_str).map(str::to_owned) else { return false };
        let answer = match response.outcome {
            Ok(result) => KeptAnswer::Result(result.to_owned()),
            Err(error) => KeptAnswer::Error(error),
        };
        self.answer_claimed(session, &id, answer)
    }
}
