//! Follows a task of the server to its end: polls it, answers its questions, and returns the result of its call.

use std::collections::HashSet;
use std::time::Duration;

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::InputRequests;
use tsugite_core::protocol::tasks::{Get, GetResult, Payload, Update};
use tsugite_core::protocol::tools::{Call, CallOutput, CallResult};
use tsugite_core::protocol::{Method, TaskParams, TaskStatus, UpdateParams};

use super::Client;
use super::client_error::{ClientError, ErrorKind, Result};
use super::options::Options;

impl Client {
    /// Follows a task to its end and returns the result of its call, also in another process than the one that made the
    /// call: its id is all that is needed.
    ///
    /// Polls at the interval that the server sets, and answers the questions of the task with the client's handlers. There
    /// is no time limit; dropping the future leaves the task running, and [`Client::cancel_task`] cancels it. Fails with
    /// [`ErrorKind::ErrorResponse`] if the task failed, with [`ErrorKind::InputRequired`] if it was cancelled or asks what
    /// the client cannot answer, and with the error of the request if the server does not know the task any more.
    pub async fn follow_task(&self, id: impl Into<String>) -> Result<CallResult> {
        let (params, options) = (TaskParams::new(id), Options::default());
        let mut answered = HashSet::new();
        loop {
            let details = self.send_request::<Get>(&params, &options).await?;
            let core_tasks = self.revision().has_core_tasks();
            match details.task.status {
                TaskStatus::Cancelled => {
                    let text = format!("the task {} was cancelled", params.task_id);
                    return Err(ErrorKind::InputRequired(text).into());
                }
                // Up to 2025-11-25 this request waits for the end, and the server puts its questions meanwhile.
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired if core_tasks => {
                    return self.wait_for_result(&params).await;
                }
                TaskStatus::Completed | TaskStatus::Failed => return self.read_task_outcome(details),
                TaskStatus::InputRequired => self.answer_task(&params, details, &mut answered).await?,
                TaskStatus::Working => self.wait_for_poll(&details).await,
            }
        }
    }

    /// Answers the questions that were not answered before. The server may still show those that were.
    async fn answer_task(
        &self,
        params: &TaskParams,
        details: GetResult,
        answered: &mut HashSet<String>,
    ) -> Result<()> {
        let interval = poll_interval(&details);
        let questions = details.input_requests.unwrap_or_default();
        let new: InputRequests = questions.into_iter().filter(|(key, _)| !answered.contains(key)).collect();
        if new.is_empty() {
            tokio::time::sleep(interval).await;
            return Ok(());
        }
        answered.extend(new.iter().map(|(key, _)| key.to_owned()));
        let responses = Box::pin(self.handle_input_requests(new)).await?;
        let update = UpdateParams::new(params.task_id.clone(), responses);
        self.send_request::<Update>(&update, &Options::default()).await.map(drop)
    }

    async fn wait_for_poll(&self, details: &GetResult) {
        tokio::time::sleep(poll_interval(details)).await;
    }

    fn read_task_outcome(&self, details: GetResult) -> Result<CallResult> {
        if let Some(error) = details.error {
            return Err(ClientError::from_error_response(error, Call::NAME, self.revision()));
        }
        let result = details.result.unwrap_or_else(RawJson::empty_object);
        match self.decode_result::<Call>(&result, self.revision())? {
            CallOutput::Complete(result) => Ok(result),
            _ => Err(ErrorKind::Protocol("the result of a task is not complete".to_owned()).into()),
        }
    }

    async fn wait_for_result(&self, params: &TaskParams) -> Result<CallResult> {
        let options = Options {
            idle_timeout: Some(RESULT_TIMEOUT),
            total_timeout: Some(RESULT_TIMEOUT),
            ..Options::default()
        };
        let payload = self.send_request::<Payload>(params, &options).await?;
        let malformed = |error| ClientError::malformed_result(Payload::NAME, error);
        let payload = RawJson::from_value(&payload).map_err(malformed)?;
        match self.decode_result::<Call>(&payload, self.revision())? {
            CallOutput::Complete(result) => Ok(result),
            _ => Err(ErrorKind::Protocol("the result of a task is not complete".to_owned()).into()),
        }
    }
}

fn poll_interval(details: &GetResult) -> Duration {
    let interval = details.task.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
    interval.clamp(MIN_INTERVAL, MAX_INTERVAL)
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A server cannot make the client poll all the time, or forget the task.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(300);
/// Longer than any task is kept.
const RESULT_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
