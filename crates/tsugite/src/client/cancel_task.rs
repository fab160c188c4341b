//! Cancels a task of the server, again after a failure that may pass.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tsugite_core::jsonrpc::code;
use tsugite_core::protocol::tasks::{Cancel, CancelResult};
use tsugite_core::protocol::{TaskParams, TaskStatus};

use super::Client;
use super::call::{Call, CallFuture};
use super::client_error::ErrorKind;
use super::follow_task::read_task;
use super::options::Options;
use super::task_failures::TaskFailures;

impl Client {
    /// Cancels a task. If the server says that it cannot answer now, the request is sent again, up to ten times in all and within
    /// the total timeout.
    pub fn cancel_task(&self, id: impl Into<String>) -> Call<Cancel, CancelResult> {
        Call::new(self, Ok(TaskParams::new(id)), send_until_answered)
    }
}

/// Sends the request until it is answered. One whose connection is lost is not sent again.
fn send_until_answered(client: Client, params: TaskParams, options: Options) -> CallFuture<CancelResult> {
    Box::pin(async move {
        let (start, mut options) = (Instant::now(), options);
        let total = options.timeouts(&client.inner.shared.settings).total_timeout;
        let (mut failures, mut may_have_run) = (TaskFailures::default(), false);
        loop {
            let error = match client.send_request::<Cancel>(&params, &options).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            // 2025-11-25 refuses to cancel a task that is cancelled already.
            if may_have_run && error.code() == Some(code::INVALID_PARAMS) {
                return cancelled_before(&client, &params, &options).await.ok_or(error);
            }
            if !matches!(error.kind(), ErrorKind::ErrorResponse { .. } | ErrorKind::Status { .. }) {
                return Err(error.after_attempts(may_have_run));
            }
            may_have_run |= error.may_have_run();
            let passing = failures.record(error.clone(), FIRST_PAUSE);
            let pause = passing.map_err(|error| error.after_attempts(may_have_run))?;
            if let Some(total) = total {
                let remaining = total.saturating_sub(start.elapsed() + pause);
                if remaining.is_zero() {
                    return Err(error.after_attempts(may_have_run));
                }
                options.total_timeout = Some(remaining);
            }
            sleep(pause).await;
        }
    })
}

/// The result of an earlier attempt whose response was lost; `None` if the task is not cancelled.
async fn cancelled_before(client: &Client, params: &TaskParams, options: &Options) -> Option<CancelResult> {
    let task = read_task(client, params, options).await.ok()?.task;
    let is_cancelled = task.status == TaskStatus::Cancelled;
    let mut result = CancelResult::default();
    result.task = Some(task);
    is_cancelled.then_some(result)
}

/// The pause after the first failure, which doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
