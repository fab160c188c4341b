//! The stateless era, from 2026-07-28: each request says who sends it, and the server sends no requests.

use std::future::poll_fn;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson, Request};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::meta::{self, ClientMeta};
use tsugite_core::protocol::{EmptyParams, Meta, Method, tools};
use tsugite_core::revision::{Revision, RpcError, code};
use tsugite_core::session::ClientMetaPresence;

use super::{Attempts, Recovery, listen_stream};
use crate::client::call::TypedRequest;
use crate::client::call_error::CallError;
use crate::client::client_error::{ClientError, ErrorKind, Result, TimeoutKind};
use crate::client::client_settings::ClientSettings;
use crate::client::connection::{ClientConnection, OutboundRequest};
use crate::client::forwarded_sender::ForwardedSender;
use crate::client::options::Options;
use crate::client::pending_calls::PendingCall;
use crate::client::subscription::Subscription;
use crate::client::transport::{ServerReply, Transport};
use crate::shared::log;

/// The keys of `_meta` in which a request describes its sender.
pub(in crate::client) const SENDER_KEYS: [&str; 4] =
    [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL];

/// The revision, the capabilities and the name of this client, and the log level it wants.
pub(super) fn request_meta(revision: Revision, settings: &ClientSettings) -> Vec<(&'static str, RawJson)> {
    let mut sender =
        ClientMeta::for_revision(revision, settings.capabilities()).client_info(settings.info.clone());
    if let Some(level) = settings.effective_log_level() {
        sender = sender.log_level(level);
    }
    let mut meta = Meta::new();
    meta.set_client_meta(&sender);
    SENDER_KEYS.into_iter().filter_map(|key| Some((key, meta.get(key)?.clone()))).collect()
}

/// Lets the description of the original sender stand, and removes ours where the connection carries several senders.
pub(super) fn set_forwarded_sender(
    target: &mut Option<Meta>,
    received: Option<&Meta>,
    sender: &ForwardedSender,
) {
    let meta = target.get_or_insert_default();
    if let Some(level) = &sender.log_level {
        meta.insert(meta::LOG_LEVEL, level);
    }
    for (key, value) in SENDER_KEYS.iter().filter_map(|key| Some((*key, received?.get(key)?))) {
        meta.insert(key, value);
    }
    // The connection was opened under another client's name.
    if sender.shared_connection && received.is_none_or(|received| received.get(meta::CLIENT_INFO).is_none()) {
        meta.remove(meta::CLIENT_INFO);
    }
}

/// The `_meta` of a forwarded request that has none, or nothing if the request describes its sender completely.
pub(super) fn forwarded_member(
    sender: &ForwardedSender,
    id: &Id<'_>,
    connection: &ClientConnection,
    options: &Options,
) -> Option<String> {
    match sender.meta_presence {
        ClientMetaPresence::Complete if sender.log_level.is_none() => Some(String::new()),
        // A shared connection was opened under another client's name, which must not be sent.
        ClientMetaPresence::Absent
            if !sender.shared_connection && connection.shared.settings.effective_log_level().is_none() =>
        {
            let entries = connection.request_meta_json(id, options);
            Some(match sender.log_level.as_ref() {
                None => ["\"_meta\":{", &entries, "}"].concat(),
                Some(level) => {
                    let level = RawJson::from_value(level).ok()?;
                    format!("\"_meta\":{{{entries},\"{}\":{}}}", meta::LOG_LEVEL, level.text())
                }
            })
        }
        _ => None,
    }
}

/// Sends `notifications/cancelled`, except over Streamable HTTP, where closing the response stream cancels.
pub(super) fn cancel(connection: &Arc<ClientConnection>, id: i64, reason: Option<String>) {
    if !matches!(connection.transport, Transport::StreamableHttp(_)) {
        connection.send_cancelled(id, reason);
    }
}

/// Ends a subscription that the server has cancelled; its result may follow or not. Nothing else is cancelled by a
/// server.
pub(super) fn handle_cancelled(connection: &ClientConnection, id: &Id<'static>) {
    if connection.shared.is_subscription(id) {
        connection.calls.complete(id, Ok(RawJson::empty_object()));
    }
}

/// Logs a request of the server, which this era does not have, and leaves it unanswered.
pub(super) fn reject_request(request: &Request<'_>) {
    log::warn!(
        method = &*request.method,
        "ignored a request of the server, which its revision does not allow"
    );
}

/// The subscription named in `_meta`, else the call on whose stream the notification arrived.
pub(super) fn subscription_id(meta: Option<&Meta>, via: Option<&Arc<PendingCall>>) -> Option<i64> {
    let named = meta.and_then(Meta::subscription_id);
    named.map(|id| id.as_i64().unwrap_or(NO_CALL)).or_else(|| via.map(|call| call.id()))
}

/// Opens a listen stream and waits until the server has acknowledged it.
pub(super) async fn subscribe(subscription: &mut Subscription) -> Result<()> {
    let (client, queue) = (&subscription.client, Arc::clone(&subscription.queue));
    let limit = client.inner.shared.settings.timeouts.idle_timeout;
    subscription.task = Some(listen_stream::spawn(client, &queue));
    let established = tokio::time::timeout(limit, poll_fn(|cx| queue.poll_established(cx))).await;
    established.map_err(|_| ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle })?
}

/// Decides whether a request that the server refused is worth sending again.
pub(super) fn recover(
    connection: &ClientConnection,
    request: &dyn OutboundRequest,
    error: &ClientError,
    attempts: &mut Attempts,
) -> Recovery {
    match error.code() {
        // The list of tools may have changed, and with it the arguments that headers repeat.
        Some(code::HEADER_MISMATCH) if !attempts.tools_refreshed && request.method() == tools::Call::NAME => {
            attempts.tools_refreshed = true;
            Recovery::RefreshTools
        }
        // The server lists the revision that it has just refused: the refusal may be about something else.
        Some(code::UNSUPPORTED_VERSION)
            if !attempts.resent && server_supports(error, connection.revision()) =>
        {
            attempts.resent = true;
            Recovery::Resend
        }
        // The assumed revision may be wrong: the server has refused, or its response cannot be read.
        _ if connection.take_revision_unverified()
            && (!error.may_have_run() || matches!(error.kind(), ErrorKind::Protocol(_)))
            && !connection.shared.settings.pinned =>
        {
            Recovery::Renegotiate
        }
        _ => Recovery::Fail,
    }
}

/// Whether the server says that it supports the revision it has just refused.
fn server_supports(error: &ClientError, revision: Revision) -> bool {
    matches!(error.as_rpc_error(), Some(RpcError::UnsupportedVersion { supported, .. }) if supported.contains(revision))
}

/// Sends `server/discover`, since this era has no `ping`.
pub(super) async fn ping(connection: &Arc<ClientConnection>) -> Result<ServerReply, CallError> {
    let options = Options { checks_liveness: true, ..Options::default() };
    connection.call(&TypedRequest::<Discover>::new(&EmptyParams::new()), &options).await
}

/// The id of no call of this client.
const NO_CALL: i64 = -1;
