//! Translates the error of a request to the code of another revision.

use serde::Deserialize;

use super::super::{Revision, RpcError, code};
use crate::jsonrpc::code::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::raw_members;
use crate::jsonrpc::{ErrorObject, Raw, RawJson};
use crate::protocol::{Method, resources};

/// Translates an error in response to `method` from one revision to another.
///
/// Only a code that means something else in `to`, or nothing, is changed. The message and the data stay; the data gains
/// what the new code requires.
pub fn translate_raw_error(error: ErrorObject, method: &str, from: Revision, to: Revision) -> ErrorObject {
    if from == to {
        return error;
    }
    // 2026-07-28 has no code of its own for this, but names the resource in the data.
    if error.code == INVALID_PARAMS && from.is_stateless() && method == resources::Read::NAME {
        return if names_resource(&error) {
            ErrorObject { code: code::RESOURCE_NOT_FOUND, ..error }
        } else {
            error
        };
    }
    // Every revision has this code; its meaning is between client and server.
    if error.code == METHOD_NOT_FOUND {
        return error;
    }
    let rpc_error = RpcError::from_error_object(error.clone(), method, from);
    let data = match rpc_error {
        RpcError::UrlElicitationRequired { .. } => merge_data(error.data, rpc_error.to_error_object(to).data),
        // The tool runs only as a task, which the older revision has as no extension.
        RpcError::MissingCapability { .. } if rpc_error.code(to) == METHOD_NOT_FOUND => None,
        _ => error.data,
    };
    ErrorObject { code: rpc_error.code(to), message: error.message, data }
}

fn names_resource(error: &ErrorObject) -> bool {
    #[derive(Deserialize)]
    struct UriMember {
        #[serde(rename = "uri")]
        _uri: String,
    }
    error.data.as_ref().is_some_and(|data| Raw::from(data).read_object::<UriMember>().is_ok())
}

/// The members of `ours`, and those of `theirs` that have other names.
fn merge_data(theirs: Option<RawJson>, ours: Option<RawJson>) -> Option<RawJson> {
    let (Some(before), Some(added)) = (&theirs, &ours) else { return theirs.or(ours) };
    let (Some(before), Some(added)) = (Raw::from(before).members(), Raw::from(added).members()) else {
        return theirs;
    };
    let kept = before.iter().filter(|theirs| !added.iter().any(|ours| ours.name() == theirs.name()));
    let all: Vec<_> = kept.chain(&added).copied().collect();
    RawJson::parse(raw_members::build_object(&all)).ok().or(theirs)
}
