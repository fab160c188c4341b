//! The options of a call that is or becomes a task.

use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::tasks::Task;
use tsugite_core::protocol::tools;

use super::call::Call;
use super::options::Options;
use super::task_options::TaskOptions;

impl Options {
    /// The options for the task, to be changed.
    fn task_mut(&mut self) -> &mut TaskOptions {
        self.task.get_or_insert_default()
    }
}

/// Options for a call that becomes a task, which needs [`ClientBuilder::tasks`](super::ClientBuilder::tasks).
impl<T> Call<tools::Call, T> {
    /// Asks for a task, where the client decides: on 2025-11-25, for a tool that allows both. On 2026-07-28 the server decides
    /// alone. Without it such a tool is called without a task; a tool that requires one always gets it.
    #[doc(alias("background", "task augmentation"))]
    pub fn as_task(mut self) -> Self {
        self.options.task_mut().requested = true;
        self
    }

    /// Sets how long the server is asked to keep the task after its creation, where the client decides (2025-11-25). The
    /// server may choose another time.
    #[doc(alias = "ttl")]
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.options.task_mut().ttl = Some(ttl);
        self
    }

    /// Sets how long to follow the task; by default without a limit. The other timeouts of the call end when it becomes a
    /// task. After the limit the task goes on at the server: [`ClientError::task_id`](super::ClientError::task_id) returns its
    /// id for [`Client::follow_task`](super::Client::follow_task) and [`Client::cancel_task`](super::Client::cancel_task).
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.options.task_mut().timeout = Some(limit);
        self
    }

    /// Sets a callback that receives the task as soon as the call has become one, and again when its status or the message of
    /// its status changes. An application that stores the id can take the task up again after a restart, with
    /// [`Client::follow_task`](super::Client::follow_task).
    ///
    /// ```
    /// use serde_json::json;
    /// use tsugite::client::Client;
    /// use tsugite::prelude::*;
    ///
    /// /// Takes long.
    /// #[tool(task = "required")]
    /// async fn convert(cx: Context) -> &'static str {
    ///     cx.status("converting").await;
    ///     "converted"
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// # let server = Server::new("films", "1.0.0").tool(convert);
    /// let client = Client::in_process(&server).tasks().await?;
    /// let text: String = client
    ///     .call("convert", json!({}))
    ///     .on_task(|task| println!("{} is {}", task.task_id, task.status.as_str()))
    ///     .await?;
    /// # assert_eq!(text, "converted"); Ok(()) }
    /// ```
    #[doc(alias("taskId", "task_id", "status"))]
    pub fn on_task(mut self, callback: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.options.task_mut().on_task = Some(Arc::new(callback));
        self
    }
}
