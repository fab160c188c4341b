//! A client of the handshake era and a server of the stateless era.
//!
//! - A request is forwarded on the session's own connection, with the client and its log level described in `_meta`.
//!   `resources/subscribe` becomes a listen stream that the bridge keeps open.
//! - A question of the server is a result that asks for input: the client gets it as a request, on the stream of its call,
//!   and the call is sent again with the answer.
//! - A notification of the server arrives on listen streams, which the bridge opens for the session, and is forwarded as if
//!   it were pushed. One of the client is forwarded if the server's revision has it.
//! - Tasks are in `handshake_tasks`.
//! - A cancellation of the client becomes one to the server, or over HTTP the end of the response stream.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::discover::DiscoverResult;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeResult};
use tsugite_core::protocol::mrtr::{InputResponses, RawInputRequest, RawInputRequired, set_input_responses};
use tsugite_core::protocol::resources::{Subscribe, Unsubscribe};
use tsugite_core::protocol::{Implementation, Method, OrderedMap};
use tsugite_core::revision::{
    Revision, RpcError, UnsupportedByRevisionError, translate_raw_input_response, translate_raw_params,
};

use super::{SessionRequest, translate_result};
use crate::bridge::bridge_errors::limit_error;
use crate::bridge::bridge_errors::{malformed_result_error, unsupported_error};
use crate::bridge::client_request::reply_target;
use crate::bridge::description::ServerDescription;
use crate::bridge::in_flight::InFlightCall;
use crate::bridge::target::Target;
use crate::bridge::upstream::Upstream;
use crate::bridge::upstream_listener::supported_lists;
use crate::client::ChangeFilter;
use crate::client::forwarded_request::ForwardedRequest;
use crate::server::encode_result;
use crate::server::layer::RequestParts;
use crate::server::outgoing_requests::send_raw_request;
use crate::shared::cancel_reason::CancelReason;
use crate::shared::seal::random_id;

/// Forwards a request, and answers what the server asks until there is a complete result.
pub(super) async fn forward(request: SessionRequest<'_>) -> Result<RawJson, RpcError> {
    let SessionRequest { session, upstream, method, job, .. } = request;
    match method {
        Subscribe::NAME => return Box::pin(session.subscribe(upstream, &request.params, job)).await,
        Unsubscribe::NAME => return session.unsubscribe(upstream, &request.params, job),
        _ => {}
    }
    let call = InFlightCall::new(job.revision, reply_target(job)?);
    let (result, from) = send_rounds(&request, &call).await?;
    translate_result(upstream, method, &result, from, job.revision)
}

/// Sends a request, and answers what the server asks. Returns the result in the server's revision.
pub(super) async fn send_rounds(
    request: &SessionRequest<'_>,
    call: &Arc<InFlightCall>,
) -> Result<(RawJson, Revision), RpcError> {
    let forwarded = request.to_forwarded().log_level(request.session.log_level());
    let (result, from) = request.upstream.send(forwarded, call).await?;
    match RawInputRequired::from_result(&result) {
        None => Ok((result, from)),
        Some(asked) => Box::pin(continue_rounds(request, call, asked, from)).await,
    }
}

/// Puts the server's questions to the client and sends the request again, until there is a complete result.
async fn continue_rounds(
    request: &SessionRequest<'_>,
    call: &Arc<InFlightCall>,
    mut asked: RawInputRequired,
    mut from: Revision,
) -> Result<(RawJson, Revision), RpcError> {
    let SessionRequest { session, upstream, method, job, .. } = request;
    let (mut params, mut written_in) = (request.params.clone().into_owned(), job.revision);
    for round in 1..MAX_ROUNDS {
        check_request_state(upstream, asked.request_state.as_ref()).await?;
        // Only the server's revision can express answers, so the params are in that from now on.
        params = translate_raw_params(method, Raw::from(&params), written_in, from)
            .map_err(|error| unsupported_error(&error, method))?;
        written_in = from;
        let mut next: OrderedMap<RawJson> =
            params.read().map_err(|error| RpcError::invalid_params(&error))?;
        let answers = match asked.input_requests {
            Some(requests) => {
                let mut answers = InputResponses::new();
                for (key, question) in requests {
                    answers.insert(key, request_input(job, call, &question, from).await?);
                }
                Some(answers)
            }
            // The server asks for nothing: it wants its state back, after a while.
            None => {
                tokio::time::sleep(INITIAL_RETRY_DELAY * 2_u32.pow((round - 1).min(5))).await;
                None
            }
        };
        set_input_responses(&mut next, answers.as_ref(), asked.request_state)
            .map_err(|_| RpcError::Internal)?;
        params = RawJson::from_value(&next).map_err(|_| RpcError::Internal)?;
        let forwarded = ForwardedRequest::new(method, &params, written_in).log_level(session.log_level());
        let (result, now) = upstream.send(forwarded, call).await?;
        from = now;
        match RawInputRequired::from_result(&result) {
            None => return Ok((result, from)),
            Some(more) => asked = more,
        }
    }
    let text = format!("{} has asked back more than {MAX_ROUNDS} times", upstream.target.display_name());
    Err(limit_error(text, MAX_ROUNDS as usize))
}

/// Fails if the state that the bridge has to send back is larger than its client for the server allows.
async fn check_request_state(upstream: &Upstream, state: Option<&RawJson>) -> Result<(), RpcError> {
    let limit = upstream.connected_client().await?.max_request_state_bytes();
    let bytes = state.map_or(0, |state| match state.read::<String>() {
        Ok(text) => text.len(),
        Err(_) => state.text().len(),
    });
    match bytes > limit {
        true => {
            let name = upstream.target.display_name();
            let text = format!(
                "{name} returned a request state of {bytes} bytes; the limit is {limit} (`max_request_state_bytes`)"
            );
            Err(limit_error(text, limit))
        }
        false => Ok(()),
    }
}

/// Sends one question to the client, on the stream of its call, and returns the answer in the server's revision.
pub(super) async fn request_input(
    job: &RequestParts,
    call: &InFlightCall,
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
    let mut translated = translate_raw_params(method, Raw::from(params), from, to);
    if let Err(UnsupportedByRevisionError::MissingMember(ELICITATION_ID)) = translated {
        // The client's revision gives a web page an id, with which its completion could be reported.
        let mut named: OrderedMap<RawJson> = params.read().map_err(|error| cannot(&error))?;
        let id =
            RawJson::from_value(&random_id().ok_or(RpcError::Internal)?).map_err(|error| cannot(&error))?;
        named.insert(ELICITATION_ID, id);
        let named = RawJson::from_value(&named).map_err(|error| cannot(&error))?;
        translated = translate_raw_params(method, Raw::from(&named), to, to);
    }
    let params = translated.map_err(|error| cannot(&error))?;
    let Some(target) = call.reply_target() else { return Err(RpcError::Internal) };
    let requests = job.connection.outgoing_requests();
    // The server cannot withdraw a question that is a result.
    let no_reason = CancelReason::default();
    match send_raw_request(requests, &target.outbox, to, (method, &params), &no_reason).await {
        Some(Ok(answer)) => translate_raw_input_response(method, Raw::from(&answer), to, from)
            .map_err(|error| unsupported_error(&error, method)),
        Some(Err(error)) => Err(cannot(&error.message)),
        None => Err(cannot(&"it is gone")),
    }
}

/// Builds an `initialize` result from the server's `server/discover` result.
pub(super) fn initialize_result(
    target: &Target,
    description: &ServerDescription,
    job: &RequestParts,
) -> Result<OrderedMap<RawJson>, RpcError> {
    let to = job.revision;
    let found: DiscoverResult = description.result.read().map_err(|_| malformed_result_error(target))?;
    let server = found.meta.as_ref().and_then(|meta| meta.server_info());
    let server = server.unwrap_or_else(|| Implementation::new("unknown", "0"));
    let mut capabilities = found.capabilities;
    if to.has_core_tasks() && capabilities.has_task_extension() {
        capabilities = capabilities.with_task_calls();
    }
    let mut result = InitializeResult::new(to.as_str(), capabilities, server);
    result.instructions = found.instructions;
    encode_result::<Initialize>(result, to, &job.connection.config.stamp)
        .map_err(|error| unsupported_error(&error, Initialize::NAME))?
        .read()
        .map_err(|_| RpcError::Internal)
}

/// Every list whose changes the server reports; `None` if it reports none.
pub(super) fn session_list_filter(upstream: &Upstream) -> Option<ChangeFilter> {
    let client = upstream.client_if_connected()?;
    let filter = supported_lists(client.server_capabilities().as_ref());
    (filter != ChangeFilter::new()).then_some(filter)
}

/// The member that names a web page the user is sent to, up to 2025-11-25.
const ELICITATION_ID: &str = "elicitationId";
/// How often a server may ask back for one request.
const MAX_ROUNDS: u32 = 32;
/// The first delay before a server that asked for nothing gets its state back.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(50);
