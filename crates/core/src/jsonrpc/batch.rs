//! Arrays of messages, which 2025-03-26 alone knows.
//!
//! Either requests and notifications, or answers. Each element is judged for itself, so that one bad element
//! costs only its own answer.

use super::Message;
use super::error::{InvalidMessage, ParseError, ParseErrorKind};

/// The messages of one array, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'a>(Vec<Result<Message<'a>, ParseError>>);

impl<'a> Batch<'a> {
    pub(super) fn new(messages: Vec<Result<Message<'a>, ParseError>>) -> Result<Self, ParseError> {
        if messages.iter().any(is_response) && messages.iter().any(is_request_or_notification) {
            return Err(ParseError::new(ParseErrorKind::MixedBatch, InvalidMessage::UnreadableId));
        }
        Ok(Self(messages))
    }

    /// The messages, in their order.
    pub fn messages(&self) -> &[Result<Message<'a>, ParseError>] {
        &self.0
    }

    /// The messages, in their order.
    pub fn into_messages(self) -> Vec<Result<Message<'a>, ParseError>> {
        self.0
    }

    /// The methods of the requests, in their order.
    pub fn request_methods(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|message| match message {
            Ok(Message::Request(request)) => Some(request.method.as_ref()),
            _ => None,
        })
    }
}

fn is_response(message: &Result<Message<'_>, ParseError>) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Response(_)),
        Err(fault) => matches!(fault.received, InvalidMessage::Response(_)),
    }
}

/// What could be either, an element that is no object say, is judged by its neighbours and costs them nothing.
fn is_request_or_notification(message: &Result<Message<'_>, ParseError>) -> bool {
    match message {
        Ok(message) => !matches!(message, Message::Response(_)),
        Err(fault) => matches!(fault.received, InvalidMessage::Request(_) | InvalidMessage::Notification),
    }
}

/// The answers to a batch, collected into one array as they come.
///
/// An array stays an array even for one element; a batch that is owed nothing gets nothing.
#[derive(Debug, Default)]
pub struct BatchResponse {
    array: Vec<u8>,
}

impl BatchResponse {
    /// Adds one answer, as the bytes of its message.
    pub fn push(&mut self, message: &[u8]) {
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(message);
    }

    /// The array, or `None` if nothing was owed.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.array.is_empty() {
            return None;
        }
        self.array.push(b']');
        Some(self.array)
    }
}
