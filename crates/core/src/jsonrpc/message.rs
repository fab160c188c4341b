//! The kinds of message, borrowed from the bytes they were parsed from.

use std::borrow::Cow;

use super::{Batch, ErrorObject, Id, Raw};

/// The contents of one body or line.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming<'a> {
    /// One message.
    Single(Message<'a>),
    /// An array of messages. Only 2025-03-26 has batches; the session rejects them elsewhere.
    Batch(Batch<'a>),
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Needs exactly one response.
    Request(Request<'a>),
    /// Gets no response.
    Notification(Notification<'a>),
    /// The response to a request.
    Response(Response<'a>),
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    /// The id for the response.
    pub id: Id<'a>,
    /// The method name, case-sensitive.
    pub method: Cow<'a, str>,
    /// The params, an object if present.
    pub params: Option<Raw<'a>>,
}

/// A notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification<'a> {
    /// The method name, case-sensitive.
    pub method: Cow<'a, str>,
    /// The params, an object if present.
    pub params: Option<Raw<'a>>,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<'a> {
    /// The id of the request; `None` only on an error whose sender could not read the id.
    pub id: Option<Id<'a>>,
    /// The result, raw, or the error.
    ///
    /// MCP results are objects. Any other value, `null` included, still ends the call, which fails when the result is
    /// deserialized. Dropping it would leave the caller waiting.
    pub outcome: Result<Raw<'a>, ErrorObject>,
}

impl<'a> Request<'a> {
    /// The params; an empty object if absent.
    pub fn params(&self) -> Raw<'a> {
        self.params.unwrap_or(Raw::empty_object())
    }
}

impl<'a> Notification<'a> {
    /// The params; an empty object if absent.
    pub fn params(&self) -> Raw<'a> {
        self.params.unwrap_or(Raw::empty_object())
    }
}
