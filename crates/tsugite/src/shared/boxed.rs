//! Boxes a task, so that the code which runs it is compiled once for all tasks.

use std::pin::Pin;

/// Boxes a task. `tokio::spawn` compiles some 30 functions for each type of task, and this type is always the same.
pub(crate) fn boxed<T>(
    task: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(task)
}
