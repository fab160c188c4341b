//! Progress of calls that have become tasks: on 2025-11-25 the token of a call stays valid until its task has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::progress::ProgressParams;

use super::client_handler;
use super::pending_calls::ProgressCallback;
use crate::lock::lock;

/// The tokens of the tasks of one connection.
#[derive(Default)]
pub(super) struct TaskTokens {
    tokens: Mutex<HashMap<i64, TaskProgress>>,
}

struct TaskProgress {
    callback: ProgressCallback,
    /// The progress that was reported last.
    last: Option<f64>,
}

impl TaskTokens {
    /// Reports progress of a task, if it is more than before.
    pub(super) fn handle_progress(&self, progress: ProgressParams) {
        let callback = {
            let mut tokens = lock(&self.tokens);
            let task = progress.progress_token.as_i64().and_then(|token| tokens.get_mut(&token));
            let Some(task) = task.filter(|task| task.last.is_none_or(|last| progress.progress > last)) else {
                return;
            };
            task.last = Some(progress.progress);
            Arc::clone(&task.callback)
        };
        client_handler::invoke_callback(&*callback, progress);
    }
}

/// Keeps the token of one call until it is dropped.
#[derive(Default)]
pub(super) struct KeptToken(Mutex<Option<(Weak<TaskTokens>, i64)>>);

impl KeptToken {
    /// Keeps the token of an attempt of the call, in place of the one before.
    pub(super) fn keep(&self, tokens: &Arc<TaskTokens>, token: &Id<'_>, callback: Option<&ProgressCallback>) {
        self.forget();
        let (Some(token), Some(callback)) = (token.as_i64(), callback) else { return };
        let progress = TaskProgress { callback: Arc::clone(callback), last: None };
        lock(&tokens.tokens).insert(token, progress);
        *lock(&self.0) = Some((Arc::downgrade(tokens), token));
    }

    fn forget(&self) {
        let kept = lock(&self.0).take();
        if let Some((tokens, token)) = kept
            && let Some(tokens) = tokens.upgrade()
        {
            lock(&tokens.tokens).remove(&token);
        }
    }
}

impl Drop for KeptToken {
    fn drop(&mut self) {
        self.forget();
    }
}
