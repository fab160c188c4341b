//! Calls that ask for a task (2025-11-25): which of them do, and how they are sent.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tsugite_core::protocol::tools;
use tsugite_core::protocol::{TaskRequest, TaskSupport};

use super::Client;
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

    /// Sends a call that asks for a task. If the caller stops waiting before it has the id of the task, the task is
    /// cancelled when the id is known: the request itself must not be cancelled.
    pub(super) async fn send_task_request(
        &self,
        params: &tools::CallParams,
        options: &Options,
    ) -> Result<(tools::CallOutput, Arc<KeptToken>)> {
        let token = Arc::new(KeptToken::default());
        let options = Options { task_token: Some(Arc::clone(&token)), ..options.clone() };
        let (client, params) = (self.clone(), params.clone());
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let outcome = client.send_request::<tools::Call>(&params, &options).await;
            let untaken = UntakenOutcome { client, runtime: Handle::current(), outcome: Some(outcome) };
            // Without a receiver, the outcome is dropped here.
            let _ = sender.send(untaken);
        });
        // The runtime was shut down.
        let stopped = || ClientError::from(ErrorKind::Closed);
        let mut untaken = receiver.await.map_err(|_| stopped())?;
        let output = untaken.outcome.take().ok_or_else(stopped)??;
        Ok((output, token))
    }
}

/// The outcome of a request for a task, on its way to the caller. If the caller does not take it, dropping it cancels the task.
struct UntakenOutcome {
    client: Client,
    runtime: Handle,
    outcome: Option<Result<tools::CallOutput>>,
}

impl Drop for UntakenOutcome {
    fn drop(&mut self) {
        let Some(Ok(tools::CallOutput::Task(created))) = self.outcome.take() else { return };
        let (client, id) = (self.client.clone(), created.task.task_id);
        self.runtime.spawn(async move {
            if let Err(error) = client.cancel_task(&id).await {
                tracing::debug!(%error, task = id, "cannot cancel the task of a call that was dropped");
            }
        });
    }
}

/// How often the list of tools is read for one call, while it changes.
const MAX_LISTINGS: usize = 3;
