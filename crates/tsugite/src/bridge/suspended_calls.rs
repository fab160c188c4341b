//! A server with sessions asks in the middle of a call; a client without one is told in the answer, and comes back.
//!
//! The call to the server runs in a task of its own. When the server asks, the client gets its questions with a sealed
//! state, and the call waits here, for a while and not with any number of others, until the client comes back with
//! answers. A client that goes away while it waits for an answer takes the call with it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::elicitation::Create;
use tsugite_core::protocol::logging::SetLevel;
use tsugite_core::protocol::sampling::CreateMessage;
use tsugite_core::protocol::{ClientCapabilities, Method, OrderedMap, ResultType, roots};
use tsugite_core::revision::{Revision, RpcError, translate_raw_input_response, translate_raw_params};
use tsugite_core::session::RequestMeta;

use super::forward::{Forwarder, reply_target, translate_result};
use super::upstream::{InFlightCall, ReplyTarget, unsupported_error};
use super::upstream_pool::{self, UpstreamLease};
use crate::client::forwarded_request::ForwardedRequest;
use crate::client::upstream_observer::RequestResult;
use crate::lock::lock;
use crate::server::ask::{StateBinding, seal_state, unseal_state};
use crate::server::layer::RequestParts;
use crate::server::random_id;

/// A call that is under way at a server, and whatever the server asks meanwhile.
pub(super) struct SuspendableCall {
    state: Mutex<SuspendableState>,
    /// What the client can be asked.
    client_capabilities: ClientCapabilities,
    /// What the client speaks.
    revision: Revision,
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
    /// What the server speaks.
    from: Revision,
}

/// A call, as whoever waits for it holds it. Dropping it tells the server to stop.
pub(super) struct SuspendedCall {
    call: Arc<SuspendableCall>,
    in_flight: Arc<InFlightCall>,
    task: AbortHandle,
}

impl Drop for SuspendedCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The calls that wait for their clients to come back.
pub(super) struct SuspendedCalls {
    calls: Mutex<HashMap<String, SuspendedEntry>>,
    max_calls: usize,
    ttl: Duration,
}

struct SuspendedEntry {
    call: SuspendedCall,
    /// Ends it when the client stays away.
    _expiry: AbortOnDrop,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SuspendedCalls {
    pub(super) fn new(max_calls: usize, ttl: Duration) -> Self {
        Self { calls: Mutex::default(), max_calls, ttl }
    }

    /// Keeps a call until its client comes back. Gives the name it is kept under.
    fn insert(self: &Arc<Self>, parked: SuspendedCall) -> Result<String, RpcError> {
        let name = random_id().ok_or(RpcError::Internal)?;
        let mut calls = lock(&self.calls);
        if calls.len() >= self.max_calls {
            return Err(RpcError::internal_with_message(format!(
                "{} calls wait for their clients to come back, as many as may; try again later",
                calls.len()
            )));
        }
        let (all, key, time) = (Arc::downgrade(self), name.clone(), self.ttl);
        let end = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let late = all.upgrade().and_then(|all| lock(&all.calls).remove(&key));
            if late.is_some() {
                tracing::debug!("a call is given up: its client did not come back");
            }
        });
        calls.insert(name.clone(), SuspendedEntry { call: parked, _expiry: AbortOnDrop(end.abort_handle()) });
        Ok(name)
    }

    fn take(&self, name: &str) -> Option<SuspendedCall> {
        let waiting = lock(&self.calls).remove(name)?;
        Some(waiting.call)
    }

    /// Ends all of them.
    pub(super) fn clear(&self) {
        let ended = std::mem::take(&mut *lock(&self.calls));
        drop(ended);
    }
}

impl SuspendableCall {
    /// The server asks. The answer comes when the client has come back.
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
        let carried = translate_raw_params(method, Raw::from(params), from, self.revision);
        // No message of this revision, but what a result of it may hold.
        let params =
            carried.map_err(|unsayable| unsupported_error(&unsayable, method).to_error_object(from))?;
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            state.request_count += 1;
            if state.request_count > MAX_INPUT_REQUESTS {
                let text = format!("more than {MAX_INPUT_REQUESTS} questions for one call");
                return Err(RpcError::InvalidRequest(text.into()).to_error_object(from));
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
        answered.await.unwrap_or_else(|_| {
            Err(RpcError::internal_with_message("the client is gone").to_error_object(from))
        })
    }

    /// A server of 2025-11-25 may refuse a call until the user has visited web pages. True when the user says so.
    async fn elicit_required_urls(&self, refusal: &RpcError) -> bool {
        #[derive(serde::Deserialize)]
        struct UrlElicitations {
            elicitations: Vec<RawJson>,
        }
        let RpcError::Forwarded(error) = refusal else { return false };
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

    fn complete(&self, outcome: Result<RawJson, RpcError>) {
        let mut state = lock(&self.state);
        state.outcome = Some(outcome);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The outcome, or `None` when the server has asked something.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RawJson, RpcError>>> {
        let mut state = lock(&self.state);
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Some(outcome));
        }
        // The server may have withdrawn what it asked.
        state.input_requests.retain(|question| !question.response.is_closed());
        if !state.input_requests.is_empty() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The client has come back.
    fn resolve_inputs(&self, answers: &OrderedMap<RawJson>) {
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
            // The server may have given up meanwhile.
            drop(answer.send(
                carried.map_err(|unsayable| unsupported_error(&unsayable, &method).to_error_object(from)),
            ));
        }
    }

    /// What is asked, as a result.
    fn input_required_result(&self, state: String) -> Result<RawJson, RpcError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct InputRequiredBody<'a> {
            result_type: &'static str,
            input_requests: OrderedMap<InputRequestBody<'a>>,
            request_state: String,
        }
        #[derive(Serialize)]
        struct InputRequestBody<'a> {
            method: &'a str,
            params: &'a RawJson,
        }
        let open = lock(&self.state);
        let asked = open.input_requests.iter().map(|question| {
            let asked = InputRequestBody { method: &question.method, params: &question.params };
            (question.key.clone(), asked)
        });
        let (result_type, input_requests) = (ResultType::InputRequired.as_str(), asked.collect());
        RawJson::from_value(&InputRequiredBody { result_type, input_requests, request_state: state })
            .map_err(|_| RpcError::Internal)
    }
}

/// Begins a call in a task of its own.
pub(super) fn start(
    lent: UpstreamLease,
    method: &str,
    params: RawJson,
    job: &RequestParts,
    place: ReplyTarget,
) -> Result<SuspendedCall, RpcError> {
    let peek =
        RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let can = peek.declared_client()?.capabilities;
    let parking = Arc::new(SuspendableCall {
        state: Mutex::default(),
        client_capabilities: can,
        revision: job.revision,
    });
    let logs = place.log_level;
    let may_be_asked = lent.is_exclusive().then(|| Arc::clone(&parking));
    let flight = InFlightCall::suspendable(job.revision, place, may_be_asked);
    let task = tokio::spawn({
        let (parking, flight, method, to) =
            (Arc::clone(&parking), Arc::clone(&flight), method.to_owned(), job.revision);
        async move {
            let mut lent = lent;
            let far = Arc::clone(&lent.upstream);
            // A server with sessions is told once which logs are wanted, not with each request.
            if let Some(level) = logs
                && far.replace_log_level(level)
                && let Some(client) = far.client_if_connected()
                && client.server_capabilities().is_some_and(|offered| offered.logging.is_some())
                && let Err(error) = client.set_log_level(level).await
            {
                tracing::debug!(%error, method = SetLevel::NAME, "a server was not told which logs are wanted");
            }
            let mut outcome = far.send(ForwardedRequest::new(&method, &params, to), &flight).await;
            if let Err(refusal) = &outcome
                && parking.elicit_required_urls(refusal).await
            {
                outcome = far.send(ForwardedRequest::new(&method, &params, to), &flight).await;
            }
            let outcome =
                outcome.and_then(|(result, from)| translate_result(&far, &method, &result, from, to));
            if !flight.timed_out.load(Ordering::Acquire) {
                lent.mark_completed();
            }
            drop(far);
            // The connection is another's before the client can call again.
            drop(lent);
            parking.complete(outcome);
        }
    });
    Ok(SuspendedCall { call: parking, in_flight: flight, task: task.abort_handle() })
}

/// What a request says of an earlier one.
pub(super) enum Continuation {
    /// Nothing.
    None,
    /// It goes on with a call that waits here.
    Suspended(SuspendedCall),
    /// It has a state that is none of ours. What a server without sessions wants back is its own affair; for any other
    /// this is why it is refused.
    ForeignState(RpcError),
}

/// The call a client comes back for, if it does.
pub(super) fn resume(
    relay: &Arc<Forwarder>,
    method: &str,
    job: &RequestParts,
) -> Result<Continuation, RpcError> {
    let peek =
        RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let Some(state) = peek.request_state().filter(|_| upstream_pool::allows_input_requests(method)) else {
        return Ok(Continuation::None);
    };
    let bad = |text: &str| RpcError::InvalidParams(format!("Invalid params: {text}").into());
    let state: String = state.read().map_err(|_| bad("`requestState` must be a string"))?;
    let config = &job.connection.config;
    let who = job.caller.principal.as_ref();
    // The server may be a bridge too, and its states look like ours.
    let name = match unseal_state(config, who, &binding(&peek, method), &state) {
        Ok(name) => name,
        Err(refusal) => return Ok(Continuation::ForeignState(refusal)),
    };
    // What is wrong with the request is found out while the call still waits.
    let answers = match peek.input_responses() {
        Some(answers) if !answers.is_null() => {
            answers.read_object().map_err(|error| bad(&format!("`inputResponses`: {error}")))?
        }
        _ => OrderedMap::new(),
    };
    let place = reply_target(job)?;
    let Some(parked) = std::str::from_utf8(&name).ok().and_then(|name| relay.suspended.take(name)) else {
        let over = "the call this `requestState` belongs to is over; call again without it";
        return Ok(Continuation::ForeignState(bad(over)));
    };
    parked.in_flight.reattach(place);
    parked.call.resolve_inputs(&answers);
    Ok(Continuation::Suspended(parked))
}

/// Waits until there is an answer, or a question.
pub(super) async fn wait_or_suspend(
    relay: &Arc<Forwarder>,
    parked: SuspendedCall,
    method: &str,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    if let Some(outcome) = poll_fn(|cx| parked.call.poll(cx)).await {
        return outcome;
    }
    let peek =
        RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let (config, who) = (&job.connection.config, job.caller.principal.as_ref());
    let parking = Arc::clone(&parked.call);
    // Nobody hears anything while nobody waits; of progress the last is kept.
    lock(&parked.in_flight.reply_target).take();
    let name = relay.suspended.insert(parked)?;
    let sealed =
        seal_state(config, who, &binding(&peek, method), name.as_bytes(), relay.settings.suspended_call_ttl);
    let asked = sealed.ok_or(RpcError::Internal).and_then(|sealed| parking.input_required_result(sealed));
    if asked.is_err() {
        drop(relay.suspended.take(&name));
    }
    asked
}

/// What the state of a parked call is bound to.
fn binding(peek: &RequestMeta<'_>, method: &str) -> StateBinding {
    let name = peek.mcp_name(method).flatten().unwrap_or_default().to_owned();
    let arguments = peek.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
    StateBinding { method: method.to_owned().into(), name, arguments }
}

/// Questions a server may ask in one call.
const MAX_INPUT_REQUESTS: usize = 128;
