//! Encodes values for a peer's revision, and decodes them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Revision, RpcError};
use crate::jsonrpc::{Id, JsonError, Raw, RawJson, write};
use crate::protocol::lifecycle::InitializeParams;
use crate::protocol::{HasMeta, Implementation, Meta, Method, NotificationMethod, Output, ResultType, meta};

/// A value in the newest shape that older revisions write differently.
pub trait Translate {
    /// Fits the value to the revision `to`: drops, renames or replaces members it does not have.
    ///
    /// Fails if leaving something out would change the meaning. Members that are dropped silently are optional in the
    /// specification; `tests/wire/losses.rs` lists them.
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError>;

    /// Converts a value written by a peer of `from` to the newest shape.
    fn upgrade(&mut self, from: Revision);

    /// Whether both revisions write every value the same, so that it can be forwarded without being deserialized. Cache
    /// hints do not count. `false` is always correct, only slower.
    fn is_same_in(_one: Revision, _other: Revision) -> bool {
        false
    }
}

/// The peer's revision cannot express a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedByRevisionError {
    /// It does not have the method.
    Method(&'static str),
    /// It has no elicitation.
    Elicitation,
    /// It has no elicitation with a URL.
    UrlElicitation,
    /// Its forms have no fields with multiple choice.
    MultipleChoice,
    /// It has no tools in sampling.
    SamplingTools,
    /// It has no results that request input.
    InputRequired,
    /// It has no tasks.
    Tasks,
    /// It requires a member that is missing.
    MissingMember(&'static str),
    /// The value does not have the expected JSON shape.
    Json(JsonError),
}

impl fmt::Display for UnsupportedByRevisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            UnsupportedByRevisionError::Method(name) => {
                return write!(f, "the peer's revision has no `{name}`");
            }
            UnsupportedByRevisionError::MissingMember(name) => {
                return write!(f, "the peer's revision needs `{name}`");
            }
            UnsupportedByRevisionError::Json(error) => return error.fmt(f),
            UnsupportedByRevisionError::Elicitation => "elicitation",
            UnsupportedByRevisionError::UrlElicitation => "elicitation by URL",
            UnsupportedByRevisionError::MultipleChoice => "multiple choice in forms",
            UnsupportedByRevisionError::SamplingTools => "tools in sampling",
            UnsupportedByRevisionError::InputRequired => "results that request input",
            UnsupportedByRevisionError::Tasks => "tasks",
        };
        write!(f, "the peer's revision has no {what}")
    }
}

impl std::error::Error for UnsupportedByRevisionError {}

impl From<JsonError> for UnsupportedByRevisionError {
    fn from(error: JsonError) -> Self {
        UnsupportedByRevisionError::Json(error)
    }
}

/// Appends a request, encoded for `to`.
///
/// On 2026-07-28 its `_meta` must contain the [`ClientMeta`](crate::protocol::meta::ClientMeta).
pub fn write_request<M: Method>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    mut params: M::Params,
    to: Revision,
) -> Result<(), UnsupportedByRevisionError>
where
    M::Params: Translate,
{
    if !to.has_request::<M>() {
        return Err(UnsupportedByRevisionError::Method(M::NAME));
    }
    params.downgrade(to)?;
    strip_stateless_meta(params.meta_mut(), to);
    if to.is_stateless() {
        for key in [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES] {
            if params.meta().and_then(|meta| meta.get(key)).is_none() {
                return Err(UnsupportedByRevisionError::MissingMember(key));
            }
        }
    }
    Ok(write::request(out, id, M::NAME, Some(&params))?)
}

/// Appends a request, encoded for `to`, with its `_meta` given as text: members of an object, without braces.
///
/// `params` must have no `_meta` of their own. On 2026-07-28 the text must contain the
/// [`ClientMeta`](crate::protocol::meta::ClientMeta), which is the same for every request and so need not be serialized
/// each time.
pub fn write_request_with_meta<M: Method>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    mut params: M::Params,
    to: Revision,
    stamp: &str,
) -> Result<(), UnsupportedByRevisionError>
where
    M::Params: Translate,
{
    if !to.has_request::<M>() {
        return Err(UnsupportedByRevisionError::Method(M::NAME));
    }
    if params.meta().is_some() {
        return Err(JsonError::new("a request must not have two `_meta`").into());
    }
    params.downgrade(to)?;
    match stamp.is_empty() {
        true => Ok(write::request(out, id, M::NAME, Some(&params))?),
        false => {
            let member = ["\"_meta\":{", stamp, "}"].concat();
            Ok(write::request_with_members(out, id, M::NAME, &[&member], &params)?)
        }
    }
}

/// Appends a notification, encoded for `to`.
pub fn write_notification<N: NotificationMethod>(
    out: &mut Vec<u8>,
    mut params: N::Params,
    to: Revision,
) -> Result<(), UnsupportedByRevisionError>
where
    N::Params: Translate,
{
    if !to.has_notification::<N>() {
        return Err(UnsupportedByRevisionError::Method(N::NAME));
    }
    params.downgrade(to)?;
    strip_stateless_meta(params.meta_mut(), to);
    Ok(write::notification(out, N::NAME, Some(&params))?)
}

/// Appends the result of `M`, encoded for `to`.
///
/// Only 2026-07-28 has `resultType` and, through `stamp`, the server's info.
pub fn write_result<M: Method>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    mut output: M::Output,
    to: Revision,
    stamp: Option<&ServerInfoMeta>,
) -> Result<(), UnsupportedByRevisionError>
where
    M::Output: Translate,
{
    write_result_in_place::<M>(out, id, &mut output, to, stamp)
}

/// Like [`write_result`], without moving a large value. The value has the shape of `to` afterwards.
pub fn write_result_in_place<M: Method>(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    output: &mut M::Output,
    to: Revision,
    stamp: Option<&ServerInfoMeta>,
) -> Result<(), UnsupportedByRevisionError>
where
    M::Output: Translate,
{
    if !to.has_request::<M>() {
        return Err(UnsupportedByRevisionError::Method(M::NAME));
    }
    write_any_result(out, id, output, to, stamp)
}

/// The part that is the same for every method, so that its code is generated once.
fn write_any_result(
    out: &mut Vec<u8>,
    id: &Id<'_>,
    output: &mut dyn AnyOutput,
    to: Revision,
    stamp: Option<&ServerInfoMeta>,
) -> Result<(), UnsupportedByRevisionError> {
    output.downgrade(to)?;
    strip_stateless_meta(output.meta_mut(), to);
    if !to.is_stateless() {
        return Ok(output.write(out, id, &[])?);
    }
    let kind = match output.result_type() {
        ResultType::Complete => "\"resultType\":\"complete\"",
        ResultType::InputRequired => "\"resultType\":\"input_required\"",
        ResultType::Task => "\"resultType\":\"task\"",
    };
    let written = match (stamp, output.meta_mut()) {
        (Some(stamp), Some(meta)) => {
            meta.set_server_info(&stamp.server_info);
            output.write(out, id, &[kind])
        }
        (Some(stamp), None) => output.write(out, id, &[kind, &stamp.meta_member]),
        (None, _) => output.write(out, id, &[kind]),
    };
    Ok(written?)
}

/// The output of some method.
trait AnyOutput {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError>;
    fn meta_mut(&mut self) -> &mut Option<Meta>;
    fn result_type(&self) -> ResultType;
    fn write(&self, out: &mut Vec<u8>, id: &Id<'_>, members: &[&str]) -> Result<(), JsonError>;
}

impl<T: Output + Translate> AnyOutput for T {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        Translate::downgrade(self, to)
    }

    fn meta_mut(&mut self) -> &mut Option<Meta> {
        HasMeta::meta_mut(self)
    }

    fn result_type(&self) -> ResultType {
        Output::result_type(self)
    }

    fn write(&self, out: &mut Vec<u8>, id: &Id<'_>, members: &[&str]) -> Result<(), JsonError> {
        write::result_with_members(out, id, members, self)
    }
}

/// The server's info, serialized once for every result of 2026-07-28.
#[derive(Debug, Clone)]
pub struct ServerInfoMeta {
    server_info: Implementation,
    meta_member: String,
}

impl ServerInfoMeta {
    /// Serializes `server_info`.
    pub fn new(server_info: Implementation) -> Self {
        let mut meta = Meta::new();
        meta.set_server_info(&server_info);
        // A `Meta` always has text.
        let text = RawJson::from_value(&meta).unwrap_or_else(|_| RawJson::empty_object());
        Self { server_info, meta_member: format!("\"_meta\":{}", text.text()) }
    }
}

/// Decodes the params of a request. Fails with the error to respond with.
pub fn read_params<M: Method>(params: Raw<'_>, from: Revision) -> Result<M::Params, RpcError>
where
    M::Params: Translate,
{
    let mut params: M::Params = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    params.upgrade(from);
    Ok(params)
}

/// Decodes the params of `initialize` like [`read_params`], but its code is generated once and the result is boxed,
/// because it is the largest of all params.
#[inline(never)]
pub fn read_initialize_params(params: Raw<'_>, from: Revision) -> Result<Box<InitializeParams>, RpcError> {
    let mut hello: Box<InitializeParams> = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    hello.upgrade(from);
    Ok(hello)
}

/// The params of `initialize` with only the members that a session needs later, as they were received.
pub fn trim_initialize_params(params: Raw<'_>) -> Result<RawJson, RpcError> {
    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Needed<'a> {
        #[serde(borrow)]
        protocol_version: &'a RawValue,
        #[serde(borrow)]
        capabilities: &'a RawValue,
        #[serde(borrow)]
        client_info: &'a RawValue,
    }
    let needed = params.read::<Needed<'_>>().and_then(|needed| RawJson::from_value(&needed));
    needed.map_err(|error| RpcError::invalid_params(&error))
}

/// Decodes the params of a notification. A malformed one must be ignored.
pub fn read_notification<N: NotificationMethod>(
    params: Raw<'_>,
    from: Revision,
) -> Result<N::Params, JsonError>
where
    N::Params: Translate,
{
    let mut params: N::Params = params.read()?;
    params.upgrade(from);
    Ok(params)
}

/// Decodes the result of `M`.
pub fn read_result<M: Method>(result: Raw<'_>, from: Revision) -> Result<M::Output, JsonError>
where
    M::Output: Translate + InferResultType,
{
    let kind = if from.is_stateless() {
        ResultType::from_result(result)?
    } else {
        M::Output::infer_result_type(result, from)
    };
    let mut output = M::Output::read(kind, result)?;
    output.upgrade(from);
    Ok(output)
}

/// Encodes the response to an input request of a server: a bare object under its key, on 2026-07-28.
pub fn write_input_response<M: Method>(mut output: M::Output) -> Result<RawJson, UnsupportedByRevisionError>
where
    M::Output: Translate,
{
    Translate::downgrade(&mut output, Revision::NEWEST)?;
    Ok(RawJson::from_value(&output)?)
}

/// Decodes the response to an input request as the output of the method.
pub fn read_input_response<M: Method>(answer: &RawJson) -> Result<M::Output, JsonError> {
    M::Output::read(ResultType::Complete, Raw::from(answer))
}

/// Infers the type of a result on a revision without `resultType`.
pub trait InferResultType {
    /// The type; complete unless the result can be something else there.
    fn infer_result_type(_result: Raw<'_>, _from: Revision) -> ResultType {
        ResultType::Complete
    }
}

/// Removes the keys of `_meta` that only 2026-07-28 defines.
fn strip_stateless_meta(place: &mut Option<Meta>, to: Revision) {
    if to.is_stateless() {
        return;
    }
    let Some(meta) = place else { return };
    let mut removed = false;
    for key in STATELESS_META_KEYS {
        removed |= meta.remove(key).is_some();
    }
    if removed && meta.is_empty() {
        *place = None;
    }
}

/// The keys of `_meta` that only 2026-07-28 defines.
pub(super) const STATELESS_META_KEYS: [&str; 6] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::SERVER_INFO,
    meta::SUBSCRIPTION_ID,
];
