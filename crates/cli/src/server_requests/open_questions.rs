//! Questions of a task that nothing here can answer: they stay open at the server, for another command.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// A question that stays open.
#[derive(Clone)]
pub(crate) struct OpenQuestion {
    /// The text of the question.
    pub(crate) text: String,
    /// The options that would answer it.
    pub(crate) options: Option<String>,
}

impl OpenQuestion {
    pub(super) fn new(text: &str, options: Option<String>) -> Self {
        Self { text: format!("the server asks: {text}"), options }
    }
}

/// Whether questions stay open, and the first that did.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    are_left: AtomicBool,
    first: watch::Sender<Option<OpenQuestion>>,
}

/// Leaves questions open until it is dropped.
pub(crate) struct LeavingOpen<'a>(&'a OpenQuestions);

impl OpenQuestions {
    /// Leaves questions open from now on, in place of declining them.
    pub(crate) fn leave_open(&self) -> LeavingOpen<'_> {
        self.first.send_replace(None);
        self.are_left.store(true, Ordering::Release);
        LeavingOpen(self)
    }

    /// Leaves a question open. Returns false if it is to be declined.
    pub(super) fn leave(&self, question: impl FnOnce() -> OpenQuestion) -> bool {
        let is_left = self.are_left.load(Ordering::Acquire);
        if is_left {
            self.first.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert_with(question);
                is_first
            });
        }
        is_left
    }
}

impl LeavingOpen<'_> {
    /// Waits for a question that stays open.
    pub(crate) async fn first(&self) -> OpenQuestion {
        let mut first = self.0.first.subscribe();
        match first.wait_for(Option::is_some).await.map(|question| question.clone()) {
            Ok(Some(question)) => question,
            // The sender lives as long as `self`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for LeavingOpen<'_> {
    fn drop(&mut self) {
        self.0.are_left.store(false, Ordering::Release);
    }
}
