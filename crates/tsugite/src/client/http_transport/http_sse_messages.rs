//! Messages to a server over HTTP+SSE. Responses arrive on its stream, or in the response to the POST.

use std::sync::Arc;

use http::StatusCode;

use super::{SESSION_EXPIRED, outcome_in_error_body, parse_response, request_kind, trace_body};
use crate::client::call_error::CallError;
use crate::client::client_error::ClientError;
use crate::client::connection::ClientConnection;
use crate::client::encoded_request::EncodedRequest;
use crate::client::http::{
    HttpSse, MAX_ERROR_BODY_BYTES, Repeat, RequestKind, ResponseReader, excerpt, message_headers, user_header,
};
use crate::client::pending_calls::PendingCall;
use crate::client::transport::ServerReply;

impl HttpSse {
    /// Sends a request. Returns its outcome if the server has put it into the response to the POST.
    pub(in crate::client) async fn send_request(
        &self,
        connection: &ClientConnection,
        call: &Arc<PendingCall>,
        outgoing: EncodedRequest<'_>,
    ) -> Result<Option<ServerReply>, CallError> {
        let headers = || {
            let mut headers = message_headers();
            for (name, value) in outgoing.extra_headers {
                let (name, value) = user_header(name, value)?;
                headers.insert(name, value);
            }
            Ok(headers)
        };
        let is_outcome = |body: &[u8]| parse_response(body, connection, call).is_some();
        let repeat = if outgoing.harmless { Repeat::Unless(&is_outcome) } else { Repeat::Never };
        let kind = request_kind(&outgoing, call);
        let response = self.post(kind, &headers, outgoing.bytes, repeat).await?;
        let may_have_run_before = response.may_have_run_before;
        let outcome = match response.status.is_success() {
            true => Ok(read_accepted(response, connection, call).await),
            false => read_refused(response, connection, call).await.map(Some),
        };
        outcome.map_err(|error| error.after_attempts(may_have_run_before))
    }

    /// Sends a notification or a response.
    pub(in crate::client) async fn send_message(
        &self,
        connection: &ClientConnection,
        bytes: Vec<u8>,
    ) -> Result<(), CallError> {
        let headers = || Ok(message_headers());
        let response = self.post(RequestKind::Message, &headers, bytes, Repeat::ALWAYS).await?;
        if response.status.is_success() {
            response.discard();
            return Ok(());
        }
        check_session(response.status, connection)?;
        let (status, retry_after) = (response.status.as_u16(), response.retry_after());
        let body = excerpt(&response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default());
        Err(ClientError::status(status, body, retry_after).into())
    }
}

/// The outcome in the response to an accepted request. Most servers send it on the stream.
async fn read_accepted(
    response: ResponseReader,
    connection: &ClientConnection,
    call: &PendingCall,
) -> Option<ServerReply> {
    if !response.is_json() {
        response.discard();
        return None;
    }
    let body = response.read_to_end(connection.limits().max_message_bytes).await.unwrap_or_default();
    let outcome = parse_response(&body, connection, call)?;
    trace_body(connection, &body);
    Some(outcome)
}

/// Reads a response whose status is not a success: a lost session, the outcome of the call, or an HTTP error.
async fn read_refused(
    response: ResponseReader,
    connection: &ClientConnection,
    call: &PendingCall,
) -> Result<ServerReply, CallError> {
    let (status, retry_after) = (response.status, response.retry_after());
    check_session(status, connection)?;
    let body = response.read_to_end(MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
    trace_body(connection, &body);
    outcome_in_error_body(status, &body, connection, call)
        .ok_or_else(|| ClientError::status(status.as_u16(), excerpt(&body), retry_after).into())
}

/// Ends the connection if the server does not know the session that its `endpoint` event named.
fn check_session(status: StatusCode, connection: &ClientConnection) -> Result<(), CallError> {
    if status == StatusCode::NOT_FOUND && connection.negotiated().is_some() {
        connection.mark_disconnected(SESSION_EXPIRED);
        return Err(CallError::not_sent(SESSION_EXPIRED));
    }
    Ok(())
}
