//! The standalone stream, on which a server sends messages outside of calls, up to 2025-11-25.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::oneshot;
use tsugite_core::sse::SseReader;

use super::response_stream::{MIN_RETRY_INTERVAL, StreamEnd, read_events};
use crate::client::client_error::ClientError;
use crate::client::connection::ClientConnection;
use crate::client::transport::Transport;

/// Opens the stream and keeps it open until the connection ends. Returns when the server has responded, or after a
/// short timeout: some servers send no response head before the first event.
pub(in crate::client) async fn start(link: &Arc<ClientConnection>) {
    let (opened, answer) = oneshot::channel();
    link.register_task(&tokio::spawn(run(Arc::clone(link), opened)));
    let _ = tokio::time::timeout(OPEN_TIMEOUT, answer).await;
}

async fn run(link: Arc<ClientConnection>, opened: oneshot::Sender<()>) {
    let Transport::StreamableHttp(http) = &link.transport else { return };
    let mut opened = Some(opened);
    let mut events = SseReader::new(link.limits().max_message_bytes);
    let mut was_open = false;
    let mut in_vain = 0;
    while link.disconnect_reason().is_none() {
        let reply = http.open_stream(&link, events.last_event_id()).await;
        match reply {
            Ok(reply) if reply.status == StatusCode::OK && reply.is_stream() => {
                was_open = true;
                if let Some(opened) = opened.take() {
                    let _ = opened.send(());
                }
                events.reopen();
                match read_events(&link, None, &mut events, reply).await {
                    Ok(StreamEnd::Ended { received_events: true, .. } | StreamEnd::ResponseReceived) => {
                        in_vain = 0
                    }
                    Ok(StreamEnd::Ended { received_events: false, .. }) => in_vain += 1,
                    Err(trouble) => {
                        tracing::warn!(error = %ClientError::from(trouble), "the standalone stream has failed and is not opened again");
                        return;
                    }
                }
            }
            Ok(reply) => {
                // 405 is normal: a server need not offer this stream.
                let status = reply.status;
                reply.discard();
                if was_open && status == StatusCode::NOT_FOUND {
                    link.mark_disconnected(super::SESSION_EXPIRED);
                    return;
                }
                if !status.is_server_error() {
                    tracing::debug!(status = status.as_u16(), "the server offers no standalone stream");
                    return;
                }
                in_vain += 1;
            }
            Err(trouble) => {
                tracing::debug!(error = %ClientError::from(trouble), "cannot open the standalone stream");
                in_vain += 1;
            }
        }
        if in_vain > MAX_EMPTY_ATTEMPTS {
            tracing::debug!(attempts = in_vain, "the standalone stream is not opened again");
            return;
        }
        let wait = events.retry().unwrap_or(DEFAULT_RETRY_INTERVAL).max(MIN_RETRY_INTERVAL)
            * 2_u32.pow(in_vain.min(5));
        tokio::time::sleep(wait).await;
    }
}

/// How long `start` waits for the response head.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_millis(500);
const MAX_EMPTY_ATTEMPTS: u32 = 10;
