//! Calls that ask for a task (2025-11-25): which of them do, and how they are sent.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::tools;
use tsugite_core::protocol::{TaskRequest, TaskSupport};
use tsugite_core::revision::Revision;

use super::Client;
use super::call::decode_result;
use super::client_error::{ClientError, ErrorKind, Result};
use super::options::Options;
use super::task_progress::KeptToken;

impl Client {
    /// Decides whether a call asks for a task: never if the server runs no calls as tasks or the tool forbids it, always if
    /// the tool requires it, and otherwise as the caller wishes. Reads the list of tools unless it is known.
    pub(super) async fn task_request(&self, tool: &str, options: &Options) -> Result<Option<TaskRequest>> {
        let connection = self.connection_with_timeout(options).await?;
        let capabilities = connection.negotiated().and_then(|session| session.capabilities.as_ref());
        let offered = capabilities.and_then(|capabilities| capabilities.tasks.as_ref());
        let is_offered = offered.is_some_and(|tasks| tasks.allows_tool_calls());
        if !connection.revision().has_core_tasks() || !is_offered {
            return Ok(None);
        }
        let support = self.listed_task_support(tool).await;
        let support = support.map_err(|error| error.with_may_have_run(false))?;
        let task = options.task.as_deref();
        let asks = match support {
            TaskSupport::Forbidden => false,
            TaskSupport::Optional => task.is_some_and(|task| task.requested),
            TaskSupport::Required => true,
        };
        let ttl = task.and_then(|task| task.ttl);
        let mut request = TaskRequest::new();
        request.ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        Ok(asks.then_some(request))
    }

    /// Whether a tool can run as a task. Reads the list of tools unless it is known, and again if it changes meanwhile.
    pub(super) async fn listed_task_support(&self, tool: &str) -> Result<TaskSupport> {
        let known = &self.inner.shared.tools;
        for _ in 0..MAX_LISTINGS {
            if let Some(support) = known.task_support(tool) {
                return Ok(support);
            }
            self.refresh_tools().await?;
        }
        Ok(known.last_task_support(tool))
    }

    /// Sends a call that asks for a task.
    pub(super) async fn send_task_request(
        &self,
        params: &tools::CallParams,
        options: &Options,
    ) -> Result<(tools::CallOutput, Arc<KeptToken>)> {
        let token = Arc::new(KeptToken::default());
        let options = Options { task_token: Some(Arc::clone(&token)), ..options.clone() };
        let params = params.clone();
        let send = async move |client: Client, options: Options| {
            client.send_request::<tools::Call>(&params, &options).await
        };
        Ok((self.run_task_request(options, send).await?, token))
    }

    /// Sends a request for a task, and returns its outcome. If the caller stops waiting or the request times out before the id
    /// of the task is known, the task is cancelled when it is: the request itself must not be cancelled.
    pub(super) async fn run_task_request<T, F>(
        &self,
        options: Options,
        send: impl FnOnce(Client, Options) -> F,
    ) -> Result<T>
    where
        T: TaskRequestOutput,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (timeout_sender, mut timed_out) = mpsc::unbounded_channel();
        let options = Options { timeout_sender: Some(timeout_sender), ..options };
        let (mut sender, mut receiver) = oneshot::channel();
        let (client, request) = (self.clone(), Box::pin(send(self.clone(), options)));
        tokio::spawn(async move {
            let mut request = request;
            let outcome = tokio::select! {
                biased;
                outcome = &mut request => outcome,
                () = sender.closed() => match client.wait_for_abandoned(request).await {
                    Some(outcome) => outcome,
                    None => return,
                },
            };
            let untaken = UntakenOutcome { client, runtime: Handle::current(), outcome: Some(outcome) };
            // Without a receiver, the outcome is dropped here.
            let _ = sender.send(untaken);
        });
        // The runtime was shut down.
        let stopped = || ClientError::from(ErrorKind::Closed);
        tokio::select! {
            biased;
            untaken = &mut receiver => untaken.map_err(|_| stopped())?.outcome.take().ok_or_else(stopped)?,
            Some(error) = timed_out.recv() => Err(error),
        }
    }

    /// Waits for the outcome of a request for a task that has no caller any more. `None` if it takes too long, or if there are
    /// too many such requests.
    async fn wait_for_abandoned<T>(&self, request: impl Future<Output = Result<T>>) -> Option<Result<T>> {
        let waited_for = match self.inner.shared.abandoned_requests.try_acquire() {
            Ok(_permit) => tokio::time::timeout(ABANDONED_TIMEOUT, request).await.ok(),
            Err(_) => None,
        };
        if waited_for.is_none() {
            tracing::debug!(
                "a request for a task has no caller and no outcome; if it creates a task, that goes on"
            );
        }
        waited_for
    }
}

/// The output of a request that asks for a task.
pub(super) trait TaskRequestOutput: Send + 'static {
    /// The id of the task that was created.
    fn into_task_id(self) -> Option<String>;
}

impl TaskRequestOutput for tools::CallOutput {
    fn into_task_id(self) -> Option<String> {
        match self {
            tools::CallOutput::Task(created) => Some(created.task.task_id),
            _ => None,
        }
    }
}

/// A forwarded result, in its revision.
impl TaskRequestOutput for (RawJson, Revision) {
    fn into_task_id(self) -> Option<String> {
        decode_result::<tools::Call>(&self.0, self.1).ok()?.into_task_id()
    }
}

/// The outcome of a request for a task, on its way to the caller. If the caller does not take it, dropping it cancels the task.
struct UntakenOutcome<T: TaskRequestOutput> {
    client: Client,
    runtime: Handle,
    outcome: Option<Result<T>>,
}

impl<T: TaskRequestOutput> Drop for UntakenOutcome<T> {
    fn drop(&mut self) {
        let Some(id) = self.outcome.take().and_then(Result::ok).and_then(T::into_task_id) else { return };
        let client = self.client.clone();
        self.runtime.spawn(async move {
            if let Err(error) = client.cancel_task(&id).await {
                tracing::debug!(%error, task = id, "cannot cancel the task of a call that was dropped");
            }
        });
    }
}

/// How often the list of tools is read for one call, while it changes.
pub(super) const MAX_LISTINGS: usize = 3;
/// How long the outcome of a request for a task is waited for after its caller has gone.
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(600);
