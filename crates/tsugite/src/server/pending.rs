//! Handlers that are still pending after their first poll: registering, running and finishing them.
//!
//! [`ServerConnection::run_handler`] polls a handler once, inline. If that completes it, the response is written at once.
//! Otherwise the rest becomes a [`PendingRequest`], a future that the transport runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use std::time::Duration;

use tsugite_core::jsonrpc::{Id, Request};
use tsugite_core::protocol::mrtr::{InputRequests, InputRequired};
use tsugite_core::protocol::tasks::CreateTaskResult;
use tsugite_core::protocol::tools::{Call, CallOutput};
use tsugite_core::revision::{Revision, RpcError};
use tsugite_core::session::inbound::ResponseAction;

use super::ask::{self, BoxedHandler, DriveOutcome, HandlerDriver, KeptQuestions, StateBinding};
use super::call_state::{CallState, EndGuard};
use super::cancellation::CancellationToken;
use super::connection::ServerConnection;
use super::failure;
use super::handler::HandlerFuture;
use super::handler_error::{HandlerError, InvocationError};
use super::handler_method::HandlerMethod;
use super::in_flight::AdmissionError;
use super::incoming_request::{IncomingRequest, Tracking};
use super::key_state::KeyedRun;
use super::lazy_context::LazyContext;
use super::limits::{CallerKey, NestedPermit, NestedPermits};
use super::poll_timer::{PollTimer, poll_timed};
use super::response_writer::ResponseWriter;
use super::round::RoundHistory;
use super::running_handler::{IdleTimeout, RunningHandler};
use super::subject::Subject;
use super::task_run::{self, CreatedTask, SendOutcomeFn, StartError, TaskRun};
use crate::shared::boxed::boxed;
use crate::shared::panic::{CatchPanic, PanicError};

/// A request that is not answered yet. The transport runs `future`, which writes the response.
pub(crate) struct PendingRequest {
    id: Id<'static>,
    serial: u64,
    pub(crate) cancellation: CancellationToken,
    pub(crate) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl ServerConnection {
    /// Runs pending requests as tasks of their own, which a cancellation or the end of the connection aborts.
    pub(crate) fn spawn(&self, pending: Vec<PendingRequest>) {
        for PendingRequest { id, serial, future, .. } in pending {
            let task = tokio::spawn(future);
            self.in_flight.set_task(&id, serial, task.abort_handle());
        }
    }

    /// Polls a handler once, and answers the request if that completes it. Returns the rest of the work otherwise, which ends
    /// if it makes no progress for `idle_timeout`.
    pub(crate) fn run_handler<M: HandlerMethod>(
        self: &Arc<Self>,
        request: IncomingRequest<'_>,
        context: &LazyContext<'_>,
        subject: Subject<'_>,
        handler: HandlerFuture<M::HandlerOutput>,
        idle_timeout: Option<Duration>,
    ) -> Option<PendingRequest> {
        if let Some(call) = context.built() {
            call.mark_handler_handles();
        }
        let mut handler = CatchPanic::new(handler);
        let clock = self.config.poll_clock;
        let mut cx = task::Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = poll_timed(&mut handler, &subject, clock, &mut cx) {
            let outcome = match context.built() {
                Some(call) => {
                    call.complete();
                    outcome.map(|outcome| call.restore_ask_error(outcome))
                }
                None => outcome,
            };
            self.send_outcome::<M>(request.revision, &request.request.id, &subject, outcome, request.writer);
            return None;
        }
        let subject = Arc::new(subject.into_owned());
        let handler = self.boxed_handler::<M>(handler, context.state(), &subject, idle_timeout);
        let binding = (M::MAY_REQUEST_INPUT && request.revision.is_stateless())
            .then(|| StateBinding::for_request::<M>(&request));
        let pending = PendingHandler {
            call: context.state().clone(),
            subject,
            binding,
            send_input_required: send_input_required::<M>,
            handler,
            may_ask: M::MAY_REQUEST_INPUT,
        };
        self.continue_pending(request, pending)
    }

    /// Runs a handler as a task from the start, and answers with the task when its record is stored.
    pub(crate) fn run_as_task<M: HandlerMethod>(
        self: &Arc<Self>,
        request: IncomingRequest<'_>,
        context: &LazyContext<'_>,
        subject: Subject<'_>,
        handler: HandlerFuture<M::HandlerOutput>,
        idle_timeout: Option<Duration>,
    ) -> Option<PendingRequest> {
        let (call, subject) = (context.state().clone(), Arc::new(subject.into_owned()));
        call.mark_handler_handles();
        let handler = self.boxed_handler::<M>(CatchPanic::new(handler), &call, &subject, idle_timeout);
        let id = request.request.id.clone().into_owned();
        let run = TaskRun {
            connection: self.clone(),
            call: call.clone(),
            id: id.clone(),
            handler,
            end_guard: EndGuard(call.clone()),
        };
        if let Some(resumed) = &request.caller.resumed_task {
            call.task.set_running(resumed.clone());
            let table = self.server.shared.tasks().clone();
            tokio::spawn(boxed(task_run::run_task(table, resumed.clone(), run)));
            return None;
        }
        let (connection, revision, writer) = (self.clone(), request.revision, request.writer.clone());
        let table = self.server.shared.tasks().clone();
        let keyed_run = request.caller.keyed_run.clone();
        self.register_pending(request, call.cancellation.clone(), async move {
            let started = task_run::start(table, run).await;
            move || match started {
                Ok(created) => connection.send_task(revision, &id, created, &writer, keyed_run),
                Err(StartError { error, .. }) => writer.send_error(Some(&id), &error, revision),
            }
        })
    }

    /// Answers a call with the task that it has become. With a key the task begins when its id is stored and sent.
    fn send_task(
        &self,
        revision: Revision,
        id: &Id<'_>,
        created: CreatedTask,
        writer: &ResponseWriter,
        keyed_run: Option<KeyedRun>,
    ) {
        let mut output = CallOutput::from(CreateTaskResult::new(created.stored.task()));
        writer.send_result::<Call>(id, &mut output, revision, &self.config.stamp);
        match keyed_run {
            Some(run) => run.hold_task(Box::new(|| created.announced())),
            None => created.announced(),
        }
    }

    /// Boxes a handler with its time limit. Its output writes the response.
    fn boxed_handler<M: HandlerMethod>(
        &self,
        handler: CatchPanic<HandlerFuture<M::HandlerOutput>>,
        call: &Arc<CallState>,
        subject: &Arc<Subject<'static>>,
        idle_timeout: Option<Duration>,
    ) -> BoxedHandler<SendOutcomeFn> {
        let (call, named) = (call.clone(), subject.clone());
        let handler = PollTimer { handler, subject: subject.clone(), clock: self.config.poll_clock };
        Box::pin(async move {
            let outcome = match idle_timeout {
                Some(timeout) => IdleTimeout::new(handler, call.clone(), timeout).await,
                None => Ok(handler.await),
            };
            let outcome = outcome.unwrap_or_else(|timeout| {
                let text = format!("the {} made no progress for {timeout:?}", named.kind);
                Ok(Err(InvocationError::Handler(HandlerError::new(text))))
            });
            let outcome = outcome.map(|outcome| call.restore_ask_error(outcome));
            let send: SendOutcomeFn = Box::new(move |connection, revision, id, writer| {
                connection.send_outcome::<M>(revision, id, &named, outcome, writer);
            });
            send
        })
    }

    /// Registers a handler that is still pending. Not generic over the method, so it is compiled once.
    fn continue_pending(
        self: &Arc<Self>,
        request: IncomingRequest<'_>,
        pending: PendingHandler,
    ) -> Option<PendingRequest> {
        let PendingHandler { call, subject, binding, send_input_required, handler, may_ask } = pending;
        let kept = request.caller.kept.clone().filter(|_| may_ask);
        let kept = kept.map(|kept| {
            let params = request.request.params().to_owned();
            KeptQuestions::new(kept, call.clone(), request.request.method.to_string(), params)
        });
        let (connection, revision, writer) = (self.clone(), request.revision, request.writer.clone());
        let keyed_run = request.caller.keyed_run.clone();
        let id = request.request.id.clone().into_owned();
        let caller = self.limits.caller(CallerKey::of_caller(request.caller));
        let permits = self.limits.handler_permits(caller.as_deref());
        let run = TaskRun {
            connection: self.clone(),
            call: call.clone(),
            id: id.clone(),
            handler,
            end_guard: EndGuard(call.clone()),
        };
        let running = run_to_end(run, subject, kept, permits);
        self.register_pending(request, call.cancellation.clone(), async move {
            let (outcome, permit) = running.await;
            // Back-pressure: while the peer does not read, the handler keeps its permit.
            writer.outbox.wait_for_capacity().await;
            drop((permit, caller));
            move || {
                let sent = match (outcome, binding) {
                    (PendingOutcome::Task(created), _) => {
                        connection.send_task(revision, &id, created, &writer, keyed_run);
                        Ok(())
                    }
                    (PendingOutcome::Complete(send), _) => {
                        send(&connection, revision, &id, &writer);
                        Ok(())
                    }
                    (PendingOutcome::InputRequired(requests, history), Some(binding)) => {
                        let (config, principal) =
                            (&connection.config, call.settings.caller.principal.as_ref());
                        ask::build_input_required(config, principal, &binding, requests, history)
                            .and_then(|input| send_input_required(&connection, revision, &id, input, &writer))
                    }
                    (PendingOutcome::InputRequired(..), None) => Err(RpcError::Internal),
                    (PendingOutcome::Error(error), _) => Err(error),
                    (PendingOutcome::TakenOver, _) => Ok(()),
                };
                if let Err(error) = sent {
                    writer.send_error(Some(&id), &error, revision);
                }
            }
        })
    }

    /// Registers and counts a request that is still pending. `work` returns the function that writes the response, which is
    /// called only if the request was not cancelled meanwhile.
    pub(crate) fn register_pending<S: FnOnce() + Send>(
        self: &Arc<Self>,
        request: IncomingRequest<'_>,
        cancellation: CancellationToken,
        work: impl Future<Output = S> + Send + 'static,
    ) -> Option<PendingRequest> {
        // A request inside of a layer is counted by the layer.
        let permit = match request.tracking {
            Tracking::Layer(_) => None,
            Tracking::Connection | Tracking::Untracked => {
                Some(self.limits.begin_pending(request.caller, pending_bytes(request.request)))
            }
        };
        self.register_stream(request, cancellation, async move {
            let send = work.await;
            drop(permit);
            send
        })
    }

    /// Registers a request that is not answered until its stream ends. The stream is counted, not the request.
    pub(crate) fn register_stream<S: FnOnce() + Send>(
        self: &Arc<Self>,
        request: IncomingRequest<'_>,
        cancellation: CancellationToken,
        work: impl Future<Output = S> + Send + 'static,
    ) -> Option<PendingRequest> {
        let id = request.request.id.clone().into_owned();
        if !matches!(request.tracking, Tracking::Connection) {
            let future = Box::pin(async move { (work.await)() });
            return Some(PendingRequest { id, serial: 0, cancellation, future });
        }
        let serial = match self.in_flight.begin(&id, &request.request.method, cancellation.clone()) {
            Ok(serial) => serial,
            Err(AdmissionError::Cancelled) => return None,
            Err(AdmissionError::Error(error)) => {
                request.send_error(&error);
                return None;
            }
        };
        let unanswered = UnansweredGuard::new(self, id.clone(), serial);
        let future = Box::pin(async move {
            let send = work.await;
            // A batch is written with its last response, which must happen before the guard is dropped.
            match unanswered.connection.in_flight.complete(&unanswered.id, serial) {
                ResponseAction::Send => send(),
                ResponseAction::Drop => drop(send),
            }
            drop(unanswered);
        });
        Some(PendingRequest { id, serial, cancellation, future })
    }

    /// Writes the response for a handler that has completed, failed or panicked.
    fn send_outcome<M: HandlerMethod>(
        &self,
        revision: Revision,
        id: &Id<'_>,
        subject: &Subject<'_>,
        outcome: HandlerOutcome<M::HandlerOutput>,
        writer: &ResponseWriter,
    ) {
        let output = match outcome {
            Ok(Ok(output)) => Ok(M::output(output)),
            Ok(Err(error)) => {
                let (error, cause) = failure::report(error, subject, id);
                self.keep_failure_cause(id, cause);
                M::error_output(error, revision)
            }
            Err(panic) => {
                self.keep_failure_cause(id, Some(failure::report_panic(panic, subject, id)));
                Err(RpcError::Internal)
            }
        };
        let output = output.and_then(|output| match M::check(&output) {
            Ok(()) => Ok(output),
            Err(text) => {
                let (_, cause) = failure::report(InvocationError::internal(text), subject, id);
                self.keep_failure_cause(id, cause);
                Err(RpcError::Internal)
            }
        });
        match output {
            Ok(mut output) => writer.send_result::<M>(id, &mut output, revision, &self.config.stamp),
            Err(error) => writer.send_error(Some(id), &error, revision),
        }
    }
}

/// The bytes that a pending request is counted with: its params, which the handler holds in some form, and its state.
pub(crate) fn pending_bytes(request: &Request<'_>) -> usize {
    params_bytes(request.params().text())
}

/// The same by the params of a request.
pub(crate) fn params_bytes(params: &str) -> usize {
    params.len() + PENDING_STATE_BYTES
}

const PENDING_STATE_BYTES: usize = 4 << 10;

/// Runs a handler until its request can be answered. The call may become a task on the way, which runs the handler from then
/// on; if that fails, the handler goes on here.
async fn run_to_end(
    mut run: TaskRun,
    subject: Arc<Subject<'static>>,
    mut kept: Option<KeptQuestions>,
    permits: NestedPermits,
) -> (PendingOutcome, Option<NestedPermit>) {
    loop {
        let TaskRun { connection, call, id, handler, end_guard } = run;
        let round_timeout = connection.config.round_timeout;
        let driver = HandlerDriver::new(handler, call.clone(), round_timeout, subject.clone(), kept.take());
        let (outcome, permit) = RunningHandler::new(driver, call.clone(), permits.clone()).await;
        let outcome = match outcome {
            DriveOutcome::BecomesTask(handler) => Err(handler),
            DriveOutcome::Complete(send) => Ok(PendingOutcome::Complete(send)),
            DriveOutcome::InputRequired(requests, history) => {
                Ok(PendingOutcome::InputRequired(requests, history))
            }
            DriveOutcome::Error(error) => Ok(PendingOutcome::Error(error)),
            DriveOutcome::TakenOver => Ok(PendingOutcome::TakenOver),
        };
        let handler = match outcome {
            Err(handler) => handler,
            Ok(outcome) => {
                call.complete();
                return (outcome, permit);
            }
        };
        let table = connection.server.shared.tasks().clone();
        match task_run::start(table, TaskRun { connection, call, id, handler, end_guard }).await {
            Ok(created) => return (PendingOutcome::Task(created), permit),
            Err(refused) => {
                refused.run.call.task.refuse();
                run = refused.run;
            }
        }
    }
}

/// How a handler that was pending leaves its request.
enum PendingOutcome {
    Complete(SendOutcomeFn),
    InputRequired(InputRequests, RoundHistory),
    Error(RpcError),
    TakenOver,
    /// The call has become a task.
    Task(CreatedTask),
}

/// A handler after its first poll.
struct PendingHandler {
    call: Arc<CallState>,
    subject: Arc<Subject<'static>>,
    /// The binding of the call's sealed state, if the handler may request input.
    binding: Option<StateBinding>,
    send_input_required: SendInputRequiredFn,
    handler: BoxedHandler<SendOutcomeFn>,
    may_ask: bool,
}

/// How a handler ended.
type HandlerOutcome<O> = Result<Result<O, InvocationError>, PanicError>;

/// Answers with requests for input, for methods that have such a result.
type SendInputRequiredFn =
    fn(&ServerConnection, Revision, &Id<'_>, InputRequired, &ResponseWriter) -> Result<(), RpcError>;

fn send_input_required<M: HandlerMethod>(
    connection: &ServerConnection,
    revision: Revision,
    id: &Id<'_>,
    input: InputRequired,
    writer: &ResponseWriter,
) -> Result<(), RpcError> {
    let mut output = M::input_required(input).ok_or(RpcError::Internal)?;
    writer.send_result::<M>(id, &mut output, revision, &connection.config.stamp);
    Ok(())
}

/// Counts a request as unanswered until its response is written or its future is dropped. Then its id is free again.
struct UnansweredGuard {
    connection: Arc<ServerConnection>,
    id: Id<'static>,
    serial: u64,
}

impl UnansweredGuard {
    fn new(connection: &Arc<ServerConnection>, id: Id<'static>, serial: u64) -> Self {
        connection.in_flight.add_unanswered();
        Self { connection: connection.clone(), id, serial }
    }
}

impl Drop for UnansweredGuard {
    fn drop(&mut self) {
        let connection = &self.connection;
        let _ = connection.in_flight.complete(&self.id, self.serial);
        connection.in_flight.remove_unanswered();
        connection.push.notify_idle();
    }
}
