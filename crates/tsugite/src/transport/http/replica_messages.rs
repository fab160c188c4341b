//! Messages of other replicas, as the HTTP transport receives them.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::{Id, Incoming, Message, parse};

use super::event_stream::{EventStream, PUSH_STREAM, log_key};
use super::http_sse_endpoints;
use super::http_state::HttpState;
use super::shared_sessions::recover_sessions;
use crate::error::Chain;
use crate::replica::{MessageWork, ReceivedMessage, ReplicaMessage};
use crate::shared::log;
use crate::store::Recipient;

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
                    let sessions = state.active_sessions().iter().map(Arc::downgrade).collect();
                    Box::pin(recover_sessions(Arc::downgrade(&state), sessions))
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
                        session.connection.outgoing_requests().receive_answer(response)
                    }
                    _ => None,
                };
                let delivered = delivered.or_else(|| self.answer_claimed_text(session, response.as_bytes()));
                if let Some(settled) = delivered {
                    // Until then the store keeps the message for a replica that claims the call.
                    return Box::pin(async move {
                        settled.wait(LONGEST_HANDLING).await;
                    });
                }
            }
            ReplicaMessage::RequestCancelled { session, request, reason } => {
                if self.cancel_claimed(session, request) {
                    return done();
                }
                let id: Option<Id<'static>> = serde_json::from_str(request).ok();
                if let (Some(session), Some(id)) = (self.session_by_digest(session), id) {
                    session.connection.cancel_request(&id, reason.clone());
                }
            }
            ReplicaMessage::EventsAppended { session, stream } => {
                let Ok(stream) = u128::from_str_radix(stream, 16) else { return done() };
                self.logs.wake_followers(&log_key(session, stream));
                if stream == PUSH_STREAM {
                    return self.forward_to_push_reader(session, message);
                }
            }
            ReplicaMessage::StreamFollowed { session, stream, replica } => {
                let Ok(number) = u128::from_str_radix(stream, 16) else { return done() };
                self.logs.end_followers(&log_key(session, number));
                if let Some(local) = self.session_by_digest(session)
                    && let Some(stream) = local.with_streams(|streams, _| streams.find(number))
                {
                    return self.follow_elsewhere(&stream, replica.clone(), message.clone());
                }
            }
            ReplicaMessage::PushStreamTaken { session, replica } => {
                let Some(session) = self.session_by_digest(session) else { return done() };
                // This replica may have taken the stream back since the message was sent: the store knows.
                let (state, by) = (self.clone(), replica.clone());
                return Box::pin(async move {
                    if !state.reread_session(&session).await {
                        state.push_stream_taken(&session, &by);
                    }
                });
            }
            ReplicaMessage::SubscriptionChanged { session, uri, subscribed } => {
                let Some(local) = self.session_by_digest(session) else { return done() };
                match subscribed {
                    true => local.connection.subscribe_restored(uri.clone()),
                    false => local.connection.unsubscribe(uri),
                }
                return self.forward_to_push_reader(session, message);
            }
            ReplicaMessage::HttpSseMessage { session, message, scopes, expires_at } => {
                let (state, session, message) = (self.clone(), session.clone(), message.clone());
                let (scopes, expires_at) = (scopes.clone(), *expires_at);
                return Box::pin(async move {
                    let bytes = message.as_bytes();
                    http_sse_endpoints::handle_forwarded(&state, &session, bytes, &scopes, expires_at).await;
                });
            }
            ReplicaMessage::ListsChanged { .. }
            | ReplicaMessage::ResourceUpdated { .. }
            | ReplicaMessage::TaskChanged { .. }
            | ReplicaMessage::ReplicaStopped { .. } => {}
        }
        done()
    }

    /// Passes a message on to the replica that has the stream of a session, if the sender did not know of it yet. The store
    /// says which one it is, so that no message goes back and forth.
    fn forward_to_push_reader(self: &Arc<Self>, session: &str, message: &ReplicaMessage) -> MessageWork {
        let Some(session) = self.session_by_digest(session) else { return done() };
        if self.other_push_reader(&session).is_none() {
            return done();
        }
        let (state, message) = (self.clone(), message.clone());
        Box::pin(async move {
            state.reread_session(&session).await;
            if let Some(reader) = state.other_push_reader(&session) {
                state.send_messages(vec![reader], message).await;
            }
        })
    }

    /// Lets another replica send a stream of this one to the client. The readers before it end.
    fn follow_elsewhere(
        self: &Arc<Self>,
        stream: &EventStream,
        replica: String,
        followed: ReplicaMessage,
    ) -> MessageWork {
        let before = stream.other_reader.set(Some(replica.clone()));
        stream.attach_reader();
        let (state, log) = (self.clone(), stream.log_key.clone());
        let before: Vec<_> = before.into_iter().filter(|before| *before != replica).collect();
        let ended = self.send_messages(before, followed.clone());
        // Events may have been appended since the other replica looked.
        let appended = match followed {
            ReplicaMessage::StreamFollowed { session, stream, .. } => {
                Some(ReplicaMessage::EventsAppended { session, stream })
            }
            _ => None,
        };
        let told = appended.map(|appended| state.send_messages(vec![replica], appended));
        Box::pin(async move {
            ended.await;
            if let Some(told) = told {
                told.await;
            }
            state.logs.wake_followers(&log);
        })
    }

    /// Sends a message to replicas. They look by themselves after a while if that fails.
    fn send_messages(self: &Arc<Self>, to: Vec<String>, message: ReplicaMessage) -> MessageWork {
        let state = self.clone();
        Box::pin(async move {
            let Some(replica) = &state.replica else { return };
            for to in &to {
                if let Some(write) = replica.send(Recipient::Replica(to), &message)
                    && let Err(error) = state.store.commit(&[write]).await
                {
                    log::warn!(error = %Chain(&*error), "another replica was not told");
                }
            }
        })
    }
}

/// How long an answer may keep messages in the store, if its handler does not take it.
const LONGEST_HANDLING: Duration = Duration::from_secs(60);

fn done() -> MessageWork {
    Box::pin(std::future::ready(()))
}
