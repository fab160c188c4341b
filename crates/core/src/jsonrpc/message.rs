//! The four kinds of message, borrowed from the bytes they came in.

use std::borrow::Cow;

use super::{Batch, ErrorObject, Id, Raw};

/// What one body or line held.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming<'a> {
    /// One message.
    Single(Message<'a>),
    /// An array of messages. Only 2025-03-26 knows it; refusing it elsewhere is the session's decision.
    Batch(Batch<'a>),
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Wants exactly one answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Is one.
    Response(Response<'a>),
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    /// What its answer must carry.
    pub id: Id<'a>,
    /// Compared case-sensitively.
    pub method: Cow<'a, str>,
    /// An object, if present.
    pub params: Option<Raw<'a>>,
}

/// A one-way message.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification<'a> {
    /// Compared case-sensitively.
    pub method: Cow<'a, str>,
    /// An object, if present.
    pub params: Option<Raw<'a>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response<'a> {
    /// The call it answers; `None` only on an error whose sender could not read the id.
    pub id: Option<Id<'a>>,
    /// The result, raw, or the error.
    ///
    /// MCP results are objects. Anything else, `null` included, is still an answer: it ends the call, which
    /// fails when the result is read into its type. Dropping it would leave the caller waiting.
    pub outcome: Result<Raw<'a>, ErrorObject>,
}

impl<'a> Request<'a> {
    /// The params, or the empty object that their absence stands for.
    pub fn params(&self) -> Raw<'a> {
        self.params.unwrap_or(Raw::empty_object())
    }
}

impl<'a> Notification<'a> {
    /// The params, or the empty object that their absence stands for.
    pub fn params(&self) -> Raw<'a> {
        self.params.unwrap_or(Raw::empty_object())
    }
}
