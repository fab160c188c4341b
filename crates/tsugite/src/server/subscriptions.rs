//! Subscriptions: `resources/subscribe` up to 2025-11-25, `subscriptions/listen` from 2026-07-28.

use std::collections::HashSet;
use std::sync::Arc;

use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::result::EmptyResult;
use tsugite_core::protocol::subscriptions::{
    Acknowledged, AcknowledgedParams, Listen, ListenResult, SubscriptionFilter,
};
use tsugite_core::protocol::{HasMeta, Meta};
use tsugite_core::revision::{RpcError, read_params, write_notification};

use super::change_feed::ChangeListener;
use super::connection::ServerConnection;
use super::dispatch::IncomingRequest;
use super::pending::PendingRequest;
use super::registry::ListKind;

/// Subscribes the session to a resource.
pub(crate) fn subscribe(link: &ServerConnection, asked: IncomingRequest<'_>) -> Result<(), RpcError> {
    let uri = read_params::<Subscribe>(asked.request.params(), asked.revision)?.uri;
    if !can_read(link, asked, &uri) {
        return Err(RpcError::ResourceNotFound { uri });
    }
    let listener = link.listener().ok_or(RpcError::Internal)?;
    if !listener.subscribe(uri, link.config.max_subscriptions) {
        return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
    }
    link.send_result::<Subscribe>(asked, EmptyResult::new());
    Ok(())
}

/// Unsubscribes the session from a resource.
pub(crate) fn unsubscribe(link: &ServerConnection, asked: IncomingRequest<'_>) -> Result<(), RpcError> {
    let uri = read_params::<Unsubscribe>(asked.request.params(), asked.revision)?.uri;
    if let Some(listener) = link.listener() {
        listener.unsubscribe(&uri);
    }
    link.send_result::<Unsubscribe>(asked, EmptyResult::new());
    Ok(())
}

/// Sends changes until the client or the server ends the stream. The acknowledgement with the granted filter comes first.
pub(crate) fn listen(
    link: &Arc<ServerConnection>,
    asked: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let wish = read_params::<Listen>(asked.request.params(), asked.revision)?.notifications;
    let granted = grant(link, asked, wish)?;
    let named = granted.resource_subscriptions.as_ref().map_or(0, Vec::len);
    let Some(stream) = link.open_stream(asked.principal(), named) else {
        return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
    };
    let id = asked.request.id.clone().into_owned();
    let mut lists = HashSet::new();
    for (kind, wanted) in [
        (ListKind::Tool, granted.tools_list_changed),
        (ListKind::Prompt, granted.prompts_list_changed),
        (ListKind::Resource, granted.resources_list_changed),
    ] {
        if wanted == Some(true) {
            lists.insert(kind);
        }
    }
    let uris = granted.resource_subscriptions.iter().flatten().cloned().collect();
    let cancelled = asked.tracking.cancellation_token();
    let listener = ChangeListener::for_subscription(
        asked.writer.outbox.clone(),
        asked.revision,
        id.clone(),
        asked.principal().cloned(),
        lists,
        uris,
        cancelled.clone(),
    );
    let listener = Arc::new(listener);
    let mut meta = Meta::new();
    meta.set_subscription_id(&id);
    let ended = {
        let (id, revision, reply) = (id.clone(), asked.revision, asked.writer.clone());
        let (link, meta) = (link.clone(), meta.clone());
        move || {
            let mut result = ListenResult::new();
            *result.meta_mut() = Some(meta);
            reply.send_result::<Listen>(&id, &mut result, revision, &link.config.stamp);
        }
    };
    let (feed, closing) = (listener.clone(), link.clone());
    let work = link.register_pending(asked, cancelled, async move {
        closing.closed().await;
        drop(listener);
        drop(stream);
        ended
    });
    if work.is_some() {
        let (revision, params) = (asked.revision, AcknowledgedParams::new(granted).meta(meta));
        asked.writer.outbox.push(|out| drop(write_notification::<Acknowledged>(out, params, revision)));
        // Listen only now, so that no notification precedes the acknowledgement.
        link.server.shared.feed.add_listener(&feed);
    }
    Ok(work)
}

/// Returns the granted part of a filter: lists that are offered and resources that the caller may read.
fn grant(
    link: &ServerConnection,
    asked: IncomingRequest<'_>,
    wish: SubscriptionFilter,
) -> Result<SubscriptionFilter, RpcError> {
    let has = |kind| link.supports_kind(asked, kind);
    let list = |wanted: Option<bool>, kind| wanted.filter(|wanted| *wanted && has(kind));
    let mut granted = SubscriptionFilter::new();
    granted.tools_list_changed = list(wish.tools_list_changed, ListKind::Tool);
    granted.prompts_list_changed = list(wish.prompts_list_changed, ListKind::Prompt);
    granted.resources_list_changed = list(wish.resources_list_changed, ListKind::Resource);
    if let Some(uris) = wish.resource_subscriptions.filter(|_| has(ListKind::Resource)) {
        if uris.len() > link.config.max_subscriptions {
            return Err(RpcError::InvalidParams("Invalid params: too many `resourceSubscriptions`".into()));
        }
        let known = uris.into_iter().filter(|uri| can_read(link, asked, uri)).collect();
        granted.resource_subscriptions = Some(known);
    }
    Ok(granted)
}

fn can_read(link: &ServerConnection, asked: IncomingRequest<'_>, uri: &str) -> bool {
    let found = link.server.shared.find_resource(&link.config, asked.principal(), uri);
    matches!(found, Ok(Some(_)))
}
