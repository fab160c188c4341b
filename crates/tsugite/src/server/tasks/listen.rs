//! `notifications/tasks` on a `subscriptions/listen` stream (2026-07-28).

use std::collections::HashMap;
use std::sync::Arc;

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::tasks::TaskChanged;
use tsugite_core::protocol::{HasMeta, Meta};
use tsugite_core::revision::{RpcError, write_notification};

use super::TaskAccess;
use crate::replica::digest;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::IncomingRequest;
use crate::server::task_state::TaskWatch;
use crate::shared::outbound_queue::OutboundQueue;

/// The tasks that a stream wants to hear of.
pub(crate) struct TaskSubscription {
    access: TaskAccess,
    requested: Vec<String>,
}

/// Subscribes a stream to tasks. `None` if it names none.
pub(crate) fn subscribe(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    requested: Option<Vec<String>>,
) -> Result<Option<TaskSubscription>, RpcError> {
    let Some(mut requested) = requested else { return Ok(None) };
    let access = TaskAccess::new(connection, request)?;
    if !connection.supports_tasks(request) {
        return Ok(None);
    }
    let limit = connection.config.max_subscriptions;
    if requested.len() > limit {
        return Err(RpcError::InvalidParams("Invalid params: too many `taskIds`".into())
            .with("path", "notifications.taskIds")
            .with("limit", limit));
    }
    requested.sort();
    requested.dedup();
    Ok(Some(TaskSubscription { access, requested }))
}

impl TaskSubscription {
    /// The ids that are asked for.
    pub(crate) fn requested(&self) -> &[String] {
        &self.requested
    }

    /// Finds the tasks. The caller is told which ones there are.
    pub(crate) async fn grant(self) -> GrantedTasks {
        let mut ids = HashMap::new();
        let names: Vec<_> = self.requested.iter().map(|id| digest(id.as_bytes())).collect();
        // Before the tasks are read, so that no change is missed.
        let watch = self.access.table.hub.watch(names.iter().cloned());
        for (name, id) in names.into_iter().zip(self.requested) {
            if self.access.find_to_read(&id).await.is_ok() {
                ids.insert(name, id);
            }
        }
        GrantedTasks { access: self.access, ids, watch }
    }
}

/// The tasks that a stream hears of.
pub(crate) struct GrantedTasks {
    access: TaskAccess,
    /// By the digests of the ids.
    ids: HashMap<String, String>,
    watch: Arc<TaskWatch>,
}

impl GrantedTasks {
    pub(crate) fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.ids.values().cloned().collect();
        ids.sort();
        ids
    }

    /// Sends each change until the future is dropped.
    pub(crate) async fn send_changes(self, outbox: &OutboundQueue, subscription: &Id<'_>) {
        let mut sent: HashMap<String, u64> = HashMap::new();
        loop {
            for name in self.watch.changed().await {
                let Some(id) = self.ids.get(&name) else { continue };
                let Ok(stored) = self.access.find_to_read(id).await else { continue };
                if sent.insert(name, stored.version) == Some(stored.version) {
                    continue;
                }
                let mut params = stored.details();
                params.meta_mut().get_or_insert_with(Meta::new).set_subscription_id(subscription);
                outbox.wait_for_capacity().await;
                outbox.push(|out| drop(write_notification::<TaskChanged>(out, params, self.access.revision)));
            }
        }
    }
}
