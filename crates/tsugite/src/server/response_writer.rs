//! Writes the response to a request: into the outbound queue of the connection, into a slot of its own (HTTP), or into
//! the array of the batch that the request came in.

use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::{BatchResponse, ErrorObject, Id, ParseError, RawJson, end_line, write};
use tsugite_core::protocol::Method;
use tsugite_core::revision::{
    InsufficientScope, Revision, RpcError, ServerInfoMeta, Translate, UnsupportedByRevisionError,
    write_result_in_place,
};

use crate::lock::lock;
use crate::shared::log;
use crate::shared::outbound_queue::OutboundQueue;

/// Writes the response to one request, or the responses to one batch.
#[derive(Clone)]
pub(crate) struct ResponseWriter {
    /// The queue for messages that are sent before the response.
    pub(crate) outbox: Arc<OutboundQueue>,
    target: ResponseTarget,
}

#[derive(Clone)]
enum ResponseTarget {
    /// Into the queue, after the messages before it.
    Queue,
    /// Into a slot, apart from the messages before it.
    Slot(Arc<ResponseSlot>),
    /// Into an array.
    Batch(Arc<BatchWriter>),
    /// To the layer around the request.
    Captured(Arc<Mutex<Option<RpcResult>>>),
}

/// The response to one HTTP request, kept apart from the messages before it: the transport sees whether there is a
/// response, and whether it is an error, without reading bytes.
#[derive(Debug, Default)]
pub(crate) struct ResponseSlot(Mutex<Option<WrittenResponse>>);

/// A response as a message on one line, without the end of the line.
#[derive(Debug)]
pub(crate) struct WrittenResponse {
    pub(crate) body: Vec<u8>,
    /// The code of the error that the response is, if it is one.
    pub(crate) error_code: Option<i64>,
    /// Set if the caller lacks a scope.
    pub(crate) insufficient_scope: Option<Box<InsufficientScope>>,
}

impl ResponseSlot {
    /// Takes the response, if it was written.
    pub(crate) fn take(&self) -> Option<WrittenResponse> {
        lock(&self.0).take()
    }

    /// Whether no response was written, or it was taken.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_none()
    }

    fn put(&self, response: WrittenResponse) {
        *lock(&self.0) = Some(response);
    }

    /// Says that the response is about scopes that the caller lacks.
    fn set_insufficient_scope(&self, scopes: Box<InsufficientScope>) {
        if let Some(response) = &mut *lock(&self.0) {
            response.insufficient_scope = Some(scopes);
        }
    }
}

/// A result or an error before it is a message.
pub(crate) type RpcResult = Result<RawJson, RpcError>;

/// Encodes a result alone, as it stands in a message.
pub(crate) fn encode_result<M: Method>(
    mut output: M::Output,
    to: Revision,
    stamp: &ServerInfoMeta,
) -> Result<RawJson, UnsupportedByRevisionError>
where
    M::Output: Translate,
{
    extract_result(&mut |out, id| write_result_in_place::<M>(out, id, &mut output, to, Some(stamp)))
}

fn extract_result(write: WriteResultFn<'_>) -> Result<RawJson, UnsupportedByRevisionError> {
    let mut out = Vec::new();
    write(&mut out, &Id::from(0))?;
    let result = out.strip_prefix(RESULT_PREFIX).and_then(|rest| rest.strip_suffix(b"}"));
    let text = result.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
    Ok(RawJson::parse(text)?)
}

/// Appends a result with an id to a buffer. The rest is the same for all methods and compiled once.
type WriteResultFn<'a> = &'a mut dyn FnMut(&mut Vec<u8>, &Id<'_>) -> Result<(), UnsupportedByRevisionError>;

/// The start of a response with the id 0, up to its result.
const RESULT_PREFIX: &[u8] = br#"{"jsonrpc":"2.0","id":0,"result":"#;

/// The initial capacity of a response in a slot. Most fit and are written without growing.
const RESPONSE_CAPACITY: usize = 512;

/// About how many bytes a response has besides its result.
const MESSAGE_OVERHEAD: usize = 64;

/// The responses to one batch. The array is sent when the last of its requests is answered, cancelled or dropped.
pub(crate) struct BatchWriter {
    /// Sends the array.
    writer: ResponseWriter,
    responses: Mutex<(BatchResponse, usize)>,
    /// The size limit of the array. A response beyond it is replaced by an error.
    max_bytes: usize,
}

impl ResponseWriter {
    /// Writes the response into the queue.
    pub(crate) fn single(outbox: Arc<OutboundQueue>) -> Self {
        Self { outbox, target: ResponseTarget::Queue }
    }

    /// Writes the response into a slot. Messages before it go into the queue.
    pub(crate) fn with_slot(outbox: Arc<OutboundQueue>, slot: Arc<ResponseSlot>) -> Self {
        Self { outbox, target: ResponseTarget::Slot(slot) }
    }

    /// Collects the responses to a batch of at most so many bytes into one array.
    pub(crate) fn batch(outbox: Arc<OutboundQueue>, max_bytes: usize) -> Self {
        Self::batch_into(Self::single(outbox), max_bytes)
    }

    /// Collects the responses to a batch and hands the array to another writer.
    pub(crate) fn batch_into(writer: Self, max_bytes: usize) -> Self {
        let outbox = writer.outbox.clone();
        let batch = BatchWriter { writer, responses: Mutex::default(), max_bytes };
        Self { outbox, target: ResponseTarget::Batch(Arc::new(batch)) }
    }

    /// Keeps the response for the layer around the request. Messages before it go into the queue.
    pub(crate) fn capture(outbox: Arc<OutboundQueue>) -> Self {
        Self { outbox, target: ResponseTarget::Captured(Arc::default()) }
    }

    /// Drops responses and messages, for notifications.
    pub(crate) fn discard() -> Self {
        Self::capture(Arc::new(OutboundQueue::new(0)))
    }

    /// Takes the captured response, if there was one.
    pub(crate) fn take_captured(&self) -> Option<RpcResult> {
        match &self.target {
            ResponseTarget::Captured(outcome) => lock(outcome).take(),
            ResponseTarget::Queue | ResponseTarget::Slot(_) | ResponseTarget::Batch(_) => None,
        }
    }

    /// Sends a result, which cannot be used afterwards. A result that cannot be encoded becomes an internal error.
    pub(crate) fn send_result<M: Method>(
        &self,
        id: &Id<'_>,
        output: &mut M::Output,
        to: Revision,
        stamp: &ServerInfoMeta,
    ) where
        M::Output: Translate,
    {
        self.write_result(id, M::NAME, to, &mut |out, id| {
            write_result_in_place::<M>(out, id, output, to, Some(stamp))
        });
    }

    fn write_result(&self, id: &Id<'_>, method: &'static str, to: Revision, write: WriteResultFn<'_>) {
        let encode_error = |error: UnsupportedByRevisionError| {
            log::error!(method, %id, revision = %to, %error, "a result could not be encoded");
            RpcError::Internal
        };
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(extract_result(write).map_err(encode_error));
            return;
        }
        self.push(Some(id), to, |out| match write(out, id).map_err(encode_error) {
            Ok(()) => None,
            Err(error) => {
                let error = error.to_error_object(to);
                write::error(out, Some(id), to.writes_null_id(), &error);
                Some(error.code)
            }
        });
    }

    /// Sends a result that is encoded already.
    pub(crate) fn send_raw_result(&self, id: &Id<'_>, result: &RawJson, to: Revision) {
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(Ok(result.clone()));
            return;
        }
        self.push(Some(id), to, |out| {
            write::raw_result(out, id, result);
            None
        });
    }

    /// The same for a result without newlines.
    pub(crate) fn send_raw_line(&self, id: &Id<'_>, result: &RawJson, to: Revision) {
        let bytes = result.text().len() + MESSAGE_OVERHEAD;
        match &self.target {
            ResponseTarget::Queue => self.outbox.push_line(bytes, |out| write::raw_result(out, id, result)),
            ResponseTarget::Slot(slot) => {
                let mut body = Vec::with_capacity(bytes);
                write::raw_result(&mut body, id, result);
                slot.put(WrittenResponse { body, error_code: None, insufficient_scope: None });
            }
            ResponseTarget::Batch(_) | ResponseTarget::Captured(_) => self.send_raw_result(id, result, to),
        }
    }

    /// Sends an error.
    pub(crate) fn send_error(&self, id: Option<&Id<'_>>, error: &RpcError, to: Revision) {
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(Err(error.clone()));
            return;
        }
        self.send_error_object(id, &error.to_error_object(to), to);
        if let (RpcError::InsufficientScope(scopes), ResponseTarget::Slot(slot)) = (error, &self.target) {
            slot.set_insufficient_scope(scopes.clone());
        }
    }

    /// Sends the error for a message that could not be parsed, unless it was a notification or response.
    pub(crate) fn send_parse_error(&self, error: &ParseError, to: Revision) {
        if let Some((id, response)) = error.error_response() {
            self.send_error_object(id, &response, to);
        }
    }

    fn send_error_object(&self, id: Option<&Id<'_>>, error: &ErrorObject, to: Revision) {
        self.push(id, to, |out| {
            write::error(out, id, to.writes_null_id(), error);
            Some(error.code)
        });
    }

    /// Sends a response. `write` appends it and returns the code of the error that it is, if it is one.
    fn push(&self, id: Option<&Id<'_>>, to: Revision, write: impl FnOnce(&mut Vec<u8>) -> Option<i64>) {
        match &self.target {
            ResponseTarget::Queue | ResponseTarget::Slot(_) => self.push_message(write),
            // A message that cannot be parsed never reaches a layer.
            ResponseTarget::Captured(_) => {}
            ResponseTarget::Batch(batch) => {
                let mut message = Vec::new();
                write(&mut message);
                batch.push(id, to, message);
            }
        }
    }

    /// Sends a message by itself, not as a part of a batch.
    fn push_message(&self, write: impl FnOnce(&mut Vec<u8>) -> Option<i64>) {
        let ResponseTarget::Slot(slot) = &self.target else {
            return self.outbox.push(|out| {
                write(out);
            });
        };
        let mut body = Vec::with_capacity(RESPONSE_CAPACITY);
        let error_code = write(&mut body);
        // The response may become an event, whose data is one line.
        end_line(&mut body, 0);
        body.pop();
        slot.put(WrittenResponse { body, error_code, insufficient_scope: None });
    }
}

impl BatchWriter {
    fn push(&self, id: Option<&Id<'_>>, to: Revision, mut message: Vec<u8>) {
        let mut responses = lock(&self.responses);
        if responses.1 + message.len() > self.max_bytes {
            let text = format!(
                "The responses to this batch exceed {} bytes together; send fewer requests in a batch",
                self.max_bytes
            );
            let error = RpcError::TooLarge(text.into()).with("limit", self.max_bytes);
            message.clear();
            write::error(&mut message, id, to.writes_null_id(), &error.to_error_object(to));
        }
        responses.1 += message.len();
        responses.0.push(&message);
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        let (responses, _) = self.responses.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(array) = std::mem::take(responses).finish() {
            self.writer.push_message(|out| {
                out.extend_from_slice(&array);
                None
            });
        }
    }
}
