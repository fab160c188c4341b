//! Notifications and requests of a server, forwarded to the client they are for.

use std::sync::{Arc, Weak};

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::{Level, Log};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::raw_tasks::related_task;
use tsugite_core::protocol::tasks::{StatusChanged, StatusParams};
use tsugite_core::protocol::{NotificationMethod, prompts, resources, tools};
use tsugite_core::revision::Revision;

use super::client_request::ReplyTarget;
use super::notification_encoding::{
    encode_notification, replace_subscription_id, set_subscription_id, with_progress_token,
};
use super::pairing::ServerRequest;
use super::upstream::{Downstream, Upstream};
use super::upstream_listener::UpstreamListener;
use super::{name_mapping, pairing};
use crate::client::upstream_observer::{BoxFuture, RequestResult, RequestSource, UpstreamObserver};
use crate::lock::lock;
use crate::server::connection::ServerConnection;
use crate::shared::outbound_queue::OutboundQueue;

/// Receives the notifications and requests of a server for one connection.
pub(super) struct UpstreamEvents(pub(super) Weak<Upstream>);

impl UpstreamObserver for UpstreamEvents {
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>) {
        let Some(upstream) = self.0.upgrade() else { return };
        let Some(from) = upstream.revision() else { return };
        let (bare, params) = (params.is_none(), params.unwrap_or(EMPTY_PARAMS));
        let heard = UpstreamNotification { upstream: &upstream, from, method, params, no_params: bare };
        match method {
            Progress::NAME => heard.forward_progress(call),
            Log::NAME => heard.forward_log(call),
            // The client of this crate handles it: the question is cancelled by dropping its future.
            Cancelled::NAME => {}
            StatusChanged::NAME if upstream.is_stateless_downstream() => heard.wake_task(),
            _ => heard.forward(call),
        }
    }

    fn on_request(&self, method: String, params: RawJson, source: RequestSource) -> BoxFuture<RequestResult> {
        let upstream = Weak::clone(&self.0);
        Box::pin(async move {
            let request = ServerRequest { method: &method, params: &params, source };
            pairing::forward_server_request(&upstream, request).await
        })
    }

    fn wait_for_capacity(&self) -> Option<BoxFuture<()>> {
        let upstream = self.0.upgrade()?;
        if !matches!(upstream.downstream, Downstream::Session(..)) {
            // A slow client without a session must not hold up the others: its messages are dropped instead.
            return None;
        }
        let outbox = upstream.in_flight.full_queue()?;
        Some(Box::pin(async move { outbox.wait_for_capacity().await }))
    }

    fn on_disconnect(&self, seen: &str) {
        if let Some(upstream) = self.0.upgrade() {
            upstream.mark_disconnected(seen);
        }
    }

    fn on_reconnect(&self) {
        if let Some(upstream) = self.0.upgrade() {
            upstream.mark_connected();
            pairing::restore_session(&upstream);
        }
        self.notify_all_changed();
    }
}

impl UpstreamEvents {
    /// Reports every list as changed: it is unknown what changed while the server was away.
    pub(super) fn notify_all_changed(&self) {
        self.for_each_list(|changed| changed.forward(None));
    }

    /// Reports every list as changed to one listener, whose subscription was interrupted.
    pub(super) fn notify_listener(&self, listener: &UpstreamListener) {
        self.for_each_list(|changed| changed.push_to_listener(listener, EMPTY_PARAMS));
    }

    fn for_each_list(&self, report: impl Fn(&UpstreamNotification<'_>)) {
        let Some(upstream) = self.0.upgrade() else { return };
        let Some(from) = upstream.revision() else { return };
        for method in [tools::ListChanged::NAME, prompts::ListChanged::NAME, resources::ListChanged::NAME] {
            let (upstream, params) = (&upstream, EMPTY_PARAMS);
            report(&UpstreamNotification { upstream, from, method, params, no_params: true });
        }
    }
}

/// A notification of a server.
struct UpstreamNotification<'a> {
    upstream: &'a Arc<Upstream>,
    from: Revision,
    method: &'a str,
    params: Raw<'a>,
    /// Whether it has no params.
    no_params: bool,
}

impl UpstreamNotification<'_> {
    /// Forwards progress to the request it belongs to, under the client's token.
    fn forward_progress(&self, call: Option<i64>) {
        let Some(flight) = self.upstream.in_flight.get(call) else { return };
        let Some(place) = flight.progress_target(self.from, self.params) else { return };
        if let Some(params) = with_progress_token(&place, self.params) {
            self.push_to_request(&place.outbox, flight.revision, Raw::from(&params));
        }
    }

    /// Forwards a log message to the request it belongs to, if that is known, else to the session.
    fn forward_log(&self, call: Option<i64>) {
        #[derive(serde::Deserialize)]
        struct LogLevelField {
            level: Level,
        }
        // A message that names no request belongs to the only one in flight. A suspended call counts as one, though its
        // client is away.
        let flight = self.upstream.in_flight.get(call).or_else(|| self.upstream.in_flight.only(|_| true));
        match &self.upstream.downstream {
            Downstream::Session(link, revision) => match flight.and_then(|flight| flight.reply_target()) {
                Some(place) => self.push_to_request(&place.outbox, *revision, self.params),
                None => self.push_to_session(link, *revision, self.params),
            },
            // A request without a session says which log level it wants.
            Downstream::Stateless => {
                // Clients of this era get no messages of tasks.
                let Some(flight) = flight.filter(|_| related_task(self.params).is_none()) else { return };
                let Some(ReplyTarget { outbox, log_level: Some(least), .. }) = flight.reply_target() else {
                    return;
                };
                if self.params.read::<LogLevelField>().is_ok_and(|params| params.level >= least) {
                    self.push(&outbox, flight.revision, self.params);
                }
            }
        }
    }

    /// Wakes those who wait for a change of a task. The client has another form of this notification.
    fn wake_task(&self) {
        let changed = self.params.read::<StatusParams>().ok();
        let questions = changed.and_then(|changed| self.upstream.task_questions.get(&changed.task.task_id));
        if let Some(questions) = questions {
            questions.wake();
        }
    }

    /// Forwards any other notification: to the request it belongs to, else to the session or the listen streams.
    fn forward(&self, call: Option<i64>) {
        let named = name_mapping::prefix_notification(&self.upstream.target, self.method, self.params);
        let params = named.as_ref().map_or(self.params, Raw::from);
        let flight = pairing::notified_call(self.upstream, self.from, self.is_change(), call);
        if let Some(flight) = flight
            && let Some(place) = flight.reply_target()
        {
            let marked = replace_subscription_id(params, &place);
            let params = marked.as_ref().map_or(params, Raw::from);
            return self.push_to_request(&place.outbox, flight.revision, params);
        }
        match &self.upstream.downstream {
            Downstream::Session(link, revision) => {
                self.push_to_session(link, *revision, params);
            }
            Downstream::Stateless => {
                let listening: Vec<_> =
                    lock(&self.upstream.listeners).iter().filter_map(Weak::upgrade).collect();
                let subscription = pairing::reporting_subscription(self.from, call);
                for entry in listening.iter().filter(|entry| entry.has_subscription(subscription)) {
                    self.push_to_listener(&entry.listener, params);
                }
            }
        }
    }

    /// Sends it to a listener that wants it.
    fn push_to_listener(&self, listener: &UpstreamListener, params: Raw<'_>) {
        if listener.matches(self.method, params) {
            let target = &listener.reply_target;
            let marked = set_subscription_id(params, target);
            self.push(&target.outbox, listener.revision, marked.as_ref().map_or(params, Raw::from));
        }
    }

    /// Whether clients without a session receive it only on listen streams.
    fn is_change(&self) -> bool {
        let changes = [
            tools::ListChanged::NAME,
            prompts::ListChanged::NAME,
            resources::ListChanged::NAME,
            resources::Updated::NAME,
        ];
        changes.contains(&self.method)
    }

    /// Sends what belongs to no request. It is queued until the client has completed the handshake.
    fn push_to_session(&self, link: &Weak<ServerConnection>, to: Revision, params: Raw<'_>) {
        let Some(up) = link.upgrade() else { return };
        let mut early = lock(&self.upstream.queued_notifications);
        if early.is_none() && up.is_ready() {
            drop(early);
            return self.push(up.outbox(), to, params);
        }
        let Some(bytes) = self.encode(to, params) else { return };
        if let Some(early) = &mut *early {
            match early.iter().map(Vec::len).sum::<usize>() + bytes.len() <= MAX_QUEUED_BYTES {
                true => early.push(bytes),
                false => tracing::debug!(
                    method = self.method,
                    "a notification was dropped: the client is not ready"
                ),
            }
            return;
        }
        *early = Some(vec![bytes]);
        let (upstream, link) = (Arc::downgrade(self.upstream), Weak::clone(link));
        tokio::spawn(async move {
            let ready = ServerConnection::wait_until_ready(&link).await;
            let (Some(()), Some(upstream), Some(link)) = (ready, upstream.upgrade(), link.upgrade()) else {
                return;
            };
            let mut early = lock(&upstream.queued_notifications);
            early.take().into_iter().flatten().for_each(|bytes| link.outbox().push_coalesced(bytes));
        });
    }

    /// Sends what belongs to a request in flight. Nothing is dropped for a client with a session: a slow one makes its
    /// server wait ([`UpstreamObserver::wait_for_capacity`]).
    fn push_to_request(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        match &self.upstream.downstream {
            Downstream::Stateless => self.push(outbox, to, params),
            Downstream::Session(..) => {
                let Some(bytes) = self.encode(to, params) else { return };
                outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
    }

    /// Sends it in revision `to`, if that has it. It is dropped if the client's queue is full.
    fn push(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        let Some(bytes) = self.encode(to, params) else { return };
        match outbox.is_full() && (!self.is_change() || outbox.is_coalesced_full()) {
            true => tracing::debug!(
                method = self.method,
                "a notification was dropped: the queue of the client is full"
            ),
            false => outbox.push_coalesced(bytes),
        }
    }

    fn encode(&self, to: Revision, params: Raw<'_>) -> Option<Vec<u8>> {
        encode_notification(self.method, params, self.no_params, self.from, to)
    }
}

/// Bytes that may be queued until a client is ready.
const MAX_QUEUED_BYTES: usize = 64 << 10;
/// The params of a notification that has none.
const EMPTY_PARAMS: Raw<'static> = Raw::empty_object();
