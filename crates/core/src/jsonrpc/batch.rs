//! Batches: arrays of messages, which only 2025-03-26 has.
//!
//! A batch holds either requests and notifications, or responses. Each element is parsed on its own, so that a bad
//! element only fails itself.

use super::Message;
use super::error::{InvalidMessage, ParseError, ParseErrorKind};

/// The messages of one batch, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'a>(Vec<Result<Message<'a>, ParseError>>);

impl<'a> Batch<'a> {
    pub(super) fn new(messages: Vec<Result<Message<'a>, ParseError>>) -> Result<Self, ParseError> {
        if messages.iter().any(is_response) && messages.iter().any(is_request_or_notification) {
            return Err(ParseError::new(ParseErrorKind::MixedBatch, InvalidMessage::UnreadableId));
        }
        Ok(Self(messages))
    }

    /// The messages, in order.
    pub fn messages(&self) -> &[Result<Message<'a>, ParseError>] {
        &self.0
    }

    /// The messages, in order.
    pub fn into_messages(self) -> Vec<Result<Message<'a>, ParseError>> {
        self.0
    }

    /// The methods of the requests, in order.
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
        Err(error) => matches!(error.received, InvalidMessage::Response(_)),
    }
}

/// Whether it is clearly a request or notification. An element that could be either, such as a number, does not make
/// the batch mixed.
fn is_request_or_notification(message: &Result<Message<'_>, ParseError>) -> bool {
    match message {
        Ok(message) => !matches!(message, Message::Response(_)),
        Err(error) => matches!(error.received, InvalidMessage::Request(_) | InvalidMessage::Notification),
    }
}

/// The responses to a batch, collected into one array as they are written.
///
/// A single response is an array too; a batch without responses has no array.
#[derive(Debug, Default)]
pub struct BatchResponse {
    array: Vec<u8>,
}

impl BatchResponse {
    /// Adds the bytes of one response.
    pub fn push(&mut self, message: &[u8]) {
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(message);
    }

    /// The array, or `None` if there are no responses.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.array.is_empty() {
            return None;
        }
        self.array.push(b']');
        Some(self.array)
    }
}
