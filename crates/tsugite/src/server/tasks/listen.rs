//! `notifications/tasks` on a `subscriptions/listen` stream (2026-07-28).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::tasks::TaskChanged;
use tsugite_core::protocol::{HasMeta, Meta};
use tsugite_core::revision::{RpcError, write_notification};

use super::TaskAccess;
use crate::replica::digest;
use crate::server::connection::ServerConnection;
use crate::server::incoming_request::IncomingRequest;
use crate::server::task_state::{StoredTask, TaskWatch, VisibleState, is_unreadable};
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
        let (mut ids, mut sent) = (HashMap::new(), HashMap::new());
        for id in self.requested {
            if let Some(stored) = read(&self.access, &id).await {
                let name = digest(id.as_bytes());
                sent.insert(name.clone(), stored.visible());
                ids.insert(name, id);
            }
        }
        let watch = self.access.table.hub.watch(ids.keys().cloned());
        GrantedTasks { access: self.access, ids, sent, watch }
    }
}

/// The tasks that a stream hears of.
pub(crate) struct GrantedTasks {
    access: TaskAccess,
    /// By the digests of the ids.
    ids: HashMap<String, String>,
    /// The state of each task that was read or sent last. The news of a change can arrive after the change was read, and not
    /// every change is visible.
    sent: HashMap<String, VisibleState>,
    watch: Arc<TaskWatch>,
}

impl GrantedTasks {
    pub(crate) fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.ids.values().cloned().collect();
        ids.sort();
        ids
    }

    /// Sends each change until the future is dropped.
    pub(crate) async fn send_changes(mut self, outbox: &OutboundQueue, subscription: &Id<'_>) {
        // A task may have changed after it was found and before it was watched.
        let mut changed: HashSet<_> = self.ids.keys().cloned().collect();
        loop {
            for name in changed {
                let Some(id) = self.ids.get(&name) else { continue };
                let Some(stored) = read(&self.access, id).await else { continue };
                let visible = stored.visible();
                if self.sent.get(&name) == Some(&visible) {
                    continue;
                }
                self.sent.insert(name, visible);
                let mut params = stored.details();
                params.meta_mut().get_or_insert_with(Meta::new).set_subscription_id(subscription);
                outbox.wait_for_capacity().await;
                outbox.push(|out| drop(write_notification::<TaskChanged>(out, params, self.access.revision)));
            }
            changed = self.watch.changed().await;
        }
    }
}

/// Reads a task, and tries again while the store fails. `None` if the caller cannot read it.
async fn read(access: &TaskAccess, id: &str) -> Option<StoredTask> {
    let mut wait = RETRY;
    loop {
        match access.read(id).await {
            Ok(stored) => return stored.filter(|stored| access.check_scopes(stored).is_ok()),
            // Other replicas can read it, and this one never can.
            Err(error) if is_unreadable(&error) => return None,
            Err(_) => tokio::time::sleep(wait).await,
        }
        wait = (wait * 2).min(MAX_RETRY);
    }
}

const RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(5);
