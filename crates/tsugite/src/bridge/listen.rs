//! `subscriptions/listen` of a client, for several servers or for one that has no such method.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::subscriptions::{
    Acknowledged, AcknowledgedParams, Listen, ListenResult, SubscriptionFilter,
};
use tsugite_core::protocol::{
    HasMeta, Meta, Method, NotificationMethod, ServerCapabilities, prompts, resources, tools,
};
use tsugite_core::revision::{Revision, RpcError, read_params, write_notification};

use super::forward::Forwarder;
use super::in_flight::ReplyTarget;
use super::join_all::join_all;
use super::upstream::Upstream;
use super::upstream_pool::UpstreamLease;
use super::{name_mapping, pairing, upstream_pool};
use crate::client::{ChangeFilter, Client, Subscription};
use crate::era::Era;
use crate::lock::lock;
use crate::server::encode_result;
use crate::server::layer::RequestParts;

/// A client without a session that wants to hear of changes.
pub(super) struct UpstreamListener {
    pub(super) reply_target: ReplyTarget,
    pub(super) revision: Revision,
    filter: SubscriptionFilter,
}

impl UpstreamListener {
    /// Whether this is one of the changes it wants to hear of.
    pub(super) fn matches(&self, method: &str, params: Raw<'_>) -> bool {
        #[derive(serde::Deserialize)]
        struct UpdatedResource {
            uri: String,
        }
        let yes = |wish: Option<bool>| wish == Some(true);
        match method {
            tools::ListChanged::NAME => yes(self.filter.tools_list_changed),
            prompts::ListChanged::NAME => yes(self.filter.prompts_list_changed),
            resources::ListChanged::NAME => yes(self.filter.resources_list_changed),
            resources::Updated::NAME => params.read::<UpdatedResource>().is_ok_and(|about| {
                let mut watched = self.filter.resource_subscriptions.iter().flatten();
                watched.any(|watched| is_within(&about.uri, watched))
            }),
            _ => false,
        }
    }
}

/// Whether a resource is the one that is watched, or a part of it; one that only begins alike is another's.
fn is_within(uri: &str, watched: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with(['/', ':']) || rest.starts_with(['/', '?', '#'])
    })
}

/// Reports changes to a client without a session until the client or the bridge ends the subscription.
pub(super) async fn listen(
    relay: &Arc<Forwarder>,
    job: &RequestParts,
    place: ReplyTarget,
) -> Result<RawJson, RpcError> {
    let wish = read_params::<Listen>(Raw::from(&job.params), job.revision)?.notifications;
    let named = wish.resource_subscriptions.as_ref().map_or(0, Vec::len);
    if named > job.connection.config.max_subscriptions {
        return Err(RpcError::InvalidParams("Invalid params: too many `resourceSubscriptions`".into()));
    }
    let Some(_stream) = job.connection.open_stream(job.caller.principal.as_ref(), named) else {
        return Err(RpcError::InvalidRequest("Too many subscriptions".into()));
    };
    let lent = upstream_pool::acquire_all(relay, job).await?;
    if let [UpstreamLease { upstream: only, .. }] = lent.as_slice()
        && only.target.prefix.is_none()
        && only.connected_era().await? == Era::Stateless
    {
        return pairing::forward_listen(only, job, place).await;
    }
    let mut granted = SubscriptionFilter::new();
    let mut open = Vec::new();
    let mut kept: Vec<(Arc<Upstream>, Subscription)> = Vec::new();
    let mut watched = Vec::with_capacity(lent.len());
    let mut away = Vec::new();
    for upstream in lent.iter().map(|lent| Arc::clone(&lent.upstream)) {
        let Some(client) = upstream.client_if_connected().cloned() else {
            away.push(upstream);
            continue;
        };
        let watch = grant(&upstream, &client, &wish, &mut granted);
        watched.push((upstream, client, watch));
    }
    let begun = join_all(watched.into_iter().map(|(upstream, client, watch)| async move {
        let listening = async {
            let begun = client.listen(watch).await;
            begun.map_err(|error| upstream.to_rpc_error(error, Listen::NAME, job.revision))
        };
        let begun = match relay.is_single() {
            true => listening.await,
            false => upstream.with_timeout(listening).await,
        };
        (upstream, begun)
    }));
    for (upstream, begun) in begun.await {
        match begun {
            Ok(subscription) => {
                kept.push((Arc::clone(&upstream), subscription));
                open.push(upstream);
            }
            Err(refusal) if relay.is_single() => return Err(refusal),
            Err(refusal) => upstream.not_subscribed(&refusal),
        }
    }
    if !relay.is_single() {
        // Lists change when a server comes or goes, whatever it says of itself.
        granted.tools_list_changed = wish.tools_list_changed;
        granted.prompts_list_changed = wish.prompts_list_changed;
        granted.resources_list_changed = wish.resources_list_changed;
    }
    if let Some(uris) = &wish.resource_subscriptions {
        granted.resource_subscriptions.get_or_insert_default().retain(|uri| uris.contains(uri));
    }
    let mut meta = Meta::new();
    meta.set_subscription_id(&place.id);
    let params = AcknowledgedParams::new(granted.clone()).meta(meta.clone());
    place.outbox.push(|out| drop(write_notification::<Acknowledged>(out, params, job.revision)));
    // Only now, so that nothing comes before the acknowledgement.
    let listening =
        Arc::new(UpstreamListener { reply_target: place, revision: job.revision, filter: granted });
    for upstream in open.iter().chain(&away) {
        let mut all = lock(&upstream.listeners);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&listening));
    }
    // One that was away is asked when it comes.
    let later = join_all(away.into_iter().map(|upstream| {
        let wish = &wish;
        async move {
            upstream.wait_connected().await;
            let client = upstream.client_if_connected().cloned()?;
            let watch = grant(&upstream, &client, wish, &mut SubscriptionFilter::new());
            let begun = client.listen(watch).await;
            begun.inspect_err(|error| upstream.not_subscribed(error)).ok()
        }
    }));
    let lasting = async {
        let _kept = later.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = job.connection.closed() => {}
        () = lasting => {}
    }
    drop(kept);
    listen_result(job, meta)
}

/// The result of a subscription that has ended.
pub(super) fn listen_result(job: &RequestParts, meta: Meta) -> Result<RawJson, RpcError> {
    let mut result = ListenResult::new();
    *result.meta_mut() = Some(meta);
    encode_result::<Listen>(result, job.revision, &job.connection.config.stamp)
        .map_err(|_| RpcError::Internal)
}

/// The part of a filter that this server supports. It is also added to `granted`.
fn grant(
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
        if let Some(inner) = name_mapping::upstream_uri(&upstream.target, uri) {
            watch = watch.resource(inner);
            granted.resource_subscriptions.get_or_insert_default().push(uri.clone());
        }
    }
    watch
}

/// The lists whose changes a server reports.
pub(super) fn supported_lists(offered: Option<&ServerCapabilities>) -> ChangeFilter {
    let Some(offered) = offered else { return ChangeFilter::lists() };
    let mut watch = ChangeFilter::new();
    watch.tools = offered.tools.as_ref().is_some_and(|list| list.list_changed == Some(true));
    watch.prompts = offered.prompts.as_ref().is_some_and(|list| list.list_changed == Some(true));
    watch.resources = offered.resources.as_ref().is_some_and(|list| list.list_changed == Some(true));
    watch
}
