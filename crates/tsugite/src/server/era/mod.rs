//! The two eras of the protocol, as a server behaves in them.
//!
//! Up to 2025-11-25 a handler's question is a request to the client, whose answer arrives on the same connection
//! (`handshake`). From 2026-07-28 it is a result that asks for input: the handler runs again when the client has sent the
//! answer (`stateless`). Where the eras differ, the server asks the [`Era`] of the request, never its revision.

mod handshake;
mod stateless;

use tsugite_core::jsonrpc::{JsonError, Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::elicitation::UrlParams;
use tsugite_core::revision::{InferResultType, Revision, Translate, read_input_response, read_result};
use tsugite_core::session::RequestMeta;
use tsugite_core::session::request_meta::DeclaredClient;

use super::ask::{AnswerContext, Question};
use super::ask_error::AskError;
use super::context::Context;
use super::handler_error::HandlerError;
use crate::era::Era;

impl Era {
    /// Puts a question to the client, and returns the answer.
    pub(super) async fn ask(
        self,
        context: &Context,
        question: Question,
        answer_context: &AnswerContext,
    ) -> Result<RawJson, AskError> {
        match self {
            Era::Handshake => handshake::ask(context, question).await,
            Era::Stateless => stateless::ask(context, question, answer_context).await,
        }
    }

    /// Reads an answer as the output of the method that was asked.
    pub(super) fn read_answer<M: Method>(
        self,
        answer: &RawJson,
        revision: Revision,
    ) -> Result<M::Output, JsonError>
    where
        M::Output: Translate + InferResultType,
    {
        match self {
            Era::Handshake => read_result::<M>(Raw::from(answer), revision),
            Era::Stateless => read_input_response::<M>(answer),
        }
    }

    /// Whether a handler runs again after a question, so that results of `once` are stored and calls resumed.
    pub(super) fn repeats_handlers(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// Whether a question is sent to the client before the result.
    pub(super) fn sends_questions(self) -> bool {
        match self {
            Era::Handshake => true,
            Era::Stateless => false,
        }
    }

    /// Whether a question that the client cannot answer fails the request, with the missing capability as the error.
    pub(super) fn reports_missing_capability(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// Whether headers of an HTTP request repeat the arguments that a tool marks for it.
    pub(super) fn mirrors_arguments(self) -> bool {
        match self {
            Era::Handshake => false,
            Era::Stateless => true,
        }
    }

    /// The client as the request itself describes it; `None` where the session knows it.
    pub(super) fn declared_client<'a>(self, meta: &RequestMeta<'a>) -> Option<DeclaredClient<'a>> {
        match self {
            Era::Handshake => None,
            // It was checked when the request was received.
            Era::Stateless => meta.declared_client().ok(),
        }
    }

    /// Adds the id of a web page to the params with which the user is sent there, where the revision has ids.
    pub(super) fn set_elicitation_id(self, params: UrlParams, id: &str) -> UrlParams {
        match self {
            Era::Handshake => params.elicitation_id(id),
            Era::Stateless => params,
        }
    }

    /// The error of a call that fails until the user has visited a web page.
    pub(super) fn url_required_error(self, page: UrlParams) -> HandlerError {
        match self {
            Era::Handshake => handshake::url_required_error(page),
            Era::Stateless => stateless::url_required_error(&page),
        }
    }
}
