//! The two eras of the protocol, as a client behaves in them.
//!
//! Up to 2025-11-25 a connection begins with a handshake, the server sends requests and pushes changes (`handshake`).
//! From 2026-07-28 each request stands alone: it carries its sender in `_meta`, results may be cached, and changes
//! arrive on `subscriptions/listen` (`stateless`, `listen_stream`). Where the eras differ, callers ask the [`Era`] of
//! their connection, never the revision. The differences of Streamable HTTP are in `http`.

mod handshake;
#[cfg(feature = "http")]
mod http;
mod listen_stream;
mod stateless;

use std::sync::Arc;

pub(super) use crate::era::Era;
pub(super) use listen_stream::TaskListener;
pub(super) use stateless::SENDER_KEYS;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Id, RawJson, Request};
use tsugite_core::protocol::Meta;
use tsugite_core::revision::Revision;

use super::Client;
use super::call_error::CallError;
use super::change_filter::ChangeFilter;
use super::client_error::{ClientError, Result};
use super::client_settings::ClientSettings;
use super::connection::{ClientConnection, OutboundRequest};
use super::forwarded_sender::ForwardedSender;
use super::options::Options;
use super::pending_calls::PendingCall;
use super::subscription::Subscription;
use super::transport::ServerReply;

impl Era {
    /// The `_meta` entries of every request: who sends it and what the sender can do.
    pub(super) fn request_meta(
        self,
        revision: Revision,
        settings: &ClientSettings,
    ) -> Vec<(&'static str, RawJson)> {
        match self {
            Era::Handshake => Vec::new(),
            Era::Stateless => stateless::request_meta(revision, settings),
        }
    }

    /// Adjusts the `_meta` of a request that is forwarded for another client, which was `received` with it.
    pub(super) fn set_forwarded_sender(
        self,
        meta: &mut Option<Meta>,
        received: Option<&Meta>,
        sender: &ForwardedSender,
    ) {
        match self {
            Era::Handshake => {}
            Era::Stateless => stateless::set_forwarded_sender(meta, received, sender),
        }
    }

    /// The member to add to forwarded params that can otherwise be sent unchanged; empty if there is none to add.
    /// `None` if their `_meta` must be rewritten.
    pub(super) fn forwarded_member(
        self,
        sender: &ForwardedSender,
        id: &Id<'_>,
        connection: &ClientConnection,
        options: &Options,
    ) -> Option<String> {
        match self {
            Era::Handshake => Some(String::new()),
            Era::Stateless => stateless::forwarded_member(sender, id, connection, options),
        }
    }

    /// Whether a cursor is valid beyond the session that it came from.
    pub(super) fn cursors_outlive_sessions(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// Whether headers of an HTTP request repeat the method, the name and marked arguments.
    pub(super) fn mirrors_headers(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// Whether results may be reused as long as the server says.
    pub(super) fn caches_results(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// Whether the server sends changes without a subscription.
    pub(super) fn pushes_changes(self) -> bool {
        match self {
            Era::Handshake => true,
            Era::Stateless => false,
        }
    }

    /// Tells the server that a call was cancelled, and why.
    pub(super) fn cancel(self, connection: &Arc<ClientConnection>, id: i64, reason: Option<String>) {
        match self {
            Era::Handshake => handshake::cancel(connection, id, reason),
            Era::Stateless => stateless::cancel(connection, id, reason),
        }
    }

    /// Handles `notifications/cancelled` of the server.
    pub(super) fn handle_cancelled(
        self,
        connection: &ClientConnection,
        id: &Id<'static>,
        reason: Option<String>,
    ) {
        match self {
            Era::Handshake => handshake::handle_cancelled(connection, id, reason),
            Era::Stateless => stateless::handle_cancelled(connection, id),
        }
    }

    /// Handles a request of the server. `via` is the call on whose stream it arrived.
    pub(super) fn handle_request(
        self,
        connection: &Arc<ClientConnection>,
        request: &Request<'_>,
        via: Option<&Arc<PendingCall>>,
    ) {
        match self {
            Era::Handshake => handshake::handle_request(connection, request, via),
            Era::Stateless => stateless::reject_request(request),
        }
    }

    /// The subscription that a change notification belongs to; `None` if it is for every subscription.
    pub(super) fn subscription_id(self, meta: Option<&Meta>, via: Option<&Arc<PendingCall>>) -> Option<i64> {
        match self {
            Era::Handshake => None,
            Era::Stateless => stateless::subscription_id(meta, via),
        }
    }

    /// Makes the server report the changes of `filter`, and waits until it does.
    pub(super) async fn subscribe(self, subscription: &mut Subscription, filter: ChangeFilter) -> Result<()> {
        match self {
            Era::Handshake => handshake::subscribe(subscription, filter).await,
            Era::Stateless => stateless::subscribe(subscription).await,
        }
    }

    /// Opens the subscription of the client's change handler, where it needs one.
    pub(super) fn listen_for_handler(
        self,
        client: &Client,
        connection: &ClientConnection,
    ) -> Option<AbortHandle> {
        match self {
            Era::Handshake => None,
            Era::Stateless => listen_stream::listen_for_handler(client, connection),
        }
    }

    /// Makes the server report changes of a task until the listener is dropped.
    pub(super) fn listen_for_task(self, client: &Client, id: &str) -> TaskListener {
        match self {
            // It reports them without being asked, or not at all.
            Era::Handshake => TaskListener::default(),
            Era::Stateless => listen_stream::listen_for_task(client, id),
        }
    }

    /// Subscribes again after a reconnect, where the server has forgotten.
    pub(super) async fn restore_subscriptions(self, client: &Client, connection: &Arc<ClientConnection>) {
        match self {
            Era::Handshake => handshake::restore_subscriptions(client, connection).await,
            // Each listen stream reconnects by itself.
            Era::Stateless => {}
        }
    }

    /// Sends a request that every server answers at once, and waits for the response.
    pub(super) async fn ping(self, connection: &Arc<ClientConnection>) -> Result<ServerReply, CallError> {
        match self {
            Era::Handshake => handshake::ping(connection).await,
            Era::Stateless => stateless::ping(connection).await,
        }
    }

    /// Tells the server that the roots have changed, in an era where it does not ask for them with each call.
    pub(super) async fn notify_roots_changed(self, connection: &Arc<ClientConnection>) -> Result<()> {
        match self {
            Era::Handshake => handshake::notify_roots_changed(connection).await,
            Era::Stateless => Ok(()),
        }
    }

    /// The next step after an error response.
    pub(super) fn recover(
        self,
        connection: &ClientConnection,
        request: &dyn OutboundRequest,
        error: &ClientError,
        attempts: &mut Attempts,
    ) -> Recovery {
        match self {
            Era::Handshake => Recovery::Fail,
            Era::Stateless => stateless::recover(connection, request, error, attempts),
        }
    }
}

/// The next step after an error response.
pub(super) enum Recovery {
    /// The error is final.
    Fail,
    /// Sends the request again.
    Resend,
    /// Reads the list of tools, then sends the request again.
    RefreshTools,
    /// Negotiates the revision anew, then sends the request again if the era is another.
    Renegotiate,
}

/// The recoveries already tried for one request.
#[derive(Default)]
pub(super) struct Attempts {
    tools_refreshed: bool,
    resent: bool,
}
