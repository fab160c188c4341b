//! Follows a task of the server to its end: waits for it, answers its questions, and returns the result of its call.
//!
//! The client polls at the interval of the server, and a notification about the task shortens the wait. Nothing depends on
//! notifications: they may be lost, and they may be wrong.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::mrtr::{InputRequest, InputRequests, InputResponses};
use tsugite_core::protocol::tasks::{Get, GetResult, Payload, PayloadResult, Task, Update};
use tsugite_core::protocol::tools::{Call, CallOutput, CallResult};
use tsugite_core::protocol::{Method, TaskParams, TaskStatus, UpdateParams};

use super::Client;
use super::answered_keys::{AnsweredKeys, MAX_QUESTIONS};
use super::client_error::{ClientError, ErrorKind, MAX_SHOWN_ID_CHARS, Result, TimeoutKind, truncate};
use super::client_handler;
use super::era::TaskListener;
use super::options::Options;
use super::poll_pace::PollPace;
use super::task_failures::TaskFailures;
use super::task_options::TaskOptions;
use super::task_watch::TaskWatch;

/// A task to be followed. Set its options, then await it; nothing is sent before. Dropping the future leaves the task running.
#[must_use = "the task is followed only when this is awaited"]
pub struct FollowTask {
    client: Client,
    id: String,
    options: TaskOptions,
}

impl Client {
    /// Follows a task to its end and returns the result of its call, also in another process than the one that made the
    /// call: its id is all that is needed.
    ///
    /// Polls at the interval that the server sets, and sooner when the server reports a change. Answers the questions of the
    /// task with the client's handlers. A poll or an answer that times out, finds no connection, gets the status 429, 502,
    /// 503 or 504, from the server or from behind a bridge, or is refused with -32803 or `retryAfterMs`, is sent again; the
    /// tenth such failure in a row ends the following.
    /// There is no time limit, unless [`FollowTask::timeout`] sets one; dropping the future leaves the task running, and
    /// [`Client::cancel_task`] cancels it. Fails with [`ErrorKind::ErrorResponse`] if the task
    /// failed, with [`ErrorKind::TaskCancelled`] if it was cancelled, and with the error of the request if the server does not
    /// know the task any more.
    pub fn follow_task(&self, id: impl Into<String>) -> FollowTask {
        FollowTask { client: self.clone(), id: id.into(), options: TaskOptions::default() }
    }

    /// Follows a task. `created` is the task as the server announced it, if that is known.
    pub(super) async fn follow(
        &self,
        id: String,
        created: Option<&Task>,
        options: &TaskOptions,
    ) -> Result<CallResult> {
        let client = self;
        let watch = client.inner.shared.task_watches.watch(&id);
        let mut follower = Follower {
            client,
            params: TaskParams::new(id.clone()),
            options,
            watch,
            listener: None,
            pace: PollPace::new(),
            failed_polls: TaskFailures::default(),
            failed_results: TaskFailures::default(),
            failed_answers: TaskFailures::default(),
            has_ended: false,
            reported: None,
            answered: AnsweredKeys::default(),
            unsent: InputResponses::new(),
        };
        let followed = async {
            created.into_iter().for_each(|task| follower.report(task));
            follower.run().await
        };
        let outcome =
            match options.timeout {
                None => followed.await,
                Some(limit) => {
                    client.inner.shared.clock.timeout(limit, followed).await.unwrap_or_else(|_| {
                        Err(ErrorKind::TimedOut { limit, kind: TimeoutKind::Task }.into())
                    })
                }
            };
        outcome.map_err(|error| error.with_task(id, follower.has_ended))
    }
}

impl FollowTask {
    /// Sets how long to follow the task; by default without a limit. The task goes on at the server.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Sets a callback that receives the task at first, and when its status or the message of its status changes.
    pub fn on_task(mut self, callback: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.options.on_task = Some(Arc::new(callback));
        self
    }
}

impl IntoFuture for FollowTask {
    type Output = Result<CallResult>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<CallResult>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.follow(self.id, None, &self.options).await })
    }
}

/// A task that is followed.
struct Follower<'a> {
    client: &'a Client,
    params: TaskParams,
    options: &'a TaskOptions,
    watch: Arc<TaskWatch>,
    /// Makes the server report changes of the task, from the first wait on.
    listener: Option<TaskListener>,
    pace: PollPace,
    failed_polls: TaskFailures,
    /// Requests for the result of a task that has ended.
    failed_results: TaskFailures,
    failed_answers: TaskFailures,
    /// Whether a poll has shown that the task has ended.
    has_ended: bool,
    /// The status and the message that the callback has received last.
    reported: Option<(TaskStatus, Option<String>)>,
    answered: AnsweredKeys,
    /// Answers that the server has not acknowledged.
    unsent: InputResponses,
}

impl Follower<'_> {
    async fn run(&mut self) -> Result<CallResult> {
        let mut newest = None;
        loop {
            let details = match newest.take() {
                Some(details) => details,
                None => self.poll().await?,
            };
            let interval = self.pace.record_interval(&details.task);
            self.record_poll(&details.task);
            let core_tasks = self.client.revision().has_core_tasks();
            match details.task.status {
                TaskStatus::Cancelled => return Err(ErrorKind::TaskCancelled.into()),
                // Up to 2025-11-25 this request waits for the end, and the server puts its questions meanwhile.
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired if core_tasks => {
                    if let Some(result) = self.wait_for_result(&details.task).await? {
                        return Ok(result);
                    }
                }
                TaskStatus::Completed | TaskStatus::Failed => return self.read_outcome(details),
                TaskStatus::InputRequired => match self.answer(details).await? {
                    Answered::Nothing => self.wait(interval).await,
                    Answered::Sent => {}
                    Answered::Closed(details) => newest = Some(*details),
                },
                TaskStatus::Working => self.wait(interval).await,
            }
        }
    }

    /// Polls the task, and again after failures that may pass.
    async fn poll(&mut self) -> Result<GetResult> {
        loop {
            self.pace.record_poll(Instant::now());
            match read_task(self.client, &self.params, &Options::default()).await {
                Ok(details) => {
                    self.failed_polls.reset();
                    return Ok(details);
                }
                Err(error) => sleep(self.failed_polls.record(error, self.pace.last_interval())?).await,
            }
        }
    }

    /// Waits until the task is to be polled again: for the interval, or less if the server reports a change.
    async fn wait(&mut self, interval: Duration) {
        if self.listener.is_none()
            && let Some(connection) = self.client.last_connection()
        {
            self.listener = Some(connection.era().listen_for_task(self.client, &self.params.task_id));
        }
        let deadline = Instant::now() + interval;
        loop {
            let changed = tokio::select! {
                biased;
                () = sleep_until(deadline) => return,
                task = self.watch.changed() => task,
            };
            self.report(&changed);
            if changed.status != TaskStatus::Working {
                return sleep_until(self.pace.early_poll(interval).min(deadline)).await;
            }
            sleep_until((Instant::now() + REPORT_INTERVAL).min(deadline)).await;
        }
    }

    /// Records the state of the task as a poll has found it.
    fn record_poll(&mut self, task: &Task) {
        self.has_ended |= match task.status {
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => true,
            TaskStatus::Working | TaskStatus::InputRequired => false,
        };
        self.report(task);
    }

    /// Gives the task to the callback, if it has changed since the last time.
    fn report(&mut self, task: &Task) {
        let state = (task.status, task.status_message.clone());
        if let Some(callback) = &self.options.on_task
            && self.reported.as_ref() != Some(&state)
        {
            self.reported = Some(state);
            client_handler::invoke_callback(&**callback, task.clone());
        }
    }

    /// Answers the questions that were not answered before, which the server may still show. Answers that failed on their way
    /// are sent again while their questions are open: the server ignores an answer that it has.
    async fn answer(&mut self, details: GetResult) -> Result<Answered> {
        let questions = details.input_requests.unwrap_or_default();
        let unsent = std::mem::take(&mut self.unsent);
        self.unsent = unsent.into_iter().filter(|(key, _)| questions.get(key).is_some()).collect();
        // One after another, because a user reads one at a time.
        for (key, question) in questions {
            if self.answered.contains(&key) {
                continue;
            }
            if !self.answered.insert(&key) {
                let text = format!("the task asked more than {MAX_QUESTIONS} questions");
                return Err(ErrorKind::InputRequired(text).into());
            }
            match self.handle_question(key, question).await? {
                Handled::Answered(answers) => {
                    answers.into_iter().for_each(|(key, answer)| drop(self.unsent.insert(key, answer)));
                }
                Handled::Closed(details) => return Ok(Answered::Closed(details)),
            }
        }
        if self.unsent.is_empty() {
            return Ok(Answered::Nothing);
        }
        self.pace.record_news();
        let update = UpdateParams::new(self.params.task_id.clone(), self.unsent.clone());
        match self.client.send_request::<Update>(&update, &Options::default()).await {
            Ok(_) => {
                self.failed_answers.reset();
                self.unsent = InputResponses::new();
            }
            Err(error) => sleep(self.failed_answers.record(error, self.pace.last_interval())?).await,
        }
        Ok(Answered::Sent)
    }

    /// Has the client's handlers answer a question. The task is polled meanwhile: if another client has answered the question,
    /// or the task has ended, the handler is dropped.
    async fn handle_question(&mut self, key: String, question: InputRequest) -> Result<Handled> {
        let client = self.client;
        let questions = InputRequests::from_iter([(key.clone(), question)]);
        let mut answers = Box::pin(client.handle_input_requests(questions));
        // Most handlers answer at once.
        if let Ok(answers) = timeout(QUICK_ANSWER, &mut answers).await {
            return answers.map(Handled::Answered);
        }
        loop {
            let polled = async {
                self.wait(self.pace.last_interval()).await;
                self.poll().await
            };
            let details = tokio::select! {
                biased;
                answers = &mut answers => return answers.map(Handled::Answered),
                details = polled => details?,
            };
            self.pace.record_interval(&details.task);
            self.record_poll(&details.task);
            let is_asked = details.input_requests.as_ref().is_some_and(|open| open.get(&key).is_some());
            if !is_asked || details.task.status != TaskStatus::InputRequired {
                self.pace.record_news();
                return Ok(Handled::Closed(Box::new(details)));
            }
        }
    }

    fn read_outcome(&self, details: GetResult) -> Result<CallResult> {
        if let Some(error) = details.error {
            return Err(ClientError::from_error_response(error, Call::NAME, self.client.revision()));
        }
        if let (TaskStatus::Failed, None) = (details.task.status, &details.result) {
            let text = match &details.task.status_message {
                Some(message) => format!("the task failed: {}", truncate(message, MAX_SHOWN_MESSAGE_CHARS)),
                None => "the task failed, and the server does not say why".to_owned(),
            };
            // The server has responded to the call.
            return Err(ClientError::from(ErrorKind::Protocol(text)).with_may_have_run(false));
        }
        self.decode(&details.result.unwrap_or_else(RawJson::empty_object))
    }

    /// Waits for the result of a task of 2025-11-25. The request may be lost on its way without an error, so the task is
    /// polled meanwhile unless it has ended. Returns `None` if the request must be sent again after a poll.
    async fn wait_for_result(&mut self, task: &Task) -> Result<Option<CallResult>> {
        let has_ended = task.status != TaskStatus::InputRequired;
        let timeout = (!has_ended).then_some(RESULT_TIMEOUT);
        let options = Options { idle_timeout: timeout, total_timeout: timeout, ..Options::default() };
        let (client, params, watch) = (self.client, self.params.clone(), Arc::clone(&self.watch));
        let interval = self.pace.last_interval();
        let mut result = pin!(client.send_request::<Payload>(&params, &options));
        let mut poll = pin!(poll_after(client, &params, interval));
        let mut next_report = Instant::now();
        let mut seen_end = false;
        let payload: Result<PayloadResult> = loop {
            let changed = async {
                sleep_until(next_report).await;
                watch.changed().await
            };
            tokio::select! {
                biased;
                payload = &mut result => break payload,
                polled = &mut poll, if !has_ended => {
                    let pause = match polled {
                        Ok(details) => {
                            self.failed_polls.reset();
                            self.record_poll(&details.task);
                            match details.task.status {
                                TaskStatus::Cancelled => return Err(ErrorKind::TaskCancelled.into()),
                                // The result has had the time of one interval to arrive.
                                TaskStatus::Completed | TaskStatus::Failed if seen_end => return Ok(None),
                                TaskStatus::Completed | TaskStatus::Failed => seen_end = true,
                                TaskStatus::Working | TaskStatus::InputRequired => {}
                            }
                            interval
                        }
                        Err(error) => self.failed_polls.record(error, interval)?,
                    };
                    poll.set(poll_after(client, &params, pause));
                }
                task = changed => {
                    self.report(&task);
                    next_report = Instant::now() + REPORT_INTERVAL;
                }
            }
        };
        let error = match payload {
            Ok(payload) => {
                let malformed = |error| ClientError::malformed_result(Payload::NAME, error);
                return self.decode(&RawJson::from_value(&payload).map_err(malformed)?).map(Some);
            }
            Err(error) => error,
        };
        if error.as_rpc_error().is_some() && self.is_cancelled().await {
            return Err(ErrorKind::TaskCancelled.into());
        }
        if !has_ended {
            // A proxy may end each request long before a person has answered.
            self.failed_results.reset();
        }
        // The outcome of a failed task is an error, which may look like one that passes.
        if task.status == TaskStatus::Failed
            && error.as_rpc_error().is_some()
            && self.failed_results.in_a_row() >= MAX_REPEATS_OF_OUTCOME
        {
            return Err(error);
        }
        sleep(self.failed_results.record(error, interval)?).await;
        Ok(None)
    }

    /// Whether the task was cancelled while its result was waited for: the error of that request does not say it.
    async fn is_cancelled(&mut self) -> bool {
        let details = read_task(self.client, &self.params, &Options::default()).await;
        details.is_ok_and(|details| {
            self.record_poll(&details.task);
            details.task.status == TaskStatus::Cancelled
        })
    }

    fn decode(&self, result: &RawJson) -> Result<CallResult> {
        match self.client.decode_result::<Call>(result, self.client.revision())? {
            CallOutput::Complete(result) => Ok(result),
            _ => Err(ErrorKind::Protocol("the result of a task is not complete".to_owned()).into()),
        }
    }
}

/// The outcome of answering the questions of a task.
enum Answered {
    /// All of them were answered before.
    Nothing,
    /// The answers were sent, or are sent again after a poll.
    Sent,
    /// One was closed while it was put to the user; the task as it was found then.
    Closed(Box<GetResult>),
}

/// The outcome of one question.
enum Handled {
    Answered(InputResponses),
    /// The task does not ask it any more.
    Closed(Box<GetResult>),
}

/// Polls a task after a pause.
async fn poll_after(client: &Client, params: &TaskParams, pause: Duration) -> Result<GetResult> {
    sleep(pause).await;
    read_task(client, params, &Options::default()).await
}

/// Reads the state of a task. Fails if the server returns another task.
pub(super) async fn read_task(client: &Client, params: &TaskParams, options: &Options) -> Result<GetResult> {
    let details = client.send_request::<Get>(params, options).await?;
    if details.task.task_id != params.task_id {
        let id = truncate(&params.task_id, MAX_SHOWN_ID_CHARS);
        let text = format!("the server answered `{}` for the task {id} with another task", Get::NAME);
        return Err(ErrorKind::Protocol(text).into());
    }
    Ok(details)
}

/// How often the outcome of a failed task is requested again.
const MAX_REPEATS_OF_OUTCOME: u32 = 2;
/// Characters of the message of a status in an error.
const MAX_SHOWN_MESSAGE_CHARS: usize = 500;
/// How often at most the callback receives what the server reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);
/// How long a handler has before the task is polled while it runs.
const QUICK_ANSWER: Duration = Duration::from_millis(50);
/// Longer than any task is kept.
const RESULT_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
