//! Sends a request until it is answered, and decides when it is sent again.
//!
//! A response under the id of a request is its outcome, whatever the HTTP status. Without one, a request is sent again only
//! if the server cannot have processed it, or if running it twice does no harm. The table in `docs/client.md` has a row for
//! each case.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tsugite_core::jsonrpc::{ErrorObject, RawJson};
use tsugite_core::protocol::{KeyFault, Method, tasks, tools};
use tsugite_core::revision::{Revision, code};

use super::Client;
use super::call_error::CallError;
use super::client_error::{ClientError, ErrorKind, Result};
use super::connection::{ClientConnection, OutboundRequest};
use super::era::{Attempts, Recovery};
use super::key_age::KeyAge;
use super::keyed_repeats::KeyedRepeats;
use super::options::Options;
use super::task_failures::PassingFailure;
use crate::lock::lock;

impl Client {
    /// Sends a request until it is answered, as often as sending it again is safe. An error says whether any of the
    /// attempts may have run.
    pub(super) async fn send_with_retry(
        &self,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> Result<(RawJson, Revision)> {
        let mut may_have_run = false;
        let outcome = self.send_attempts(request, options, &mut may_have_run).await;
        outcome.map_err(|error| error.after_attempts(may_have_run))
    }

    /// Sends a request until it is answered. Sets `earlier_may_have_run` when it repeats an attempt that
    /// may have run.
    async fn send_attempts(
        &self,
        request: &dyn OutboundRequest,
        options: &Options,
        earlier_may_have_run: &mut bool,
    ) -> Result<(RawJson, Revision)> {
        let (mut repeats, mut attempts) = (0, Attempts::default());
        let mut keyed = KeyedRepeats::new(options.timeouts(&self.inner.shared.settings).total_timeout);
        let mut remaining_options: Option<Box<Options>> = None;
        loop {
            if keyed.are_active() {
                *earlier_may_have_run = true;
                remaining_options = Some(keyed.remaining_options(options, self));
            }
            let options = remaining_options.as_deref().unwrap_or(options);
            let key_end = self.key_end(request, options);
            let opened = match keyed.are_active() {
                true => Box::pin(self.connection_for_repeat(request, options)).await,
                false => self.connection_with_timeout(options).await.map(Some),
            };
            let connection = match opened {
                Ok(Some(connection)) => connection,
                Ok(None) => return Err(keyed.into_error()),
                Err(error) if keyed.are_active() => {
                    Box::pin(self.wait_for_server(&mut keyed, error, key_end)).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if cursor_has_expired(options, &connection) {
                let reason = "the session ended between two pages of a list; read the list again".to_owned();
                return Err(ErrorKind::ConnectionLost { may_have_run: false, reason }.into());
            }
            let error = match connection.call(request, options).await {
                Ok(Ok(result)) => {
                    self.inner.restarts.record_answer(connection.start_number());
                    connection.take_revision_unverified();
                    if let Some(list) = &options.list_connection {
                        list.record(Arc::downgrade(&connection) as _);
                    }
                    return Ok((result, connection.revision()));
                }
                Ok(Err(error)) => {
                    self.inner.restarts.record_answer(connection.start_number());
                    let still_runs = connection.is_still_running(&error, request, options);
                    let cause = options.failure_cause.as_ref().and_then(|cause| cause.take());
                    let error =
                        ClientError::from_error_response(error, request.method(), connection.revision())
                            .with_source(cause);
                    if still_runs {
                        Box::pin(keyed.wait_for_outcome(error)).await?;
                        continue;
                    }
                    error
                }
                Err(CallError::Fatal(error)) => error,
                Err(CallError::Disconnected { may_have_run, reason }) => {
                    let unknown = may_have_run || *earlier_may_have_run;
                    let harmless = !unknown || connection.is_harmless(request, options);
                    let closed = self.inner.closed.load(Ordering::Acquire);
                    if harmless && repeats < MAX_RETRIES && !closed {
                        repeats += 1;
                        *earlier_may_have_run |= may_have_run;
                        tracing::debug!(
                            method = request.method(),
                            reason,
                            "sending the call again after the connection was lost"
                        );
                        continue;
                    }
                    let lost = CallError::Disconnected { may_have_run, reason }.into();
                    if closed || !unknown || !connection.may_be_recognized(request, options) {
                        return Err(lost);
                    }
                    Box::pin(self.wait_for_server(&mut keyed, lost, key_end)).await?;
                    continue;
                }
            };
            let unknown = error.may_have_run() || keyed.are_active();
            if unknown
                && !error.is_timeout()
                && connection.may_be_recognized(request, options)
                && PassingFailure::from_client_error(&error).is_some()
            {
                Box::pin(self.wait_for_server(&mut keyed, error, key_end)).await?;
                continue;
            }
            match connection.era().recover(&connection, request, &error, &mut attempts) {
                Recovery::Fail => return Err(error),
                Recovery::Resend => {}
                Recovery::RefreshTools => {
                    // The call itself was refused.
                    let refreshed = Box::pin(self.refresh_tools()).await;
                    refreshed.map_err(|error| error.with_may_have_run(false))?;
                }
                Recovery::Renegotiate => {
                    Box::pin(self.renegotiate(&connection, request, options, error, &mut keyed)).await?;
                }
            }
        }
    }

    /// Opens a connection for which the revision is probed again, after a response that the revision may explain. Returns the
    /// error if the call cannot be sent again, or if the revision is the same.
    async fn renegotiate(
        &self,
        connection: &Arc<ClientConnection>,
        request: &dyn OutboundRequest,
        options: &Options,
        error: ClientError,
        keyed: &mut KeyedRepeats,
    ) -> Result<()> {
        *lock(&self.inner.probe_record) = None;
        connection.abort("the revision is negotiated again");
        // The next call finds the right revision. This one was answered, so it may have run.
        if !connection.is_harmless(request, options) && error.code() != Some(code::UNSUPPORTED_VERSION) {
            if !connection.may_be_recognized(request, options) {
                return Err(error);
            }
            keyed.go_on_after(error.clone());
        }
        match self.connection().await?.era() == connection.era() {
            true => Err(error),
            false => Ok(()),
        }
    }

    /// The connection for the next attempt of a call that goes on for its key. `None` if the server does not recognize the key
    /// any more.
    async fn connection_for_repeat(
        &self,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> Result<Option<Arc<ClientConnection>>> {
        let connection = self.connection_with_timeout(options).await?;
        match self.confirm_call_key(request.name().unwrap_or_default(), options).await {
            Ok(true) => Ok(Some(connection)),
            Err(error) if PassingFailure::from_client_error(&error).is_some() => Err(error),
            Ok(false) | Err(_) => Ok(None),
        }
    }

    /// Waits for the server before the next attempt of a call that goes on for its key.
    async fn wait_for_server(
        &self,
        keyed: &mut KeyedRepeats,
        error: ClientError,
        key_end: Option<Instant>,
    ) -> Result<()> {
        // Another version of the server may take over.
        if matches!(error.kind(), ErrorKind::Connect { .. } | ErrorKind::Status { .. }) {
            self.inner.shared.tools.invalidate();
        }
        keyed.wait_for_server(error, key_end).await
    }

    /// When the server may forget the key of a call; `None` if the call is not sent again for one.
    fn key_end(&self, request: &dyn OutboundRequest, options: &Options) -> Option<Instant> {
        let age = options.keyed_since?;
        let known = self.inner.shared.tools.idempotency(request.name()?)?;
        let remaining = Duration::from_millis(known.retention_ms).saturating_sub(age.elapsed());
        Instant::now().checked_add(remaining)
    }
}

/// Whether a page would be requested with the cursor of a session that has ended.
pub(super) fn cursor_has_expired(options: &Options, connection: &Arc<ClientConnection>) -> bool {
    let Some(list) = &options.list_connection else { return false };
    let is_other = || list.differs_from(&(Arc::downgrade(connection) as _));
    !connection.era().cursors_outlive_sessions() && is_other()
}

impl ClientConnection {
    /// Whether an earlier attempt of a call with a key still runs, so that the call gets its outcome when it is sent again. The
    /// application cannot do that: it does not know the key.
    fn is_still_running(
        &self,
        error: &ErrorObject,
        request: &dyn OutboundRequest,
        options: &Options,
    ) -> bool {
        let fault = error.data.as_ref().and_then(KeyFault::from_data);
        fault == Some(KeyFault::Running) && self.may_be_recognized(request, options)
    }

    /// Whether the server recognizes a call by its key while the HTTP endpoint repeats it, if the application allows that the
    /// call is sent again.
    pub(super) fn is_recognized(&self, request: &dyn OutboundRequest, options: &Options) -> bool {
        let tool = request.name().unwrap_or_default();
        let lasts = |age: KeyAge| {
            let retention = self.shared.tools.key_retention(tool).unwrap_or_default();
            age.elapsed().saturating_add(MAX_BUSY_TIME) < retention
        };
        options.keyed_since.is_some_and(lasts)
    }

    /// The same where the list of tools may have to be read first, which a repeat does once the client is connected.
    fn may_be_recognized(&self, request: &dyn OutboundRequest, options: &Options) -> bool {
        let tool = request.name().unwrap_or_default();
        self.shared.recognizes_key(tool, options) != Some(false)
    }

    /// Whether running a request twice does no harm: every method of the specification but those with an effect of their
    /// own, and the tools that the application names. The server's hints count only if the application trusts them.
    pub(super) fn is_harmless(&self, request: &dyn OutboundRequest, options: &Options) -> bool {
        if options.idempotent {
            return true;
        }
        match request.method() {
            tools::Call::NAME => request.name().is_some_and(|name| self.is_harmless_tool(name)),
            tasks::Update::NAME | tasks::Cancel::NAME => false,
            method => tsugite_core::revision::methods().iter().any(|row| row.name == method),
        }
    }

    fn is_harmless_tool(&self, name: &str) -> bool {
        let settings = &self.shared.settings;
        settings.repeatable_tools.iter().any(|known| known == name)
            || settings.trust_tool_hints && self.shared.tools.is_idempotent(name)
    }
}

/// Longer than the HTTP endpoint waits for a busy server.
const MAX_BUSY_TIME: Duration = Duration::from_secs(120);
/// How often a harmless request is sent again because its connection was lost.
const MAX_RETRIES: u32 = 2;
