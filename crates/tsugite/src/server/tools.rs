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
use super::ask::resume_round;
use super::connection::{IncomingRequest, PendingRequest, ServerConnection, state_binding};
use super::context::{CallContext, Context, LazyContext};
use super::handler::{CallParts, HandlerFuture, ready_error};
use super::handler_error::{HandlerError, InvocationError};
use super::principal::Headers;
use super::registry::ToolEntry;
use crate::era::Era;

/// Begins a call: the tool is looked up and its arguments are read, both from what was looked at already.
pub(crate) fn call(
    link: &Arc<ServerConnection>,
    asked: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let Some(Some(name)) = asked.meta.mcp_name(Call::NAME) else {
        // The careful reading says what is wrong with it.
        read_params::<Call>(asked.request.params(), asked.revision)?;
        return Err(RpcError::Internal);
    };
    let arguments = match asked.meta.arguments() {
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
    if !entry.header_params.is_empty()
        && Era::from(asked.revision).mirrors_arguments()
        && asked.caller.headers.is_present()
    {
        check_header_params(&entry, arguments, &asked.caller.headers)?;
    }
    let owner = context.set_owner(found.owner);
    resume::<Call>(link, asked, context)?;
    let states = owner.as_ref().map_or(&link.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Json(arguments), context, states };
    let answer = call_handler(&entry, arguments, &parts);
    let answer = match entry.tool.timeout {
        Some(limit) => Box::pin(ToolTimeout::new(answer, context.get(), limit)) as HandlerFuture<_>,
        None => answer,
    };
    let answer = match entry.output_validator {
        Some(_) => Box::pin(validate_result(answer, entry)) as HandlerFuture<_>,
        None => answer,
    };
    Ok(link.run_handler::<Call>(asked, context, answer))
}

/// Resumes a call that has asked before, if this is one.
pub(crate) fn resume<M: Method>(
    link: &ServerConnection,
    asked: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<(), RpcError> {
    let (state, answers) = (asked.meta.request_state(), asked.meta.input_responses());
    if !Era::from(asked.revision).repeats_handlers() || state.is_none() && answers.is_none() {
        return Ok(());
    }
    let round = resume_round(&link.config, asked.principal(), &state_binding::<M>(asked), state, answers)?;
    if let Some(round) = round {
        context.resume(round);
    }
    Ok(())
}

/// Fails unless the headers repeat what the arguments say.
fn check_header_params(entry: &ToolEntry, arguments: Raw<'_>, headers: &Headers) -> Result<(), RpcError> {
    let value: Value = arguments.read().map_err(|error| RpcError::invalid_params(&error))?;
    entry.header_params.check(&value, |name| headers.single(&format!("mcp-param-{name}")))
}

fn call_handler(entry: &ToolEntry, arguments: Raw<'_>, parts: &CallParts<'_>) -> HandlerFuture<CallResult> {
    if let Some(validator) = &entry.input_validator {
        let checked = match arguments.read::<Value>() {
            Ok(value) => validator.check(&value),
            Err(error) => Err(format!("invalid arguments: {error}")),
        };
        if let Err(text) = checked {
            return ready_error(InvocationError::Handler(HandlerError::new(text)));
        }
    }
    match &entry.tool.handler {
        Some(handler) => handler.call(parts),
        None => ready_error(InvocationError::internal()),
    }
}

/// Checks what the tool returns against its own schema: a mistake is the server's.
async fn validate_result(
    answer: HandlerFuture<CallResult>,
    entry: Arc<ToolEntry>,
) -> Result<CallResult, InvocationError> {
    let result = answer.await?;
    let Some(validator) = &entry.output_validator else { return Ok(result) };
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
            Err(InvocationError::internal())
        }
    }
}

/// A call with a time limit. The clock stands while somebody takes their time to answer.
struct ToolTimeout {
    future: HandlerFuture<CallResult>,
    context: Context,
    timeout: Duration,
    started: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl ToolTimeout {
    fn new(future: HandlerFuture<CallResult>, context: Context, timeout: Duration) -> Self {
        let started = Instant::now();
        Self { future, context, timeout, started, sleep: Box::pin(tokio::time::sleep(timeout)) }
    }
}

impl Future for ToolTimeout {
    type Output = Result<CallResult, InvocationError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            let left = (self.timeout + self.context.paused_time()).saturating_sub(self.started.elapsed());
            if left.is_zero() {
                let text = format!("the tool took longer than {:?}", self.timeout);
                return Poll::Ready(Err(InvocationError::Handler(HandlerError::new(text))));
            }
            let next = Instant::now() + left;
            self.sleep.as_mut().reset(next);
        }
        Poll::Pending
    }
}
