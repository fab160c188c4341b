//! For whoever stands between a server and another client: everything as it came, nothing read.

use std::future::Future;
use std::pin::Pin;

use tsugite_core::jsonrpc::{ErrorObject, Id, Notification, Raw, RawJson};
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::progress::Progress;

use super::connection::ClientConnection;

/// What a server is answered: a result, or an error, both as they are sent.
pub(crate) type RequestResult = Result<RawJson, ErrorObject>;

/// A future that can be sent elsewhere.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Hears what a server says, beside the client. Calls are named by the ids they have with the server.
pub(crate) trait UpstreamObserver: Send + Sync {
    /// The server says something; for `call`, as far as that can be told.
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>);

    /// The server asks something.
    fn on_request(&self, method: String, params: RawJson, call: Option<i64>) -> BoxFuture<RequestResult>;

    /// Whoever listens is too far behind to take more; nothing is read from the server meanwhile.
    fn wait_for_capacity(&self) -> Option<BoxFuture<()>>;

    /// The connection is gone.
    fn on_disconnect(&self, seen: &str);

    /// Another connection has taken its place, which knows nothing of what the old one was told.
    fn on_reconnect(&self);
}

impl ClientConnection {
    /// Waits until whoever stands behind the client can take more.
    pub(super) async fn wait_for_observer(&self) {
        if let Some(full) = self.shared.settings.observer.as_ref().and_then(|tap| tap.wait_for_capacity()) {
            full.await;
        }
    }

    /// Tells whoever stands behind the client what the server says.
    pub(super) fn forward_to_observer(&self, notification: &Notification<'_>, via: Option<i64>) {
        let Some(tap) = &self.shared.settings.observer else { return };
        let params = notification.params();
        let call = match &*notification.method {
            Progress::NAME => match notification_target(params).token {
                // What belongs to no call of ours is late, or a mistake.
                Some(token) if self.calls.get(&token).is_some() => token.as_i64(),
                _ => return,
            },
            _ => notification_target(params).subscription.and_then(|id| id.as_i64()).or(via),
        };
        tap.on_notification(&notification.method, notification.params, call);
    }
}

/// What a notification says it belongs to.
#[derive(Default)]
struct NotificationTarget {
    token: Option<Id<'static>>,
    subscription: Option<Id<'static>>,
}

fn notification_target(params: Raw<'_>) -> NotificationTarget {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NotificationFields {
        #[serde(default)]
        progress_token: Option<RawJson>,
        #[serde(default, rename = "_meta")]
        meta: Option<tsugite_core::protocol::Meta>,
    }
    let Ok(wire) = params.read::<NotificationFields>() else { return NotificationTarget::default() };
    NotificationTarget {
        token: wire.progress_token.and_then(|token| token.read().ok()),
        subscription: wire.meta.and_then(|meta| meta.subscription_id()),
    }
}
