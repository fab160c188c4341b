//! The HTTP+SSE transport of 2024-11-05: one stream for all messages of the server, and one URL for all of the client.

use std::sync::Mutex;

use http::{HeaderMap, Uri};

use super::http_endpoint::{HttpEndpoint, Repeat, message_headers, user_header};
use super::pool::RequestKind;
use super::{MAX_ERROR_BODY_BYTES, excerpt};
use crate::client::call_error::CallError;
use crate::client::client_error::ClientError;
use crate::client::encoded_request::EncodedRequest;
use crate::lock::lock;

/// An HTTP+SSE connection.
pub(in crate::client) struct HttpSse {
    endpoint: HttpEndpoint,
    /// The URL that messages are sent to, from the `endpoint` event.
    message_uri: Mutex<Option<Uri>>,
}

impl HttpSse {
    pub(in crate::client) fn new(endpoint: HttpEndpoint) -> Self {
        Self { endpoint, message_uri: Mutex::default() }
    }

    /// Sets the URL that messages are sent to. False if the URL is that of another server: messages may contain
    /// credentials, so they are sent only to the same server.
    pub(in crate::client) fn set_message_uri(&self, reference: &str) -> bool {
        let uri = self.endpoint.address.join(reference).and_then(|address| address.path.parse().ok());
        let is_same_server = uri.is_some();
        *lock(&self.message_uri) = uri;
        is_same_server
    }

    /// Sends a request; its response arrives on the stream.
    pub(in crate::client) async fn send_request(
        &self,
        outgoing: EncodedRequest<'_>,
    ) -> Result<(), CallError> {
        let headers = || {
            let mut headers = message_headers();
            for (name, value) in outgoing.extra_headers {
                let (name, value) = user_header(name, value)?;
                headers.insert(name, value);
            }
            Ok(headers)
        };
        let repeat = if outgoing.harmless { Repeat::ALWAYS } else { Repeat::Never };
        self.post(RequestKind::Call, &headers, outgoing.bytes, repeat).await
    }

    /// Sends a notification or a response.
    pub(in crate::client) async fn send_message(&self, bytes: Vec<u8>) -> Result<(), CallError> {
        self.post(RequestKind::Message, &|| Ok(message_headers()), bytes, Repeat::ALWAYS).await
    }

    async fn post(
        &self,
        kind: RequestKind,
        headers: &(dyn Fn() -> Result<HeaderMap, ClientError> + Sync),
        bytes: Vec<u8>,
        repeat: Repeat<'_>,
    ) -> Result<(), CallError> {
        let Some(uri) = lock(&self.message_uri).clone() else {
            return Err(CallError::not_sent("the server has sent no `endpoint` event"));
        };
        let response = self.endpoint.send(kind, &uri, headers, bytes.into(), repeat).await?;
        if response.status.is_success() {
            response.discard();
            return Ok(());
        }
        let (status, retry_after) = (response.status.as_u16(), response.retry_after());
        let body = excerpt(&response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ClientError::status(status, body, retry_after).into())
    }
}
