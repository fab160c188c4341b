//! A client without a session that listens for the changes of a server: those it wants, and the result at the end.

use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::subscriptions::{Listen, ListenResult, SubscriptionFilter};
use tsugite_core::protocol::{
    HasMeta, Meta, NotificationMethod, ServerCapabilities, prompts, resources, tools,
};
use tsugite_core::revision::{Revision, RpcError};

use super::client_request::ReplyTarget;
use crate::client::{ChangeFilter, SubscriptionSource};
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
    pub(super) fn new(reply_target: ReplyTarget, revision: Revision, filter: SubscriptionFilter) -> Self {
        Self { reply_target, revision, filter }
    }

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

/// A listener at one server.
pub(super) struct ListenerEntry {
    pub(super) listener: Arc<UpstreamListener>,
    /// The subscription of the bridge that reports the changes for this listener.
    source: Mutex<Option<SubscriptionSource>>,
}

impl ListenerEntry {
    pub(super) fn new(listener: &Arc<UpstreamListener>) -> Arc<Self> {
        Arc::new(Self { listener: Arc::clone(listener), source: Mutex::default() })
    }

    /// Sets the subscription that reports the changes from now on.
    pub(super) fn set_source(&self, source: SubscriptionSource) {
        *lock(&self.source) = Some(source);
    }

    /// Whether changes that belong to the listen request with this id are for this listener. Those that belong to none
    /// are for every listener.
    pub(super) fn has_subscription(&self, id: Option<i64>) -> bool {
        id.is_none_or(|id| lock(&self.source).as_ref().is_some_and(|source| source.has_id(id)))
    }
}

/// Whether a resource is the one that is watched, or a part of it; one that only begins alike is another's.
fn is_within(uri: &str, watched: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with(['/', ':']) || rest.starts_with(['/', '?', '#'])
    })
}

/// The result of a subscription that has ended.
pub(super) fn listen_result(job: &RequestParts, meta: Meta) -> Result<RawJson, RpcError> {
    let mut result = ListenResult::new();
    *result.meta_mut() = Some(meta);
    encode_result::<Listen>(result, job.revision, &job.connection.config.stamp)
        .map_err(|_| RpcError::Internal)
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
