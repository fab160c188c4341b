//! Stands in for `http_transport` without the cargo feature `http`: no connection exists to send over.

use std::sync::Arc;

use super::call_error::CallError;
use super::connection::ClientConnection;
use super::encoded_request::EncodedRequest;
use super::http::{HttpSse, StreamableHttp};
use super::pending_calls::PendingCall;
use super::transport::ServerReply;

pub(super) async fn start_standalone_stream(_: &Arc<ClientConnection>) {}

impl StreamableHttp {
    pub(super) async fn exchange(
        &self,
        _: &Arc<ClientConnection>,
        _: &Arc<PendingCall>,
        _: EncodedRequest<'_>,
    ) -> Result<ServerReply, CallError> {
        match self.0 {}
    }

    pub(super) async fn send_message(&self, _: &Arc<ClientConnection>, _: Vec<u8>) -> Result<(), CallError> {
        match self.0 {}
    }

    pub(super) async fn close(&self, _: &Arc<ClientConnection>) {
        match self.0 {}
    }
}

impl HttpSse {
    pub(super) async fn send_request(
        &self,
        _: &ClientConnection,
        _: &Arc<PendingCall>,
        _: EncodedRequest<'_>,
    ) -> Result<Option<ServerReply>, CallError> {
        match self.0 {}
    }

    pub(super) async fn send_message(&self, _: &ClientConnection, _: Vec<u8>) -> Result<(), CallError> {
        match self.0 {}
    }
}
