//! `subscriptions/listen` of a client, for several servers or for one that has no such method.

use std::future::Future;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::subscriptions::{Acknowledged, AcknowledgedParams, Listen, SubscriptionFilter};
use tsugite_core::protocol::{Meta, Method};
use tsugite_core::revision::{Revision, RpcError, read_params, write_notification};

use super::bridge_state::BridgeState;
use super::bridged_tasks::BridgedTask;
use super::client_request::ReplyTarget;
use super::join_all::join_all;
use super::kept_subscription::{Begin, keep_listening};
use super::upstream::Upstream;
use super::upstream_events::UpstreamEvents;
use super::upstream_listener::{ListenerEntry, UpstreamListener, listen_result, supported_lists};
use super::upstream_pool::UpstreamLease;
use super::{name_mapping, pairing};
use crate::client::{ChangeFilter, Client, Subscription};
use crate::era::Era;
use crate::server::layer::RequestParts;

/// Reports changes to a client without a session until the client or the bridge ends the subscription.
pub(super) async fn listen(
    bridge: &BridgeState,
    job: &RequestParts,
    place: ReplyTarget,
) -> Result<RawJson, RpcError> {
    let wish = read_params::<Listen>(Raw::from(&job.params), job.revision)?.notifications;
    let named = wish.resource_subscriptions.as_deref().unwrap_or_default();
    if named.len() > job.connection.config.max_subscriptions {
        let error = RpcError::InvalidParams("Invalid params: too many `resourceSubscriptions`".into());
        return Err(error
            .with("path", "notifications.resourceSubscriptions")
            .with("limit", job.connection.config.max_subscriptions));
    }
    let Some(_stream) = job.connection.open_stream(&job.caller, named) else {
        let limit = job.connection.config.max_subscriptions;
        return Err(RpcError::InvalidRequest("Too many subscriptions".into()).with("limit", limit));
    };
    let tasks = wish.task_ids.as_deref().unwrap_or_default();
    if tasks.len() > job.connection.config.max_subscriptions {
        let error = RpcError::InvalidParams("Invalid params: too many `taskIds`".into());
        return Err(error
            .with("path", "notifications.taskIds")
            .with("limit", job.connection.config.max_subscriptions));
    }
    let lent = bridge.acquire_all(job).await?;
    if let [UpstreamLease { upstream: only, .. }] = lent.as_slice()
        && only.target.prefix.is_none()
        && only.connected_era().await? == Era::Stateless
    {
        // The server reports its changes on the forwarded stream; the bridge, that they may have been missed.
        let _listener = forwarded_listener(only, &wish, &place, job.revision);
        return pairing::forward_listen(only, job, place).await;
    }
    let mut granted = SubscriptionFilter::new();
    let mut kept: Vec<(Arc<Upstream>, Option<Subscription>)> = Vec::new();
    let mut watched = Vec::with_capacity(lent.len());
    for upstream in lent.iter().map(|lent| Arc::clone(&lent.upstream)) {
        let Some(client) = upstream.client_if_connected().cloned() else {
            // One that is away is asked when it comes.
            kept.push((upstream, None));
            continue;
        };
        let watch = grant(bridge, &upstream, &client, &wish, &mut granted);
        watched.push((upstream, client, watch));
    }
    let begun = join_all(watched.into_iter().map(|(upstream, client, watch)| async move {
        let listening = async {
            let begun = client.listen(watch).await;
            begun.map_err(|error| upstream.to_rpc_error(error, Listen::NAME, job.revision))
        };
        let begun = match bridge.is_single() {
            true => listening.await,
            false => upstream.with_timeout(listening).await,
        };
        (upstream, begun)
    }));
    for (upstream, begun) in begun.await {
        match begun {
            Ok(subscription) => kept.push((upstream, Some(subscription))),
            Err(error) if bridge.is_single() => return Err(error),
            Err(error) => upstream.not_subscribed(&error),
        }
    }
    if !bridge.is_single() {
        // Lists change when a server comes or goes, whatever it says of itself.
        granted.tools_list_changed = wish.tools_list_changed;
        granted.prompts_list_changed = wish.prompts_list_changed;
        granted.resources_list_changed = wish.resources_list_changed;
    }
    if let Some(uris) = &wish.resource_subscriptions {
        granted.resource_subscriptions.get_or_insert_default().retain(|uri| uris.contains(uri));
    }
    let tasks = subscribed_tasks(bridge, &lent, &wish, job)?;
    if wish.task_ids.is_some() {
        granted.task_ids = Some(tasks.iter().map(|task| task.id.clone()).collect());
    }
    let mut meta = Meta::new();
    meta.set_subscription_id(&place.id);
    let params = AcknowledgedParams::new(granted.clone()).meta(meta.clone());
    place.outbox.push(|out| drop(write_notification::<Acknowledged>(out, params, job.revision)));
    // Only now, so that nothing comes before the acknowledgement.
    let listener = Arc::new(UpstreamListener::new(place.clone(), job.revision, granted));
    let listening = join_all(kept.into_iter().map(|(upstream, subscription)| {
        listen_to(bridge, &upstream, subscription, ListenerEntry::new(&listener), &wish)
    }));
    let pushing = join_all(tasks.into_iter().filter_map(|task| {
        let upstream = lent.first().map(|lent| Arc::clone(&lent.upstream))?;
        Some(pairing::push_changes(task, upstream, &place, job.revision))
    }));
    let lasting = async {
        tokio::join!(listening, pushing);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = job.connection.closed() => {}
        () = lasting => {}
    }
    listen_result(job, meta)
}

/// The tasks that a client wants to hear of, if one server has them.
fn subscribed_tasks(
    bridge: &BridgeState,
    lent: &[UpstreamLease],
    wish: &SubscriptionFilter,
    job: &RequestParts,
) -> Result<Vec<Arc<BridgedTask>>, RpcError> {
    match (&wish.task_ids, lent.first()) {
        (Some(ids), Some(lent)) => pairing::subscribed_tasks(&bridge.tasks, &lent.upstream, ids, job),
        _ => Ok(Vec::new()),
    }
}

/// Registers a listener at a server, and keeps the subscription of the bridge open that reports its changes.
fn listen_to<'a>(
    bridge: &'a BridgeState,
    upstream: &Arc<Upstream>,
    subscription: Option<Subscription>,
    entry: Arc<ListenerEntry>,
    wish: &'a SubscriptionFilter,
) -> impl Future<Output = ()> + use<'a> {
    if let Some(subscription) = &subscription {
        entry.set_source(subscription.source());
    }
    upstream.add_listener(&entry);
    keep_listening(
        Arc::downgrade(upstream),
        subscription,
        move |upstream, client| grant(bridge, upstream, client, wish, &mut SubscriptionFilter::new()),
        move |upstream, subscription, begin| {
            entry.set_source(subscription.source());
            if begin == Begin::Again {
                UpstreamEvents(Arc::downgrade(upstream)).notify_listener(&entry.listener);
            }
        },
    )
}

/// Registers the client of a forwarded subscription for the lists that the server offers.
fn forwarded_listener(
    upstream: &Upstream,
    wish: &SubscriptionFilter,
    place: &ReplyTarget,
    revision: Revision,
) -> Arc<ListenerEntry> {
    let offered = upstream.client.get().and_then(Client::server_capabilities);
    let lists = supported_lists(offered.as_ref());
    let mut filter = wish.clone();
    filter.tools_list_changed = filter.tools_list_changed.filter(|_| lists.tools);
    filter.prompts_list_changed = filter.prompts_list_changed.filter(|_| lists.prompts);
    filter.resources_list_changed = filter.resources_list_changed.filter(|_| lists.resources);
    let listener = Arc::new(UpstreamListener::new(place.clone(), revision, filter));
    let entry = ListenerEntry::new(&listener);
    upstream.add_listener(&entry);
    entry
}

/// The part of a filter that this server supports. It is also added to `granted`.
fn grant(
    bridge: &BridgeState,
    upstream: &Upstream,
    client: &Client,
    wish: &SubscriptionFilter,
    granted: &mut SubscriptionFilter,
) -> ChangeFilter {
    let offered = client.server_capabilities();
    let mut watch = supported_lists(offered.as_ref());
    let yes = |wish: Option<bool>| wish == Some(true);
    watch.tools &= yes(wish.tools_list_changed);
    watch.prompts &= yes(wish.prompts_list_changed);
    watch.resources &= yes(wish.resources_list_changed);
    let add = |place: &mut Option<bool>, yes: bool| {
        if yes {
            *place = Some(true);
        }
    };
    add(&mut granted.tools_list_changed, watch.tools);
    add(&mut granted.prompts_list_changed, watch.prompts);
    add(&mut granted.resources_list_changed, watch.resources);
    let subscribes = offered.is_none_or(|offered| {
        offered.resources.is_some_and(|resources| {
            resources.subscribe == Some(true) || upstream.era() == Some(Era::Stateless)
        })
    });
    for uri in wish.resource_subscriptions.iter().flatten().filter(|_| subscribes) {
        if let Some(inner) = name_mapping::upstream_uri(&bridge.targets, &upstream.target, uri) {
            watch = watch.resource(inner);
            granted.resource_subscriptions.get_or_insert_default().push(uri.clone());
        }
    }
    watch
}
