//! The context of a call, built on first use, because most handlers do not use one.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use super::call_state::{CallSettings, CallState, ClientInfo};
use super::connection::ServerConnection;
use super::context::Context;
use super::incoming_request::IncomingRequest;
use super::limits::NestedPermits;
use super::principal::{Headers, Principal};
use super::round::Round;
use super::{Config, Server, ServerShared};
use crate::era::Era;
use crate::shared::outbound_queue::OutboundQueue;

/// The parts of a call that are available before its context is built.
pub(crate) trait CallContext {
    /// Returns a new context handle for user code.
    fn get(&self) -> Context;
    fn principal(&self) -> Option<&Principal>;
    fn headers(&self) -> &Headers;
    /// The permits for blocking handlers.
    fn blocking_permits(&self) -> NestedPermits;
}

impl CallContext for LazyContext<'_> {
    fn get(&self) -> Context {
        Context::new(self.state())
    }

    fn principal(&self) -> Option<&Principal> {
        self.incoming.principal()
    }

    fn headers(&self) -> &Headers {
        if let Some(kept) = &self.incoming.caller.kept {
            kept.bind_to_request();
        }
        if self.task_role.get() != TaskRole::Forbidden {
            self.state().task.mark_headers_used();
        }
        &self.incoming.caller.headers
    }

    fn blocking_permits(&self) -> NestedPermits {
        self.connection.limits.blocking_permits(self.incoming.caller)
    }
}

/// Whether a call is a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskRole {
    /// It never is: its tool does not allow tasks, or it calls no tool.
    Forbidden,
    /// The tool allows tasks.
    Optional,
    /// It is a task from the start.
    Task,
}

/// A context that is built when it is first needed.
pub(crate) struct LazyContext<'a> {
    connection: &'a Arc<ServerConnection>,
    incoming: IncomingRequest<'a>,
    may_ask: bool,
    task_role: Cell<TaskRole>,
    /// The mounted server that has the handler.
    owner: OnceCell<Arc<ServerShared>>,
    built: OnceCell<Arc<CallState>>,
}

impl<'a> LazyContext<'a> {
    pub(crate) fn new(
        connection: &'a Arc<ServerConnection>,
        incoming: IncomingRequest<'a>,
        may_ask: bool,
    ) -> Self {
        let task_role = Cell::new(TaskRole::Forbidden);
        Self { connection, incoming, may_ask, task_role, owner: OnceCell::new(), built: OnceCell::new() }
    }

    /// The state of the call, if it was built.
    pub(crate) fn built(&self) -> Option<&Arc<CallState>> {
        self.built.get()
    }

    /// The state of the call, built on first use.
    pub(crate) fn state(&self) -> &Arc<CallState> {
        self.built.get_or_init(|| self.build())
    }

    /// Sets the mounted server that has the handler, before the context is built; returns its settings.
    pub(crate) fn set_owner(&self, owner: Option<Arc<ServerShared>>) -> Option<Arc<Config>> {
        let config = owner.as_ref().map(|owner| owner.config());
        if let Some(owner) = owner {
            drop(self.owner.set(owner));
        }
        config
    }

    /// Sets whether the call is a task, before the context is built.
    pub(crate) fn set_task_role(&self, role: TaskRole) {
        self.task_role.set(role);
    }

    /// Continues a call with the answers of earlier rounds.
    pub(crate) fn resume(&self, round: Round) {
        self.state().resume(round);
    }

    fn build(&self) -> Arc<CallState> {
        let IncomingRequest { meta, revision, caller, tracking, writer, .. } = self.incoming;
        let connection = self.connection;
        let owner = self.owner.get();
        let role = self.task_role.get();
        let mut caller = caller.clone();
        // The messages of a task do not belong to the stream of its request, which ends first.
        let outbox = match role {
            TaskRole::Task if connection.can_push() && caller.resumed_task.is_none() => {
                connection.outbox().clone()
            }
            // No client reads them.
            TaskRole::Task => Arc::new(OutboundQueue::discarding()),
            TaskRole::Forbidden | TaskRole::Optional => writer.outbox.clone(),
        };
        if role == TaskRole::Task {
            caller.kept = None;
        }
        let resumed = caller.kept.as_ref().and_then(|kept| kept.resumed.clone());
        let settings = CallSettings {
            server: owner.map_or_else(|| connection.server.clone(), |owner| Server { shared: owner.clone() }),
            outbox,
            connection: Arc::downgrade(connection),
            outgoing_requests: connection.outgoing_requests().clone(),
            revision,
            client: self.client_info(),
            redact: [connection.config.redact.clone(), owner.and_then(|owner| owner.config().redact.clone())],
            caller,
            may_ask: self.may_ask,
            allows_tasks: role != TaskRole::Forbidden,
            ask_timeout: connection.config.ask_timeout,
            notification_limit: connection.config.notification_limit,
        };
        let state = CallState::new(settings, meta.progress_token(), tracking.cancellation_token());
        if let Some(history) = resumed {
            state.resume(Round::with_kept_history(history));
        }
        state
    }

    /// Returns what the client declared: in the request from 2026-07-28 on, in the handshake before.
    fn client_info(&self) -> ClientInfo {
        match Era::from(self.incoming.revision).declared_client(self.incoming.meta) {
            Some(client) => ClientInfo {
                info: client.info(),
                log_level: client.log_level,
                capabilities: client.capabilities,
            },
            None => {
                let (log_level, capabilities, info) = self.connection.session_info();
                ClientInfo { info, capabilities, log_level }
            }
        }
    }
}
