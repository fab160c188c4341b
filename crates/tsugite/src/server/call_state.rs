//! The state of one call, which its [`Context`](super::Context) handles and the code that runs its handler share.
//!
//! User code holds [`Context`](super::Context) handles, which are counted. The server's own code holds the state itself and
//! is not counted, so that the driver knows whether user code outside the handler can still ask a question.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::Id;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::{ClientCapabilities, Implementation, Meta};
use tsugite_core::revision::Revision;
use tsugite_core::session::inbound::MonotonicProgress;

use super::Server;
use super::ask_error::AskError;
use super::cancellation::CancellationToken;
use super::config::RedactFn;
use super::connection::ServerConnection;
use super::handler_error::InvocationError;
use super::kept_call::KeptRequest;
use super::notification_limit::{LimitedNotifications, NotificationLimit};
use super::outgoing_requests::OutgoingRequests;
use super::principal::Caller;
use super::round::{DriverHandle, Round};
use super::task_slot::TaskSlot;
use crate::lock::lock;
use crate::shared::outbound_queue::OutboundQueue;

/// The state of one call.
pub(crate) struct CallState {
    pub(super) settings: CallSettings,
    pub(super) progress: Option<(Id<'static>, Mutex<MonotonicProgress>)>,
    pub(super) cancellation: CancellationToken,
    pub(super) notifications: LimitedNotifications,
    /// Progress and logs end with the request.
    ended: AtomicBool,
    round: OnceLock<Arc<Round>>,
    /// The task that the call is or may become.
    pub(crate) task: TaskSlot,
    driver: DriverHandle,
    clock: Mutex<CallClock>,
    /// Why the last question failed, if one did.
    ask_error: Mutex<Option<Box<AskError>>>,
    /// [`Context`](super::Context) handles in user code.
    handles: AtomicUsize,
    /// The handles that the handler had before its first poll.
    handler_handles: AtomicUsize,
}

/// The constant part of a call.
pub(super) struct CallSettings {
    pub(super) server: Server,
    pub(super) outbox: Arc<OutboundQueue>,
    /// For messages after the response.
    pub(super) connection: Weak<ServerConnection>,
    pub(super) outgoing_requests: Arc<OutgoingRequests>,
    pub(super) revision: Revision,
    pub(super) client: ClientInfo,
    /// Functions that remove secrets from logs: the server's, and those of the mounted server that has the handler.
    pub(super) redact: [Option<RedactFn>; 2],
    pub(super) caller: Caller,
    pub(super) may_ask: bool,
    /// Whether the tool allows tasks.
    pub(super) allows_tasks: bool,
    pub(super) ask_timeout: Duration,
    pub(super) notification_limit: NotificationLimit,
}

/// The client's declarations: its name, its capabilities and its log level.
pub(super) struct ClientInfo {
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
    /// The lowest level of log messages that it wants; `None` for no logs.
    pub(super) log_level: Option<Level>,
}

impl CallState {
    pub(super) fn new(
        settings: CallSettings,
        progress_token: Option<Id<'static>>,
        cancellation: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            settings,
            progress: progress_token.map(|token| (token, Mutex::default())),
            cancellation,
            notifications: LimitedNotifications::default(),
            ended: AtomicBool::new(false),
            round: OnceLock::new(),
            task: TaskSlot::default(),
            driver: DriverHandle::default(),
            clock: Mutex::default(),
            ask_error: Mutex::default(),
            handles: AtomicUsize::new(0),
            handler_handles: AtomicUsize::new(0),
        })
    }

    pub(crate) fn revision(&self) -> Revision {
        self.settings.revision
    }

    /// The stored form of the call, if it can be kept while its handler waits.
    pub(super) fn kept(&self) -> Option<&Arc<KeptRequest>> {
        self.settings.caller.kept.as_ref().filter(|_| self.settings.may_ask && !self.is_task())
    }

    /// Whether the call is a task.
    pub(super) fn is_task(&self) -> bool {
        self.task.running().is_some()
    }

    /// Whether the tool allows tasks.
    pub(super) fn allows_tasks(&self) -> bool {
        self.settings.allows_tasks
    }

    /// Whether progress and logs can be sent: not for a task of the extension.
    pub(super) fn can_notify(&self) -> bool {
        !(self.revision().has_task_extension() && self.is_task())
    }

    /// Whether the handler runs again and has not used all stored answers: the client has seen its notifications.
    pub(super) fn is_replaying(&self) -> bool {
        self.settings.caller.kept.is_some()
            && self.round.get().is_some_and(|round| round.has_unused_answers())
    }

    /// Marks a message as one of the task, where the revision demands that.
    pub(super) fn set_related_task(&self, meta: &mut Option<Meta>) {
        if let Some(task) = self.task.running().filter(|_| self.revision().has_core_tasks()) {
            meta.get_or_insert_with(Meta::new).set_related_task(task.id());
        }
    }

    /// Remembers why a question failed.
    pub(super) fn record_ask_error(&self, error: &AskError) {
        *lock(&self.ask_error) = Some(Box::new(error.clone()));
    }

    /// Restores the failed question behind a hidden error. `anyhow::Error` and similar types hide the type of the error
    /// inside, but not its text.
    pub(super) fn restore_ask_error<O>(
        &self,
        outcome: Result<O, InvocationError>,
    ) -> Result<O, InvocationError> {
        outcome.map_err(|error| match (error, lock(&self.ask_error).take()) {
            (InvocationError::Handler(hidden), Some(ask)) if hidden.mentions(&ask.to_string()) => {
                InvocationError::Handler((*ask).into())
            }
            (error, _) => error,
        })
    }

    /// Ends the call: it is answered or dropped, and nothing more is sent or asked for it.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.task.refuse();
        if let Some(round) = self.round.get() {
            round.close();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns this round of the handler, which is recorded from its first question on.
    pub(crate) fn round(&self) -> Arc<Round> {
        let round = self.round.get_or_init(Arc::default).clone();
        if self.has_ended() {
            round.close();
        }
        round
    }

    pub(crate) fn current_round(&self) -> Option<&Arc<Round>> {
        self.round.get()
    }

    /// Continues a call with the answers of earlier rounds.
    pub(super) fn resume(&self, round: Round) {
        drop(self.round.set(Arc::new(round)));
    }

    /// The driver that polls the handler.
    pub(super) fn driver(&self) -> &DriverHandle {
        &self.driver
    }

    /// Counts a handle that is given to user code.
    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::SeqCst);
    }

    /// Uncounts a handle that user code has dropped.
    pub(super) fn remove_handle(&self) {
        self.handles.fetch_sub(1, Ordering::SeqCst);
        // Only a call that has asked can be waiting for its handles.
        if self.round.get().is_none() {
            return;
        }
        self.driver.recheck();
    }

    /// Records the current handles as those of the handler itself, which cannot ask while the handler is pending.
    pub(super) fn mark_handler_handles(&self) {
        self.handler_handles.store(self.handles.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Whether user code outside the pending handler may hold a handle. An open question holds one, too.
    pub(crate) fn has_handles_elsewhere(&self, open_questions: usize) -> bool {
        let idle = self.handler_handles.load(Ordering::SeqCst) + open_questions;
        self.handles.load(Ordering::SeqCst) > idle
    }

    /// Stops the timeout of the handler until the guard is dropped, while the client answers a question.
    pub(crate) fn pause_timeout(self: &Arc<Self>) -> PauseGuard {
        let mut clock = lock(&self.clock);
        clock.open_questions += 1;
        clock.paused_since.get_or_insert_with(Instant::now);
        PauseGuard(self.clone())
    }

    /// Whether the client has a question to answer.
    pub(super) fn is_paused(&self) -> bool {
        lock(&self.clock).paused_since.is_some()
    }

    /// How long the timeout was stopped so far.
    pub(crate) fn paused_time(&self) -> Duration {
        lock(&self.clock).paused_time()
    }

    /// Starts to measure how long the handler makes no progress.
    pub(super) fn start_idle_clock(&self) {
        lock(&self.clock).mark_progress();
    }

    /// Records that the handler reports progress.
    pub(super) fn mark_progress(&self) {
        let mut clock = lock(&self.clock);
        // Measured only for handlers that are still pending after their first poll.
        if clock.last_progress.is_some() {
            clock.mark_progress();
        }
    }

    /// How long the handler has made no progress, without the time of open questions.
    pub(super) fn idle_time(&self) -> Duration {
        let clock = lock(&self.clock);
        match clock.last_progress {
            Some((at, paused)) => (at.elapsed() + paused).saturating_sub(clock.paused_time()),
            None => Duration::ZERO,
        }
    }
}

/// The time that a handler has spent.
#[derive(Default)]
struct CallClock {
    open_questions: usize,
    /// Since when a question has been open.
    paused_since: Option<Instant>,
    /// How long questions were open before.
    paused_total: Duration,
    /// When the handler last made progress, and how long questions had been open until then.
    last_progress: Option<(Instant, Duration)>,
}

impl CallClock {
    fn paused_time(&self) -> Duration {
        self.paused_total + self.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn mark_progress(&mut self) {
        self.last_progress = Some((Instant::now(), self.paused_time()));
    }
}

/// Stops the timeout of a handler while it exists.
pub(crate) struct PauseGuard(Arc<CallState>);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut clock = lock(&self.0.clock);
        clock.open_questions -= 1;
        if clock.open_questions == 0
            && let Some(since) = clock.paused_since.take()
        {
            clock.paused_total += since.elapsed();
        }
    }
}

/// Ends a call when its future is dropped, whether it was answered, aborted or timed out.
pub(crate) struct EndGuard(pub(crate) Arc<CallState>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.end();
            // There is no response, so tasks that the handler started can stop.
            self.0.cancellation.cancel();
        }
    }
}
