//! From a server to the clients on the near side: what it says, and what it asks.

use std::sync::{Arc, Weak};

use tsugite_core::jsonrpc::{ErrorObject, Raw, RawJson, write};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::{Level, Log};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{Meta, NotificationMethod, OrderedMap, meta, prompts, resources, tools};
use tsugite_core::revision::{
    Revision, RpcError, translate_raw_error, translate_raw_input_response, translate_raw_notification,
    translate_raw_params,
};

use super::upstream::{Downstream, InFlightCall, ReplyTarget, Upstream, unsupported_error};
use super::{name_mapping, session_state};
use crate::client::upstream_observer::{BoxFuture, RequestResult, UpstreamObserver};
use crate::lock::lock;
use crate::server::ask::send_raw_request;
use crate::server::connection::ServerConnection;
use crate::shared::outbound_queue::OutboundQueue;

/// Hears a server for a connection.
pub(super) struct UpstreamEvents(pub(super) Weak<Upstream>);

impl UpstreamObserver for UpstreamEvents {
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>) {
        let Some(far) = self.0.upgrade() else { return };
        let Some(from) = far.revision() else { return };
        let (bare, params) = (params.is_none(), params.unwrap_or(EMPTY_PARAMS));
        let heard = UpstreamNotification { upstream: &far, from, method, params, no_params: bare };
        match method {
            Progress::NAME => heard.forward_progress(call),
            Log::NAME => heard.forward_log(call),
            // It names a request by the id it has there; whoever asks here withdraws the question by itself.
            Cancelled::NAME => {}
            _ => heard.forward(call),
        }
    }

    fn on_request(&self, method: String, params: RawJson, call: Option<i64>) -> BoxFuture<RequestResult> {
        let far = Weak::clone(&self.0);
        Box::pin(async move { forward_request(&far, &method, &params, call).await })
    }

    fn wait_for_capacity(&self) -> Option<BoxFuture<()>> {
        let far = self.0.upgrade()?;
        if !matches!(far.downstream, Downstream::Session(..)) {
            // A client without a session must not hold up the others; what it does not read is not kept for it.
            return None;
        }
        let outbox = far.full_queue()?;
        Some(Box::pin(async move { outbox.wait_for_capacity().await }))
    }

    fn on_disconnect(&self, seen: &str) {
        if let Some(far) = self.0.upgrade() {
            far.mark_disconnected(seen);
        }
    }

    fn on_reconnect(&self) {
        if let Some(far) = self.0.upgrade() {
            far.mark_connected();
            session_state::restore_session(&far);
        }
        self.notify_all_changed();
    }
}

impl UpstreamEvents {
    /// Nobody knows what has changed meanwhile.
    pub(super) fn notify_all_changed(&self) {
        let Some(far) = self.0.upgrade() else { return };
        let Some(from) = far.revision() else { return };
        for method in [tools::ListChanged::NAME, prompts::ListChanged::NAME, resources::ListChanged::NAME] {
            UpstreamNotification { upstream: &far, from, method, params: EMPTY_PARAMS, no_params: true }
                .forward(None);
        }
    }
}

/// Something a server said.
struct UpstreamNotification<'a> {
    upstream: &'a Arc<Upstream>,
    from: Revision,
    method: &'a str,
    params: Raw<'a>,
    /// Whether it came without params.
    no_params: bool,
}

impl UpstreamNotification<'_> {
    /// Progress goes to whoever asked, under that one's token.
    fn forward_progress(&self, call: Option<i64>) {
        let Some(flight) = self.upstream.in_flight(call) else { return };
        let Some(place) = flight.progress_target(self.from, self.params) else { return };
        if let Some(params) = with_progress_token(&place, self.params) {
            self.push_to_request(&place.outbox, flight.revision, Raw::from(&params));
        }
    }

    /// Logs go to the request they belong to, as far as that can be told, or to the session.
    fn forward_log(&self, call: Option<i64>) {
        #[derive(serde::Deserialize)]
        struct LogLevelField {
            level: Level,
        }
        // Where it is not said whose they are, they are nobody's unless there is but one request: a call that is parked
        // counts, though nobody hears it.
        let flight = self.upstream.in_flight(call).or_else(|| self.upstream.only_in_flight(|_| true));
        match &self.upstream.downstream {
            Downstream::Session(link, revision) => match flight.and_then(|flight| flight.reply_target()) {
                Some(place) => self.push_to_request(&place.outbox, *revision, self.params),
                None => self.push_to_session(link, *revision, self.params),
            },
            // A request without a session says which logs it wants, and hears no others.
            Downstream::Stateless => {
                let Some(flight) = flight else { return };
                let Some(ReplyTarget { outbox, log_level: Some(least), .. }) = flight.reply_target() else {
                    return;
                };
                if self.params.read::<LogLevelField>().is_ok_and(|said| said.level >= least) {
                    self.push(&outbox, flight.revision, self.params);
                }
            }
        }
    }

    /// What changed, and whatever else a server says.
    fn forward(&self, call: Option<i64>) {
        let named = name_mapping::prefix_notification(&self.upstream.target, self.method, self.params);
        let params = named.as_ref().map_or(self.params, Raw::from);
        let flight = match &self.upstream.downstream {
            // Without a session changes are told to whoever listens, wherever an older server tells them.
            Downstream::Stateless if self.is_change() && !self.from.is_stateless() => None,
            // What nobody knows, and does not say to which request it belongs, belongs to the only one there is.
            Downstream::Stateless if !self.is_change() => {
                self.upstream.in_flight(call).or_else(|| self.upstream.only_in_flight(|_| true))
            }
            _ => self.upstream.in_flight(call),
        };
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
                for one in listening {
                    if one.matches(self.method, params) {
                        let marked = set_subscription_id(params, &one.reply_target);
                        self.push(
                            &one.reply_target.outbox,
                            one.revision,
                            marked.as_ref().map_or(params, Raw::from),
                        );
                    }
                }
            }
        }
    }

    /// Whether it is what clients without a session subscribe to.
    fn is_change(&self) -> bool {
        let changes = [
            tools::ListChanged::NAME,
            prompts::ListChanged::NAME,
            resources::ListChanged::NAME,
            resources::Updated::NAME,
        ];
        changes.contains(&self.method)
    }

    /// Says what belongs to no request. A client that was not greeted yet, or has not said that it is ready, hears it
    /// then.
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
                false => tracing::debug!(method = self.method, "a client is not ready to be told"),
            }
            return;
        }
        *early = Some(vec![bytes]);
        let (far, link) = (Arc::downgrade(self.upstream), Weak::clone(link));
        tokio::spawn(async move {
            let ready = ServerConnection::wait_until_ready(&link).await;
            let (Some(()), Some(far), Some(link)) = (ready, far.upgrade(), link.upgrade()) else { return };
            let mut early = lock(&far.queued_notifications);
            early.take().into_iter().flatten().for_each(|bytes| link.outbox().push_coalesced(bytes));
        });
    }

    /// Says what belongs to a request under way. A client with a session that is too far behind makes its server wait
    /// ([`UpstreamObserver::full`]), so nothing of what was read until then is left out.
    fn push_to_request(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        match &self.upstream.downstream {
            Downstream::Stateless => self.push(outbox, to, params),
            Downstream::Session(..) => {
                let Some(bytes) = self.encode(to, params) else { return };
                outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
    }

    /// Says it the way `to` does, or not at all. What a client does not read is not kept for it without end.
    fn push(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        let Some(bytes) = self.encode(to, params) else { return };
        match outbox.is_full() && (!self.is_change() || outbox.is_coalesced_full()) {
            true => tracing::debug!(method = self.method, "a client is too far behind to be told"),
            false => outbox.push_coalesced(bytes),
        }
    }

    fn encode(&self, to: Revision, params: Raw<'_>) -> Option<Vec<u8>> {
        encode_notification(self.method, params, self.no_params, self.from, to)
    }
}

/// Progress as a client hears it.
pub(super) fn encode_progress(
    place: &ReplyTarget,
    from: Revision,
    to: Revision,
    params: Raw<'_>,
) -> Option<Vec<u8>> {
    let params = with_progress_token(place, params)?;
    encode_notification(Progress::NAME, Raw::from(&params), false, from, to)
}

/// A notification the way `to` says it. One that came `no_params` has no params, if there is nothing in them.
fn encode_notification(
    method: &str,
    params: Raw<'_>,
    bare: bool,
    from: Revision,
    to: Revision,
) -> Option<Vec<u8>> {
    let params = translate_raw_notification(method, params, from, to).ok()?;
    let mut bytes = Vec::with_capacity(128);
    let sent = (!bare || params.text() != "{}").then_some(&params);
    write::notification(&mut bytes, method, sent).ok()?;
    Some(bytes)
}

/// The params of progress, under the token of whoever asked; none if it wants to hear of none.
fn with_progress_token(place: &ReplyTarget, params: Raw<'_>) -> Option<RawJson> {
    let token = RawJson::from_value(place.progress_token.as_ref()?).ok()?;
    let mut params = params.read::<OrderedMap<RawJson>>().ok()?;
    params.insert("progressToken", token);
    RawJson::from_value(&params).ok()
}

/// What a server says on a subscription names the one of the client, if it names one at all.
fn replace_subscription_id(params: Raw<'_>, place: &ReplyTarget) -> Option<RawJson> {
    #[derive(serde::Deserialize)]
    struct MetaField {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    params.read::<MetaField>().ok()?.meta.get(meta::SUBSCRIPTION_ID)?;
    set_subscription_id(params, place)
}

/// The same with the name of a subscription on it.
pub(super) fn set_subscription_id(params: Raw<'_>, place: &ReplyTarget) -> Option<RawJson> {
    let mut params: OrderedMap<RawJson> = params.read().ok()?;
    let mut meta: Meta = match params.get("_meta") {
        Some(meta) => meta.read().ok()?,
        None => Meta::new(),
    };
    meta.set_subscription_id(&place.id);
    params.insert("_meta", RawJson::from_value(&meta).ok()?);
    RawJson::from_value(&params).ok()
}

/// Asks whoever made the call the server is working on. The connection is not kept for it: a question that nobody answers
/// ends with it.
async fn forward_request(
    far: &Weak<Upstream>,
    method: &str,
    params: &RawJson,
    call: Option<i64>,
) -> RequestResult {
    let up = far.upgrade().ok_or_else(client_gone_error)?;
    // A server may ask as soon as it is greeted, before we know that it is there.
    up.wait_first_connected().await;
    let from = up.revision().ok_or_else(client_gone_error)?;
    let waits = |flight: &InFlightCall| match up.downstream {
        Downstream::Session(..) => flight.reply_target().is_some(),
        // Only calls that may be asked, of which a connection has one at a time.
        Downstream::Stateless => flight.suspendable.is_some(),
    };
    let flight = up.in_flight(call).or_else(|| up.only_in_flight(waits));
    let (link, to) = match &up.downstream {
        Downstream::Session(link, to) => (Weak::clone(link), *to),
        Downstream::Stateless => {
            drop(up);
            return match flight.and_then(|flight| flight.suspendable.clone()) {
                Some(parking) => parking.request_input(method, params, from).await,
                None => Err(RpcError::internal_with_message(
                    "the bridge cannot tell for which call this is asked",
                )
                .to_error_object(from)),
            };
        }
    };
    drop(up);
    ServerConnection::wait_until_ready(&link).await.ok_or_else(client_gone_error)?;
    let asked = translate_raw_params(method, Raw::from(params), from, to);
    let asked = asked.map_err(|unsayable| unsupported_error(&unsayable, method).to_error_object(from))?;
    let (questions, outbox) = {
        let link = link.upgrade().ok_or_else(client_gone_error)?;
        let place = flight.and_then(|flight| flight.reply_target());
        let outbox = place.map_or_else(|| link.outbox().clone(), |place| place.outbox);
        (link.outgoing_requests().clone(), outbox)
    };
    match send_raw_request(&questions, &outbox, to, method, &asked).await.ok_or_else(client_gone_error)? {
        Ok(answer) => translate_raw_input_response(method, Raw::from(&answer), to, from)
            .map_err(|unsayable| unsupported_error(&unsayable, method).to_error_object(from)),
        Err(error) => Err(translate_raw_error(error, method, to, from)),
    }
}

/// Bytes that wait for a client to be ready.
const MAX_QUEUED_BYTES: usize = 64 << 10;
/// What no params at all stand for.
const EMPTY_PARAMS: Raw<'static> = Raw::empty_object();

fn client_gone_error() -> ErrorObject {
    RpcError::internal_with_message("the client is gone").to_error_object(Revision::NEWEST)
}
