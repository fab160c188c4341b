//! Where the answer to a request goes: out by itself, or into the array of the batch it came in.

use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::{BatchResponse, ErrorObject, Id, ParseError, RawJson, write};
use tsugite_core::protocol::Method;
use tsugite_core::revision::{
    Revision, RpcError, ServerInfoMeta, Translate, UnsupportedByRevisionError, write_result_in_place,
};

use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// Where an answer goes.
#[derive(Clone)]
pub(crate) struct ResponseWriter {
    /// Where what is said before the answer goes.
    pub(crate) outbox: Arc<OutboundQueue>,
    target: ResponseTarget,
}

#[derive(Clone)]
enum ResponseTarget {
    /// Out by itself.
    Single,
    /// Into an array.
    Batch(Arc<BatchWriter>),
    /// To whoever stands around the request.
    Captured(Arc<Mutex<Option<RpcResult>>>),
}

/// An answer before it is a message.
pub(crate) type RpcResult = Result<RawJson, RpcError>;

/// A result alone, the way it stands in a message.
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

/// Appends a result with an id. What happens to it then is the same for all and so built once.
type WriteResultFn<'a> = &'a mut dyn FnMut(&mut Vec<u8>, &Id<'_>) -> Result<(), UnsupportedByRevisionError>;

/// What stands before the result in a message with the id 0.
const RESULT_PREFIX: &[u8] = br#"{"jsonrpc":"2.0","id":0,"result":"#;

/// About how long a message is around its result.
const MESSAGE_OVERHEAD: usize = 64;

/// The answers to one batch. The array leaves when the last of its requests is answered, cancelled or dropped.
pub(crate) struct BatchWriter {
    outbox: Arc<OutboundQueue>,
    responses: Mutex<(BatchResponse, usize)>,
    /// How many bytes the array may have; what would go beyond is refused.
    max_bytes: usize,
}

impl ResponseWriter {
    /// Out by itself.
    pub(crate) fn single(outbox: Arc<OutboundQueue>) -> Self {
        Self { outbox, target: ResponseTarget::Single }
    }

    /// For a batch.
    pub(crate) fn batch(outbox: Arc<OutboundQueue>, most: usize) -> Self {
        let batch = BatchWriter { outbox: outbox.clone(), responses: Mutex::default(), max_bytes: most };
        Self { outbox, target: ResponseTarget::Batch(Arc::new(batch)) }
    }

    /// For whoever stands around the request. What comes before the answer goes out all the same.
    pub(crate) fn capture(outbox: Arc<OutboundQueue>) -> Self {
        Self { outbox, target: ResponseTarget::Captured(Arc::default()) }
    }

    /// For what nobody waits for.
    pub(crate) fn discard() -> Self {
        Self::capture(Arc::new(OutboundQueue::new(0)))
    }

    /// What was captured, if there was an answer.
    pub(crate) fn take_captured(&self) -> Option<RpcResult> {
        match &self.target {
            ResponseTarget::Captured(outcome) => lock(outcome).take(),
            _ => None,
        }
    }

    /// Answers with a result, which is of no other use then. One that cannot be written is our mistake and becomes an
    /// internal error.
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
        let could_not = |error: UnsupportedByRevisionError| {
            tracing::error!(%error, method, revision = %to, "an answer could not be written");
            RpcError::Internal
        };
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(extract_result(write).map_err(could_not));
            return;
        }
        self.push(Some(id), to, |out| {
            if let Err(refusal) = write(out, id).map_err(could_not) {
                write::error(out, Some(id), to.writes_null_id(), &refusal.to_error_object(to));
            }
        });
    }

    /// Answers with a result that was written before.
    pub(crate) fn send_raw_result(&self, id: &Id<'_>, result: &RawJson, to: Revision) {
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(Ok(result.clone()));
            return;
        }
        self.push(Some(id), to, |out| write::raw_result(out, id, result));
    }

    /// The same with a result that has no newline in it.
    pub(crate) fn send_raw_line(&self, id: &Id<'_>, result: &RawJson, to: Revision) {
        match &self.target {
            // With room for what stands around it.
            ResponseTarget::Single => {
                let bytes = result.text().len() + MESSAGE_OVERHEAD;
                self.outbox.push_line(bytes, |out| write::raw_result(out, id, result));
            }
            _ => self.send_raw_result(id, result, to),
        }
    }

    /// Answers with an error.
    pub(crate) fn send_error(&self, id: Option<&Id<'_>>, refusal: &RpcError, to: Revision) {
        if let ResponseTarget::Captured(outcome) = &self.target {
            *lock(outcome) = Some(Err(refusal.clone()));
            return;
        }
        self.send_error_object(id, &refusal.to_error_object(to), to);
    }

    /// Answers what could not be read, if it wants an answer.
    pub(crate) fn send_parse_error(&self, fault: &ParseError, to: Revision) {
        if let Some((id, error)) = fault.error_response() {
            self.send_error_object(id, &error, to);
        }
    }

    fn send_error_object(&self, id: Option<&Id<'_>>, error: &ErrorObject, to: Revision) {
        if let ResponseTarget::Single = self.target {
            self.outbox.set_error_code(i32::try_from(error.code).unwrap_or(i32::MIN));
        }
        self.push(id, to, |out| write::error(out, id, to.writes_null_id(), error));
    }

    fn push(&self, id: Option<&Id<'_>>, to: Revision, write: impl FnOnce(&mut Vec<u8>)) {
        match &self.target {
            ResponseTarget::Single => self.outbox.push(write),
            // Faults are found before anything stands around a request.
            ResponseTarget::Captured(_) => {}
            ResponseTarget::Batch(batch) => {
                let mut message = Vec::new();
                write(&mut message);
                batch.push(id, to, message);
            }
        }
    }
}

impl BatchWriter {
    fn push(&self, id: Option<&Id<'_>>, to: Revision, mut message: Vec<u8>) {
        let mut answers = lock(&self.responses);
        if answers.1 + message.len() > self.max_bytes {
            let refusal = RpcError::TooLarge("The answers to this batch are too large together".into());
            message.clear();
            write::error(&mut message, id, to.writes_null_id(), &refusal.to_error_object(to));
        }
        answers.1 += message.len();
        answers.0.push(&message);
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        let (answers, _) = self.responses.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(array) = std::mem::take(answers).finish() {
            self.outbox.push(|out| out.extend_from_slice(&array));
        }
    }
}
