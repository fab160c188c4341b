//! The task of a call, as its handler sees it.

use super::ask_error::AskError;
use super::context::Context;
use super::handler_error::HandlerError;

impl Context {
    /// Turns the call into a task from here on: the client gets the id of the task at once, and fetches the result later.
    ///
    /// Questions before this are answered as those of any call, questions after it through the task. If the client does not
    /// support tasks, or did not ask for one (2025-11-25), the call goes on as it is; [`Context::task_id`] tells. The same
    /// happens if the server has as many tasks as it may, or its store fails. Fails if the tool does not allow tasks, see
    /// [`Tool::task`](super::Tool::task), or if the call has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tsugite::prelude::*;
    ///
    /// #[derive(Form)]
    /// struct Confirmation {
    ///     /// Start now?
    ///     start: bool,
    /// }
    ///
    /// /// Converts all films.
    /// #[tool(task = "optional")]
    /// async fn convert(cx: Context) -> Result<&'static str, HandlerError> {
    ///     let Confirmation { start } = cx.ask("This takes an hour. Start?").await?;
    ///     if !start {
    ///         return Ok("not started");
    ///     }
    ///     cx.start_task().await?;
    ///     cx.status("converting").await;
    ///     tokio::time::sleep(Duration::from_secs(3600)).await;
    ///     Ok("converted")
    /// }
    /// # let _ = convert;
    /// ```
    #[doc(alias("task", "background", "CreateTaskResult"))]
    pub async fn start_task(&self) -> Result<(), HandlerError> {
        let call = self.call_state();
        if !call.allows_tasks() {
            return Err(HandlerError::hidden(FORBIDDEN));
        }
        if call.task.open_offer().is_some() {
            call.task.want();
            call.driver().wake();
            call.task.wait_until_decided().await;
        }
        match call.has_ended() {
            true => Err(AskError::Closed.into()),
            false => Ok(()),
        }
    }

    /// The id of the task that the call is; `None` if it is an ordinary call.
    #[doc(alias = "taskId")]
    pub fn task_id(&self) -> Option<&str> {
        self.call_state().task.running().map(|task| task.id())
    }

    /// Sets the text that describes the status of the task, for people. Returns when it is stored. Does nothing in an
    /// ordinary call; see [`Context::progress`] for one that both have.
    #[doc(alias = "statusMessage")]
    pub async fn status(&self, text: impl Into<String>) {
        self.call_state().mark_progress();
        if let Some(task) = self.call_state().task.running() {
            task.set_message(text.into()).await;
        }
    }
}

const FORBIDDEN: &str =
    "`start_task` was awaited in a tool that does not allow tasks; set `task = \"optional\"`";
