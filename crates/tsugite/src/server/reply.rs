//! Where the answer to a request goes: out by itself, or into the array of the batch it came in.

use std::sync::{Arc, Mutex};

use tsugite_core::jsonrpc::{BatchAnswers, ErrorObject, Fault, Id, RawJson, write};
use tsugite_core::protocol::Method;
use tsugite_core::revision::{Refusal, Revision, ServerStamp, Translate, write_result};

use super::Outbox;

/// Where an answer goes.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Out by itself.
    Single(Arc<Outbox>),
    /// Into an array.
    Batch(Arc<BatchReply>),
    /// To whoever stands around the request.
    Captured(Arc<Mutex<Vec<u8>>>),
}

/// The answers to one batch. The array leaves when the last of its requests is answered, cancelled or dropped.
pub(crate) struct BatchReply {
    outbox: Arc<Outbox>,
    answers: Mutex<BatchAnswers>,
}

impl Reply {
    /// For a batch.
    pub(crate) fn batch(outbox: Arc<Outbox>) -> Self {
        Reply::Batch(Arc::new(BatchReply { outbox, answers: Mutex::default() }))
    }

    /// For whoever stands around the request.
    pub(crate) fn capture() -> Self {
        Reply::Captured(Arc::default())
    }

    /// The message that was captured; empty if there was none.
    pub(crate) fn taken(&self) -> Vec<u8> {
        match self {
            Reply::Captured(message) => {
                std::mem::take(&mut *message.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
            }
            _ => Vec::new(),
        }
    }

    /// Answers with a result. One that cannot be written is our mistake and becomes an internal error.
    pub(crate) fn result<M: Method>(&self, id: &Id<'_>, output: M::Output, to: Revision, stamp: &ServerStamp)
    where
        M::Output: Translate,
    {
        self.push(|out| {
            if let Err(error) = write_result::<M>(out, id, output, to, Some(stamp)) {
                tracing::error!(%error, method = M::NAME, revision = %to, "an answer could not be written");
                write::error(out, Some(id), to.writes_null_id(), &Refusal::Internal.error(to));
            }
        });
    }

    /// Answers with a result that was written before.
    pub(crate) fn raw_result(&self, id: &Id<'_>, result: &RawJson) {
        self.push(|out| write::raw_result(out, id, result));
    }

    /// Answers with an error.
    pub(crate) fn refusal(&self, id: Option<&Id<'_>>, refusal: &Refusal, to: Revision) {
        self.error(id, &refusal.error(to), to);
    }

    /// Answers what could not be read, if it wants an answer.
    pub(crate) fn fault(&self, fault: &Fault, to: Revision) {
        if let Some((id, error)) = fault.answer() {
            self.error(id, &error, to);
        }
    }

    fn error(&self, id: Option<&Id<'_>>, error: &ErrorObject, to: Revision) {
        self.push(|out| write::error(out, id, to.writes_null_id(), error));
    }

    fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Reply::Single(outbox) => outbox.push(write),
            Reply::Captured(message) => {
                write(&mut message.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
            }
            Reply::Batch(batch) => {
                let mut message = Vec::new();
                write(&mut message);
                batch.answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(&message);
            }
        }
    }
}

impl Drop for BatchReply {
    fn drop(&mut self) {
        let answers = self.answers.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(array) = std::mem::take(answers).finish() {
            self.outbox.push(|out| out.extend_from_slice(&array));
        }
    }
}
