//! Errors on the wire, and what is wrong with a message that could not be read.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Id, RawJson};

/// The numbers JSON-RPC fixes and the one we give to what is too large.
///
/// Numbers that differ between revisions stand in [`crate::revision`].
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method here.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Our own failure.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The message is over one of our limits.
    pub const CONTENT_TOO_LARGE: i64 = -32801;
    /// A call its own caller cancelled. Never sent: a cancelled request gets no answer.
    pub const REQUEST_CANCELLED: i64 = -32800;
}

/// The `error` member of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// What kind of error it is.
    pub code: i64,
    /// One short sentence.
    pub message: Cow<'static, str>,
    /// Whatever helps the caller find its mistake.
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

    /// Adds what helps the caller find its mistake. Data that cannot be written is left out.
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

/// A message that could not be taken, and what its sender should hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// What the message was, as far as it could be read.
    pub received: InvalidMessage,
}

/// What is wrong with a message.
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
    /// A member of the envelope stands there twice.
    DuplicateMember,
    /// The id is null, a fraction, or neither string nor number.
    BadId,
    /// The method is not a string.
    BadMethod,
    /// Neither method nor result nor error, or things that exclude each other.
    NotAMessage,
    /// `params` is not an object.
    ParamsNotAnObject,
    /// `error` is not an object with an integer code and a string message.
    BadError,
    /// A batch without messages.
    EmptyBatch,
    /// Requests and answers in one batch.
    MixedBatch,
}

/// What a faulty message was meant to be; it decides whether an error is sent and to which id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidMessage {
    /// A request with a readable id: the error carries it.
    Request(Id<'static>),
    /// Something that wants an answer but whose id could not be read.
    UnreadableId,
    /// A notification: nobody is told.
    Notification,
    /// An answer. It gets no answer; the call it names, if it names one, has failed.
    Response(Option<Id<'static>>),
}

impl ParseError {
    pub(super) fn new(kind: ParseErrorKind, received: InvalidMessage) -> Self {
        Self { kind, received }
    }

    /// A line or body over the limit, which was not read at all.
    pub fn too_long() -> Self {
        Self::new(ParseErrorKind::TooLong, InvalidMessage::UnreadableId)
    }

    /// The error to send, or `None` where JSON-RPC wants silence.
    ///
    /// `Some((None, error))` is an error whose id could not be read; how that is spelt depends on the revision.
    pub fn error_response(&self) -> Option<(Option<&Id<'static>>, ErrorObject)> {
        let id = match &self.received {
            InvalidMessage::Request(id) => Some(id),
            InvalidMessage::UnreadableId => None,
            InvalidMessage::Notification | InvalidMessage::Response(_) => return None,
        };
        Some((id, ErrorObject::new(self.kind.code(), self.kind.message())))
    }
}

impl ParseErrorKind {
    /// The number this kind of fault is reported under.
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
            ParseErrorKind::TooLong => "The message is longer than allowed",
            ParseErrorKind::TooDeep => "The message is nested deeper than allowed",
            ParseErrorKind::IdTooLong => "The id is longer than allowed",
            ParseErrorKind::BatchTooLong => "The batch holds more messages than allowed",
            ParseErrorKind::NotAnObject => "Invalid request: a message is a JSON object",
            ParseErrorKind::NotJsonRpc2 => "Invalid request: `jsonrpc` must be \"2.0\"",
            ParseErrorKind::DuplicateMember => "Invalid request: a member stands there twice",
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
