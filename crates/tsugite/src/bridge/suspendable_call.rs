//! A call during which the server may send requests, and the requests that wait for an answer of the client.

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tokio::sync::{Notify, oneshot};
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::elicitation::Create;
use tsugite_core::protocol::mrtr::{InputResponses, RawInputRequest, RawInputRequired};
use tsugite_core::protocol::sampling::CreateMessage;
use tsugite_core::protocol::{ClientCapabilities, Method, OrderedMap, roots};
use tsugite_core::revision::{Revision, RpcError, translate_raw_input_response, translate_raw_params};

use super::bridge_errors::unsupported_error;
use crate::client::upstream_observer::RequestResult;
use crate::lock::lock;

/// A call in flight at a server, and the requests that the server sends meanwhile.
pub(super) struct SuspendableCall {
    state: Mutex<SuspendableState>,
    /// The requests that the client can answer.
    client_capabilities: ClientCapabilities,
    /// The revision of the client.
    revision: Revision,
    /// Wakes those who wait for a question of a task.
    changed: Notify,
}

#[derive(Default)]
struct SuspendableState {
    input_requests: Vec<PendingInputRequest>,
    request_count: usize,
    outcome: Option<Result<RawJson, RpcError>>,
    waker: Option<Waker>,
}

struct PendingInputRequest {
    key: String,
    method: String,
    /// As the client reads it.
    params: RawJson,
    response: oneshot::Sender<RequestResult>,
    /// The revision of the server.
    from: Revision,
}

impl PendingInputRequest {
    /// The request under its key, as the client's result holds it.
    fn to_raw(&self) -> (String, RawInputRequest) {
        let request = RawInputRequest { method: self.method.clone(), params: Some(self.params.clone()) };
        (self.key.clone(), request)
    }
}

impl SuspendableCall {
    pub(super) fn new(client_capabilities: ClientCapabilities, revision: Revision) -> Self {
        Self { state: Mutex::default(), client_capabilities, revision, changed: Notify::new() }
    }

    /// Takes a request of the server. The answer arrives when the client has returned.
    pub(super) async fn request_input(
        &self,
        method: &str,
        params: &RawJson,
        from: Revision,
    ) -> RequestResult {
        let offered = match method {
            Create::NAME => self.client_capabilities.elicitation.is_some(),
            CreateMessage::NAME => self.client_capabilities.sampling.is_some(),
            roots::List::NAME => self.client_capabilities.roots.is_some(),
            _ => false,
        };
        if !offered {
            return Err(RpcError::MethodNotFound { method: method.to_owned() }.to_error_object(from));
        }
        let translated = translate_raw_params(method, Raw::from(params), from, self.revision);
        // The client's revision has no such request, but its results may hold one.
        let params = translated.map_err(|error| unsupported_error(&error, method).to_error_object(from))?;
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            state.request_count += 1;
            if state.request_count > MAX_INPUT_REQUESTS {
                let text = format!("more than {MAX_INPUT_REQUESTS} questions for one call");
                let error = RpcError::InvalidRequest(text.into()).with("limit", MAX_INPUT_REQUESTS);
                return Err(error.to_error_object(from));
            }
            let key = format!("question-{}", state.request_count);
            state.input_requests.push(PendingInputRequest {
                key,
                method: method.to_owned(),
                params,
                response: answer,
                from,
            });
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
        self.wake();
        answered.await.unwrap_or_else(|_| {
            Err(RpcError::internal_with_message("the call was dropped before the client answered")
                .to_error_object(from))
        })
    }

    /// Asks the user to visit the web pages that a server of 2025-11-25 requires before a call. True if the user has
    /// accepted all of them.
    pub(super) async fn elicit_required_urls(&self, error: &RpcError) -> bool {
        #[derive(serde::Deserialize)]
        struct UrlElicitations {
            elicitations: Vec<RawJson>,
        }
        let RpcError::Forwarded(error) = error else { return false };
        let Some(UrlElicitations { elicitations }) = error.data.as_ref().and_then(|data| data.read().ok())
        else {
            return false;
        };
        if self.client_capabilities.elicitation.as_ref().is_none_or(|can| can.url.is_none())
            || elicitations.is_empty()
        {
            return false;
        }
        let from = Revision::NEWEST_HANDSHAKE;
        for page in elicitations {
            #[derive(serde::Deserialize)]
            struct ElicitAction {
                action: String,
            }
            let answer = self.request_input(Create::NAME, &page, from).await;
            let accepted = answer.ok().and_then(|answer| answer.read::<ElicitAction>().ok());
            if accepted.is_none_or(|answer| answer.action != "accept") {
                return false;
            }
        }
        true
    }

    /// Sets the outcome.
    pub(super) fn complete(&self, outcome: Result<RawJson, RpcError>) {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The outcome, or `None` if the server has sent a request.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RawJson, RpcError>>> {
        let mut state = lock(&self.state);
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Some(outcome));
        }
        // The server may have cancelled its request.
        state.input_requests.retain(|question| !question.response.is_closed());
        if !state.input_requests.is_empty() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The requests that have no answer yet.
    pub(super) fn open_requests(&self) -> OrderedMap<RawInputRequest> {
        let mut state = lock(&self.state);
        state.input_requests.retain(|question| !question.response.is_closed());
        state.input_requests.iter().map(PendingInputRequest::to_raw).collect()
    }

    /// Waits for the next question or [`SuspendableCall::wake`].
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Wakes all that wait for a change.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Hands the client's answers to the server.
    pub(super) fn resolve_inputs(&self, answers: &InputResponses) {
        let answered: Vec<_> = {
            let mut state = lock(&self.state);
            let (answered, open) =
                state.input_requests.drain(..).partition(|question| answers.get(&question.key).is_some());
            state.input_requests = open;
            answered
        };
        for PendingInputRequest { key, method, response: answer, from, .. } in answered {
            let Some(raw) = answers.get(&key) else { continue };
            let carried = translate_raw_input_response(&method, Raw::from(raw), self.revision, from);
            // The server may have cancelled its request meanwhile.
            drop(
                answer
                    .send(carried.map_err(|error| unsupported_error(&error, &method).to_error_object(from))),
            );
        }
    }

    /// The pending requests as a result that asks for input.
    pub(super) fn input_required_result(&self, state: String) -> Result<RawJson, RpcError> {
        let requests = lock(&self.state).input_requests.iter().map(PendingInputRequest::to_raw).collect();
        let request_state = RawJson::from_value(&state).map_err(|_| RpcError::Internal)?;
        let result = RawInputRequired { input_requests: Some(requests), request_state: Some(request_state) };
        result.to_result().map_err(|_| RpcError::Internal)
    }
}

/// Requests a server may send during one call.
const MAX_INPUT_REQUESTS: usize = 128;
