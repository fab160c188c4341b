//! From a server to the clients on the near side: what it says, and what it asks.

use std::sync::{Arc, Weak};

use tsugite_core::jsonrpc::{ErrorObject, Raw, RawJson, write};
use tsugite_core::protocol::cancellation::Cancelled;
use tsugite_core::protocol::logging::{Level, Log};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{Meta, NotificationMethod, OrderedMap, meta, prompts, resources, tools};
use tsugite_core::revision::{RpcError, Revision, translate_raw_input_response, translate_raw_error, translate_raw_notification, translate_raw_params};

use super::far::{Far, InFlight, Near, Place, unsaid};
use super::{names, told};
use crate::client::upstream_observer::{RequestResult, BoxFuture, UpstreamObserver};
use crate::lock::lock;
use crate::server::ask::send_raw_request;
use crate::server::connection::ServerConnection;
use crate::transport::outbound_queue::OutboundQueue;

/// Hears a server for a connection.
pub(super) struct FarTap(pub(super) Weak<Far>);

impl UpstreamObserver for FarTap {
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>) {
        let Some(far) = self.0.upgrade() else { return };
        let Some(from) = far.revision() else { return };
        let (bare, params) = (params.is_none(), params.unwrap_or(EMPTY));
        let heard = Heard { far: &far, from, method, params, bare };
        match method {
            Progress::NAME => heard.progress(call),
            Log::NAME => heard.log(call),
            // It names a request by the id it has there; whoever asks here withdraws the question by itself.
            Cancelled::NAME => {}
            _ => heard.news(call),
        }
    }

    fn on_request(&self, method: String, params: RawJson, call: Option<i64>) -> BoxFuture<RequestResult> {
        let far = Weak::clone(&self.0);
        Box::pin(async move { ask(&far, &method, &params, call).await })
    }

    fn wait_for_capacity(&self) -> Option<BoxFuture<()>> {
        let far = self.0.upgrade()?;
        if !matches!(far.near, Near::Session(..)) {
            // A client without a session must not hold up the others; what it does not read is not kept for it.
            return None;
        }
        let outbox = far.full_place()?;
        Some(Box::pin(async move { outbox.wait_for_capacity().await }))
    }

    fn on_disconnect(&self, seen: &str) {
        if let Some(far) = self.0.upgrade() {
            far.lost(seen);
        }
    }

    fn on_reconnect(&self) {
        if let Some(far) = self.0.upgrade() {
            far.is_up();
            told::again(&far);
        }
        self.everything_changed();
    }
}

impl FarTap {
    /// Nobody knows what has changed meanwhile.
    pub(super) fn everything_changed(&self) {
        let Some(far) = self.0.upgrade() else { return };
        let Some(from) = far.revision() else { return };
        for method in [tools::ListChanged::NAME, prompts::ListChanged::NAME, resources::ListChanged::NAME] {
            Heard { far: &far, from, method, params: EMPTY, bare: true }.news(None);
        }
    }
}

/// Something a server said.
struct Heard<'a> {
    far: &'a Arc<Far>,
    from: Revision,
    method: &'a str,
    params: Raw<'a>,
    /// Whether it came without params.
    bare: bool,
}

impl Heard<'_> {
    /// Progress goes to whoever asked, under that one's token.
    fn progress(&self, call: Option<i64>) {
        let Some(flight) = self.far.flight(call) else { return };
        let Some(place) = flight.place_for_progress(self.from, self.params) else { return };
        if let Some(params) = with_token(&place, self.params) {
            self.push_to_request(&place.outbox, flight.revision, Raw::from(&params));
        }
    }

    /// Logs go to the request they belong to, as far as that can be told, or to the session.
    fn log(&self, call: Option<i64>) {
        #[derive(serde::Deserialize)]
        struct Said {
            level: Level,
        }
        // Where it is not said whose they are, they are nobody's unless there is but one request: a call that is parked
        // counts, though nobody hears it.
        let flight = self.far.flight(call).or_else(|| self.far.only_flight(|_| true));
        match &self.far.near {
            Near::Session(link, revision) => match flight.and_then(|flight| flight.place()) {
                Some(place) => self.push_to_request(&place.outbox, *revision, self.params),
                None => self.push_to_session(link, *revision, self.params),
            },
            // A request without a session says which logs it wants, and hears no others.
            Near::Everybody => {
                let Some(flight) = flight else { return };
                let Some(Place { outbox, logs: Some(least), .. }) = flight.place() else { return };
                if self.params.read::<Said>().is_ok_and(|said| said.level >= least) {
                    self.push(&outbox, flight.revision, self.params);
                }
            }
        }
    }

    /// What changed, and whatever else a server says.
    fn news(&self, call: Option<i64>) {
        let named = names::outward_notice(&self.far.target, self.method, self.params);
        let params = named.as_ref().map_or(self.params, Raw::from);
        let flight = match &self.far.near {
            // Without a session changes are told to whoever listens, wherever an older server tells them.
            Near::Everybody if self.is_change() && !self.from.is_stateless() => None,
            // What nobody knows, and does not say to which request it belongs, belongs to the only one there is.
            Near::Everybody if !self.is_change() => {
                self.far.flight(call).or_else(|| self.far.only_flight(|_| true))
            }
            _ => self.far.flight(call),
        };
        if let Some(flight) = flight
            && let Some(place) = flight.place()
        {
            let marked = with_subscription(params, &place);
            let params = marked.as_ref().map_or(params, Raw::from);
            return self.push_to_request(&place.outbox, flight.revision, params);
        }
        match &self.far.near {
            Near::Session(link, revision) => {
                self.push_to_session(link, *revision, params);
            }
            Near::Everybody => {
                let listening: Vec<_> = lock(&self.far.listening).iter().filter_map(Weak::upgrade).collect();
                for one in listening {
                    if one.wants(self.method, params) {
                        let marked = mark(params, &one.place);
                        self.push(&one.place.outbox, one.revision, marked.as_ref().map_or(params, Raw::from));
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
        let mut early = lock(&self.far.early);
        if early.is_none() && up.is_ready() {
            drop(early);
            return self.push(up.outbox(), to, params);
        }
        let Some(bytes) = self.written(to, params) else { return };
        if let Some(early) = &mut *early {
            match early.iter().map(Vec::len).sum::<usize>() + bytes.len() <= EARLY {
                true => early.push(bytes),
                false => tracing::debug!(method = self.method, "a client is not ready to be told"),
            }
            return;
        }
        *early = Some(vec![bytes]);
        let (far, link) = (Arc::downgrade(self.far), Weak::clone(link));
        tokio::spawn(async move {
            let ready = ServerConnection::wait_until_ready(&link).await;
            let (Some(()), Some(far), Some(link)) = (ready, far.upgrade(), link.upgrade()) else { return };
            let mut early = lock(&far.early);
            early.take().into_iter().flatten().for_each(|bytes| link.outbox().push_coalesced(bytes));
        });
    }

    /// Says what belongs to a request under way. A client with a session that is too far behind makes its server wait
    /// ([`UpstreamObserver::full`]), so nothing of what was read until then is left out.
    fn push_to_request(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        match &self.far.near {
            Near::Everybody => self.push(outbox, to, params),
            Near::Session(..) => {
                let Some(bytes) = self.written(to, params) else { return };
                outbox.push(|out| out.extend_from_slice(&bytes));
            }
        }
    }

    /// Says it the way `to` does, or not at all. What a client does not read is not kept for it without end.
    fn push(&self, outbox: &OutboundQueue, to: Revision, params: Raw<'_>) {
        let Some(bytes) = self.written(to, params) else { return };
        match outbox.is_full() && (!self.is_change() || outbox.is_coalesced_full()) {
            true => tracing::debug!(method = self.method, "a client is too far behind to be told"),
            false => outbox.push_coalesced(bytes),
        }
    }

    fn written(&self, to: Revision, params: Raw<'_>) -> Option<Vec<u8>> {
        written(self.method, params, self.bare, self.from, to)
    }
}

/// Progress as a client hears it.
pub(super) fn progress(place: &Place, from: Revision, to: Revision, params: Raw<'_>) -> Option<Vec<u8>> {
    let params = with_token(place, params)?;
    written(Progress::NAME, Raw::from(&params), false, from, to)
}

/// A notification the way `to` says it. One that came `bare` has no params, if there is nothing in them.
fn written(method: &str, params: Raw<'_>, bare: bool, from: Revision, to: Revision) -> Option<Vec<u8>> {
    let params = translate_raw_notification(method, params, from, to).ok()?;
    let mut bytes = Vec::with_capacity(128);
    let sent = (!bare || params.text() != "{}").then_some(&params);
    write::notification(&mut bytes, method, sent).ok()?;
    Some(bytes)
}

/// The params of progress, under the token of whoever asked; none if it wants to hear of none.
fn with_token(place: &Place, params: Raw<'_>) -> Option<RawJson> {
    let token = RawJson::from_value(place.token.as_ref()?).ok()?;
    let mut params = params.read::<OrderedMap<RawJson>>().ok()?;
    params.insert("progressToken", token);
    RawJson::from_value(&params).ok()
}

/// What a server says on a subscription names the one of the client, if it names one at all.
fn with_subscription(params: Raw<'_>, place: &Place) -> Option<RawJson> {
    #[derive(serde::Deserialize)]
    struct Said {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    params.read::<Said>().ok()?.meta.get(meta::SUBSCRIPTION_ID)?;
    mark(params, place)
}

/// The same with the name of a subscription on it.
pub(super) fn mark(params: Raw<'_>, place: &Place) -> Option<RawJson> {
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
async fn ask(far: &Weak<Far>, method: &str, params: &RawJson, call: Option<i64>) -> RequestResult {
    let up = far.upgrade().ok_or_else(gone)?;
    // A server may ask as soon as it is greeted, before we know that it is there.
    up.greeted().await;
    let from = up.revision().ok_or_else(gone)?;
    let waits = |flight: &InFlight| match up.near {
        Near::Session(..) => flight.place().is_some(),
        // Only calls that may be asked, of which a connection has one at a time.
        Near::Everybody => flight.parking.is_some(),
    };
    let flight = up.flight(call).or_else(|| up.only_flight(waits));
    let (link, to) = match &up.near {
        Near::Session(link, to) => (Weak::clone(link), *to),
        Near::Everybody => {
            drop(up);
            return match flight.and_then(|flight| flight.parking.clone()) {
                Some(parking) => parking.ask(method, params, from).await,
                None => {
                    Err(RpcError::internal_with_message("the bridge cannot tell for which call this is asked").to_error_object(from))
                }
            };
        }
    };
    drop(up);
    ServerConnection::wait_until_ready(&link).await.ok_or_else(gone)?;
    let asked = translate_raw_params(method, Raw::from(params), from, to);
    let asked = asked.map_err(|unsayable| unsaid(&unsayable, method).to_error_object(from))?;
    let (questions, outbox) = {
        let link = link.upgrade().ok_or_else(gone)?;
        let place = flight.and_then(|flight| flight.place());
        let outbox = place.map_or_else(|| link.outbox().clone(), |place| place.outbox);
        (link.outgoing_requests().clone(), outbox)
    };
    match send_raw_request(&questions, &outbox, to, method, &asked).await.ok_or_else(gone)? {
        Ok(answer) => translate_raw_input_response(method, Raw::from(&answer), to, from)
            .map_err(|unsayable| unsaid(&unsayable, method).to_error_object(from)),
        Err(error) => Err(translate_raw_error(error, method, to, from)),
    }
}

/// Bytes that wait for a client to be ready.
const EARLY: usize = 64 << 10;
/// What no params at all stand for.
const EMPTY: Raw<'static> = Raw::empty_object();

fn gone() -> ErrorObject {
    RpcError::internal_with_message("the client is gone").to_error_object(Revision::NEWEST)
}
