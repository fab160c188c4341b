//! The stream of HTTP+SSE: opens it, and dispatches the messages of the server.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::oneshot;
use tsugite_core::sse::SseReader;

use super::response_stream::event_too_large;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind, TimeoutKind};
use crate::client::client_state::ClientState;
use crate::client::connection::ClientConnection;
use crate::client::http::{
    HttpConfig, HttpSse, MAX_ERROR_BODY_BYTES, Repeat, RequestKind, ResponseReader, excerpt, stream_headers,
};
use crate::client::transport::Transport;

impl HttpSse {
    /// Opens the stream and waits for its `endpoint` event.
    pub(in crate::client) async fn open(
        shared: &Arc<ClientState>,
        config: &HttpConfig,
    ) -> Result<Arc<ClientConnection>, ClientError> {
        let limit = shared.settings.timeouts.idle_timeout;
        let endpoint = config.endpoint(limit, Arc::clone(&shared.clock))?;
        let opened = shared.clock.timeout(
            limit,
            endpoint.send(
                RequestKind::Stream,
                &endpoint.uri,
                &|| Ok(stream_headers()),
                Bytes::new(),
                Repeat::ALWAYS,
            ),
        );
        let response = opened.await.map_err(|_| ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle })??;
        if response.status != StatusCode::OK || !response.is_stream() {
            let status = response.status.as_u16();
            let body = tokio::time::timeout(limit, response.read_to_end(MAX_ERROR_BODY_BYTES)).await;
            let body = excerpt(&body.ok().and_then(Result::ok).unwrap_or_default());
            return Err(ClientError::negotiation_status(status, body));
        }
        let connection =
            ClientConnection::new(Arc::clone(shared), Transport::HttpSse(Box::new(HttpSse::new(endpoint))));
        let (endpoint_sender, endpoint_event) = oneshot::channel();
        connection.register_task(&tokio::spawn(read_events(
            Arc::clone(&connection),
            response,
            endpoint_sender,
        )));
        let limit = shared.settings.probe_timeout;
        match tokio::time::timeout(limit, endpoint_event).await {
            Ok(Ok(Ok(()))) => Ok(connection),
            Ok(Ok(Err(error))) => {
                connection.abort("the stream has no valid `endpoint` event");
                Err(error)
            }
            Ok(Err(_)) | Err(_) => {
                connection.abort("the stream has no `endpoint` event");
                let reason = "the server sent no `endpoint` event";
                Err(ClientError::connect(ConnectStep::Handshake, reason))
            }
        }
    }
}

/// Reads the stream until it ends, which ends the connection.
async fn read_events(
    connection: Arc<ClientConnection>,
    mut response: ResponseReader,
    endpoint_sender: oneshot::Sender<Result<(), ClientError>>,
) {
    let Transport::HttpSse(sse) = &connection.transport else { return };
    let mut endpoint_sender = Some(endpoint_sender);
    let mut events = SseReader::new(connection.limits().max_message_bytes);
    let reason = 'stream: loop {
        let chunk = match response.chunk().await {
            None => break "the server closed the connection".to_owned(),
            Some(Err(error)) => break format!("the connection was lost: {error}"),
            Some(Ok(chunk)) => chunk,
        };
        events.push(&chunk);
        while let Some(event) = events.next_event() {
            let event = match event {
                Ok(event) => event,
                Err(error) => break 'stream ClientError::from(event_too_large(error)).to_string(),
            };
            if event.name != "endpoint" {
                connection.receive(event.data, None);
                continue;
            }
            let Some(endpoint_sender) = endpoint_sender.take() else { continue };
            let reference = String::from_utf8_lossy(event.data);
            let outcome = match sse.set_message_uri(&reference) {
                true => Ok(()),
                false => {
                    let reason = "the `endpoint` event points to another server";
                    Err(ClientError::connect(ConnectStep::Handshake, reason))
                }
            };
            let _ = endpoint_sender.send(outcome);
        }
        connection.wait_for_observer().await;
    };
    connection.mark_disconnected(&reason);
}
