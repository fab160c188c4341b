//! The stream on which a server says what belongs to no call, up to 2025-11-25.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::oneshot;
use tsugite_core::sse::SseReader;

use super::stream::{End, SOONEST, read};
use crate::client::carrier::Carrier;
use crate::client::error::Error;
use crate::client::link::Link;

/// Opens the stream and keeps it open as long as the connection lasts. Returns when the server has answered whether it
/// has one, or has taken too long over it: some say nothing before they have something to say.
pub(in crate::client) async fn start(link: &Arc<Link>) {
    let (opened, answer) = oneshot::channel();
    link.keep(&tokio::spawn(hear(Arc::clone(link), opened)));
    let _ = tokio::time::timeout(OPENING, answer).await;
}

async fn hear(link: Arc<Link>, opened: oneshot::Sender<()>) {
    let Carrier::Http(http) = &link.carrier else { return };
    let mut opened = Some(opened);
    let mut events = SseReader::new(link.limits().max_message_bytes);
    let mut was_open = false;
    let mut in_vain = 0;
    while link.lost().is_none() {
        let reply = http.open_stream(&link, events.last_event_id()).await;
        match reply {
            Ok(reply) if reply.status == StatusCode::OK && reply.is_stream() => {
                was_open = true;
                if let Some(opened) = opened.take() {
                    let _ = opened.send(());
                }
                events.reopen();
                match read(&link, None, &mut events, reply).await {
                    Ok(End::Over { heard: true, .. } | End::Answered) => in_vain = 0,
                    Ok(End::Over { heard: false, .. }) => in_vain += 1,
                    Err(trouble) => {
                        tracing::warn!(error = %Error::from(trouble), "the stream of the server is given up");
                        return;
                    }
                }
            }
            Ok(reply) => {
                // 405 is normal: not every server has such a stream.
                let status = reply.status;
                reply.discard();
                if was_open && status == StatusCode::NOT_FOUND {
                    link.lose(super::SESSION_GONE);
                    return;
                }
                if !status.is_server_error() {
                    tracing::debug!(status = status.as_u16(), "the server has no stream of its own");
                    return;
                }
                in_vain += 1;
            }
            Err(trouble) => {
                tracing::debug!(error = %Error::from(trouble), "the stream of the server cannot be opened");
                in_vain += 1;
            }
        }
        if in_vain > IN_VAIN {
            tracing::debug!("the stream of the server is given up");
            return;
        }
        let wait = events.retry().unwrap_or(RETRY).max(SOONEST) * 2_u32.pow(in_vain.min(5));
        tokio::time::sleep(wait).await;
    }
}

/// How long the first answer is waited for.
const OPENING: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(500);
const IN_VAIN: u32 = 10;
