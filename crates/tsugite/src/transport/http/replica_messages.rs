//! Messages of other replicas, as the HTTP transport receives them.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Incoming, Message, parse};

use super::event_stream::log_key;
use super::http_sse_endpoints;
use super::http_state::HttpState;
use super::shared_session::PushStream;
use crate::replica::{MessageWork, ReceivedMessage, ReplicaMessage};

impl HttpState {
    /// Handles the messages of other replicas until the state is dropped.
    pub(super) fn receive_replica_messages(self: &Arc<Self>) {
        let Some(replica) = &self.replica else { return };
        let state = Arc::downgrade(self);
        replica.subscribe(move |received| {
            let state = state.upgrade()?;
            Some(match received {
                ReceivedMessage::Message(message) => state.handle_replica_message(message),
                ReceivedMessage::Missed => {
                    state.logs.wake_all_followers();
                    done()
                }
            })
        });
    }

    fn handle_replica_message(self: &Arc<Self>, message: &ReplicaMessage) -> MessageWork {
        match message {
            ReplicaMessage::SessionEnded { session } => {
                if let Some(session) = self.session_by_digest(session) {
                    drop(self.sessions.remove(&session));
                }
            }
            ReplicaMessage::ClientResponse { session, response } => {
                let parsed = parse(response.as_bytes(), &self.config.limits);
                let delivered = match (self.session_by_digest(session), parsed) {
                    (Some(session), Ok(Incoming::Single(Message::Response(response)))) => {
                        session.connection.outgoing_requests().receive_response(response)
                    }
                    _ => false,
                };
                if !delivered {
                    self.answer_claimed_text(response.as_bytes());
                }
            }
            ReplicaMessage::RequestCancelled { session, request, reason } => {
                let id: Option<Id<'static>> = serde_json::from_str(request).ok();
                if let (Some(session), Some(id)) = (self.session_by_digest(session), id) {
                    session.connection.cancel_request(&id, reason.clone());
                }
            }
            ReplicaMessage::EventsAppended { session, stream } => {
                if let Ok(stream) = u128::from_str_radix(stream, 16) {
                    self.logs.wake_followers(&log_key(session, stream));
                }
            }
            ReplicaMessage::StreamFollowed { session, stream, replica } => {
                let stream = u128::from_str_radix(stream, 16).ok();
                if let (Some(session), Some(stream)) = (self.session_by_digest(session), stream)
                    && let Some(stream) = session.with_streams(|streams, _| streams.find(stream))
                {
                    stream.add_follower(replica.clone());
                    // The client reads the stream there.
                    stream.attach_reader();
                }
            }
            ReplicaMessage::PushStreamTaken { session } => {
                if let Some(session) = self.session_by_digest(session)
                    && let Some(shared) = &session.shared
                {
                    session.connection.set_push_active(false);
                    // The next request tells which replica has it.
                    let elsewhere = PushStream { replica: String::new(), delivered: 0 };
                    shared.set_push(Some(elsewhere));
                    self.logs.wake_followers(&super::push_log::push_log_key(&shared.digest));
                }
            }
            ReplicaMessage::SubscriptionChanged { session, uri, subscribed } => {
                if let Some(session) = self.session_by_digest(session) {
                    match subscribed {
                        true => session.connection.subscribe_restored(uri.clone()),
                        false => session.connection.unsubscribe(uri),
                    }
                }
            }
            ReplicaMessage::HttpSseMessage { session, message, scopes } => {
                let (state, session, message) = (self.clone(), session.clone(), message.clone());
                let scopes = scopes.clone();
                return Box::pin(async move {
                    http_sse_endpoints::handle_forwarded(&state, &session, message.as_bytes(), &scopes).await;
                });
            }
            ReplicaMessage::ListsChanged { .. }
            | ReplicaMessage::ResourceUpdated { .. }
            | ReplicaMessage::ReplicaStopped { .. } => {}
        }
        done()
    }
}

fn done() -> MessageWork {
    Box::pin(std::future::ready(()))
}
