//! Starts a child again that exited while only subscriptions wait for it.

use std::sync::Arc;

use super::connection::ClientConnection;
use super::transport::Transport;
use super::{Client, WeakClient};
use crate::shared::log;

/// Watches the connection to a child. If it is lost while the client listens for changes, the child is started again,
/// upon which the listeners get [`Change::All`](super::Change::All), or they get the error.
///
/// In the stateless era each listen stream does so itself.
pub(super) fn watch(client: &Client, connection: &Arc<ClientConnection>) {
    let is_child = matches!(connection.transport, Transport::Child(_));
    let observed = client.inner.shared.settings.observer.is_some();
    if is_child && !observed && connection.era().pushes_changes() {
        tokio::spawn(restart_when_lost(client.downgrade(), Arc::clone(connection)));
    }
}

async fn restart_when_lost(client: WeakClient, connection: Arc<ClientConnection>) {
    connection.disconnected().await;
    drop(connection);
    loop {
        let Some(client) = client.upgrade() else { return };
        if client.is_closed() || !client.inner.shared.has_listeners() {
            return;
        }
        let Err(error) = client.connection().await else { return };
        if client.inner.restarts.is_exhausted() {
            log::warn!(%error, "the server is gone, and subscriptions to its changes have ended");
            return client.inner.shared.fail_subscriptions(&error);
        }
    }
}
