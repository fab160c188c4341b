//! Messages of the server: parses them and dispatches responses, notifications and requests.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, Incoming, Message, Notification, Raw, RawJson, Response, parse};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::logging::Log;
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{
    EmptyParams, Meta, NotificationMethod, elicitation, prompts, resources, subscriptions, tasks, tools,
};
use tsugite_core::revision::read_notification;

use super::client_handler::{self, Change};
use super::client_settings::Direction;
use super::connection::ClientConnection;
use super::era::Era;
use super::pending_calls::PendingCall;
use crate::lock::lock;
use crate::shared::log;

impl ClientConnection {
    /// Handles a line, a body or an event. `via` is the call on whose stream it arrived.
    ///
    /// Anything that is not a message is reported and skipped.
    pub(super) fn receive(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<PendingCall>>) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        self.shared.trace_message(Direction::Received, bytes);
        self.dispatch(bytes, via);
    }

    /// Handles bytes that were traced already.
    pub(super) fn dispatch(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<PendingCall>>) {
        match parse(bytes, &self.limits) {
            Ok(Incoming::Single(message)) => self.handle_message(message, via),
            Ok(Incoming::Batch(batch)) => {
                for message in batch.into_messages() {
                    match message {
                        Ok(message) => self.handle_message(message, via),
                        Err(error) => self.shared.report_invalid_message(bytes, &format!("{:?}", error.kind)),
                    }
                }
            }
            Err(error) => self.shared.report_invalid_message(bytes, &format!("{:?}", error.kind)),
        }
    }

    pub(super) fn handle_message(self: &Arc<Self>, message: Message<'_>, via: Option<&Arc<PendingCall>>) {
        match message {
            Message::Response(response) => self.handle_response(response),
            Message::Notification(notification) => self.handle_notification(&notification, via),
            Message::Request(request) => {
                // Before the negotiation the server may be of the handshake era, and then waits for a response.
                let era = self.negotiated.get().map_or(Era::Handshake, |session| Era::from(session.revision));
                era.handle_request(self, &request, via);
            }
        }
    }

    fn handle_response(&self, response: Response<'_>) {
        let Some(id) = response.id else {
            log::warn!(error = ?response.outcome.err(), "the server could not parse a message of the client");
            return;
        };
        if !self.calls.complete(&id, response.outcome.map(|result| result.to_owned())) {
            tracing::debug!(?id, "ignored a response without a pending request");
        }
    }

    fn handle_notification(
        self: &Arc<Self>,
        notification: &Notification<'_>,
        via: Option<&Arc<PendingCall>>,
    ) {
        self.forward_to_observer(notification, via.map(|call| call.id()));
        let revision = self.revision();
        let params = notification.params();
        match &*notification.method {
            Progress::NAME => {
                if let Ok(progress) = read_notification::<Progress>(params, revision) {
                    match self.calls.get(&progress.progress_token) {
                        Some(call) => call.handle_progress(progress),
                        None => self.task_tokens.handle_progress(progress),
                    }
                }
            }
            Log::NAME => {
                if let Ok(log) = read_notification::<Log>(params, revision)
                    && let Some(callback) = &self.shared.settings.handlers.log
                {
                    client_handler::invoke_callback(&**callback, log);
                }
            }
            Cancelled::NAME => {
                if let Ok(CancelledParams { request_id: Some(id), reason, .. }) =
                    read_notification::<Cancelled>(params, revision)
                {
                    self.era().handle_cancelled(self, &id, reason);
                }
            }
            tools::ListChanged::NAME => {
                self.notify_change(Change::Tools, read_meta(notification).as_ref(), via)
            }
            prompts::ListChanged::NAME => {
                self.notify_change(Change::Prompts, read_meta(notification).as_ref(), via)
            }
            resources::ListChanged::NAME => {
                self.notify_change(Change::Resources, read_meta(notification).as_ref(), via)
            }
            resources::Updated::NAME => {
                if let Ok(updated) = read_notification::<resources::Updated>(params, revision) {
                    self.notify_change(Change::Resource { uri: updated.uri }, updated.meta.as_ref(), via);
                }
            }
            elicitation::Complete::NAME => {
                if let Ok(done) = read_notification::<elicitation::Complete>(params, revision) {
                    self.complete_elicitation(&done.elicitation_id);
                    self.notify_change(Change::ElicitationComplete { id: done.elicitation_id }, None, via);
                }
            }
            tasks::StatusChanged::NAME => {
                if let Ok(changed) = read_notification::<tasks::StatusChanged>(params, revision) {
                    self.shared.task_watches.notify(&changed.task);
                }
            }
            tasks::TaskChanged::NAME => {
                if let Ok(changed) = read_notification::<tasks::TaskChanged>(params, revision) {
                    self.shared.task_watches.notify(&changed.task);
                }
            }
            subscriptions::Acknowledged::NAME => {
                if let Some(id) = read_meta(notification).and_then(|meta| meta.subscription_id()) {
                    let granted = read_notification::<subscriptions::Acknowledged>(params, revision);
                    self.shared
                        .acknowledge_subscription(&id, granted.ok().map(|params| params.notifications));
                }
            }
            other => tracing::debug!(method = other, "ignored an unknown notification"),
        }
    }

    fn notify_change(&self, change: Change, meta: Option<&Meta>, via: Option<&Arc<PendingCall>>) {
        let era = self.era();
        self.shared.notify_change(change, era.subscription_id(meta, via), era.pushes_changes());
    }

    /// Waits until the observer, if there is one, can take more messages.
    pub(super) async fn wait_for_observer(&self) {
        if let Some(capacity) =
            self.shared.settings.observer.as_ref().and_then(|observer| observer.wait_for_capacity())
        {
            capacity.await;
        }
    }

    /// Passes a notification to the observer, if there is one.
    fn forward_to_observer(&self, notification: &Notification<'_>, via: Option<i64>) {
        let Some(observer) = &self.shared.settings.observer else { return };
        let params = notification.params();
        let call = match &*notification.method {
            Progress::NAME => match notification_target(params).token {
                // Progress for no pending call is late, or an error of the server.
                Some(token) if self.calls.get(&token).is_some() => token.as_i64(),
                _ => return,
            },
            _ => notification_target(params).subscription.and_then(|id| id.as_i64()).or(via),
        };
        observer.on_notification(&notification.method, notification.params, call);
    }

    /// Records that a web page the user was sent to is complete.
    fn complete_elicitation(&self, id: &str) {
        let mut completed = lock(&self.completed_elicitations);
        if completed.len() >= MAX_COMPLETED_ELICITATIONS {
            completed.remove(0);
        }
        completed.push(id.to_owned());
        drop(completed);
        self.elicitation_notify.notify_waiters();
    }

    /// Waits until the server has reported all of these pages as complete.
    pub(super) async fn wait_for_elicitations(&self, ids: &[String]) {
        loop {
            let notified = self.elicitation_notify.notified();
            let all_complete = {
                let completed = lock(&self.completed_elicitations);
                ids.iter().all(|id| completed.contains(id))
            };
            if all_complete {
                return;
            }
            notified.await;
        }
    }
}

/// The call or subscription that a notification belongs to.
#[derive(Default)]
struct NotificationTarget {
    token: Option<Id<'static>>,
    subscription: Option<Id<'static>>,
}

fn notification_target(params: Raw<'_>) -> NotificationTarget {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NotificationFields {
        #[serde(default)]
        progress_token: Option<RawJson>,
        #[serde(default, rename = "_meta")]
        meta: Option<Meta>,
    }
    let Ok(fields) = params.read::<NotificationFields>() else { return NotificationTarget::default() };
    NotificationTarget {
        token: fields.progress_token.and_then(|token| token.read().ok()),
        subscription: fields.meta.and_then(|meta| meta.subscription_id()),
    }
}

fn read_meta(notification: &Notification<'_>) -> Option<Meta> {
    let params: EmptyParams = notification.params().read().ok()?;
    params.meta
}

/// The number of completed elicitations that are remembered.
const MAX_COMPLETED_ELICITATIONS: usize = 64;
