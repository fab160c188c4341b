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
use super::ask::{StateBinding, resume_round};
use super::call_state::CallState;
use super::connection::ServerConnection;
use super::duplicate_names::{duplicate_name_text, find_duplicate_name};
use super::handler::{CallParts, HandlerFuture, ready_error};
use super::handler_error::{HandlerError, InvocationError};
use super::idempotency::{self, KeyedCall};
use super::incoming_request::IncomingRequest;
use super::lazy_context::{LazyContext, TaskRole};
use super::pending::PendingRequest;
use super::principal::Headers;
use super::registry::ToolEntry;
use super::subject::Subject;
use super::tool::ToolTimeout;
use super::{task_offer, task_run};
use crate::era::Era;

/// Starts a `tools/call`: finds the tool and reads the arguments from the request metadata that was already parsed.
pub(crate) fn call(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let Some(Some(name)) = request.meta.mcp_name(Call::NAME) else {
        // Parsing again produces the precise error.
        read_params::<Call>(request.request.params(), request.revision)?;
        return Err(RpcError::Internal);
    };
    let arguments = match request.meta.arguments() {
        None => Raw::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(_) => {
            return Err(RpcError::InvalidParams("Invalid params: `arguments` must be an object".into())
                .with("path", "arguments")
                .with("expected", "an object"));
        }
    };
    let shared = &connection.server.shared;
    let found = shared.find::<ToolEntry>(&connection.config, request.principal(), name);
    let found = found.ok_or_else(|| RpcError::UnknownTool { name: name.to_owned() })?;
    let entry = found.item;
    connection.config.check_scopes(request.principal(), &entry.tool.scopes)?;
    if !entry.header_params.is_empty()
        && Era::from(request.revision).mirrors_arguments()
        && request.caller.headers.is_present()
    {
        check_header_params(&entry, arguments, &request.caller.headers)?;
    }
    if let (false, Some(kept)) = (entry.tool.keeps_questions, &request.caller.kept) {
        kept.bind_to_request();
    }
    let owner = context.set_owner(found.owner);
    let task = task_offer::decide(connection, request, name, &entry.tool)?;
    context.set_task_role(task.role);
    if let Some(resumed) = &request.caller.resumed_task {
        context.resume(task_run::restored_round(&resumed.snapshot().state));
    } else {
        resume::<Call>(connection, request, context)?;
    }
    // A task that goes on here has its record, and needs no key.
    if entry.tool.once
        && request.caller.keyed_run.is_none()
        && request.caller.resumed_task.is_none()
        && let Some(call) = KeyedCall::from_request(request, name, &entry.tool)?
    {
        return Ok(idempotency::serve(connection, request, call));
    }
    if let Some(offer) = task.offer {
        context.state().task.set_offer(offer);
    }
    let states = owner.as_ref().map_or(&connection.config.states, |config| &config.states);
    let parts = CallParts { arguments: Arguments::Json(arguments), context, states };
    let answer = call_handler(&entry, arguments, &parts);
    let answer = match &request.caller.keyed_run {
        Some(run) => idempotency::observe_begin(run, answer),
        None => answer,
    };
    let (answer, idle_timeout) = match entry.tool.timeout {
        ToolTimeout::Server => (answer, connection.config.call_timeout),
        ToolTimeout::None => (answer, None),
        ToolTimeout::After(limit) => {
            let limited = TimedHandler::new(answer, context.state().clone(), limit);
            (Box::pin(limited) as HandlerFuture<_>, None)
        }
    };
    let answer = match entry.output_validator {
        Some(_) => Box::pin(validate_result(answer, entry)) as HandlerFuture<_>,
        None => answer,
    };
    let subject = Subject::tool(name);
    Ok(match task.role {
        TaskRole::Task => connection.run_as_task::<Call>(request, context, subject, answer, idle_timeout),
        TaskRole::Forbidden | TaskRole::Optional => {
            connection.run_handler::<Call>(request, context, subject, answer, idle_timeout)
        }
    })
}

/// Restores the state of earlier rounds if this call answers an `input_required` result.
pub(crate) fn resume<M: Method>(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<(), RpcError> {
    let (state, answers) = (request.meta.request_state(), request.meta.input_responses());
    if !Era::from(request.revision).repeats_handlers() || state.is_none() && answers.is_none() {
        return Ok(());
    }
    let round = resume_round(
        &connection.config,
        request.principal(),
        &StateBinding::for_request::<M>(&request),
        state,
        answers,
    )?;
    if let Some(round) = round {
        context.resume(round);
    }
    Ok(())
}

/// Checks that the mirrored HTTP headers match the arguments.
fn check_header_params(entry: &ToolEntry, arguments: Raw<'_>, headers: &Headers) -> Result<(), RpcError> {
    let value: Value = arguments.read().map_err(|error| RpcError::invalid_params(&error))?;
    entry.header_params.check(&value, |name| headers.single(&format!("mcp-param-{name}")))
}

fn call_handler(entry: &ToolEntry, arguments: Raw<'_>, parts: &CallParts<'_>) -> HandlerFuture<CallResult> {
    // The validator checks the last of two equal names; a handler of raw arguments could read the first.
    if !entry.tool.typed
        && let Some(name) = find_duplicate_name(arguments.text())
    {
        let text = format!("invalid arguments: {}", duplicate_name_text(&name));
        return ready_error(InvocationError::Handler(HandlerError::new(text)));
    }
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
        None => ready_error(InvocationError::internal("the tool has no handler")),
    }
}

/// Validates the tool's output against its schema. A mismatch is a bug of the server.
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
        None => Err("the tool declares an output schema but returned no structured content".to_owned()),
        Some(json) => match json.read::<Value>() {
            Ok(value) => validator.check(&value),
            Err(error) => Err(error.to_string()),
        },
    };
    match fits {
        Ok(()) => Ok(result),
        Err(error) => {
            Err(InvocationError::internal(format!("the result does not match its output schema: {error}")))
        }
    }
}

/// A handler with a time limit. The clock stops while the handler waits for an answer of the client.
struct TimedHandler {
    future: HandlerFuture<CallResult>,
    call: Arc<CallState>,
    timeout: Duration,
    started: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl TimedHandler {
    fn new(future: HandlerFuture<CallResult>, call: Arc<CallState>, timeout: Duration) -> Self {
        let started = Instant::now();
        Self { future, call, timeout, started, sleep: Box::pin(tokio::time::sleep(timeout)) }
    }
}

impl Future for TimedHandler {
    type Output = Result<CallResult, InvocationError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        // The time limit must not pass for something that makes the handler go on.
        let waker = self.call.driver().waker().unwrap_or_else(|| cx.waker().clone());
        let mut cx = task::Context::from_waker(&waker);
        while self.sleep.as_mut().poll(&mut cx).is_ready() {
            let left = (self.timeout + self.call.paused_time()).saturating_sub(self.started.elapsed());
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
