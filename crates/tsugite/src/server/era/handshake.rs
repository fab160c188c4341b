//! The handshake era, up to 2025-11-25: questions are requests to the client.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::RpcError;

use super::Question;
use crate::server::ask::{AskError, send_request};
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;

/// Sends the question as a request and waits for the response. The timeout of the call pauses meanwhile.
pub(super) async fn ask(context: &Context, question: Question) -> Result<RawJson, AskError> {
    let paused = context.state().pause_timeout();
    let answer = send_request(context, question.request, question.timeout).await;
    drop(paused);
    answer
}

/// The error with which the client sends the user to the page and then calls again.
pub(super) fn url_required_error(page: UrlParams) -> HandlerError {
    HandlerError::from_rpc_error(RpcError::UrlElicitationRequired { elicitations: vec![page] })
}
