//! The sealed state of a call between rounds: the answers so far and the results of `once`. The client gets it with the
//! questions and returns it with the answers.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::Method;
use tsugite_core::protocol::mrtr::{self, InputRequests, InputRequired, REQUEST_STATE};
use tsugite_core::revision::RpcError;

use crate::replica::digest;
use crate::server::Config;
use crate::server::duplicate_names::{duplicate_name_text, find_duplicate_name};
use crate::server::incoming_request::IncomingRequest;
use crate::server::principal::Principal;
use crate::server::round::{Round, RoundHistory};
use crate::shared::json_digest::json_digest;
use crate::shared::log;
use crate::shared::seal::SealError;

/// The request that a sealed state is bound to. It cannot be opened for another one.
pub(crate) struct StateBinding {
    pub(crate) method: Cow<'static, str>,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl StateBinding {
    /// The binding of a call's sealed state, so that the state cannot be used for another call.
    pub(crate) fn for_request<M: Method>(request: &IncomingRequest<'_>) -> Self {
        let name = request.meta.mcp_name(M::NAME).flatten().unwrap_or_default().to_owned();
        let arguments = request.meta.arguments().map(|raw| raw.text().to_owned()).unwrap_or_default();
        StateBinding { method: M::NAME.into(), name, arguments }
    }
}

#[derive(Serialize, Deserialize)]
struct RequestState {
    rounds: u32,
    /// The keys of the open questions; answers with other keys are ignored.
    asked: Vec<String>,
    answers: HashMap<String, RawJson>,
    /// Fingerprints of the questions that were asked under keys of the handler.
    #[serde(default)]
    fingerprints: HashMap<String, String>,
    once: HashMap<String, RawJson>,
}

/// Builds the result that asks the client for input. Fails if there were too many rounds, or the state is too large.
pub(crate) fn build_input_required(
    config: &Config,
    principal: Option<&Principal>,
    binding: &StateBinding,
    requests: InputRequests,
    history: RoundHistory,
) -> Result<InputRequired, RpcError> {
    if history.rounds >= config.max_rounds {
        log::error!(
            name = binding.name,
            rounds = history.rounds,
            "a call has reached the limit of rounds; raise `Server::max_rounds` if it needs more"
        );
        return Err(RpcError::internal_with_message("Internal error: the call has asked back too often"));
    }
    let state = RequestState {
        rounds: history.rounds + 1,
        asked: requests.iter().map(|(key, _)| key.to_owned()).collect(),
        answers: history.answers,
        fingerprints: history.fingerprints,
        once: history.once_results,
    };
    let sealed = RawJson::from_value(&state)
        .ok()
        .and_then(|plain| seal_state(config, principal, binding, plain.text().as_bytes(), config.state_ttl));
    match sealed {
        Some(sealed) if sealed.len() <= config.max_state_bytes => {
            Ok(InputRequired::new().input_requests(requests).request_state(sealed))
        }
        Some(sealed) => {
            let (bytes, max_bytes) = (sealed.len(), config.max_state_bytes);
            log::error!(
                name = binding.name,
                bytes,
                max_bytes,
                "the sealed state of a call is too large; store less in `once`, or raise `Server::max_state_bytes`"
            );
            Err(RpcError::Internal)
        }
        None => Err(RpcError::Internal),
    }
}

/// Resumes a call: opens its state and reads the answers. Answers to unknown questions are ignored. Without a state all
/// answers are kept, and used if the handler asks a question with their key.
pub(crate) fn resume_round(
    config: &Config,
    principal: Option<&Principal>,
    binding: &StateBinding,
    state: Option<Raw<'_>>,
    answers: Option<Raw<'_>>,
) -> Result<Option<Round>, RpcError> {
    let invalid = |error| RpcError::invalid_params(&error);
    let answers = mrtr::read_input_responses(answers).map_err(invalid)?;
    let Some(state) = state else {
        // Not new answers: a handler that does not ask their questions has not diverged.
        let answers: HashMap<String, RawJson> = answers.into_iter().collect();
        return Ok((!answers.is_empty())
            .then(|| Round::with_history(RoundHistory { answers, ..RoundHistory::default() })));
    };
    let state = mrtr::read_request_state(state).map_err(invalid)?;
    let plain = unseal_state(config, principal, binding, &state)?;
    let state_digest = digest(state.as_bytes());
    let state: RequestState = std::str::from_utf8(&plain)
        .ok()
        .and_then(|plain| serde_json::from_str(plain).ok())
        .ok_or_else(|| invalid_state("does not belong to this request"))?;
    let mut history = RoundHistory {
        rounds: state.rounds,
        answers: state.answers,
        fingerprints: state.fingerprints,
        new_answers: HashSet::new(),
        once_results: state.once,
        state_digest: Some(state_digest),
    };
    for (key, answer) in answers {
        if state.asked.contains(&key) {
            history.new_answers.insert(key.clone());
            history.answers.insert(key, answer);
        }
    }
    Ok(Some(Round::with_history(history)))
}

/// Seals a state that can be opened only for `binding`, for as long as `ttl`.
pub(crate) fn seal_state(
    config: &Config,
    principal: Option<&Principal>,
    binding: &StateBinding,
    plain: &[u8],
    ttl: Duration,
) -> Option<String> {
    // Limited, because adding `Duration::MAX` would overflow.
    let expires = SystemTime::now() + ttl.min(Duration::from_secs(1 << 33));
    let parts = binding.parts(principal);
    let sealed = config.key_ring.ring().and_then(|ring| ring.seal(plain, &slices(&parts), expires));
    sealed.inspect_err(|error| log::error!(name = binding.name, %error, "a state could not be sealed")).ok()
}

/// Opens a sealed state. The error is for the client.
///
/// Arguments that hold a name twice are refused: their digest would be that of other arguments.
pub(crate) fn unseal_state(
    config: &Config,
    principal: Option<&Principal>,
    binding: &StateBinding,
    state: &str,
) -> Result<Vec<u8>, RpcError> {
    let refuse = |error: SealError| match error {
        SealError::Expired => invalid_state("has expired; call again without it"),
        SealError::TooLarge => invalid_state("is too large"),
        _ => invalid_state("does not belong to this request"),
    };
    let ring = config.key_ring.ring().map_err(refuse)?;
    // First what costs little: a client can send any text with arguments that take long to read.
    let sealed = ring.recognize(state, config.max_state_bytes).map_err(refuse)?;
    if let Some(name) = find_duplicate_name(&binding.arguments) {
        let text = format!("Invalid params: `arguments`: {}", duplicate_name_text(&name));
        return Err(RpcError::InvalidParams(text.into()).with("path", "arguments"));
    }
    sealed.open(&slices(&binding.parts(principal)), SystemTime::now()).map_err(refuse)
}

fn invalid_state(reason: &str) -> RpcError {
    RpcError::InvalidParams(format!("Invalid params: `{REQUEST_STATE}` {reason}").into())
        .with("path", REQUEST_STATE)
}

impl StateBinding {
    fn parts(&self, principal: Option<&Principal>) -> Vec<Vec<u8>> {
        let text = |text: Option<&str>| text.unwrap_or_default().as_bytes().to_vec();
        let identity = principal.map(Principal::identity);
        let digest = json_digest(&self.arguments);
        vec![
            vec![u8::from(principal.is_some())],
            text(identity.as_ref().map(|caller| &*caller.issuer)),
            text(identity.as_ref().map(|caller| &*caller.subject)),
            text(identity.as_ref().map(|caller| &*caller.client_id)),
            self.method.as_bytes().to_vec(),
            self.name.as_bytes().to_vec(),
            digest,
        ]
    }
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}
