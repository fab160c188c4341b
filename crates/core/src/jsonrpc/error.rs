//! Error objects on the wire, and the errors of messages that cannot be parsed.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Id, RawJson};

/// Error codes of JSON-RPC, of two implementation limits, and of cancellation.
///
/// Codes that differ between revisions are in [`crate::revision`].
pub mod code {
    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON, but not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist or is not available.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An internal error.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The message exceeds one of the limits.
    pub const CONTENT_TOO_LARGE: i64 = -32801;
    /// The server cannot answer now; the request can be repeated. Not of JSON-RPC; HTTP says 503.
    pub const UNAVAILABLE: i64 = -32803;
    /// The caller cancelled the request. Never sent: a cancelled request gets no response.
    pub const REQUEST_CANCELLED: i64 = -32800;
}

/// The `error` member of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// The error code.
    pub code: i64,
    /// A short description.
    pub message: Cow<'static, str>,
    /// Details for the caller.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::deserialize_present"
    )]
    pub data: Option<RawJson>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets the details. Data that cannot be serialized is left out.
    #[must_use]
    pub fn data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = RawJson::from_value(data).ok();
        self
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// A message that cannot be parsed, and the error its sender should get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The reason.
    pub kind: ParseErrorKind,
    /// The kind of message it was, as far as it could be read.
    pub received: InvalidMessage,
    /// Where the fault is, or the limit that the message exceeds.
    pub detail: Option<ParseErrorDetail>,
}

/// A number that helps the sender of a message that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorDetail {
    /// The offset of the first byte that is wrong.
    Offset(usize),
    /// The limit that the message exceeds.
    Limit(usize),
}

/// The reasons why a message cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// Not UTF-8.
    NotUtf8,
    /// Not JSON, or more than one value.
    NotJson,
    /// Longer than allowed.
    TooLong,
    /// Nested deeper than allowed.
    TooDeep,
    /// An id longer than allowed.
    IdTooLong,
    /// More messages in one batch than allowed.
    BatchTooLong,
    /// Neither an object nor an array.
    NotAnObject,
    /// `jsonrpc` is missing or not `"2.0"`.
    NotJsonRpc2,
    /// A duplicate member of the envelope.
    DuplicateMember,
    /// The id is null, a fraction, or neither string nor number.
    BadId,
    /// The method is not a string.
    BadMethod,
    /// Neither a method nor a result nor an error, or members that exclude each other.
    NotAMessage,
    /// `params` is not an object.
    ParamsNotAnObject,
    /// `error` is not an object with an integer code and a string message.
    BadError,
    /// A batch without messages.
    EmptyBatch,
    /// Requests and responses in one batch.
    MixedBatch,
}

/// The kind of an invalid message; it decides whether an error is sent, and with which id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidMessage {
    /// A request with a readable id: the error carries the id.
    Request(Id<'static>),
    /// A message that needs a response but whose id cannot be read.
    UnreadableId,
    /// A notification: no error is sent.
    Notification,
    /// A response. No error is sent; the call it names, if it names one, has failed.
    Response(Option<Id<'static>>),
}

impl ParseError {
    pub(super) fn new(kind: ParseErrorKind, received: InvalidMessage) -> Self {
        Self { kind, received, detail: None }
    }

    /// A line or body over the limit of so many bytes, which was not read.
    pub fn too_long(limit: usize) -> Self {
        Self::new(ParseErrorKind::TooLong, InvalidMessage::UnreadableId).limit(limit)
    }

    pub(super) fn limit(self, limit: usize) -> Self {
        Self { detail: Some(ParseErrorDetail::Limit(limit)), ..self }
    }

    pub(super) fn offset(self, offset: usize) -> Self {
        Self { detail: Some(ParseErrorDetail::Offset(offset)), ..self }
    }

    /// The error to send, or `None` if JSON-RPC forbids a response.
    ///
    /// `Some((None, error))` is an error whose id could not be read; whether its `id` is null or absent depends on the
    /// revision.
    pub fn error_response(&self) -> Option<(Option<&Id<'static>>, ErrorObject)> {
        let id = match &self.received {
            InvalidMessage::Request(id) => Some(id),
            InvalidMessage::UnreadableId => None,
            InvalidMessage::Notification | InvalidMessage::Response(_) => return None,
        };
        let data = self.detail.map(|detail| match detail {
            ParseErrorDetail::Offset(offset) => format!(r#"{{"offset":{offset}}}"#),
            ParseErrorDetail::Limit(limit) => format!(r#"{{"limit":{limit}}}"#),
        });
        let error = ErrorObject::new(self.kind.code(), self.kind.message());
        Some((id, ErrorObject { data: data.map(RawJson::from_validated), ..error }))
    }
}

impl ParseErrorKind {
    /// The error code of this kind.
    pub fn code(self) -> i64 {
        match self {
            ParseErrorKind::NotUtf8 | ParseErrorKind::NotJson => code::PARSE_ERROR,
            ParseErrorKind::TooLong
            | ParseErrorKind::TooDeep
            | ParseErrorKind::IdTooLong
            | ParseErrorKind::BatchTooLong => code::CONTENT_TOO_LARGE,
            ParseErrorKind::ParamsNotAnObject => code::INVALID_PARAMS,
            _ => code::INVALID_REQUEST,
        }
    }

    fn message(self) -> &'static str {
        match self {
            ParseErrorKind::NotUtf8 => "Parse error: the message is not UTF-8",
            ParseErrorKind::NotJson => "Parse error: the message is not one JSON value",
            ParseErrorKind::TooLong => "The message exceeds the size limit",
            ParseErrorKind::TooDeep => "The message exceeds the nesting limit",
            ParseErrorKind::IdTooLong => "The id exceeds the length limit",
            ParseErrorKind::BatchTooLong => "The batch exceeds the limit of messages",
            ParseErrorKind::NotAnObject => "Invalid request: a message must be a JSON object",
            ParseErrorKind::NotJsonRpc2 => "Invalid request: `jsonrpc` must be \"2.0\"",
            ParseErrorKind::DuplicateMember => "Invalid request: duplicate member",
            ParseErrorKind::BadId => "Invalid request: `id` must be a string or an integer",
            ParseErrorKind::BadMethod => "Invalid request: `method` must be a string",
            ParseErrorKind::NotAMessage => "Invalid request: neither request, notification nor response",
            ParseErrorKind::ParamsNotAnObject => "Invalid params: `params` must be an object",
            ParseErrorKind::BadError => {
                "Invalid response: `error` needs an integer `code` and a string `message`"
            }
            ParseErrorKind::EmptyBatch => "Invalid request: the batch is empty",
            ParseErrorKind::MixedBatch => "Invalid request: a batch holds either requests or responses",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.message())
    }
}

impl std::error::Error for ParseError {}
