//! Questions of a handler to the client: to its user, to its model, and for its roots.
//!
//! A handler writes `cx.ask(…).await` in both eras. Up to 2025-11-25 a request is sent and its response awaited
//! (`outgoing_requests`). On 2026-07-28 the question is recorded (`round`), the handler is dropped once it rests (`driver`),
//! and the answers so far travel sealed to the client and back (`request_state`).

mod ask_error;
mod driver;
mod form;
pub mod form_settings;
mod outgoing_requests;
mod request_state;
mod round;
mod sampling;
mod url_elicitation;
mod wake_signal;

use std::future::Future;
use std::pin::Pin;
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

pub use ask_error::AskError;
pub(crate) use driver::{DriveOutcome, HandlerDriver};
pub use form::{Form, FormChoice, FormField, choice, read_choice};
pub(super) use outgoing_requests::send_request;
pub(crate) use outgoing_requests::{OutgoingRequests, send_raw_request};
pub(crate) use request_state::{StateBinding, build_input_required, resume_round, seal_state, unseal_state};
pub(crate) use round::Round;
pub(super) use round::request_input;
pub use url_elicitation::UrlElicitation;
pub(crate) use wake_signal::WakeSignal;

use super::context::Context;
use super::era::Question;
use super::handler_error::HandlerError;
use crate::era::Era;
use round::{OnceFuture, OnceLookup};

impl Context {
    /// Asks the user to fill in a form.
    ///
    /// Fails with [`AskError::Unavailable`] when the client cannot show forms, [`AskError::Declined`] when the user says
    /// no and [`AskError::Cancelled`] when they go away. On 2026-07-28 the handler runs again from the top once the
    /// answer is there: what must not happen twice belongs into [`Context::once`].
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
    pub fn ask<F: Form>(&self, message: impl Into<String>) -> Ask<F> {
        self.ask_form(F::schema(), message).and_then(read_form::<F>)
    }

    /// Asks the user to fill in a form that is known only at run time.
    pub fn ask_form(&self, form: FormSchema, message: impl Into<String>) -> Ask<OrderedMap<FieldValue>> {
        let params = FormParams::new(message, form);
        Ask::new(self, InputRequest::Elicit(ElicitParams::Form(params)), read_content)
    }

    /// Asks the client's model.
    ///
    /// Fails with [`AskError::Unavailable`] when the client has none to offer, or none that takes tools.
    pub fn sample(&self, params: CreateMessageParams) -> Ask<CreateMessageResult> {
        Ask::new(self, InputRequest::Sample(params), |raw, asked| {
            require_complete(decode_answer::<CreateMessage>(raw, asked.revision)?)
        })
    }

    /// Asks in which directories the client lets the server work.
    pub fn roots(&self) -> Ask<Vec<Root>> {
        Ask::new(self, InputRequest::Roots(EmptyParams::new()), read_roots)
    }

    /// Does `work` once for all rounds of this call: on 2026-07-28 a later round gets what an earlier one brought.
    ///
    /// Only success is remembered. It travels with the client, sealed, so it should be small. Once means once per chain of
    /// rounds; two chains may do it twice. A key used twice in one run, or a question asked inside `work`, is an error.
    pub async fn once<T, E>(
        &self,
        key: impl Into<String>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
    {
        let key = key.into();
        let round = self.state().round();
        let guard = match round.once(self.state(), &key)? {
            OnceLookup::Stored(json) => {
                return json.read().map_err(|error| {
                    AskError::misused(format!("what `once({key:?})` brought cannot be read back: {error}"))
                        .into()
                });
            }
            OnceLookup::Run(guard) => guard,
        };
        let value = OnceFuture::new(work).await.map_err(Into::into)?;
        if Era::from(self.revision()).repeats_handlers() {
            let json = RawJson::from_value(&value).map_err(|error| {
                AskError::misused(format!("what `once({key:?})` brought has no JSON: {error}"))
            })?;
            guard.store(json);
        }
        Ok(value)
    }
}

pub use tsugite_core::protocol::elicitation::FieldValue;

/// A question to whoever called. Asked when first polled; dropping it withdraws it.
#[must_use = "a question is asked when it is awaited"]
pub struct Ask<T> {
    request: Option<AskRequest>,
    reader: AnswerReader<T>,
    future: Option<AskFuture>,
}

/// Reads an answer.
type AnswerReader<T> = Box<dyn Fn(&RawJson, &AnswerContext) -> Result<T, AskError> + Send + Sync>;

type AskFuture = Pin<Box<dyn Future<Output = (Result<RawJson, AskError>, AnswerContext)> + Send>>;

struct AskRequest {
    context: Context,
    request: InputRequest,
    key: Option<String>,
    timeout: Option<Duration>,
}

/// What was asked, for whoever reads the answer.
pub(crate) struct AnswerContext {
    pub(crate) revision: Revision,
    pub(crate) form: Option<FormSchema>,
}

impl<T> Ask<T> {
    pub(crate) fn new(
        context: &Context,
        request: InputRequest,
        read: impl Fn(&RawJson, &AnswerContext) -> Result<T, AskError> + Send + Sync + 'static,
    ) -> Self {
        let asking = AskRequest { context: context.clone(), request, key: None, timeout: None };
        Self { request: Some(asking), reader: Box::new(read), future: None }
    }

    /// Sets the key of the question in `inputRequests`. It stays the same when the message changes from round to round.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        if let Some(asking) = &mut self.request {
            asking.key = Some(key.into());
        }
        self
    }

    /// Limits how long to wait for the answer; then the question fails with [`AskError::TimedOut`]. The default is
    /// [`Server::ask_timeout`](super::Server::ask_timeout).
    /// On 2026-07-28 the server does not wait: the age of the sealed state is limited by `Server::state_ttl` instead.
    pub fn timeout(mut self, time: Duration) -> Self {
        if let Some(asking) = &mut self.request {
            asking.timeout = Some(time);
        }
        self
    }

    fn and_then<U>(self, then: impl Fn(T) -> Result<U, AskError> + Send + Sync + 'static) -> Ask<U>
    where
        T: 'static,
    {
        let read = self.reader;
        Ask {
            request: self.request,
            reader: Box::new(move |raw, asked| then(read(raw, asked)?)),
            future: self.future,
        }
    }
}

impl<T> Future for Ask<T> {
    type Output = Result<T, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Some(asking) = self.request.take() {
            if round::is_in_once() {
                return Poll::Ready(Err(AskError::misused("a question was asked inside `once`")));
            }
            self.future = Some(Box::pin(asking.ask()));
        }
        let Some(running) = &mut self.future else { return Poll::Pending };
        let Poll::Ready((answer, asked)) = running.as_mut().poll(cx) else { return Poll::Pending };
        self.future = None;
        Poll::Ready(answer.and_then(|raw| (self.reader)(&raw, &asked)))
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
        let asked = AnswerContext { revision, form };
        if let Err(error) = self.check() {
            return (Err(error), asked);
        }
        let AskRequest { context, request, key, timeout } = self;
        let answer = Era::from(revision).ask(&context, Question { request, key, timeout }, &asked).await;
        (answer, asked)
    }

    /// What the client has not said it can do is not asked of it, nor what nobody should ask.
    fn check(&self) -> Result<(), AskError> {
        let (context, revision) = (&self.context, self.context.revision());
        if !context.may_ask() {
            return Err(AskError::misused("this request cannot ask back"));
        }
        let can = context.client_capabilities();
        let elicits = can.elicitation.as_ref();
        let lacks = match &self.request {
            InputRequest::Elicit(ElicitParams::Form(form)) => {
                if let Some(field) = form.requested_schema.secret_field() {
                    return Err(AskError::misused(format!("a form must not ask for a secret: {field:?}")));
                }
                // One that declared only web pages is told what else there is to declare.
                let form = if elicits.is_some() {
                    ElicitationCapability::new().form(Object::new())
                } else {
                    ElicitationCapability::new()
                };
                (!revision.has_elicitation() || !elicits.is_some_and(ElicitationCapability::supports_form))
                    .then(|| ClientCapabilities::new().elicitation(form))
            }
            InputRequest::Elicit(ElicitParams::Url(_)) => (!revision.has_url_elicitation()
                || !elicits.is_some_and(ElicitationCapability::supports_url))
            .then(|| ClientCapabilities::new().elicitation(ElicitationCapability::new().url(Object::new()))),
            InputRequest::Sample(params) => {
                sampling::check(params).map_err(AskError::misused)?;
                missing_sampling_capability(params, can)
            }
            InputRequest::Roots(_) => {
                can.roots.is_none().then(|| ClientCapabilities::new().roots(RootsCapability::new()))
            }
            _ => None,
        };
        match lacks {
            Some(required) => Err(AskError::Unavailable { required: Box::new(required) }),
            None => Ok(()),
        }
    }
}

fn missing_sampling_capability(
    params: &CreateMessageParams,
    can: &ClientCapabilities,
) -> Option<ClientCapabilities> {
    let (has, mut needs) = (can.sampling.as_ref(), SamplingCapability::new());
    if params.tools.is_some() || params.tool_choice.is_some() {
        needs.tools = Some(Object::new());
    }
    if params.include_context.is_some_and(|context| context != IncludeContext::None) {
        needs.context = Some(Object::new());
    }
    let enough = has.is_some_and(|has| {
        (needs.tools.is_none() || has.tools.is_some()) && (needs.context.is_none() || has.context.is_some())
    });
    (!enough).then(|| ClientCapabilities::new().sampling(needs))
}

/// Says of an answer whether it is one to what was asked.
pub(super) fn answer_validator(request: &InputRequest) -> fn(&RawJson, &AnswerContext) -> Result<(), String> {
    match request {
        InputRequest::Elicit(_) => |raw, asked| match read_elicit_result(raw, asked) {
            Err(AskError::Malformed(text)) => Err(text),
            _ => Ok(()),
        },
        InputRequest::Sample(_) => |raw, asked| {
            decode_answer::<CreateMessage>(raw, asked.revision).map(drop).map_err(|error| error.to_string())
        },
        _ => |raw, asked| match read_roots(raw, asked) {
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
        _ => Err(AskError::Malformed("a task was promised though none was asked for".to_owned())),
    }
}

fn read_roots(raw: &RawJson, asked: &AnswerContext) -> Result<Vec<Root>, AskError> {
    let roots = decode_answer::<roots::List>(raw, asked.revision)?.roots;
    match roots.iter().all(|root| root.uri.starts_with("file://")) {
        true => Ok(roots),
        false => Err(AskError::Malformed("a root must be a `file://` URI".to_owned())),
    }
}

/// What the user did with a form or a page, and what they filled in.
fn read_elicit_result(raw: &RawJson, asked: &AnswerContext) -> Result<ElicitResult, AskError> {
    let mut result = require_complete(decode_answer::<Create>(raw, asked.revision)?)?;
    if let (ElicitAction::Accept, Some(form)) = (result.action, &asked.form) {
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

fn read_content(raw: &RawJson, asked: &AnswerContext) -> Result<OrderedMap<FieldValue>, AskError> {
    into_accepted_content(read_elicit_result(raw, asked)?)
}

fn read_form<F: Form>(content: OrderedMap<FieldValue>) -> Result<F, AskError> {
    F::read(&content).map_err(AskError::Malformed)
}
