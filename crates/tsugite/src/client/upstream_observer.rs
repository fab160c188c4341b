//! [`UpstreamObserver`]: receives the messages of a server unchanged, for a bridge to another client.

use std::future::Future;
use std::pin::Pin;

use tsugite_core::jsonrpc::{ErrorObject, Raw, RawJson};

use crate::shared::cancel_reason::CancelReason;

/// The response to a request of the server: a result or an error, as they are sent.
pub(crate) type RequestResult = Result<RawJson, ErrorObject>;

/// A boxed future.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Where a request of the server comes from.
pub(crate) struct RequestSource {
    /// The call on whose stream it arrived, if it arrived on one.
    pub(crate) call: Option<i64>,
    /// The reason for which the server cancels it. Its future is dropped then.
    pub(crate) cancel_reason: CancelReason,
}

/// Receives the messages of a server. Calls are identified by their ids on the connection to the server.
pub(crate) trait UpstreamObserver: Send + Sync {
    /// Receives a notification; `call` is the call it belongs to, if that is known.
    fn on_notification(&self, method: &str, params: Option<Raw<'_>>, call: Option<i64>);

    /// Answers a request of the server.
    fn on_request(&self, method: String, params: RawJson, source: RequestSource) -> BoxFuture<RequestResult>;

    /// Waits until the observer can take more messages; `None` if it can now. Nothing is read from the server
    /// meanwhile.
    fn wait_for_capacity(&self) -> Option<BoxFuture<()>>;

    /// The connection was lost.
    fn on_disconnect(&self, reason: &str);

    /// A new connection has replaced a lost one. The server has no state of the old one.
    fn on_reconnect(&self);
}
