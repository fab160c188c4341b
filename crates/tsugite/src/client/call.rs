//! One call: its params, its options, and how its result is read.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::mrtr::{InputRequired, InputResponses, MaybeInputRequired};
use tsugite_core::protocol::progress::ProgressParams;
use tsugite_core::protocol::tasks::Task;
use tsugite_core::protocol::{HasMeta, Meta, Method, Output, completion, meta, prompts, resources, tools};
use tsugite_core::revision::{
    InferResultType, Translate, read_result, write_request, write_request_with_meta,
};

use super::Client;
use super::cache::Caching;
use super::client_error::{ClientError, ErrorKind, Result, TimeoutKind};
use super::connection::{ClientConnection, OutboundRequest};
use super::options::{FailureCauseSlot, Options};
use super::task_progress::KeptToken;

/// A method a client can call.
pub trait ClientMethod:
    Method<
        Params: Translate + Clone + Send + Sync + 'static,
        Output: Translate + InferResultType + Send + 'static,
    > + 'static
{
}

impl<M> ClientMethod for M where
    M: Method<
            Params: Translate + Clone + Send + Sync + 'static,
            Output: Translate + InferResultType + Send + 'static,
        > + 'static
{
}

/// A call to be sent. Set its options, then await it.
///
/// Nothing is sent before it is awaited. Dropping the future cancels the call.
///
/// ```
/// use std::time::Duration;
/// use tsugite::client::Client;
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
/// # let server = Server::new("s", "1").tool(Tool::new("slow").handler(async || "done"));
/// let client = Client::in_process(&server).await?;
/// let text: String = client
///     .call("slow", serde_json::json!({}))
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// # assert_eq!(text, "done"); Ok(()) }
/// ```
#[must_use = "the call is sent only when it is awaited"]
pub struct Call<M: ClientMethod, T = <M as Method>::Output> {
    client: Client,
    params: Result<M::Params>,
    pub(super) options: Options,
    run: CallFn<M, T>,
}

pub(super) type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type CallFn<M, T> = fn(Client, <M as Method>::Params, Options) -> CallFuture<T>;

impl<M: ClientMethod, T> Call<M, T> {
    pub(super) fn new(client: &Client, params: Result<M::Params>, run: CallFn<M, T>) -> Self {
        Self { client: client.clone(), params, options: Options::default(), run }
    }

    pub(super) fn request_progress(mut self) -> Self {
        self.options.request_progress = true;
        self
    }

    /// Sets how long to wait without a response or progress; by default the client's timeout of 30 seconds.
    ///
    /// Progress restarts the timeout, and it pauses while the client answers a request of the server.
    #[doc(alias("read_timeout", "request_timeout"))]
    pub fn timeout(mut self, idle_timeout: Duration) -> Self {
        self.options.idle_timeout = Some(idle_timeout);
        self
    }

    /// Sets how long the call may take in total, whatever its progress; by default the client's limit of 10 minutes.
    pub fn total_timeout(mut self, total: Duration) -> Self {
        self.options.total_timeout = Some(total);
        self
    }

    /// Asks for progress and sets the callback that receives it.
    #[doc(alias("progress_callback", "progress_token", "progressToken"))]
    pub fn on_progress(mut self, callback: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.options.on_progress = Some(Arc::new(callback));
        self
    }

    /// Sends a header with the call, over HTTP.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Adds an entry to `_meta`.
    ///
    /// The call fails with [`ErrorKind::Config`] before anything is sent if the key is malformed or reserved by the
    /// protocol. `progressToken` and the W3C trace keys may be set, with well-formed values.
    #[doc(alias = "_meta")]
    pub fn meta<V: Serialize + ?Sized>(mut self, key: impl Into<String>, value: &V) -> Self {
        self.options.meta.get_or_insert_with(Meta::new).insert(key, value);
        self
    }

    /// Sets whether the call may be answered from the cache.
    pub fn caching(mut self, caching: Caching) -> Self {
        self.options.caching = caching;
        self
    }

    /// Declares that running the call twice is safe. It is sent again if its connection is lost.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }
}

impl<T> Call<completion::Complete, T> {
    /// Adds the arguments that are filled in already, as context for the completion (from 2025-06-18).
    pub fn context<K, V>(mut self, arguments: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        if let Ok(params) = &mut self.params {
            let context = params.context.get_or_insert_default();
            let filled_in = context.arguments.get_or_insert_default();
            for (name, value) in arguments {
                filled_in.insert(name, value.into());
            }
        }
        self
    }
}

impl<M: ClientMethod, T: Send + 'static> IntoFuture for Call<M, T> {
    type Output = Result<T>;
    type IntoFuture = CallFuture<T>;

    fn into_future(mut self) -> CallFuture<T> {
        if self.client.is_in_process() {
            self.options.failure_cause = Some(FailureCauseSlot::default());
        }
        let options = &self.options;
        match self.params.and_then(|params| check_meta(params.meta(), options).map(|()| params)) {
            Ok(params) => (self.run)(self.client, params, self.options),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// Checks the `_meta` keys of the application. Typed params may hold what [`Meta::set_client_meta`] writes.
fn check_meta(of_params: Option<&Meta>, options: &Options) -> Result<()> {
    check_meta_keys(of_params, &PARAMS_META_KEYS)?;
    check_meta_keys(options.meta.as_ref(), &[])
}

pub(super) fn check_meta_keys(meta: Option<&Meta>, allowed: &[&str]) -> Result<()> {
    let checked = meta.map_or(Ok(()), |meta| meta.check_user_keys(allowed));
    checked.map_err(|error| ClientError::config(error.to_string()))
}

/// The reserved keys that an application may set in params.
pub(super) const PARAMS_META_KEYS: [&str; 5] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::RELATED_TASK,
];

/// Sends one request and returns its result, complete or not.
pub(super) fn send_single<M: ClientMethod>(
    client: Client,
    params: M::Params,
    options: Options,
) -> CallFuture<M::Output> {
    Box::pin(async move { client.send_request::<M>(&params, &options).await })
}

/// A method whose result may ask for input (2026-07-28).
pub(super) trait MultiRoundMethod: ClientMethod + Sized {
    /// The complete result.
    type Done: Send + 'static;

    /// The complete result, or what the server returned instead.
    fn into_complete(output: Self::Output) -> Result<Self::Done, IncompleteResult>;

    /// The result of the task that the request became; `None` if requests of this method cannot become tasks.
    fn from_task(_result: tools::CallResult) -> Option<Self::Done> {
        None
    }

    /// Sends one request. One that may ask for a task (2025-11-25) decides about it before the first round, and returns the
    /// token under which its task reports progress.
    fn send<'a>(
        client: &'a Client,
        params: &'a mut Self::Params,
        options: &'a Options,
        _round: usize,
    ) -> impl Future<Output = Result<(Self::Output, Option<Arc<KeptToken>>)>> + Send + 'a {
        async move { Ok((client.send_request::<Self>(params, options).await?, None)) }
    }

    /// Puts the responses and the state into the params of the next round.
    fn set_input_responses(
        params: &mut Self::Params,
        responses: Option<InputResponses>,
        state: Option<String>,
    );
}

/// A result that is not complete.
pub(super) enum IncompleteResult {
    InputRequired(InputRequired),
    Task(Box<Task>),
    /// A kind of result that this library does not know.
    Unknown,
}

impl MultiRoundMethod for tools::Call {
    type Done = tools::CallResult;

    fn into_complete(output: tools::CallOutput) -> Result<tools::CallResult, IncompleteResult> {
        match output {
            tools::CallOutput::Complete(result) => Ok(result),
            tools::CallOutput::InputRequired(input) => Err(IncompleteResult::InputRequired(input)),
            tools::CallOutput::Task(created) => Err(IncompleteResult::Task(Box::new(created.task))),
            _ => Err(IncompleteResult::Unknown),
        }
    }

    fn from_task(result: tools::CallResult) -> Option<tools::CallResult> {
        Some(result)
    }

    async fn send(
        client: &Client,
        params: &mut tools::CallParams,
        options: &Options,
        round: usize,
    ) -> Result<(tools::CallOutput, Option<Arc<KeptToken>>)> {
        if round == 0 && client.inner.shared.settings.supports_tasks() {
            params.task = Box::pin(client.task_request(&params.name, options)).await?;
        }
        if params.task.is_some() {
            let (output, token) = Box::pin(client.send_task_request(params, options)).await?;
            return Ok((output, Some(token)));
        }
        Ok((client.send_request::<Self>(params, options).await?, None))
    }

    fn set_input_responses(
        params: &mut tools::CallParams,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) {
        params.input_responses = responses;
        params.request_state = state;
    }
}

impl MultiRoundMethod for prompts::Get {
    type Done = prompts::GetResult;

    fn into_complete(
        output: MaybeInputRequired<prompts::GetResult>,
    ) -> Result<prompts::GetResult, IncompleteResult> {
        complete_or_incomplete(output)
    }

    fn set_input_responses(
        params: &mut prompts::GetParams,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) {
        params.input_responses = responses;
        params.request_state = state;
    }
}

impl MultiRoundMethod for resources::Read {
    type Done = resources::ReadResult;

    fn into_complete(
        output: MaybeInputRequired<resources::ReadResult>,
    ) -> Result<resources::ReadResult, IncompleteResult> {
        complete_or_incomplete(output)
    }

    fn set_input_responses(
        params: &mut resources::ReadParams,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) {
        params.input_responses = responses;
        params.request_state = state;
    }
}

fn complete_or_incomplete<T>(output: MaybeInputRequired<T>) -> Result<T, IncompleteResult> {
    match output {
        MaybeInputRequired::Complete(result) => Ok(result),
        MaybeInputRequired::InputRequired(input) => Err(IncompleteResult::InputRequired(input)),
        _ => Err(IncompleteResult::Unknown),
    }
}

/// Runs [`run_rounds`] in a box.
pub(super) fn run_rounds_boxed<M: MultiRoundMethod>(
    client: Client,
    params: M::Params,
    options: Options,
) -> CallFuture<M::Done> {
    Box::pin(run_rounds::<M>(client, params, options))
}

/// Sends a request, answers the input requests of the server with the client's handlers, and sends it again, until the
/// result is complete. Rare steps are boxed to keep the future of every call small.
pub(super) async fn run_rounds<M: MultiRoundMethod>(
    client: Client,
    params: M::Params,
    options: Options,
) -> Result<M::Done> {
    let rounds = client.inner.shared.settings.max_rounds;
    let total = options.timeouts(&client.inner.shared.settings).total_timeout;
    let (mut params, mut options) = (params, options);
    let mut spent = Duration::ZERO;
    if let Some(call) = M::tool_call(&params) {
        let start = Instant::now();
        // All rounds and all attempts of the call have the same key.
        client.add_call_key(call, &mut options).await?;
        spent += start.elapsed();
    }
    let mut pages_opened = false;
    for round in 0..=rounds {
        // The total timeout covers all rounds, without the time in which the user answers.
        options.total_timeout = total.map(|total| total.saturating_sub(spent));
        let start = Instant::now();
        let sent = M::send(&client, &mut params, &options, round).await;
        spent += start.elapsed();
        let (output, task_token) = match sent {
            Ok(sent) => sent,
            Err(error) if total.is_some_and(|total| spent >= total) && error.is_timeout() => {
                let limit = total.unwrap_or_default();
                let timed_out = ClientError::from(ErrorKind::TimedOut { limit, kind: TimeoutKind::Total });
                return Err(timed_out.with_may_have_run(error.may_have_run()));
            }
            Err(error) => {
                // 2025-11-25: the user has to visit web pages first.
                let remaining = options.total_timeout.unwrap_or(Duration::MAX);
                if pages_opened || !Box::pin(client.elicit_required_urls(&error, remaining)).await? {
                    return Err(error);
                }
                pages_opened = true;
                continue;
            }
        };
        match M::into_complete(output) {
            Ok(done) => return Ok(done),
            Err(IncompleteResult::Task(task)) if client.inner.shared.settings.supports_tasks() => {
                let of_task = options.task.unwrap_or_default();
                let result = Box::pin(client.follow(task.task_id.clone(), Some(&*task), &of_task)).await;
                drop(task_token);
                return M::from_task(result?).ok_or_else(unexpected_task);
            }
            Err(IncompleteResult::Task(_) | IncompleteResult::Unknown) => return Err(unexpected_task()),
            Err(IncompleteResult::InputRequired(input)) => {
                check_request_state(&client, input.request_state.as_deref())?;
                let responses = match input.input_requests {
                    Some(input) => Some(Box::pin(client.handle_input_requests(input)).await?),
                    // The server asks for no input: it expects its state back after a delay.
                    None => {
                        tokio::time::sleep(INITIAL_RETRY_DELAY * 2_u32.pow((round as u32).min(5))).await;
                        None
                    }
                };
                M::set_input_responses(&mut params, responses, input.request_state);
            }
        }
    }
    Err(ErrorKind::InputRequired(format!(
        "the server asked for input more than {rounds} times in one call (`max_rounds`)"
    ))
    .into())
}

fn unexpected_task() -> ClientError {
    let text = "the server returned a task, which the client did not request";
    ErrorKind::InputRequired(text.to_owned()).into()
}

/// Fails if the state that the client has to send back is too large.
fn check_request_state(client: &Client, state: Option<&str>) -> Result<()> {
    let (limit, bytes) = (client.inner.shared.settings.max_request_state_bytes, state.map_or(0, str::len));
    match bytes > limit {
        true => Err(ErrorKind::TooLarge(format!(
            "the server returned a request state of {bytes} bytes; the limit is {limit} (`max_request_state_bytes`)"
        ))
        .into()),
        false => Ok(()),
    }
}

/// The first delay before a request without input requests is sent again.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A request of a method with typed params.
pub(super) struct TypedRequest<'a, M: ClientMethod> {
    params: &'a M::Params,
    method: PhantomData<fn() -> M>,
}

impl<'a, M: ClientMethod> TypedRequest<'a, M> {
    pub(super) fn new(params: &'a M::Params) -> Self {
        Self { params, method: PhantomData }
    }
}

impl<M: ClientMethod> OutboundRequest for TypedRequest<'_, M> {
    fn method(&self) -> &str {
        M::NAME
    }

    fn name(&self) -> Option<&str> {
        M::subject(self.params)
    }

    fn encode(
        &self,
        out: &mut Vec<u8>,
        id: &Id<'_>,
        connection: &ClientConnection,
        options: &Options,
    ) -> Result<()> {
        let mut params = self.params.clone();
        if params.meta().is_none() && options.meta.is_none() {
            let meta = connection.request_meta_json(id, options);
            return Ok(write_request_with_meta::<M>(out, id, params, connection.revision(), &meta)?);
        }
        connection.add_request_meta(params.meta_mut(), id, options);
        Ok(write_request::<M>(out, id, params, connection.revision())?)
    }

    fn asks_for_task(&self) -> bool {
        M::tool_call(self.params).is_some_and(|call| call.task.is_some())
    }

    fn param_headers(&self, connection: &ClientConnection) -> Vec<(String, String)> {
        match M::tool_call(self.params) {
            Some(call) if connection.era().mirrors_headers() => {
                connection.shared.tools.param_headers(&call.name, call.arguments.as_ref().map(RawJson::text))
            }
            _ => Vec::new(),
        }
    }
}

/// Reads a result as the output of the method.
pub(super) fn decode_result<M: ClientMethod>(
    result: &RawJson,
    from: tsugite_core::revision::Revision,
) -> Result<M::Output>
where
    M::Output: Output,
{
    read_result::<M>(result.into(), from).map_err(|error| ClientError::malformed_result(M::NAME, error))
}
