//! The handshake era, up to 2025-11-25: questions are requests to the client.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::RpcError;

use crate::server::ask::Question;
use crate::server::ask_error::AskError;
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;
use crate::server::outgoing_requests::send_request;

/// Sends the question as a request and waits for the response. The timeout of the call pauses meanwhile.
pub(super) async fn ask(context: &Context, question: Question) -> Result<RawJson, AskError> {
    let paused = context.call_state().pause_timeout();
    let (requests, outbox) = (context.outgoing_requests(), context.outbox());
    let timeout = question.timeout.unwrap_or_else(|| context.ask_timeout());
    let answer = send_request(requests, outbox, context.revision(), question.request, timeout).await;
    drop(paused);
    answer
}

/// The error with which the client sends the user to the page and then calls again.
pub(super) fn url_required_error(page: UrlParams) -> HandlerError {
    HandlerError::from_rpc_error(RpcError::UrlElicitationRequired { elicitations: vec![page] })
}
