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
use super::options::Options;
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
        let (start, total) = (Instant::now(), options.timeouts(&self.inner.shared.settings).total_timeout);
        let mut remaining_options: Option<Box<Options>> = None;
        // The last error, if the call is sent again for its key alone.
        let mut keyed_error: Option<ClientError> = None;
        loop {
            let options = remaining_options.as_deref().unwrap_or(options);
            let connection = self.connection_with_timeout(options).await?;
            if let Some(error) = keyed_error.take()
                && !Box::pin(self.confirm_call_key(request.name().unwrap_or_default(), options)).await
            {
                return Err(error);
            }
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
                    if connection.is_still_running(&error, request, options) {
                        let remaining = total.map(|total| total.saturating_sub(start.elapsed()));
                        if remaining.is_none_or(|remaining| remaining > RUNNING_PAUSE) {
                            *earlier_may_have_run = true;
                            Box::pin(tokio::time::sleep(RUNNING_PAUSE)).await;
                            let total_timeout = remaining.map(|remaining| remaining - RUNNING_PAUSE);
                            remaining_options = Some(Box::new(Options { total_timeout, ..options.clone() }));
                            let revision = connection.revision();
                            keyed_error =
                                Some(ClientError::from_error_response(error, request.method(), revision));
                            continue;
                        }
                    }
                    let cause = options.failure_cause.as_ref().and_then(|cause| cause.take());
                    ClientError::from_error_response(error, request.method(), connection.revision())
                        .with_source(cause)
                }
                Err(CallError::Fatal(error)) => error,
                Err(CallError::Disconnected { may_have_run, reason }) => {
                    let harmless = !may_have_run || connection.is_harmless(request, options);
                    let keyed = !harmless && connection.may_be_recognized(request, options);
                    if !(harmless || keyed)
                        || repeats >= MAX_RETRIES
                        || self.inner.closed.load(Ordering::Acquire)
                    {
                        return Err(CallError::Disconnected { may_have_run, reason }.into());
                    }
                    repeats += 1;
                    *earlier_may_have_run |= may_have_run;
                    if keyed {
                        let lost = CallError::Disconnected { may_have_run, reason: reason.clone() };
                        keyed_error = Some(lost.into());
                    }
                    tracing::debug!(
                        method = request.method(),
                        reason,
                        "sending the call again after the connection was lost"
                    );
                    continue;
                }
            };
            match connection.era().recover(&connection, request, &error, &mut attempts) {
                Recovery::Fail => return Err(error),
                Recovery::Resend => {}
                Recovery::RefreshTools => {
                    // The call itself was refused.
                    let refreshed = Box::pin(self.refresh_tools()).await;
                    refreshed.map_err(|error| error.with_may_have_run(false))?;
                }
                Recovery::Renegotiate => {
                    *lock(&self.inner.probe_record) = None;
                    connection.abort("the revision is negotiated again");
                    // The next call finds the right revision. This one was answered, so it may have run.
                    if !connection.is_harmless(request, options)
                        && error.code() != Some(code::UNSUPPORTED_VERSION)
                    {
                        if !connection.may_be_recognized(request, options) {
                            return Err(error);
                        }
                        keyed_error = Some(error.clone());
                    }
                    if self.connection().await?.era() == connection.era() {
                        return Err(error);
                    }
                }
            }
        }
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

    /// Whether the server recognizes a call by its key, if the application allows that the call is sent again.
    pub(super) fn is_recognized(&self, request: &dyn OutboundRequest, options: &Options) -> bool {
        let tool = request.name().unwrap_or_default();
        self.shared.recognizes_key(tool, options) == Some(true)
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

/// How often a call is sent again because its connection was lost.
const MAX_RETRIES: u32 = 2;
/// The time before a call is sent again whose earlier attempt still runs. The server waits for its end, too.
const RUNNING_PAUSE: Duration = Duration::from_millis(500);
