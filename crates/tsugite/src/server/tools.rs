//! `tools/call`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, Sleep};
use tsugite_core::jsonrpc::Raw;
use tsugite_core::protocol::Method;
use tsugite_core::protocol::tools::{Call, CallResult};
use tsugite_core::revision::{RpcError, read_params};

use super::arguments::Arguments;
use super::ask::resume;
use super::context::{CallContext, Context, LazyContext};
use super::failure::{Failure, ToolError};
use super::handler::{Answer, CallParts, failed};
use super::link::{Asked, Link, Work, binding};
use super::principal::Headers;
use super::registry::ToolEntry;

/// Begins a call: the tool is looked up and its arguments are read, both from what was looked at already.
pub(crate) fn call(
    link: &Arc<Link>,
    asked: Asked<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<Work>, RpcError> {
    let Some(Some(name)) = asked.peek.mcp_name(Call::NAME) else {
        // The careful reading says what is wrong with it.
        read_params::<Call>(asked.request.params(), asked.revision)?;
        return Err(RpcError::Internal);
    };
    let arguments = match asked.peek.arguments() {
        None => Raw::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(_) => {
            return Err(RpcError::InvalidParams("Invalid params: `arguments` must be an object".into()));
        }
    };
    let shared = &link.server.shared;
    let found = shared.find::<ToolEntry>(&link.config, asked.principal(), name);
    let found = found.ok_or_else(|| RpcError::UnknownTool { name: name.to_owned() })?;
    let entry = found.item;
    if !entry.headers.is_empty() && asked.revision.is_stateless() && asked.caller.headers.are_there() {
        mirrored(&entry, arguments, &asked.caller.headers)?;
    }
    let owner = context.owned_by(found.owner);
    take_up::<Call>(link, asked, context)?;
    let states = owner.as_ref().map_or(&link.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Json(arguments), context, states };
    let answer = answer(&entry, arguments, &parts);
    let answer = match entry.tool.timeout {
        Some(limit) => Box::pin(Limited::new(answer, context.get(), limit)) as Answer<_>,
        None => answer,
    };
    let answer = match entry.output {
        Some(_) => Box::pin(checked(answer, entry)) as Answer<_>,
        None => answer,
    };
    Ok(link.run::<Call>(asked, context, answer))
}

/// Takes a call up again that has asked before, if this is one.
pub(crate) fn take_up<M: Method>(
    link: &Link,
    asked: Asked<'_>,
    context: &LazyContext<'_>,
) -> Result<(), RpcError> {
    let (state, answers) = (asked.peek.request_state(), asked.peek.input_responses());
    if !asked.revision.is_stateless() || state.is_none() && answers.is_none() {
        return Ok(());
    }
    let round = resume(&link.config, asked.principal(), &binding::<M>(asked), state, answers)?;
    if let Some(round) = round {
        context.resume(round);
    }
    Ok(())
}

/// Fails unless the headers repeat what the arguments say.
fn mirrored(entry: &ToolEntry, arguments: Raw<'_>, headers: &Headers) -> Result<(), RpcError> {
    let value: Value = arguments.read().map_err(|error| RpcError::invalid_params(&error))?;
    entry.headers.check(&value, |name| headers.once(&format!("mcp-param-{name}")))
}

fn answer(entry: &ToolEntry, arguments: Raw<'_>, parts: &CallParts<'_>) -> Answer<CallResult> {
    if let Some(validator) = &entry.input {
        let checked = match arguments.read::<Value>() {
            Ok(value) => validator.check(&value),
            Err(error) => Err(format!("invalid arguments: {error}")),
        };
        if let Err(text) = checked {
            return failed(Failure::Tool(ToolError::new(text)));
        }
    }
    match &entry.tool.handler {
        Some(handler) => handler.call(parts),
        None => failed(Failure::internal()),
    }
}

/// Checks what the tool returns against its own schema: a mistake is the server's.
async fn checked(answer: Answer<CallResult>, entry: Arc<ToolEntry>) -> Result<CallResult, Failure> {
    let result = answer.await?;
    let Some(validator) = &entry.output else { return Ok(result) };
    if result.is_error == Some(true) {
        return Ok(result);
    }
    let fits = match &result.structured_content {
        None => Err("there is an output schema, but no structured content".to_owned()),
        Some(json) => match json.read::<Value>() {
            Ok(value) => validator.check(&value),
            Err(error) => Err(error.to_string()),
        },
    };
    match fits {
        Ok(()) => Ok(result),
        Err(error) => {
            tracing::error!(
                tool = entry.tool.definition.name,
                error,
                "a result does not fit its output schema"
            );
            Err(Failure::internal())
        }
    }
}

/// A call with a time limit. The clock stands while somebody takes their time to answer.
struct Limited {
    answer: Answer<CallResult>,
    context: Context,
    limit: Duration,
    began: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Limited {
    fn new(answer: Answer<CallResult>, context: Context, limit: Duration) -> Self {
        let began = Instant::now();
        Self { answer, context, limit, began, sleep: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl Future for Limited {
    type Output = Result<CallResult, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.answer.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            let left = (self.limit + self.context.paused()).saturating_sub(self.began.elapsed());
            if left.is_zero() {
                let text = format!("the tool took longer than {:?}", self.limit);
                return Poll::Ready(Err(Failure::Tool(ToolError::new(text))));
            }
            let next = Instant::now() + left;
            self.sleep.as_mut().reset(next);
        }
        Poll::Pending
    }
}
