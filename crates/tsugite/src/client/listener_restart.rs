//! Opens a connection again that was lost while only subscriptions wait for it, or tells them that it is gone.

use std::sync::Arc;
use std::time::Duration;

use super::client_error::{ClientError, ErrorKind};
use super::connection::ClientConnection;
use super::{Client, ConnectTarget, WeakClient};
use crate::shared::log;

/// Watches a connection. If it is lost while the client listens for changes, it is opened again, upon which the listeners
/// get [`Change::All`](super::Change::All), or they get the error. Streams cannot be opened again.
///
/// In the stateless era each listen stream does so itself.
pub(super) fn watch(client: &Client, connection: &Arc<ClientConnection>) {
    let observed = client.inner.shared.settings.observer.is_some();
    if !observed && connection.era().pushes_changes() {
        tokio::spawn(reconnect_when_lost(client.downgrade(), Arc::clone(connection)));
    }
}

async fn reconnect_when_lost(client: WeakClient, connection: Arc<ClientConnection>) {
    connection.disconnected().await;
    let reason = connection.disconnect_reason().unwrap_or_default().to_owned();
    drop(connection);
    for failures in 1.. {
        let Some(client) = client.upgrade() else { return };
        if client.is_closed() || !client.inner.shared.has_listeners() {
            return;
        }
        if matches!(client.inner.target, ConnectTarget::Streams(_)) {
            let error = ErrorKind::ConnectionLost { may_have_run: false, reason };
            return fail_listeners(&client, &error.into());
        }
        let Err(error) = client.connection().await else { return };
        let delay = match &client.inner.target {
            // The start of a child has its own delay and limit.
            ConnectTarget::Child(_) if client.inner.restarts.is_exhausted() => None,
            ConnectTarget::Child(_) => Some(Duration::ZERO),
            _ if failures >= MAX_ATTEMPTS || !is_temporary(&error) => None,
            _ => Some(backoff(failures)),
        };
        let Some(delay) = delay else { return fail_listeners(&client, &error) };
        drop(client);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
}

fn fail_listeners(client: &Client, error: &ClientError) {
    log::warn!(%error, "the server is gone, and subscriptions to its changes have ended");
    client.inner.shared.fail_subscriptions(error);
}

/// Whether a later attempt may succeed.
fn is_temporary(error: &ClientError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Connect { .. }
            | ErrorKind::ConnectionLost { .. }
            | ErrorKind::Status { .. }
            | ErrorKind::TimedOut { .. }
    )
}

/// The delay before the next attempt: doubles with each failure, up to 30 seconds.
fn backoff(failures: u32) -> Duration {
    Duration::from_millis(250).saturating_mul(1 << failures.min(7)).min(Duration::from_secs(30))
}

/// Attempts to open the connection again.
const MAX_ATTEMPTS: u32 = 10;
