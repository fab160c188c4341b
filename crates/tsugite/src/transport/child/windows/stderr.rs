//! Captures the end of a child's output on stderr.
//!
//! A task reads the pipe all the time, so that a child that logs much never blocks; only the last part is kept.

use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;

use super::super::stderr_tail::Tail;
use crate::lock::lock;

/// The last part of a child's output on stderr. Clones are the same output.
#[derive(Clone)]
pub(super) struct StderrCapture {
    tail: Arc<Mutex<Tail>>,
    /// Disconnected at the end of the output.
    ended: watch::Receiver<()>,
}

impl StderrCapture {
    /// Captures the output of the child with the process id `child` from `pipe`, in a task.
    pub(super) fn start(mut pipe: ChildStderr, child: u32) -> Self {
        let tail = Arc::new(Mutex::new(Tail::new(child)));
        let (sender, ended) = watch::channel(());
        let capture = Self { tail: tail.clone(), ended };
        tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK];
            while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
                lock(&tail).push(chunk.get(..length).unwrap_or_default());
            }
            lock(&tail).end_line();
            drop(sender);
        });
        capture
    }

    /// Waits until all processes that hold the pipe have closed it.
    pub(super) async fn ended(&self) {
        // Nothing is sent: this returns when the other end is dropped.
        let _ = self.ended.clone().changed().await;
    }

    /// Returns the captured part of everything read so far.
    pub(super) fn text(&self) -> String {
        lock(&self.tail).text()
    }
}

const CHUNK: usize = 8 << 10;
