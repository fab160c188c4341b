//! Questions of a handler to the client: to its user, to its model, and for its roots.
//!
//! A handler writes `cx.ask(…).await` in both eras. Up to 2025-11-25 a request is sent and its response awaited
//! (`server/outgoing_requests.rs`). On 2026-07-28 the question is recorded (`server/round`), the handler is dropped when only questions keep
//! it pending (`driver`), and the answers so far are sealed and sent to the client, which returns them with its next request
//! (`request_state`).

mod driver;
mod form;
pub mod form_settings;
mod kept_driver;
mod request_state;
mod single_use;
mod url_elicitation;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tsugite_core::jsonrpc::{JsonError, RawJson};
use tsugite_core::protocol::capabilities::{ElicitationCapability, RootsCapability, SamplingCapability};
use tsugite_core::protocol::elicitation::{Create, ElicitAction, ElicitParams, ElicitResult, FormParams};
use tsugite_core::protocol::form::FormSchema;
use tsugite_core::protocol::mrtr::InputRequest;
use tsugite_core::protocol::roots::{self, Root};
use tsugite_core::protocol::sampling::{
    CreateMessage, CreateMessageParams, CreateMessageResult, IncludeContext,
};
use tsugite_core::protocol::tasks::MaybeTask;
use tsugite_core::protocol::{ClientCapabilities, EmptyParams, Method, Object, OrderedMap};
use tsugite_core::revision::{InferResultType, Revision, Translate};

pub(crate) use driver::{BoxedHandler, DriveOutcome, HandlerDriver};
pub use form::{Form, FormChoice, FormField, choice, read_choice};
pub(crate) use kept_driver::KeptQuestions;
pub(crate) use request_state::{StateBinding, build_input_required, resume_round, seal_state, unseal_state};
pub use url_elicitation::UrlElicitation;

use super::ask_error::AskError;
use super::call_state::CallState;
use super::context::Context;
use super::handler_error::HandlerError;
use super::round::{OnceFuture, OnceLookup, QuestionKey, is_in_once, request_answer};
use super::task_state::OnceStart;
use crate::era::Era;

impl Context {
    /// Asks the user to fill in a form.
    ///
    /// Fails with [`AskError::Unavailable`] if the client does not support forms, with [`AskError::Declined`] if the user
    /// declines, and with [`AskError::Cancelled`] if the user dismisses the form. On 2026-07-28 the handler runs again from
    /// the start when the answer arrives: put side effects into [`Context::once`].
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// #[derive(Form)]
    /// struct Name {
    ///     /// What shall I call you?
    ///     name: String,
    /// }
    ///
    /// async fn greet(cx: Context) -> Result<String, HandlerError> {
    ///     let Name { name } = cx.ask("Who are you?").await?;
    ///     Ok(format!("Hello, {name}!"))
    /// }
    /// # let _ = greet;
    /// ```
    #[doc(alias("elicit", "elicitation", "elicitation/create", "elicitInput", "create_elicitation"))]
    pub fn ask<F: Form>(&self, message: impl Into<String>) -> Ask<F> {
        self.ask_form(F::schema(), message).and_then(read_form::<F>)
    }

    /// Asks the user to fill in a form that is defined at run time.
    #[doc(alias("elicit", "elicitation"))]
    pub fn ask_form(&self, form: FormSchema, message: impl Into<String>) -> Ask<OrderedMap<FieldValue>> {
        let params = FormParams::new(message, form);
        Ask::new(self, InputRequest::Elicit(ElicitParams::Form(params)), read_content)
    }

    /// Asks the client's model.
    ///
    /// Fails with [`AskError::Unavailable`] if the client does not support sampling, or not with tools.
    #[doc(alias("sampling", "create_message", "createMessage", "sampling/createMessage"))]
    pub fn sample(&self, params: CreateMessageParams) -> Ask<CreateMessageResult> {
        Ask::new(self, InputRequest::Sample(params), |raw, question| {
            require_complete(decode_answer::<CreateMessage>(raw, question.revision)?)
        })
    }

    /// Asks the client for its roots: the directories the server may work in.
    #[doc(alias("list_roots", "roots/list", "listRoots"))]
    pub fn roots(&self) -> Ask<Vec<Root>> {
        Ask::new(self, InputRequest::Roots(EmptyParams::new()), read_roots)
    }

    /// Runs `work` once for all rounds of this call: on 2026-07-28 later rounds get the result of the first one.
    ///
    /// Only a success is stored. It is part of the sealed state that the client returns, so it should be small. If the client
    /// continues from the same state twice, `work` may run twice. It is an error to use a key twice in one round, or to ask
    /// a question inside `work`.
    ///
    /// In a task the store holds that the work begins, and its value when it is done. If the process ends in between, the
    /// work may have run: a process that runs the handler again then fails the task and says so, unless the step is
    /// [`once_repeatable`](Context::once_repeatable).
    pub async fn once<T, E>(
        &self,
        key: impl Into<String>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        self.run_once(key.into(), false, work).await
    }

    /// Like [`Context::once`], for work that does no harm if it runs a second time: in a task whose process ended in the
    /// middle of it, it runs again.
    pub async fn once_repeatable<T, E>(
        &self,
        key: impl Into<String>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        self.run_once(key.into(), true, work).await
    }

    async fn run_once<T, E>(
        &self,
        key: String,
        is_repeatable: bool,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        let round = self.call_state().round();
        let (_wake, guard) = match round.once(&key)? {
            OnceLookup::Stored(json) => {
                return json.read().map_err(|error| {
                    AskError::misused(format!(
                        "the stored result of `once({key:?})` cannot be deserialized: {error}"
                    ))
                    .into()
                });
            }
            // The wake is dropped after the guard: the driver may be waiting only for the end of `work`, which a
            // spawned task may run.
            OnceLookup::Run(guard) => (WakeOnDrop(self.call_state()), guard),
        };
        let call = self.call_state();
        if let Some(task) = call.task.running() {
            match task.begin_once(&key, is_repeatable).await {
                Ok(OnceStart::Run) => {}
                Ok(OnceStart::MayHaveRun) | Err(_) => return Err(self.task_ended().await),
            }
        }
        let outcome = OnceFuture::new(work).await.map_err(Into::into);
        let is_task = call.task.running().is_some();
        let is_stored = is_task || Era::from(self.revision()).repeats_handlers() || call.kept().is_some();
        let json = match &outcome {
            Ok(value) if is_stored => Some(RawJson::from_value(value).map_err(|error| {
                AskError::misused(format!("the result of `once({key:?})` cannot be serialized: {error}"))
            })?),
            _ => None,
        };
        // Also if the call has become a task in the meantime.
        if let Some(task) = call.task.running()
            && task.end_once(&key, json.clone()).await.is_err()
        {
            return Err(self.task_ended().await);
        }
        if let Some(json) = json {
            guard.store(json);
        }
        outcome
    }

    /// The error of a step whose task has ended. Only tasks that the handler spawned get it: the handler is dropped before.
    async fn task_ended(&self) -> HandlerError {
        self.call_state().task.wait_until_ended().await;
        AskError::Closed.into()
    }
}

/// Wakes the driver of a call when it is dropped.
struct WakeOnDrop<'a>(&'a CallState);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.driver().wake();
    }
}

pub use tsugite_core::protocol::elicitation::FieldValue;

/// A question to the client. It is sent when first polled; dropping it cancels it.
#[must_use = "a question is asked when it is awaited"]
#[doc(alias("Elicitation", "ElicitRequest"))]
pub struct Ask<T> {
    request: Option<AskRequest>,
    reader: AnswerReader<T>,
    future: Option<AskFuture>,
}

/// Decodes an answer.
type AnswerReader<T> = Box<dyn Fn(&RawJson, &AnswerContext) -> Result<T, AskError> + Send + Sync>;

type AskFuture = Pin<Box<dyn Future<Output = (Result<RawJson, AskError>, AnswerContext)> + Send>>;

struct AskRequest {
    context: Context,
    request: InputRequest,
    key: Option<String>,
    reuses_answer: bool,
    timeout: Option<Duration>,
}

/// A question of a handler, as an era puts it to the client.
pub(super) struct Question {
    pub(super) request: InputRequest,
    /// The key the handler chose for it.
    pub(super) key: Option<String>,
    /// Whether an answer under its key counts although the question has changed.
    pub(super) reuses_answer: bool,
    /// How long to wait for the answer, if the handler says so.
    pub(super) timeout: Option<Duration>,
}

/// The parts of a question that are needed to decode its answer.
pub(crate) struct AnswerContext {
    pub(crate) revision: Revision,
    pub(crate) form: Option<FormSchema>,
    /// The call that asks; `None` while an answer is only checked.
    call: Option<Arc<CallState>>,
}

impl<T> Ask<T> {
    pub(crate) fn new(
        context: &Context,
        request: InputRequest,
        read: impl Fn(&RawJson, &AnswerContext) -> Result<T, AskError> + Send + Sync + 'static,
    ) -> Self {
        let context = context.clone();
        let request = AskRequest { context, request, key: None, reuses_answer: false, timeout: None };
        Self { request: Some(request), reader: Box::new(read), future: None }
    }

    /// Sets the key of the question in `inputRequests`, in place of one that is made of its text.
    ///
    /// On 2026-07-28 the handler runs again when the answer arrives, and a task or a call that another process goes on with
    /// runs again as well. If the message or the form under this key is another one then, the answer belongs to a question
    /// that the user was not shown: it is not used, and the new question is asked; see [`Ask::reuse_answer`]. In a task the
    /// new question has the key with a dash and its fingerprint behind it, because clients skip keys that they have answered.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        if let Some(request) = &mut self.request {
            request.key = Some(key.into());
        }
        self
    }

    /// Takes the answer that was given under this key also if the message or the form has changed since, for example
    /// because the message contains the time. Default: no. Only matters with [`Ask::key`].
    pub fn reuse_answer(mut self, yes: bool) -> Self {
        if let Some(request) = &mut self.request {
            request.reuses_answer = yes;
        }
        self
    }

    /// Limits how long to wait for the answer; then the question fails with [`AskError::TimedOut`]. The default is
    /// [`Server::ask_timeout`](super::Server::ask_timeout).
    /// On 2026-07-28 the server does not wait: the age of the sealed state is limited by `Server::state_ttl` instead.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Some(request) = &mut self.request {
            request.timeout = Some(timeout);
        }
        self
    }

    fn and_then<U>(self, next: impl Fn(T) -> Result<U, AskError> + Send + Sync + 'static) -> Ask<U>
    where
        T: 'static,
    {
        let read = self.reader;
        Ask {
            request: self.request,
            reader: Box::new(move |raw, question| next(read(raw, question)?)),
            future: self.future,
        }
    }
}

impl<T> Future for Ask<T> {
    type Output = Result<T, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            if is_in_once() {
                return Poll::Ready(Err(AskError::misused("a question was asked inside `once`")));
            }
            self.future = Some(Box::pin(request.ask()));
        }
        let Some(future) = &mut self.future else { return Poll::Pending };
        let Poll::Ready((answer, question)) = future.as_mut().poll(cx) else { return Poll::Pending };
        self.future = None;
        let answer = answer.and_then(|raw| (self.reader)(&raw, &question));
        if let (Err(error), Some(call)) = (&answer, &question.call) {
            call.record_ask_error(error);
        }
        Poll::Ready(answer)
    }
}

impl<T> std::fmt::Debug for Ask<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").finish_non_exhaustive()
    }
}

impl AskRequest {
    async fn ask(self) -> (Result<RawJson, AskError>, AnswerContext) {
        let revision = self.context.revision();
        let form = match &self.request {
            InputRequest::Elicit(ElicitParams::Form(form)) => Some(form.requested_schema.clone()),
            _ => None,
        };
        let question = AnswerContext { revision, form, call: Some(self.context.call_state().clone()) };
        if let Err(error) = self.check() {
            return (Err(error), question);
        }
        let AskRequest { context, request, key, reuses_answer, timeout } = self;
        let asked = Question { request, key, reuses_answer, timeout };
        let answer = match context.call_state().is_task() {
            true => ask_in_task(&context, asked).await,
            false => Era::from(revision).ask(&context, asked, &question).await,
        };
        (answer, question)
    }

    /// Checks that the client has declared the capability for the request, and that the request is valid.
    fn check(&self) -> Result<(), AskError> {
        let (context, revision) = (&self.context, self.context.revision());
        if !context.may_ask() {
            return Err(AskError::misused("a handler of this method cannot ask the client"));
        }
        // A client that takes nothing but the result gets no request before it.
        let nothing = ClientCapabilities::new();
        let is_single = Era::from(revision).sends_questions() && context.outbox().is_discarding();
        let declared = match is_single && !context.call_state().is_task() {
            true => &nothing,
            false => context.client_capabilities(),
        };
        match &self.request {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                if let Some(field) = form.requested_schema.secret_field() {
                    return Err(AskError::misused(format!("a form must not ask for a secret: {field:?}")));
                }
                if let Some(place) = form.clickable_url() {
                    let text = format!("a form must not contain a URL, use `url_elicitation`: {place:?}");
                    return Err(AskError::misused(text));
                }
            }
            InputRequest::Sample(params) => check_sampling(params).map_err(AskError::misused)?,
            _ => {}
        }
        match missing_capability(&self.request, revision, declared) {
            Some(required) => Err(AskError::Unavailable { required: Box::new(required) }),
            None => Ok(()),
        }
    }
}

/// The capability that a client must declare to be asked this question; `None` if it has declared it.
pub(crate) fn missing_capability(
    request: &InputRequest,
    revision: Revision,
    declared: &ClientCapabilities,
) -> Option<ClientCapabilities> {
    let elicitation = declared.elicitation.as_ref();
    match request {
        InputRequest::Elicit(ElicitParams::Form(_)) => {
            // A client that declared only URLs is told to declare forms as well.
            let form = if elicitation.is_some() {
                ElicitationCapability::new().form(Object::new())
            } else {
                ElicitationCapability::new()
            };
            (!revision.has_elicitation() || !elicitation.is_some_and(ElicitationCapability::supports_form))
                .then(|| ClientCapabilities::new().elicitation(form))
        }
        InputRequest::Elicit(ElicitParams::Url(_)) => (!revision.has_url_elicitation()
            || !elicitation.is_some_and(ElicitationCapability::supports_url))
        .then(|| ClientCapabilities::new().elicitation(ElicitationCapability::new().url(Object::new()))),
        InputRequest::Sample(params) => missing_sampling_capability(params, declared),
        InputRequest::Roots(_) => {
            declared.roots.is_none().then(|| ClientCapabilities::new().roots(RootsCapability::new()))
        }
        _ => None,
    }
}

/// Checks the ranges of the priorities, and that tool uses and tool results match.
fn check_sampling(params: &CreateMessageParams) -> Result<(), String> {
    let preferences = params.model_preferences.as_ref();
    let priorities = preferences.map(|preferences| {
        [preferences.cost_priority, preferences.speed_priority, preferences.intelligence_priority]
    });
    if priorities.into_iter().flatten().flatten().any(|priority| !(0.0..=1.0).contains(&priority)) {
        return Err("model priorities must be between 0 and 1".to_owned());
    }
    params.check_tool_results()
}

fn missing_sampling_capability(
    params: &CreateMessageParams,
    declared: &ClientCapabilities,
) -> Option<ClientCapabilities> {
    let (declared, mut required) = (declared.sampling.as_ref(), SamplingCapability::new());
    if params.tools.is_some() || params.tool_choice.is_some() {
        required.tools = Some(Object::new());
    }
    if params.include_context.is_some_and(|context| context != IncludeContext::None) {
        required.context = Some(Object::new());
    }
    let supported = declared.is_some_and(|declared| {
        (required.tools.is_none() || declared.tools.is_some())
            && (required.context.is_none() || declared.context.is_some())
    });
    (!supported).then(|| ClientCapabilities::new().sampling(required))
}

/// Puts a question to the client through the task, and waits for the answer, which has no time limit of its own.
async fn ask_in_task(context: &Context, question: Question) -> Result<RawJson, AskError> {
    let (call, reuses_answer) = (context.call_state(), question.reuses_answer);
    let paused = call.pause_timeout();
    let key = question.key.map(|key| QuestionKey { key, reuses_answer });
    let timeout = question.timeout.unwrap_or(Duration::MAX);
    let answer = request_answer(call.driver(), &call.round(), key, question.request, (timeout, true)).await;
    drop(paused);
    answer?.into_result()
}

/// Checks that an answer has the shape that the request demands; the error says what is wrong.
pub(crate) fn check_answer(
    request: &InputRequest,
    answer: &RawJson,
    revision: Revision,
) -> Result<(), String> {
    let form = match request {
        InputRequest::Elicit(ElicitParams::Form(form)) => Some(form.requested_schema.clone()),
        _ => None,
    };
    answer_validator(request)(answer, &AnswerContext { revision, form, call: None })
}

/// Returns a function that checks whether an answer matches the request.
pub(super) fn answer_validator(request: &InputRequest) -> fn(&RawJson, &AnswerContext) -> Result<(), String> {
    match request {
        InputRequest::Elicit(_) => |raw, question| match read_elicit_result(raw, question) {
            Err(AskError::Malformed(text)) => Err(text),
            _ => Ok(()),
        },
        InputRequest::Sample(_) => |raw, question| {
            decode_answer::<CreateMessage>(raw, question.revision)
                .map(drop)
                .map_err(|error| error.to_string())
        },
        _ => |raw, question| match read_roots(raw, question) {
            Err(AskError::Malformed(text)) => Err(text),
            _ => Ok(()),
        },
    }
}

fn decode_answer<M: Method>(raw: &RawJson, revision: Revision) -> Result<M::Output, JsonError>
where
    M::Output: Translate + InferResultType,
{
    Era::from(revision).read_answer::<M>(raw, revision)
}

fn require_complete<T>(output: MaybeTask<T>) -> Result<T, AskError> {
    match output {
        MaybeTask::Complete(result) => Ok(result),
        _ => Err(AskError::Malformed("the client answered with a task, which was not requested".to_owned())),
    }
}

fn read_roots(raw: &RawJson, question: &AnswerContext) -> Result<Vec<Root>, AskError> {
    let roots = decode_answer::<roots::List>(raw, question.revision)?.roots;
    match roots.iter().all(|root| root.uri.starts_with("file://")) {
        true => Ok(roots),
        false => Err(AskError::Malformed("a root must be a `file://` URI".to_owned())),
    }
}

/// Decodes the user's action and the submitted values, and checks them against the form.
fn read_elicit_result(raw: &RawJson, question: &AnswerContext) -> Result<ElicitResult, AskError> {
    let mut result = require_complete(decode_answer::<Create>(raw, question.revision)?)?;
    if let (ElicitAction::Accept, Some(form)) = (result.action, &question.form) {
        let content = form.with_defaults(result.content.take().unwrap_or_default());
        form.check(&content)?;
        result.content = Some(content);
    }
    Ok(result)
}

fn into_accepted_content(result: ElicitResult) -> Result<OrderedMap<FieldValue>, AskError> {
    match result.action {
        ElicitAction::Accept => Ok(result.content.unwrap_or_default()),
        ElicitAction::Decline => Err(AskError::Declined),
        ElicitAction::Cancel => Err(AskError::Cancelled),
    }
}

fn read_content(raw: &RawJson, question: &AnswerContext) -> Result<OrderedMap<FieldValue>, AskError> {
    into_accepted_content(read_elicit_result(raw, question)?)
}

fn read_form<F: Form>(content: OrderedMap<FieldValue>) -> Result<F, AskError> {
    F::read(&content).map_err(AskError::Malformed)
}
