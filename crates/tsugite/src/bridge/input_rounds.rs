//! A server without sessions asks in its results; a client with one is asked directly, and the request repeated.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::mrtr::{InputResponses, RawInputRequest, RawInputRequired, set_input_responses};
use tsugite_core::revision::{
    Revision, RpcError, UnsupportedByRevisionError, translate_raw_input_response, translate_raw_params,
};

use super::bridge_session::BridgeSession;
use super::in_flight::InFlightCall;
use super::upstream::{Upstream, unsupported_error};
use crate::client::forwarded_request::ForwardedRequest;
use crate::server::ask::send_raw_request;
use crate::server::layer::RequestParts;
use crate::server::random_id;

/// Sends a request on until there is an answer that asks nothing.
pub(super) async fn send_with_inputs(
    far: &Arc<Upstream>,
    request: ForwardedRequest<'_>,
    session: &BridgeSession,
    job: &RequestParts,
    flight: &Arc<InFlightCall>,
) -> Result<(RawJson, Revision), RpcError> {
    let (method, params) = (request.method, request.params);
    let (result, from) = far.send(request.log_level(session.log_level()), flight).await?;
    match input_required(&result, from) {
        None => Ok((result, from)),
        Some(asks) => {
            Box::pin(continue_rounds(far, method, (params, asks, from), session, job, flight)).await
        }
    }
}

/// Answers what is asked, and sends the request on again.
async fn continue_rounds(
    far: &Arc<Upstream>,
    method: &str,
    (params, mut asks, mut from): (&RawJson, RawInputRequired, Revision),
    session: &BridgeSession,
    job: &RequestParts,
    flight: &Arc<InFlightCall>,
) -> Result<(RawJson, Revision), RpcError> {
    let (mut params, mut said) = (params.clone(), job.revision);
    for round in 1..MAX_ROUNDS {
        // What is said from now on only the server's revision can say.
        params = translate_raw_params(method, Raw::from(&params), said, from)
            .map_err(|unsayable| unsupported_error(&unsayable, method))?;
        said = from;
        let mut next: OrderedMap<RawJson> =
            params.read().map_err(|error| RpcError::invalid_params(&error))?;
        let answers = match asks.input_requests {
            Some(requests) => {
                let mut answers = InputResponses::new();
                for (key, request) in requests {
                    answers.insert(key, request_input(job, flight, &request, from).await?);
                }
                Some(answers)
            }
            // The server asks for nothing: it wants its state back, after a while.
            None => {
                tokio::time::sleep(INITIAL_RETRY_DELAY * 2_u32.pow((round - 1).min(5))).await;
                None
            }
        };
        set_input_responses(&mut next, answers.as_ref(), asks.request_state)
            .map_err(|_| RpcError::Internal)?;
        params = RawJson::from_value(&next).map_err(|_| RpcError::Internal)?;
        let request = ForwardedRequest::new(method, &params, said).log_level(session.log_level());
        let (result, now) = far.send(request, flight).await?;
        from = now;
        match input_required(&result, from) {
            None => return Ok((result, from)),
            Some(more) => asks = more,
        }
    }
    Err(RpcError::internal_with_message(format!(
        "{} has asked back more than {MAX_ROUNDS} times",
        far.target.display_name()
    )))
}

/// The input a result asks for.
fn input_required(result: &RawJson, from: Revision) -> Option<RawInputRequired> {
    if from.is_stateless() { RawInputRequired::from_result(result) } else { None }
}

/// Asks the client on the stream of its call.
async fn request_input(
    job: &RequestParts,
    flight: &InFlightCall,
    question: &RawInputRequest,
    from: Revision,
) -> Result<RawJson, RpcError> {
    let (method, to) = (question.method.as_str(), job.revision);
    let empty = RawJson::empty_object();
    let params = question.params.as_ref().unwrap_or(&empty);
    let cannot = |why: &dyn std::fmt::Display| {
        RpcError::internal_with_message(format!(
            "the server asks for `{method}`, and the client cannot be asked that: {why}"
        ))
    };
    let mut asked = translate_raw_params(method, Raw::from(params), from, to);
    if let Err(UnsupportedByRevisionError::MissingMember(ELICITATION_ID)) = asked {
        // A page has a name there, by which the client could be told that it is done with.
        let mut named: OrderedMap<RawJson> = params.read().map_err(|error| cannot(&error))?;
        let id =
            RawJson::from_value(&random_id().ok_or(RpcError::Internal)?).map_err(|error| cannot(&error))?;
        named.insert(ELICITATION_ID, id);
        let named = RawJson::from_value(&named).map_err(|error| cannot(&error))?;
        asked = translate_raw_params(method, Raw::from(&named), to, to);
    }
    let asked = asked.map_err(|unsayable| cannot(&unsayable))?;
    let Some(place) = flight.reply_target() else { return Err(RpcError::Internal) };
    let answer =
        send_raw_request(job.connection.outgoing_requests(), &place.outbox, to, method, &asked).await;
    match answer {
        Some(Ok(answer)) => translate_raw_input_response(method, Raw::from(&answer), to, from)
            .map_err(|unsayable| unsupported_error(&unsayable, method)),
        Some(Err(error)) => Err(cannot(&error.message)),
        None => Err(cannot(&"it is gone")),
    }
}

/// The name of a web page the user is sent to.
const ELICITATION_ID: &str = "elicitationId";
/// How often a server may ask back for one request.
const MAX_ROUNDS: u32 = 32;
/// How long a server that wants us to come back is left alone at first.
const INITIAL_RETRY_DELAY: std::time::Duration = std::time::Duration::from_millis(50);
