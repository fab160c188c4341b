//! The stateless era, from 2026-07-28: questions are results that ask for input, and the handler runs again.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::elicitation::UrlParams;

use super::Question;
use crate::server::ask::{AnswerContext, AskError, answer_validator, request_input};
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;

/// Takes the answer from an earlier round, or ends this round with the question. An answer of the wrong shape is a mistake
/// of the client and fails the request.
pub(super) async fn ask(
    context: &Context,
    question: Question,
    answer_context: &AnswerContext,
) -> Result<RawJson, AskError> {
    let validate = answer_validator(&question.request);
    let round = context.state().round();
    let (key, answer) = request_input(context.state(), &round, question.key, question.request).await?;
    match validate(&answer, answer_context) {
        Ok(()) => Ok(answer),
        Err(text) => round.fail_invalid_answer(context.state(), &key, &text).await,
    }
}

/// A tool error for the model: this era has no error of its own for it.
pub(super) fn url_required_error(page: &UrlParams) -> HandlerError {
    HandlerError::new(format!("{} The user must visit {} first.", page.message, page.url))
}
