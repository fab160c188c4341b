//! One call: what is asked, what it wants differently, and how its answer is read.

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
use tsugite_core::protocol::{HasMeta, Meta, Method, Output, prompts, resources, tasks, tools};
use tsugite_core::revision::{InferResultType, Translate, read_result, write_request, write_request_with_meta};

use super::Client;
use super::cache::Caching;
use super::error::{Error, Kind, Result};
use super::link::{Link, Written};
use super::options::Options;

/// A method a client can call.
pub trait Request:
    Method<Params: Translate + Clone + Send + Sync + 'static, Output: Translate + InferResultType + Send + 'static>
    + 'static
{
}

impl<M> Request for M where
    M: Method<
            Params: Translate + Clone + Send + Sync + 'static,
            Output: Translate + InferResultType + Send + 'static,
        > + 'static
{
}

/// A call that is about to be made: set what it wants differently, and await it.
///
/// Nothing is sent before that. Dropping the future tells the server to stop.
///
/// ```
/// use std::time::Duration;
/// use tsugite::client::Client;
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::ToolResult<()> {
/// # let server = Server::new("s", "1").tool(Tool::new("slow").handler(async || "done"));
/// let client = Client::of(&server).await?;
/// let text: String = client
///     .call("slow", serde_json::json!({}))
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// # assert_eq!(text, "done"); Ok(()) }
/// ```
#[must_use = "nothing is sent before it is awaited"]
pub struct Call<M: Request, T = <M as Method>::Output> {
    client: Client,
    params: Result<M::Params>,
    options: Options,
    run: Run<M, T>,
}

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type Run<M, T> = fn(Client, <M as Method>::Params, Options) -> Boxed<T>;

impl<M: Request, T> Call<M, T> {
    pub(super) fn new(client: &Client, params: Result<M::Params>, run: Run<M, T>) -> Self {
        Self { client: client.clone(), params, options: Options::default(), run }
    }

    pub(super) fn asking_progress(mut self) -> Self {
        self.options.asks_progress = true;
        self
    }

    /// How long to wait without a sign of life; 30 seconds unless the client says otherwise.
    ///
    /// Progress is a sign of life, and the clock stands while a question of the server is being answered.
    pub fn timeout(mut self, silence: Duration) -> Self {
        self.options.idle = Some(silence);
        self
    }

    /// How long to wait in all, whatever progress is made; 10 minutes unless the client says otherwise.
    pub fn max_time(mut self, total: Duration) -> Self {
        self.options.total = Some(total);
        self
    }

    /// Asks for progress and is told of it.
    pub fn on_progress(mut self, told: impl Fn(ProgressParams) + Send + Sync + 'static) -> Self {
        self.options.on_progress = Some(Arc::new(told));
        self
    }

    /// Sends a header with it, over HTTP.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Puts something into `_meta`.
    pub fn meta<V: Serialize + ?Sized>(mut self, key: impl Into<String>, value: &V) -> Self {
        self.options.meta.get_or_insert_with(Meta::new).insert(key, value);
        self
    }

    /// Whether it may be answered from what the client remembers.
    pub fn caching(mut self, caching: Caching) -> Self {
        self.options.caching = caching;
        self
    }

    /// Says that doing it twice does no harm: it is repeated when its connection is lost.
    pub fn idempotent(mut self) -> Self {
        self.options.repeatable = true;
        self
    }
}

impl<M: Request, T: Send + 'static> IntoFuture for Call<M, T> {
    type Output = Result<T>;
    type IntoFuture = Boxed<T>;

    fn into_future(self) -> Boxed<T> {
        match self.params {
            Ok(params) => (self.run)(self.client, params, self.options),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// One request, one answer: whatever it says.
pub(super) fn once<M: Request>(client: Client, params: M::Params, options: Options) -> Boxed<M::Output> {
    Box::pin(async move { client.ask::<M>(&params, &options).await })
}

/// A method whose answer may be a question (2026-07-28).
pub(super) trait Rounds: Request {
    /// What it gives in the end.
    type Done: Send + 'static;

    /// The result, or what is asked.
    fn done(output: Self::Output) -> Result<Self::Done, Asks>;

    /// Puts the answers in.
    fn again(params: &mut Self::Params, answers: Option<InputResponses>, state: Option<String>);
}

/// What came instead of a result.
pub(super) enum Asks {
    Input(InputRequired),
    Task,
}

impl Rounds for tools::Call {
    type Done = tools::CallResult;

    fn done(output: tools::CallOutput) -> Result<tools::CallResult, Asks> {
        match output {
            tools::CallOutput::Complete(result) => Ok(result),
            tools::CallOutput::InputRequired(asked) => Err(Asks::Input(asked)),
            _ => Err(Asks::Task),
        }
    }

    fn again(params: &mut tools::CallParams, answers: Option<InputResponses>, state: Option<String>) {
        params.input_responses = answers;
        params.request_state = state;
    }
}

impl Rounds for prompts::Get {
    type Done = prompts::GetResult;

    fn done(output: MaybeInputRequired<prompts::GetResult>) -> Result<prompts::GetResult, Asks> {
        reply(output)
    }

    fn again(params: &mut prompts::GetParams, answers: Option<InputResponses>, state: Option<String>) {
        params.input_responses = answers;
        params.request_state = state;
    }
}

impl Rounds for resources::Read {
    type Done = resources::ReadResult;

    fn done(output: MaybeInputRequired<resources::ReadResult>) -> Result<resources::ReadResult, Asks> {
        reply(output)
    }

    fn again(params: &mut resources::ReadParams, answers: Option<InputResponses>, state: Option<String>) {
        params.input_responses = answers;
        params.request_state = state;
    }
}

fn reply<T>(output: MaybeInputRequired<T>) -> Result<T, Asks> {
    match output {
        MaybeInputRequired::Complete(result) => Ok(result),
        MaybeInputRequired::InputRequired(asked) => Err(Asks::Input(asked)),
        _ => Err(Asks::Task),
    }
}

/// Asks, answers what is asked back, and asks again, until there is a result.
pub(super) fn followed<M: Rounds>(client: Client, params: M::Params, options: Options) -> Boxed<M::Done> {
    Box::pin(follow::<M>(client, params, options))
}

/// The same for whoever has something to do with the result. What hardly any call needs has a box of its own, so that
/// those that do not need it do not carry it.
pub(super) async fn follow<M: Rounds>(
    client: Client,
    params: M::Params,
    options: Options,
) -> Result<M::Done> {
    let rounds = client.inner.shared.settings.rounds;
    let total = options.patience(&client.inner.shared.settings).total_timeout;
    let (mut params, mut options) = (params, options);
    let mut pages_shown = false;
    let mut spent = Duration::ZERO;
    for round in 0..=rounds {
        // The time of a person does not count, that of all rounds together does.
        options.total = total.map(|total| total.saturating_sub(spent));
        let start = Instant::now();
        let asked = client.ask::<M>(&params, &options).await;
        spent += start.elapsed();
        let output = match asked {
            Ok(output) => output,
            Err(error) if total.is_some_and(|total| spent >= total) && error.is_timeout() => {
                let limit = total.unwrap_or_default();
                return Err(Kind::TimedOut { limit, total: true }.into());
            }
            Err(error) => {
                // 2025-11-25: the user has to visit web pages first.
                let left = options.total.unwrap_or(Duration::MAX);
                if pages_shown || !Box::pin(client.visit_pages(&error, left)).await? {
                    return Err(error);
                }
                pages_shown = true;
                continue;
            }
        };
        match M::done(output) {
            Ok(done) => return Ok(done),
            Err(Asks::Task) => {
                let text = "the server answers with a task, which was not asked for";
                return Err(Kind::Rounds(text.to_owned()).into());
            }
            Err(Asks::Input(asked)) => {
                let answers = match asked.input_requests {
                    Some(asked) => Some(Box::pin(client.answer(asked)).await?),
                    // "Come back": the server wants nothing but its state, and some time.
                    None => {
                        tokio::time::sleep(COME_BACK * 2_u32.pow((round as u32).min(5))).await;
                        None
                    }
                };
                M::again(&mut params, answers, asked.request_state);
            }
        }
    }
    Err(Kind::Rounds(format!("the server has asked back more than {rounds} times for one call")).into())
}

/// How long a server that wants us to come back is left alone at first.
const COME_BACK: Duration = Duration::from_millis(50);

/// A request as its type says.
pub(super) struct Typed<'a, M: Request> {
    params: &'a M::Params,
    method: PhantomData<fn() -> M>,
}

impl<'a, M: Request> Typed<'a, M> {
    pub(super) fn new(params: &'a M::Params) -> Self {
        Self { params, method: PhantomData }
    }
}

impl<M: Request> Written for Typed<'_, M> {
    fn method(&self) -> &str {
        M::NAME
    }

    fn name(&self) -> Option<&str> {
        subject::<M>(self.params)
    }

    fn write(&self, out: &mut Vec<u8>, id: &Id<'_>, link: &Link, options: &Options) -> Result<()> {
        let mut params = self.params.clone();
        if params.meta().is_none() && options.meta.is_none() {
            let stamp = link.stamp_text(id, options);
            return Ok(write_request_with_meta::<M>(out, id, params, link.revision(), &stamp)?);
        }
        link.stamp(params.meta_mut(), id, options);
        Ok(write_request::<M>(out, id, params, link.revision())?)
    }

    fn headers(&self, link: &Link) -> Vec<(String, String)> {
        let any: &dyn std::any::Any = self.params;
        match any.downcast_ref::<tools::CallParams>() {
            Some(call) if link.revision().is_stateless() => {
                link.shared.tools.headers(&call.name, call.arguments.as_ref().map(RawJson::text))
            }
            _ => Vec::new(),
        }
    }
}

/// What a request is about: a name, an URI, a task; or where a list goes on.
pub(super) fn subject<M: Request>(params: &M::Params) -> Option<&str> {
    let any: &dyn std::any::Any = params;
    None.or_else(|| any.downcast_ref::<tools::CallParams>().map(|params| &*params.name))
        .or_else(|| any.downcast_ref::<prompts::GetParams>().map(|params| &*params.name))
        .or_else(|| any.downcast_ref::<resources::ReadParams>().map(|params| &*params.uri))
        .or_else(|| any.downcast_ref::<tasks::TaskParams>().map(|params| &*params.task_id))
        .or_else(|| any.downcast_ref::<tasks::UpdateParams>().map(|params| &*params.task_id))
}

/// Reads an answer as what the method gives.
pub(super) fn read<M: Request>(result: &RawJson, from: tsugite_core::revision::Revision) -> Result<M::Output>
where
    M::Output: Output,
{
    read_result::<M>(result.into(), from).map_err(|what| Error::shape(M::NAME, what))
}
