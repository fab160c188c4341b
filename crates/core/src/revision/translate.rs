//! Out through here in the peer's coat, in through here out of it.

use std::fmt;

use super::{Revision, RpcError};
use crate::jsonrpc::{Id, JsonError, Raw, RawJson, write};
use crate::protocol::lifecycle::InitializeParams;
use crate::protocol::{HasMeta, Implementation, Meta, Method, NotificationMethod, Output, ResultType, meta};

/// A value in the newest shape that older revisions write differently.
pub trait Translate {
    /// Fits the value to what `to` can say: drops, renames or replaces what it does not know.
    ///
    /// Fails when leaving something out would change what is said. What is lost silently is listed in
    /// ARCHITECTURE.md; the specification calls all of it optional.
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError>;

    /// Brings what a peer of `from` wrote into the newest shape.
    fn upgrade(&mut self, from: Revision);

    /// Whether every value one of the two can say is written the same by the other, so that it need not be read to be
    /// carried across. Cache hints do not count. Saying no is never wrong, only slower.
    fn is_same_in(_one: Revision, _other: Revision) -> bool {
        false
    }
}

/// A revision has no way to say something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedByRevisionError {
    /// It has no such method.
    Method(&'static str),
    /// It cannot ask the user.
    Elicitation,
    /// It cannot send the user to a web page.
    UrlElicitation,
    /// Its forms have no field for several choices.
    MultipleChoice,
    /// It cannot give a model tools.
    SamplingTools,
    /// It cannot answer with a question.
    InputRequired,
    /// It has no tasks.
    Tasks,
    /// It wants a member that is not there.
    MissingMember(&'static str),
    /// The value is not JSON of the shape it must have.
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
            UnsupportedByRevisionError::InputRequired => "results that ask back",
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

/// Appends a request as `to` writes it.
///
/// On 2026-07-28 its `_meta` must hold the sender's [claims](crate::protocol::meta::Claims).
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

/// Appends a request as `to` writes it, with what it says in `_meta` given as text: members of an object, without braces.
///
/// `params` must have no `_meta` of their own. On 2026-07-28 the text must hold the sender's
/// [claims](crate::protocol::meta::Claims), which are the same for every request and so need not be written each time.
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
        return Err(JsonError::new("a request has one `_meta`").into());
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

/// Appends a notification as `to` writes it.
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

/// Appends the answer to `M` as `to` writes it.
///
/// Only 2026-07-28 says of which kind the result is and, by `stamp`, who made it.
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

/// What [`write_result`] does, without moving what may be large. It is of no other use then: it has the shape of `to`.
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

/// The same for every method, and so built once.
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

/// The answer to some method.
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

/// Who made a result, written once and put on every result of 2026-07-28.
#[derive(Debug, Clone)]
pub struct ServerInfoMeta {
    server_info: Implementation,
    meta_member: String,
}

impl ServerInfoMeta {
    /// The stamp of `server_info`.
    pub fn new(server_info: Implementation) -> Self {
        let mut meta = Meta::new();
        meta.set_server_info(&server_info);
        // A `Meta` always has a text.
        let text = RawJson::from_value(&meta).unwrap_or_else(|_| RawJson::empty_object());
        Self { server_info, meta_member: format!("\"_meta\":{}", text.text()) }
    }
}

/// Reads the params of a request or fails with the refusal to answer it with.
pub fn read_params<M: Method>(params: Raw<'_>, from: Revision) -> Result<M::Params, RpcError>
where
    M::Params: Translate,
{
    let mut params: M::Params = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    params.upgrade(from);
    Ok(params)
}

/// Reads the params of an `initialize`: what [`read_params`] does, but built once, and in a box. Nothing else that is
/// read is as large.
#[inline(never)]
pub fn read_initialize_params(params: Raw<'_>, from: Revision) -> Result<Box<InitializeParams>, RpcError> {
    let mut hello: Box<InitializeParams> = params.read().map_err(|error| RpcError::invalid_params(&error))?;
    hello.upgrade(from);
    Ok(hello)
}

/// Reads the params of a notification. Whoever gets a malformed one ignores it.
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

/// Reads the answer to `M`.
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

/// The answer to something a server asked inside a result: a bare object under its key, on 2026-07-28.
pub fn write_input_response<M: Method>(mut output: M::Output) -> Result<RawJson, UnsupportedByRevisionError>
where
    M::Output: Translate,
{
    Translate::downgrade(&mut output, Revision::NEWEST)?;
    Ok(RawJson::from_value(&output)?)
}

/// Reads such an answer as the output of what was asked.
pub fn read_input_response<M: Method>(answer: &RawJson) -> Result<M::Output, JsonError> {
    M::Output::read(ResultType::Complete, Raw::from(answer))
}

/// How a result of a revision without `resultType` shows of which kind it is.
pub trait InferResultType {
    /// The kind; complete unless the result can be something else there.
    fn infer_result_type(_result: Raw<'_>, _from: Revision) -> ResultType {
        ResultType::Complete
    }
}

/// Takes the keys out of `_meta` that only 2026-07-28 gives a meaning.
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

/// The keys of `_meta` that only 2026-07-28 gives a meaning.
pub(super) const STATELESS_META_KEYS: [&str; 6] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::SERVER_INFO,
    meta::SUBSCRIPTION_ID,
];
