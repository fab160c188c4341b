//! The HTTP+SSE transport of 2024-11-05: one stream for all messages of the server, and one URL for all of the client.

use std::sync::Mutex;

use http::Uri;

use super::http_endpoint::{HeadersFn, HttpEndpoint, Repeat, ResponseReader};
use super::pool::RequestKind;
use crate::client::call_error::CallError;
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

    /// Sends a message, and returns the head of the response.
    pub(in crate::client) async fn post(
        &self,
        kind: RequestKind<'_>,
        headers: HeadersFn<'_>,
        bytes: Vec<u8>,
        repeat: Repeat<'_>,
    ) -> Result<ResponseReader, CallError> {
        let Some(uri) = lock(&self.message_uri).clone() else {
            return Err(CallError::not_sent("the server has sent no `endpoint` event"));
        };
        self.endpoint.send(kind, &uri, headers, bytes.into(), repeat).await
    }
}
