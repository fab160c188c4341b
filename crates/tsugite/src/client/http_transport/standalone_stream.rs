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
use crate::shared::log;

/// Opens the standalone stream, if the transport has one and the settings allow it.
pub(in crate::client) async fn start_standalone_stream(connection: &Arc<ClientConnection>) {
    if matches!(connection.transport, Transport::StreamableHttp(_))
        && connection.shared.settings.standalone_stream
    {
        start(connection).await;
    }
}

/// Opens the stream and keeps it open until the connection ends. Returns when the server has responded, or after a
/// short timeout: some servers send no response head before the first event.
async fn start(connection: &Arc<ClientConnection>) {
    let (opened, answer) = oneshot::channel();
    connection.register_task(&tokio::spawn(run(Arc::clone(connection), opened)));
    let _ = tokio::time::timeout(OPEN_TIMEOUT, answer).await;
}

async fn run(connection: Arc<ClientConnection>, opened: oneshot::Sender<()>) {
    let Transport::StreamableHttp(http) = &connection.transport else { return };
    let mut opened = Some(opened);
    let mut events = SseReader::new(connection.limits().max_message_bytes);
    let mut was_open = false;
    let mut failures = 0;
    while connection.disconnect_reason().is_none() {
        let response = http.open_stream(&connection, events.last_event_id()).await;
        let mut is_open = false;
        match response {
            Ok(response) if response.status == StatusCode::OK && response.is_stream() => {
                (was_open, is_open) = (true, true);
                if let Some(opened) = opened.take() {
                    let _ = opened.send(());
                }
                events.reopen();
                let max_silence = connection.shared.settings.max_stream_silence();
                match read_events(&connection, None, &mut events, response, max_silence).await {
                    // A server that sends no comments is silent for long, too.
                    Ok(
                        StreamEnd::Ended { received_events: true, .. }
                        | StreamEnd::ResponseReceived
                        | StreamEnd::Silent(_),
                    ) => failures = 0,
                    Ok(StreamEnd::Ended { received_events: false, .. }) => failures += 1,
                    Err(error) => {
                        log::warn!(error = %ClientError::from(error), "the standalone stream has failed and is not opened again");
                        return;
                    }
                }
            }
            Ok(response) => {
                // 405 is normal: a server need not offer this stream.
                let status = response.status;
                response.discard();
                if was_open && status == StatusCode::NOT_FOUND {
                    connection.mark_disconnected(super::SESSION_EXPIRED);
                    return;
                }
                if !status.is_server_error() {
                    tracing::debug!(status = status.as_u16(), "the server offers no standalone stream");
                    return;
                }
                failures += 1;
            }
            Err(error) => {
                tracing::debug!(error = %ClientError::from(error), "cannot open the standalone stream");
                failures += 1;
            }
        }
        if failures > MAX_EMPTY_ATTEMPTS {
            tracing::debug!(attempts = failures, "the standalone stream is not opened again");
            // Without the stream no change arrives, so its listeners need another connection or the error.
            if was_open && !is_open && connection.shared.has_listeners() {
                connection.mark_disconnected("the stream for messages of the server cannot be opened again");
            }
            return;
        }
        let delay = events.retry().unwrap_or(DEFAULT_RETRY_INTERVAL).max(MIN_RETRY_INTERVAL)
            * 2_u32.pow(failures.min(5));
        tokio::time::sleep(delay).await;
    }
}

/// How long `start` waits for the response head.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_millis(500);
const MAX_EMPTY_ATTEMPTS: u32 = 10;
