//! The handshake era, up to 2025-11-25: questions are requests to the client.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::RpcError;

use crate::server::ask::Question;
use crate::server::ask_error::AskError;
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;
use crate::server::outgoing_requests::send_request;
use crate::server::round::{QuestionKey, request_answer};

/// Sends the question as a request and waits for the response. The timeout of the call pauses meanwhile.
pub(super) async fn ask(context: &Context, question: Question) -> Result<RawJson, AskError> {
    let paused = context.call_state().pause_timeout();
    if context.call_state().kept().is_some() {
        // The driver of the handler sends the question.
        let answer = request_kept_answer(context, question).await;
        drop(paused);
        return answer;
    }
    let (requests, outbox) = (context.outgoing_requests(), context.outbox());
    let timeout = question.timeout.unwrap_or_else(|| context.ask_timeout());
    let answer = send_request(requests, outbox, context.revision(), question.request, timeout).await;
    drop(paused);
    answer
}

/// Takes the answer from an earlier run of the handler, or waits for it.
async fn request_kept_answer(context: &Context, question: Question) -> Result<RawJson, AskError> {
    let (call, reuses_answer) = (context.call_state(), question.reuses_answer);
    let key = question.key.map(|key| QuestionKey { key, reuses_answer });
    let timeout = question.timeout.unwrap_or_else(|| context.ask_timeout());
    request_answer(call.driver(), &call.round(), key, question.request, (timeout, false)).await?.into_result()
}

/// The error with which the client sends the user to the page and then calls again.
pub(super) fn url_required_error(page: UrlParams) -> HandlerError {
    HandlerError::from_rpc_error(RpcError::UrlElicitationRequired { elicitations: vec![page] })
}
