//! [`UpstreamObserver`]: receives the messages of a server unchanged, for a bridge to another client.

use std::future::Future;
use std::pin::Pin;

use tsugite_core::jsonrpc::{ErrorObject, Id, Notification, Raw, RawJson};
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::progress::Progress;

use super::connection::ClientConnection;

/// The response to a request of the server: a result or an error, as they are sent.
pub(crate) type RequestResult = Result<RawJson, ErrorObject>;

/// A boxed future.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Receives the messages of a server. Calls are identified by their ids on the connection to the server.
pub(crate) trait UpstreamObserver: Send + Sync {
    /// Receives a notification; `call` is the call it belongs to, if that is known.
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>);

    /// Answers a request of the server.
    fn on_request(&self, method: String, params: RawJson, call: Option<i64>) -> BoxFuture<RequestResult>;

    /// Waits until the observer can take more messages; `None` if it can now. Nothing is read from the server
    /// meanwhile.
    fn wait_for_capacity(&self) -> Option<BoxFuture<()>>;

    /// The connection was lost.
    fn on_disconnect(&self, reason: &str);

    /// A new connection has replaced a lost one. The server has no state of the old one.
    fn on_reconnect(&self);
}

impl ClientConnection {
    /// Waits until the observer, if there is one, can take more messages.
    pub(super) async fn wait_for_observer(&self) {
        if let Some(capacity) =
            self.shared.settings.observer.as_ref().and_then(|observer| observer.wait_for_capacity())
        {
            capacity.await;
        }
    }

    /// Passes a notification to the observer, if there is one.
    pub(super) fn forward_to_observer(&self, notification: &Notification<'_>, via: Option<i64>) {
        let Some(observer) = &self.shared.settings.observer else { return };
        let params = notification.params();
        let call = match &*notification.method {
            Progress::NAME => match notification_target(params).token {
                // Progress for no pending call is late, or an error of the server.
                Some(token) if self.calls.get(&token).is_some() => token.as_i64(),
                _ => return,
            },
            _ => notification_target(params).subscription.and_then(|id| id.as_i64()).or(via),
        };
        observer.on_notification(&notification.method, notification.params, call);
    }
}

/// The call or subscription that a notification belongs to.
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
    let Ok(fields) = params.read::<NotificationFields>() else { return NotificationTarget::default() };
    NotificationTarget {
        token: fields.progress_token.and_then(|token| token.read().ok()),
        subscription: fields.meta.and_then(|meta| meta.subscription_id()),
    }
}
