//! The stateless era, from 2026-07-28: questions are results that ask for input, and the handler runs again.

use std::time::Duration;

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::elicitation::UrlParams;

use crate::server::ask::{AnswerContext, Question, answer_validator};
use crate::server::ask_error::AskError;
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;
use crate::server::round::{QuestionKey, request_input};

/// Takes the answer from an earlier round, or ends this round with the question. An answer of the wrong shape is a mistake
/// of the client and fails the request.
pub(super) async fn ask(
    context: &Context,
    question: Question,
    answer_context: &AnswerContext,
) -> Result<RawJson, AskError> {
    let validate = answer_validator(&question.request);
    let round = context.call_state().round();
    let reuses_answer = question.reuses_answer;
    let key = question.key.map(|key| QuestionKey { key, reuses_answer });
    let (driver, timeout) = (context.call_state().driver(), question.timeout.unwrap_or(Duration::MAX));
    let (key, answer) = request_input(driver, &round, key, question.request, timeout).await?;
    match validate(&answer, answer_context) {
        Ok(()) => Ok(answer),
        Err(text) => round.fail_invalid_answer(context.call_state().driver(), &key, &text).await,
    }
}

/// A tool error for the model: this era has no error of its own for it.
pub(super) fn url_required_error(page: &UrlParams) -> HandlerError {
    HandlerError::new(format!("{} The user must visit {} first.", page.message, page.url))
}
