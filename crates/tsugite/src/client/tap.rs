//! For whoever stands between a server and another client: everything as it came, nothing read.

use std::future::Future;
use std::pin::Pin;

use tsugite_core::jsonrpc::{ErrorObject, Id, Notification, Raw, RawJson};
use tsugite_core::protocol::NotificationMethod;
use tsugite_core::protocol::progress::Progress;

use super::link::Link;

/// What a server is answered: a result, or an error, both as they are sent.
pub(crate) type Answered = Result<RawJson, ErrorObject>;

/// A future that can be sent elsewhere.
pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Hears what a server says, beside the client. Calls are named by the ids they have with the server.
pub(crate) trait Tap: Send + Sync {
    /// The server says something; for `call`, as far as that can be told.
    fn notified(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>);

    /// The server asks something.
    fn asked(&self, method: String, params: RawJson, call: Option<i64>) -> Later<Answered>;

    /// Whoever listens is too far behind to take more; nothing is read from the server meanwhile.
    fn full(&self) -> Option<Later<()>>;

    /// The connection is gone.
    fn lost(&self, seen: &str);

    /// Another connection has taken its place, which knows nothing of what the old one was told.
    fn renewed(&self);
}

impl Link {
    /// Waits until whoever stands behind the client can take more.
    pub(super) async fn room_behind(&self) {
        if let Some(full) = self.shared.settings.tap.as_ref().and_then(|tap| tap.full()) {
            full.await;
        }
    }

    /// Tells whoever stands behind the client what the server says.
    pub(super) fn pass_on(&self, notification: &Notification<'_>, via: Option<i64>) {
        let Some(tap) = &self.shared.settings.tap else { return };
        let params = notification.params();
        let call = match &*notification.method {
            Progress::NAME => match named(params).token {
                // What belongs to no call of ours is late, or a mistake.
                Some(token) if self.calls.waiting(&token).is_some() => token.as_i64(),
                _ => return,
            },
            _ => named(params).subscription.and_then(|id| id.as_i64()).or(via),
        };
        tap.notified(&notification.method, notification.params, call);
    }
}

/// What a notification says it belongs to.
#[derive(Default)]
struct Named {
    token: Option<Id<'static>>,
    subscription: Option<Id<'static>>,
}

fn named(params: Raw<'_>) -> Named {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        #[serde(default)]
        progress_token: Option<RawJson>,
        #[serde(default, rename = "_meta")]
        meta: Option<tsugite_core::protocol::Meta>,
    }
    let Ok(wire) = params.read::<Wire>() else { return Named::default() };
    Named {
        token: wire.progress_token.and_then(|token| token.read().ok()),
        subscription: wire.meta.and_then(|meta| meta.subscription_id()),
    }
}
