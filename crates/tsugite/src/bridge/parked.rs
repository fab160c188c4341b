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
use tsugite_core::revision::{RpcError, Revision, Revisions, translate_raw_input_response, translate_raw_params};
use tsugite_core::session::RequestMeta;

use super::far::{InFlight, Place, unsaid};
use super::lend::{self, Lent};
use super::relay::{Relay, back, place};
use crate::client::forwarded_request::ForwardedRequest;
use crate::client::upstream_observer::RequestResult;
use crate::lock::lock;
use crate::server::ask::{StateBinding, seal_state, unseal_state};
use crate::server::layer::RequestParts;
use crate::server::random_id;

/// A call that is under way at a server, and whatever the server asks meanwhile.
pub(super) struct Parking {
    state: Mutex<State>,
    /// What the client can be asked.
    can: ClientCapabilities,
    /// What the client speaks.
    revision: Revision,
}

#[derive(Default)]
struct State {
    questions: Vec<Question>,
    asked: usize,
    outcome: Option<Result<RawJson, RpcError>>,
    waker: Option<Waker>,
}

struct Question {
    key: String,
    method: String,
    /// As the client reads it.
    params: RawJson,
    answer: oneshot::Sender<RequestResult>,
    /// What the server speaks.
    from: Revision,
}

/// A call, as whoever waits for it holds it. Dropping it tells the server to stop.
pub(super) struct Parked {
    parking: Arc<Parking>,
    flight: Arc<InFlight>,
    task: AbortHandle,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The calls that wait for their clients to come back.
pub(super) struct ParkedCalls {
    calls: Mutex<HashMap<String, Waiting>>,
    most: usize,
    time: Duration,
}

struct Waiting {
    parked: Parked,
    /// Ends it when the client stays away.
    _end: Timer,
}

struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ParkedCalls {
    pub(super) fn new(most: usize, time: Duration) -> Self {
        Self { calls: Mutex::default(), most, time }
    }

    /// Keeps a call until its client comes back. Gives the name it is kept under.
    fn put(self: &Arc<Self>, parked: Parked) -> Result<String, RpcError> {
        let name = random_id().ok_or(RpcError::Internal)?;
        let mut calls = lock(&self.calls);
        if calls.len() >= self.most {
            return Err(RpcError::internal_with_message(format!(
                "{} calls wait for their clients to come back, as many as may; try again later",
                calls.len()
            )));
        }
        let (all, key, time) = (Arc::downgrade(self), name.clone(), self.time);
        let end = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let late = all.upgrade().and_then(|all| lock(&all.calls).remove(&key));
            if late.is_some() {
                tracing::debug!("a call is given up: its client did not come back");
            }
        });
        calls.insert(name.clone(), Waiting { parked, _end: Timer(end.abort_handle()) });
        Ok(name)
    }

    fn take(&self, name: &str) -> Option<Parked> {
        let waiting = lock(&self.calls).remove(name)?;
        Some(waiting.parked)
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        let ended = std::mem::take(&mut *lock(&self.calls));
        drop(ended);
    }
}

impl Parking {
    /// The server asks. The answer comes when the client has come back.
    pub(super) async fn ask(&self, method: &str, params: &RawJson, from: Revision) -> RequestResult {
        let offered = match method {
            Create::NAME => self.can.elicitation.is_some(),
            CreateMessage::NAME => self.can.sampling.is_some(),
            roots::List::NAME => self.can.roots.is_some(),
            _ => false,
        };
        if !offered {
            return Err(RpcError::MethodNotFound { method: method.to_owned() }.to_error_object(from));
        }
        let carried = translate_raw_params(method, Raw::from(params), from, self.revision);
        // No message of this revision, but what a result of it may hold.
        let params = carried.map_err(|unsayable| unsaid(&unsayable, method).to_error_object(from))?;
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            state.asked += 1;
            if state.asked > QUESTIONS {
                let text = format!("more than {QUESTIONS} questions for one call");
                return Err(RpcError::InvalidRequest(text.into()).to_error_object(from));
            }
            let key = format!("question-{}", state.asked);
            state.questions.push(Question { key, method: method.to_owned(), params, answer, from });
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
        answered.await.unwrap_or_else(|_| Err(RpcError::internal_with_message("the client is gone").to_error_object(from)))
    }

    /// A server of 2025-11-25 may refuse a call until the user has visited web pages. True when the user says so.
    async fn visited(&self, refusal: &RpcError) -> bool {
        #[derive(serde::Deserialize)]
        struct Pages {
            elicitations: Vec<RawJson>,
        }
        let RpcError::Forwarded(error) = refusal else { return false };
        let Some(Pages { elicitations }) = error.data.as_ref().and_then(|data| data.read().ok()) else {
            return false;
        };
        if self.can.elicitation.as_ref().is_none_or(|can| can.url.is_none()) || elicitations.is_empty() {
            return false;
        }
        let from = Revisions::ALL.handshake().newest_first().next().unwrap_or(self.revision);
        for page in elicitations {
            #[derive(serde::Deserialize)]
            struct Answer {
                action: String,
            }
            let answer = self.ask(Create::NAME, &page, from).await;
            let accepted = answer.ok().and_then(|answer| answer.read::<Answer>().ok());
            if accepted.is_none_or(|answer| answer.action != "accept") {
                return false;
            }
        }
        true
    }

    fn finish(&self, outcome: Result<RawJson, RpcError>) {
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
        state.questions.retain(|question| !question.answer.is_closed());
        if !state.questions.is_empty() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The client has come back.
    fn answer(&self, answers: &OrderedMap<RawJson>) {
        let answered: Vec<_> = {
            let mut state = lock(&self.state);
            let (answered, open) =
                state.questions.drain(..).partition(|question| answers.get(&question.key).is_some());
            state.questions = open;
            answered
        };
        for Question { key, method, answer, from, .. } in answered {
            let Some(raw) = answers.get(&key) else { continue };
            let carried = translate_raw_input_response(&method, Raw::from(raw), self.revision, from);
            // The server may have given up meanwhile.
            drop(answer.send(carried.map_err(|unsayable| unsaid(&unsayable, &method).to_error_object(from))));
        }
    }

    /// What is asked, as a result.
    fn asked(&self, state: String) -> Result<RawJson, RpcError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Asks<'a> {
            result_type: &'static str,
            input_requests: OrderedMap<Asked<'a>>,
            request_state: String,
        }
        #[derive(Serialize)]
        struct Asked<'a> {
            method: &'a str,
            params: &'a RawJson,
        }
        let open = lock(&self.state);
        let asked = open.questions.iter().map(|question| {
            let asked = Asked { method: &question.method, params: &question.params };
            (question.key.clone(), asked)
        });
        let (result_type, input_requests) = (ResultType::InputRequired.as_str(), asked.collect());
        RawJson::from_value(&Asks { result_type, input_requests, request_state: state })
            .map_err(|_| RpcError::Internal)
    }
}

/// Begins a call in a task of its own.
pub(super) fn begin(
    lent: Lent,
    method: &str,
    params: RawJson,
    job: &RequestParts,
    place: Place,
) -> Result<Parked, RpcError> {
    let peek = RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let can = peek.declared_client()?.capabilities;
    let parking = Arc::new(Parking { state: Mutex::default(), can, revision: job.revision });
    let logs = place.logs;
    let may_be_asked = lent.may_be_asked().then(|| Arc::clone(&parking));
    let flight = InFlight::parking(job.revision, place, may_be_asked);
    let task = tokio::spawn({
        let (parking, flight, method, to) =
            (Arc::clone(&parking), Arc::clone(&flight), method.to_owned(), job.revision);
        async move {
            let mut lent = lent;
            let far = Arc::clone(&lent.far);
            // A server with sessions is told once which logs are wanted, not with each request.
            if let Some(level) = logs
                && far.wants_level(level)
                && let Some(client) = far.up_now()
                && client.server_capabilities().is_some_and(|offered| offered.logging.is_some())
                && let Err(error) = client.set_log_level(level).await
            {
                tracing::debug!(%error, method = SetLevel::NAME, "a server was not told which logs are wanted");
            }
            let mut outcome = far.send(ForwardedRequest::new(&method, &params, to), &flight).await;
            if let Err(refusal) = &outcome
                && parking.visited(refusal).await
            {
                outcome = far.send(ForwardedRequest::new(&method, &params, to), &flight).await;
            }
            let outcome = outcome.and_then(|(result, from)| back(&far, &method, &result, from, to));
            if !flight.given_up.load(Ordering::Acquire) {
                lent.answered();
            }
            drop(far);
            // The connection is another's before the client can call again.
            drop(lent);
            parking.finish(outcome);
        }
    });
    Ok(Parked { parking, flight, task: task.abort_handle() })
}

/// What a request says of an earlier one.
pub(super) enum Earlier {
    /// Nothing.
    None,
    /// It goes on with a call that waits here.
    Call(Parked),
    /// It has a state that is none of ours. What a server without sessions wants back is its own affair; for any other
    /// this is why it is refused.
    State(RpcError),
}

/// The call a client comes back for, if it does.
pub(super) fn taken_up(relay: &Arc<Relay>, method: &str, job: &RequestParts) -> Result<Earlier, RpcError> {
    let peek = RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let Some(state) = peek.request_state().filter(|_| lend::may_be_asked_in(method)) else {
        return Ok(Earlier::None);
    };
    let bad = |text: &str| RpcError::InvalidParams(format!("Invalid params: {text}").into());
    let state: String = state.read().map_err(|_| bad("`requestState` must be a string"))?;
    let config = &job.connection.config;
    let who = job.caller.principal.as_ref();
    // The server may be a bridge too, and its states look like ours.
    let name = match unseal_state(config, who, &binding(&peek, method), &state) {
        Ok(name) => name,
        Err(refusal) => return Ok(Earlier::State(refusal)),
    };
    // What is wrong with the request is found out while the call still waits.
    let answers = match peek.input_responses() {
        Some(answers) if !answers.is_null() => {
            answers.read_object().map_err(|error| bad(&format!("`inputResponses`: {error}")))?
        }
        _ => OrderedMap::new(),
    };
    let place = place(job)?;
    let Some(parked) = std::str::from_utf8(&name).ok().and_then(|name| relay.parked.take(name)) else {
        let over = "the call this `requestState` belongs to is over; call again without it";
        return Ok(Earlier::State(bad(over)));
    };
    parked.flight.goes_on(place);
    parked.parking.answer(&answers);
    Ok(Earlier::Call(parked))
}

/// Waits until there is an answer, or a question.
pub(super) async fn go_on(
    relay: &Arc<Relay>,
    parked: Parked,
    method: &str,
    job: &RequestParts,
) -> Result<RawJson, RpcError> {
    if let Some(outcome) = poll_fn(|cx| parked.parking.poll(cx)).await {
        return outcome;
    }
    let peek = RequestMeta::from_params(Raw::from(&job.params)).map_err(|error| RpcError::invalid_params(&error))?;
    let (config, who) = (&job.connection.config, job.caller.principal.as_ref());
    let parking = Arc::clone(&parked.parking);
    // Nobody hears anything while nobody waits; of progress the last is kept.
    lock(&parked.flight.place).take();
    let name = relay.parked.put(parked)?;
    let sealed = seal_state(config, who, &binding(&peek, method), name.as_bytes(), relay.settings.park_time);
    let asked = sealed.ok_or(RpcError::Internal).and_then(|sealed| parking.asked(sealed));
    if asked.is_err() {
        drop(relay.parked.take(&name));
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
const QUESTIONS: usize = 128;
