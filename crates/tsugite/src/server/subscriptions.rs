//! Subscriptions: `resources/subscribe` up to 2025-11-25, `subscriptions/listen` from 2026-07-28.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::result::EmptyResult;
use tsugite_core::protocol::subscriptions::{
    Acknowledged, AcknowledgedParams, Listen, ListenResult, SubscriptionFilter,
};
use tsugite_core::protocol::{HasMeta, Meta};
use tsugite_core::revision::{RpcError, read_params, write_notification};

use super::change_feed::ChangeListener;
use super::connection::ServerConnection;
use super::incoming_request::IncomingRequest;
use super::limits::CallerKey;
use super::pending::PendingRequest;
use super::token_expiry::TokenWatch;
use crate::shared::list_kind::ListKind;

/// Subscribes the session to a resource.
pub(crate) fn subscribe(connection: &ServerConnection, request: IncomingRequest<'_>) -> Result<(), RpcError> {
    let uri = read_params::<Subscribe>(request.request.params(), request.revision)?.uri;
    can_read(connection, request, &uri)?;
    let listener = connection.listener().ok_or(RpcError::Internal)?;
    let config = &connection.config;
    let max = (config.max_subscriptions, config.max_subscription_bytes);
    let begin = |bytes| connection.limits.acquire(CallerKey::of_caller(request.caller), None, bytes).ok();
    if !listener.subscribe(uri, max, begin) {
        return Err(too_many_subscriptions(max.0));
    }
    connection.send_result::<Subscribe>(request, EmptyResult::new());
    Ok(())
}

/// The error for a subscription beyond the limit of a session.
pub(crate) fn too_many_subscriptions(limit: usize) -> RpcError {
    RpcError::InvalidRequest("Too many subscriptions".into()).with("limit", limit)
}

/// Unsubscribes the session from a resource.
pub(crate) fn unsubscribe(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
) -> Result<(), RpcError> {
    let uri = read_params::<Unsubscribe>(request.request.params(), request.revision)?.uri;
    connection.unsubscribe(&uri);
    connection.send_result::<Unsubscribe>(request, EmptyResult::new());
    Ok(())
}

/// Sends changes until the client or the server ends the stream. The acknowledgement with the granted filter comes first.
pub(crate) fn listen(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let mut requested = read_params::<Listen>(request.request.params(), request.revision)?.notifications;
    let tasks = super::tasks::subscribe(connection, request, requested.task_ids.take())?;
    let mut granted = grant(connection, request, requested)?;
    let mut named = granted.resource_subscriptions.clone().unwrap_or_default();
    named.extend(tasks.iter().flat_map(|tasks| tasks.requested()).cloned());
    let Some(stream) = connection.open_stream(request.caller, &named) else {
        return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
    };
    let id = request.request.id.clone().into_owned();
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
    let cancellation = request.tracking.cancellation_token();
    let listener = ChangeListener::for_subscription(
        request.writer.outbox.clone(),
        request.revision,
        id.clone(),
        request.principal().cloned(),
        lists,
        uris,
        cancellation.clone(),
    );
    let listener = Arc::new(listener);
    let mut meta = Meta::new();
    meta.set_subscription_id(&id);
    let ended = {
        let (id, revision, writer) = (id.clone(), request.revision, request.writer.clone());
        let (connection, meta) = (connection.clone(), meta.clone());
        move || {
            let mut result = ListenResult::new();
            *result.meta_mut() = Some(meta);
            writer.send_result::<Listen>(&id, &mut result, revision, &connection.config.stamp);
        }
    };
    let (feed, closing) = (listener.clone(), connection.clone());
    let watch = connection.server.shared.watch_token(request.principal());
    let (revision, outbox) = (request.revision, request.writer.outbox.clone());
    let acknowledge = {
        let outbox = outbox.clone();
        move |granted, connection: &ServerConnection| {
            let params = AcknowledgedParams::new(granted).meta(meta);
            outbox.push(|out| drop(write_notification::<Acknowledged>(out, params, revision)));
            // Listen only now, so that no notification precedes the acknowledgement.
            connection.server.shared.feed.add_listener(&feed);
        }
    };
    let Some(tasks) = tasks else {
        let pending = connection.register_stream(request, cancellation, async move {
            let (closed, expired) = (pin!(closing.closed()), pin!(TokenWatch::expired(watch)));
            either(closed, expired).await;
            drop((listener, stream));
            ended
        });
        if pending.is_some() {
            acknowledge(granted, connection);
        }
        return Ok(pending);
    };
    Ok(connection.register_stream(request, cancellation, async move {
        let tasks = tasks.grant().await;
        granted.task_ids = Some(tasks.ids());
        acknowledge(granted, &closing);
        let (closed, expired) = (pin!(closing.closed()), pin!(TokenWatch::expired(watch)));
        let changes = pin!(tasks.send_changes(&outbox, &id));
        either(pin!(either(closed, expired)), changes).await;
        drop((listener, stream));
        ended
    }))
}

/// Returns the granted part of a filter: lists that are offered and resources that the caller may read.
fn grant(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    requested: SubscriptionFilter,
) -> Result<SubscriptionFilter, RpcError> {
    let has = |kind| connection.supports_kind(request, kind);
    let list = |wanted: Option<bool>, kind| wanted.filter(|wanted| *wanted && has(kind));
    let mut granted = SubscriptionFilter::new();
    granted.tools_list_changed = list(requested.tools_list_changed, ListKind::Tool);
    granted.prompts_list_changed = list(requested.prompts_list_changed, ListKind::Prompt);
    granted.resources_list_changed = list(requested.resources_list_changed, ListKind::Resource);
    if let Some(uris) = requested.resource_subscriptions.filter(|_| has(ListKind::Resource)) {
        let limit = connection.config.max_subscriptions;
        if uris.len() > limit {
            return Err(RpcError::InvalidParams("Invalid params: too many `resourceSubscriptions`".into())
                .with("path", "notifications.resourceSubscriptions")
                .with("limit", limit));
        }
        let known = uris.into_iter().filter(|uri| can_read(connection, request, uri).is_ok()).collect();
        granted.resource_subscriptions = Some(known);
    }
    Ok(granted)
}

/// Waits for the first of two futures.
async fn either(mut one: Pin<&mut impl Future<Output = ()>>, mut other: Pin<&mut impl Future<Output = ()>>) {
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await;
}

/// Fails if the caller may not read a resource.
fn can_read(connection: &ServerConnection, request: IncomingRequest<'_>, uri: &str) -> Result<(), RpcError> {
    let found = connection.server.shared.find_resource(&connection.config, request.principal(), uri);
    match found.ok().flatten() {
        Some(found) => connection.config.check_scopes(request.principal(), &found.item.scopes),
        None => Err(RpcError::ResourceNotFound { uri: uri.to_owned() }),
    }
}
