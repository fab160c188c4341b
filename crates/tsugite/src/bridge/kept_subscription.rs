//! A subscription of the bridge to the changes of a server, opened again whenever it ends.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::backoff::{STABLE_CONNECTION_AGE, backoff};
use super::upstream::Upstream;
use crate::client::{ChangeFilter, Client, ErrorKind, Subscription};

/// The time at which a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    First,
    /// After an interruption, in which changes may have been missed.
    Again,
}

/// Listens to a server until the future is dropped or the connection is closed. Returns if the server refuses the first
/// subscription.
///
/// `current` is a subscription that is open already. `on_begin` is called with each one. The changes themselves arrive
/// at the observer of the connection.
pub(super) async fn keep_listening(
    upstream: Weak<Upstream>,
    mut current: Option<Subscription>,
    filter: impl Fn(&Upstream, &Client) -> ChangeFilter,
    on_begin: impl Fn(&Arc<Upstream>, &Subscription, Begin),
) {
    let (mut begin, mut failures, mut warned) = (Begin::First, 0, false);
    loop {
        if let (Some(mut subscription), Some(strong)) = (current.take(), upstream.upgrade()) {
            on_begin(&strong, &subscription, begin);
            drop(strong);
            (begin, warned) = (Begin::Again, false);
            let since = Instant::now();
            loop {
                match subscription.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => break,
                    None => return,
                }
            }
            failures = if since.elapsed() > STABLE_CONNECTION_AGE { 1 } else { failures + 1 };
        }
        tokio::time::sleep(backoff(failures)).await;
        let Some(strong) = upstream.upgrade() else { return };
        strong.wait_connected().await;
        let Some(client) = strong.client_if_connected().cloned() else { return };
        let watched = filter(&strong, &client);
        match client.listen(watched).await {
            Ok(subscription) => current = Some(subscription),
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    strong.not_subscribed(&error);
                }
                let refused = matches!(error.kind(), ErrorKind::ErrorResponse { .. });
                if client.is_closed() || (refused && begin == Begin::First) {
                    return;
                }
                failures += 1;
            }
        }
    }
}
