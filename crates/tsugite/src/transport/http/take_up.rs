//! Continues calls that another replica began: their handlers run again, with the answers so far.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::{Id, Incoming, Message, Raw, Request, parse, write};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::request_meta::RequestMeta;

use super::event_stream::log_key;
use super::exchange::{Exchange, Output};
use super::http_state::HttpState;
use super::in_flight_record::{InFlightRecord, NOT_STORED};
use super::log_writer::end_without_writer;
use super::named_session::NamedSession;
use super::post::cancellable;
use super::resumable::Resumable;
use super::sessions::SessionId;
use super::shared_session::MessageSubject;
use super::stream_scopes::needed_scopes;
use super::waiting_calls::{CONTINUE_ATTEMPTS, HttpCallKeeper, store_running};
use super::waiting_record::{ClaimedCall, LONGEST_BACKOFF, RegisteredRequest, WaitingRecord};
use crate::error::Chain;
use crate::lock::lock;
use crate::server::dispatch::ReceivedRequest;
use crate::server::incoming_request::{IncomingRequest, Tracking};
use crate::server::kept_call::{KeptAnswer, KeptRequest};
use crate::server::outgoing_requests::{AnswerGuard, SettledAnswer};
use crate::server::principal::Caller;
use crate::server::{DeclaredCapabilities, ResponseWriter};
use crate::shared::boxed::boxed;
use crate::shared::log;
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
        let replica = self.replica.clone().ok_or("there is no replica")?;
        let Some(read) = read.filter(|read| !read.ended) else {
            drop(InFlightRecord::adopted(replica, registered, None));
            return Ok(());
        };
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
        let in_flight = InFlightRecord::adopted(replica, registered, Some(keeper));
        let resumable = Resumable::adopted(self.clone(), session, stream, in_flight, id);
        // Without a connection it continues by itself.
        drop(Exchange::new(output, pending.map(cancellable), Some(resumable)));
        Ok(())
    }

    /// Continues a claimed call with a response of the client of this session. `None` if no claimed call of the session
    /// waits for it.
    pub(super) fn answer_claimed_text(
        self: &Arc<Self>,
        session: &str,
        response: &[u8],
    ) -> Option<SettledAnswer> {
        let Ok(Incoming::Single(Message::Response(response))) = parse(response, &self.config.limits) else {
            return None;
        };
        let id = response.id.as_ref().and_then(Id::as_str).map(str::to_owned)?;
        let answer = match response.outcome {
            Ok(result) => KeptAnswer::Result(result.to_owned()),
            Err(error) => KeptAnswer::Error(error),
        };
        self.answer_claimed(session, &id, answer)
    }

    /// Continues a claimed call with an answer. `None` if no claimed call of the session asked the question.
    pub(super) fn answer_claimed(
        self: &Arc<Self>,
        session: &str,
        question: &str,
        answer: KeptAnswer,
    ) -> Option<SettledAnswer> {
        let call = self.claimed.take(session, question)?;
        let (guard, settled) = AnswerGuard::new();
        let Some(mut record) = lock(&call.record).take() else { return Some(settled) };
        let Some(at) = record.history.questions.iter().position(|open| open.id == question) else {
            return Some(settled);
        };
        let open = record.history.questions.remove(at);
        record.history.answers.insert(open.key, answer);
        let state = self.clone();
        tokio::spawn(boxed(async move {
            if let Err(error) = state.continue_claimed(&call, record, guard).await {
                log::error!(error = %Chain(&*error), "a claimed call could not be continued");
            }
        }));
        Some(settled)
    }

    async fn continue_claimed(
        self: &Arc<Self>,
        call: &ClaimedCall,
        record: WaitingRecord,
        guard: AnswerGuard,
    ) -> Result<(), StoreError> {
        let Some(replica) = &self.replica else { return Ok(()) };
        let mut attempt = 0;
        // No other replica continues a call of this one while it lives, so there is no end to the attempts.
        loop {
            match store_running(self, replica, &call.registered, call.waiting_version).await {
                Ok(Ok(version)) => {
                    call.registered.set_version(version);
                    break;
                }
                Ok(Err(())) => return Ok(()),
                Err(error) => self.pause_continuing(error, attempt).await?,
            }
            attempt += 1;
        }
        drop(guard);
        for attempt in 0..CONTINUE_ATTEMPTS {
            match self.take_up(call.registered.clone(), record.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => self.pause_continuing(error, attempt).await?,
            }
        }
        log::error!("a claimed call ends with an error: its handler could not be started");
        self.end_with_error(call, &record).await;
        Ok(())
    }

    /// Waits before the next attempt to continue a claimed call. Returns the error if this process stops: another one
    /// continues the call, or ends its stream.
    async fn pause_continuing(&self, error: StoreError, attempt: u32) -> Result<(), StoreError> {
        if self.is_closing() {
            return Err(error);
        }
        log::warn!(error = %Chain(&*error), "a claimed call does not go on yet");
        tokio::time::sleep(Duration::from_millis(100 << attempt.min(LONGEST_BACKOFF))).await;
        Ok(())
    }

    /// Ends the stream of a claimed call with an error, after it was stored that the call runs.
    async fn end_with_error(&self, call: &ClaimedCall, record: &WaitingRecord) {
        let Some(replica) = &self.replica else { return };
        let revision = record.revision.parse().unwrap_or(Revision::NEWEST);
        let id = serde_json::from_str::<Id<'static>>(&record.request).ok();
        let error = RpcError::internal_with_message(NOT_STORED).to_error_object(revision);
        let mut line = Vec::new();
        write::error(&mut line, id.as_ref(), revision.writes_null_id(), &error);
        line.push(b'\n');
        let log = log_key(&call.session, call.registered.stream);
        end_without_writer(&self.logs, &log, line).await;
        drop(InFlightRecord::adopted(replica.clone(), call.registered.clone(), None));
    }
}
