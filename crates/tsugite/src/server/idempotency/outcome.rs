//! The outcome of a call: what is stored of it, and how it is returned to a second call.

use tsugite_core::jsonrpc::{ErrorObject, RawJson};
use tsugite_core::protocol::tools::{Call, CallOutput};
use tsugite_core::revision::{Revision, RpcError, read_result};

use super::key_error;
use crate::replica::digest;
use crate::server::key_state::{KeyState, StoredKey};
use crate::server::response_writer::RpcResult;

/// An outcome as it is stored.
pub(super) struct Outcome {
    pub(super) state: KeyState,
    pub(super) json: Vec<u8>,
}

impl Outcome {
    /// The stored form of a response. `None` if the response asks the client to do something and to call again: the key is
    /// free then.
    pub(super) fn from_response(response: &RpcResult, revision: Revision) -> Option<Self> {
        match response {
            Ok(result) => Some(Self { state: state_of(result, revision), json: result.text().into() }),
            Err(RpcError::InsufficientScope(_) | RpcError::UrlElicitationRequired { .. }) => None,
            Err(error) => {
                let json = serde_json::to_vec(&error.to_error_object(revision)).ok()?;
                Some(Self { state: KeyState::Failed, json })
            }
        }
    }
}

fn state_of(result: &RawJson, revision: Revision) -> KeyState {
    match read_result::<Call>(result.into(), revision) {
        Ok(CallOutput::InputRequired(input)) => {
            KeyState::InputRequired { next: digest(input.request_state.unwrap_or_default().as_bytes()) }
        }
        _ => KeyState::Done,
    }
}

/// The stored outcome as a response.
pub(super) fn stored_outcome(stored: Option<StoredKey>) -> RpcResult {
    let Some(StoredKey { record, outcome: Some(json), .. }) = stored else {
        return Err(key_error::not_kept());
    };
    let is_error = record.state == KeyState::Failed;
    let malformed = |error: &(dyn std::error::Error + 'static)| key_error::unavailable(error);
    match is_error {
        true => {
            let error: ErrorObject = serde_json::from_slice(&json).map_err(|error| malformed(&error))?;
            Err(RpcError::Forwarded(error))
        }
        false => {
            let text = String::from_utf8(json).map_err(|error| malformed(&error))?;
            RawJson::parse(text).map_err(|error| malformed(&error))
        }
    }
}
