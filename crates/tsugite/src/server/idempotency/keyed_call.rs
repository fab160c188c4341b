//! A call with a key, and what the key is bound to: caller, tool, arguments and round.

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::tools::{Call, CallParams};
use tsugite_core::protocol::{IdempotencyKey, TaskSupport};
use tsugite_core::revision::{Revision, RpcError, read_params};
use tsugite_core::session::ClientMetaPresence;

use crate::replica::digest;
use crate::server::caller_key::CallerKey;
use crate::server::incoming_request::IncomingRequest;
use crate::server::key_state::{KeyRecord, KeyState};
use crate::server::principal::Principal;
use crate::server::task_offer;
use crate::server::tool::Tool;
use crate::shared::json_digest::json_digest;
use crate::shared::principal::CallerIdentity;

/// A call with a key.
pub(crate) struct KeyedCall {
    /// The name of its record: a digest of the caller and the key. Equal keys of two callers are two keys.
    pub(super) name: String,
    /// The caller whose limits the record counts against.
    pub(super) counted_for: Option<CallerKey>,
    pub(super) tool: String,
    /// A digest of the arguments, the revision, and whether the call may become a task.
    pub(super) payload: String,
    pub(super) revision: Revision,
    /// A digest of the `requestState`, if the call continues an earlier round.
    pub(super) state: Option<String>,
    /// A digest of the `requestState` and the answers, which tells the rounds of a call apart.
    pub(super) round: String,
    /// Whether the handler may run again if its process has ended.
    pub(super) is_restartable: bool,
    /// Whether this process has taken the call over from another one, while it waited for an answer.
    pub(super) is_taken_over: bool,
}

impl KeyedCall {
    /// The call of a tool that is `once`, if it has a key.
    pub(crate) fn from_request(
        request: IncomingRequest<'_>,
        name: &str,
        tool: &Tool,
    ) -> Result<Option<Self>, RpcError> {
        if request.meta.client_meta_presence() == ClientMetaPresence::Absent {
            return Ok(None);
        }
        let params: CallParams = read_params::<Call>(request.request.params(), request.revision)?;
        let key = match params.meta.as_ref().and_then(|meta| meta.idempotency_key()) {
            None => return Ok(None),
            Some(Ok(key)) => key,
            Some(Err(error)) => {
                return Err(RpcError::InvalidParams(format!("Invalid params: {error}").into()));
            }
        };
        let caller = request.principal().map(Principal::identity);
        let wants_tasks = params.task.is_some() || task_offer::supports_extension(request);
        let may_become_task = tool.task != TaskSupport::Forbidden && wants_tasks;
        let arguments = params.arguments.as_ref().map_or("{}", RawJson::text);
        let responses = params.input_responses.as_ref();
        let responses = responses.and_then(|responses| RawJson::from_value(responses).ok());
        let responses = responses.map(|json| json_digest(json.text())).unwrap_or_default();
        let state = params.request_state.as_deref();
        Ok(Some(Self {
            name: record_name(caller.as_ref(), &key),
            counted_for: CallerKey::of_caller(request.caller),
            tool: name.to_owned(),
            payload: digest_of(&[
                &json_digest(arguments),
                request.revision.as_str().as_bytes(),
                &[u8::from(may_become_task)],
            ]),
            revision: request.revision,
            round: digest_of(&[state.unwrap_or_default().as_bytes(), &responses]),
            state: state.map(|state| digest(state.as_bytes())),
            // The task of a run that ended early may exist, and go on elsewhere.
            is_restartable: tool.restartable && !may_become_task,
            is_taken_over: request.caller.kept.as_ref().is_some_and(|kept| kept.resumed.is_some()),
        }))
    }

    /// The record of the call when `process` is about to run it.
    pub(super) fn record(&self, previous: Option<&KeyRecord>, process: &str) -> KeyRecord {
        KeyRecord {
            tool: self.tool.clone(),
            payload: self.payload.clone(),
            first_round: previous.map_or_else(|| self.round.clone(), |record| record.first_round.clone()),
            round: self.round.clone(),
            state: KeyState::Running { process: process.to_owned() },
            other: previous.map(|record| record.other.clone()).unwrap_or_default(),
        }
    }
}

fn record_name(caller: Option<&CallerIdentity>, key: &IdempotencyKey) -> String {
    match caller {
        Some(CallerIdentity { issuer, subject, client_id }) => digest_of(&[
            b"caller",
            issuer.as_bytes(),
            subject.as_bytes(),
            client_id.as_bytes(),
            key.as_str().as_bytes(),
        ]),
        None => digest_of(&[b"anyone", key.as_str().as_bytes()]),
    }
}

/// A digest of parts, each with its length, so that no two lists of parts have the same one.
fn digest_of(parts: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    digest(&bytes)
}
