//! The HTTP+SSE transport of 2024-11-05: one stream for all messages of the server, and one URL for all of the client.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, StatusCode, Uri};
use tokio::sync::oneshot;
use tsugite_core::sse::SseReader;

use super::http_endpoint::{HttpEndpoint, ResponseReader, message_headers, stream_headers};
use super::response_stream::event_too_large;
use super::{HttpConfig, excerpt};
use crate::client::call_error::CallError;
use crate::client::client_error::{ClientError, ConnectStep, ErrorKind, TimeoutKind};
use crate::client::client_state::ClientState;
use crate::client::connection::ClientConnection;
use crate::client::transport::{EncodedRequest, Transport};
use crate::lock::lock;

/// An HTTP+SSE connection.
pub(in crate::client) struct HttpSse {
    endpoint: HttpEndpoint,
    /// The URL that messages are sent to, from the `endpoint` event.
    message_uri: Mutex<Option<Uri>>,
}

impl HttpSse {
    /// Opens the stream and waits for its `endpoint` event.
    pub(in crate::client) async fn open(
        shared: &Arc<ClientState>,
        config: &HttpConfig,
    ) -> Result<Arc<ClientConnection>, ClientError> {
        let endpoint = config.endpoint(shared.settings.timeouts.idle_timeout)?;
        let limit = shared.settings.timeouts.idle_timeout;
        let opened = tokio::time::timeout(
            limit,
            endpoint.send(Method::GET, &endpoint.uri, &|| Ok(stream_headers()), Bytes::new()),
        );
        let response = opened.await.map_err(|_| ErrorKind::TimedOut { limit, kind: TimeoutKind::Idle })??;
        if response.status != StatusCode::OK || !response.is_stream() {
            let status = response.status.as_u16();
            let body = tokio::time::timeout(limit, response.read_to_end(super::MAX_ERROR_BODY_BYTES)).await;
            let body = excerpt(&body.ok().and_then(Result::ok).unwrap_or_default());
            return Err(ErrorKind::Status { status, body }.into());
        }
        let connection = ClientConnection::new(
            Arc::clone(shared),
            Transport::HttpSse(Box::new(HttpSse { endpoint, message_uri: Mutex::default() })),
        );
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

    /// Sends a request; its response arrives on the stream.
    pub(in crate::client) async fn send_request(
        &self,
        outgoing: EncodedRequest<'_>,
    ) -> Result<(), CallError> {
        let headers = || {
            let mut headers = message_headers();
            for (name, value) in outgoing.extra_headers {
                let (name, value) = super::http_endpoint::user_header(name, value)?;
                headers.insert(name, value);
            }
            Ok(headers)
        };
        self.post(&headers, outgoing.bytes).await
    }

    /// Sends a notification or a response.
    pub(in crate::client) async fn send_message(&self, bytes: Vec<u8>) -> Result<(), CallError> {
        self.post(&|| Ok(message_headers()), bytes).await
    }

    async fn post(
        &self,
        headers: &(dyn Fn() -> Result<http::HeaderMap, ClientError> + Sync),
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        let Some(uri) = lock(&self.message_uri).clone() else {
            return Err(CallError::not_sent("the server has sent no `endpoint` event"));
        };
        let response = self.endpoint.send(Method::POST, &uri, headers, bytes.into()).await?;
        if response.status.is_success() {
            response.discard();
            return Ok(());
        }
        let status = response.status.as_u16();
        let body = excerpt(&response.read_to_end(super::MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ErrorKind::Status { status, body }.into())
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
            let uri = sse.endpoint.address.join(&reference).and_then(|address| address.path.parse().ok());
            let outcome = match &uri {
                Some(_) => Ok(()),
                // Messages may contain credentials, so they are sent only to the same server.
                None => {
                    let reason = "the `endpoint` event points to another server";
                    Err(ClientError::connect(ConnectStep::Handshake, reason))
                }
            };
            *lock(&sse.message_uri) = uri;
            let _ = endpoint_sender.send(outcome);
        }
        connection.wait_for_observer().await;
    };
    connection.mark_disconnected(&reason);
}
